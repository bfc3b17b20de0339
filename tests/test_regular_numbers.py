"""Number automata against exact arithmetic: every text over small alphabets, for grids of bounds and steps."""

from __future__ import annotations

import itertools
import random
import re
from fractions import Fraction

import pytest
from slipcast.grammar.regular import (
    INFINITE,
    Language,
    NumberSpec,
    contains,
    natural_texts,
    number_count,
    number_values,
    numbers,
    numbers_empty,
)
from slipcast.grammar.regular.dfa import Dfa
from slipcast.grammar.regular.number_spec import common_step

NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")
F = Fraction


def value_of(text: str) -> Fraction | None:
    return Fraction(text) if NUMBER.fullmatch(text) else None


def all_texts(alphabet: str, length: int) -> list[str]:
    return ["".join(chars) for n in range(1, length + 1) for chars in itertools.product(alphabet, repeat=n)]


PLAIN = all_texts("-.0125", 5)
SHORT = [t for t in PLAIN if len(t) < 3]
SPELLED = [t for t in all_texts("-.015e", 5) if value_of(t) is not None] + [
    f"{sign}{mantissa}{e}{exponent}"
    for sign in ("", "-")
    for mantissa in ("0", "1", "10", "25", "0.5", "0.05", "2.50", "100", "120")
    for e in "eE"
    for exponent in ("0", "1", "2", "-1", "-2", "+1", "-0", "00", "-02", "+002")
]


def accepted(dfa: Dfa, text: str) -> bool:
    return Language(dfa).contains(text)


def check_shape(dfa: Dfa, steps: int = 150) -> None:
    """Distances are those of the automaton itself, and no dead state is ever reached."""
    if dfa.start is None:
        return
    seen, waiting = {dfa.start}, [dfa.start]
    while waiting and len(seen) < steps:
        state = waiting.pop(0)
        ahead = dfa.shortest(state)
        assert ahead < INFINITE
        assert (ahead == 0) == dfa.accepting(state)
        targets = [target for _, target in dfa.step(state)]
        if ahead:
            assert min(dfa.shortest(t) for t in targets) == ahead - 1
        waiting += [t for t in targets if t not in seen]
        seen.update(targets)


NUMBERS = ("-12", "-1.5", "-1", "-0.05", "0", "0.1", "1", "2.5", "10", "20.05", "125")
BOUNDS: list[Fraction | None] = [None, *map(F, NUMBERS)]
STEPS: list[tuple[Fraction, ...]] = [(), (F(1),), (F(2),), (F("0.5"),), (F("0.05"),), (F(25),), (F(1), F("0.4"))]


def grid() -> list[NumberSpec]:
    specs = []
    for low, high in itertools.product(BOUNDS, repeat=2):
        for number, steps in enumerate(STEPS):
            opens = [(False, False), (True, False), (False, True), (True, True)]
            low_open, high_open = opens[(len(specs) + number) % 4]
            specs.append(NumberSpec(low, low_open and low is not None, high, high_open and high is not None, steps))
    return specs


def extras() -> list[NumberSpec]:
    return [
        NumberSpec(not_steps=(F(1),)),
        NumberSpec(not_steps=(F("0.5"), F(5))),
        NumberSpec(steps=(F(1),), not_steps=(F(2),)),
        NumberSpec(steps=(F(1),), not_steps=(F(2), F(5)), low=F(-5), high=F(25)),
        NumberSpec(steps=(F("0.5"),), not_steps=(F(1),), low=F(-1)),
        NumberSpec(excluded=(F(0), F(1), F("2.5"))),
        NumberSpec(low=F(0), high=F(1), steps=(F(1),), excluded=(F(0),)),
        NumberSpec(low=F(0), high=F(1), steps=(F(1),), excluded=(F(0), F(1))),
        NumberSpec(low=F(0), high=F(2), excluded=(F(0), F(1), F("0.5"), F(-1))),
        NumberSpec(low=F(1), high=F(1)),
        NumberSpec(low=F("1.25"), high=F("1.25")),
        NumberSpec(low=F("1.25"), low_open=True, high=F("1.26"), high_open=True),
        NumberSpec(only=(F(1), F("2.5"), F(-10), F(0), F("0.05"))),
        NumberSpec(only=(F(1), F("2.5"), F(100)), low=F(2)),
        NumberSpec(low=F(0), low_open=True),
        NumberSpec(high=F(0), high_open=True),
        NumberSpec(high=F(0)),
        NumberSpec(steps=(F(1, 3),)),
        NumberSpec(low=F(1, 3), high=F(2, 3)),
    ]


