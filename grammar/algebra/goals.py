"""Goals: conjunctions of schema nodes, the unit in which everything else reasons.

A *literal* is a node with a sign; a *goal* is a set of literals that one JSON value must satisfy together. Goals are
interned by the identity of their nodes, so that a goal met twice is expanded once. Flattening does all that needs no
case distinction: it opens `AllOf`, negated `AnyOf`, `Not` and references, and drops what is always true. A negated
`Not` stays: it holds where its part does, but what it evaluates does not count (see `containers`). A reference
that leads back to itself without passing through a property or an item says nothing about any value; by the least
fixpoint (a JSON value is finite) it allows none.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..schema.expr import AllOf, Always, AnyOf, Expr, Never, Not, Ref, Schema
from .depth import Depth

Literal = tuple[Expr, bool]


class Goal:
    """A conjunction of literals. Compare by identity; `number` orders goals and keys tables."""

    __slots__ = ("forms", "impossible", "literals", "number")

    def __init__(self, number: int, literals: tuple[Literal, ...], impossible: bool) -> None:
        self.number = number
        self.literals = literals
        self.impossible = impossible
        self.forms: dict[str, object] = {}  # what expansion learned, by kind of form

    def __repr__(self) -> str:
        return f"Goal({self.number}, {'never' if self.impossible else self.literals})"


class Goals:
    """The interner of the goals of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.depth = Depth()
        self._by_key: dict[frozenset[tuple[int, bool]], Goal] = {}
        self._flat: dict[tuple[int, bool], tuple[Literal, ...] | None] = {}
        self._keep: list[Expr] = []  # ids stay valid only while the nodes live
        self.never = Goal(0, (), True)
        self.always = self.of(())
        self.root = self.of([(schema.root, True)])

    def of(self, literals: Iterable[Literal]) -> Goal:
        """The goal that asks all of `literals`."""
        flat: dict[tuple[int, bool], Literal] = {}
        for literal in literals:
            parts = self._flatten(literal)
            if parts is None:
                return self.never
            for expr, sign in parts:
                flat[id(expr), sign] = (expr, sign)
        if any((node, not sign) in flat for node, sign in flat):
            return self.never
        key = frozenset(flat)
        goal = self._by_key.get(key)
        if goal is None:
            goal = Goal(len(self._by_key) + 1, tuple(flat.values()), False)
            self._by_key[key] = goal
        return goal

    def both(self, left: Goal, right: Iterable[Literal]) -> Goal:
        """`left` with more literals asked."""
        if left.impossible:
            return left
        return self.of([*left.literals, *right])

    def _flatten(self, literal: Literal) -> tuple[Literal, ...] | None:
        """The literals that `literal` means, or None if it is plainly unsatisfiable."""
        key = (id(literal[0]), literal[1])
        if key not in self._flat:
            self._keep.append(literal[0])
            out: list[Literal] = []
            self._flat[key] = tuple(out) if self._open(literal, out) else None
        return self._flat[key]

    def _open(self, literal: Literal, out: list[Literal]) -> bool:
        # An explicit stack: schemas nest deeper than Python's. `targets` is the chain of references that led here.
        stack: list[tuple[Expr, bool, tuple[int, ...]]] = [(*literal, ())]
        while stack:
            expr, sign, targets = stack.pop()
            match expr:
                case Always() | Never():
                    if isinstance(expr, Always) is not sign:
                        return False
                case Not(part=part) if sign:
                    stack.append((part, False, targets))
                case Ref(target=target):
                    if target in targets:
                        return False
                    stack.append((self.schema.definitions[target], sign, (*targets, target)))
                case AllOf(parts=parts) if sign:
                    stack.extend((part, sign, targets) for part in reversed(parts))
                case AnyOf(parts=parts) if not sign:
                    stack.extend((part, sign, targets) for part in reversed(parts))
                case AnyOf(parts=(part,)) | AllOf(parts=(part,)):
                    stack.append((part, sign, targets))
                case AnyOf(parts=()):
                    return False
                case AllOf(parts=()):
                    return False
                case _:
                    out.append((expr, sign))
        return True
