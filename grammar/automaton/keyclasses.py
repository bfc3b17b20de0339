"""Undeclared keys told apart by the patterns they match, as one automaton that is walked in full.

Filtering keys needs to know of each state which classes can still come, so nothing is lazy here; patterns of keys are
small.
"""

from __future__ import annotations

from typing import Final

from ..errors import BudgetError
from ..regular.charset import ALL, CharSet
from ..regular.dfa import Dfa
from .products import Part, ProductState, combined, tags_of

MAX_STATES: Final = 60_000
MAX_JOINT_STATES: Final = 20_000


class KeyClasses:
    """States of the patterns in lockstep. A class is the bit set of the patterns that a key matches (its signature).

    signatures    the classes that have a key, in ascending order; 0, "no pattern", is there only if `other`
    steps         per state, disjoint sets of characters with the state each leads to
    ending        per state, the index in `signatures` of a key that ends here, or None
    live          per state, the classes that can still come, bit i for `signatures[i]`
    endless       the classes of which, wherever a key of them can still come, there are keys without end
    nothing       the state in which every pattern is dead, or None: any key from there is in class 0
    """

    def __init__(self, patterns: tuple[Dfa, ...], other: bool) -> None:
        self._parts = tuple(Part(dfa, 1 << i) for i, dfa in enumerate(patterns))
        self._other = other
        self._states: dict[ProductState, int] = {}
        self.steps: list[list[tuple[CharSet, int]]] = []
        dead: ProductState = (None,) * len(patterns)
        start: ProductState = tuple(dfa.start for dfa in patterns)
        self.start = None if start == dead and not other else 0
        matched: list[int] = []
        if self.start is not None:
            waiting = [start]
            self._states[start] = 0
            for state in waiting:
                matched.append(tags_of(self._parts, state))
                self.steps.append(self._step(state, waiting))
        self.nothing = self._states.get(dead)
        self.signatures: tuple[int, ...] = tuple(sorted({tags for tags in matched if tags or other}))
        index = {signature: i for i, signature in enumerate(self.signatures)}
        self.ending = [index.get(tags) for tags in matched]
        self.live = self._live()
        self.endless = self._endless()

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
        before: list[list[int]] = [[] for _ in self.steps]
        for state, steps in enumerate(self.steps):
            for _, target in steps:
                before[target].append(state)
        live = [0 if ending is None else 1 << ending for ending in self.ending]
        waiting = [state for state, classes in enumerate(live) if classes]
        while waiting:
            state = waiting.pop()
            for source in before[state]:
                if live[state] & ~live[source]:
                    live[source] |= live[state]
                    waiting.append(source)
        return live

    def _endless(self) -> int:
        # Where each state goes on to another one of the class, the way never ends: so there is a loop.
        endless = (1 << len(self.signatures)) - 1
        for state, steps in enumerate(self.steps):
            ahead = 0
            for _, target in steps:
                ahead |= self.live[target]
            endless &= ~self.live[state] | ahead
        return endless

    def next(self, state: int, char: str) -> int | None:
        """The state after a character."""
        point = ord(char)
        return next((target for chars, target in self.steps[state] if point in chars), None)
