"""Undeclared keys told apart by the patterns they match.

Filtering keys needs to know of each state which classes can still come. Several patterns are walked in full for that,
in lockstep; they are small. Of one pattern beside which no other key may come nothing has to be known in advance, so
that it may be as large as it likes (a bound on the length of keys is a state for each length).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Final

from ..errors import BudgetError
from ..regular.charset import ALL, CharSet
from ..regular.dfa import Dfa
from .products import Part, ProductState, combined, tags_of

MAX_STATES: Final = 60_000
MAX_JOINT_STATES: Final = 20_000


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
    """Any patterns in lockstep, walked in full."""

    def __init__(self, patterns: tuple[Dfa, ...], other: bool) -> None:
        self._parts = tuple(Part(dfa, 1 << i) for i, dfa in enumerate(patterns))
        self._other = other
        self._states: dict[ProductState, int] = {}
        self._steps: list[list[tuple[CharSet, int]]] = []
        dead: ProductState = (None,) * len(patterns)
        start: ProductState = tuple(dfa.start for dfa in patterns)
        self.start = None if start == dead and not other else 0
        matched: list[int] = []
        if self.start is not None:
            waiting = [start]
            self._states[start] = 0
            for state in waiting:
                matched.append(tags_of(self._parts, state))
                self._steps.append(self._step(state, waiting))
        self.nothing = self._states.get(dead)
        self.signatures = tuple(sorted({tags for tags in matched if tags or other}))
        index = {signature: i for i, signature in enumerate(self.signatures)}
        self._ending = [index.get(tags) for tags in matched]
        self._lives = self._live()

    def steps(self, state: int) -> Sequence[tuple[CharSet, int]]:
        return self._steps[state]

    def ending(self, state: int) -> int | None:
        return self._ending[state]

    def live(self, state: int) -> int:
        return self._lives[state]

    def ahead(self, state: int) -> int:
        return 0

    def _step(self, state: ProductState, waiting: list[ProductState]) -> list[tuple[CharSet, int]]:
        steps = combined(self._parts, state)
        if self._other:
            rest = ALL
            for chars, _ in steps:
                rest = rest - chars
            if rest:
                steps.append((rest, (None,) * len(state)))
        numbered = []
        for chars, target in steps:
            number = self._states.get(target)
            if number is None:
                number = self._states[target] = len(self._states)
                waiting.append(target)
                limit = MAX_STATES if len(self._parts) == 1 else MAX_JOINT_STATES
                if number >= limit:
                    names = ", ".join(part.dfa.name for part in self._parts)
                    raise BudgetError(f"the patterns of keys {names} have more than {limit} states together")
            numbered.append((chars, number))
        return numbered

    def _live(self) -> list[int]:
        before: list[list[int]] = [[] for _ in self._steps]
        for state, steps in enumerate(self._steps):
            for _, target in steps:
                before[target].append(state)
        live = [0 if ending is None else 1 << ending for ending in self._ending]
        waiting = [state for state, classes in enumerate(live) if classes]
        while waiting:
            state = waiting.pop()
            for source in before[state]:
                if live[state] & ~live[source]:
                    live[source] |= live[state]
                    waiting.append(source)
        return live
