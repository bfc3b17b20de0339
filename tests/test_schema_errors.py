"""Wrong schemas: typed errors that say what, where and how to mend it; and none that ends the process."""

from __future__ import annotations

from typing import Any

import pytest
import referencing
from slipcast.grammar.errors import BudgetError, GrammarError, PatternError, SchemaError, UnsupportedError
from slipcast.grammar.schema import inspect, read

WRONG = [
    # schema, pointer, keyword, a part of the message
    ({"type": "strin"}, "/type", "type", "did you mean 'string'?"),
    ({"type": []}, "/type", "type", "a non-empty array"),
    ({"type": ["string", 5]}, "/type", "type", "not the number 5"),
    ({"properties": {"foo": "bar"}}, "/properties/foo", "properties", "not the string 'bar'"),
    ({"properties": ["foo"]}, "/properties", "properties", "an object of schemas, not an array"),
    ({"properties": {"a/b~c": 1}}, "/properties/a~1b~0c", "properties", "not the number 1"),
    ({"items": {"minLength": -1}}, "/items/minLength", "minLength", "a non-negative integer, not the number -1"),
    ({"maxItems": 1.5}, "/maxItems", "maxItems", "a non-negative integer, not the number 1.5"),
    ({"minProperties": True}, "/minProperties", "minProperties", "not true"),
    ({"minimum": "1"}, "/minimum", "minimum", "a number, not the string '1'"),
    ({"minimum": 1, "exclusiveMinimum": True}, "/exclusiveMinimum", "exclusiveMinimum", "dialect='4'"),
    ({"multipleOf": 0}, "/multipleOf", "multipleOf", "greater than zero"),
    ({"pattern": 5}, "/pattern", "pattern", "not the number 5"),
    ({"format": None}, "/format", "format", "not null"),
    ({"uniqueItems": "yes"}, "/uniqueItems", "uniqueItems", "a boolean"),
    ({"required": "a"}, "/required", "required", "an array of strings"),
    ({"properties": {"a": {"required": True}}}, "/properties/a/required", "required", "of the object"),
    ({"dependentRequired": {"a": "b"}}, "/dependentRequired/a", "dependentRequired", "an array of strings"),
    ({"enum": "a"}, "/enum", "enum", "an array"),
    ({"enum": [1, {"a": {2}}]}, "/enum", "enum", "a Python set is no JSON value"),
    ({"const": "\ud800"}, "/const", "const", "lone surrogate"),
    ({"allOf": []}, "/allOf", "allOf", "a non-empty array of schemas"),
    ({"anyOf": {"type": "string"}}, "/anyOf", "anyOf", "not an object"),
    ({"not": 1}, "/not", "not", "an object or a boolean"),
    ({"items": [{}]}, "/items", "items", "prefixItems"),
    ({"prefixItems": {}}, "/prefixItems", "prefixItems", "array of schemas"),
    ({"contains": {}, "minContains": -1}, "/minContains", "minContains", "non-negative"),
    ({"maxContains": "1"}, "/maxContains", "maxContains", "non-negative"),
    ({"$id": 5}, "/$id", "$id", "URI reference"),
    ({"$anchor": "a/b"}, "/$anchor", "$anchor", "a plain name"),
    ({"$schema": 5}, "/$schema", "$schema", "a URI"),
    ({"$schema": "https://example.com/mine"}, "/$schema", "$schema", "dialect="),
    ({"$ref": 5}, "/$ref", "$ref", "URI reference"),
    ({"$ref": "#/$defs/x"}, "/$ref", "$ref", "there is no '$defs' in #"),
    ({"$ref": "#/allOf/7", "allOf": [{}]}, "/$ref", "$ref", "there is no '7' in #/allOf"),
    ({"$ref": "#/allOf/x", "allOf": [{}]}, "/$ref", "$ref", "there is no 'x' in #/allOf"),
    ({"$ref": "#nowhere", "$anchor": "here"}, "/$ref", "$ref", "anchors there: here"),
    ({"$ref": "https://example.com/x#/y"}, "/$ref", "$ref", "pass a registry that has 'https://example.com/x'"),
    ({"$ref": "#/required", "required": ["a"]}, "/$ref", "$ref", "leads to an array, which is no schema"),
    ({"$dynamicRef": "#x"}, "/$dynamicRef", "$dynamicRef", "names no anchor"),
    (
        {"$defs": {"a": {"$id": "/a", "$ref": "#/$defs/b"}, "b": {}}, "$ref": "#/$defs/a"},
        "/$defs/a/$ref",
        "$ref",
        "the $id at #/$defs/a makes that the root",
    ),
    ({"minimum": float("inf")}, "/minimum", "minimum", "neither NaN nor Infinity"),
    ({"enum": [float("nan")]}, "/enum", "enum", "neither NaN nor Infinity"),
    ({"properties": {1: {}}}, "/properties", "properties", "keys are strings"),
    ({1: {}}, "", None, "keys are strings"),
    (None, "", None, "not null"),
    ([{}], "", None, "not an array"),
    ("[{}]", "", None, "not an array"),
]


