"""Ways out: each is taken by the matcher, and following the last one never takes longer than it said."""

from __future__ import annotations

import json
import random

import jsonschema
import pytest
from engine_schemas import random_schema
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.grammar.errors import MatcherError

BYTES: list[bytes | None] = [bytes((byte,)) for byte in range(256)]
EOS = 256
COMPILER = GrammarCompiler(Vocabulary([*BYTES, None, b'{"', b'":', b'","', b"ab", b"true"], [EOS]))


def walk(rng: random.Random, text: str) -> list[int]:
    """`text` in random tokens."""
    data, tokens, position = text.encode(), [], 0
    names = {token: i for i, token in enumerate(COMPILER.vocabulary.tokens) if token}
    while position < len(data):
        length = rng.choice([n for n in (1, 2, 3, 4) if data[position : position + n] in names])
        tokens.append(names[data[position : position + length]])
        position += length
    return tokens


@pytest.mark.parametrize("seed", range(30))
def test_ways_lead_out_from_every_place_of_a_text(seed: int) -> None:
    rng = random.Random(seed)
    grammar = COMPILER.json_schema(random_schema(rng))
    matcher = grammar.matcher()
    way = matcher.way_out()
    for token in walk(rng, grammar.sample(seed)):
        before, count = matcher.fork(), len(way.tokens or ())
        assert matcher.accept(token)
        known = matcher.way_home(way, 10_000)
        assert known is not None
        fork = matcher.fork()
        assert all(fork.accept(taken) for taken in known.tokens or ()) and fork.is_accepting()
        length = len(known.tokens or ())
        assert known.fits(length) and not known.fits(length - 1)
        if length:
            tight = matcher.way_home(way, length - 1)
            assert tight is None or len(tight.tokens or ()) < length
        if count:
            first, rest = way.step()
            assert before.accept(first) and len(rest.tokens or ()) == count - 1
        way = known
    assert matcher.is_accepting() and matcher.way_home(way, 0) is not None


def test_recorded_text_is_minded() -> None:
    # After [1 the way "]" would give the item 1 again; only the text that was recorded tells.
    grammar = COMPILER.json_schema(
        {"type": "array", "items": {"enum": [1, 11]}, "uniqueItems": True, "minItems": 2}, whitespace="compact"
    )
    matcher = grammar.matcher()
    way = matcher.way_out()
    for byte in b"[11":
        assert matcher.accept(byte)
        home = matcher.way_home(way, 100)
        assert home is not None
        way = home
    assert grammar.accepts(b"[11" + way.data)


def test_bytes_that_are_no_tokens_are_gone_round() -> None:
    # The shortest way out of half a character is another half that this vocabulary does not have.
    pieces: list[bytes | None] = [b'"', b"\xe2\x82", b"\xac", None]
    matcher = GrammarCompiler(Vocabulary(pieces, [3])).json_schema({"type": "string"}).matcher()
    assert matcher.accept(0) and matcher.accept(1)
    assert matcher.closing() == (2, 0)


def test_a_vocabulary_that_cannot_spell_any_way_out_says_so() -> None:
    matcher = GrammarCompiler(Vocabulary([b'"', b"\xe2\x82", None], [2])).json_schema({"type": "string"}).matcher()
    way = matcher.way_out()
    assert matcher.accept(0) and matcher.accept(1)
    with pytest.raises(MatcherError, match="no tokens of the vocabulary"):
        matcher.way_out()
    assert matcher.way_home(way, 100) is None


