"""The numbers of one sign in a set, by absolute value, in integer arithmetic."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Hashable
from dataclasses import replace
from fractions import Fraction
from math import lcm
from typing import NamedTuple

from .number_spec import NumberSpec, common_step, contains, numbers_empty, signed_multiples


class Text(NamedTuple):
    """The digits of a number's text so far: all of them as one integer, how many they are, and how many are after the
    point (-1: there is no point yet)."""

    negative: bool
    value: int
    digits: int
    places: int


class State:
    """A state of a number automaton: what may follow depends on `key` alone; `text` is one text that leads here."""

    __slots__ = ("key", "text")

    def __init__(self, key: Hashable, text: Text) -> None:
        self.key = key
        self.text = text

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, State) and self.key == other.key


def scale_of(spec: NumberSpec, *more: int) -> int:
    """An integer such that all numbers of `spec`, and 1 over each of `more`, are integers when multiplied by it."""
    step = common_step(spec.steps)
    fractions = [*spec.not_steps, *spec.excluded, *(f for f in (step, spec.low, spec.high) if f is not None)]
    return lcm(*more, *(fraction.denominator for fraction in fractions))


class Side:
    """Absolute values from `low` to `high` (None: no end), all times `scale`, without those in `excluded`.

    `scale` is that of `scale_of`. An empty side (`high` negative, or no value at all) is `empty`.
    """

    def __init__(self, spec: NumberSpec, negative: bool, scale: int) -> None:
        low, low_open, high, high_open = spec.low, spec.low_open, spec.high, spec.high_open
        if negative:
            low, low_open, high, high_open = _minus(high), high_open, _minus(low), low_open
        if low is None or low < 0:
            low, low_open = Fraction(0), False
        self.low, self.low_open = int(low * scale), int(low_open)
        self.high = None if high is None else int(high * scale)
        self.high_open = int(high_open)
        rest = replace(spec, excluded=frozenset(), only=None)
        # Only those that would be in the set otherwise: one less each.
        self.excluded = sorted(
            int(abs(e) * scale) for e in spec.excluded if ((e < 0) == negative or e == 0) and contains(rest, e)
        )
        step = common_step(spec.steps)
        self.multiples = [
            (sign, None if common is None else int(common * scale))
            for sign, common in signed_multiples(step, spec.not_steps)
        ]
        self.empty = numbers_empty(_one_sign(spec, negative))
        self._units: dict[int, list[tuple[int, int]]] = {}

    def any_between(self, low: int, high: int, unit: int, factor: int = 1) -> bool:
        """Whether the set holds a multiple of `unit` in low..high; all three are times `scale` and `factor`."""
        # The values asked about are integers here, so that an open bound is the next integer.
        low = max(low, self.low * factor + self.low_open)
        if self.high is not None:
            high = min(high, self.high * factor - self.high_open)
        if low > high:
            return False
        steps = self._multiples_of(unit) if factor == 1 else self._combined(unit, factor)
        if len(steps) == 1 and not self.excluded:
            return high // steps[0][1] * steps[0][1] >= low
        total = sum(sign * (high // step - (low - 1) // step) for sign, step in steps)
        if total <= 0 or not self.excluded:
            return total > 0
        within = self.excluded_between(-(-low // factor), high // factor)
        return total > len(within) or total > sum(e * factor % unit == 0 for e in within)

    def excluded_between(self, low: int, high: int) -> list[int]:
        """The excluded values from low to high."""
        return self.excluded[bisect_left(self.excluded, low) : bisect_right(self.excluded, high)]

    def has(self, value: int, factor: int = 1) -> bool:
        """Whether `value`, times `scale` and `factor`, is in the set."""
        return self.any_between(value, value, 1, factor)

    def _multiples_of(self, unit: int) -> list[tuple[int, int]]:
        found = self._units.get(unit)
        if found is None:
            found = self._units[unit] = self._combined(unit, 1)
        return found

    def _combined(self, unit: int, factor: int) -> list[tuple[int, int]]:
        return [(sign, unit if step is None else lcm(step * factor, unit)) for sign, step in self.multiples]


def _minus(value: Fraction | None) -> Fraction | None:
    return None if value is None else -value


def _one_sign(spec: NumberSpec, negative: bool) -> NumberSpec:
    """The part of `spec` at or below (above) zero."""
    zero = Fraction(0)
    if negative and (spec.high is None or spec.high > zero):
        return replace(spec, high=zero, high_open=False)
    if not negative and (spec.low is None or spec.low < zero):
        return replace(spec, low=zero, low_open=False)
    return spec
