"""Goals: conjunctions of schema nodes, the unit in which everything else reasons.

A *literal* is a node with a sign; a *goal* is a set of literals that one JSON value must satisfy together. Goals are
interned by the identity of their nodes, so that a goal met twice is expanded once. Flattening does all that needs no
case distinction: it opens `AllOf`, negated `AnyOf`, `Not` and references, and drops what is always true. A negated
`Not` stays: it holds where its part does, but what it evaluates does not count (see `containers`). A reference
that leads back to itself without passing through a property or an item says nothing about any value; by the least
fixpoint (a JSON value is finite) it allows none.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import get_args

from ..schema.expr import AllOf, Always, AnyOf, Expr, JsonType, Never, Not, Ref, Schema, Types
from .depth import Depth
from .effort import Effort

Literal = tuple[Expr, bool]
EVERY_TYPE: frozenset[JsonType] = frozenset(get_args(JsonType))
_OPENED = frozenset((AllOf, Always, AnyOf, Never, Not, Ref))


class Goal:
    """A conjunction of literals. Compare by identity; `number` orders goals and keys tables.

    `types` are the types that its `type` keywords leave: most questions about the others need no further look.
    """

    __slots__ = ("brief", "impossible", "literals", "number", "plain", "types")

    def __init__(self, number: int, literals: tuple[Literal, ...], impossible: bool) -> None:
        self.number = number
        self.literals = literals
        self.impossible = impossible
        self.plain: frozenset[JsonType] | None = None  # see `obvious`
        self.brief: int | None = None  # see `brief`
        types: frozenset[JsonType] = frozenset() if impossible else EVERY_TYPE
        for expr, sign in literals:
            if isinstance(expr, Types):
                types = types & expr.types if sign else types - expr.types
        self.types = types

    def __repr__(self) -> str:
        return f"Goal({self.number}, {'never' if self.impossible else self.literals})"


class Goals:
    """The interner of the goals of one schema."""

    def __init__(self, schema: Schema) -> None:
        self.schema = schema
        self.depth = Depth()
        self.effort = Effort()
        self.evident: dict[int, bool] = {}  # of definitions, see `obvious`
        self.referred = 0
        self._by_key: dict[frozenset[tuple[int, bool]], Goal] = {}
        self._single: dict[tuple[int, bool], Goal] = {}
        self._flat: dict[tuple[int, bool], tuple[Literal, ...] | None] = {}
        self._negations: dict[Goal, Literal] = {}
        self._keep: list[Expr] = []  # ids stay valid only while the nodes live
        self.never = Goal(0, (), True)
        self.always = self.of(())
        self.root = self.of([(schema.root, True)])

    def of(self, literals: Sequence[Literal]) -> Goal:
        """The goal that asks all of `literals`."""
        if len(literals) != 1:
            return self._of(literals)
        ((expr, sign),) = literals
        found = self._single.get((id(expr), sign))
        if found is None:
            found = self._single[id(expr), sign] = self._of(literals)  # flattening keeps the node alive
        return found

    def _of(self, literals: Iterable[Literal]) -> Goal:
        flat: dict[tuple[int, bool], Literal] = {}
        signs = set()
        for literal in literals:
            parts = self._flatten(literal)
            if parts is None:
                return self.never
            for part in parts:
                flat[id(part[0]), part[1]] = part
                signs.add(part[1])
        if len(signs) > 1 and any((node, not sign) in flat for node, sign in flat):
            return self.never
        self.effort.spend(4 + 3 * len(flat))
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

    def negation(self, goal: Goal) -> Literal:
        """What satisfies exactly the values that `goal` does not."""
        found = self._negations.get(goal)
        if found is None:
            if len(goal.literals) == 1:
                ((expr, sign),) = goal.literals
                found = expr, not sign
            elif goal.impossible:
                found = Never(), False
            else:
                found = AllOf(tuple([expr if sign else Not(expr) for expr, sign in goal.literals])), False
            self._negations[goal] = found
        return found

    def _flatten(self, literal: Literal) -> tuple[Literal, ...] | None:
        """The literals that `literal` means, or None if it is plainly unsatisfiable."""
        key = (id(literal[0]), literal[1])
        try:
            return self._flat[key]
        except KeyError:
            self._keep.append(literal[0])
        out: list[Literal] = []
        expr, sign = literal
        if type(expr) not in _OPENED:
            found: tuple[Literal, ...] | None = (literal,)
        elif sign and isinstance(expr, AllOf) and _OPENED.isdisjoint(map(type, expr.parts)):
            found = tuple([(part, True) for part in expr.parts])  # nearly every schema object
        else:
            found = tuple(out) if self._open(literal, out) else None
        self._flat[key] = found
        return found

    def _open(self, literal: Literal, out: list[Literal]) -> bool:
        # An explicit stack: schemas nest deeper than Python's. `targets` is the chain of references that led here.
        stack: list[tuple[Expr, bool, tuple[int, ...]]] = [(*literal, ())]
        entered: set[tuple[int, bool]] = set()  # a definition asked twice is asked once
        while stack:
            expr, sign, targets = stack.pop()
            if type(expr) not in _OPENED:
                out.append((expr, sign))
                continue
            match expr:
                case Always() | Never():
                    if isinstance(expr, Always) is not sign:
                        return False
                case Not(part=part) if sign:
                    stack.append((part, False, targets))
                case Ref(target=target):
                    if target in targets:
                        return False
                    if (target, sign) in entered:
                        continue
                    entered.add((target, sign))
                    self.effort.spend(2 + len(targets) // 64)
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
