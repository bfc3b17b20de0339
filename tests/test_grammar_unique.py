"""Containers that must differ from others: `uniqueItems` of objects and arrays, negated constants and enumerations."""

from __future__ import annotations

import json
import random
from itertools import product
from typing import Any

import jsonschema
import numpy as np
import pytest
from slipcast.grammar import CompiledGrammar, GrammarCompiler, UnsatisfiableError, Vocabulary
from test_tokens_masks import walk

BYTES = GrammarCompiler(Vocabulary(tokens=[bytes((i,)) for i in range(256)] + [None], eos_ids=[256]))
INNER: list[Any] = [{}, {"a": 1}, {"a": 2}, {"b": 1}, {"a": 1, "b": 1}, {"a": 1, "b": 2}, {"b": {"a": 1}}, {"b": []}]
ITEMS: list[Any] = [*INNER, [], [1], [1, 1], [1, 2], [{"a": 1}], [[1]], 1, "a", None]
PAIR = {"properties": {"a": {"enum": [1, 2]}, "b": {"enum": [1, 2]}}}
CLOSED = {**PAIR, "type": "object", "additionalProperties": False}
FULL = {**CLOSED, "required": ["a", "b"]}

NEGATED: dict[str, Any] = {
    "const": {"not": {"const": {"a": 1, "b": 1}}},
    "const of an array": {"not": {"const": [1, 2]}},
    "empty": {"not": {"enum": [{}, []]}},
    "enum": {"not": {"enum": [{"a": 1}, {"a": 1, "b": 1}, {"b": {"a": 1}}, [1], [1, 1], [[1]], 1]}},
    "closed": {**CLOSED, "not": {"enum": [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}]}},
    "all but one": {**FULL, "not": {"enum": [{"a": 1, "b": 1}, {"a": 1, "b": 2}, {"a": 2, "b": 1}]}},
    "beside a count": {"type": "object", "maxProperties": 1, "not": {"enum": [{"a": 1}, {}]}},
    "beside a demand": {"type": "object", "minProperties": 1, "not": {"enum": [{"a": 1}, {"b": 1}]}},
    "beside contains": {"contains": {"const": 1}, "not": {"enum": [[1], [1, 1]]}},
    "beside a tuple": {"prefixItems": [{"const": 1}], "maxItems": 2, "not": {"enum": [[], [1], [1, 1]]}},
    "deep": {"not": {"enum": [{"b": {"a": 1}}, {"b": []}, [{"a": 1}]]}},
    "in anyOf": {"anyOf": [{"const": {"a": 1}}, {**CLOSED, "not": {"enum": [{"a": 1}, {"a": 2}]}}]},
    "in oneOf": {"oneOf": [{"enum": [{"a": 1}, [1]]}, {"enum": [{"a": 1}, [1, 1], {}]}]},
    "unevaluated": {"properties": {"a": True}, "unevaluatedProperties": False, "not": {"const": {"a": 1}}},
}


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", NEGATED)
def test_what_is_excluded_is_all_that_is_refused(name: str, order: Any) -> None:
    grammar = BYTES.json_schema(NEGATED[name], order=order)
    validator = jsonschema.Draft202012Validator(NEGATED[name])
    for value in ITEMS:
        assert grammar.accepts(json.dumps(value)) is validator.is_valid(value), value
    ends_everywhere(grammar, validator, seed=len(name))


def test_nothing_is_left_where_all_is_excluded() -> None:
    every = [{"a": a, "b": b} for a, b in product((1, 2), repeat=2)]
    with pytest.raises(UnsatisfiableError):
        BYTES.json_schema({**FULL, "not": {"enum": every}}, order="any")
    with pytest.raises(UnsatisfiableError):
        BYTES.json_schema({"type": "array", "items": FULL, "uniqueItems": True, "minItems": 5})
    assert BYTES.json_schema({"type": "array", "items": FULL, "uniqueItems": True, "minItems": 4})


UNIQUE: dict[str, Any] = {
    "anything": {},
    "open": {"items": {**PAIR, "type": "object"}},
    "closed": {"items": CLOSED},
    "all there": {"items": FULL, "minItems": 3},
    "arrays": {"items": {"type": "array", "items": {"enum": [1, 2]}, "maxItems": 2}},
    "unique arrays": {"items": {"type": "array", "uniqueItems": True, "items": {"enum": [1, {"a": 1}]}}},
    "either": {"items": {"anyOf": [CLOSED, {"type": "array", "items": {"type": "integer"}}, {"enum": ["a", None]}]}},
    "contains": {"items": CLOSED, "contains": {"required": ["b"]}, "minContains": 2},
    "tuple": {"prefixItems": [{"type": "object"}, CLOSED], "items": {"type": "array"}},
    "few after many": {"prefixItems": [{"type": "string"}, {"enum": ["a", "b"]}, {"enum": ["a", "c"]}]},
}


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize("name", UNIQUE)
def test_arrays_of_different_containers(name: str, order: Any) -> None:
    schema = {"type": "array", "uniqueItems": True, **UNIQUE[name]}
    grammar = BYTES.json_schema(schema, order=order)
    validator = jsonschema.Draft202012Validator(schema)
    chance = random.Random(name)
    pairs = [list(items) for items in product(ITEMS, repeat=2)]
    for value in [[], *([item] for item in ITEMS), *pairs, *(chance.choices(ITEMS, k=3) for _ in range(200))]:
        assert grammar.accepts(json.dumps(value)) is validator.is_valid(value), value
    ends_everywhere(grammar, validator, seed=len(name))


