"""Whether an array of different items can be filled: distinct representatives for the positions still to come."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Protocol

from ..schema.values import Canonical
from .goals import Goal

MAX_DISTINCT = 1024


class Lister(Protocol):
    """Lists the values of goals that have few."""

    def values(self, goal: Goal, limit: int) -> list[Canonical] | None: ...


class Distinct:
    """Positions have goals (`goal_at`, the same from `tail` on). Goals with more than 1,024 values never run out."""

    def __init__(self, goal_at: Callable[[int], Goal], tail: int, lister: Lister) -> None:
        self._goal_at = goal_at
        self._tail = tail
        self._lister = lister
        self._lists: dict[Goal, frozenset[Canonical] | None] = {}

    def indifferent(self, start: int, stop: int, seen: Collection[Canonical]) -> bool:
        """Whether it makes no difference for the positions from `start` to `stop` which value comes before them."""
        if start >= stop:
            return True
        if start - 1 >= self._tail:
            return True  # all positions are alike, and so are the values they may take
        return all(self._plenty(i, stop - start + len(seen) + 1) for i in range(start, min(stop, self._tail + 1)))

    def enough(self, start: int, stop: int, seen: Collection[Canonical], extra: int) -> bool:
        """Whether the positions from `start` to `stop` can take values that differ from each other and from all before.

        Of the items before, `seen` are known and `extra` are any values of positions that are alike or have plenty.
        """
        if start >= stop:
            return True
        taken = frozenset(seen)
        if start >= self._tail:
            listed = self._list(self._goal_at(start))
            return listed is None or len(listed - taken) - extra >= stop - start
        if stop - start > MAX_DISTINCT:
            return True
        needed = stop - start + len(taken) + extra
        few = [i for i in range(start, stop) if not self._plenty(i, needed)]
        return _matching([sorted((self._list(self._goal_at(i)) or frozenset()) - taken) for i in few])

    def _plenty(self, index: int, wanted: int) -> bool:
        listed = self._list(self._goal_at(index))
        return listed is None or len(listed) > wanted

    def _list(self, goal: Goal) -> frozenset[Canonical] | None:
        if goal not in self._lists:
            listed = self._lister.values(goal, MAX_DISTINCT)
            self._lists[goal] = None if listed is None else frozenset(listed)
        return self._lists[goal]


def _matching(choices: list[list[Canonical]]) -> bool:
    """Whether each position can have a value of its own (augmenting paths; Kuhn, 1955)."""
    owner: dict[Canonical, int] = {}

    def place(position: int, tried: set[Canonical]) -> bool:
        for value in choices[position]:
            if value not in tried:
                tried.add(value)
                if value not in owner or place(owner[value], tried):
                    owner[value] = position
                    return True
        return False

    return all(place(position, set()) for position in range(len(choices)))
