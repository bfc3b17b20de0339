"""Long strings: masks are shared by counts that make no difference, and plain tokens are stepped over at once."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from slipcast.grammar import GrammarCompiler, Matcher, Vocabulary
from slipcast.grammar.automaton.codes import BIG
from slipcast.grammar.automaton.stepper import run

TEXTS = ["a", "b", "ab", "abba" * 4, "é", "éa", "😀", " ", "x" * 255, "x" * 300, "]", "}", ",", '"', "\\", '\\"', 'a"']
TOKENS = [text.encode() for text in TEXTS] + [b"\xc3", b"a\xc3", b"\xa9", b"\x7f", b"\n", b"["]
END = len(TOKENS)
SCHEMAS: dict[str, Any] = {
    "free": {"type": "string"},
    "bounded": {"type": "string", "maxLength": 400},
    "long": {"type": "string", "minLength": 3, "maxLength": 1000},
    "at least": {"type": "string", "minLength": 30},
    "pattern": {"type": "string", "pattern": "^[^b]*$", "maxLength": 40},
    "search": {"type": "string", "pattern": "ab"},
    "recorded": {"type": "array", "items": {"type": "string", "maxLength": 300}, "uniqueItems": True},
}


def vocabulary() -> Vocabulary:
    return Vocabulary([*TOKENS, None], eos_ids=[END])


def test_how_many_characters_plain_tokens_have() -> None:
    characters = dict(zip(TOKENS, vocabulary().plain_characters, strict=False))
    plain = [text for text in TEXTS if not set(text) & {'"', "\\", "😀"}]  # some lead bytes are left to the automaton
    expected = {text.encode(): len(text) for text in [*plain, "["] if len(text) < 256}
    assert {token: count for token, count in characters.items() if count} == expected


@pytest.mark.parametrize("name", SCHEMAS)
def test_tokens_lead_where_their_bytes_lead(name: str) -> None:
    chance = random.Random(name)
    for _ in range(40):
        matcher: Matcher = GrammarCompiler(vocabulary()).json_schema(SCHEMAS[name]).matcher()
        tables = matcher.level.tables
        row = np.zeros(matcher.level.vocabulary.words, np.int32)
        for _ in range(12):
            matcher.fill_mask(row)
            at = matcher._state.configuration
            allowed = [token for token in range(END) if row[token >> 5] >> (token & 31) & 1]
            assert allowed == [token for token in range(END) if run(tables, at, TOKENS[token]) is not None]
            if not allowed:
                break
            token = chance.choice(allowed)
            expected = run(tables, at, TOKENS[token])
            assert expected is not None and matcher.accept(token)
            if tables.high[expected.frame] == BIG:  # beyond the lower bound the count is of no interest
                expected = expected._replace(length=min(expected.length, int(tables.low[expected.frame])))
            assert matcher._state.configuration == expected


def test_counts_that_make_no_difference_share_a_mask() -> None:
    matcher = GrammarCompiler(vocabulary()).json_schema({"type": "string", "maxLength": 100_000}).matcher()
    row = np.zeros(matcher.level.vocabulary.words, np.int32)
    assert matcher.accept(TEXTS.index('"'))
    for _ in range(200):
        matcher.fill_mask(row)
        assert matcher.accept(TEXTS.index("ab"))
    assert matcher.level.statistics()["masks_computed"] < 10
