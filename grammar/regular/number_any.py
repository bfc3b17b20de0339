"""Automata of numbers in every spelling: `1`, `1.0`, `10e-1`, `0.001E+3`.

An exponent makes the digits before it mean anything, so that a state keeps them all. After the `e` only the set of
exponents that give a value in the set matters: an interval with holes, calculated once.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

from .charset import CharSet
from .dfa import INFINITE, LazyDfa, lazy
from .number_side import Side, State, Text, scale_of
from .number_spec import NumberSpec, common_step, strip

MAX_EXPONENT_DIGITS = 4
MAX_EXPONENT = 3_500  # with all its digits still a value that `schema.values` takes: an item may have to be remembered
_DIGITS = [CharSet.char(ord("0") + digit) for digit in range(10)]
_MINUS, _POINT, _E, _SIGNS = CharSet.char(ord("-")), CharSet.char(ord(".")), CharSet.chars("eE"), CharSet.chars("+-")
_PLUS = _SIGNS - _MINUS


class Exponents(NamedTuple):
    """Integers from `low` to `high` but not in `holes`; where `listed` is not None, just those."""

    low: int
    high: int
    holes: tuple[int, ...]
    listed: tuple[int, ...] | None = None

    def any_between(self, low: int, high: int) -> bool:
        """Whether one of them is in low..high."""
        if self.listed is not None:
            return any(low <= e <= high for e in self.listed)
        low, high = max(low, self.low), min(high, self.high)
        return high - low + 1 > sum(low <= hole <= high for hole in self.holes)


NO_EXPONENT = Exponents(0, -1, ())
EVERY_EXPONENT = Exponents(-MAX_EXPONENT, MAX_EXPONENT, ())


class InExponent(NamedTuple):
    """The key of a state after the `e`: the exponents allowed, and the one read so far (`sign` 0: nothing yet)."""

    allowed: Exponents
    sign: int
    value: int
    digits: int


class AnyDfa(LazyDfa[State]):
    """The texts of any spelling whose value is in a set that is not listed.

    Keys are tuples before the exponent, `InExponent` in it.
    """

    def __init__(self, spec: NumberSpec, max_digits: int) -> None:
        self.spec = spec
        self.max_digits = max_digits
        self.unit = common_step(spec.steps)
        self.scale = scale_of(spec)
        self.sides = [Side(spec, negative, self.scale) for negative in (False, True)]
        self.zero = self.sides[0].has(0)
        # An integer, otherwise unbounded: of the digits only the zeros at their end matter.
        self.plain = spec == NumberSpec(steps=spec.steps) and self.unit in (None, Fraction(1))
        key = ("any numbers", self.spec, max_digits)
        super().__init__(key, "the numbers of a schema", self._state(Text(False, 0, 0, -1)))

    def _state(self, text: Text) -> State:
        return State(self._key(text), text)

    def _key(self, text: Text) -> Hashable:
        _, value, count, places = text
        if not self.plain or not count:
            return ("digits", text)
        if self.unit is None:
            return ("digits", value == 0 and places < 0, count if places < 0 else -1, places)
        zeros = 0
        while value and value % 10**(zeros + 1) == 0:
            zeros += 1
        return ("digits", value == 0, zeros, count if places < 0 else -1, places)

    # Moves

    def _moves(self, state: State) -> Iterable[tuple[CharSet, State]]:
        if isinstance(state.key, InExponent):
            return list(self._exponent_moves(state.key, state.text))
        return list(self._digit_moves(state.text))

    def _digit_moves(self, text: Text) -> Iterator[tuple[CharSet, State]]:
        negative, value, count, places = text
        if count == 0:
            if not negative:
                yield _MINUS, self._state(Text(True, 0, 0, -1))
        else:
            if places < 0:
                yield _POINT, self._state(Text(negative, value, count, 0))
            if places != 0:
                yield _E, State(InExponent(self.exponents(text), 0, 0, 0), text)
        before_full = count > 0 and (value == 0 or count >= self.max_digits)
        if not (before_full if places < 0 else places >= self.max_digits):
            after = places + 1 if places >= 0 else -1
            for digit in range(10):
                yield _DIGITS[digit], self._state(Text(negative, value * 10 + digit, count + 1, after))

    def _exponent_moves(self, key: InExponent, text: Text) -> Iterator[tuple[CharSet, State]]:
        allowed, sign, value, digits = key
        if sign == 0:
            yield _PLUS, State(InExponent(allowed, 1, 0, 0), text)
            yield _MINUS, State(InExponent(allowed, -1, 0, 0), text)
        if digits < MAX_EXPONENT_DIGITS:
            for digit in range(10):
                yield _DIGITS[digit], State(InExponent(allowed, sign or 1, value * 10 + digit, digits + 1), text)

    def _accepts(self, state: State) -> bool:
        key = state.key
        if isinstance(key, InExponent):
            exponent = key.sign * key.value
            return key.digits > 0 and key.allowed.any_between(exponent, exponent)
        _, _, count, places = state.text
        return count > 0 and places != 0 and self.exponents(state.text).any_between(0, 0)

    # The exponents that make a value of the set of some digits

    def exponents(self, text: Text) -> Exponents:
        negative, value, _, places = text
        places = max(places, 0)
        if value == 0:
            return EVERY_EXPONENT if self.zero else NO_EXPONENT
        side = self.sides[negative]
        low, high = -MAX_EXPONENT, MAX_EXPONENT
        if self.unit is not None:
            least = _least_exponent(value, self.unit)
            if least is None:
                return NO_EXPONENT
            low = max(low, least + places)
        for other in self.spec.not_steps:
            least = _least_exponent(value, other)
            if least is not None:
                high = min(high, least + places - 1)
        scaled = value * self.scale
        low = max(low, _first_above(scaled, side.low, strictly=bool(side.low_open)) + places)
        if side.high is not None:
            high = min(high, _first_above(scaled, side.high, strictly=not side.high_open) + places - 1)
        if low > high:
            return NO_EXPONENT
        holes = tuple(
            e for x in self.spec.excluded if x != 0 and (x < 0) == negative for e in _scalings(x, value, places)
            if low <= e <= high
        )
        return Exponents(low, high, tuple(sorted(set(holes))))

    # Distances

    def _at_least(self, state: State) -> int:
        return self._ahead(state)

    def _distance(self, start: int) -> int:
        found = self._distances[start] = self._ahead(self._states[start])
        return found

    def _ahead(self, state: State) -> int:
        """The least number of characters to a text in the set; INFINITE if there is none."""
        key = state.key
        if isinstance(key, InExponent):
            allowed, sign, value, digits = key
            if sign == 0:
                return min(_exponent_ahead(allowed, 1, 0, 0), 1 + _exponent_ahead(allowed, -1, 0, 0), INFINITE)
            return _exponent_ahead(allowed, sign, value, digits)
        text = state.text
        if self.sides[text.negative].empty and (text.negative or text.digits):
            return INFINITE
        if text.digits == 0:
            following = [Text(text.negative, digit, 1, -1) for digit in range(10)]
            if not text.negative:
                following.append(Text(True, 0, 0, -1))
            best = INFINITE
            for after in following:
                best = min(best, 1 + self._ahead(State(None, after)))
                if best == 1:
                    break
            return best
        if self._accepts(state):
            return 0
        return self._ahead_of_digits(text)

    def _ahead_of_digits(self, text: Text) -> int:
        """Over the number of digits to come and the power of ten of the last of them: the cheapest that works."""
        if text.value == 0 and self.zero:
            return int(text.places == 0)
        before, after = self._room(text)
        if not any(self._has(text, before + after, power) for power in self._powers(text, before + after)):
            return INFINITE
        best = INFINITE
        for more in range(before + after + 1):
            if more >= best:
                break
            for power in self._powers(text, more):
                cost = self._cost(text.places, before, after, more, power)
                if cost < best and self._has(text, more, power):
                    best = cost
        return best

    def _room(self, text: Text) -> tuple[int, int]:
        """How many digits may still come before the point and after it."""
        if text.places >= 0:
            return 0, self.max_digits - text.places
        return (self.max_digits - text.digits if text.value else 0), self.max_digits

    def _cost(self, places: int, before: int, after: int, more: int, power: int) -> int:
        """The least number of characters to have the last of `more` new digits stand for 10**power."""
        return more + min(self._costs(places, before, after, more, power), default=INFINITE)

    def _costs(self, places: int, before: int, after: int, more: int, power: int) -> Iterator[int]:
        """What it costs, besides digits, to have the last of `more` new digits stand for 10**power."""
        for fraction in range(max(0, more - before), min(more, after) + 1):
            if places == 0 and fraction == 0:
                continue
            point = places < 0 and fraction > 0
            exponent = power + max(places, 0) + fraction
            if exponent == 0:
                yield int(point)
            elif abs(exponent) <= MAX_EXPONENT:
                yield point + 1 + (exponent < 0) + len(str(abs(exponent)))

    def _has(self, text: Text, more: int, power: int) -> bool:
        """Whether `more` digits after those of `text`, the last of them worth 10**power, give a value in the set."""
        low = text.value * 10**more
        high = low + 10**more - 1
        side = self.sides[text.negative]
        if power >= 0:
            unit = self.scale * 10**power
            return side.any_between(low * unit, high * unit, unit)
        return side.any_between(low * self.scale, high * self.scale, self.scale, 10**-power)

    def _powers(self, text: Text, more: int) -> list[int]:
        """The powers of ten the last of `more` digits may stand for, without those beyond which nothing changes."""
        low = text.value * 10**more
        high = low + 10**more - 1
        side = self.sides[text.negative]
        if high == 0:
            return [0]
        # Where the bounds can be met, and where they can no longer be missed.
        least, most = -MAX_EXPONENT, MAX_EXPONENT
        if side.low or side.low_open:
            least = _first_above(high * self.scale, side.low, strictly=bool(side.low_open))
        if side.high is not None:
            most = _first_above(max(low, 1) * self.scale, side.high, strictly=not side.high_open) - 1
        spare = len(self.spec.excluded) + 2
        smallest, largest = self._sizes
        least = max(least, min(smallest - len(str(high)), most) - spare)
        most = min(most, max(largest, least) + spare)
        return list(range(max(least, -MAX_EXPONENT), min(most, MAX_EXPONENT) + 1))

    @lazy
    def _sizes(self) -> tuple[int, int]:
        """The least and the greatest power of ten that the numbers of the set's description have to do with."""
        spec = self.spec
        bounds = [bound for bound in (spec.low, spec.high) if bound is not None]
        numbers = (*spec.steps, *spec.not_steps, *spec.excluded, *bounds, Fraction(1))
        marks = [abs(number) for number in numbers if number]
        sizes = [_magnitude(mark) for mark in marks]
        return min(sizes), max(*sizes, *(count for mark in marks for count in strip(mark.numerator, 10)[1:]))


