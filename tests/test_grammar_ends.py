"""Ways out where what ends a container soonest is not what the container around waits for."""

from __future__ import annotations

import json
import random
from typing import Any

import jsonschema
import numpy as np
import pytest
from slipcast.grammar import GrammarCompiler, Vocabulary

COMPILER = GrammarCompiler(Vocabulary(tokens=[bytes((i,)) for i in range(256)] + [None], eos_ids=[256]))
ELEVENS = {"type": "number", "multipleOf": 11, "minimum": 100}
HAS_AB = {"required": ["a", "b"]}

SCHEMAS: list[Any] = [
    {"type": "array", "items": {"type": "array"}, "contains": {"contains": {"const": 42}}},
    {"type": "array", "contains": {"type": "array", "contains": {"type": "array", "contains": {"const": 42}}}},
    {"type": "array", "minContains": 2, "contains": {"type": "array", "minContains": 2, "contains": {"const": 42}}},
    {
        "type": "array",
        "oneOf": [
            {"items": {"type": "array", "contains": ELEVENS}, "contains": {"type": "array", "items": ELEVENS}},
            {"items": {"type": "array", "items": {"type": "number"}}, "contains": {"contains": ELEVENS}},
        ],
    },
    {"type": "object", "properties": {"b": {"type": "integer"}}, "required": ["b"], "minProperties": 2},
    {"type": "object", "properties": {"a": False, "b": True, "c": True}, "required": ["b"], "minProperties": 4},
    {"type": "object", "not": {"additionalProperties": {"not": {"required": ["long", "longer"]}}}},
    {"type": "object", "not": {"additionalProperties": {"not": {"properties": {"a": False}, "required": ["b"]}}}},
    {"type": "array", "contains": HAS_AB, "items": {"type": "object", "additionalProperties": {"type": "array"}}},
    {"type": "array", "prefixItems": [{"anyOf": [{"type": "array"}, {"const": 1}]}], "not": {"items": {"maxItems": 2}}},
    {  # a tree whose leaves are empty; every other node has two children or more
        "$ref": "#/$defs/t",
        "$defs": {
            "t": {
                "type": "array",
                "items": {"$ref": "#/$defs/t"},
                "anyOf": [{"maxItems": 0}, {"minItems": 2}],
            }
        },
        "minItems": 1,
        "maxItems": 3,
    },
    {"type": "array", "allOf": [{"contains": {"const": i}} for i in range(24)]},
    {"type": "array", "allOf": [{"contains": {"minimum": i, "type": "integer"}, "minContains": 2} for i in range(5)]},
    {"type": "array", "contains": {"type": "string", "pattern": "^abc"}, "items": {"type": "string"}, "maxContains": 1},
]


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("number", range(len(SCHEMAS)))
def test_from_everywhere_there_is_a_way_to_a_valid_end(number: int, order: str) -> None:
    schema = SCHEMAS[number]
    grammar = COMPILER.json_schema(schema, order=order)
    validator = jsonschema.Draft202012Validator(schema)
    row = np.zeros(COMPILER.vocabulary.words, np.int32)
    for seed in range(12):
        chance = random.Random(seed)
        matcher = grammar.matcher()
        text = bytearray()
        for _ in range(chance.choice((0, 2, 5, 12, 40))):
            matcher.fill_mask(row)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
            # Brackets more often than chance has them: it is containers inside containers that are tried.
            brackets = [token for token in allowed if token in tuple(b"[]{},")] if chance.random() < 0.7 else []
            token = chance.choice(brackets or allowed)
            if token == 256:
                break
            assert matcher.accept(token)
            text.append(token)
        else:
            left = matcher.closing()
            assert matcher.distance() == len(left)
            assert all(map(matcher.accept, left))
            text += bytes(left)
        assert matcher.is_accepting()
        assert validator.is_valid(json.loads(text)), text
