"""How short a value may be, where that is plain to see: what costs begin with."""

from __future__ import annotations

from collections.abc import Sequence

from ..schema.expr import AllOf, Const, Expr, JsonType
from ..schema.values import to_json
from .goals import Goal
from .obvious import needed, plain, plain_types

_OBJECT: frozenset[JsonType] = frozenset(("object",))
_BRACKETED: frozenset[JsonType] = frozenset(("string", "array", "object"))
_EASY = 10**15  # integers below are written in one way


def shortest(goal: Goal) -> int:
    """The length of a shortest value of the goal; 0 says nothing."""
    if goal.brief is None:
        goal.brief = _shortest(goal)
    return goal.brief


def brief(expr: Expr) -> int:
    """The same of one node, without its goal."""
    if isinstance(expr, Const):
        return _constant(expr, True)
    types, left = plain_types(expr)
    if types == _OBJECT and not left and isinstance(expr, AllOf):
        return _object(expr.parts)
    return _length(types, left)


def _shortest(goal: Goal) -> int:
    if len(goal.literals) == 1:
        expr, sign = goal.literals[0]
        if isinstance(expr, Const):
            return _constant(expr, sign)
    left = plain(goal)
    if not left and goal.types == _OBJECT and all(sign for _, sign in goal.literals):
        return _object([expr for expr, _ in goal.literals])
    return _length(goal.types, left)


def _length(types: frozenset[JsonType], left: frozenset[JsonType]) -> int:
    if "number" in left:
        return 1
    if not left or "number" in types:
        return 0
    if not _BRACKETED.isdisjoint(left):
        return 2
    return 4 if _BRACKETED.isdisjoint(types) else 0


def _constant(expr: Const, sign: bool) -> int:
    kind, *rest = expr.value
    if not sign or kind not in ("string", "number"):
        return 0
    if kind == "number" and (rest[0].denominator != 1 or abs(rest[0]) >= _EASY):
        return 0
    return len(to_json(expr.value))


def _object(parts: Sequence[Expr]) -> int:
    keys = needed(parts)
    if keys is None:
        return 0
    total = 2
    for name, then in keys:
        length = brief(then)
        if not length:
            return 0
        total += 4 + len(name) + length
    return total