def _exponent_ahead(allowed: Exponents, sign: int, value: int, count: int) -> int:
    for more in range(MAX_EXPONENT_DIGITS - count + 1):
        if count + more == 0:
            continue
        low, high = value * 10**more, (value + 1) * 10**more - 1
        if allowed.any_between(*((low, high) if sign > 0 else (-high, -low))):
            return more
    return INFINITE


def _magnitude(value: Fraction) -> int:
    """About the power of ten of a value that is not 0, at most one off."""
    return len(str(abs(value.numerator))) - len(str(value.denominator))


def _least_exponent(value: int, step: Fraction) -> int | None:
    """The least e such that value * 10**e is a multiple of `step`, for value > 0; None if there is none."""
    rest, twos, fives = strip(step.numerator, 10)
    scaled = value * step.denominator
    if scaled % rest:
        return None
    _, has_twos, has_fives = strip(scaled, 10)
    return max(twos - has_twos, fives - has_fives)


def _first_above(value: int, bound: int, *, strictly: bool) -> int:
    """The least e such that value * 10**e >= bound (> if `strictly`), for value > 0; very low if every e does."""
    if bound <= 0:
        return -(1 << 40)
    e = len(str(bound)) - len(str(value)) - 1
    while True:
        left, right = (value * 10**e, bound) if e >= 0 else (value, bound * 10**-e)
        if left > right or (left == right and not strictly):
            return e
        e += 1


def _scalings(target: Fraction, value: int, places: int) -> list[int]:
    """The e, at most one, such that value * 10**(e - places) is the absolute value of `target`."""
    if value == 0 or target == 0:
        return []
    ratio = abs(target) / value
    one, other = ratio.numerator, ratio.denominator
    for numerator, denominator, sign in ((one, other, 1), (other, one, -1)):
        digits = len(str(numerator)) - 1
        if denominator == 1 and numerator == 10**digits:
            return [sign * digits + places]
    return []
