"""Canonical JSON values: equality is JSON's, numbers are exact, and text is read strictly."""

from __future__ import annotations

import json
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from slipcast.grammar.errors import GrammarError
from slipcast.grammar.schema import values
from slipcast.grammar.schema.values import canonical, number_text, parse_json, to_json, to_python

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=("Cs",)), max_size=5)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(st.characters(exclude_categories=("Cs",)), max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(
    ("left", "right", "equal"),
    [
        (1, 1.0, True),
        (1, Decimal("1.00"), True),
        (0.1, Decimal("0.1"), True),
        (0.0, -0.0, True),
        (Decimal("1e400"), 10**400, True),
        (2**53 + 1, float(2**53), False),
        (1, True, False),
        (0, False, False),
        ([1], [True], False),
        ({"a": 0}, {"a": False}, False),
        (None, False, False),
        ("", None, False),
        ([], {}, False),
        ([], "", False),
        ("a", ["a"], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1.0}, True),
        ([1, 2], [2, 1], False),
        ([1, 2], (1, 2), True),
        ([["a", 1]], {"a": 1}, False),
    ],
)
def test_equality_is_that_of_json(left: object, right: object, equal: bool) -> None:
    assert (canonical(left) == canonical(right)) is equal
    if equal:
        assert hash(canonical(left)) == hash(canonical(right))


@given(JSON)
def test_canonical_values_survive_python_and_text(value: object) -> None:
    form = canonical(value)
    assert canonical(to_python(form)) == form
    assert canonical(parse_json(to_json(form))) == form
    assert canonical(parse_json(json.dumps(value))) == form


@given(JSON)
def test_both_parsers_agree(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False)):
        assert values._parse_deep(text) == parse_json(text)


@given(JSON, st.integers(0, 60), st.sampled_from(['"', "{", "}", "[", "]", ",", ":", "0", "-", "e", " ", "\\", "t"]))
def test_both_parsers_refuse_the_same(value: object, place: int, char: str) -> None:
    text = json.dumps(value)
    place %= len(text) + 1
    broken = text[:place] + char + text[place + 1 :]

    def verdict(parse: object) -> object:
        try:
            return canonical(parse(broken))
        except GrammarError:
            return "refused"

    assert verdict(values._parse_deep) == verdict(parse_json)


@given(st.integers(-(10**12), 10**12), st.integers(0, 12), st.integers(0, 12))
def test_number_text_is_exact(numerator: int, twos: int, fives: int) -> None:
    amount = Fraction(numerator, 2**twos * 5**fives)
    text = number_text(amount)
    assert Fraction(text) == amount
    assert "e" not in text.lower()
    assert not ("." in text and text.endswith("0"))


def test_number_text_has_no_endless_decimals() -> None:
    with pytest.raises(ValueError, match="no finite decimal"):
        number_text(Fraction(1, 3))


@pytest.mark.parametrize(
    "value", [float("nan"), float("-inf"), Decimal("nan"), {1: 2}, {1}, b"a", "\udc00", {"\ud800": 1}]
)
def test_what_is_no_json_value(value: object) -> None:
    with pytest.raises(GrammarError):
        canonical(value, "/const")


def test_to_python_picks_the_plainest_exact_number() -> None:
    assert [type(to_python(canonical(value))) for value in (1.0, 0.5, Decimal("0.1"), Decimal("0.1") ** 30)] == [
        int,
        float,
        float,
        float,
    ]
    exact = Decimal("0.1234567890123456789012345")
    assert to_python(canonical(exact)) == exact
    assert to_python(canonical(Decimal("1e-400"))) == Decimal("1e-400")
