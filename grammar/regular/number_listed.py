"""Automata of listed numbers in every spelling."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection
from fractions import Fraction

from .dfa import INFINITE
from .number_any import EVERY_EXPONENT, MAX_EXPONENT, NO_EXPONENT, AnyDfa, Exponents
from .number_side import Text
from .number_spec import NumberSpec


class ListedDfa(AnyDfa):
    """The texts of any spelling whose value is one of a list.

    A value that is not 0 is its significant digits, from the first to the last that is not 0, and the power of ten of
    the last. Digits read so far must begin those of a value, so the candidates are a stretch of a sorted list.
    """

    def __init__(self, values: Collection[Fraction], max_digits: int) -> None:
        super().__init__(NumberSpec(only=values), max_digits)
        self.zero = Fraction(0) in values
        self._powers_of: list[dict[str, list[int]]] = [{}, {}]
        for value in values:
            if value:
                digits, power = _significant(value)
                self._powers_of[value < 0].setdefault(digits, []).append(power)
        self._digits = [sorted(powers) for powers in self._powers_of]
        for side, powers in zip(self.sides, self._powers_of, strict=True):
            side.empty = not powers and not self.zero

    def exponents(self, text: Text) -> Exponents:
        if text.value == 0:
            return EVERY_EXPONENT if self.zero else NO_EXPONENT
        digits = str(text.value)
        significant = digits.rstrip("0")
        shift = max(text.places, 0) - (len(digits) - len(significant))
        found = [power + shift for power in self._powers_of[text.negative].get(significant, ())]
        return Exponents(0, 0, (), tuple(sorted(e for e in found if abs(e) <= MAX_EXPONENT)))

    def _ahead_of_digits(self, text: Text) -> int:
        read = str(text.value) if text.value else ""
        before, after = self._room(text)
        best = INFINITE
        if not read and self.zero:
            best = int(text.places == 0)
        for digits in self._candidates(text.negative, read):
            needed = max(len(digits) - len(read), 0)
            if needed >= best:
                continue
            for power in self._powers_of[text.negative][digits]:
                last = power + len(digits) - len(read) - needed  # below 0: zeros at the end have been read already
                for more in range(needed, before + after + 1):
                    if more >= best:
                        break
                    best = min(best, self._cost(text.places, before, after, more, last - (more - needed)))
        return best

    def _candidates(self, negative: bool, read: str) -> list[str]:
        """The significant digits that begin with those read, or are those read but for zeros at their end."""
        listed = self._digits[negative]
        found = listed[bisect_left(listed, read) : bisect_left(listed, read + ":")]
        stripped = read.rstrip("0")
        if stripped != read and stripped in self._powers_of[negative]:
            found = [stripped, *found]
        return found


def _significant(value: Fraction) -> tuple[str, int]:
    """The significant digits of a decimal that is not 0, and the power of ten of the last."""
    power = 0
    scaled = abs(value)
    while scaled.denominator != 1:
        scaled *= 10
        power -= 1
    digits = str(scaled.numerator)
    significant = digits.rstrip("0")
    return significant, power + len(digits) - len(significant)
