"""Counting demands in the part of an array where all items are asked the same."""

from __future__ import annotations

from ..errors import BudgetError

ENDLESS = 1 << 30
MAX_STATES = 20_000

Vector = tuple[int, ...]


def fits(kinds: list[frozenset[int]], needs: Vector, rooms: Vector, wanted: int, room: int) -> bool:
    """Whether `wanted` to `room` items can be chosen so that every demand is met often enough and none too often.

    kinds   the sets of demands that one item can meet together
    needs   how often each demand must still be met; rooms: how often it may at most (ENDLESS where that is no matter)
    """
    if not any(needs) and not wanted:
        return True
    if not kinds:
        return False
    if not rooms:
        return wanted <= room
    if len(rooms) == 1:
        return _one(kinds, needs[0], min(rooms[0], room), wanted)
    if any(need and not any(j in kind for kind in kinds) for j, need in enumerate(needs)):
        return False
    if all(spare >= ENDLESS for spare in rooms) and max(sum(needs), wanted) <= room:
        return True
    return _search(kinds, needs, rooms, wanted, room)


def _one(kinds: list[frozenset[int]], need: int, cap: int, wanted: int) -> bool:
    if need and frozenset({0}) not in kinds:
        return False
    if frozenset() in kinds:
        return need <= cap
    return max(need, wanted) <= cap  # every item meets the demand


def _search(kinds: list[frozenset[int]], needs: Vector, rooms: Vector, wanted: int, room: int) -> bool:
    """Breadth first over what is left of needs and rooms, one item after the other."""
    harmless = any(all(rooms[j] >= ENDLESS for j in kind) for kind in kinds)  # may be taken without end
    frontier = {(needs, rooms)}
    seen = set(frontier)
    tried = 0
    length = 0
    while frontier:
        if any(not any(left) and (harmless or length >= wanted) for left, _ in frontier):
            return True
        if length >= room:
            return False
        following = set()
        for left, spare in frontier:
            for kind in kinds:
                if all(spare[j] > 0 for j in kind):
                    following.add(
                        (
                            tuple(max(0, n - (j in kind)) for j, n in enumerate(left)),
                            tuple(s - (j in kind and s < ENDLESS) for j, s in enumerate(spare)),
                        )
                    )
        if harmless:  # then only what is left counts, not how many items it took
            following -= seen
            seen |= following
        frontier = following
        length += 1
        tried += len(frontier)
        if tried > MAX_STATES:
            raise BudgetError("too many ways to spread several `contains` over an array", keyword="contains")
    return False
