"""Automata of JSON number texts (RFC 8259, section 6), by the set of their values.

The state of a text is its digits so far, and the texts that may follow depend on few things about them: how many there
are, how they compare with the bounds, their remainders. `_key` reduces digits to these, so that states are few; whether
a state is live, and how far from acceptance, is arithmetic on the digits themselves, exact, with no search.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from fractions import Fraction
from typing import Literal

from .charset import CharSet
from .dfa import EMPTY_DFA, INFINITE, Dfa, LazyDfa, interned
from .number_any import AnyDfa
from .number_listed import ListedDfa
from .number_side import Side, State, Text, scale_of
from .number_spec import NumberSpec, common_step, is_decimal, number_values, numbers_empty, strip
from .patterns import whole_pattern
from .words import words_dfa

Spelling = Literal["natural", "any"]

_DIGITS = [CharSet.char(ord("0") + digit) for digit in range(10)]
_MINUS, _POINT = CharSet.char(ord("-")), CharSet.char(ord("."))
# Exponents in natural spelling stay where a double is neither infinite nor zero.
_EXPONENT = r"(?:[eE][+-]?(?:\d{1,2}|[01]\d\d|2[0-4]\d|250))?"


def numbers(spec: NumberSpec, *, spelling: Spelling = "natural", max_digits: int = 40) -> Dfa:
    """The JSON number texts whose value is in `spec`; its `start` is None if there is none.

    At most `max_digits` digits before the point and as many after it. `spelling="natural"`: where `spec` forces
    integers, integers; else decimals, and exponents too where at most the sign of the value is constrained. Few listed
    values are written in one way each. `spelling="any"`: every spelling, with exponents of up to four digits.
    """
    if numbers_empty(spec):
        return EMPTY_DFA
    values = None if spec.only is None else number_values(spec, len(spec.only)) or ()
    if spelling == "any":
        if values is not None:
            return interned(("any numbers", values, max_digits), lambda: ListedDfa(values, max_digits))
        return interned(("any numbers", spec, max_digits), lambda: AnyDfa(spec, max_digits))
    if values is not None:
        return words_dfa(text for value in values for text in natural_texts(value, max_digits))
    simple = _sign_only(spec, max_digits)
    if simple is not None:
        return simple
    return interned(("numbers", spec, max_digits), lambda: NaturalDfa(spec, max_digits))


def natural_texts(value: Fraction, max_digits: int = 40) -> tuple[str, ...]:
    """How JSON writers spell one decimal: in full if it has few enough digits, and with an exponent if it is long.

    Raises ValueError if `value` is no finite decimal.
    """
    if not is_decimal(value):
        raise ValueError(f"{value} is not a finite decimal")
    places = 0
    scaled = abs(value)
    while scaled.denominator != 1:
        scaled *= 10
        places += 1
    digits = str(scaled.numerator).rjust(places + 1, "0")
    sign = "-" if value < 0 else ""
    texts = []
    if len(digits) - places <= max_digits and places <= max_digits:
        texts.append(sign + (f"{digits[:-places]}.{digits[-places:]}" if places else digits))
    if len(digits) > 15 or places > 4:
        significant = digits.strip("0") or "0"
        exponent = len(digits.lstrip("0")) - places - 1 if value else 0
        mantissa = significant[0] + ("." + significant[1:] if significant[1:] else "")
        texts += [f"{sign}{mantissa}e{exponent}", f"{sign}{mantissa}e{exponent:+03d}"]
    return tuple(dict.fromkeys(texts))


def _sign_only(spec: NumberSpec, max_digits: int) -> Dfa | None:
    """The automaton where nothing but the sign is constrained: a pattern says it, exponents included."""
    if spec.steps or spec.not_steps or spec.excluded or {spec.low, spec.high} - {None, Fraction(0)}:
        return None
    more = max_digits - 1
    fraction = rf"(?:\.\d{{1,{max_digits}}})?"
    any_size = rf"(?:0|[1-9]\d{{0,{more}}}){fraction}{_EXPONENT}"
    positive = rf"(?:[1-9]\d{{0,{more}}}{fraction}|0\.0{{0,{more}}}[1-9]\d{{0,{more}}}){_EXPONENT}"
    if spec.low is None and spec.high is None:
        return whole_pattern(f"-?{any_size}").dfa
    if spec.high is None:
        return whole_pattern(positive if spec.low_open else any_size).dfa
    if spec.low is None:
        return whole_pattern(f"-{positive}" if spec.high_open else rf"-{any_size}|0(?:\.0{{1,{max_digits}}})?").dfa
    return None


class NaturalDfa(LazyDfa[State]):
    """Integers, or decimals without exponent, by value."""

    def __init__(self, spec: NumberSpec, max_digits: int) -> None:
        self.spec = spec
        self.max_digits = max_digits
        step = common_step(spec.steps)
        self.integral = step is not None and step.denominator == 1
        self.most_places = max_digits
        if step is not None:
            _, twos, fives = strip(step.denominator, 10)
            self.most_places = min(max_digits, 0 if self.integral else max(twos, fives))
        self.scale = scale_of(spec, 10**self.most_places)
        self.sides = [Side(spec, negative, self.scale) for negative in (False, True)]
        key = ("numbers", spec, max_digits)
        super().__init__(key, "the numbers of a schema", self._state(Text(False, 0, 0, -1)))

    def _state(self, text: Text) -> State:
        return State(self._key(text), text)

    # What follows a text depends on this alone

    def _key(self, text: Text) -> Hashable:
        negative, value, count, places = text
        if count == 0:
            return ("start", negative)
        side = self.sides[negative]
        if places < 0 and value:
            return self._integer_key(side, text)
        # Every text from here has a value from `base` up to, but not including, `base + width`.
        width = self.scale // 10 ** max(places, 0)
        base = value * width
        low = side.low + side.low_open - base if side.low + side.low_open > base else 0
        high = None if side.high is None else side.high - side.high_open - base
        if high is not None and high >= width - 1:
            high = None
        near = tuple(e - base for e in side.excluded_between(base, base + width - 1))
        remainders = tuple(base % step for _, step in side.multiples if step is not None)
        return (places, low, high, near, remainders, negative if near or remainders else None)

    def _integer_key(self, side: Side, text: Text) -> Hashable:
        _, value, count, _ = text
        low = self._compare(value, count, side.low) if side.low else None
        high = None if side.high is None else self._compare(value, count, side.high) or (1, -1)
        near = self._excluded_ahead(side, value, count)
        remainders = tuple(value * self.scale % step for _, step in side.multiples if step is not None)
        tight = (low is not None and low[0] == 0) or (high is not None and high[0] == 0) or bool(near)
        return ("integer", count, low, high, near, remainders, text.negative if tight or remainders else None)

    def _compare(self, value: int, count: int, bound: int) -> tuple[int, int] | None:
        """How the digits compare with the first ones of a bound, and how many more the bound has. None: fewer."""
        whole = bound // self.scale
        more = len(str(whole)) - count
        if more < 0:
            return None
        first = whole // 10**more
        return ((value > first) - (value < first), more)

    def _excluded_ahead(self, side: Side, value: int, count: int) -> tuple[int, ...]:
        """The excluded values whose digits before the point begin with these."""
        if not side.excluded:
            return ()
        found: list[int] = []
        for more in range(len(str(side.excluded[-1] // self.scale)) - count + 1):
            first = value * 10**more * self.scale
            found += side.excluded_between(first, first + 10**more * self.scale - 1)
        return tuple(found)

    # Moves

    def _moves(self, state: State) -> Iterable[tuple[CharSet, State]]:
        negative, value, count, places = state.text
        moves = []
        if count == 0:
            if not negative:
                moves.append((_MINUS, self._state(Text(True, 0, 0, -1))))
        elif places < 0 and not self.integral:
            moves.append((_POINT, self._state(Text(negative, value, count, 0))))
        before_full = count > 0 and (value == 0 or count >= self.max_digits)
        if not (before_full if places < 0 else places >= self.most_places):
            after = places + 1 if places >= 0 else -1
            following = [Text(negative, value * 10 + digit, count + 1, after) for digit in range(10)]
            moves += [(chars, self._state(text)) for chars, text in zip(_DIGITS, following, strict=True)]
        return moves

    def _accepts(self, state: State) -> bool:
        negative, value, count, places = state.text
        if count == 0 or places == 0:
            return False
        if negative and self.integral and value == 0:
            return False
        base = value * (self.scale // 10 ** max(places, 0))
        return self.sides[negative].has(base)

    def _at_least(self, state: State) -> int:
        return self._ahead(state.text)

    def _distance(self, start: int) -> int:
        found = self._distances[start] = self._ahead(self._states[start].text)
        return found

    def _ahead(self, text: Text) -> int:
        """The least number of characters to a text in the set; INFINITE if there is none."""
        negative, _, count, places = text
        if self.sides[negative].empty and (negative or count):
            return INFINITE
        if count == 0:
            best = INFINITE
            for following in (*(Text(negative, digit, 1, -1) for digit in range(10)), *_with_minus(negative)):
                best = min(best, 1 + self._ahead(following))
                if best == 1:
                    break
            return best
        if self._accepts(State(None, text)):
            return 0
        return self._ahead_in_fraction(text, 0) if places >= 0 else self._ahead_in_integer(text)

    def _ahead_in_integer(self, text: Text) -> int:
        negative, value, count, _ = text
        best = INFINITE
        for more in range(self.max_digits - count + 1 if value else 1):
            if more >= best:
                break
            width = 10**more
            first = value * width * self.scale
            if self.sides[negative].high is not None and first > self.sides[negative].high:
                break
            zero = negative and self.integral and value == 0
            if not zero and self._any(negative, first, width * self.scale, self.scale):
                best = min(best, more)
            elif not self.integral:
                pointed = Text(negative, value, count, 0)
                best = min(best, more + 1 + self._ahead_in_fraction(pointed, more))
        return best

    def _ahead_in_fraction(self, text: Text, more: int) -> int:
        """Digits needed after the point, if `more` digits are to come before it."""
        negative, value, _, places = text
        width = self.scale * 10**more // 10**places
        first = value * width
        low, high = (0 if places else 1), self.most_places - places
        if high < low or not self._any(negative, first, width, self.scale // 10**self.most_places):
            return INFINITE
        while low < high:  # more digits reach all that fewer reach
            middle = (low + high) // 2
            if self._any(negative, first, width, self.scale // 10 ** (places + middle)):
                high = middle
            else:
                low = middle + 1
        return low

    def _any(self, negative: bool, first: int, width: int, unit: int) -> bool:
        return self.sides[negative].any_between(first, first + width - 1, unit)

    def longest(self, state: int) -> int:
        negative, _, count, places = self._states[state].text
        if places >= 0:
            return self.most_places - places
        fraction = 0 if self.integral else self.most_places + 1
        return self.max_digits - count + fraction + (not negative and not count)



def _with_minus(negative: bool) -> tuple[Text, ...]:
    return () if negative else (Text(True, 0, 0, -1),)
