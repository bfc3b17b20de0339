"""Masks against brute force: a bit is set if and only if the matcher takes the token."""

from __future__ import annotations

import random
import re
from itertools import product
from typing import Any

import numpy as np
import pytest
from slipcast.grammar import GrammarCompiler
from slipcast.grammar.automaton.stepper import Configuration, ends, run
from slipcast.grammar.tokens import Matcher, TokenLevel, Vocabulary
from tokens_machines import Machine, RandomArena, bits, random_tokens, spelled


def allowed_by_force(level: TokenLevel, at: Configuration) -> set[int]:
    """What the byte automaton's own stepper says of every token."""
    vocabulary = level.vocabulary
    found = {i for i, t in enumerate(vocabulary.tokens) if t and run(level.tables, at, t) is not None}
    return found | set(vocabulary.eos_ids) if ends(level.tables, at) else found


def mask_of(matcher: Matcher, level: TokenLevel) -> set[int]:
    row = np.full(level.vocabulary.words, -1, np.int32)
    matcher.fill_mask(row)
    return bits(row, level.vocabulary.size)


def walk(level: TokenLevel, machine: Machine, chance: random.Random, steps: int) -> None:
    """A random walk; at each place the mask is asked for twice (sparse, then dense) and compared."""
    matcher = level.matcher(machine)
    scopes = int(level.tables.scopes[machine.start_frame])
    at = Configuration(machine.start_row, machine.start_frame, 0, (b"",) * scopes)
    for _ in range(steps):
        expected = allowed_by_force(level, at)
        for _ in range(chance.choice((1, 2, 3))):
            found = mask_of(matcher, level)
            tokens = level.vocabulary.tokens
            assert found == expected, (spelled(tokens, found - expected), spelled(tokens, expected - found), at)
        refused = sorted(set(range(level.vocabulary.size)) - expected)
        for token in chance.sample(refused, min(len(refused), 20)):
            assert not matcher.accept(token)
        if not expected:
            break
        token = chance.choice(sorted(expected))
        assert matcher.accept(token)
        if token in level.vocabulary.eos_ids:
            assert matcher.is_terminated()
            assert mask_of(matcher, level) == set()
            break
        data = level.vocabulary.tokens[token]
        assert data is not None
        following = run(level.tables, at, data)
        assert following is not None
        at = following


@pytest.mark.parametrize("seed", range(60))
def test_masks_of_random_automata_are_what_the_stepper_takes(seed: int) -> None:
    alphabet = b"ab0 ,\xc3\xa9\xe2\x82"
    chance = random.Random(seed)
    arena = RandomArena(seed, alphabet, row_count=chance.choice((4, 8, 14, 30)))
    tokens = random_tokens(seed, alphabet)
    vocabulary = Vocabulary([*tokens, None, None], eos_ids=[len(tokens), 7], size=len(tokens) + 40)
    level = TokenLevel(vocabulary, arena.tables, budget=chance.choice((0, 1 << 20)))
    for _ in range(8):
        walk(level, arena.machine(), chance, 12)


SCHEMAS: dict[str, Any] = {
    "counters": {"type": "object", "properties": {"s": {"type": "string", "minLength": 2, "maxLength": 5}}},
    "patterns": {"type": "array", "items": {"type": "string", "pattern": "^[a-c]{2,4}$|é+"}},
    "search": {"type": "string", "pattern": "ab", "maxLength": 6},
    "enums": {"anyOf": [{"enum": ["a", "ab", "b\\n", 1, 12, None]}, {"type": "string", "maxLength": 3}]},
    "numbers": {"type": "array", "items": {"type": "number", "minimum": -2.5, "maximum": 120}},
    "keys": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "ab": {"const": "b"}, "é": {}},
        "required": ["ab"],
    },
    "closed": {"type": "object", "properties": {"a": {"type": "integer"}, "b": True}, "additionalProperties": False},
    "pattern keys": {"patternProperties": {"^a": {"type": "integer"}, "b$": {"type": "string"}}, "type": "object"},
    "many keys": {"type": "object", "properties": {c + d: {"type": "null"} for c in "abcdefgh" for d in "12345678a"}},
    "unique": {"type": "array", "items": {"enum": ["a", "b", 1, 2, [1]]}, "uniqueItems": True},
    "counted": {"type": "object", "minProperties": 2, "maxProperties": 3, "additionalProperties": {"type": "integer"}},
    "anything": True,
}


