"""Undeclared keys told apart by the patterns they match.

Filtering keys needs to know of each state which classes can still come. Where several patterns are alive they are
walked in lockstep for that, in advance. Of one pattern nothing has to be known in advance, so that it may be as large
as it likes (a bound on the length of keys is a state for each length).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from ..errors import BudgetError
from ..regular.charset import ALL, CharSet
from ..regular.dfa import INFINITE, Dfa
from .products import NONE_ALIVE, Part, ProductState, begin, combined, tags_of

MAX_STATES: Final = 20_000


class KeyClasses(ABC):
    """States of the patterns. A class is the bit set of the patterns that a key matches (its signature).

    signatures    the classes that have a key, in ascending order; 0, "no pattern", is there only if other keys may come
    start         the first state; None if there is no key at all
    nothing       the state in which every pattern is dead, or None: any key from there is in class 0
    """

    signatures: tuple[int, ...]
    start: int | None
    nothing: int | None

    @abstractmethod
    def steps(self, state: int) -> Sequence[tuple[CharSet, int]]:
        """Disjoint sets of characters with the state each leads to."""

    @abstractmethod
    def ending(self, state: int) -> int | None:
        """The index in `signatures` of a key that ends here, or None."""

    @abstractmethod
    def live(self, state: int) -> int:
        """The classes that can still come, bit i for `signatures[i]`."""

    @abstractmethod
    def ahead(self, state: int) -> int:
        """At least so many characters are still to come."""

    def next(self, state: int, char: str) -> int | None:
        """The state after a character."""
        point = ord(char)
        return next((target for chars, target in self.steps(state) if point in chars), None)


def key_classes(patterns: tuple[Dfa, ...], other: bool) -> KeyClasses:
    """The classes of keys under `patterns`; `other`: keys that match none may come, too."""
    return _OnePattern(patterns[0]) if len(patterns) == 1 and not other else _Joint(patterns, other)


class _OnePattern(KeyClasses):
    """Keys that match the one pattern. States are those of its automaton."""

    def __init__(self, pattern: Dfa) -> None:
        self._pattern = pattern
        self.start = pattern.start
        self.signatures = () if self.start is None else (1,)
        self.nothing = None

    def steps(self, state: int) -> Sequence[tuple[CharSet, int]]:
        return self._pattern.step(state)

    def ending(self, state: int) -> int | None:
        return 0 if self._pattern.accepting(state) else None

    def live(self, state: int) -> int:
        return 1

    def ahead(self, state: int) -> int:
        return self._pattern.near(state)


class _Joint(KeyClasses):
    """Any patterns in lockstep. States in which several are alive are walked in advance, the others when asked for:
    of one pattern alone what can still come is seen from its automaton.
    """

    def __init__(self, patterns: tuple[Dfa, ...], other: bool) -> None:
        self._parts = tuple(Part(dfa, 1 << i) for i, dfa in enumerate(patterns))
        self._other = other
        self._numbers: dict[ProductState, int] = {}
        self._states: list[ProductState] = []
        self._steps: dict[int, list[tuple[CharSet, int]]] = {}
        start = begin(self._parts)
        self.start = self._number(start) if start or other else None
        self.nothing = self._number(NONE_ALIVE) if other else None
        state = 0
        while state < len(self._states):  # which grows meanwhile
            if len(self._states[state]) > 1:
                self.steps(state)
                if len(self._states) > MAX_STATES:
                    names = ", ".join(part.dfa.name for part in self._parts)
                    raise BudgetError(f"the patterns of keys {names} have more than {MAX_STATES} states together")
            state += 1
        ahead = [self._alone(state) for state in range(len(self._states))]
        self.signatures = tuple(sorted(set().union(*ahead)))
        self._index = {signature: i for i, signature in enumerate(self.signatures)}
        self._lives = [self._bits(signatures) for signatures in ahead]
        self._spread()

    def steps(self, state: int) -> Sequence[tuple[CharSet, int]]:
        known = self._steps.get(state)
        if known is None:
            known = self._steps[state] = self._step(self._states[state])
        return known

    def ending(self, state: int) -> int | None:
        return self._index.get(tags_of(self._parts, self._states[state]))

    def live(self, state: int) -> int:
        while len(self._lives) <= state:
            self._lives.append(self._bits(self._alone(len(self._lives))))
        return self._lives[state]

    def ahead(self, state: int) -> int:
        return 0

    def _number(self, state: ProductState) -> int:
        number = self._numbers.get(state)
        if number is None:
            number = self._numbers[state] = len(self._states)
            self._states.append(state)
        return number

    def _step(self, state: ProductState) -> list[tuple[CharSet, int]]:
        steps = combined(self._parts, state)
        if self._other:
            rest = ALL
            for chars, _ in steps:
                rest = rest - chars
            if rest:
                steps.append((rest, NONE_ALIVE))
        return [(chars, self._number(target)) for chars, target in steps]

    def _bits(self, signatures: set[int]) -> int:
        return sum(1 << self._index[signature] for signature in signatures)

    def _alone(self, number: int) -> set[int]:
        """The signatures of keys from a state on; where several patterns are alive, that of a key that ends there."""
        state = self._states[number]
        alive = [(self._parts[index], own) for index, own in state]
        if len(alive) > 1:
            tags = tags_of(self._parts, state)
            return {tags} if tags or self._other else set()
        found = {part.tags for part, _ in alive}
        if self._other and all(_refuses(part.dfa, own) for part, own in alive):
            found.add(0)
        return found

    def _spread(self) -> None:
        """Adds to what can come from a state what can come from those after it."""
        before: list[list[int]] = [[] for _ in self._states]
        for state, steps in self._steps.items():
            for _, target in steps:
                before[target].append(state)
        live = self._lives
        waiting = [state for state, classes in enumerate(live) if classes]
        while waiting:
            state = waiting.pop()
            for source in before[state]:
                if live[state] & ~live[source]:
                    live[source] |= live[state]
                    waiting.append(source)


def _refuses(dfa: Dfa, start: int) -> bool:
    """Whether some text is refused from a state on."""
    if dfa.universal(start):
        return False
    if dfa.longest(start) < INFINITE:
        return True
    seen = {start}
    waiting = [start]
    for state in waiting:
        if not dfa.accepting(state):
            return True
        rest = ALL
        for chars, target in dfa.step(state):
            rest = rest - chars
            if target not in seen:
                seen.add(target)
                waiting.append(target)
        if rest:
            return True
    return False
