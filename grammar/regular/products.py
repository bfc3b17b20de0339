"""Boolean combinations and counting, as lazily built products."""

from __future__ import annotations

from collections.abc import Iterable

from .charset import ALL, EMPTY_SET, CharSet
from .dfa import EMPTY_DFA, INFINITE, Dfa, LazyDfa, StarDfa, interned, star
from .position_dfa import PositionDfa

_GONE = -1
_LEAST_SEARCHED = 10_000
_SOON = 500


class AllOfDfa(LazyDfa[tuple[int, ...]]):
    """The words that all parts accept."""

    def __init__(self, parts: tuple[Dfa, ...]) -> None:
        starts = [part.start for part in parts]
        first = None if None in starts else tuple(s for s in starts if s is not None)
        super().__init__(("all", frozenset(parts)), " and ".join(part.name for part in parts), first)
        self.parts = parts
        self._most_searched = max(_LEAST_SEARCHED, self._most_searched // len(parts))  # a state costs a step of each

    def _moves(self, state: tuple[int, ...]) -> Iterable[tuple[CharSet, tuple[int, ...]]]:
        combined: list[tuple[CharSet, tuple[int, ...]]] = [(ALL, ())]
        for part, number in zip(self.parts, state, strict=True):
            combined = [
                (common, (*targets, target))
                for chars, targets in combined
                for more, target in part.step(number)
                if (common := chars & more)
            ]
        return combined

    def _accepts(self, state: tuple[int, ...]) -> bool:
        return all(part.accepting(number) for part, number in zip(self.parts, state, strict=True))

    def _at_least(self, state: tuple[int, ...]) -> int:
        return max(part.shortest(number) for part, number in zip(self.parts, state, strict=True))

    def soon_empty(self) -> bool:
        """Whether there is no word, if that is found out soon."""
        return self._first is None or self._search(self._number(self._first), _SOON) == INFINITE

    def _guess(self, state: tuple[int, ...]) -> int:
        return sum(part.near(number) for part, number in zip(self.parts, state, strict=True))

    def longest(self, state: int) -> int:
        return min(part.longest(number) for part, number in zip(self.parts, self._states[state], strict=True))

    def universal(self, state: int) -> bool:
        return all(part.universal(number) for part, number in zip(self.parts, self._states[state], strict=True))


class AnyOfDfa(LazyDfa[tuple[int, ...]]):
    """The words that some part accepts."""

    def __init__(self, parts: tuple[Dfa, ...]) -> None:
        first = tuple(_GONE if part.start is None else part.start for part in parts)
        super().__init__(("any", frozenset(parts)), " or ".join(part.name for part in parts), first)
        self.parts = parts

    def _moves(self, state: tuple[int, ...]) -> Iterable[tuple[CharSet, tuple[int, ...]]]:
        if any(n != _GONE and part.universal(n) for part, n in zip(self.parts, state, strict=True)):
            return ((ALL, state),)
        combined: list[tuple[CharSet, tuple[int, ...]]] = [(ALL, ())]
        for part, number in zip(self.parts, state, strict=True):
            combined = [
                (common, (*targets, target))
                for chars, targets in combined
                for more, target in _total(part, number)
                if (common := chars & more)
            ]
        return [(chars, targets) for chars, targets in combined if any(t != _GONE for t in targets)]

    def _accepts(self, state: tuple[int, ...]) -> bool:
        return any(n != _GONE and part.accepting(n) for part, n in zip(self.parts, state, strict=True))

    def _distance(self, start: int) -> int:
        found = min(
            (part.shortest(n) for part, n in zip(self.parts, self._states[start], strict=True) if n != _GONE),
            default=INFINITE,
        )
        self._distances[start] = found
        return found

    def near(self, state: int) -> int:
        return min(
            (part.near(n) for part, n in zip(self.parts, self._states[state], strict=True) if n != _GONE),
            default=INFINITE,
        )

    def longest(self, state: int) -> int:
        return max(part.longest(n) for part, n in zip(self.parts, self._states[state], strict=True) if n != _GONE)

    def universal(self, state: int) -> bool:
        return any(n != _GONE and part.universal(n) for part, n in zip(self.parts, self._states[state], strict=True))


class ComplementDfa(LazyDfa[int]):
    """The words that `part` does not accept. State -1: no word of `part` begins like this."""

    def __init__(self, part: Dfa) -> None:
        super().__init__(("not", part), f"anything but {part.name}", _GONE if part.start is None else part.start)
        self.part = part

    def _moves(self, state: int) -> Iterable[tuple[CharSet, int]]:
        return () if state != _GONE and self.part.universal(state) else _total(self.part, state)

    def _accepts(self, state: int) -> bool:
        return state == _GONE or not self.part.accepting(state)

    def universal(self, state: int) -> bool:
        return self._states[state] == _GONE


def _total(part: Dfa, state: int) -> list[tuple[CharSet, int]]:
    """The moves of a state, completed: characters that lead nowhere lead to -1."""
    if state == _GONE:
        return [(ALL, _GONE)]
    moves = list(part.step(state))
    covered = EMPTY_SET
    for chars, _ in moves:
        covered = covered | chars
    if covered is not ALL:
        moves.append((~covered, _GONE))
    return moves


class CountedDfa(LazyDfa[tuple[int, int]]):
    """The words of `part` with `low` to `high` code points: the count is part of the state, up to where it matters."""

    def __init__(self, part: Dfa, low: int, high: int | None) -> None:
        super().__init__(
            ("counted", part, low, high), f"{part.name} of length {low} to {'any' if high is None else high}",
            None if part.start is None else (part.start, 0),
        )
        self.part, self.low, self.high = part, low, high

    def _moves(self, state: tuple[int, int]) -> Iterable[tuple[CharSet, tuple[int, int]]]:
        number, count = state
        if self.high is not None and count >= self.high:
            return ()
        if self.high is not None or count < self.low:
            count += 1
        return [(chars, (target, count)) for chars, target in self.part.step(number)]

    def _accepts(self, state: tuple[int, int]) -> bool:
        return state[1] >= self.low and self.part.accepting(state[0])

    def _at_least(self, state: tuple[int, int]) -> int:
        least = max(self.part.shortest(state[0]), self.low - state[1])
        return INFINITE if self.high is not None and state[1] + least > self.high else least

    def _exactly(self, state: tuple[int, int]) -> int | None:
        if self.high is None and state[1] >= self.low:
            return self.part.shortest(state[0])  # nothing is counted any more
        return self._at_least(state) if self.part.universal(state[0]) else None

    def near(self, state: int) -> int:
        number, count = self._states[state]
        return self.part.near(number) if self.high is None and count >= self.low else super().near(state)

    def longest(self, state: int) -> int:
        number, count = self._states[state]
        longest = self.part.longest(number)
        return longest if self.high is None else min(longest, self.high - count)

    def universal(self, state: int) -> bool:
        number, count = self._states[state]
        return self.high is None and count >= self.low and self.part.universal(number)


def all_of(parts: Iterable[Dfa]) -> Dfa:
    """The intersection of `parts` (of none: every word)."""
    flat: dict[Dfa, None] = {}
    chars = ALL
    for part in parts:
        for piece in part.parts if isinstance(part, AllOfDfa) else (part,):
            if isinstance(piece, StarDfa):
                chars = chars & piece.chars
            else:
                flat[piece] = None
    if EMPTY_DFA in flat or any(complement_of(piece) in flat for piece in flat):
        return EMPTY_DFA
    if chars is not ALL or not flat:
        flat[star(chars) if chars else EPSILON_DFA] = None
    if len(flat) == 1:
        return next(iter(flat))
    return interned(("all", frozenset(flat)), lambda: EMPTY_DFA if _apart(tuple(flat)) else AllOfDfa(tuple(flat)))


def _apart(parts: tuple[Dfa, ...]) -> bool:
    """Whether some part has no word of the characters of all: seen without a search through their product."""
    common = ALL
    for part in parts:
        common = common & part.alphabet
    if common is ALL:
        return False
    letters = star(common) if common else EPSILON_DFA
    return any(
        isinstance(part, PositionDfa) and part.alphabet - common and AllOfDfa((part, letters)).soon_empty()
        for part in parts
    )


def any_of(parts: Iterable[Dfa]) -> Dfa:
    """The union of `parts` (of none: no word)."""
    flat: dict[Dfa, None] = {}
    for part in parts:
        for piece in part.parts if isinstance(part, AnyOfDfa) else (part,):
            flat[piece] = None
    flat.pop(EMPTY_DFA, None)
    if star(ALL) in flat or any(complement_of(piece) in flat for piece in flat):
        return star(ALL)
    if len(flat) <= 1:
        return next(iter(flat), EMPTY_DFA)
    return interned(("any", frozenset(flat)), lambda: AnyOfDfa(tuple(flat)))


def none_of(part: Dfa) -> Dfa:
    """The complement of `part`."""
    if isinstance(part, ComplementDfa):
        return part.part
    if part is EMPTY_DFA:
        return star(ALL)
    if part is star(ALL):
        return EMPTY_DFA
    return interned(("not", part), lambda: ComplementDfa(part))


def complement_of(part: Dfa) -> Dfa | None:
    """What `part` is the complement of, if it was made as one."""
    return part.part if isinstance(part, ComplementDfa) else None


def counted(part: Dfa, low: int, high: int | None) -> Dfa:
    """The words of `part` with `low` to `high` code points (high None: any number)."""
    if low == 0 and high is None:
        return part
    if part is EMPTY_DFA or (high is not None and low > high):
        return EMPTY_DFA
    return interned(("counted", part, low, high), lambda: CountedDfa(part, low, high))


class _EpsilonDfa(Dfa):
    """The empty word alone."""

    key = ("epsilon",)
    name = "the empty text"

    @property
    def start(self) -> int:
        return 0

    def step(self, state: int) -> tuple[()]:
        return ()

    def accepting(self, state: int) -> bool:
        return True

    def shortest(self, state: int) -> int:
        return 0

    def longest(self, state: int) -> int:
        return 0


EPSILON_DFA: Dfa = _EpsilonDfa()