def json_vocabulary(seed: int, count: int = 700) -> Vocabulary:
    """All bytes, runs of white space, and pieces cut out of JSON texts."""
    chance = random.Random(seed)
    texts = ['{"a": 12, "ab": "b",\n  "é": [1, true, null, -2.5]}', '["ab", "aé", {"b1": null}]', "[119.5,-0.25,120]"]
    texts += ['{"xb":"ab\\n","a":{}}', '[ "a" ,\t"b" ,\r\n[1 ] ]', '"\\u00e9 ab"', '{"a1":null,"h8":null, "ha":null}']
    pieces = {bytes((byte,)) for byte in range(256)}
    while len(pieces) < count:
        data = chance.choice(texts).encode()
        start = chance.randrange(len(data))
        piece = data[start : start + chance.randint(2, 9)]
        pieces.add(bytes(chance.choices(b" \n\t", k=chance.randint(0, 9))) + piece if chance.random() < 0.3 else piece)
    tokens: list[bytes | None] = sorted(pieces)
    chance.shuffle(tokens)
    return Vocabulary([*tokens, tokens[5], None], eos_ids=[count + 1], size=count + 3)


@pytest.mark.parametrize("name", SCHEMAS)
@pytest.mark.parametrize("options", [{}, {"order": "any", "spelling": "any", "whitespace": "spaced"}], ids=["", "any"])
def test_masks_of_schemas_are_what_the_stepper_takes(name: str, options: Any) -> None:
    vocabulary = json_vocabulary(len(name))
    compiler = GrammarCompiler(vocabulary)
    chance = random.Random(name)
    grammar = compiler.json_schema(SCHEMAS[name], **options)
    for _ in range(4):
        matcher = grammar.matcher()
        walk(matcher.level, matcher._automaton, chance, 14)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["keys", "closed", "pattern keys", "many keys", "numbers"])
def test_parts_of_rows_that_were_much_work_keep_what_the_frame_filters(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slipcast.grammar.tokens.masks._EFFORT", 0)
    compiler = GrammarCompiler(json_vocabulary(7))
    chance = random.Random(name)
    for schema in (SCHEMAS[name], {"type": "array", "items": SCHEMAS[name]}):
        matcher = compiler.json_schema(schema).matcher()
        for _ in range(3):
            walk(matcher.level, matcher._automaton, chance, 14)  # type: ignore[arg-type]


def test_a_row_inside_a_character_earns_a_part_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the summary of a row says of the time after the character, only bytes that go on with it are allowed."""
    monkeypatch.setattr("slipcast.grammar.tokens.masks._EFFORT", 0)
    words = [b"ab", b"(des", b" thumb", "\u662f".encode(), b"\xb3a", b"\xb3\xb3", b"\xb3\xb3x", b"\xeb\xb3", b'\xb3"']
    tokens = [bytes((byte,)) for byte in range(256)] + words
    vocabulary = Vocabulary(tokens=[*tokens, None], eos_ids=[len(tokens)])
    grammar = GrammarCompiler(vocabulary).json_schema({"type": "array", "items": {"type": "string"}})
    matcher = grammar.matcher()
    for byte in b'["\xea\xb3\xb3","\xf0\x9f\x98\x80\xea\xb3\xb3z","\xea\xb3\xb3"]':
        row = np.zeros(vocabulary.words, np.int32)
        matcher.fill_mask(row)
        allowed = {token for token in range(len(tokens)) if row[token >> 5] >> (token & 31) & 1}
        taken = set()
        for token in range(len(tokens)):
            if matcher.accept(token):
                matcher.rollback(1)
                taken.add(token)
        assert allowed == taken
        assert matcher.accept(byte)


COUNTED = ["[aé€]{0,4}", "a[é€]{0,3}", "(a|é.)[aé]{0,3}", "[aé]{1,3}(€a)?", "é{2,5}", "(aé){0,2}€{0,2}"]


@pytest.mark.parametrize("pattern", COUNTED)
def test_counted_patterns_end_where_they_should(pattern: str) -> None:
    tokens = [bytes((byte,)) for byte in range(256)] + [text.encode() for text in ("aé", "éé€", "€€", "aaaa", "é€aé€")]
    vocabulary = Vocabulary([*tokens, None], eos_ids=[len(tokens)])
    grammar = GrammarCompiler(vocabulary).regex(pattern)
    for size in range(7):
        for letters in product("aé€", repeat=size):
            text = "".join(letters)
            assert grammar.accepts(text) is (re.fullmatch(pattern, text) is not None), text
    chance = random.Random(pattern)
    for _ in range(20):
        matcher = grammar.matcher()
        walk(matcher.level, matcher._automaton, chance, 12)  # type: ignore[arg-type]
        matcher, read = grammar.matcher(), b""
        while allowed := sorted(mask_of(matcher, matcher.level) - {len(tokens)}):
            assert re.fullmatch(pattern, (read + matcher.way_out().data).decode())
            token = chance.choice(allowed)
            assert matcher.accept(token)
            read += tokens[token]
        assert matcher.is_accepting()
