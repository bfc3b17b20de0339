"""Unions of objects stay as small as what they say, and say the same."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.grammar.algebra.algebra import Algebra
from slipcast.grammar.schema import read

COMPILER = GrammarCompiler(Vocabulary([*(bytes((byte,)) for byte in range(256)), None], [256]))
OPERATORS = [f"op{i}" for i in range(14)]
OPEN = {"oneOf": [{"type": "object", "required": [op], "properties": {op: {"type": "integer"}}} for op in OPERATORS]}
CLOSED = {"oneOf": [{**branch, "additionalProperties": False} for branch in OPEN["oneOf"]]}
PATTERNED = {"oneOf": [{**branch, "patternProperties": {"^x-": {}}} for branch in CLOSED["oneOf"]]}
TYPED = {"oneOf": [{**branch, "additionalProperties": {"type": "string"}} for branch in OPEN["oneOf"]]}


@pytest.mark.parametrize("schema", [OPEN, CLOSED, PATTERNED, TYPED], ids=["open", "closed", "patterned", "typed"])
def test_branches_with_a_required_key_each_are_as_many_alternatives(schema: dict[str, Any]) -> None:
    algebra = Algebra(read(schema))
    assert len(algebra.objects(algebra.root)) == len(OPERATORS)


@pytest.mark.parametrize(
    "schema",
    [
        OPEN,
        CLOSED,
        PATTERNED,
        TYPED,
        {"not": {"required": ["op0", "op1"], "properties": {"op0": {"type": "integer"}, "op1": {"type": "string"}}}},
        {
            "anyOf": [
                {"not": {"required": ["op0"]}},
                {"required": ["op0", "op1"], "properties": {"op0": {"type": "null"}}},
            ]
        },
        {"anyOf": [{"not": {"required": ["op0"]}, "maxProperties": 1}, {"required": ["op0"], "minProperties": 2}]},
        {"oneOf": [{"required": ["op0"]}, {"required": ["op1"]}, {"properties": {"op0": {"type": "string"}}}]},
        {
            "if": {"required": ["op0"], "properties": {"op0": {"type": "string"}}},
            "then": {"required": ["op1"]},
            "else": {"not": {"required": ["op1"]}},
        },
        {"if": {"properties": {"op0": False}}, "then": {"required": ["op0"]}},
        {"anyOf": [{"required": ["op0"], "properties": {"op0": False}}, {"required": ["op1"]}]},
    ],
)
def test_they_allow_the_same_objects(schema: dict[str, Any]) -> None:
    schema = {"type": "object", **schema}
    grammar, validator = COMPILER.json_schema(schema, order="any"), Draft202012Validator(schema)
    for values in product((..., 1, "a", None), repeat=3):
        members = zip(("op0", "op1", "x-a"), values, strict=True)
        value = {name: member for name, member in members if member is not ...}
        assert grammar.accepts(json.dumps(value)) is validator.is_valid(value), value
    for seed in range(10):
        assert validator.is_valid(json.loads(grammar.sample(seed)))
