"""What is still to come around a container when it ends.

Several alternatives of a container are followed at once, and what must come after it depends on which of them it
satisfied: the shortest end of an array may be one after which the array around it still lacks an item. So ways to end a
container are compared with what they leave to be done around it, from the stack.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from ..algebra import FAR
from .tables import Tables
from .values import BackHandler

_REMEMBERED: Final = 100_000

Endings = Iterable[tuple[int, int]]
"""For each way to end a container, about how many bytes it needs and which alternatives of its value are met then."""
Around = Callable[[int], int]
"""About how many bytes come around a container that satisfied the alternatives with these tags."""


def nothing(tags: int) -> int:
    """Around a container that is compared with none that satisfies other alternatives."""
    return 0


def least(endings: Endings, around: Around) -> int:
    """About how many bytes are still to come on the best of the ways."""
    return min([min(cost + around(tags), FAR) for cost, tags in endings], default=FAR)


class Surroundings:
    """What is around the containers on stacks. Callers hold the tables' lock."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._known: dict[tuple[int, int], int] = {}

    def of(self, stack: int, endings: Endings) -> Around:
        """What is around the container in which the ways `endings` are compared; `stack` waits for its end."""
        if len({tags for _, tags in endings}) <= 1:  # the same for all
            return nothing
        return lambda tags: self._cost(stack, tags)

    def _cost(self, stack: int, tags: int) -> int:
        """From the container around outwards, as far as it is not known; then back."""
        known = self._known
        if len(known) > _REMEMBERED:
            known.clear()
        stacks = self._tables.stacks
        first, levels, wanted = stack, [], {tags}
        while stack and wanted:
            asked = {each: self._endings(stack, each) for each in wanted if (stack, each) not in known}
            levels.append((stack, asked))
            wanted = {outer for endings in asked.values() for _, outer in endings}
            stack = int(stacks.rest[stack])
        for level, asked in reversed(levels):
            rest = int(stacks.rest[level])
            for each, endings in asked.items():
                known[level, each] = min(
                    [min(cost + known.get((rest, outer), 0), FAR) for cost, outer in endings], default=FAR
                )
        return known.get((first, tags), 0)

    def _endings(self, stack: int, tags: int) -> list[tuple[int, int]]:
        handler = self._tables.handler(int(self._tables.stacks.top[stack]))
        if not isinstance(handler, BackHandler):
            return [(0, 0)]
        with handler.builder.turn:
            handler.renew()
            return list(handler.after.endings(tags))
