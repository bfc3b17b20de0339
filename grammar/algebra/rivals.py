"""Values that a container must not be: negated constants, and what `uniqueItems` has seen.

To differ from n values of k members each is a conjunction of n choices among k reasons. As alternatives these multiply,
so they are followed together instead: a container remembers its *rivals*, those of the values that agree with all of it
so far. A member with a value that some of them have is told apart from one with any other value, by which it differs
from all of them; where no rival is left nothing needs to be remembered any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from ..schema.expr import AnyOf, Const
from ..schema.values import Canonical
from .goals import Goal, Goals


class Reasoner(Protocol):
    """What is asked of goals."""

    goals: Goals

    def nonempty(self, goal: Goal) -> bool: ...

    def const_node(self, value: Canonical) -> Const: ...

    def any_const_node(self, values: tuple[Canonical, ...]) -> AnyOf: ...


class Rivals:
    """Values of containers, each by its members: what stands in a place, the symbol of a key or the index of an item.

    `every`: all of them, as bits; sets of them are given so everywhere.
    """

    __slots__ = ("_at", "_of_size", "_reasoner", "every")

    def __init__(self, values: Sequence[Mapping[int, Canonical]], reasoner: Reasoner) -> None:
        self._reasoner = reasoner
        self._at: dict[int, dict[Canonical, int]] = {}
        self._of_size: dict[int, int] = {}
        self.every = (1 << len(values)) - 1
        for i, members in enumerate(values):
            self._of_size[len(members)] = self._of_size.get(len(members), 0) | 1 << i
            for place, value in members.items():
                there = self._at.setdefault(place, {})
                there[value] = there.get(value, 0) | 1 << i

    def places(self, alive: int) -> Iterator[int]:
        """The places in which some of the living have a value."""
        return (place for place, there in self._at.items() if any(mask & alive for mask in there.values()))

    def met(self, alive: int, size: int) -> bool:
        """Whether a container of so many members is one of the living, which agree with all of it."""
        return alive & self._of_size.get(size, 0) != 0

    def differs(self, goal: Goal, place: int, alive: int) -> Goal | None:
        """What a value of `goal` in a place must satisfy to differ from all the living; None where none can."""
        values = tuple([value for value, mask in self._at.get(place, {}).items() if mask & alive])
        if not values:
            return goal
        reasoner = self._reasoner
        rest = reasoner.goals.both(goal, [(reasoner.any_const_node(values), False)])
        return rest if reasoner.nonempty(rest) else None

    def agrees(self, goal: Goal, place: int, alive: int) -> Iterator[tuple[Goal, Canonical, int]]:
        """For each value that some of the living have in a place, as far as `goal` allows it: the goal, it, and who."""
        reasoner = self._reasoner
        for value, mask in self._at.get(place, {}).items():
            if mask & alive:
                same = reasoner.goals.both(goal, [(reasoner.const_node(value), True)])
                if reasoner.nonempty(same):
                    yield same, value, mask & alive
