"""The report: what became of each keyword, and what may surprise."""

from __future__ import annotations

import pytest
from slipcast.grammar.schema import Advice, Entry, openai_strict, read


def test_every_keyword_is_listed_with_its_status() -> None:
    schema = {
        "title": "T",
        "type": "object",
        "properties": {"a": {"type": "string", "format": "nonsense"}, "b": {"$ref": "#/$defs/b"}},
        "then": {},
        "x-mine": 1,
        "$defs": {"b": {"minimum": 1}, "unused": {"type": "string"}},
    }
    assert read(schema).report().entries == (
        Entry("/title", "title", "annotation"),
        Entry("/type", "type", "enforced"),
        Entry("/properties", "properties", "enforced"),
        Entry("/properties/a/type", "type", "enforced"),
        Entry("/properties/a/format", "format", "annotation", "the format 'nonsense' is unknown"),
        Entry("/properties/b/$ref", "$ref", "enforced"),
        Entry("/then", "then", "annotation", "there is no if beside it"),
        Entry("/x-mine", "x-mine", "annotation", "no keyword of draft 2020-12"),
        Entry("/$defs", "$defs", "annotation", "read where it is referred to"),
        Entry("/$defs/b/minimum", "minimum", "enforced"),
    )


ADVICE = [
    ({"type": "string", "nullable": True}, "/nullable", "allow null"),
    ({"patern": "a"}, "/patern", "did you mean 'pattern'?"),
    ({"minlength": 1}, "/minlength", "did you mean 'minLength'?"),
    ({"dependencies": {}}, "/dependencies", "belongs to draft 7, 6, 4"),
    ({"format": "nonsense"}, "/format", "nothing is enforced"),
    ({"pattern": "^a"}, "/pattern", "without $"),
    ({"type": "string", "minimum": 1}, "/minimum", "type excludes every number"),
    ({"type": "object"}, "/type", "declare properties"),
    ({"type": "array"}, "/type", "say items"),
    ({"properties": {"a": {}}, "required": ["b"]}, "/required", "'b' is required but not declared"),
    (
        {"$ref": "#/definitions/a", "minLength": 1, "definitions": {"a": {}}},
        "/minLength",
        "ignored beside $ref in draft 7",
    ),
]


@pytest.mark.parametrize(("schema", "pointer", "part"), ADVICE, ids=[case[1] + case[2][:20] for case in ADVICE])
def test_advice(schema: dict, pointer: str, part: str) -> None:
    dialect = "7" if "$ref" in schema else None
    advice = read(schema, dialect=dialect).report().advice
    assert [each.pointer for each in advice] == [pointer]
    assert part in advice[0].message


def test_a_plain_schema_needs_no_advice() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "string", "pattern": "^a$", "format": "uuid"},
            "b": {"type": "array", "items": {}},
        },
        "required": ["a"],
        "x-vendor": 1,
        "$comment": "c",
    }
    assert read(schema).report().advice == ()


def test_a_definition_read_in_two_scopes_is_listed_once() -> None:
    schema = {
        "$id": "https://example.com/",
        "properties": {"a": {"$id": "a", "$dynamicAnchor": "x", "$ref": "/b"}, "b": {"$ref": "/b"}},
        "$defs": {"b": {"$id": "b", "$dynamicAnchor": "x", "minimum": 1}},
    }
    entries = read(schema).report().entries
    assert len(read(schema).definitions) == 3
    assert len({entry.pointer for entry in entries}) == len(entries)


def test_openai_strict_subset() -> None:
    good = {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}]}, "b": {"$ref": "#/$defs/b"}},
        "required": ["a", "b"],
        "additionalProperties": False,
        "$defs": {"b": {"type": "array", "items": {"enum": [1, 2]}}},
    }
    assert openai_strict(good) == ()
    bad = {
        "type": "object",
        "properties": {"a": {"allOf": [{"type": "object", "properties": {}}]}, "b": {"format": "uri"}},
        "required": ["b"],
        "additionalProperties": False,
    }
    assert openai_strict(bad) == (
        Advice("/properties/a", "required", "every property must be in required"),
        Advice("/properties/a/allOf", "allOf", "is not supported"),
        Advice("/properties/b/format", "format", "the format 'uri' is not supported"),
        Advice("/properties/a/allOf/0/additionalProperties", "additionalProperties", "must be false in every object"),
    )
    assert openai_strict({"anyOf": [{"type": "object"}]})[0] == Advice(
        "", "type", "the root must have type 'object' and no anyOf"
    )
    assert openai_strict([])[0].message == "the root must be an object schema"
    many = {
        "type": "object",
        "properties": {"a": {"enum": list(range(1001))}},
        "required": ["a"],
        "additionalProperties": False,
    }
    assert openai_strict(many) == (Advice("", "enum", "there are 1001 enum values, more than 1000"),)
