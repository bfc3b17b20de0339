"""What keywords become: node by node, where the official suite cannot tell one reading from another."""

from __future__ import annotations

from fractions import Fraction

import pytest
from schema_oracle import allowed
from slipcast.grammar.schema import expr as x
from slipcast.grammar.schema import read
from slipcast.grammar.schema.values import canonical

STRING = x.Types(frozenset(("string",)))
NUMBER = x.Types(frozenset(("number",)))
A = x.Keys(("a",))


def one(value: object) -> x.Const:
    return x.Const(canonical(value))


NODES = [
    ("2020-12", True, x.ALWAYS),
    ("2020-12", {}, x.ALWAYS),
    ("2020-12", False, x.Never()),
    ("2020-12", {"title": "a", "x-mine": 1}, x.ALWAYS),
    ("2020-12", {"type": "string"}, STRING),
    ("2020-12", {"type": "integer"}, x.AllOf((NUMBER, x.MultipleOf(Fraction(1))))),
    ("4", {"type": "integer"}, x.AllOf((NUMBER, x.MultipleOf(Fraction(1))))),
    ("2020-12", {"type": ["integer", "number"]}, NUMBER),
    (
        "2020-12",
        {"type": ["integer", "null"]},
        x.AllOf((x.Types(frozenset(("number", "null"))), x.MultipleOf(Fraction(1)))),
    ),
    ("2020-12", {"enum": []}, x.Never()),
    ("2020-12", {"enum": [1, 1.0, True]}, x.AnyOf((one(1), one(True)))),
    ("2020-12", {"const": {"b": 1, "a": 2}}, one({"a": 2, "b": 1})),
    ("2020-12", {"minimum": 0.1}, x.NumberRange(Fraction(1, 10), False, None, False)),
    ("2020-12", {"exclusiveMaximum": 5}, x.NumberRange(None, False, Fraction(5), True)),
    ("4", {"maximum": 5, "exclusiveMaximum": True}, x.NumberRange(None, False, Fraction(5), True)),
    ("4", {"minimum": 5, "exclusiveMinimum": False}, x.NumberRange(Fraction(5), False, None, False)),
    ("4", {"exclusiveMinimum": True}, x.ALWAYS),
    ("2020-12", {"minLength": 2.0}, x.StringLength(2, None)),
    ("2020-12", {"format": "uuid"}, x.Format("uuid")),
    ("2020-12", {"format": "nonsense"}, x.ALWAYS),
    ("2020-12", {"uniqueItems": False}, x.ALWAYS),
    ("2020-12", {"properties": {"a": True}}, x.EachProperty(A, x.ALWAYS)),
    (
        "2020-12",
        {"properties": {"a": True}, "patternProperties": {"^b": False}, "additionalProperties": {"type": "string"}},
        x.AllOf(
            (
                x.EachProperty(A, x.ALWAYS),
                x.EachProperty(x.Keys((), ("^b",)), x.Never()),
                x.EachProperty(x.Keys(("a",), ("^b",), True), STRING),
            )
        ),
    ),
    ("2020-12", {"required": ["b", "a", "b"]}, x.AllOf((x.Required("b"), x.Required("a")))),
    ("2020-12", {"dependentRequired": {"a": ["b"]}}, x.AnyOf((x.Not(x.Required("a")), x.Required("b")))),
    ("2020-12", {"dependencies": {"a": ["b"]}}, x.ALWAYS),
    ("7", {"dependencies": {"a": ["b"]}}, x.AnyOf((x.Not(x.Required("a")), x.Required("b")))),
    (
        "7",
        {"dependencies": {"a": False}},
        x.IfThenElse(x.AllOf((x.Types(frozenset(("object",))), x.Required("a"))), x.Never(), x.ALWAYS),
    ),
    ("7", {"items": [True, False]}, x.AllOf((x.EachItem(0, 1, x.ALWAYS), x.EachItem(1, 2, x.Never())))),
    (
        "7",
        {"items": [True], "additionalItems": False},
        x.AllOf((x.EachItem(0, 1, x.ALWAYS), x.EachItem(1, None, x.Never()))),
    ),
    ("7", {"items": {}, "additionalItems": False}, x.EachItem(0, None, x.ALWAYS)),
    ("7", {"additionalItems": False}, x.ALWAYS),
    ("2020-12", {"additionalItems": False, "items": False}, x.EachItem(0, None, x.Never())),
    (
        "2020-12",
        {"prefixItems": [True], "items": False},
        x.AllOf((x.EachItem(0, 1, x.ALWAYS), x.EachItem(1, None, x.Never()))),
    ),
    ("2020-12", {"contains": {"type": "string"}}, x.Contains(STRING, 1, None, True)),
    ("2020-12", {"contains": True, "minContains": 0}, x.Contains(x.ALWAYS, 0, None, True)),
    ("2019-09", {"contains": True, "minContains": 0}, x.ALWAYS),
    ("2019-09", {"contains": True, "maxContains": 2}, x.Contains(x.ALWAYS, 1, 2, False)),
    ("7", {"contains": True, "maxContains": 2}, x.Contains(x.ALWAYS, 1, None, False)),
    ("4", {"contains": False, "const": 1, "propertyNames": False, "if": False}, x.ALWAYS),
    ("6", {"if": True, "then": False}, x.ALWAYS),
    ("7", {"then": False, "else": False}, x.ALWAYS),
    ("7", {"if": True, "else": False}, x.IfThenElse(x.ALWAYS, x.ALWAYS, x.Never())),
    ("2019-09", {"if": {"type": "string"}}, x.IfThenElse(STRING, x.ALWAYS, x.ALWAYS)),
    (
        "2020-12",
        {"unevaluatedProperties": False, "unevaluatedItems": False, "type": "string"},
        x.Unevaluated("array", x.Unevaluated("object", STRING, x.Never()), x.Never()),
    ),
    ("7", {"unevaluatedProperties": False, "dependentRequired": {"a": ["b"]}, "prefixItems": [False]}, x.ALWAYS),
    ("2020-12", {"allOf": [{"type": "string"}, {"minLength": 1}]}, x.AllOf((STRING, x.StringLength(1, None)))),
    ("2020-12", {"$ref": "#", "type": "string"}, x.AllOf((x.Ref(0), STRING))),
    ("7", {"$ref": "#", "type": "string"}, x.Ref(0)),
    ("2020-12", {"type": "string", "nullable": True}, STRING),
]


