"""Which JSON types a goal may still allow, without looking inside containers.

`plainly_empty` is the cheap half of emptiness: exact for scalars, hopeful for objects and arrays. It never descends to
properties or items, so it may be used while clauses are being built; `emptiness` is the exact half.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal as Choice

from ..schema.expr import (
    Const,
    Contains,
    EachItem,
    EachName,
    EachProperty,
    Expr,
    ItemCount,
    OneOf,
    PropertyCount,
    Required,
    Types,
    UniqueItems,
)
from .branches import branches, is_compound
from .cycles import Fixpoint
from .goals import Goal, Goals, Literal
from .scalars import Scalars

Container = Choice["object", "array"]
_ABOUT: dict[type, Container] = {
    EachProperty: "object", EachName: "object", Required: "object", PropertyCount: "object",
    EachItem: "array", Contains: "array", ItemCount: "array", UniqueItems: "array",
}  # fmt: skip


class Kinds:
    """Type-level possibility of the goals of one schema."""

    def __init__(self, goals: Goals, scalars: Scalars) -> None:
        self._goals = goals
        self._scalars = scalars
        self._clashes: dict[tuple[tuple[int, bool], ...], tuple[bool, tuple[Literal, ...]]] = {}
        self._maybe: Fixpoint[tuple[Goal, Container], bool] = Fixpoint(goals.depth, False, True)

    def maybe(self, goal: Goal, kind: Container) -> bool:
        """Whether objects (arrays) are not excluded by types and constants alone."""
        return self._maybe.get((goal, kind), lambda: self._compute(goal, kind))

    def clash(self, literals: Sequence[Literal]) -> bool:
        """`plainly_empty` of the goal of these literals. Clauses multiply, so the same few are asked about for ever."""
        key = tuple([(id(expr), sign) for expr, sign in literals])
        found = self._clashes.get(key)
        if found is None:
            # With the literals, since ids stay valid only while the nodes live.
            found = self._clashes[key] = self.plainly_empty(self._goals.of(literals)), tuple(literals)
        return found[0]

    def plainly_empty(self, goal: Goal) -> bool:
        """True only if no value satisfies the goal."""
        return goal.impossible or not (
            self.maybe(goal, "object")
            or self.maybe(goal, "array")
            or self._scalars.literals(goal)
            or self._scalars.strings(goal)
            or self._scalars.numbers(goal)
        )

    def _compute(self, goal: Goal, kind: Container) -> bool:
        if goal.impossible:
            return False
        consts = {literal[0].value for literal in goal.literals if isinstance(literal[0], Const) and literal[1]}
        if len(consts) > 1:
            return False
        for literal in goal.literals:
            expr, sign = literal
            # A case distinction is the same in many goals: answered once, by itself.
            alone = self._goals.of([literal]) if len(goal.literals) > 1 and is_compound(literal) else goal
            if alone is not goal:
                possible = self.maybe(alone, kind)
            elif isinstance(expr, OneOf) and sign:
                possible = any(self.maybe(self._goals.of([(part, True)]), kind) for part in expr.parts)
            elif is_compound(literal):
                possible = any(self.maybe(part, kind) for part in branches(self._goals, literal))
            else:
                possible = _atom(expr, sign, kind)
            if not possible:
                return False
        return True


def _atom(expr: Expr, sign: bool, kind: Container) -> bool:
    match expr:
        case Types(types=types):
            return (kind in types) is sign
        case Const(value=value):
            return not sign or value[0] == kind
    return sign or _ABOUT.get(type(expr)) == kind
