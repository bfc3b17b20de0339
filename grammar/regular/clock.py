"""Times of day (RFC 3339, section 5.6), with leap seconds.

A minute has a 61st second only where it is 23:59 in UTC (appendix D), so the time zone at the end of a text must agree
with the hour and the minute at its beginning: the one coupling here that a pattern would have to spell out 2,880 times.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from .charset import CharSet
from .dfa import INFINITE, Dfa, LazyDfa, interned
from .language import Language
from .patterns import whole_pattern

_DAY = 24 * 60
_ZONE = r"(?:[Zz]|[+\-](?:[01]\d|2[0-3]):[0-5]\d)"
_MINUTES = r"(?:[01]\d|2[0-3]):[0-5]\d:"
_CHARACTERS = CharSet.chars("0123456789:.+-Zz")
_FRACTION = r"(?:\.\d+)?"


class _State(NamedTuple):
    """In `stage` "minute" the text of hours and minutes so far; then the minute of the day as far as a leap second is
    possible (-1: no longer), and the state of the automaton of what is left."""

    stage: str
    text: str
    minute: int
    rest: int


class TimeDfa(LazyDfa[_State]):
    """The texts of format `time`."""

    def __init__(self) -> None:
        super().__init__(("time",), "a time of day", _State("minute", "", -1, -1))
        self._minutes = whole_pattern(_MINUTES).dfa
        # Kept here: states hold numbers of these automata, so an automaton must not be forgotten and built anew.
        self._zones: dict[int, Dfa] = {}
        self._plain = whole_pattern(rf"{_FRACTION}{_ZONE}").dfa

    def _moves(self, state: _State) -> Iterable[tuple[CharSet, _State]]:
        stage, text, minute, rest = state
        if stage == "minute":
            return [
                (CharSet.char(c), self._after_minute(text + chr(c)))
                for c in range(ord("0"), ord(":") + 1)
                if self._begins_minute(text + chr(c))
            ]
        if stage == "second":
            return [(_TENS, _State("unit", "", -1, -1)), (_SIX, _State("leap", "", minute, -1))]
        if stage == "unit":
            return [(_DIGITS, self._tail(-1))]
        if stage == "leap":
            return [(_ZERO, self._tail(minute))]
        dfa = self._rest(minute)
        return [(chars, _State("rest", "", minute, target)) for chars, target in dfa.step(rest)]

    @property
    def alphabet(self) -> CharSet:
        return _CHARACTERS

    def _begins_minute(self, text: str) -> bool:
        state = self._minutes.start
        for char in text:
            if state is not None:
                state = next((target for chars, target in self._minutes.step(state) if char in chars), None)
        return state is not None

    def _after_minute(self, text: str) -> _State:
        if len(text) < 6:
            return _State("minute", text, -1, -1)
        return _State("second", "", int(text[:2]) * 60 + int(text[3:5]), -1)

    def _tail(self, minute: int) -> _State:
        return _State("rest", "", minute, self._rest(minute).start or 0)

    def _rest(self, minute: int) -> Dfa:
        """What may follow the seconds: after a leap second only the zones in which it is 23:59 in UTC."""
        if minute < 0:
            return self._plain
        found = self._zones.get(minute)
        if found is None:
            found = self._zones.setdefault(minute, self._leap(minute))
        return found

    def _leap(self, minute: int) -> Dfa:
        east, west = (minute - _DAY + 1) % _DAY, (_DAY - 1 - minute) % _DAY
        zones = [rf"\+{east // 60:02d}:{east % 60:02d}", f"-{west // 60:02d}:{west % 60:02d}"]
        if minute == _DAY - 1:
            zones.append("[Zz]")
        return whole_pattern(rf"{_FRACTION}(?:{'|'.join(zones)})").dfa

    def _accepts(self, state: _State) -> bool:
        return state.stage == "rest" and self._rest(state.minute).accepting(state.rest)

    def _at_least(self, state: _State) -> int:
        if state.stage == "rest":
            return self._rest(state.minute).shortest(state.rest)
        return {"minute": 9 - len(state.text), "second": 3, "unit": 2, "leap": 2 if state.minute == _DAY - 1 else 7}[
            state.stage
        ]

    def _distance(self, start: int) -> int:
        found = self._distances[start] = self._at_least(self._states[start])
        return found


class ThenDfa(LazyDfa[tuple[bool, int]]):
    """A word of `first`, none of which begins another, and then a word of `second`."""

    def __init__(self, first: Dfa, second: Dfa) -> None:
        start = None if first.start is None or second.start is None else (False, first.start)
        super().__init__(("then", first, second), f"{first.name}, then {second.name}", start)
        self.first, self.second = first, second

    @property
    def alphabet(self) -> CharSet:
        return self.first.alphabet | self.second.alphabet

    def _moves(self, state: tuple[bool, int]) -> Iterable[tuple[CharSet, tuple[bool, int]]]:
        in_second, number = state
        dfa = self.second if in_second else self.first
        return [(chars, self._entered(in_second, target)) for chars, target in dfa.step(number)]

    def _entered(self, in_second: bool, number: int) -> tuple[bool, int]:
        if not in_second and self.first.accepting(number) and self.second.start is not None:
            return True, self.second.start
        return in_second, number

    def _accepts(self, state: tuple[bool, int]) -> bool:
        return state[0] and self.second.accepting(state[1])

    def _at_least(self, state: tuple[bool, int]) -> int:
        if state[0]:
            return self.second.shortest(state[1])
        assert self.second.start is not None
        return min(self.first.shortest(state[1]) + self.second.shortest(self.second.start), INFINITE)

    def _distance(self, start: int) -> int:
        found = self._distances[start] = self._at_least(self._states[start])
        return found

    def longest(self, state: int) -> int:
        in_second, number = self._states[state]
        if in_second:
            return self.second.longest(number)
        assert self.second.start is not None
        return min(self.first.longest(number) + self.second.longest(self.second.start), INFINITE)


def time() -> Language:
    """Format `time`: RFC 3339 `full-time`."""
    return Language(interned(("time",), TimeDfa))


def date_time(date: str) -> Language:
    """Format `date-time`: a date given by its pattern, then RFC 3339 `full-time`."""
    first = whole_pattern(f"(?:{date})[Tt]").dfa
    second = time().dfa
    return Language(interned(("then", first, second), lambda: ThenDfa(first, second)))


_DIGITS = CharSet.of((ord("0"), ord("9")))
_TENS, _SIX, _ZERO = CharSet.of((ord("0"), ord("5"))), CharSet.char(ord("6")), CharSet.char(ord("0"))
