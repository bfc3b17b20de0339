"""Languages: an automaton and a bound on length, and the boolean operations on them.

A length bound is kept beside the automaton because a counter costs nothing where states would cost their product:
`^[a-z]{0,50000}$` is one state and two numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from ..frozen import frozen
from .charset import ALL
from .dfa import EMPTY_DFA, INFINITE, Dfa, star
from .products import all_of, any_of, counted, none_of
from .words import finite_words, words_dfa

_CACHED = 1024


@frozen
class Language:
    """The words of `dfa` with `low` to `high` code points; `high` None is unbounded. Equal and hashed by content."""

    dfa: Dfa
    low: int = 0
    high: int | None = None

    def __contains__(self, text: str) -> bool:
        return self.contains(text)

    def contains(self, text: str) -> bool:
        """Whether `text` is a word of the language."""
        if len(text) < self.low or (self.high is not None and len(text) > self.high):
            return False
        state = self.dfa.start
        if state is None:
            return False
        for char in text:
            code_point = ord(char)
            for chars, target in self.dfa.step(state):
                if code_point in chars:
                    state = target
                    break
            else:
                return False
        return self.dfa.accepting(state)

    @property
    def is_empty(self) -> bool:
        """Whether there is no word at all. Raises BudgetError where a product is too large to tell."""
        return _normal(self).dfa.start is None

    def normal(self) -> Language:
        """The same language, with a bound only where a counter beside the state decides it exactly.

        Afterwards `low` is 0 or `dfa.countable`; then a text of n code points in state q can be completed if and only
        if n + dfa.shortest(q) <= high. Bounds that say nothing are gone (`low` 0, `high` None). The empty language
        becomes `EMPTY`.
        """
        return _normal(self)

    def unbounded(self) -> Language:
        """The same language without bounds: they become part of the automaton's state."""
        language = self.normal()
        return Language(counted(language.dfa, language.low, language.high))

    def cardinality(self, limit: int) -> int:
        """The number of words, or `limit` if there are more."""
        if self._bounded and self._lengths() >= limit:
            return limit
        return _cardinality(self.unbounded().dfa, limit)

    @property
    def finite(self) -> bool:
        """Whether the language is known by its words: a list of them, perhaps with bounds on their length."""
        return finite_words(self.dfa) is not None

    def words(self, limit: int) -> tuple[str, ...] | None:
        """All words in order of code points, if they are at most `limit`; else None."""
        listed = finite_words(self.dfa)
        if listed is not None and self.low == 0 and self.high is None:
            return listed if len(listed) <= limit else None
        if self._bounded and self._lengths() > limit:
            return None
        dfa = self.unbounded().dfa
        return None if _cardinality(dfa, limit + 1) > limit else tuple(sorted(_enumerate(dfa)))

    @property
    def _bounded(self) -> bool:
        return self.low > 0 or self.high is not None

    def _lengths(self) -> int:
        """How many lengths words have, at least: what is seen without building bounds into states."""
        language = self.normal()
        start = language.dfa.start
        if start is None or not language.dfa.countable:
            return 0
        if language.high is None:
            return INFINITE
        return max(0, language.high - max(language.low, language.dfa.shortest(start)) + 1)

    def shortest_word(self) -> str:
        """A word of least length, of plain characters where there is a choice. Raises ValueError if there is none."""
        dfa = self.unbounded().dfa
        state = dfa.start
        if state is None:
            raise ValueError("the empty language has no word")
        return dfa.shortest_word(state)


EMPTY = Language(EMPTY_DFA)
ANY = Language(star(ALL))


def words(values: Iterable[str]) -> Language:
    """The finite language of `values`."""
    return Language(words_dfa(values))


@lru_cache(_CACHED)
def intersect(a: Language, b: Language) -> Language:
    """The words in both."""
    low = max(a.low, b.low)
    high = a.high if b.high is None else b.high if a.high is None else min(a.high, b.high)
    if high is not None and low > high:
        return EMPTY
    for some, other in ((a, b), (b, a)):
        listed = finite_words(some.dfa)
        if listed is not None:
            return words(w for w in listed if low <= len(w) and (high is None or len(w) <= high) and other.contains(w))
    dfa = all_of((a.dfa, b.dfa))
    return EMPTY if dfa is EMPTY_DFA else Language(dfa, low, high)