def ends_everywhere(grammar: CompiledGrammar, validator: Any, seed: int) -> None:
    """From every place of random texts the shortest way out leads to a valid value."""
    chance = random.Random(seed)
    for _ in range(12):
        matcher = grammar.matcher()
        text = bytearray()
        row = np.zeros((257 + 31) // 32, np.int32)
        for _ in range(40):
            matcher.fill_mask(row)
            allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")[:256]).tolist()
            way = matcher.way_out()
            assert validator.is_valid(json.loads(bytes(text) + way.data)), bytes(text)
            likely = [byte for byte in allowed if byte > 0x20 and byte != 0x5C and byte < 0x7F]
            if not likely:
                break
            byte = way.data[0] if way.data and chance.random() < 0.5 else chance.choice(likely)
            assert matcher.accept(byte)
            text.append(byte)


def pieces(seed: int, count: int = 900) -> Vocabulary:
    """All bytes, and pieces of arrays of like items, many of which reach from one item into the next."""
    chance = random.Random(seed)
    texts = ['[{"a":1,"b":2},{"a":1,"b":1},{"a":2},{"b":1},{}]', "[[1],[1,1],[1,2],[],[2]]", '["a","b","c","ab"]']
    texts += ['[{"b":{"a":1}},{"a":1},[{"a":1}],[[1]],null]', '["x", "a", "c"]', '[ {"a": 1}, {"a": 2} ]']
    made = {bytes((byte,)) for byte in range(256)}
    while len(made) < count:
        data = chance.choice(texts).encode()
        start = chance.randrange(len(data))
        made.add(data[start : start + chance.randint(2, 14)])
    tokens: list[bytes | None] = sorted(made)
    chance.shuffle(tokens)
    return Vocabulary([*tokens, None], eos_ids=[len(tokens)])


@pytest.mark.parametrize("options", [{}, {"order": "any", "whitespace": "spaced"}, {"whitespace": "pretty"}], ids=str)
@pytest.mark.parametrize("name", UNIQUE)
def test_masks_of_tokens_that_span_items(name: str, options: Any) -> None:
    schema = {"type": "array", "uniqueItems": True, **UNIQUE[name]}
    grammar = GrammarCompiler(pieces(len(name))).json_schema(schema, **options)
    chance = random.Random(name)
    for _ in range(5):
        matcher = grammar.matcher()
        walk(matcher.level, matcher._automaton, chance, 16)  # type: ignore[arg-type]


RECORD = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}, "tags": {"type": "array"}},
    "required": ["name", "age"],
}


@pytest.mark.parametrize("order", ["schema", "any"])
@pytest.mark.parametrize(
    ("items", "make"),
    [
        (RECORD, lambda i: {"name": f"n{i % 7}", "age": i, "tags": ["x"] * (i % 3)}),
        (RECORD, lambda i: {"name": "same", "age": i}),
        ({**RECORD, "required": []}, lambda i: {"name": f"n{i}"} if i % 2 else {"age": i}),
        ({"type": "array", "items": {"type": "integer"}}, lambda i: [i % 3, i]),
        ({}, lambda i: {"a": [i % 2], "b": {"c": i}}),
    ],
    ids=["records", "one name", "optional", "arrays", "anything"],
)
def test_long_arrays_of_different_containers(items: Any, make: Any, order: Any) -> None:
    """Alternatives that multiplied for every item ended such arrays after ten of them."""
    grammar = BYTES.json_schema({"type": "array", "uniqueItems": True, "items": items}, order=order)
    values = [make(i) for i in range(60)]
    assert grammar.accepts(json.dumps(values))
    for again in (0, 31, 59):
        assert not grammar.accepts(json.dumps([*values, values[again]]))
    assert grammar.accepts(json.dumps([*values, make(60)]))


def test_strings_but_a_few_have_a_way_on_from_each_of_them() -> None:
    schema = {"type": "string", "maxLength": 3, "not": {"enum": ["a", "ab", "abc", "é"]}}
    grammar = BYTES.json_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for text in ["", "a", "ab", "abc", "abd", "b", "é", "éa", "éab", "abcd"]:
        assert grammar.accepts(json.dumps(text, ensure_ascii=False)) is validator.is_valid(text), text
    ends_everywhere(grammar, validator, seed=3)
    short = {"type": "string", "maxLength": 1, "not": {"enum": ["", "a"]}}
    ends_everywhere(BYTES.json_schema(short), jsonschema.Draft202012Validator(short), seed=4)


def test_the_way_home_stays_one_while_an_item_is_written() -> None:
    """A way through twenty more items is known after each byte without going through them, and is one for this text."""
    items = {"type": "object", "properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
    schema = {"type": "array", "uniqueItems": True, "minItems": 12, "items": {**items, "required": ["name", "age"]}}
    grammar = BYTES.json_schema(schema, whitespace="compact")
    validator = jsonschema.Draft202012Validator(schema)
    chance = random.Random(8)
    for values in (
        [{"name": f"n{i}", "age": i} for i in range(3)],
        [{"name": "", "age": i} for i in range(5)],  # as the way itself would go on
        [{"name": chance.choice(["", "a", "b"]), "age": chance.randrange(9), "x": [i]} for i in range(4)],
    ):
        matcher, written = grammar.matcher(), bytearray()
        way = matcher.way_out()
        for byte in json.dumps(values, separators=(",", ":")).encode()[:-1]:
            assert matcher.accept(byte)
            written.append(byte)
            home = matcher.way_home(way, 10_000)
            assert home is not None
            way = home
            assert validator.is_valid(json.loads(bytes(written) + way.data)), bytes(written)
        count = len(way.tokens or ())
        while count:  # followed to its end, each step is within what is left
            token, rest = way.step()
            assert matcher.accept(token)
            count -= 1
            home = matcher.way_home(rest, count)
            assert home is not None and home.fits(count)
            way = home
        assert matcher.is_accepting()
