"""One array clause as an automaton over its items, always able to finish.

`ArrayProgress` is what must be remembered between items. As for objects, an option is offered only if the array can
still be completed after it. Items from `tail` on are all alike, so what remains there is arithmetic (`fits`). Values
already in the array (`seen`) matter only where items must differ (`distinct`), or where two must be equal.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Protocol

from ..errors import BudgetError
from ..regular.dfa import lazy
from ..schema.values import Canonical
from .clauses import ArrayClause
from .distinct import MAX_DISTINCT, Distinct
from .fits import ENDLESS, fits
from .goals import Goal, Literal
from .rivals import Reasoner, Rivals

MAX_CHOICES = 64
MAX_STATES = 20_000
MAX_UNIQUE = 256

Seen = tuple[Canonical, ...]
Counts = tuple[int, ...]


class ArrayProgress(NamedTuple):
    """What an array remembers.

    length    number of items, no further than matters
    counts    for each counted demand how many items met it, no further than matters
    repeated  whether two equal items were seen, where the clause asks for them
    rivals    which of the excluded values begin with the items so far, as bits; `length` is exact while there are any
    """

    length: int
    counts: tuple[int, ...]
    repeated: bool
    rivals: int = 0


class ArrayReasoner(Reasoner, Protocol):
    """What a view needs to know of goals."""

    def values(self, goal: Goal, limit: int) -> list[Canonical] | None: ...


class ArrayView:
    """An `ArrayClause` as an automaton over items."""

    def __init__(self, clause: ArrayClause, reasoner: ArrayReasoner) -> None:
        self._reasoner = reasoner
        self._goals = reasoner.goals
        self._counts = clause.counts
        self.low, self.high = clause.low, clause.high
        self.unique, self.repeats = clause.unique, clause.repeats
        if clause.unique and clause.low > MAX_UNIQUE:
            raise BudgetError(
                f"{clause.low} different items are more than can be kept apart",
                keyword="uniqueItems",
                remedy=f"ask for at most {MAX_UNIQUE}",
            )
        spans = [(part.start, part.stop) for part in clause.each] + [(part.start, part.stop) for part in clause.counts]
        bounds = [bound or 0 for span in spans for bound in span]
        # From this index on, all items are asked the same.
        self.tail = max(bounds, default=0)
        self._cap = max(self.tail, self.low) if self.high is None else ENDLESS
        self._item_goals: dict[int, Goal] = {}
        self._ranges = [part for part in clause.each if part.stop is None or part.stop - part.start > 1]
        self._places: dict[int, list[Literal]] = {}
        for part in clause.each:
            if part.stop == part.start + 1:
                self._places.setdefault(part.start, []).extend(part.literals)
        self._counted: dict[ArrayProgress, bool] = {}
        self._distinct = Distinct(self.goal, self.tail, reasoner) if clause.unique else None
        self._kinds: dict[tuple[int, ...], list[frozenset[int]]] = {}
        self._rivals = Rivals([dict(enumerate(items)) for items in clause.excluded], reasoner)
        self.start = ArrayProgress(0, (0,) * len(clause.counts), False, self._rivals.every)

    @property
    def records(self) -> bool:
        """Whether the values of items must be remembered."""
        return self.unique or self.repeats

    def goal(self, index: int) -> Goal:
        """What the item at `index` must satisfy by position alone."""
        index = min(index, self.tail)
        found = self._item_goals.get(index)
        if found is None:
            literals = [
                *self._places.get(index, ()),
                *(
                    literal
                    for part in self._ranges
                    if part.start <= index and (part.stop is None or index < part.stop)
                    for literal in part.literals
                ),
            ]
            found = self._item_goals[index] = self._goals.of(literals)
        return found

    @property
    def plain(self) -> bool:
        """Whether the clause has no demands but on items by place, on their number and on their being different."""
        return not self._counts and not self.repeats

    def satisfiable(self) -> bool:
        """Whether some array satisfies the clause."""
        return self.live(self.start, ())

    def dominates(self, better: ArrayProgress, worse: ArrayProgress) -> bool:
        """Whether whatever can follow `worse` can follow `better` as well."""
        return (
            (better.length, better.rivals) == (worse.length, worse.rivals)
            and better.repeated >= worse.repeated
            and all(
                a == b or (part.high is None and a > b)
                for a, b, part in zip(better.counts, worse.counts, self._counts, strict=True)
            )
        )

    def closable(self, progress: ArrayProgress) -> bool:
        """Whether the array may end here."""
        return (
            progress.length >= self.low
            and all(count >= part.low for count, part in zip(progress.counts, self._counts, strict=True))
            and (progress.repeated or not self.repeats)
            and not (progress.rivals and self._rivals.met(progress.rivals, progress.length))
        )

    def still(self, progress: ArrayProgress) -> int:
        """How many more items are asked for at most before the array may end."""
        counted = sum(max(0, part.low - count) for part, count in zip(self._counts, progress.counts, strict=True))
        return max(self.low - progress.length, self.tail - progress.length if counted else 0, 0) + counted

    def wanted(self, progress: ArrayProgress) -> list[tuple[int, Goal]] | None:
        """How many items must still meet each counted demand, and what such an item must satisfy.

        None where they cannot be added one after the other without regard to each other.
        """
        if self.records or self.high is not None or progress.length < self.tail or progress.rivals:
            return None
        if any(part.high is not None or part.stop is not None for part in self._counts):
            return None
        base = self.goal(self.tail)
        return [
            (part.low - count, self._goals.both(base, [part.literal]))
            for part, count in zip(self._counts, progress.counts, strict=True)
            if count < part.low
        ]

    def options(self, progress: ArrayProgress, seen: Seen) -> Iterator[tuple[Goal, ArrayProgress]]:
        """The ways to add an item: what it must satisfy, and where that leads. All are live whatever the item's value.

        `seen` holds the values so far where they matter. Where liveness depends on the value (few values are left), the
        option is split by value, so that it never does for the caller.
        """
        at = progress.length
        for goal, after in self._options(progress, seen):
            if not progress.rivals:
                yield goal, after
                continue
            differs = self._rivals.differs(goal, at, progress.rivals)
            if differs is not None:
                yield differs, after
            for same, value, rivals in self._rivals.agrees(goal, at, progress.rivals):
                there = after._replace(length=at + 1, rivals=rivals)
                if self.live(there, (*seen, value) if self.records else seen):
                    yield same, there

    def _options(self, progress: ArrayProgress, seen: Seen) -> Iterator[tuple[Goal, ArrayProgress]]:
        """`options`, rivals aside."""
        if self.high is not None and progress.length >= self.high:
            return
        given: set[Goal] = set()
        for goal, after in self._choices(progress, seen):
            if goal in given:  # an item that also meets more demands was offered already
                continue
            if self._distinct is None or self._distinct.indifferent(after.length, self._until(after), seen):
                if self.live(after, seen, extra=1 if self.unique else 0):
                    given.add(goal)
                    yield goal, after
                elif self.repeats and not after.repeated:  # no two items after it can be equal, but one to this one
                    for asked in self._repeated(after, goal):
                        if asked not in given:
                            given.add(asked)
                            yield asked, after
                continue
            for value in self._reasoner.values(goal, MAX_DISTINCT) or []:
                if self.live(after, (*seen, value)):
                    yield self._goals.both(goal, [(self._reasoner.const_node(value), True)]), after

    def live(self, progress: ArrayProgress, seen: Seen, extra: int = 0) -> bool:
        """Whether the array can be completed from here; `extra` items are in it whose values are not in `seen`."""
        if self.closable(progress):
            return True
        if not self._counts_live(progress):
            return False
        if progress.rivals:
            alone = progress._replace(rivals=0)
            return self.live(alone, seen, extra) and self._differs(progress, seen)
        if self._distinct is not None:
            return self._distinct.enough(progress.length, self._until(progress), seen, extra)
        return progress.repeated or not self.repeats or self._can_repeat(progress, seen)

    def _differs(self, progress: ArrayProgress, seen: Seen) -> bool:
        """Whether further items can make the array differ from each rival."""
        ways = self._options(progress, seen)
        if any(self._rivals.differs(goal, progress.length, progress.rivals) is not None for goal, _ in ways):
            return True
        return self._goals.depth.enter(lambda: next(self.options(progress, seen), None) is not None)

    def _until(self, progress: ArrayProgress) -> int:
        """The length at which the array may end at the latest, if it ends as soon as it can."""
        return progress.length + self.still(progress)

    def _counts_live(self, progress: ArrayProgress) -> bool:
        """Whether positions, demands and the number of items leave a way to the end, equality of items aside."""
        progress = progress._replace(repeated=False, rivals=0)
        found = self._counted.get(progress)
        if found is None:
            found = self._counted[progress] = self._search(progress)
        return found

    def _search(self, progress: ArrayProgress) -> bool:
        if not self._counts:
            return self._items_possible
        # Breadth first, one item after the other, up to states that are known; then back the way that led there.
        layers: list[dict[Counts, list[Counts]]] = []  # states of one length, each with those that it comes from
        states: dict[Counts, list[Counts]] = {progress.counts: []}
        at = progress.length
        tried = 0
        while states:
            good = {counts for counts in states if self._settled(ArrayProgress(at, counts, False))}
            if good:
                for length, layer in zip(range(at, progress.length - 1, -1), [states, *reversed(layers)], strict=True):
                    self._counted.update((ArrayProgress(length, counts, False), True) for counts in good)
                    good = {before for counts in good for before in layer[counts]}
                return True
            following: dict[Counts, list[Counts]] = {}
            for counts in states:
                here = ArrayProgress(at, counts, False)
                if self._counted.get(here) is False:
                    continue
                for _, after in self._demands(here, self.goal(at)):
                    following.setdefault(after.counts, []).append(counts)
            layers.append(states)
            states = following
            at += 1
            tried += len(states)
            if tried > MAX_STATES:
                raise BudgetError("too many ways to spread `contains` over the items of an array", keyword="contains")
        for length, layer in enumerate(layers, progress.length):
            self._counted.update((ArrayProgress(length, counts, False), False) for counts in layer)
        return False

    @lazy
    def _items_possible(self) -> bool:
        """Whether each item that must come is possible, without counted demands."""
        last = min(self.low, self.tail + 1)
        return all(self._reasoner.nonempty(self.goal(i)) for i in range(last)) and (
            self.high is None or self.low <= self.high
        )

    def _settled(self, here: ArrayProgress) -> bool:
        """Whether the array can be completed from here, seen without trying items; otherwise `_counted` may say no."""
        known = self._counted.get(here)
        if known is None:
            at = here.length
            if at >= self.low and all(c >= part.low for c, part in zip(here.counts, self._counts, strict=True)):
                known = True
            elif self.high is not None and at >= self.high:
                known = False
            elif at >= self.tail:
                known = self._tail_live(here)
            elif not self._reasoner.nonempty(self.goal(at)):
                known = False
            else:
                return False
            self._counted[here] = known
        return known

    def _choices(self, progress: ArrayProgress, seen: Seen) -> Iterator[tuple[Goal, ArrayProgress]]:
        """What the next item may be asked: every choice of counted demands it meets, and of being a repetition."""
        base = self.goal(progress.length)
        if self.unique and seen:
            base = self._goals.both(base, [(self._reasoner.any_const_node(seen), False)])
        if not self._reasoner.nonempty(base):
            return
        for goal, after in self._demands(progress, base):
            if self.repeats and not progress.repeated and seen:
                same = self._goals.both(goal, [(self._reasoner.any_const_node(seen), True)])
                if self._reasoner.nonempty(same):
                    yield same, after._replace(repeated=True)
            yield goal, after

    def _demands(self, progress: ArrayProgress, base: Goal) -> list[tuple[Goal, ArrayProgress]]:
        """The satisfiable choices of counted demands that an item meets; more demands come first."""
        following = min(progress.length + 1, self._cap)
        ways: list[tuple[Goal, tuple[int, ...]]] = [(base, progress.counts)]
        for j, part in enumerate(self._counts):
            if progress.length < part.start or (part.stop is not None and progress.length >= part.stop):
                continue
            if part.high is None and progress.counts[j] >= part.low:
                continue
            expr, sign = part.literal
            split: list[tuple[Goal, tuple[int, ...]]] = []
            for goal, counts in ways:
                if part.high is None or counts[j] < part.high:
                    met = self._goals.both(goal, [(expr, sign)])
                    if self._reasoner.nonempty(met):
                        split.append((met, (*counts[:j], counts[j] + 1, *counts[j + 1 :])))
                missed = goal if part.high is None else self._goals.both(goal, [(expr, not sign)])
                if part.high is None or self._reasoner.nonempty(missed):
                    split.append((missed, counts))
            ways = split
            if len(ways) > MAX_CHOICES:
                raise BudgetError("too many demands of `contains` on one item", keyword="contains")
        return [(goal, ArrayProgress(following, counts, progress.repeated)) for goal, counts in ways]

    def _can_repeat(self, progress: ArrayProgress, seen: Seen) -> bool:
        if seen:
            before = self._goals.of([(self._reasoner.any_const_node(seen), True)])
            if next(self._repeated(progress, before), None) is not None:
                return True
        firsts = dict.fromkeys((goal, after) for goal, after in self._later(progress))
        return any(next(self._repeated(after, goal), None) is not None for goal, after in firsts)

    def _repeated(self, progress: ArrayProgress, before: Goal) -> Iterator[Goal]:
        """What an item that had to satisfy `before` must satisfy, too, for one that may follow to be equal to it."""
        found: set[Goal] = set()
        for goal, after in self._later(progress):
            if self._counts_live(after):
                both = self._goals.both(goal, before.literals)
                if both not in found and self._reasoner.nonempty(both):
                    found.add(both)
                    yield both

    def _later(self, progress: ArrayProgress) -> Iterator[tuple[Goal, ArrayProgress]]:
        """What the items that follow may be asked, and where that leads, up to two of those that are all alike."""
        last = max(self.tail, progress.length) + 2 + sum(part.low for part in self._counts)
        states = {progress.counts}
        for at in range(progress.length, last if self.high is None else min(last, self.high)):
            goal = self.goal(at)
            if not self._reasoner.nonempty(goal):
                return
            here = [ArrayProgress(min(at, self._cap), counts, False) for counts in states]
            ways = [way for state in here for way in self._demands(state, goal)]
            if len(ways) > MAX_STATES:
                raise BudgetError("too many ways to spread `contains` over the items of an array", keyword="contains")
            yield from ways
            states = {after.counts for _, after in ways}

    def _tail_live(self, progress: ArrayProgress) -> bool:
        """In the tail all items are asked the same, so only numbers of items count."""
        room = ENDLESS if self.high is None else self.high - progress.length
        wanted = max(0, self.low - progress.length)
        here = tuple(j for j, part in enumerate(self._counts) if part.stop is None)
        for j, (count, part) in enumerate(zip(progress.counts, self._counts, strict=True)):
            if j not in here and count < part.low:
                return False
        needs = tuple(max(0, self._counts[j].low - progress.counts[j]) for j in here)
        rooms = tuple(ENDLESS if (high := self._counts[j].high) is None else high - progress.counts[j] for j in here)
        return fits(self._tail_kinds(here), needs, rooms, wanted, room)

    def _tail_kinds(self, here: tuple[int, ...]) -> list[frozenset[int]]:
        """The sets of demands (by position in `here`) that one item of the tail can meet together."""
        found = self._kinds.get(here)
        if found is None:
            base = self.goal(self.tail)
            ways: list[tuple[Goal, frozenset[int]]] = [(base, frozenset())] if self._reasoner.nonempty(base) else []
            for place, j in enumerate(here):
                part = self._counts[j]
                expr, sign = part.literal
                split = []
                for goal, kind in ways:
                    choices: list[tuple[list[Literal], frozenset[int]]] = [
                        ([(expr, sign)], kind | {place}),
                        ([] if part.high is None else [(expr, not sign)], kind),
                    ]
                    for asked, into in choices:
                        both = self._goals.both(goal, asked)
                        if self._reasoner.nonempty(both):
                            split.append((both, into))
                ways = split
                if len(ways) > MAX_CHOICES:
                    raise BudgetError("too many demands of `contains` on one item", keyword="contains")
            found = self._kinds[here] = [kind for _, kind in ways]
        return found


__all__ = ["ArrayProgress", "ArrayView", "Seen"]
