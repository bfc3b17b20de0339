"""Sets of numbers as JSON Schema describes them, exact, and questions about their values.

A JSON number is a finite decimal, so a step that is none (1/3) is replaced by its least multiple that is one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from math import lcm

from ..frozen import frozen

_CACHED = 1024


@frozen
class NumberSpec:
    """Numbers within bounds (None: unbounded) that are multiples of all `steps`, of none of `not_steps`, not in
    `excluded` and, unless `only` is None, in `only`."""

    low: Fraction | None = None
    low_open: bool = False
    high: Fraction | None = None
    high_open: bool = False
    steps: tuple[Fraction, ...] = ()
    not_steps: tuple[Fraction, ...] = ()
    excluded: Collection[Fraction] = frozenset()
    only: Collection[Fraction] | None = None

    def __post_init__(self) -> None:
        # Sets look up in no time, and know their hash once it was computed: thousands of listed values are common.
        object.__setattr__(self, "excluded", frozenset(self.excluded))
        if self.only is not None:
            object.__setattr__(self, "only", frozenset(self.only))

    @property
    def integral(self) -> bool:
        """Whether a step forces every value to be an integer."""
        step = common_step(self.steps)
        return step is not None and step.denominator == 1


def contains(spec: NumberSpec, value: Fraction) -> bool:
    """Whether `value` is in the set."""
    if spec.low is not None and (value < spec.low or (spec.low_open and value == spec.low)):
        return False
    if spec.high is not None and (value > spec.high or (spec.high_open and value == spec.high)):
        return False
    if any(value % step for step in spec.steps) or not all(value % step for step in spec.not_steps):
        return False
    return is_decimal(value) and value not in spec.excluded and (spec.only is None or value in spec.only)


def numbers_empty(spec: NumberSpec) -> bool:
    """Whether no number is in the set."""
    return number_count(spec, 1) == 0


def number_count(spec: NumberSpec, limit: int) -> int:
    """How many numbers are in the set, or `limit` if there are more."""
    return min(_count(spec), limit)


def number_values(spec: NumberSpec, limit: int) -> tuple[Fraction, ...] | None:
    """All numbers of the set, rising, if they are at most `limit`; else None."""
    if _count(spec) > limit:
        return None
    return tuple(sorted({value for value in _candidates(spec) if contains(spec, value)}))


def is_decimal(value: Fraction) -> bool:
    """Whether `value` is a finite decimal."""
    return strip(value.denominator, 10)[0] == 1


def strip(number: int, base: int) -> tuple[int, int, int]:
    """`number` (not 0) without its factors 2 and 5, and how many of each it had; `base` 2 or 5 takes only those."""
    twos = (number & -number).bit_length() - 1 if base != 5 else 0
    number >>= twos
    fives = 0
    while base != 2 and number % 5 == 0:
        number //= 5
        fives += 1
    return number, twos, fives


@lru_cache(_CACHED)
def common_step(steps: tuple[Fraction, ...]) -> Fraction | None:
    """The decimals that are multiples of all `steps` are the multiples of this; None: there are no steps."""
    if not steps:
        return None
    denominator = lcm(*(step.denominator for step in steps))
    numerator = lcm(*(step.numerator * (denominator // step.denominator) for step in steps))
    found = Fraction(numerator, denominator)
    return found * strip(found.denominator, 10)[0]


def joint(a: Fraction, b: Fraction) -> Fraction:
    """The least common multiple of two positive fractions."""
    denominator = lcm(a.denominator, b.denominator)
    left, right = a * denominator, b * denominator
    return Fraction(lcm(left.numerator, right.numerator), denominator)


@lru_cache(_CACHED)
def signed_multiples(
    step: Fraction | None, not_steps: tuple[Fraction, ...]
) -> tuple[tuple[int, Fraction | None], ...]:
    """Inclusion and exclusion: the multiples of `step` and of none of `not_steps` are the signed sum of those of these.

    None stands for all numbers, where `step` is None.
    """
    found: dict[Fraction | None, int] = {step: 1}
    for size in range(1, len(not_steps) + 1):
        for chosen in combinations(not_steps, size):
            common = chosen[0] if step is None else joint(step, chosen[0])
            for other in chosen[1:]:
                common = joint(common, other)
            common *= strip(common.denominator, 10)[0]
            found[common] = found.get(common, 0) + (-1) ** size
    return tuple((sign, common) for common, sign in found.items() if sign)


_ENDLESS = 1 << 62


@lru_cache(_CACHED)
def _count(spec: NumberSpec) -> int:
    if spec.only is not None or (spec.low is not None and spec.low == spec.high):
        return len({value for value in _candidates(spec) if contains(spec, value)})
    if spec.low is not None and spec.high is not None and spec.low > spec.high:
        return 0
    step = common_step(spec.steps)
    if step is None:
        return _ENDLESS
    lcms = [(sign, common) for sign, common in signed_multiples(step, spec.not_steps) if common is not None]
    if spec.low is None or spec.high is None:
        # Periodic over the least common multiple of all: if one period holds any, there is no end of them.
        period = step
        for _, common in lcms:
            period = joint(period, common)
        return _ENDLESS if sum(sign * (period // common) for sign, common in lcms) > 0 else 0
    first, last = bounds_on(step, spec)
    low, high = first * step, last * step
    total = sum(sign * (high // common - -(-low // common) + 1) for sign, common in lcms) if first <= last else 0
    removed = {value for value in spec.excluded if contains(_without_exclusions(spec), value)}
    return total - len(removed)


def _without_exclusions(spec: NumberSpec) -> NumberSpec:
    return NumberSpec(spec.low, spec.low_open, spec.high, spec.high_open, spec.steps, spec.not_steps)


def bounds_on(step: Fraction, spec: NumberSpec) -> tuple[int, int]:
    """The first and the last multiple of `step` within the bounds of `spec`, which has both, as numbers of steps."""
    assert spec.low is not None and spec.high is not None
    first = -(-spec.low // step)
    last = spec.high // step
    return first + (spec.low_open and first * step == spec.low), last - (spec.high_open and last * step == spec.high)


def _candidates(spec: NumberSpec) -> Iterator[Fraction]:
    """Values among which all of a finite set are."""
    if spec.only is not None:
        yield from spec.only
    elif spec.low is not None and spec.low == spec.high:
        yield spec.low
    elif (step := common_step(spec.steps)) is not None and _count(spec):
        first, last = bounds_on(step, spec)
        yield from (number * step for number in range(first, last + 1))
