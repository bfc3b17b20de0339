"""References: where they lead, what they cost, and how the dynamic scope specialises definitions."""

from __future__ import annotations

import pytest
import referencing
from referencing.jsonschema import DRAFT7, DRAFT202012
from schema_oracle import allowed
from slipcast.grammar.schema import expr as x
from slipcast.grammar.schema import read

METASCHEMAS = [
    "https://json-schema.org/draft/2020-12/schema",
    "https://json-schema.org/draft/2019-09/schema",
    "http://json-schema.org/draft-07/schema#",
    "http://json-schema.org/draft-06/schema#",
    "http://json-schema.org/draft-04/schema#",
]


@pytest.mark.parametrize("uri", METASCHEMAS)
def test_metaschemas_are_at_hand(uri: str) -> None:
    metaschema = read({"$ref": uri})
    assert allowed(metaschema, {"type": "object", "properties": {"a": {"minimum": 1}}})
    assert not allowed(metaschema, {"properties": {"a": {"properties": {"b": {"minLength": -1}}}}})
    assert not allowed(metaschema, {"type": "strin"})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#"},
        {"$ref": ""},
        {"$dynamicRef": "#a", "$dynamicAnchor": "a"},
        {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
        {"allOf": [{"$ref": "#"}]},
        {"anyOf": [{"type": "string"}, {"not": {"$ref": "#"}}]},
    ],
)
def test_cycles_are_read(schema: dict) -> None:
    result = read(schema)
    assert result.root is result.definitions[0]
    assert len(result.definitions) <= 3


def test_a_definition_is_read_once() -> None:
    schema = {
        "$defs": {"a": {"properties": {"a": {"$ref": "#/$defs/a"}, "b": {"$ref": "#/$defs/b"}}}, "b": {"type": "null"}},
        "properties": {name: {"$ref": "#/$defs/a"} for name in "pqrs"},
    }
    assert len(read(schema).definitions) == 3


def test_a_definition_that_nothing_refers_to_is_not_read() -> None:
    result = read({"$defs": {"unused": {"type": "wrong"}}, "type": "string"})
    assert result.definitions == (x.Types(frozenset(("string",))),)


def test_a_cyclic_python_object_is_a_recursive_schema() -> None:
    schema: dict = {"type": "object", "additionalProperties": False}
    schema["properties"] = {"next": schema}
    result = read(schema)
    assert allowed(result, {"next": {"next": {}}})
    assert not allowed(result, {"next": {"next": {"other": 1}}})


def generic_list(name: str, item: dict) -> dict:
    """A list type whose items are a dynamic anchor, bound by the schema around."""
    return {
        "$id": f"https://example.com/{name}",
        "$ref": "https://example.com/list",
        "$defs": {"item": {"$dynamicAnchor": "item", **item}},
    }


def test_dynamic_scope_specialises_definitions() -> None:
    schema = {
        "$id": "https://example.com/root",
        "properties": {
            "texts": generic_list("texts", {"type": "string"}),
            "numbers": generic_list("numbers", {"type": "number"}),
            "plain": {"$ref": "https://example.com/list"},
        },
        "$defs": {
            "list": {
                "$id": "https://example.com/list",
                "type": "array",
                "items": {"anyOf": [{"$dynamicRef": "#item"}, {"$ref": "#"}]},
                "maxItems": 2,
                "$defs": {"any": {"$dynamicAnchor": "item", "type": "boolean"}},
            }
        },
    }
    result = read(schema)
    assert allowed(result, {"texts": ["a", ["b", []]], "numbers": [1, [2]], "plain": [True, [False]]})
    for name, value in (("texts", [1]), ("texts", [[1]]), ("numbers", ["a"]), ("numbers", [["a"]]), ("plain", ["a"])):
        assert not allowed(result, {name: value}), (name, value)
    assert len(result.definitions) == 1 + 3 * 2  # root, and the list with its item for each of three scopes