@pytest.mark.parametrize(
    ("dialect", "schema", "node"), NODES, ids=[f"{dialect}:{schema}"[:60] for dialect, schema, _ in NODES]
)
def test_node(dialect: str, schema: object, node: x.Expr) -> None:
    assert read(schema, dialect=dialect).root == node


def test_formats_can_be_annotations() -> None:
    assert read({"format": "uuid"}, formats=False).root == x.ALWAYS


def test_declared_order_is_kept() -> None:
    schema = {"required": ["z"], "properties": {"c": {}, "a": {}}, "allOf": [{"properties": {"b": {}}}]}
    root = read(schema).root
    assert isinstance(root, x.AllOf)
    assert [part.keys.names for part in root.parts if isinstance(part, x.EachProperty)] == [("c",), ("a",), ("b",)]


def test_every_node_bears_its_pointer() -> None:
    root = read({"properties": {"a/b": {"type": "string", "minLength": 1}}, "minProperties": 1}).root
    assert isinstance(root, x.AllOf)
    (each, count) = root.parts
    assert (root.at, each.at, count.at) == ("", "/properties/a~1b", "/minProperties")
    assert [part.at for part in each.then.parts] == ["/properties/a~1b/type", "/properties/a~1b/minLength"]


def test_equal_subschemas_are_one_node() -> None:
    schema = {"properties": {name: {"type": "string", "minLength": 1, "title": name} for name in "abc"}}
    shared = {id(part.then) for part in read(schema).root.parts}
    apart = [part.then.at for part in read(schema, share=False).root.parts]
    assert len(shared) == 1
    assert apart == ["/properties/a", "/properties/b", "/properties/c"]


def test_sharing_tells_everything_apart_that_differs() -> None:
    text = {"type": "string"}
    schemas = [
        text, {"not": text}, {"anyOf": [text, {"type": "null"}]}, {"oneOf": [text, {"type": "null"}]},
        {"allOf": [{"minLength": 1}, {"maxLength": 1}]}, {"contains": text}, {"contains": text, "minContains": 2},
        {"items": text}, {"prefixItems": [text]}, {"propertyNames": text}, {"const": 1}, {"const": True},
        {"additionalProperties": text}, {"properties": {"a": text}}, {"minimum": 1}, {"maximum": 1}, {"const": "1"},
        {"if": {"const": 1}, "then": {"const": 2}}, {"if": {"const": 1}, "else": {"const": 2}},
        {"unevaluatedItems": text}, {"unevaluatedProperties": text}, {"enum": [1, 2]}, {"enum": [2, 1]},
    ]  # fmt: skip
    root = read({"anyOf": schemas * 2}).root
    assert isinstance(root, x.AnyOf)
    assert len({id(part) for part in root.parts}) == len(schemas)
    assert root.parts[: len(schemas)] == root.parts[len(schemas) :]


def test_deep_schemas_make_shallow_expressions() -> None:
    schema: dict = {"type": "string"}
    for _ in range(500):
        schema = {"properties": {"a": schema}, "required": ["a"]}
    result = read(schema)

    def depth(node: object) -> int:
        if isinstance(node, (x.AllOf, x.AnyOf)):
            return 1 + max(map(depth, node.parts))
        return 1 + depth(node.then) if isinstance(node, x.EachProperty) else 1

    assert max(map(depth, result.definitions)) < 100
    hash(result.root)
    value: object = {}
    for _ in range(100):
        value = {"a": value}
    assert not allowed(result, value)


def test_a_large_enumeration_is_quick_and_exact() -> None:
    result = read({"enum": [f"value {index}" for index in range(10_000)]})
    assert len(result.root.parts) == 10_000


def test_text_is_read_exactly() -> None:
    amount = Fraction(10**24 + 1, 10**25)
    assert read('{"const": 0.1000000000000000000000001}').root == x.Const(("number", amount))


@pytest.mark.parametrize(
    ("name", "draft"),
    [
        ("2020-12", "2020-12"), ("draft2020-12", "2020-12"), ("2019-09", "2019-09"), ("7", "7"), ("draft7", "7"),
        ("Draft-07", "7"), ("draft-06", "6"), ("4", "4"), ("http://json-schema.org/draft-04/schema#", "4"),
        ("https://json-schema.org/draft-07/schema", "7"),
    ],
)  # fmt: skip
def test_names_of_dialects(name: str, draft: str) -> None:
    assert read({}, dialect=name).report().dialect == draft
    assert read({"$schema": "http://json-schema.org/draft-06/schema"}, dialect=name).report().dialect == "6"


def test_an_unknown_dialect_falls_back_on_the_chosen_one() -> None:
    assert read({"$schema": "https://example.com/unknown"}, dialect="7").report().dialect == "7"
