"""One array clause as an automaton over its items, always able to finish.

`ArrayProgress` is what must be remembered between items. As for objects, an option is offered only if the array can
still be completed after it. Items from `tail` on are all alike, so what remains is arithmetic there and a search
before. Values already in the array (`seen`) matter only where items must differ, or where two must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import NamedTuple, Protocol

from ..schema.expr import Const
from ..schema.values import Canonical
from .clauses import ArrayClause
from .goals import Goal, Goals, Literal

ENDLESS = 1 << 30
MAX_DISTINCT = 256

Seen = tuple[Canonical, ...]


class ArrayProgress(NamedTuple):
    """`length`: items so far, no further than matters. `counts`: per counted demand, no further than matters.
    `repeated`: whether two equal items were seen, where the clause asks for them."""

    length: int
    counts: tuple[int, ...]
    repeated: bool


class ArrayReasoner(Protocol):
    """What a view needs to know of goals."""

    goals: Goals

    def nonempty(self, goal: Goal) -> bool: ...

    def values(self, goal: Goal, limit: int) -> list[Canonical] | None: ...

    def const_node(self, value: Canonical) -> Const: ...


class ArrayView:
    """An `ArrayClause` as an automaton over items."""

    def __init__(self, clause: ArrayClause, reasoner: ArrayReasoner) -> None:
        self._reasoner = reasoner
        self._goals = reasoner.goals
        self._each = clause.each
        self._counts = clause.counts
        self.low, self.high = clause.low, clause.high
        self.unique, self.repeats = clause.unique, clause.repeats
        spans = [(part.start, part.stop) for part in clause.each] + [(part.start, part.stop) for part in clause.counts]
        bounds = [bound or 0 for span in spans for bound in span]
        self._tail = max(bounds, default=0)
        self._cap = max(self._tail, self.low) if self.high is None else ENDLESS
        self._caps = tuple(part.low if part.high is None else part.high for part in clause.counts)
        self._item_goals: dict[int, Goal] = {}
        self._memo: dict[tuple[ArrayProgress, Seen], bool] = {}
        self.start = ArrayProgress(0, (0,) * len(clause.counts), False)

    @property
    def records(self) -> bool:
        """Whether the values of items must be remembered."""
        return self.unique or self.repeats

    def goal(self, index: int) -> Goal:
        """What the item at `index` must satisfy by position alone."""
        index = min(index, self._tail)
        found = self._item_goals.get(index)
        if found is None:
            literals = [
                literal
                for part in self._each
                if part.start <= index and (part.stop is None or index < part.stop)
                for literal in part.literals
            ]
            found = self._item_goals[index] = self._goals.of(literals)
        return found

    def alike(self, progress: ArrayProgress) -> tuple[Goal, int] | None:
        """Where only the number of items matters from here: what each must satisfy, and how many must come."""
        if self._counts or self.records or progress.length < self._tail:
            return None
        return self.goal(progress.length), max(0, self.low - progress.length)

    def satisfiable(self) -> bool:
        """Whether some array satisfies the clause."""
        return self.live(self.start, ())

    def closable(self, progress: ArrayProgress) -> bool:
        """Whether the array may end here."""
        return (
            progress.length >= self.low
            and all(count >= part.low for count, part in zip(progress.counts, self._counts, strict=True))
            and (progress.repeated or not self.repeats)
        )

    def options(self, progress: ArrayProgress, seen: Seen) -> Iterator[tuple[Goal, ArrayProgress]]:
        """The ways to add an item: what it must satisfy, and where that leads. All are live whatever the item's value.

        `seen` holds the values so far where they matter. Where liveness depends on the value (few values are left), the
        option is split by value, so that it never does for the caller.
        """
        if self.high is not None and progress.length >= self.high:
            return
        for goal, after in self._choices(progress, seen):
            if not self._reasoner.nonempty(goal):
                continue
            if not self.unique or self._plenty(after, seen):
                if self.live(after, seen):
                    yield goal, after
                continue
            for value in self._reasoner.values(goal, MAX_DISTINCT) or []:
                if self.live(after, (*seen, value)):
                    yield self._goals.both(goal, [(self._reasoner.const_node(value), True)]), after

    def live(self, progress: ArrayProgress, seen: Seen) -> bool:
        """Whether the array can be completed from here."""
        if self.closable(progress):
            return True
        key = (progress, seen if self.records else ())
        found = self._memo.get(key)
        if found is None:
            self._memo[key] = False  # every path grows the array, so this is never read as an answer
            found = self._memo[key] = self._compute(progress, seen)
        return found

    def _compute(self, progress: ArrayProgress, seen: Seen) -> bool:
        if self.high is not None and progress.length >= self.high:
            return False
        if progress.length >= self._tail and not self._must_enumerate(progress, seen):
            return self._tail_live(progress)
        for goal, after in self._choices(progress, seen):
            if not self._reasoner.nonempty(goal):
                continue
            if self.unique and not self._plenty(after, seen):
                values = self._reasoner.values(goal, MAX_DISTINCT) or []
                if any(self.live(after, (*seen, value)) for value in values):
                    return True
            elif self.live(after, seen):
                return True
        return False

    def _choices(self, progress: ArrayProgress, seen: Seen) -> list[tuple[Goal, ArrayProgress]]:
        """What the next item may be asked: every choice of counted demands it meets, and of being a repetition."""
        index = progress.length
        base = self.goal(index)
        if self.unique:
            base = self._goals.both(base, [(self._reasoner.const_node(value), False) for value in seen])
        here = [
            j
            for j, part in enumerate(self._counts)
            if part.start <= index
            and (part.stop is None or index < part.stop)
            and (progress.counts[j] < part.low or part.high is not None)
        ]
        out: list[tuple[Goal, ArrayProgress]] = []
        following = min(index + 1, self._cap)
        for size in range(len(here), -1, -1):
            for chosen in combinations(here, size):
                asked: list[Literal] = []
                counts = list(progress.counts)
                possible = True
                for j in here:
                    part = self._counts[j]
                    expr, sign = part.literal
                    if j in chosen:
                        asked.append(part.literal)
                        counts[j] = counts[j] + 1 if part.high is not None else min(counts[j] + 1, part.low)
                        possible = possible and (part.high is None or counts[j] <= part.high)
                    elif part.high is not None:
                        asked.append((expr, not sign))
                if possible:
                    goal = self._goals.both(base, asked)
                    after = ArrayProgress(following, tuple(counts), progress.repeated)
                    if self.repeats and not progress.repeated:
                        for value in seen:
                            same = self._goals.both(goal, [(self._reasoner.const_node(value), True)])
                            out.append((same, after._replace(repeated=True)))
                    out.append((goal, after))
        return out

    def _plenty(self, progress: ArrayProgress, seen: Seen) -> bool:
        """Whether distinct values cannot run out before the array may end, whichever are taken."""
        wanted = self.still(progress) + len(seen) + 1
        last = min(max(progress.length + self.still(progress), progress.length + 1), self._tail + 1)
        return all(self._many(index, wanted) for index in range(progress.length, max(last, progress.length + 1)))

    def _many(self, index: int, wanted: int) -> bool:
        if wanted > MAX_DISTINCT:
            return self._reasoner.values(self.goal(index), MAX_DISTINCT) is None
        found = self._reasoner.values(self.goal(index), wanted)
        return found is None or len(found) > wanted

    def still(self, progress: ArrayProgress) -> int:
        """How many more items are asked for at most before the array may end."""
        counted = sum(max(0, part.low - count) for part, count in zip(self._counts, progress.counts, strict=True))
        return max(0, self.low - progress.length, self._tail - progress.length if counted else 0) + counted

    def _must_enumerate(self, progress: ArrayProgress, seen: Seen) -> bool:
        if self.unique and not self._plenty(progress, seen):
            return True
        return self.repeats and not progress.repeated

    def _tail_live(self, progress: ArrayProgress) -> bool:
        """In the tail all items are asked the same, so only numbers of items count."""
        room = ENDLESS if self.high is None else self.high - progress.length
        wanted = max(0, self.low - progress.length)
        here = [j for j, part in enumerate(self._counts) if part.stop is None]
        if any(
            count < part.low
            for j, (count, part) in enumerate(zip(progress.counts, self._counts, strict=True))
            if j not in here
        ):
            return False
        needs = tuple(max(0, self._counts[j].low - progress.counts[j]) for j in here)
        rooms = tuple(ENDLESS if (high := self._counts[j].high) is None else high - progress.counts[j] for j in here)
        kinds = [
            frozenset(chosen)
            for size in range(len(here) + 1)
            for chosen in combinations(range(len(here)), size)
            if self._reasoner.nonempty(self._tail_goal([here[j] for j in chosen], here))
        ]
        return _fits(kinds, needs, rooms, wanted, room)

    def _tail_goal(self, chosen: list[int], here: list[int]) -> Goal:
        asked = []
        for j in here:
            expr, sign = self._counts[j].literal
            if j in chosen:
                asked.append((expr, sign))
            elif self._counts[j].high is not None:
                asked.append((expr, not sign))
        return self._goals.both(self.goal(self._tail), asked)


def _fits(kinds: list[frozenset[int]], needs: tuple[int, ...], rooms: tuple[int, ...], wanted: int, room: int) -> bool:
    """Whether `wanted` to `room` items of the given kinds (the demands each meets) can fill needs, within rooms."""
    if not any(needs) and not wanted:
        return True
    if not kinds:
        return False
    if len(rooms) == 0:
        return True
    if len(rooms) == 1:
        with_, without = frozenset({0}) in kinds, frozenset() in kinds
        need, cap = needs[0], min(rooms[0], room)
        if need and not with_:
            return False
        if without:
            return need <= cap
        return max(need, wanted) <= cap
    seen = {(needs, rooms)}
    frontier = [(needs, rooms)]
    for length in range(min(sum(needs) + wanted, 10_000) + 1):
        if length > room:
            return False
        idle = any(all(rooms_[j] >= ENDLESS // 2 for j in kind) for kind in kinds for _, rooms_ in frontier[:1])
        if any(not any(left) and (length >= wanted or idle) for left, _ in frontier):
            return True
        following = []
        for left, spare in frontier:
            for kind in kinds:
                if all(spare[j] > 0 for j in kind):
                    state = (
                        tuple(max(0, n - (j in kind)) for j, n in enumerate(left)),
                        tuple(s - (j in kind and s < ENDLESS // 2) for j, s in enumerate(spare)),
                    )
                    if state not in seen or length < wanted:
                        seen.add(state)
                        following.append(state)
        frontier = list(dict.fromkeys(following))
        if not frontier:
            return False
    return False


__all__ = ["ArrayProgress", "ArrayView", "Seen"]
