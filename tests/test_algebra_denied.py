"""Exclusions and implications beside each other: followed together where as alternatives they would multiply."""

from __future__ import annotations

import json
import random
from itertools import combinations, product
from typing import Any

import jsonschema
import numpy as np
import pytest
from slipcast.grammar import GrammarCompiler, UnsatisfiableError, Vocabulary
from slipcast.grammar.algebra import containers

VOCABULARY = Vocabulary(tokens=[bytes((i,)) for i in range(256)] + [None], eos_ids=[256])
INTEGER, STRING = {"type": "integer"}, {"type": "string"}
OPEN = [
    {
        "type": "object",
        "properties": {"id": INTEGER, **{f"f{k}_{j}": [STRING, INTEGER, {"type": "boolean"}][j] for j in range(3)}},
        "required": ["id", f"f{k}_0"],
    }
    for k in range(10)
]
CLOSED = [
    {
        "type": "object",
        "properties": {"id": INTEGER, f"a{k}": STRING, f"b{k}": STRING},
        "minProperties": 2,
        "additionalProperties": False,
    }
    for k in range(20)
]
FLAGS: dict[str, Any] = {
    "type": "object",
    "properties": {f"{kind}{k}": True for kind in "fd" for k in range(20)},
    "allOf": [
        {"if": {"properties": {f"f{k}": {"const": True}}, "required": [f"f{k}"]}, "then": {"required": [f"d{k}"]}}
        for k in range(20)
    ],
}
PAIRS = {"type": "object", "dependentRequired": {f"a{k}": [f"b{k}"] for k in range(30)}}


def valid_from_everywhere(grammar: Any, schema: Any, text: bytes, steps: int) -> None:
    """The text is taken byte by byte; from every so manieth place the way out leads to a valid value."""
    validator = jsonschema.Draft202012Validator(schema)
    matcher, row = grammar.matcher(), np.zeros(VOCABULARY.words, np.int32)
    for i, byte in enumerate(text):
        matcher.fill_mask(row)
        assert row[byte >> 5] >> (byte & 31) & 1
        assert matcher.accept(byte)
        if i % steps == 0:
            assert validator.is_valid(json.loads(text[: i + 1] + matcher.way_out().data))
    assert matcher.is_accepting()


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (
            {"type": "array", "items": {"oneOf": OPEN}},
            [{"id": 4, f"f{k}_0": "s", f"f{k}_1": 1, "more": None} for k in range(10)],
            [{"id": 4}, {"id": 4, "f0_0": "s", "f1_0": "s"}, {"id": 4, "f0_0": "s", "f0_2": 1}],
        ),
        (
            {"type": "array", "items": {"oneOf": CLOSED}},
            [{"id": 4, f"b{k}": "s"} for k in range(20)],
            [{"id": 4}, {"a3": "s"}, {"a3": "s", "b4": "s"}],
        ),
    ],
    ids=["open", "closed"],
)
def test_one_of_many_branches(schema: Any, good: list[Any], bad: list[Any], order: Any) -> None:
    """These compiled, and failed at the first mask inside the array."""
    grammar = GrammarCompiler(VOCABULARY).json_schema(schema, order=order)
    valid_from_everywhere(grammar, schema, json.dumps(good).encode(), 17)
    for value in bad:
        assert not grammar.accepts(json.dumps([*good, value]))


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize(("schema", "one", "other"), [(FLAGS, "f", "d"), (PAIRS, "a", "b")], ids=["if", "dependent"])
def test_many_conditions_that_are_independent(schema: Any, one: str, other: str, order: Any) -> None:
    grammar = GrammarCompiler(VOCABULARY).json_schema(schema, order=order)
    chosen = range(0, 20, 3)
    value = {f"{one}{k}": True for k in chosen} | {f"{other}{k}": 1 for k in chosen}
    valid_from_everywhere(grammar, schema, json.dumps(value).encode(), 13)
    for k in chosen:
        assert not grammar.accepts(json.dumps({key: v for key, v in value.items() if key != f"{other}{k}"}))


VALUES = [..., 1, 2, "x", {"a": 1}]
PARTS: list[Any] = [
    {"properties": {"a": INTEGER}, "required": ["a"]},
    {"properties": {"a": {"const": 1}, "b": STRING}},
    {"required": ["b", "z"]},
    {"properties": {"b": {"enum": [1, 2]}}, "additionalProperties": False},
    {"patternProperties": {"^[ab]": INTEGER}, "maxProperties": 1},
    {"properties": {"a": {"required": ["a"], "type": "object"}}, "minProperties": 2},
    {"required": ["a"], "additionalProperties": INTEGER},
    {"propertyNames": {"pattern": "^[az]"}},
]


@pytest.mark.parametrize("order", ["schema", "any"])
def test_they_mean_what_the_alternatives_mean(order: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(containers, "MANY", 1)
    compiler, chance = GrammarCompiler(VOCABULARY), random.Random(order)
    rows = product(VALUES, repeat=3)
    values = [{name: value for name, value in zip("abz", row, strict=True) if value is not ...} for row in rows]
    for left, right in combinations(PARTS, 2):
        third, base = chance.choice(PARTS), chance.choice(PARTS)
        schema: dict[str, Any] = {
            "type": "object",
            **base,
            **chance.choice(
                [
                    {"oneOf": [left, right, third]},
                    {"not": {"anyOf": [left, right]}},
                    {"allOf": [{"if": left, "then": right}, {"if": third, "then": left}]},
                    {"allOf": [{"anyOf": [left, right]}, {"oneOf": [third, left]}]},
                ]
            ),
        }
        validator = jsonschema.Draft202012Validator(schema)
        expected = [validator.is_valid(value) for value in values]
        try:
            grammar = compiler.json_schema(schema, order=order)
        except UnsatisfiableError:
            assert not any(expected)
            continue
        if order == "any":
            assert [grammar.accepts(json.dumps(value)) for value in values] == expected, schema
        else:  # keys may have to come in another order
            invalid = [value for value, valid in zip(values, expected, strict=True) if not valid]
            assert not any(grammar.accepts(json.dumps(value)) for value in invalid)
        for text in [grammar.shortest.decode(), *(grammar.sample(seed) for seed in range(3))]:
            assert validator.is_valid(json.loads(text)), (schema, text)