def check(spec: NumberSpec, texts: list[str], spelling: str, digits: int = 6) -> None:
    dfa = numbers(spec, spelling=spelling, max_digits=digits)  # type: ignore[arg-type]
    integral = spec.integral
    plain = not (spec.steps or spec.not_steps or spec.excluded or {spec.low, spec.high} - {None, F(0)})
    for text in texts:
        value = value_of(text)
        wanted = value is not None and contains(spec, value)
        if spelling == "natural":
            if integral:
                wanted = wanted and "." not in text and text != "-0"
            if spec.only is not None:
                wanted = wanted and value is not None and text in natural_texts(value)
            if value == 0 and text.startswith("-"):
                continue  # "-0" is as it comes
            if "e" in text.lower() and not plain:
                wanted = False
            if spec.steps and "." in text and len(text.split(".")[1]) > places(spec):
                continue
        assert accepted(dfa, text) == wanted, (spec, text)
    check_shape(dfa, 40)


def places(spec: NumberSpec) -> int:
    return len(natural_texts(common_step(spec.steps) or F(1))[0].partition(".")[2])


@pytest.mark.parametrize("spelling", ["natural", "any"])
def test_a_grid_of_bounds_and_steps_takes_exactly_the_right_texts(spelling: str) -> None:
    random.seed(4)
    for spec in random.sample(grid(), 150):
        check(spec, random.sample(PLAIN, 60) + SHORT, spelling)


@pytest.mark.parametrize("spec", extras(), ids=str)
@pytest.mark.parametrize("spelling", ["natural", "any"])
def test_exclusions_lists_and_points_take_exactly_the_right_texts(spec: NumberSpec, spelling: str) -> None:
    random.seed(5)
    check(spec, random.sample(PLAIN if spelling == "natural" else SPELLED, 300), spelling)


def test_every_spelling_of_a_value_is_taken() -> None:
    random.seed(7)
    for spec in random.sample(grid(), 50):
        check(spec, random.sample(SPELLED, 150), "any")


@pytest.mark.parametrize("spec", [*random.Random(1).sample(grid(), 200), *extras()], ids=str)
def test_counts_and_values_agree_with_a_search(spec: NumberSpec) -> None:
    values = [v for n in range(-3000, 3001) if contains(spec, v := F(n, 20))]
    assert numbers_empty(spec) <= (not values)
    if number_count(spec, 10_000) < 10_000 and spec.low != F("1.25") and spec.low != F(1, 3):
        assert number_count(spec, 10_000) == len(values)
        assert number_values(spec, 10_000) == tuple(values)
    else:
        assert number_values(spec, 3) is None or len(number_values(spec, 3) or ()) <= 3
    assert (numbers(spec).start is None) == numbers_empty(spec)


def test_digits_are_bounded_on_both_sides_of_the_point() -> None:
    dfa = numbers(NumberSpec(), max_digits=5)
    assert accepted(dfa, "12345.12345")
    assert not accepted(dfa, "123456")
    assert not accepted(dfa, "1.123456")
    assert accepted(numbers(NumberSpec(steps=(F(1),))), "9" * 40)
    assert not accepted(numbers(NumberSpec(steps=(F(1),))), "9" * 41)


@pytest.mark.parametrize(
    ("value", "texts"),
    [
        (F(1), ("1",)),
        (F("-2.5"), ("-2.5",)),
        (F("1e-7"), ("0.0000001", "1e-7", "1e-07")),
        (F(10) ** 60, ("1e60", "1e+60")),
        (F(0), ("0",)),
    ],
)
def test_listed_values_are_written_as_json_writers_do(value: Fraction, texts: tuple[str, ...]) -> None:
    assert natural_texts(value) == texts


def test_a_large_step_needs_no_search() -> None:
    dfa = numbers(NumberSpec(steps=(F(1_000_000_007),), low=F(10) ** 12))
    assert dfa.start is not None and dfa.shortest(dfa.start) == 13
    assert accepted(dfa, str(1_000_000_007 * 123_456))
    assert not accepted(dfa, str(1_000_000_007 * 123_456 + 1))
    check_shape(dfa, 30)


def test_equal_specs_share_one_automaton() -> None:
    spec = NumberSpec(low=F(3), high=F(9))
    assert numbers(spec) is numbers(NumberSpec(low=F(3), high=F(9)))
