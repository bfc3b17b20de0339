"""Schemas made to hurt: each must be compiled or refused in bounded time and memory, see `test_grammar_hostile`."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

Make = Callable[[], Any]


def nested(depth: int, wrap: Callable[[Any], Any], inner: Any = True) -> Any:
    """`wrap` applied `depth` times around `inner`."""
    for _ in range(depth):
        inner = wrap(inner)
    return inner


def listed(count: int, make: Callable[[int], Any]) -> list[Any]:
    """`make(i)` for each i."""
    return [make(i) for i in range(count)]


def record(count: int, **more: Any) -> dict[str, Any]:
    """An object with properties p0, p1, ..."""
    return {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(count)}, **more}


def chain(length: int, last: Any) -> dict[str, Any]:
    """Definitions that refer to each other in a row."""
    definitions: dict[str, Any] = {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(length)}
    definitions[f"d{length}"] = last
    return {"$defs": definitions, "$ref": "#/$defs/d0"}


def cyclic(*bodies: Any) -> dict[str, Any]:
    """Definitions d0, d1, ...; the root is d0."""
    return {"$defs": {f"d{i}": body for i, body in enumerate(bodies)}, "$ref": "#/$defs/d0"}


def to(i: int) -> dict[str, str]:
    """A reference to definition `i`."""
    return {"$ref": f"#/$defs/d{i}"}


def _one_of(depth: int) -> Any:
    def around(inner: Any) -> Any:
        return {
            "oneOf": [
                inner,
                {"type": "object", "properties": {"a": inner}},
                {"type": "object", "properties": {"b": inner}},
            ]
        }

    return nested(depth, around, {"type": "string"})


def _tagged(depth: int) -> Any:
    def around(inner: Any) -> Any:
        branches = [{"properties": {"kind": {"const": k}, "of": inner}, "required": ["kind", "of"]} for k in "abc"]
        return {"type": "object", "oneOf": branches}

    return nested(depth, around, {"type": "string"})


PATTERNS: dict[str, str] = {
    "states of a subset construction": "[ab]*a[ab]{13}",
    "more states than memory": "^[ab]*a[ab]{30}$",
    "two of them": "^(?=[ab]*a[ab]{12}$)[ab]*b[ab]{12}$",
    "nested quantifiers": "^(a|a?)+$",
    "nested stars": "^((a*)*)*$",
    "nullable loop": '^("a"*)*$',
    "60,000 parentheses": "(" * 60_000 + ")" * 60_000,
    "60,000 open parentheses": "(" * 60_000,
    "60,000 non-capturing groups": "(?:" * 60_000 + "a" + ")" * 60_000,
    "10,000 look-aheads": "(?=a)" * 10_000,
    "nested look-aheads": "(?=" * 400 + "a" + ")" * 400,
    "nested negative look-aheads": "^" + "(?!" * 30 + "a" + ")" * 30 + ".*$",
    "quantified look-behind": "(?<=x)*",
    "look-behind": "(?<=[ab]*a[ab]{12})x",
    "counted dots": ".{0,50000}x",
    "counted class": "^[a-z]{0,50000}$",
    "counted class twice": "^[a-z]{0,50000}[0-9]{0,50000}$",
    "counted alternatives": "^(ab|c){0,50000}$",
    "nested counts": "^((a{0,50}){0,50}){0,50}$",
    "nested counts, large": "^(((a{1,1000}){1,1000}){1,1000}){1,1000}$",
    "absurd count": "^a{999999999}$",
    "count in reverse": "^a{5,2}$",
    "3,000 words": "^(" + "|".join(f"word{i}" for i in range(3000)) + ")$",
    "3,000 words with stars": "^(" + "|".join(f"w{i}.*x" for i in range(3000)) + ")$",
    "megabyte of letters": "a" * 1_000_000,
    "megabyte of classes": "[a-z]" * 200_000,
    "every property of Unicode": r"^(\p{L}|\p{N}|\p{P}|\p{S}|\p{Z}|\p{M})+$",
    "complements": r"^[^\p{L}]*[^\p{Lu}]*[^\p{N}]{3,40}$",
    "passwords": "^(?=.*\\d)(?=.*[a-z])(?=.*[A-Z]).{8,64}$",
    "words at boundaries": r"\bfoo\b.*\bbar\b.*\bbaz\b",
    "back-reference": r"(a)\1",
    "named back-reference": r"(?<n>a)\k<n>",
    "lone quantifier": "*",
    "lone backslash": "\\",
    "open class": "[a-",
    "surrogates": "^[\ud83d\ude00-\ud83d\ude4f]+$",
    "lone surrogate": "^\ud800$",
    "matches nothing": "^a$b",
    "nothing by look-ahead": "^(?=a)b",
    "null character": "^\0+$",
    "long alternatives of dots": "^(" + "|".join("." * i for i in range(1, 200)) + ")$",
    "any three of a class": "^" + "".join(f"(?=.*{c})" for c in "abcdefghijklmnop") + ".*$",
}

SCHEMAS: dict[str, Make] = {
    # enumerations and constants
    "10,000 strings": lambda: {"enum": listed(10_000, lambda i: f"value-{i}")},
    "10,000 integers": lambda: {"enum": listed(10_000, lambda i: i)},
    "10,000 decimals": lambda: {"enum": listed(10_000, lambda i: i * 0.37)},
    "10,000 integers far apart": lambda: {"enum": listed(10_000, lambda i: i * 7919 * 10**6)},
    "10,000 lists": lambda: {"enum": listed(10_000, lambda i: [i])},
    "1,000 lists": lambda: {"enum": listed(1000, lambda i: [i, str(i)])},
    "1,000 objects": lambda: {"enum": listed(1000, lambda i: {"k": i, "name": f"n{i}"})},
    "not one of 10,000": lambda: {"type": "string", "not": {"enum": listed(10_000, lambda i: f"v{i}")}},
    "not one of 1,000 objects": lambda: {"not": {"enum": listed(1000, lambda i: {"k": i})}},
    "two large enumerations meet": lambda: {
        "allOf": [{"enum": listed(10_000, lambda i: 2 * i)}, {"enum": listed(10_000, lambda i: 3 * i)}]
    },
    "anyOf of 5,000 constants": lambda: {"anyOf": listed(5000, lambda i: {"const": f"c{i}"})},
    "oneOf of 1,000 constants": lambda: {"oneOf": listed(1000, lambda i: {"const": f"c{i}"})},
    "oneOf of 300 patterns": lambda: {"oneOf": listed(300, lambda i: {"type": "string", "pattern": f"^x{i}-[a-z]*$"})},
    "long constant": lambda: {"const": "x" * 1_000_000},
    "wide constant": lambda: {"const": listed(20_000, lambda i: i)},
    "deep constant": lambda: {"const": nested(450, lambda inner: [inner], 1)},
    "constant of 2,000 properties": lambda: {"const": {f"k{i}": i for i in range(2000)}},
    "not a wide constant": lambda: {"not": {"const": listed(2000, lambda i: i)}},
    # objects
    "200 optional properties": lambda: record(200, additionalProperties=False),
    "200 optional properties, open": lambda: record(200),
    "200 required properties": lambda: record(200, required=[f"p{i}" for i in range(200)]),
    "2,000 optional properties": lambda: record(2000, additionalProperties=False),
    "2,000 required properties": lambda: record(2000, required=[f"p{i}" for i in range(2000)]),
    "200 properties, 1 at least": lambda: record(200, minProperties=1, additionalProperties=False),
    "200 properties, 100 at least": lambda: record(200, minProperties=100, additionalProperties=False),
    "200 properties, 100 at most": lambda: record(200, maxProperties=100, required=[f"p{i}" for i in range(50)]),
    "1,000 properties at least": lambda: {"type": "object", "minProperties": 1000},
    "100,000 properties at least": lambda: {"type": "object", "minProperties": 100_000},
    "100,000 properties at most": lambda: {"type": "object", "maxProperties": 100_000},
    "10**18 properties at least": lambda: {"type": "object", "minProperties": 10**18},
    "40 key patterns": lambda: {
        "type": "object",
        "patternProperties": {f"^x{i}": {"type": "integer"} for i in range(40)},
    },
    "12 overlapping key patterns": lambda: {
        "type": "object",
        "patternProperties": {f"[a-z]{{{i}}}": {"minimum": i} for i in range(12)},
    },
    "12 independent key patterns": lambda: {
        "type": "object",
        "patternProperties": {chr(97 + i): {"minimum": i} for i in range(12)},
    },
    "26 independent key patterns": lambda: {
        "type": "object",
        "patternProperties": {chr(97 + i): {"minimum": i} for i in range(26)},
    },
    "key patterns apart": lambda: {
        "type": "object",
        "patternProperties": {f"^k{i}_": {"minimum": i} for i in range(120)},
    },
    "key patterns that meet anywhere": lambda: {
        "type": "object",
        "patternProperties": {f"a.*b.*{i}": {"minimum": i} for i in range(60)},
    },
    "exponential key pattern": lambda: {"type": "object", "patternProperties": {"[ab]*a[ab]{13}": {"type": "null"}}},
    "long key names": lambda: {"type": "object", "propertyNames": {"maxLength": 100_000}},
    "longer key names at least": lambda: {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"minLength": 100_000},
    },
    "few key names, many wanted": lambda: {
        "type": "object",
        "propertyNames": {"pattern": "^[a-z]$"},
        "minProperties": 26,
    },
    "too few key names": lambda: {"type": "object", "propertyNames": {"pattern": "^[a-z]$"}, "minProperties": 27},
    "10,000 key names": lambda: {"propertyNames": {"enum": listed(10_000, lambda i: f"k{i}")}, "minProperties": 3},
    "keys with everything": lambda: {
        "type": "object",
        "properties": {key: {"type": "null"} for key in ('"', "\\", "\n", "\0", "\x7f", "é", "😀", "", "a/b~c%d", "'")},
        "required": ['"', "\\", "\n", "\0", "", "😀"],
        "additionalProperties": False,
    },
    "keys of 5,000 characters": lambda: {
        "type": "object",
        "properties": {f"{c * 5000}": {"type": "null"} for c in "abcdefgh"},
        "required": ["a" * 5000],
    },
    "a key of a million characters": lambda: {"properties": {"k" * 1_000_000: {"type": "null"}}},
    "200 dependencies": lambda: {
        "type": "object",
        "dependentRequired": {f"p{i}": [f"p{i + 1}"] for i in range(200)},
    },
    "12 dependent schemas": lambda: {
        "type": "object",
        "dependentSchemas": {f"p{i}": {"properties": {f"q{i}": {"const": i}}} for i in range(12)},
    },
    "20 dependent schemas": lambda: {
        "type": "object",
        "dependentSchemas": {f"p{i}": {"required": [f"q{i}"]} for i in range(20)},
    },
    # nesting
    "500 arrays": lambda: nested(500, lambda inner: {"type": "array", "items": inner}),
    "500 arrays, each with an item": lambda: nested(
        500, lambda inner: {"type": "array", "items": inner, "minItems": 1}
    ),
    "500 objects": lambda: nested(500, lambda inner: {"type": "object", "properties": {"a": inner}}),
    "500 objects, required": lambda: nested(
        500, lambda inner: {"type": "object", "properties": {"a": inner}, "required": ["a"]}
    ),
    "500 anyOf": lambda: nested(500, lambda inner: {"anyOf": [inner, {"type": "null"}]}, {"type": "string"}),
    "500 anyOf with siblings": lambda: nested(
        500, lambda inner: {"anyOf": [inner, {"required": ["a"]}], "type": "object"}, {"type": "object"}
    ),
    "500 oneOf": lambda: nested(500, lambda inner: {"oneOf": [inner, {"type": "null"}]}, {"type": "string"}),
    "500 allOf": lambda: nested(500, lambda inner: {"allOf": [inner, {"maxLength": 9}]}, {"type": "string"}),
    "500 not": lambda: nested(500, lambda inner: {"not": inner}, {"type": "string"}),
    "501 not": lambda: nested(501, lambda inner: {"not": inner}, {"type": "string"}),
    "500 not of anyOf": lambda: nested(500, lambda inner: {"not": {"anyOf": [inner]}}, {"type": "string"}),
    "500 if": lambda: nested(
        500, lambda inner: {"if": {"type": "string"}, "then": {"minLength": 1}, "else": inner}, {"type": "null"}
    ),
    "500 if in if": lambda: nested(500, lambda inner: {"if": inner, "then": {"minLength": 1}}, {"type": "null"}),
    "500 contains": lambda: nested(500, lambda inner: {"type": "array", "contains": inner}, {"type": "null"}),
    "500 not items": lambda: nested(
        500, lambda inner: {"type": "array", "items": {"not": inner}, "minItems": 1}, {"type": "null"}
    ),
    "500 unevaluatedItems": lambda: nested(500, lambda inner: {"type": "array", "unevaluatedItems": inner}),
    "500 unevaluatedProperties": lambda: nested(500, lambda inner: {"type": "object", "unevaluatedProperties": inner}),
    "500 unevaluatedProperties in allOf": lambda: nested(
        500, lambda inner: {"allOf": [inner], "unevaluatedProperties": False, "properties": {"a": True}}
    ),
    "500 dependentSchemas": lambda: nested(500, lambda inner: {"type": "object", "dependentSchemas": {"a": inner}}),
    "500 propertyNames": lambda: nested(
        500, lambda inner: {"type": "object", "propertyNames": inner}, {"type": "string"}
    ),
    "10,000 levels of JSON text": lambda: '{"items":' * 10_000 + "true" + "}" * 10_000,
    "100,000 brackets": lambda: "[" * 100_000,
    "oneOf 8 deep": lambda: _one_of(8),
    "oneOf 12 deep": lambda: _one_of(12),
    "tagged unions 12 deep": lambda: _tagged(12),
    "lists of lists": lambda: nested(
        6, lambda inner: {"type": "array", "items": inner, "maxItems": 1000}, {"type": "string"}
    ),
    # references
    "references in a row": lambda: chain(500, {"type": "string"}),
    "5,000 references in a row": lambda: chain(5000, {"type": "string"}),
    "references in a row through arrays": lambda: {
        "$defs": {
            **{f"d{i}": {"type": "array", "items": {"$ref": f"#/$defs/d{i + 1}"}} for i in range(500)},
            "d500": {"type": "string"},
        },
        "$ref": "#/$defs/d0",
    },
    "doubling references": lambda: {
        "$defs": {
            **{f"d{i}": {"anyOf": [to(i + 1), {"type": "array", "items": to(i + 1)}]} for i in range(30)},
            "d30": {"type": "string"},
        },
        "$ref": "#/$defs/d0",
    },
    "doubling allOf": lambda: {
        "$defs": {**{f"d{i}": {"allOf": [to(i + 1), to(i + 1)]} for i in range(40)}, "d40": {"type": "string"}},
        "$ref": "#/$defs/d0",
    },
    "doubling oneOf": lambda: {
        "$defs": {
            **{f"d{i}": {"oneOf": [to(i + 1), {"type": "array", "items": to(i + 1)}]} for i in range(30)},
            "d30": {"type": "string"},
        },
        "$ref": "#/$defs/d0",
    },
    "reference to itself": lambda: {"$ref": "#"},
    "definition that is itself": lambda: cyclic(to(0)),
    "two definitions in a circle": lambda: cyclic(to(1), to(0)),
    "300 definitions in a circle": lambda: cyclic(*(to((i + 1) % 300) for i in range(300))),
    "circle through allOf": lambda: cyclic({"allOf": [to(1)]}, {"allOf": [to(0), {"type": "string"}]}),
    "circle through anyOf": lambda: cyclic({"anyOf": [{"type": "string"}, to(0)]}),
    "circle through oneOf": lambda: cyclic({"oneOf": [{"type": "string"}, to(0)]}),
    "circle through not": lambda: cyclic({"not": to(0)}),
    "circle through two not": lambda: cyclic({"not": {"not": to(0)}}),
    "circle through if": lambda: cyclic({"if": to(0), "then": {"type": "string"}, "else": {"type": "null"}}),
    "circle through then": lambda: cyclic({"if": {"type": "string"}, "then": to(0)}),
    "circle through contains": lambda: cyclic({"type": "array", "contains": to(0)}),
    "circle through items": lambda: cyclic({"type": "array", "items": to(0)}),
    "circle through items, required": lambda: cyclic({"type": "array", "items": to(0), "minItems": 1}),
    "circle through required": lambda: cyclic({"type": "object", "properties": {"c": to(0)}, "required": ["c"]}),
    "circle through not items": lambda: cyclic({"type": "array", "not": {"items": to(0)}}),
    "circle through propertyNames": lambda: cyclic({"type": "object", "propertyNames": to(0)}),
    "circle through unevaluatedProperties": lambda: cyclic({"type": "object", "unevaluatedProperties": to(0)}),
    "circle through unevaluatedItems": lambda: cyclic({"type": "array", "unevaluatedItems": {"not": to(0)}}),
    "circle through dependentSchemas": lambda: cyclic({"dependentSchemas": {"a": to(0)}, "type": "object"}),
    "dynamic circle": lambda: {"$dynamicAnchor": "n", "$dynamicRef": "#n"},
    "empty reference": lambda: {"$ref": ""},
    "dangling reference": lambda: {"$ref": "#/$defs/nowhere"},
    "reference to no schema": lambda: {"$defs": {"a": 1}, "$ref": "#/$defs/a"},
    "reference to elsewhere": lambda: {"$ref": "https://example.com/schema"},
    "tree": lambda: {"type": "object", "properties": {"c": {"type": "array", "items": {"$ref": "#"}}}},
    "tree of unique trees": lambda: {"type": "array", "items": {"$ref": "#"}, "uniqueItems": True, "minItems": 1},
    "tree with unevaluated": lambda: {
        "$dynamicAnchor": "n",
        "type": "object",
        "properties": {"c": {"type": "array", "items": {"$dynamicRef": "#n"}}},
        "unevaluatedProperties": False,
    },
    # strings and numbers
    "maxLength 100,000": lambda: {"type": "string", "maxLength": 100_000},
    "minLength 100,000": lambda: {"type": "string", "minLength": 100_000},
    "minLength 10**18": lambda: {"type": "string", "minLength": 10**18},
    "minLength in a property": lambda: {
        "type": "object",
        "properties": {"a": {"type": "string", "minLength": 100_000}},
        "required": ["a"],
    },
    "minLength in an option": lambda: {
        "type": "object",
        "properties": {"a": {"type": "string", "minLength": 100_000}, "b": {"type": "integer"}},
    },
    "lengths meet a pattern": lambda: {"type": "string", "pattern": "^(ab)*$", "minLength": 5000, "maxLength": 9000},
    "format and pattern": lambda: {"type": "string", "format": "date-time", "pattern": "^[0-9]{4}-02-29"},
    "all formats at once": lambda: {
        "type": "string",
        "allOf": [{"format": name} for name in ("email", "uri", "uri-template", "iri", "hostname")],
    },
    "not a format": lambda: {"type": "string", "not": {"format": "iri"}, "maxLength": 30},
    "tiny steps": lambda: {"type": "number", "multipleOf": 1e-10},
    "tiniest steps": lambda: {"type": "number", "multipleOf": 1e-300},
    "huge steps": lambda: {"type": "number", "multipleOf": 1e300},
    "huge minimum": lambda: {"type": "integer", "minimum": 10**300},
    "huge range": lambda: {"type": "integer", "minimum": -(10**30), "maximum": 10**30, "multipleOf": 7},
    "integers of one hash": lambda: {"enum": listed(4000, lambda i: i * (2**61 - 1))},
    "integers of one hash apart": lambda: {"anyOf": listed(4000, lambda i: {"const": [i * (2**61 - 1)]})},
    "bounds of one hash": lambda: {"anyOf": listed(4000, lambda i: {"minimum": i * (2**61 - 1)})},
    "decimals of one hash": lambda: {
        "enum": listed(2000, lambda i: Decimal(12_345 * pow(10, i, 2**61 - 1) % (2**61 - 1)).scaleb(-i))
    },
    "a constant of a million numbers": lambda: {"const": [1] * 1_000_000},
    "oneOf of 5,000 constants": lambda: {"oneOf": listed(5000, lambda i: {"const": f"v{i}"})},
    "allOf of 20,000 required": lambda: {"type": "object", "allOf": listed(20_000, lambda i: {"required": [f"a{i}"]})},
    "prime steps": lambda: {"type": "integer", "multipleOf": 1_000_003},
    "prime steps within bounds": lambda: {
        "type": "integer",
        "multipleOf": 1_000_003,
        "minimum": 10,
        "maximum": 10**15,
    },
    "prime steps in items": lambda: nested(
        3, lambda inner: {"type": "array", "items": inner, "minItems": 1}, {"type": "integer", "multipleOf": 999_983}
    ),
    "one of several prime steps": lambda: {
        "anyOf": [{"type": "integer", "multipleOf": p} for p in (65_537, 999_979, 999_983, 1_000_003)]
    },
    "several prime steps at once": lambda: {
        "type": "integer",
        "allOf": [{"multipleOf": p} for p in (99_971, 99_989, 99_991)],
    },
    "no prime step": lambda: {"type": "integer", "minimum": 5, "not": {"multipleOf": 99_991}},
    "a step of nineteen digits": lambda: {"type": "integer", "multipleOf": 2**61 - 1},
    "many prime steps": lambda: {
        "type": "integer",
        "allOf": [{"multipleOf": p} for p in (2, 3, 5, 7, 11, 13, 17, 19, 23)],
    },
    "not many steps": lambda: {
        "type": "integer",
        "not": {"anyOf": [{"multipleOf": p} for p in (2, 3, 5, 7, 11, 13, 17, 19)]},
    },
    "numbers as text": lambda: '{"minimum":1' + "0" * 5000 + "}",
    "exponent as text": lambda: '{"minimum":1e999999999}',
    "negative exponent as text": lambda: '{"multipleOf":1e-999999999}',
    "range of a hair": lambda: {"type": "number", "minimum": 0.1, "maximum": 0.1000000000000001},
    "range of nothing": lambda: {"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2},
    "infinity": lambda: {"minimum": float("inf")},
    "not a number": lambda: {"maximum": float("nan")},
    # arrays
    "maxItems 100,000": lambda: {"type": "array", "items": {"type": "integer"}, "maxItems": 100_000},
    "minItems 100,000": lambda: {"type": "array", "items": {"type": "integer"}, "minItems": 100_000},
    "minItems 1,000": lambda: {"type": "array", "items": {"type": "integer"}, "minItems": 1000},
    "minItems 10**18": lambda: {"type": "array", "minItems": 10**18},
    "minItems nested": lambda: nested(
        6, lambda inner: {"type": "array", "items": inner, "minItems": 100}, {"type": "null"}
    ),
    "1,000 prefixItems": lambda: {
        "type": "array",
        "prefixItems": listed(1000, lambda i: {"const": i}),
        "minItems": 1000,
    },
    "5,000 prefixItems": lambda: {"type": "array", "prefixItems": listed(5000, lambda i: {"type": "integer"})},
    "1,000 different integers": lambda: {
        "type": "array",
        "uniqueItems": True,
        "minItems": 1000,
        "items": {"type": "integer", "minimum": 0, "maximum": 999},
    },
    "too many different integers": lambda: {
        "type": "array",
        "uniqueItems": True,
        "minItems": 11,
        "items": {"type": "integer", "minimum": 0, "maximum": 9},
    },
    "10,000 different integers": lambda: {
        "type": "array",
        "uniqueItems": True,
        "minItems": 10_000,
        "items": {"type": "integer"},
    },
    "20 different constants": lambda: {
        "type": "array",
        "uniqueItems": True,
        "minItems": 20,
        "items": {"enum": listed(20, lambda i: i)},
    },
    "different pairs": lambda: {
        "type": "array",
        "uniqueItems": True,
        "minItems": 16,
        "items": {"type": "array", "items": {"enum": [1, 2, 3, 4]}, "minItems": 2, "maxItems": 2},
    },
    "different objects": lambda: {
        "type": "array",
        "uniqueItems": True,
        "minItems": 8,
        "items": {
            "type": "object",
            "properties": {"a": {"type": "boolean"}, "b": {"type": "boolean"}, "c": {"type": "boolean"}},
            "required": ["a", "b", "c"],
            "additionalProperties": False,
        },
    },
    "different booleans by place": lambda: {
        "type": "array",
        "uniqueItems": True,
        "prefixItems": listed(40, lambda i: {"enum": [i, i + 1]}),
        "minItems": 40,
    },
    "equal items somewhere": lambda: {
        "type": "array",
        "not": {"uniqueItems": True},
        "items": {"type": "integer"},
        "maxItems": 50,
    },
    "contains 50 to 100": lambda: {
        "type": "array",
        "contains": {"type": "integer"},
        "minContains": 50,
        "maxContains": 100,
    },
    "contains 100,000": lambda: {"type": "array", "contains": {"type": "integer"}, "minContains": 100_000},
    "contains at most 100,000": lambda: {"type": "array", "contains": {"type": "integer"}, "maxContains": 100_000},
    "contains 10**18": lambda: {"type": "array", "contains": {"type": "integer"}, "minContains": 10**18},
    "12 contains": lambda: {"type": "array", "allOf": listed(12, lambda i: {"contains": {"const": i}})},
    "30 contains": lambda: {"type": "array", "allOf": listed(30, lambda i: {"contains": {"const": i}})},
    "12 overlapping contains": lambda: {
        "type": "array",
        "allOf": listed(12, lambda i: {"contains": {"type": "integer", "multipleOf": i + 1}, "maxContains": 3}),
    },
    "contains beyond maxItems": lambda: {
        "type": "array",
        "maxItems": 3,
        "allOf": listed(4, lambda i: {"contains": {"const": i}}),
    },
    "several contains with bounds": lambda: {
        "type": "array",
        "allOf": listed(
            4, lambda i: {"contains": {"type": "integer", "minimum": i}, "minContains": 20, "maxContains": 40}
        ),
        "maxItems": 60,
    },
    "contains by place": lambda: {
        "type": "array",
        "prefixItems": listed(30, lambda i: {"type": "integer"}),
        "contains": {"minimum": 5},
        "minContains": 15,
        "maxContains": 15,
        "minItems": 30,
    },
    # combinations
    "allOf of 10 anyOf": lambda: {
        "allOf": [
            {"anyOf": [{"properties": {f"k{i}": {"const": j}}, "required": [f"k{i}"]} for j in range(3)]}
            for i in range(10)
        ]
    },
    "allOf of 30 anyOf": lambda: {
        "allOf": [
            {"anyOf": [{"properties": {f"k{i}": {"const": j}}, "required": [f"k{i}"]} for j in range(3)]}
            for i in range(30)
        ]
    },
    "allOf of 10 anyOf of strings": lambda: {
        "type": "string",
        "allOf": [{"anyOf": [{"pattern": f"{chr(97 + i)}{j}"} for j in range(3)]} for i in range(10)],
    },
    "allOf of 10 anyOf of numbers": lambda: {
        "type": "integer",
        "allOf": [{"anyOf": [{"multipleOf": 3 * i + j + 2} for j in range(3)]} for i in range(10)],
    },
    "allOf of 10 oneOf": lambda: {
        "allOf": [{"oneOf": [{"required": [f"k{i}"]}, {"required": [f"m{i}"]}]} for i in range(10)]
    },
    "oneOf of 20 overlapping objects": lambda: {
        "type": "object",
        "oneOf": [{"properties": {f"k{i}": {"type": "integer"}}} for i in range(20)],
    },
    "oneOf of 20 required": lambda: {"type": "object", "oneOf": [{"required": [f"k{i}"]} for i in range(20)]},
    "not of 10 properties": lambda: {
        "type": "object",
        "not": {"properties": {f"k{i}": {"type": "integer"} for i in range(10)}},
    },
    "10 times not of objects": lambda: {
        "type": "object",
        "allOf": [
            {"not": {"properties": {f"k{i}": {"type": "integer"}, f"m{i}": {"type": "null"}}}} for i in range(10)
        ],
    },
    "if for each of 20": lambda: {
        "type": "object",
        "allOf": [
            {"if": {"properties": {"kind": {"const": i}}, "required": ["kind"]}, "then": {"required": [f"k{i}"]}}
            for i in range(20)
        ],
    },
    "unevaluated beside 10 anyOf": lambda: {
        "type": "object",
        "anyOf": [{"properties": {f"k{i}": {"type": "integer"}}, "required": [f"k{i}"]} for i in range(10)],
        "unevaluatedProperties": False,
    },
    "unevaluated beside 20 anyOf": lambda: {
        "type": "object",
        "anyOf": [{"properties": {f"k{i}": {"type": "integer"}}} for i in range(20)],
        "unevaluatedProperties": False,
    },
    "not unevaluated beside anyOf": lambda: {
        "type": "object",
        "not": {
            "anyOf": [{"properties": {f"k{i}": {"type": "integer"}}} for i in range(12)],
            "unevaluatedProperties": False,
        },
    },
    # what is no schema, and sheer size
    "properties that are no schema": lambda: {"properties": {"foo": "bar"}},
    "type of nothing": lambda: {"type": []},
    "unknown type": lambda: {"type": "strnig"},
    "number as schema": lambda: {"items": 5},
    "required of numbers": lambda: {"required": [1]},
    "keys that are no strings": lambda: {1: 2},
    "values that are no JSON": lambda: {"enum": [object()]},
    "tuples and sets": lambda: {"enum": ({1},)},
    "bytes": lambda: {"const": b"x"},
    "lone surrogates": lambda: {"enum": ["\ud800"], "properties": {"\udfff": True}},
    "no JSON": lambda: "{",
    "JSON of another kind": lambda: "[1]",
    "empty text": lambda: "",
    "repeated keys": lambda: '{"type":"string","type":"number"}',
    "megabytes of text": lambda: json.dumps({"description": "x" * 4_000_000, "type": "string"}),
    "megabytes of properties": lambda: json.dumps(record(20_000, additionalProperties=False)),
    "megabytes of definitions": lambda: json.dumps({"$defs": {f"d{i}": record(3) for i in range(8000)}, **to(7)}),
    "megabytes of anyOf": lambda: json.dumps({"anyOf": listed(20_000, lambda i: {"const": f"value number {i}"})}),
    "megabytes of objects": lambda: json.dumps({"anyOf": listed(3000, lambda i: record(5, required=[f"p{i % 5}"]))}),
}

UNSATISFIABLE: dict[str, tuple[Any, set[str]]] = {
    "false": (False, {""}),
    "no value listed": ({"enum": []}, {"/enum"}),
    "types": ({"allOf": [{"type": "string"}, {"type": "number"}]}, {"/allOf/0/type", "/allOf/1/type"}),
    "type and constant": ({"type": "string", "const": 1}, {"/type", "/const"}),
    "range": ({"type": "integer", "minimum": 5, "maximum": 4}, {"/minimum", "/maximum", "/type"}),
    "lengths": ({"type": "string", "minLength": 5, "maxLength": 4}, {"/minLength", "/maxLength", "/type"}),
    "pattern and length": (
        {"type": "string", "pattern": "^a{5}$", "maxLength": 4},
        {"/pattern", "/maxLength", "/type"},
    ),
    "items": ({"type": "array", "minItems": 3, "maxItems": 2}, {"/minItems", "/maxItems", "/type"}),
    "required and forbidden": (
        {"type": "object", "required": ["a"], "additionalProperties": False},
        {"/type", "/required", "/additionalProperties"},
    ),
    "inside a property": (
        {
            "type": "object",
            "required": ["a"],
            "properties": {"a": {"type": "object", "required": ["b"], "properties": {"b": False}}},
        },
        {"/properties/a/type", "/properties/a/required", "/properties/a/properties/b"},
    ),
    "constants": ({"const": {"a": 1}, "enum": [{"a": 2}, 3]}, {"/const", "/enum"}),
    "contains": (
        {"type": "array", "items": {"type": "string"}, "contains": {"type": "null"}},
        {"/type", "/items", "/contains"},
    ),
    "different items": (
        {"type": "array", "items": {"type": "boolean"}, "uniqueItems": True, "minItems": 3},
        {"/type", "/items", "/uniqueItems", "/minItems"},
    ),
}
