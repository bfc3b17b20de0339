"""In schema order nothing passes over a required key, whatever else is demanded of the object."""

from __future__ import annotations

import json

import pytest
from jsonschema import Draft202012Validator
from slipcast.grammar import GrammarCompiler, Vocabulary

COMPILER = GrammarCompiler(Vocabulary([*(bytes((byte,)) for byte in range(256)), None], [256]))
NAMED = {"type": "object", "required": ["c"], "properties": {"b": {}, "c": {}, "d": {}}}
TEXTS = ["{}", '{"a":1}', '{"c":1}', '{"c":1,"a":2}', '{"d":1}', '{"b":1}', '{"b":1,"a":2}', '{"a":1,"e":2}']
TEXTS += ['{"b":1,"c":2,"d":3,"a":4}', '{"c":1,"d":"x"}', '{"b":"x","c":1}', '{"c":"x"}']


@pytest.mark.parametrize(
    "schema",
    [
        {"allOf": [NAMED, {"not": {"additionalProperties": False}}]},
        {"allOf": [NAMED, {"not": {"additionalProperties": {"type": "integer"}}}]},
        {"allOf": [NAMED, {"not": {"propertyNames": {"maxLength": 0}}}]},
        {"oneOf": [NAMED, {"additionalProperties": False}], "type": "object"},
        {**NAMED, "minProperties": 2},
        {**NAMED, "maxProperties": 2},
        {**NAMED, "minProperties": 2, "additionalProperties": {"type": "integer"}},
    ],
)
def test_required_keys_are_not_passed_over(schema: dict[str, object]) -> None:
    grammar, validator = COMPILER.json_schema(schema), Draft202012Validator(schema)
    right = {text: validator.is_valid(json.loads(text)) for text in TEXTS}
    assert {text: grammar.accepts(text) for text in TEXTS} == right
    for seed in range(20):
        assert validator.is_valid(json.loads(grammar.sample(seed)))
