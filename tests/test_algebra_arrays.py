"""Arrays against plain enumeration: counting demands, and items that must be equal somewhere."""

from __future__ import annotations

import json
from itertools import combinations, product
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.grammar.algebra.fits import ENDLESS, Vector, fits

LONGEST = 12


def spread(kinds: list[frozenset[int]], needs: Vector, rooms: Vector, wanted: int, room: int) -> bool:
    """What `fits` says, by going through all choices of up to twelve items."""
    states = {(needs, rooms)}
    for length in range(min(room, LONGEST) + 1):
        if length >= wanted and any(not any(left) for left, _ in states):
            return True
        states = {
            (
                tuple(max(0, n - (j in kind)) for j, n in enumerate(left)),
                tuple(s - (j in kind and s < ENDLESS) for j, s in enumerate(spare)),
            )
            for left, spare in states
            for kind in kinds
            if all(spare[j] for j in kind)
        }
    return False


@st.composite
def questions(draw: st.DrawFn) -> tuple[list[frozenset[int]], Vector, Vector, int, int]:
    count = draw(st.integers(1, 3))
    every = [frozenset(chosen) for size in range(count + 1) for chosen in combinations(range(count), size)]
    kinds = draw(st.lists(st.sampled_from(every), unique=True, max_size=len(every)))
    needs = draw(st.tuples(*[st.integers(0, 2)] * count))
    rooms = draw(st.tuples(*[st.sampled_from([0, 1, 2, ENDLESS])] * count))
    room = draw(st.sampled_from([0, 1, 2, 3, 5, ENDLESS]))
    return kinds, needs, rooms, draw(st.integers(0, min(3, room))), room


@settings(max_examples=600, deadline=None, derandomize=True)
@given(questions())
def test_demands_fit_where_some_choice_of_items_meets_them(
    question: tuple[list[frozenset[int]], Vector, Vector, int, int],
) -> None:
    assert fits(*question) == spread(*question)


ARRAYS = [list(items) for size in range(4) for items in product([0, 1, "a"], repeat=size)]
REPEATING: list[dict[str, Any]] = [
    {"not": {"uniqueItems": True}},
    {"not": {"uniqueItems": True}, "maxItems": 2},
    {"not": {"uniqueItems": True}, "maxItems": 2, "items": {"type": "integer"}},
    {"not": {"uniqueItems": True}, "maxItems": 3, "prefixItems": [{"type": "string"}, {"type": "integer"}]},
    {"not": {"uniqueItems": True}, "prefixItems": [{"const": 0}, {"enum": [1, 0]}, {"const": 1}], "maxItems": 3},
    {"not": {"uniqueItems": True}, "prefixItems": [True, {"const": "a"}, {"const": 1}], "items": False},
    {"not": {"uniqueItems": True, "minItems": 1}, "items": {"type": "integer"}, "maxItems": 2},
    {"not": {"uniqueItems": True}, "contains": {"const": "a"}, "maxItems": 3},
]


@pytest.mark.parametrize("keywords", REPEATING, ids=json.dumps)
def test_items_that_are_not_all_different(keywords: dict[str, Any]) -> None:
    schema = {"type": "array", **keywords}
    valid = jsonschema.Draft202012Validator(schema).is_valid
    grammar = GrammarCompiler(Vocabulary([bytes((i,)) for i in range(256)] + [None], eos_ids=[256])).json_schema(schema)
    assert [grammar.accepts(json.dumps(items)) for items in ARRAYS] == [valid(items) for items in ARRAYS]
    assert all(grammar.accepts(grammar.sample(seed)) for seed in range(5))  # no way leads nowhere
