"""Full tables: texts under way go on in new ones, as if nothing had happened."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from slipcast.grammar import GrammarCompiler, Matcher, Vocabulary
from slipcast.grammar.automaton import tables
from slipcast.grammar.errors import FullError

TOKENS: list[bytes | None] = [bytes((i,)) for i in range(256)] + [b'":', b',"', b"true", None]
END = len(TOKENS) - 1
OBJECTS = {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "boolean"}}}


def compiler() -> GrammarCompiler:
    return GrammarCompiler(Vocabulary(TOKENS, eos_ids=[END]))


def mask(matcher: Matcher) -> list[int]:
    row = np.zeros((len(TOKENS) + 31) // 32, np.int32)
    matcher.fill_mask(row)
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()


def texts(count: int) -> list[bytes]:
    """Objects with keys that were never seen before: each is remembered where it may not come again."""
    chance = random.Random(count)
    return [
        b"[" + b",".join(b'{"%s":true,"%s":false}' % (key(chance), key(chance)) for _ in range(4)) + b"]"
        for _ in range(count)
    ]


def key(chance: random.Random) -> bytes:
    return chance.randbytes(20).hex().encode()


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS", tables.DENSE_ROWS + 4000)


@pytest.mark.usefixtures("small")
def test_texts_under_way_outlive_their_tables() -> None:
    """Many at once need more room than there is: masks, ways out, what is forced and rollbacks are as with room."""
    crowd = compiler().json_schema(OBJECTS)
    wanted = texts(8)
    pairs = [(crowd.matcher(), compiler().json_schema(OBJECTS).matcher()) for _ in wanted]
    first = pairs[0][0].level
    ways: list[Any] = [None] * len(pairs)
    for i in range(max(map(len, wanted))):
        for number, (text, (matcher, other)) in enumerate(zip(wanted, pairs, strict=True)):
            if i >= len(text):
                continue
            if i % 7 == number % 7:
                assert mask(matcher) == mask(other)
                assert matcher.forced() == other.forced()
                assert matcher.is_accepting() == other.is_accepting()
                way = ways[number] = matcher.way_out() if ways[number] is None else matcher.way_home(ways[number], 99)
                assert way is not None and crowd.accepts(text[:i] + way.data)
            if i % 50 == 40:
                fork = matcher.fork()
                fork.rollback(30)
                assert all(fork.accept(byte) for byte in text[i - 30 : i])
                matcher.rollback(20)
                assert all(matcher.accept(byte) for byte in text[i - 20 : i])
            assert matcher.accept(text[i]) and other.accept(text[i])
    for matcher, _ in pairs:
        assert matcher.is_accepting() and matcher.accept(END) and matcher.is_terminated()
    assert len({id(matcher.level) for matcher, _ in pairs} | {id(first)}) > 2


@pytest.mark.usefixtures("small")
def test_batches_are_filled_across_levels() -> None:
    made = compiler()
    grammar = made.json_schema(OBJECTS)
    wanted = texts(10)
    matchers = [grammar.matcher() for _ in wanted]
    rows = np.zeros((len(wanted), (len(TOKENS) + 31) // 32), np.int32)
    for i in range(300):
        made.fill_masks(matchers, rows)
        for text, matcher, row in zip(wanted, matchers, rows, strict=True):
            assert row.view(np.uint32)[text[i] >> 5] >> (text[i] & 31) & 1
            assert matcher.accept(text[i])
    assert len({id(matcher.level) for matcher in matchers}) > 1


@pytest.mark.usefixtures("small")
def test_a_text_that_no_tables_hold_is_told_and_loses_nobody_else() -> None:
    grammar = compiler().json_schema(OBJECTS)
    (large,) = texts(1)
    matcher, other = grammar.matcher(), grammar.matcher()
    assert all(other.accept(byte) for byte in large[:-1])
    with pytest.raises(FullError, match="tables are full"):
        for _ in range(200):
            for byte in b"[" + large[1:-1] if not matcher._tokens else b"," + texts_again(matcher):
                assert matcher.accept(byte)
    assert other.accept(large[-1]) and other.is_accepting()
    assert mask(grammar.matcher())


def texts_again(matcher: Matcher) -> bytes:
    """More of the same, new for each length."""
    chance = random.Random(len(matcher._tokens))
    return b'{"%s":true,"%s":false}' % (key(chance), key(chance))