NAMED = {"type": "object", "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}, "required": ["id"]}
ITEMS = {
    "strings": ({"type": "string"}, lambda rng, i: f"{'abc'[i % 3] * i}"),
    "integers": ({"type": "integer"}, lambda rng, i: i if rng.random() < 0.5 else 10 * i),
    "objects": (NAMED, lambda rng, i: {"id": i, **({"name": "ab" * (i % 3)} if rng.random() < 0.5 else {})}),
    "closed": ({**NAMED, "additionalProperties": False}, lambda rng, i: {"id": i % 4, "name": f"{i}"}),
    "arrays": ({"type": "array", "items": {"type": "integer"}}, lambda rng, i: [i % 2, i]),
    "within": (
        {"type": "array", "items": {"enum": [1, 2, 3, 4]}, "uniqueItems": True, "minItems": 2},
        lambda rng, i: rng.sample([1, 2, 3, 4], 4)[: 2 + i % 3],
    ),
    "anything": ({}, lambda rng, i: [None, i, {"a": i}, f"{i}"][i % 4]),
}


@pytest.mark.parametrize("kind", ITEMS)
def test_ways_beside_items_that_must_differ(kind: str) -> None:
    """The rest of a way is kept where the items so far are others than those it was found for."""
    items, value = ITEMS[kind]
    grammar = COMPILER.json_schema({"type": "array", "items": items, "uniqueItems": True, "minItems": 7})
    assumed = 0
    for seed in range(12):
        rng = random.Random(seed)
        values: list[object] = []
        while len(values) < 7:
            new = value(rng, len(values) + rng.randrange(5))
            values += [] if new in values else [new]
        separators = rng.choice([(", ", ": "), (",", ":")])
        matcher = grammar.matcher()
        way = matcher.way_out()
        for token in walk(rng, json.dumps(values, separators=separators)):
            assert matcher.accept(token)
            home = matcher.way_home(way, 10_000)
            assert home is not None and len(home.places) == len(home.data) + 1
            fork = matcher.fork()
            assert all(fork.accept(taken) for taken in home.tokens or ()) and fork.is_accepting()
            assumed += home._assumed
            way = home
        assert matcher.is_accepting()
    assert assumed > 50


MANY = {
    "integers": {"type": "array", "minItems": 10_000, "items": {"type": "integer"}},
    "vector": {"type": "array", "minItems": 1536, "maxItems": 1536, "items": {"type": "number"}},
    "objects": {
        "type": "array", "minItems": 50,
        "items": {"required": ["a", "b"], "properties": {"a": {"enum": ["x"]}, "b": {"type": "array", "minItems": 3}}},
    },
    "after others": {"type": "array", "minItems": 50, "prefixItems": [{"type": "string"}], "items": {"enum": [7, 8]}},
    "within": {"type": "array", "minItems": 30, "items": {"type": "array", "minItems": 30, "items": {"const": "x"}}},
    "counted": {"type": "array", "minItems": 30, "contains": {"const": 1}, "minContains": 3},
    "either": {
        "anyOf": [
            {"type": "array", "minItems": 30, "items": {"type": "integer"}},
            {"type": "array", "minItems": 20, "maxItems": 25, "items": {"type": ["integer", "null"]}},
        ]
    },
    "excluded": {"type": "array", "minItems": 6, "items": {"type": "integer"}, "not": {"enum": [[0] * 6, [0] * 7]}},
}  # fmt: skip


KEYS: dict[str, tuple[dict[str, object], dict[str, object]]] = {
    "open": ({"minProperties": 600}, {}),
    "any order": ({"minProperties": 60}, {"order": "any"}),
    "beside declared ones": (
        {"minProperties": 60, "required": ["b", "z"], "properties": {"b": {}, "c": {}, "aa": {"type": "null"}}},
        {},
    ),
    "one more at most": ({"minProperties": 40, "maxProperties": 41, "additionalProperties": {"enum": ["q"]}}, {}),
    "patterns": ({"minProperties": 30, "patternProperties": {"^x": {"type": "null"}}}, {}),
    "pattern of names": ({"minProperties": 30, "propertyNames": {"pattern": "^[a-f]{2,}$"}}, {}),
    "within": ({"minProperties": 12, "additionalProperties": {"type": "object", "minProperties": 12}}, {}),
    "pretty": ({"minProperties": 30}, {"whitespace": "pretty"}),
    "spaced": ({"minProperties": 30}, {"whitespace": "spaced"}),
}  # fmt: skip


@pytest.mark.parametrize("kind", KEYS)
def test_ways_out_of_objects_that_need_many_keys(kind: str) -> None:
    schema, options = {"type": "object", **KEYS[kind][0]}, KEYS[kind][1]
    matcher = COMPILER.json_schema(schema, **options).matcher()
    way = matcher.way_out()
    assert jsonschema.Draft202012Validator(schema).is_valid(json.loads(way.data))
    assert all(matcher.accept(token) for token in way.tokens or ()) and matcher.is_accepting()


@pytest.mark.parametrize("kind", MANY)
def test_ways_out_of_arrays_that_need_many_items(kind: str) -> None:
    schema = {"type": "array", **MANY[kind]}
    matcher = COMPILER.json_schema(schema).matcher()
    way = matcher.way_out()
    assert jsonschema.Draft202012Validator(schema).is_valid(json.loads(way.data))
    assert all(matcher.accept(token) for token in way.tokens or ()) and matcher.is_accepting()
