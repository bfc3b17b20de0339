"""Which part of the schema is in force, asked of a matcher after each byte."""

from __future__ import annotations

from itertools import groupby

import pytest
from slipcast.grammar import GrammarCompiler, Vocabulary

VOCABULARY = Vocabulary([*(bytes((byte,)) for byte in range(256)), None], [256])
HOME = {"type": "object", "properties": {"zip": {"type": "integer"}}, "required": ["zip"]}


def pointers(schema: object, text: str) -> list[tuple[str | None, str]]:
    """Runs of the text with the pointer in force before each of their bytes."""
    matcher = GrammarCompiler(VOCABULARY).json_schema(schema, whitespace="compact").matcher()
    told = []
    for byte in text.encode():
        told.append((matcher.pointer(), chr(byte)))
        assert matcher.accept(byte)
    return [(place, "".join(char for _, char in run)) for place, run in groupby(told, key=lambda pair: pair[0])]


def test_objects_arrays_and_references():
    schema = {
        "type": "object",
        "properties": {"n/a": {"type": "string"}, "home": {"$ref": "#/$defs/p"}, "l": {"type": "array", "items": HOME}},
        "required": ["n/a", "home", "l"],
        "$defs": {"p": {**HOME, "properties": {"zip": {"maximum": 9, "type": "integer"}}}},
    }
    assert pointers(schema, '{"n/a":"a","home":{"zip":1},"l":[{"zip":2}]}') == [
        ("", '{"n/a":'), ("/properties/n~1a", '"a"'), ("", ',"home":'), ("/$defs/p", '{"zip":'),
        ("/$defs/p/properties/zip", "1}"), ("", ',"l":'), ("/properties/l", "["), ("/properties/l/items", '{"zip":'),
        ("/properties/l/items/properties/zip", "2}"), ("/properties/l", "]"), ("", "}"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "text", "first"),
    [
        ({"anyOf": [{"type": "integer"}, {"maxLength": 3, "type": "string"}]}, "12", ""),
        (True, "12", None),
        ({"allOf": [{"minimum": 1}, {"maximum": 5}], "type": "integer"}, "3", ""),
    ],
)
def test_alternatives_conjunctions_and_anything(schema, text, first):
    assert pointers(schema, text)[0][0] == first


def test_none_without_a_schema_or_after_the_end():
    compiler = GrammarCompiler(VOCABULARY)
    assert compiler.regex("ab").matcher().pointer() is None
    matcher = compiler.json_schema({"const": 1}).matcher()
    assert matcher.pointer() == ""
    assert matcher.accept(ord("1")) and matcher.accept(256) and matcher.pointer() is None
