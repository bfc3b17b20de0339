"""The algebra of one schema: the parts wired together."""

from __future__ import annotations

from collections.abc import Callable

from ..errors import BudgetError, UnsatisfiableError
from ..regular import NumberSpec
from ..schema.expr import AnyOf, Const, Schema
from ..schema.values import Canonical
from . import writable
from .atoms import Atoms
from .clauses import ArrayClause, ObjectClause
from .containers import Containers
from .emptiness import Emptiness
from .explain import explain
from .goals import Goal, Goals
from .kinds import Kinds
from .scalars import Numbers, Scalars, Strings


class Algebra:
    """Everything that can be asked about the goals of one schema. Answers are kept; not safe for threads by itself.

    `spells` says whether numbers of a set can be written; where it is not given, all can, and values may be of any
    length (see `writable`).
    """

    def __init__(self, schema: Schema, spells: Callable[[NumberSpec], bool] | None = None) -> None:
        self._limited = spells is not None
        self.goals = Goals(schema)
        self._scalars = Scalars(self.goals, spells or (lambda spec: True))
        self._atoms = Atoms(self.goals, self._scalars)
        self._containers = Containers(self.goals, Kinds(self.goals, self._scalars), self._atoms)
        self._emptiness = Emptiness(self.goals, self._scalars, self._containers, self._atoms, limited=self._limited)

    @property
    def root(self) -> Goal:
        """The goal of the whole schema."""
        return self.goals.root

    def strings(self, goal: Goal) -> Strings:
        """Languages whose union is what the goal allows among strings."""
        return writable.strings(self._scalars.strings(goal))

    def numbers(self, goal: Goal) -> Numbers:
        """Specifications whose union is what the goal allows among numbers."""
        return self._scalars.numbers(goal)

    def literals(self, goal: Goal) -> frozenset[str]:
        """Those of "null", "true", "false" that the goal allows."""
        return self._scalars.literals(goal)

    def objects(self, goal: Goal) -> tuple[ObjectClause, ...]:
        """Clauses whose union is what the goal allows among objects."""
        return writable.objects(self._containers.objects(goal))

    def arrays(self, goal: Goal) -> tuple[ArrayClause, ...]:
        """Clauses whose union is what the goal allows among arrays."""
        return writable.arrays(self._containers.arrays(goal))

    def nonempty(self, goal: Goal) -> bool:
        """Whether some JSON value satisfies the goal."""
        return self._emptiness.nonempty(goal)

    def values(self, goal: Goal, limit: int) -> list[Canonical] | None:
        """All values that satisfy the goal, or None if there are more than `limit`."""
        return self._emptiness.values(goal, limit)

    def const_node(self, value: Canonical) -> Const:
        """The node that asks for `value`."""
        return self._atoms.const_node(value)

    def any_const_node(self, values: tuple[Canonical, ...]) -> AnyOf:
        """The node that asks for one of `values`."""
        return self._atoms.any_const_node(values)

    def require_satisfiable(self) -> None:
        """Raises UnsatisfiableError with the two pointers that clash if no value satisfies the schema, BudgetError if
        those that do are all too long.
        """
        self.goals.effort.renew()
        if self.nonempty(self.root):
            return
        self.goals.effort.renew()
        message, clash = explain(self)
        if self._limited and (unlimited := Algebra(self.goals.schema)).nonempty(unlimited.root):
            raise BudgetError(
                f"every valid text is longer than {writable.MAX_TEXT} bytes, or has a number with too many digits",
                pointer=clash[-1] if clash else "",
                remedy="lower minLength, minItems, minContains or minProperties, or raise max_digits",
            )
        raise UnsatisfiableError(message, clash=clash, pointer=clash[0] if clash else "")
