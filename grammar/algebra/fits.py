"""Counting demands in the part of an array where all items are asked the same."""

from __future__ import annotations

from heapq import heappop, heappush

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
    """Best first over what is left of needs and rooms, one item after the other: mostly the first way that looks good
    is one. What is asked more often than there are items, or room, left is not looked at.
    """
    harmless = any(all(rooms[j] >= ENDLESS for j in kind) for kind in kinds)  # may be taken without end
    asked = 0 if harmless else wanted
    heap = [(sum(needs), 0, needs, rooms)]
    shortest: dict[tuple[object, ...], int] = {}
    while heap:
        _, length, left, spare = heappop(heap)
        if length >= asked and not any(left):
            return True
        for kind in kinds:
            if any(spare[j] <= 0 for j in kind):
                continue
            after = tuple(max(0, n - (j in kind)) for j, n in enumerate(left))
            rest = tuple(s - (j in kind and s < ENDLESS) for j, s in enumerate(spare))
            still = max(max(after), asked - length - 1)
            if length + 1 + still > room or any(n > s for n, s in zip(after, rest, strict=True)):
                continue
            # With items to spare only what is left counts; else how many items it took is part of the state.
            key = (after, rest) if harmless else (after, rest, length)
            if shortest.get(key, ENDLESS) > length:
                shortest[key] = length
                heappush(heap, (sum(after) + max(0, asked - length - 1), length + 1, after, rest))
        if len(shortest) > MAX_STATES:
            raise BudgetError("too many ways to spread several `contains` over an array", keyword="contains")
    return False