@lru_cache(_CACHED)
def complement(a: Language) -> tuple[Language, ...]:
    """The words not in `a`, as a union of disjoint languages (of none: the empty language)."""
    parts = []
    if a.low > 0:
        parts.append(Language(ANY.dfa, 0, a.low - 1))
    if a.high is not None:
        parts.append(Language(ANY.dfa, a.high + 1, None))
    if a.dfa is not ANY.dfa:
        parts.append(Language(none_of(a.dfa), a.low, a.high))
    return tuple(parts)


def union(a: Language, b: Language) -> Language:
    """The words in either, as one language; where bounds differ they become states."""
    if a.dfa is EMPTY_DFA or b.dfa is EMPTY_DFA:
        return b if a.dfa is EMPTY_DFA else a
    if a.dfa is b.dfa and _touch(a, b):
        high = None if a.high is None or b.high is None else max(a.high, b.high)
        return Language(a.dfa, min(a.low, b.low), high)
    if (a.low, a.high) == (b.low, b.high):
        return Language(any_of((a.dfa, b.dfa)), a.low, a.high)
    return Language(any_of((a.unbounded().dfa, b.unbounded().dfa)))


def joined(languages: Iterable[Language]) -> tuple[Language, ...]:
    """The union of the languages as one for each bound on length."""
    by_bounds: dict[tuple[int, int | None], list[Dfa]] = {}
    for language in languages:
        by_bounds.setdefault((language.low, language.high), []).append(language.dfa)
    return tuple(Language(any_of(dfas), low, high) for (low, high), dfas in by_bounds.items())


def _touch(a: Language, b: Language) -> bool:
    first, second = (a, b) if a.low <= b.low else (b, a)
    return first.high is None or second.low <= first.high + 1


@lru_cache(_CACHED)
def _normal(language: Language) -> Language:
    dfa, low, high = language.dfa, language.low, language.high
    if (high is not None and low > high) or dfa.start is None:
        return EMPTY
    if low and low <= dfa.shortest(dfa.start):
        low = 0
    if high is not None and dfa.longest(dfa.start) <= high:
        high = None
    if low > 0 and dfa.longest(dfa.start) < min(low, INFINITE):
        return EMPTY
    if low > 0 and not dfa.countable:
        dfa, low = counted(dfa, low, None), 0
    if dfa.start is None or (high is not None and max(low, dfa.shortest(dfa.start)) > high):
        return EMPTY
    return Language(dfa, low, high)


def _cardinality(dfa: Dfa, limit: int) -> int:
    """Counts words bottom up over the states, depth first; a loop means that there is no end of words.

    Every state is live, so each character of a move not yet followed stands for a word of its own. The walk stops as
    soon as these are enough.
    """
    if dfa.start is None or limit <= 0:
        return 0
    counts: dict[int, int | None] = {}  # None: on the path from the start
    path: list[_Frame] = []
    at_least = 0
    waiting: int | None = dfa.start
    while True:
        if waiting is not None:
            counts[waiting] = None
            path.append(_Frame(waiting, dfa))
            at_least += path[-1].total + path[-1].rest
            waiting = None
        frame = path[-1]
        if at_least - len(path) >= limit:
            return limit
        if frame.moves:
            chars, target = frame.moves[-1]
            if target not in counts:
                waiting = target
                continue
            count = counts[target]
            if count is None:
                return limit
            frame.moves.pop()
            frame.rest -= len(chars)
            frame.total += len(chars) * count
            at_least += len(chars) * (count - 1)
            continue
        path.pop()
        counts[frame.state] = frame.total
        at_least -= frame.total
        if not path:
            return min(frame.total, limit)


class _Frame:
    """A state on the path: the words counted from it, the moves not yet counted, and how many characters they have."""

    __slots__ = ("moves", "rest", "state", "total")

    def __init__(self, state: int, dfa: Dfa) -> None:
        self.state = state
        self.moves = list(dfa.step(state))
        self.total = int(dfa.accepting(state))
        self.rest = sum(len(chars) for chars, _ in self.moves)


def _enumerate(dfa: Dfa) -> Iterator[str]:
    """All words of a finite language."""
    if dfa.start is None:
        return
    waiting = [(dfa.start, "")]
    while waiting:
        state, text = waiting.pop()
        if dfa.accepting(state):
            yield text
        for chars, target in dfa.step(state):
            waiting += [(target, text + chr(code_point)) for code_point in chars]
