"""Pretty printing is what `json.dumps(..., indent=2)` writes, at every depth."""

from __future__ import annotations

import json
from typing import Any

import pytest
from slipcast.grammar import GrammarCompiler, Vocabulary

SCHEMA = {
    "type": "object",
    "properties": {
        "a": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "array", "items": {"enum": [1, [2, 3]]}}},
                "additionalProperties": False,
            },
        },
        "o": {"type": "object"},
    },
}
VALUES = [
    {},
    {"a": []},
    {"a": [{"x": 1}]},
    {"a": [{"x": 1, "y": [1, [2, 3], 1]}, {"y": [[2, 3]]}, {}], "o": {"k": [1, {"l": [[]]}]}},
]


@pytest.mark.parametrize("value", VALUES, ids=json.dumps)
def test_pretty_is_what_json_dumps_writes(value: Any) -> None:
    vocabulary = Vocabulary(tokens=[*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
    grammar = GrammarCompiler(vocabulary).json_schema(SCHEMA, whitespace="pretty")
    assert grammar.accepts(json.dumps(value, indent=2))
    assert not value or not grammar.accepts(json.dumps(value))