def test_an_anchor_found_late_does_not_change_the_meaning() -> None:
    """The dynamic anchors of a document are looked for only when needed, here after half of it was read."""
    schema = {
        "$id": "https://example.com/tree",
        "properties": {
            "early": {"$ref": "#/$defs/node"},
            "late": {"$dynamicRef": "#node"},
        },
        "$defs": {
            "node": {
                "$dynamicAnchor": "node",
                "properties": {"value": {"type": "string"}, "next": {"$dynamicRef": "#node"}},
            }
        },
    }
    result = read(schema)
    for name in ("early", "late"):
        assert allowed(result, {name: {"next": {"value": "a"}}})
        assert not allowed(result, {name: {"next": {"value": 1}}})


def test_remote_documents_come_from_the_registry_alone() -> None:
    registry = referencing.Registry().with_resources(
        [
            ("https://example.com/new", DRAFT202012.create_resource({"prefixItems": [{"type": "string"}]})),
            (
                "https://example.com/old",
                DRAFT7.create_resource({"items": [{"type": "string"}], "prefixItems": [False]}),
            ),
            ("https://example.com/folder/a", DRAFT202012.create_resource({"$ref": "b"})),
            (
                "https://example.com/folder/b",
                DRAFT202012.create_resource({"$defs": {"c": {"type": "null"}}, "$ref": "#/$defs/c"}),
            ),
        ]
    )
    for name in ("new", "old"):
        result = read({"$ref": f"https://example.com/{name}"}, registry=registry)
        assert allowed(result, ["a"])
        assert not allowed(result, [1])
    result = read({"$ref": "https://example.com/folder/a"}, registry=registry)
    assert allowed(result, None)
    assert not allowed(result, 1)
    places = [entry.pointer for entry in result.report().entries]
    assert "https://example.com/folder/b#/$defs/c/type" in places


def test_a_registered_document_is_found_by_the_id_inside_it() -> None:
    contents = {"$id": "https://example.com/x", "$defs": {"y": {"$id": "y", "type": "string"}}}
    registry = DRAFT202012.create_resource(contents) @ referencing.Registry()
    result = read({"$ref": "https://example.com/y"}, registry=registry)
    assert allowed(result, "a")
    assert not allowed(result, 1)


def test_the_document_itself_wins_over_the_registry() -> None:
    registry = referencing.Registry().with_resource("https://example.com/x", DRAFT202012.create_resource(False))
    schema = {"$ref": "x", "$id": "https://example.com/", "$defs": {"x": {"$id": "x", "type": "string"}}}
    assert allowed(read(schema, registry=registry), "a")


def test_identifiers_that_are_fragments_change_no_base() -> None:
    """As some generators write them in every property."""
    schema = {
        "properties": {"a": {"$id": "#/properties/a", "$ref": "#/definitions/text"}},
        "definitions": {"text": {"$id": "#/definitions/text", "type": "string"}},
    }
    for dialect in ("2020-12", "2019-09"):
        assert not allowed(read(schema, dialect=dialect), {"a": 1})
    old = {"properties": {"a": {"$ref": "#text"}}, "definitions": {"text": {"$id": "#text", "type": "string"}}}
    for dialect in ("7", "6"):
        assert not allowed(read(old, dialect=dialect), {"a": 1})


def test_a_resource_of_another_draft_is_read_by_its_own() -> None:
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "properties": {"old": {"$ref": "#/$defs/old/properties/deep"}},
        "$defs": {
            "old": {
                "$id": "https://example.com/old",
                "$schema": "http://json-schema.org/draft-04/schema#",
                "properties": {"deep": {"minimum": 1, "exclusiveMinimum": True}},
            }
        },
    }
    # In draft 4 `$id` is no keyword, yet it is what makes the resource in the draft around it.
    result = read(schema)
    assert allowed(result, {"old": 2})
    assert not allowed(result, {"old": 1})


def test_pointers_pass_through_arrays_and_escapes() -> None:
    schema = {
        "allOf": [{"properties": {"a/b~c%": {"type": "string"}}}],
        "properties": {"x": {"$ref": "#/allOf/0/properties/a~1b~0c%25"}},
    }
    assert not allowed(read(schema), {"x": 1})


def test_references_beside_other_keywords() -> None:
    schema = {"$ref": "#/definitions/a", "maxLength": 1, "definitions": {"a": {"type": "string"}}}
    assert allowed(read(schema, dialect="7"), "aa")
    assert not allowed(read(schema, dialect="2019-09"), "aa")
