"""Masks of schemas against brute force, with tokens that read several keys and items at once."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from slipcast.grammar import CompiledGrammar, GrammarCompiler, GrammarError, Vocabulary
from slipcast.grammar.automaton.stepper import ends, run

PIECES = (
    '{"', "{", "}", '"', "a", "b", "ab", "x", "aaa", "\\u00e9", "é", " ", "1", "2", ",", ',"', '":', '":1', '":1,"',
    '": 1, "', 'a":1,"a', 'a":1,"', 'b":1,"b', 'aa":1,"a', 'a":1,"a":', '":1,"a":1', '":1,"b":1,"a', '":1,"aa"',
    'x":1,"x":1}', "1}", '":1}', '""', '":1,"":', '":{"a":1},"a', '":[1],"a', "[", "]", "[1", "1,", "1,1", "1,2,1",
    ",1]", '["a', '","a', '"]', "[[1],[1", "],[", "},{", '[{"a":1', "true", "true,true", "[true,", "1.0,1", "0,-0",
    "1]",
)  # fmt: skip
PATTERNS = ("^a", "^a+$", "^[ab]{2}$", "b$", "^x.*y$", "^(a|b)$", "^x", "^[^x]*$", "a", "^.{0,2}$", "^[ab]{3,12}$")
NAMES = ("a", "aa", "b", "x", "xy", "é")


def an_object(chance: random.Random) -> dict[str, Any]:
    values: tuple[Any, ...] = (True, {"type": "integer"}, {"type": ["integer", "object"]})
    schema: dict[str, Any] = {"type": "object"}
    if chance.random() < 0.8:
        schema["patternProperties"] = {p: chance.choice(values) for p in chance.sample(PATTERNS, chance.randint(1, 2))}
    if chance.random() < 0.6:
        schema["additionalProperties"] = chance.choice((False, False, {"type": "integer"}, True))
    if chance.random() < 0.5:
        schema["properties"] = {name: chance.choice(values) for name in chance.sample(NAMES, chance.randint(1, 3))}
    more: list[tuple[str, float, Any]] = [
        ("required", 0.3, [chance.choice(NAMES)]),
        ("propertyNames", 0.2, {"pattern": chance.choice(PATTERNS)}),
        ("maxProperties", 0.2, chance.randint(1, 4)),
        ("minProperties", 0.15, chance.randint(1, 3)),
    ]
    return schema | {keyword: value for keyword, likely, value in more if chance.random() < likely}


def an_array(chance: random.Random) -> dict[str, Any]:
    items: tuple[Any, ...] = (
        True, {"type": "integer"}, {"enum": [1, 2, "a", True]}, {"type": "string", "maxLength": 2}, {"type": "number"},
        {"type": "boolean"}, {"type": "array", "items": {"enum": [1, 2]}}, {"type": ["integer", "object"]},
    )  # fmt: skip
    schema: dict[str, Any] = {"type": "array", "items": chance.choice(items)}
    more: list[tuple[str, float, Any]] = [
        ("uniqueItems", 0.8, True),
        ("contains", 0.3, chance.choice(items)),
        ("minItems", 0.3, chance.randint(1, 3)),
        ("maxItems", 0.3, chance.randint(2, 4)),
        ("prefixItems", 0.2, [chance.choice(items)]),
    ]
    return schema | {keyword: value for keyword, likely, value in more if chance.random() < likely}


def agrees(grammar: CompiledGrammar, vocabulary: Vocabulary, chance: random.Random) -> None:
    """A random walk; at each place the mask is what the byte automaton says of every token."""
    tables, at, matcher = grammar._automaton.tables, grammar._automaton.start, grammar.matcher()
    tokens, eos = vocabulary.tokens, vocabulary.eos_ids[0]
    row = np.zeros(vocabulary.words, np.int32)
    for _ in range(12):
        after = {i: end for i, token in enumerate(tokens) if token and (end := run(tables, at, token)) is not None}
        matcher.fill_mask(row)
        found = set(np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist())
        expected = {*after, eos} if ends(tables, at) else set(after)
        differs = [tokens[i] or "EOS" for i in found ^ expected]
        assert found == expected, (differs[:5], at.texts)
        assert expected
        wide = [i for i in after if len(tokens[i] or b"") > 1] if chance.random() < 0.8 else []
        if not after:
            break
        token = chance.choice(wide or list(after))
        assert matcher.accept(token)
        at = after[token]


@pytest.mark.parametrize("seed", range(24))
def test_masks_are_what_the_bytes_allow(seed: int) -> None:
    chance = random.Random(seed)
    joined = ("".join(chance.choices(PIECES, k=chance.randint(2, 4))) for _ in range(80))
    texts = dict.fromkeys([*PIECES, *joined, *map(chr, range(128))])
    tokens: list[bytes | None] = [text.encode() for text in texts]
    vocabulary = Vocabulary(tokens=[*tokens, None], eos_ids=[len(tokens)])
    compiler = GrammarCompiler(vocabulary)
    kind = chance.choice((an_object, an_array))
    schema = {"anyOf": [kind(chance), kind(chance)]} if chance.random() < 0.3 else kind(chance)
    options: dict[str, Any] = {
        "order": chance.choice(("any", "schema")),
        "whitespace": chance.choice(("bounded", "compact", "spaced", "pretty")),
        "spelling": chance.choice(("natural", "any")),
    }
    try:
        grammar = compiler.json_schema(schema, **options)
    except GrammarError:
        return
    for _ in range(3):
        try:
            agrees(grammar, vocabulary, chance)
        except AssertionError as error:
            raise AssertionError(json.dumps(schema), options, *error.args) from None
