"""What a goal allows among strings, numbers and literals.

Strings are a union of languages, numbers a union of number specifications, literals a set of "null", "true", "false".
The parts of a union may overlap. Enumerations are gathered before anything is combined: ten thousand constants are one
finite language, not ten thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from fractions import Fraction
from itertools import combinations
from typing import Any, TypeVar

from ..errors import BudgetError
from ..regular import (
    ANY,
    Language,
    NumberSpec,
    complement,
    format_language,
    intersect,
    joined,
    numbers_empty,
    pattern,
    words,
)
from ..regular import contains as number_contains
from ..schema.expr import (
    AnyOf,
    Const,
    Expr,
    Format,
    MultipleOf,
    NumberRange,
    OneOf,
    Pattern,
    StringLength,
    Types,
)
from ..schema.values import FALSE, NULL, TRUE, Canonical
from .branches import branches, exactly_one, is_compound
from .cycles import Fixpoint
from .goals import Goal, Goals, Literal

T = TypeVar("T")
Strings = tuple[Language, ...]
Numbers = tuple[NumberSpec, ...]
EVERY_NUMBER = NumberSpec()
MAX_LISTED = 10_000
MAX_PRODUCTS = 2
MAX_UNION = 1_000
_LITERAL_TYPES = frozenset(("null", "boolean"))
MAX_OVERLAPS = 64
LITERALS: frozenset[str] = frozenset({"null", "true", "false"})
_LITERAL_OF: dict[Canonical, str] = {NULL: "null", TRUE: "true", FALSE: "false"}


class Scalars:
    """The scalar forms of the goals of one schema, each computed when first asked for.

    `spells` says whether a set of numbers has any text at all: numbers too long to be written do not count as values.
    """

    def __init__(self, goals: Goals, spells: Callable[[NumberSpec], bool]) -> None:
        self._goals = goals
        self._spells = spells
        self._strings: Fixpoint[Goal, Strings] = Fixpoint(goals.depth, ())
        self._numbers: Fixpoint[Goal, Numbers] = Fixpoint(goals.depth, ())
        self._literals: Fixpoint[Goal, frozenset[str]] = Fixpoint(goals.depth, frozenset())

    def strings(self, goal: Goal) -> Strings:
        """Languages whose union is what `goal` allows among strings; () if none."""
        if "string" not in goal.types:
            return ()
        return self._strings.get(goal, lambda: self._fold(goal, "string", _string_atom, self.strings, _meet_strings))

    def numbers(self, goal: Goal) -> Numbers:
        """Specifications whose union is what `goal` allows among numbers; () if none."""
        if "number" not in goal.types:
            return ()
        return self._numbers.get(goal, lambda: tuple(filter(self._spells, self._fold_numbers(goal))))

    def _fold_numbers(self, goal: Goal) -> Numbers:
        return self._fold(goal, "number", _number_atom, self.numbers, _meet_numbers)

    def literals(self, goal: Goal) -> frozenset[str]:
        """Those of "null", "true", "false" that `goal` allows."""
        if goal.types.isdisjoint(_LITERAL_TYPES):
            return frozenset()
        return self._literals.get(goal, lambda: self._fold_literals(goal))

    def _fold(
        self,
        goal: Goal,
        kind: str,
        atom: Callable[[Expr, bool], tuple[T, ...] | None],
        forms: Callable[[Goal], tuple[T, ...]],
        meet: Callable[[tuple[T, ...], tuple[T, ...]], tuple[T, ...]],
    ) -> tuple[T, ...]:
        if goal.impossible:
            return ()
        out: tuple[T, ...] | None = None  # None: every value of the type
        excluded: list[Canonical] = []
        for literal in goal.literals:
            expr, sign = literal
            if isinstance(expr, Const) and not sign:
                excluded.append(expr.value)
                continue
            if not is_compound(literal):
                part = atom(expr, sign)
            elif len(goal.literals) > 1:  # the same case distinction stands in many goals: folded once, by itself
                part = forms(self._goals.of([literal]))
            else:
                part = self._compound(literal, kind, atom, forms, meet)
            if part is not None:
                self._goals.effort.spend(40 * len(part) * len(out or ()))
                out = part if out is None else meet(out, part)
                if not out:
                    return ()
        values = frozenset(value[1] for value in excluded if value[0] == kind)
        if values:
            out = _without(kind, out, values)
        if out is not None:
            return out
        every: tuple[Any, ...] = (ANY,) if kind == "string" else (EVERY_NUMBER,)
        return every

    def _compound(
        self,
        literal: Literal,
        kind: str,
        atom: Callable[[Expr, bool], tuple[T, ...] | None],
        forms: Callable[[Goal], tuple[T, ...]],
        meet: Callable[[tuple[T, ...], tuple[T, ...]], tuple[T, ...]],
    ) -> tuple[T, ...] | None:
        expr, sign = literal
        if isinstance(expr, OneOf) and sign:
            possible = [i for i, part in enumerate(expr.parts) if forms(self._goals.of([(part, True)]))]
            if len(possible) == 1:
                return forms(self._goals.of([(expr.parts[possible[0]], True)]))
            # Different constants are apart; of one that stands there twice no instance is left in the end.
            fixed = {i: part.value for i, part in enumerate(expr.parts) if isinstance(part, Const)}
            others = [i for i in possible if i not in fixed]
            allowed = {i: forms(self._goals.of([(expr.parts[i], True)])) for i in others}
            distinct = list(dict.fromkeys(allowed.values()))
            if len(distinct) > MAX_OVERLAPS:
                raise BudgetError(
                    f"oneOf has {len(distinct)} branches that allow different {kind}s, which may overlap",
                    pointer=expr.at,
                    keyword="oneOf",
                    remedy=f"use anyOf, or at most {MAX_OVERLAPS} branches that are no constants",
                )
            apart = {pair for pair in combinations(distinct, 2) if not meet(*pair)}
            pairs = {
                (i, j)
                for i, j in combinations(others, 2)
                if (allowed[i], allowed[j]) not in apart and (allowed[j], allowed[i]) not in apart
            }
            pairs |= {(min(i, j), max(i, j)) for i in others for j in possible if j in fixed}
            pairs |= _repeated([(fixed[i], i) for i in possible if i in fixed])
            return _union(map(forms, exactly_one(self._goals, expr, possible, pairs)))
        if isinstance(expr, AnyOf) and sign and any(isinstance(part, Const) for part in expr.parts):
            values = [part.value for part in expr.parts if isinstance(part, Const)]
            rest = [self._goals.of([(part, True)]) for part in expr.parts if not isinstance(part, Const)]
            return _union([_enumeration(values, kind), *map(forms, rest)])
        return _union(map(forms, branches(self._goals, literal)))

    def _fold_literals(self, goal: Goal) -> frozenset[str]:
        if goal.impossible:
            return frozenset()
        out = LITERALS
        for literal in goal.literals:
            expr, sign = literal
            match expr:
                case Types(types=types):
                    named = ({"null"} if "null" in types else set()) | (
                        {"true", "false"} if "boolean" in types else set()
                    )
                    out = out & named if sign else out - named
                case Const(value=value):
                    same = {_LITERAL_OF[value]} if value in _LITERAL_OF else set()
                    out = out & same if sign else out - same
                case OneOf(parts=parts) if sign:
                    each = [self.literals(self._goals.of([(part, True)])) for part in parts]
                    out = frozenset(name for name in out if sum(name in part for part in each) == 1)
                case _ if is_compound(literal):
                    allowed = [self.literals(part) for part in branches(self._goals, literal)]
                    out = out & frozenset().union(*allowed)
                case _ if not sign:  # a keyword about another type holds for these, so its negation does not
                    return frozenset()
            if not out:
                break
        return out


def _without(kind: str, forms: tuple[Any, ...] | None, values: frozenset[Any]) -> tuple[Any, ...]:
    """The forms (None: everything) without some values. Listed words are taken from their list, others by automata."""
    if kind == "number":
        return _meet_numbers(forms or (EVERY_NUMBER,), (NumberSpec(excluded=values),))
    out: list[Language] = []
    rest: list[Language] = []
    for language in forms or (ANY,):
        listed = language.words(MAX_LISTED)
        if listed is None:
            rest.append(language)
        elif len(kept := [word for word in listed if word not in values]) == len(listed):
            out.append(language)
        elif kept:
            out.append(words(kept))
    return (*out, *(_meet_strings(tuple(rest), complement(words(sorted(values)))) if rest else ()))


def _repeated(values: list[tuple[Canonical, int]]) -> set[tuple[int, int]]:
    """The pairs of numbers that come with the same value."""
    by_value: dict[Canonical, list[int]] = {}
    for value, i in values:
        by_value.setdefault(value, []).append(i)
    return {pair for same in by_value.values() for pair in combinations(same, 2)}


def _union(parts: Iterable[tuple[T, ...]]) -> tuple[T, ...]:
    return tuple(dict.fromkeys(form for part in parts for form in part))


def _enumeration(values: list[Canonical], kind: str) -> tuple[Any, ...]:
    chosen = [value[1] for value in values if value[0] == kind]
    if not chosen:
        return ()
    return (words(chosen),) if kind == "string" else (NumberSpec(only=frozenset(chosen)),)


def _string_atom(expr: Expr, sign: bool) -> tuple[Language, ...] | None:
    """Strings allowed by one keyword; None says all."""
    match expr:
        case Types(types=types):
            return None if ("string" in types) is sign else ()
        case Const(value=value):
            return _enumeration([value], "string")
        case StringLength(low=low, high=high):
            language = Language(ANY.dfa, low, high)
        case Pattern(source=source):
            language = pattern(source)
        case Format(name=name):
            known = format_language(name)
            assert known is not None, name
            language = known
        case _:
            return None if sign else ()
    return _nonempty([language] if sign else complement(language))


def _nonempty(languages: Iterable[Language]) -> tuple[Language, ...]:
    return tuple(language for language in languages if not language.is_empty)


def _meet_strings(left: Strings, right: Strings) -> Strings:
    if left == (ANY,):
        return right
    if len(left) * len(right) > MAX_PRODUCTS:
        left, right = _joined(left), _joined(right)
    if len(left) * len(right) > MAX_UNION:
        raise BudgetError(
            f"{len(left)} times {len(right)} alternative patterns with other lengths meet on one string",
            remedy="simplify the combination of anyOf, oneOf, not or if beside each other",
        )
    return _nonempty(dict.fromkeys(intersect(a, b) for a in left for b in right))


def _joined(languages: Strings) -> Strings:
    """The same union as few languages: a list of words, and automata that follow many others in lockstep."""
    listed: dict[str, None] = {}
    rest: list[Language] = []
    for language in languages:
        found = language.words(MAX_LISTED) if language.finite else None
        if found is None:
            rest.append(language)
        else:
            listed.update(dict.fromkeys(found))
    return (*((words(listed),) if listed else ()), *joined(rest))


def _number_atom(expr: Expr, sign: bool) -> tuple[NumberSpec, ...] | None:
    """Numbers allowed by one keyword; None says all."""
    match expr:
        case Types(types=types):
            return None if ("number" in types) is sign else ()
        case Const(value=value):
            return _enumeration([value], "number")
        case NumberRange(low=low, low_open=low_open, high=high, high_open=high_open):
            if sign:
                return (NumberSpec(low=low, low_open=low_open, high=high, high_open=high_open),)
            below = [] if low is None else [NumberSpec(high=low, high_open=not low_open)]
            above = [] if high is None else [NumberSpec(low=high, low_open=not high_open)]
            return (*below, *above)
        case MultipleOf(step=step):
            return (NumberSpec(steps=(step,)),) if sign else (NumberSpec(not_steps=(step,)),)
    return None if sign else ()


def _meet_numbers(left: Numbers, right: Numbers) -> Numbers:
    met = dict.fromkeys(meet_number(a, b) for a in left for b in right)
    return tuple(spec for spec in met if not numbers_empty(spec))


def meet_number(a: NumberSpec, b: NumberSpec) -> NumberSpec:
    """The numbers that are in both."""
    if a.only is not None or b.only is not None:
        listed, other = (a, b) if a.only is not None else (b, a)
        return NumberSpec(only=frozenset(v for v in listed.only or () if number_contains(other, v)))
    low, low_open = max(_lower(a), _lower(b), key=_lower_rank)
    high, high_open = min(_upper(a), _upper(b), key=_upper_rank)
    return NumberSpec(
        low=low,
        low_open=low_open,
        high=high,
        high_open=high_open,
        steps=tuple(dict.fromkeys(a.steps + b.steps)),
        not_steps=tuple(dict.fromkeys(a.not_steps + b.not_steps)),
        excluded=frozenset(a.excluded) | frozenset(b.excluded),
    )


def _lower(spec: NumberSpec) -> tuple[Fraction | None, bool]:
    return spec.low, spec.low_open


def _upper(spec: NumberSpec) -> tuple[Fraction | None, bool]:
    return spec.high, spec.high_open


def _lower_rank(bound: tuple[Fraction | None, bool]) -> tuple[bool, Fraction, bool]:
    return bound[0] is not None, bound[0] or Fraction(0), bound[1]


def _upper_rank(bound: tuple[Fraction | None, bool]) -> tuple[bool, Fraction, bool]:
    return bound[0] is None, bound[0] or Fraction(0), not bound[1]


__all__ = ["EVERY_NUMBER", "LITERALS", "Numbers", "Scalars", "Strings", "meet_number"]
