"""What a goal allows among objects and arrays: a union of clauses.

The union is built by folding the literals of the goal: those that are one demand are gathered first, then each case
distinction multiplies the clauses by its own, and products that contradict themselves plainly (a discriminator that
should have two values at once) are dropped on the spot, which keeps discriminated unions as small as they look.

Three modes say how much is known of annotations, for `unevaluatedProperties` and `unevaluatedItems`:

    PLAIN        nothing is kept
    ANNOTATED    `evaluated` may be relied on where more is better: `anyOf` also contributes the meets of its branches
    DETERMINED   `evaluated` is exactly what was evaluated: branches that do not hold are asked not to
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from enum import IntEnum
from itertools import chain, combinations
from typing import Any

from ..courtesy import COURTESY
from ..errors import BudgetError
from ..schema.expr import AnyOf, Const, Expr, OneOf, Unevaluated
from ..schema.values import Canonical
from .absorb import absorbed, joined
from .atoms import Atoms
from .branches import branches, exactly_one, is_compound
from .clauses import EVERY_KEY, ArrayClause, CountAt, Each, EachAt, ObjectClause, Some, holds_key, outside
from .cycles import Fixpoint
from .denied import deniable
from .goals import Goal, Goals, Literal
from .kinds import Kinds

MAX_CLAUSES = 4096
MAX_DETERMINED = 10
MAX_MEETS = 60_000
MANY = 128
"""Alternatives of one place beyond which case distinctions are followed as what is denied."""
MAX_DENIED = 16  # clauses of one case distinction
MAX_DENIED_PARTS = 8  # of `anyOf`: what denies it meets the negations of all of them


class Mode(IntEnum):  # not Enum, whose members hash in Python code
    """How much a clause must know of what was evaluated."""

    PLAIN = 0
    ANNOTATED = 1
    DETERMINED = 2


class Containers:
    """The object and array clauses of the goals of one schema."""

    def __init__(self, goals: Goals, kinds: Kinds, atoms: Atoms) -> None:
        self._goals = goals
        self._kinds = kinds
        self._atoms = atoms
        self._objects: Fixpoint[tuple[Goal, Mode], tuple[ObjectClause, ...]] = Fixpoint(goals.depth, ())
        self._arrays: Fixpoint[tuple[Goal, Mode], tuple[ArrayClause, ...]] = Fixpoint(goals.depth, ())
        self._meets = 0
        self._either: dict[tuple[int, ...], AnyOf] = {}

    def objects(self, goal: Goal, mode: Mode = Mode.PLAIN) -> tuple[ObjectClause, ...]:
        """Clauses whose union is what `goal` allows among objects."""
        if "object" not in goal.types:
            return ()
        return self._objects.get((goal, mode), lambda: self._fold_objects(goal, mode))

    def _fold_objects(self, goal: Goal, mode: Mode) -> tuple[ObjectClause, ...]:
        if mode is Mode.PLAIN and (clause := self._atoms.plain_object(goal.literals)) is not None:
            return (clause,)  # nearly always, and the fold would come to the same
        fold = _Fold(
            self._goals,
            mode,
            self._atoms.object,
            self.objects,
            ObjectClause.meet,
            self._object_dead,
            self._objects_rest,
            self._kinds,
            self._work,
        )
        return fold.run(goal, "object")

    def arrays(self, goal: Goal, mode: Mode = Mode.PLAIN) -> tuple[ArrayClause, ...]:
        """Clauses whose union is what `goal` allows among arrays."""
        if "array" not in goal.types:
            return ()
        return self._arrays.get((goal, mode), lambda: self._fold_arrays(goal, mode))

    def _fold_arrays(self, goal: Goal, mode: Mode) -> tuple[ArrayClause, ...]:
        fold = _Fold(
            self._goals,
            mode,
            self._atoms.array,
            self.arrays,
            ArrayClause.meet,
            self._array_dead,
            self._arrays_rest,
            self._kinds,
            self._work,
        )
        return fold.run(goal, "array")

    def _work(self, meets: int) -> None:
        """Counts what multiplying alternatives costs, over the whole schema."""
        self._meets += meets
        if self._meets > MAX_MEETS:
            raise BudgetError(
                "anyOf, oneOf, not and if multiply to too many alternatives",
                remedy="make the branches of oneOf differ in a required property, or use anyOf",
            )

    def _object_dead(self, clause: ObjectClause) -> bool:
        """Whether the clause contradicts itself plainly. Looks one level deep only, so that recursion cannot arise."""
        if clause.high is not None and clause.high < clause.low:
            return True
        required = {name for some in clause.some if (name := some.name) is not None}
        if clause.high is not None and len(required) > clause.high:
            return True
        if not required:
            return False
        named, general = clause.each_by_name
        for name in required:
            literals = [literal for each in named.get(name, ()) for literal in each.literals]
            for each in general:  # closed objects with other keys exclude each other
                if (each.forbids or each.plain) and holds_key(each.keys, name):
                    literals.extend(each.literals)
            if literals and self._kinds.clash(literals):
                return True
        return False

    def _array_dead(self, clause: ArrayClause) -> bool:
        if clause.high is not None and clause.high < clause.low:
            return True
        for i in range(min(clause.low, 8)):
            literals = [
                literal
                for each in clause.each
                if each.start <= i and (each.stop is None or i < each.stop)
                for literal in each.literals
            ]
            if literals and self._kinds.clash(literals):
                return True
        return False

    def _objects_rest(self, expr: Unevaluated, sign: bool) -> list[ObjectClause]:
        """`unevaluatedProperties`, or its negation, beside its base."""
        mode = Mode.ANNOTATED if sign else Mode.DETERMINED
        out = [] if sign else list(self.objects(self._goals.of([(expr.base, False)])))
        for clause in self.objects(self._goals.of([(expr.base, True)]), mode):
            keys = outside(clause.evaluated)
            bare = replace_evaluated(clause, (EVERY_KEY,) if sign else ())
            if keys is None:
                out.extend([bare] if sign else [])
                continue
            rest = (
                ObjectClause(each=(Each(keys, ((expr.then, True),)),))
                if sign
                else ObjectClause(some=(Some(keys, ((expr.then, False),)),))
            )
            out.append(ObjectClause.meet([bare, rest]))
        return out

    def _arrays_rest(self, expr: Unevaluated, sign: bool) -> list[ArrayClause]:
        """`unevaluatedItems`, or its negation, beside its base."""
        mode = Mode.ANNOTATED if sign else Mode.DETERMINED
        out = [] if sign else list(self.arrays(self._goals.of([(expr.base, False)])))
        for clause in self.arrays(self._goals.of([(expr.base, True)]), mode):
            then = self._or([*clause.evaluated_by, (expr.then, True)])
            bare = replace(clause, evaluated=((0, None),) if sign else (), evaluated_by=())
            rests = [(start, stop, then) for start, stop in gaps(clause.evaluated)]
            if sign:
                each = tuple(EachAt(start, stop, (literal,)) for start, stop, literal in rests)
                out.append(ArrayClause.meet([bare, ArrayClause(each=each)]) if each else bare)
            else:
                for start, stop, (node, holds) in rests:
                    some = CountAt(start, stop, (node, not holds), 1, None)
                    out.append(ArrayClause.meet([bare, ArrayClause(counts=(some,))]))
        return out

    def _or(self, literals: Sequence[Literal]) -> Literal:
        """One literal that is the union; its node is made once, since goals go by the identity of nodes."""
        if len(literals) == 1:
            return literals[0]
        parts = tuple(expr for expr, _ in literals)
        return self._either.setdefault(tuple(id(part) for part in parts), AnyOf(parts)), True


def replace_evaluated(clause: ObjectClause, evaluated: tuple[Any, ...]) -> ObjectClause:
    """The clause with other annotations."""
    return clause if clause.evaluated == evaluated else replace(clause, evaluated=evaluated)


def gaps(spans: Iterable[tuple[int, int | None]]) -> list[tuple[int, int | None]]:
    """The index ranges that no span covers."""
    out: list[tuple[int, int | None]] = []
    at = 0
    for start, stop in sorted(spans, key=lambda span: (span[0], span[1] is None, span[1] or 0)):
        if start > at:
            out.append((at, start))
        if stop is None:
            return out
        at = max(at, stop)
    return [*out, (at, None)]


class _Fold:
    """The fold of one goal, the same for both kinds of clause."""

    def __init__(
        self,
        goals: Goals,
        mode: Mode,
        atom: Callable[[Expr, bool], tuple[Any, ...] | None],
        forms: Callable[[Goal, Mode], tuple[Any, ...]],
        meet: Callable[[Sequence[Any]], Any],
        dead: Callable[[Any], bool],
        rest: Callable[[Unevaluated, bool], list[Any]],
        kinds: Kinds,
        work: Callable[[int], None],
    ) -> None:
        self.goals, self.mode, self.atom, self.forms, self.kinds, self.work = goals, mode, atom, forms, kinds, work
        self.meet, self.dead, self.rest = meet, dead, rest

    def run(self, goal: Goal, kind: str) -> tuple[Any, ...]:
        if goal.impossible:
            return ()
        base: Any = None
        gathered: list[Any] = []
        choices: list[tuple[Literal | None, Callable[[], tuple[Any, ...]]]] = []
        for literal in goal.literals:
            if is_compound(literal):
                choices.append((literal, lambda literal=literal: self.compound(literal, kind, base)))  # type: ignore[misc]
                continue
            clauses = self.atom(*literal)
            if clauses is None:
                continue
            if not clauses:
                return ()
            if len(clauses) == 1:
                gathered.append(clauses[0])
            else:
                choices.append((None, lambda clauses=clauses: clauses))  # type: ignore[misc]
        base = self.meet(gathered)
        if self.mode is Mode.PLAIN and base.evaluated:
            base = replace(base, evaluated=())
        out = self.multiplied(base, [choice for _, choice in choices], MANY if kind == "object" else None)
        if out is None:
            rest = []
            for told, choice in choices:
                instead = self.denied(told) if told is not None and len(choice()) > 1 else None
                if instead is None:
                    rest.append(choice)
                else:
                    base = self.meet([base, ObjectClause(denied=instead)])
            out = self.multiplied(base, rest, None)
        return out or ()

    def multiplied(
        self, base: Any, choices: Iterable[Callable[[], tuple[Any, ...]]], most: int | None
    ) -> tuple[Any, ...] | None:
        """`base` with an alternative of each choice, in all ways; None where choices multiply to more than `most`."""
        out: tuple[Any, ...] = (base,)
        for choice in choices:
            found = choice()
            if most is not None and min(len(out), len(found)) > 1 and len(out) * len(found) > most:
                return None
            out = self.product(out, found)
            if not out:
                break
        return out

    def denied(self, literal: Literal) -> tuple[ObjectClause, ...] | None:
        """Clauses such that an object satisfies none of them exactly if it satisfies the literal; None if unknown."""
        expr, sign = literal
        if isinstance(expr, (Unevaluated, OneOf)) or (sign and self.mode is not Mode.PLAIN):
            return None
        if isinstance(expr, AnyOf) and len(expr.parts) > MAX_DENIED_PARTS:
            return None
        clauses = self.forms(self.goals.of([(expr, not sign)]), Mode.PLAIN)
        return clauses if len(clauses) <= MAX_DENIED and all(map(deniable, clauses)) else None

    def product(self, left: Sequence[Any], right: Sequence[Any]) -> tuple[Any, ...]:
        if len(left) * len(right) > MAX_CLAUSES * 16:
            raise BudgetError(
                f"{len(left)} times {len(right)} alternatives meet in one place",
                remedy="simplify the combination of anyOf, oneOf, not or if beside each other",
            )
        self.work(len(left) * len(right))
        self.goals.effort.spend(
            len(left) * len(right) * (8 + left[0].size + right[0].size) if left and right else 0
        )
        out: dict[tuple[object, ...], Any] = {}
        for a in left:
            for b in right:
                COURTESY.pause()
                clause = self.meet([a, b])
                if clause.identity not in out and not self.dead(clause):
                    out[clause.identity] = clause
        if self.mode is Mode.PLAIN and isinstance(next(iter(out.values()), None), ObjectClause):
            return self.bounded(absorbed(self.kinds, list(out.values())))
        return self.bounded(tuple(out.values()))

    def bounded(self, out: tuple[Any, ...]) -> tuple[Any, ...]:
        if len(out) > MAX_CLAUSES:
            raise BudgetError(
                f"{len(out)} alternatives in one place",
                remedy="simplify the combination of anyOf, oneOf, not or if beside each other",
            )
        return out

    def compound(self, literal: Literal, kind: str, beside: Any) -> tuple[Any, ...]:
        """The clauses of a case distinction, of which only what agrees with `beside` matters."""
        expr, sign = literal
        if isinstance(expr, Unevaluated):
            if expr.kind == kind:
                return tuple(self.rest(expr, sign))
            return self.forms(self.goals.of([(expr.base, sign)]), self.mode)
        if isinstance(expr, OneOf) and sign:
            return self.one_of(expr, beside)
        mode = self.mode if sign else Mode.PLAIN  # whatever stands under a negation evaluates nothing
        parts = [self.forms(goal, mode) for goal in branches(self.goals, literal)]
        if isinstance(expr, AnyOf) and self.mode is not Mode.PLAIN and any(map(_annotates, chain.from_iterable(parts))):
            return self.annotated(expr, parts)
        out = _distinct(clause for part in parts for clause in part)
        return joined(out) if mode is Mode.PLAIN and kind == "object" else out

    def one_of(self, expr: OneOf, beside: Any) -> tuple[Any, ...]:
        parts = [self.forms(self.goals.of([(part, True)]), Mode.PLAIN) for part in expr.parts]
        if isinstance(beside, ObjectClause) and beside.some:  # a discriminator may be required beside `oneOf`
            parts = [tuple([self.meet([beside, clause]) for clause in part]) for part in parts]
            parts = [tuple([clause for clause in part if not self.dead(clause)]) for part in parts]
        possible = [i for i, part in enumerate(parts) if part]
        fixed = [[self.fixed(clause) for clause in part] for part in parts]
        clauses = sum(map(len, parts))
        self.goals.effort.spend(clauses * clauses)
        overlaps = {
            (i, j)
            for i, j in combinations(possible, 2)
            if any(
                not _apart(fixed[i][x], fixed[j][y]) and not self.dead(self.meet([a, b]))
                for x, a in enumerate(parts[i])
                for y, b in enumerate(parts[j])
            )
        }
        chosen = exactly_one(self.goals, expr, possible, overlaps)
        return _distinct(clause for goal in chosen for clause in self.forms(goal, self.mode))

    def fixed(self, clause: Any) -> dict[str, frozenset[Canonical]]:
        """The required keys of an object clause that have one of a few values: discriminators, seen without meeting."""
        if not isinstance(clause, ObjectClause):
            return {}
        required = {some.name for some in clause.some}
        out: dict[str, frozenset[Canonical]] = {}
        for each in clause.each:
            if each.name is None or each.name not in required:
                continue
            for expr, sign in self.goals.of(each.literals).literals:
                consts = expr.parts if isinstance(expr, AnyOf) else (expr,)
                if sign and all(isinstance(const, Const) for const in consts):
                    values = frozenset(const.value for const in consts if isinstance(const, Const))
                    out[each.name] = out.get(each.name, values) & values
        return out

    def annotated(self, expr: AnyOf, parts: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Every set of branches that may hold together contributes all that its members evaluated."""
        if self.mode is Mode.DETERMINED:
            if len(expr.parts) > MAX_DETERMINED:
                raise BudgetError("too many branches of anyOf under a negated unevaluated keyword", pointer=expr.at)
            goals = [
                self.goals.of([(part, bool(chosen >> i & 1)) for i, part in enumerate(expr.parts)])
                for chosen in range(1, 1 << len(expr.parts))
            ]
            return _distinct(clause for goal in goals for clause in self.forms(goal, self.mode))
        out: tuple[Any, ...] = ()
        for part in parts:
            out = _distinct([*out, *part, *self.product(out, part)])
        return out


def _apart(left: dict[str, frozenset[Canonical]], right: dict[str, frozenset[Canonical]]) -> bool:
    return any(name in right and not values & right[name] for name, values in left.items())


def _annotates(clause: ObjectClause | ArrayClause) -> bool:
    return bool(clause.evaluated) or (isinstance(clause, ArrayClause) and bool(clause.evaluated_by))


def _distinct(clauses: Iterable[Any]) -> tuple[Any, ...]:
    return tuple({clause.identity: clause for clause in clauses}.values())
