"""One step of case distinction: a compound literal as a union of goals.

Every other module treats a literal either as an atom of the type it looks at, or by these branches; the rules of De
Morgan, of implication and of "exactly one" stand here once for all JSON types.
"""

from __future__ import annotations

from itertools import combinations

from ..errors import BudgetError
from ..schema.expr import AllOf, AnyOf, IfThenElse, Not, OneOf, Unevaluated
from .goals import Goal, Goals, Literal

MAX_CHOICES = 50_000
_COMPOUND = frozenset((AllOf, AnyOf, OneOf, IfThenElse, Unevaluated, Not))


def is_compound(literal: Literal) -> bool:
    """Whether the literal is a case distinction or a wrapper, rather than one keyword's demand."""
    return type(literal[0]) in _COMPOUND


def branches(goals: Goals, literal: Literal) -> list[Goal]:
    """Goals whose union is the literal. Positive `OneOf` is not among them (see `exactly_one`)."""
    expr, sign = literal
    match expr:
        case AnyOf(parts=parts) if sign:
            return [goals.of([(part, True)]) for part in parts]
        case AllOf(parts=parts) if not sign:
            return [goals.of([(part, False)]) for part in parts]
        case OneOf(parts=parts) if not sign:
            if len(parts) ** 2 > MAX_CHOICES:
                raise BudgetError("too many alternatives under a negated oneOf", pointer=expr.at, keyword="oneOf")
            none = goals.of([(part, False) for part in parts])
            two = [goals.of([(left, True), (right, True)]) for left, right in combinations(parts, 2)]
            return [none, *two]
        case IfThenElse(test=test, then=then, otherwise=otherwise):
            return [goals.of([(test, True), (then, sign)]), goals.of([(test, False), (otherwise, sign)])]
        case Not(part=part):
            return [goals.of([(part, not sign)])]
        case Unevaluated(base=base):
            return [goals.of([(base, sign)])]
    raise AssertionError(f"no case distinction: {literal}")


def exactly_one(goals: Goals, expr: OneOf, possible: list[int], overlaps: set[tuple[int, int]]) -> list[Goal]:
    """Goals whose union is `oneOf`, for a JSON type that only the parts in `possible` allow at all.

    `overlaps` holds the pairs (smaller index first) that are not known to be disjoint: only those must be excluded
    from each other, which is what keeps a discriminated union as small as `anyOf`.
    """
    others: dict[int, list[int]] = {i: [] for i in possible}
    for i, j in sorted(overlaps):
        if i in others and j in others:
            others[i].append(j)
            others[j].append(i)
    return [
        goals.of([(expr.parts[i], True), *((expr.parts[j], False) for j in sorted(others[i]))]) for i in possible
    ]
