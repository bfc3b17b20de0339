"""Clauses that an object must not satisfy: negations, and implications read as "not this without that".

Not to satisfy n clauses of k demands each is a conjunction of n choices among k reasons. As alternatives these
multiply, so where there are many they are followed together instead: an object remembers which of the clauses still
hold for all of it so far, its *living* clauses. A value that a clause does not allow, or the want of a key that it
requires, rids the object of it for good.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from .alphabet import Alphabet
from .clauses import ObjectClause
from .goals import Goal, Literal
from .rivals import Reasoner


def deniable(clause: ObjectClause) -> bool:
    """Whether it is told property by property if the clause holds: it has no "some property ..." but required keys."""
    plain = all(some.name is not None and not some.literals for some in clause.some)
    return plain and not clause.excluded and not clause.denied


class Denied:
    """The denied clauses of one clause, seen through its alphabet. Sets of them are given as bits.

    every    all of them
    counted  the number of properties beyond which their bounds tell no difference
    bounded  whether some of them have an upper bound
    wanted   symbols that some of them require
    """

    def __init__(self, clauses: Sequence[ObjectClause], alphabet: Alphabet, reasoner: Reasoner) -> None:
        self._clauses = clauses
        self._alphabet = alphabet
        self._reasoner = reasoner
        self._groups: dict[int, list[tuple[Goal, int]]] = {}
        self._required: list[int] = []
        self._kills: list[int] = []  # by clause, the symbols of keys with values that it does not allow
        self.every = (1 << len(clauses)) - 1
        self.wanted = self.counted = 0
        self.bounded = False
        if clauses:  # as good as never
            self._look_at(clauses)

    def _look_at(self, clauses: Sequence[ObjectClause]) -> None:
        index, members = self._alphabet.index, self._alphabet.members
        always, of = self._reasoner.goals.always, self._reasoner.goals.of
        self._required = [_union(1 << index[some.name or ""] for some in clause.some) for clause in clauses]
        self._kills = [
            _union(members(each.keys) for each in clause.each if of(each.literals) is not always) for clause in clauses
        ]
        self.wanted = _union(self._required)
        self.bounded = any(clause.high is not None for clause in clauses)
        self.counted = max([0, *(max(c.low, 0 if c.high is None else c.high + 1) for c in clauses)])

    def met(self, alive: int, missing: int, size: int | None = None) -> int:
        """Those of the living that an object satisfies: without the keys in `missing`, of so many properties or any."""
        found = 0
        for i, (clause, required) in enumerate(zip(self._clauses, self._required, strict=True)):
            fits = size is None or (clause.low <= size and (clause.high is None or size <= clause.high))
            if alive >> i & 1 and fits and not required & missing:
                found |= 1 << i
        return found

    def without(self, passed: int) -> int:
        """Those that an object satisfies no more, since keys in `passed` will not come."""
        return sum(1 << i for i, required in enumerate(self._required) if required & passed)

    def killers(self, alive: int) -> int:
        """The symbols of keys with a value that not all of the living allow."""
        return _union(kills for i, kills in enumerate(self._kills) if alive >> i & 1)

    def doomed(self, met: int, symbols: int) -> bool:
        """Whether some of `met` allow all values of keys in `symbols`."""
        return any(met >> i & 1 and not kills & symbols for i, kills in enumerate(self._kills))

    def ways(self, goal: Goal, symbol: int, alive: int) -> Iterator[tuple[Goal, int]]:
        """What a value of `goal` at a key may be, told apart by which of the living allow it: the goal, and those."""
        goals, nonempty = self._reasoner.goals, self._reasoner.nonempty
        parts = [(goal, alive)]
        for allowed, mask in self._told(symbol):
            if not mask & alive:
                continue
            split: list[tuple[Goal, int]] = []
            for asked, left in parts:
                both = goals.never if allowed.impossible else goals.both(asked, allowed.literals)
                differs = goals.both(asked, [goals.negation(allowed)])
                if both is not asked and nonempty(differs):
                    split.append((differs, left & ~mask))
                if both is asked or nonempty(both):
                    split.append((both, left))
            parts = split
        return iter(parts)

    def _told(self, symbol: int) -> list[tuple[Goal, int]]:
        """What the clauses ask of a value, where they ask anything: the goal, and of whom it is."""
        found = self._groups.get(symbol)
        if found is None:
            goals = self._reasoner.goals
            groups: dict[Goal, int] = {}
            for i, clause in enumerate(self._clauses):
                literals: list[Literal] = []
                for each in clause.each:
                    if self._alphabet.members(each.keys) >> symbol & 1:
                        literals.extend(each.literals)
                goal = goals.of(literals)
                if goal is not goals.always:
                    groups[goal] = groups.get(goal, 0) | 1 << i
            found = self._groups[symbol] = list(groups.items())
        return found


def _union(sets: Iterable[int]) -> int:
    out = 0
    for each in sets:
        out |= each
    return out