@pytest.mark.parametrize(("schema", "pointer", "keyword", "part"), WRONG, ids=[str(case[0])[:50] for case in WRONG])
def test_wrong_schema(schema: object, pointer: str, keyword: str | None, part: str) -> None:
    with pytest.raises(SchemaError) as caught:
        read(schema)
    assert (caught.value.pointer, caught.value.keyword) == (pointer, keyword)
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("", "expecting value at line 1 column 1"),
        ('{"a": 1,\n "b" 2}', "expecting ':' delimiter at line 2 column 6"),
        ('{"a": 01}', "at line 1 column 8"),
        ('{"a": "\\q"}', "at line 1 column 8"),
        ("{'a': 1}", "line 1 column 2"),
        ('{"minimum": NaN}', "neither NaN nor Infinity"),
        ('{"type": "string", "type": "null"}', "'type' twice"),
        ('{"items":' * 1500, "expecting value at line 1 column 13501"),
        ('{"items":' * 1500 + "{}" + "}" * 1499, "expecting ',' or '}' at line 1 column 15002"),
        ('{"items":' * 1500 + "{}" + "}" * 1501, "extra data at line 1 column 15003"),
        ('{"items":' * 1500 + "{1}", "expecting a property name in double quotes at line 1 column 13502"),
        ('{"items":' * 1500 + '"\\q"', "escape"),
    ],
)
def test_text_that_is_not_json(text: str, part: str) -> None:
    with pytest.raises(SchemaError, match="JSON") as caught:
        read(text)
    assert part in str(caught.value)


def nested(levels: int, keyword: str = "items") -> dict:
    schema: dict = {"type": "string"}
    for _ in range(levels):
        schema = {keyword: [schema]} if keyword.endswith("Of") else {keyword: schema}
    return schema


@pytest.mark.parametrize("keyword", ["items", "not", "allOf", "if"])
def test_deep_nesting_is_read_or_refused(keyword: str) -> None:
    read(nested(2000, keyword))
    with pytest.raises(BudgetError, match="nested too deep"):
        read(nested(30_000, keyword))


def test_deep_text_is_read() -> None:
    assert len(read('{"items":' * 2000 + '{"type": "string"}' + "}" * 2000).definitions) > 10


def test_deep_properties_that_only_a_reference_reaches_are_refused_too() -> None:
    with pytest.raises(BudgetError, match="nested too deep"):
        read({"x-hidden": nested(30_000), "$ref": "#/x-hidden"})


def test_absurd_values_are_refused() -> None:
    value: list = []
    for _ in range(5000):
        value = [value]
    for schema in (
        {"const": value},
        '{"const": 1e999999999}',
        {"minimum": 10**20_000},
        '{"minimum": ' + "9" * 5000 + "}",
    ):
        with pytest.raises(BudgetError):
            read(schema)


@pytest.mark.parametrize("where", [{"pattern": "(a"}, {"patternProperties": {"(a": {}}}])
def test_pattern_errors_bear_the_place(where: dict) -> None:
    with pytest.raises(PatternError) as caught:
        read({"anyOf": [where]})
    keyword = next(iter(where))
    assert caught.value.keyword == keyword
    assert caught.value.pointer == f"/anyOf/0/{keyword}" + ("/(a" if keyword == "patternProperties" else "")


