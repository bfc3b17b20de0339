"""Why a schema allows no value: the smallest set of keywords that already contradict each other, by pointer."""

from __future__ import annotations

from typing import Protocol

from ..schema.expr import AllOf, Always, AnyOf, EachItem, EachProperty, Expr, Never, Not, Ref, Required
from .clauses import holds_key
from .goals import Goal, Goals, Literal

MAX_DEPTH = 64


class Judge(Protocol):
    """What explaining needs."""

    goals: Goals

    def nonempty(self, goal: Goal) -> bool: ...


def explain(judge: Judge) -> tuple[str, tuple[str, ...]]:
    """A sentence and the pointers it is about, for a schema whose root goal is empty."""
    literals: list[Literal] = [(judge.goals.schema.root, True)]
    for _ in range(MAX_DEPTH):
        flat = _flat(judge.goals, literals)
        if flat is None:
            return "the schema is a cycle of references that says nothing about any value", ("",)
        core = _core(judge, flat)
        inner = _inside(judge, core)
        if inner is None:
            return _say(core)
        literals = inner
    return "no value is finite: each would have to contain another of its kind", ("",)


def _flat(goals: Goals, literals: list[Literal]) -> list[Literal] | None:
    out: list[Literal] = []
    stack: list[tuple[Expr, bool, tuple[int, ...]]] = [(expr, sign, ()) for expr, sign in reversed(literals)]
    entered: set[tuple[int, bool]] = set()
    while stack:
        expr, sign, targets = stack.pop()
        if isinstance(expr, Not):
            stack.append((expr.part, not sign, targets))
        elif isinstance(expr, Ref):
            if expr.target in targets:
                return None
            if (expr.target, sign) in entered:
                continue
            entered.add((expr.target, sign))
            stack.append((goals.schema.definitions[expr.target], sign, (*targets, expr.target)))
        elif isinstance(expr, (AllOf, AnyOf)) and (isinstance(expr, AllOf) is sign or len(expr.parts) == 1):
            stack.extend((part, sign, targets) for part in reversed(expr.parts))
        elif not (isinstance(expr, Always) and sign):
            out.append((expr, sign))
    return out


def _core(judge: Judge, literals: list[Literal]) -> list[Literal]:
    """A smallest part of `literals` (by leaving out one after the other) that is still empty."""
    core = list(literals)
    for literal in literals:
        rest = [other for other in core if other is not literal]
        if rest and not judge.nonempty(judge.goals.of(rest)):
            core = rest
    return core


def _inside(judge: Judge, core: list[Literal]) -> list[Literal] | None:
    """The literals of the property or item that makes the core impossible, where it is impossible by itself."""
    names = [expr.name for expr, sign in core if isinstance(expr, Required) and sign]
    for name in names:
        inner: list[Literal] = [
            (expr.then, True)
            for expr, sign in core
            if isinstance(expr, EachProperty) and sign and holds_key((expr.keys,), name)
        ]
        if inner and not judge.nonempty(judge.goals.of(inner)) and not _plain(inner):
            return inner
    items: list[Literal] = [(expr.then, True) for expr, sign in core if isinstance(expr, EachItem) and sign]
    if len(items) == 1 and not judge.nonempty(judge.goals.of(items)) and not _plain(items):
        return items
    return None


def _plain(literals: list[Literal]) -> bool:
    return all(isinstance(expr, Never) for expr, _ in literals)


def _say(core: list[Literal]) -> tuple[str, tuple[str, ...]]:
    pointers = tuple(dict.fromkeys(getattr(expr, "at", "") for expr, _ in core))
    shown = " and ".join(f"#{pointer}" for pointer in pointers[:2])
    if len(pointers) > 2:
        shown = ", ".join(f"#{pointer}" for pointer in pointers[:-1]) + f" and #{pointers[-1]}"
    if len(pointers) == 1:
        return f"no value is valid: {shown} allows none", pointers
    return f"no value is valid: {shown} exclude each other", pointers
