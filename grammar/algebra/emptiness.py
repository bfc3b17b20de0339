"""Which goals some finite JSON value satisfies, and the values of goals that few satisfy.

Emptiness is a least fixpoint over recursive schemas: a value that would have to contain itself does not exist.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice, product

from ..regular import number_values
from ..schema.expr import AnyOf, Const
from ..schema.values import FALSE, NULL, TRUE, Canonical
from . import writable
from .alphabet import alphabet
from .arrays import ArrayView
from .atoms import Atoms
from .clauses import ArrayClause, ObjectClause, holds_key
from .containers import Containers
from .cycles import Fixpoint
from .goals import Goal, Goals, Literal
from .objects import ObjectView
from .obvious import evident, obvious
from .scalars import Scalars

_LITERALS = {"null": NULL, "true": TRUE, "false": FALSE}


class Emptiness:
    """Satisfiability of the goals of one schema."""

    def __init__(
        self, goals: Goals, scalars: Scalars, containers: Containers, atoms: Atoms, *, limited: bool
    ) -> None:
        self.goals = goals
        self._scalars = scalars
        self._containers = containers
        self._atoms = atoms
        self._limited = limited
        self._nonempty: Fixpoint[Goal, bool] = Fixpoint(goals.depth, False, True)
        self._listing: set[Goal] = set()

    def nonempty(self, goal: Goal) -> bool:
        """Whether some JSON value satisfies `goal`."""
        if goal.impossible:
            return False
        return obvious(goal, self.goals) or self._nonempty.get(goal, lambda: self._compute(goal))

    def const_node(self, value: Canonical) -> Const:
        """The node that asks for `value`."""
        return self._atoms.const_node(value)

    def any_const_node(self, values: tuple[Canonical, ...]) -> AnyOf:
        """The node that asks for one of `values`."""
        return self._atoms.any_const_node(values)

    def values(self, goal: Goal, limit: int) -> list[Canonical] | None:
        """All values that satisfy `goal`, or None if there are more than `limit` (or too many to tell)."""
        if goal in self._listing:  # values within values of the same kind: without end, as far as anyone asks
            return None
        self._listing.add(goal)
        try:
            return self.goals.depth.enter(lambda: self._list(goal, limit))
        finally:
            self._listing.discard(goal)

    def _list(self, goal: Goal, limit: int) -> list[Canonical] | None:
        found: dict[Canonical, None] = {_LITERALS[name]: None for name in sorted(self._scalars.literals(goal))}
        for language in self._scalars.strings(goal):
            words = language.words(limit)
            if words is None:
                return None
            found.update((("string", word), None) for word in words)
        for spec in self._scalars.numbers(goal):
            numbers = number_values(spec, limit)
            if numbers is None:
                return None
            found.update((("number", value), None) for value in numbers)
        for clause in self._containers.arrays(goal):
            arrays = self._arrays(clause, limit)
            if arrays is None:
                return None
            found.update(dict.fromkeys(arrays))
        for shape in self._containers.objects(goal):
            objects = self._objects(shape, limit)
            if objects is None:
                return None
            found.update(dict.fromkeys(objects))
        return list(found) if len(found) <= limit else None

    def _compute(self, goal: Goal) -> bool:
        return bool(
            self._scalars.literals(goal)
            or self._some_string(goal)
            or self._scalars.numbers(goal)
            or any(self._array(clause) for clause in self._containers.arrays(goal))
            or any(self._object(clause) for clause in self._containers.objects(goal))
        )

    def _some_string(self, goal: Goal) -> bool:
        found = self._scalars.strings(goal)
        return bool(writable.strings(found) if self._limited else found)

    def _array(self, clause: ArrayClause) -> bool:
        # A fresh view each time: answers found within a cycle must not outlive it.
        if self._limited and not writable.arrays((clause,)):
            return False
        return ArrayView(clause, self).satisfiable()

    def _object(self, clause: ObjectClause) -> bool:
        if self._limited and not writable.objects((clause,)):
            return False
        required = {name for some in clause.some if (name := some.name) is not None}
        unbounded = clause.low <= len(required) and clause.high is None
        if len(required) == len(clause.some) and unbounded and not clause.excluded and not clause.denied:
            return all(self._property(clause, name) for name in required)
        return ObjectView(clause, alphabet([clause]), self, ordered=False).satisfiable()

    def _property(self, clause: ObjectClause, name: str) -> bool:
        """Whether a property of that name can have a value."""
        by_name, general = clause.each_by_name
        literals = [literal for each in by_name.get(name, ()) for literal in each.literals]
        for each in general:
            if holds_key(each.keys, name):
                literals.extend(each.literals)
        if len(literals) == 1 and literals[0][1] and evident(literals[0][0], self.goals):
            return True
        return self.nonempty(self.goals.of(literals))

    def _arrays(self, clause: ArrayClause, limit: int) -> list[Canonical] | None:
        view = ArrayView(clause, self)
        if not view.satisfiable():
            return []
        if clause.high is None or clause.high > limit:
            # Without a bound there is an end only where no item can follow any more.
            ends = next((i for i in range(limit) if not self.nonempty(view.goal(i))), None)
            if ends is None:
                return None
            high = ends
        else:
            high = clause.high
        out: list[Canonical] = []
        columns: list[list[Canonical]] = []
        for size in range(high + 1):
            if size:
                column = self.values(view.goal(size - 1), limit)
                if column is None:
                    return None
                columns.append(column)
            candidates = (("array", items) for items in product(*columns))
            out += islice((value for value in candidates if self._array_value(clause, value[1])), limit + 1)
            if len(out) > limit:
                return None
        return out

    def _array_value(self, clause: ArrayClause, items: tuple[Canonical, ...]) -> bool:
        """Whether items that satisfy `each` by position satisfy the rest of the clause."""
        if len(items) < clause.low or items in clause.excluded:
            return False
        distinct = len(set(items)) == len(items)
        if (clause.unique and not distinct) or (clause.repeats and distinct):
            return False
        for part in clause.counts:
            here = items[part.start : part.stop]
            met = sum(self.holds(part.literal, item) for item in here)
            if met < part.low or (part.high is not None and met > part.high):
                return False
        return True

    def holds(self, literal: Literal, value: Canonical) -> bool:
        """Whether a value satisfies a literal."""
        return self.nonempty(self.goals.of([literal, (self.const_node(value), True)]))

    def _objects(self, clause: ObjectClause, limit: int) -> list[Canonical] | None:
        keys = alphabet([clause])
        view = ObjectView(clause, keys, self, ordered=False)
        if not view.satisfiable():
            return []
        if view.possible & keys.class_mask:
            return None if clause.high is None or clause.high > 0 else [("object", ())]
        columns: list[list[Canonical | None]] = []
        for symbol in range(len(keys.names)):
            column: list[Canonical | None] = [] if view.required >> symbol & 1 else [None]
            if view.possible >> symbol & 1:
                values = self.values(view.goal(symbol), limit)
                if values is None:
                    return None
                column += values
            columns.append(column)
        out = list(islice(self._members(clause, keys.names, product(*columns)), limit + 1))
        return out if len(out) <= limit else None

    def _members(
        self, clause: ObjectClause, names: tuple[str, ...], rows: Iterator[tuple[Canonical | None, ...]]
    ) -> Iterator[Canonical]:
        for row in rows:
            members = tuple(sorted((name, value) for name, value in zip(names, row, strict=True) if value is not None))
            if len(members) < clause.low or (clause.high is not None and len(members) > clause.high):
                continue
            if members in clause.excluded or any(self._satisfies(members, denied) for denied in clause.denied):
                continue
            if all(
                any(
                    holds_key(some.keys, name) and all(self.holds(literal, value) for literal in some.literals)
                    for name, value in members
                )
                for some in clause.some
            ):
                yield ("object", members)

    def _satisfies(self, members: tuple[tuple[str, Canonical], ...], clause: ObjectClause) -> bool:
        """Whether an object satisfies a clause of the kind that is denied (see `denied`)."""
        names = {name for name, _ in members}
        return (
            clause.low <= len(members)
            and (clause.high is None or len(members) <= clause.high)
            and all(some.name in names for some in clause.some)
            and all(
                self.holds(literal, value)
                for each in clause.each
                for name, value in members
                if holds_key(each.keys, name)
                for literal in each.literals
            )
        )