def test_unsupported_dialects() -> None:
    with pytest.raises(UnsupportedError, match="is not supported"):
        read({"$schema": "http://json-schema.org/draft-03/schema#"})
    metaschema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$vocabulary": {"https://example.com/vocabulary": True},
    }
    registry = referencing.Registry().with_contents([("https://example.com/mine", metaschema)])
    with pytest.raises(UnsupportedError, match="requires the unknown vocabulary"):
        read({"$schema": "https://example.com/mine"}, registry=registry)
    with pytest.raises(SchemaError, match="there is no dialect 'draft9'"):
        read({}, dialect="draft9")


def test_a_failing_registry_is_an_error_of_the_schema() -> None:
    def retrieve(uri: str) -> referencing.Resource:
        raise OSError("no network here")

    with pytest.raises(SchemaError, match="cannot be had") as caught:
        read({"$ref": "https://example.com/x"}, registry=referencing.Registry(retrieve=retrieve))
    assert caught.value.pointer == "/$ref"
    read({"$ref": "http://json-schema.org/draft-07/schema#"}, registry=referencing.Registry(retrieve=retrieve))


def test_a_malformed_remote_document_is_an_error_of_its_own() -> None:
    remote = referencing.Resource.from_contents(
        {"properties": 5, "$defs": {"x": {"type": 7}}}, default_specification=referencing.jsonschema.DRAFT202012
    )
    registry = referencing.Registry().with_resource("https://example.com/r", remote)
    for reference, place in (("", "/properties"), ("#/$defs/x", "/$defs/x/type")):
        with pytest.raises(SchemaError) as caught:
            read({"$ref": f"https://example.com/r{reference}"}, registry=registry)
        pointer = f"https://example.com/r#{place}"
        assert caught.value.pointer == pointer
        assert f" at {pointer}" in str(caught.value)


def test_inspect_lists_every_error() -> None:
    report = inspect({"type": "strin", "properties": {"a": "b", "c": {"minLength": -1, "maxLength": 3}}})
    assert [entry.pointer for entry in report.refused] == ["/type", "/properties/a", "/properties/c/minLength"]
    assert all(entry.why for entry in report.refused)
    with pytest.raises(GrammarError):
        inspect("[")


def test_dynamic_scopes_are_budgeted() -> None:
    """Every order in which these resources call each other binds their anchors in another way."""
    count = 18
    resources = {
        f"r{index}": {
            "$id": f"r{index}",
            "$dynamicAnchor": f"a{index}",
            "properties": {f"p{other}": {"$ref": f"r{other}"} for other in range(count)},
            "items": {"$dynamicRef": f"#a{index}"},
        }
        for index in range(count)
    }
    with pytest.raises(BudgetError, match="dynamic anchors"):
        read({"$id": "https://example.com/", "$defs": resources, "$ref": "r0"})
    plain = {name: {"$id": name, "type": "string"} for name in (f"s{index}" for index in range(2000))}
    assert read({"$id": "https://example.com/", "properties": plain}).root


def test_an_absurd_index_in_a_pointer_leads_nowhere() -> None:
    with pytest.raises(SchemaError, match="leads nowhere"):
        read({"$ref": "#/allOf/" + "9" * 5000, "allOf": [{}]})


@pytest.mark.parametrize(
    ("schema", "pointer"),
    [
        ({"enum": [i * (2**61 - 1) for i in range(80)]}, "/enum"),
        ({"properties": {"a": {"const": [[i * (2**61 - 1)] for i in range(80)]}}}, "/properties/a/const"),
        ({"anyOf": [{"maximum": -i * (2**61 - 1)} for i in range(80)]}, "/anyOf/"),
        ({"const": list(range(200_000))}, "/const"),
    ],
)
def test_values_that_take_too_long_to_tell_apart(schema: dict[str, Any], pointer: str) -> None:
    with pytest.raises(BudgetError) as raised:
        read(schema)
    assert raised.value.pointer is not None
    assert raised.value.pointer.startswith(pointer)


def test_large_numbers_are_no_fault() -> None:
    read({"enum": [2**64 - i for i in range(2000)], "anyOf": [{"const": 2**61 - 1}] * 100})
    read({"enum": [i / 8 for i in range(2000)]})
