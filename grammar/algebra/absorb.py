"""Keeping unions of object clauses small: drop what is implied, then clauses that another contains.

`oneOf` with a discriminator that may be absent needs this: "is present and not x" is implied by "is present and y", and
once the implied half is gone, all the clauses that also exclude the other branches in other ways are seen to be
contained in the one that needs no more exclusion.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..schema.expr import Const
from .clauses import Each, ObjectClause, single_name
from .goals import Goals

WORTH_IT = 8
TOO_MANY = 2048


def absorbed(goals: Goals, clauses: Sequence[ObjectClause]) -> tuple[ObjectClause, ...]:
    """A union of fewer clauses that allows the same objects. The clauses must have no annotations."""
    if not WORTH_IT < len(clauses) <= TOO_MANY:
        return tuple(clauses)
    simpler = {clause.identity: clause for clause in (_simplified(goals, clause) for clause in clauses)}
    by_size = sorted(simpler.values(), key=lambda clause: len(clause.demands))
    kept: list[ObjectClause] = []
    for clause in by_size:
        if not any(_contains(other, clause) for other in kept):
            kept.append(clause)
    return tuple(kept)


def _contains(wider: ObjectClause, clause: ObjectClause) -> bool:
    return (
        wider.demands <= clause.demands
        and wider.low <= clause.low
        and (wider.high is None or (clause.high is not None and clause.high <= wider.high))
    )


def _simplified(goals: Goals, clause: ObjectClause) -> ObjectClause:
    """The clause without "is not x" for properties that must be y."""
    fixed = {
        name
        for each in clause.each
        if (name := single_name(each.keys)) is not None
        and any(isinstance(expr, Const) and sign for expr, sign in goals.of(each.literals).literals)
    }
    if not fixed:
        return clause
    changed = []
    for each in clause.each:
        if single_name(each.keys) in fixed:
            literals = tuple(literal for literal in each.literals if literal[1] or not _only_consts(goals, literal))
            if literals != each.literals:
                if literals or each.declared:
                    changed.append(Each(each.keys, literals, each.declared))
                continue
        changed.append(each)
    return replace(clause, each=tuple(changed))


def _only_consts(goals: Goals, literal: tuple[object, bool]) -> bool:
    """Whether the literal says no more than which values are not wanted; the fixed one is not among them."""
    opened = goals.of([literal]).literals  # type: ignore[list-item]
    return bool(opened) and all(isinstance(expr, Const) and not sign for expr, sign in opened)
