"""Clauses: what an object or an array must satisfy, as one flat conjunction without any "or".

    ObjectClause    for each key in K the value satisfies L; some key in K has a value that satisfies L; counts
    ArrayClause     for each index in a range the item satisfies L; in a range so many items do; counts

`evaluated` is what JSON Schema's annotations say about properties and items, static in a clause since a clause fixes
which branches of its schema were taken.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias, TypeVar

from ..frozen import frozen
from ..regular import Language, pattern
from ..regular.dfa import lazy
from ..schema.expr import Keys, Never
from ..schema.values import Canonical
from .goals import Literal


@frozen
class Named:
    """Keys that are, as strings, in one of `languages` (`propertyNames`), or with `negated` in none."""

    languages: tuple[Language, ...]
    negated: bool = False


KeyTest: TypeAlias = Keys | Named
KeySet: TypeAlias = tuple[KeyTest, ...]  # keys that pass every test; () is all keys

Members: TypeAlias = tuple[tuple[str, Canonical], ...]
Items: TypeAlias = tuple[Canonical, ...]
"""What a canonical object or array holds."""

ALL_KEYS: KeySet = ()
EVERY_KEY = Keys(negated=True)


def negate(test: KeyTest) -> KeyTest:
    """The keys that do not pass `test`."""
    return replace(test, negated=not test.negated)


def outside(tests: Iterable[KeyTest]) -> KeySet | None:
    """The keys that pass none of `tests`; None if there are no such keys."""
    names: list[str] = []
    patterns: list[str] = []
    out: list[KeyTest] = []
    for test in tests:
        if test == EVERY_KEY:
            return None
        if isinstance(test, Keys) and not test.negated:
            names.extend(test.names)
            patterns.extend(test.patterns)
        else:
            out.append(negate(test))
    if names or patterns:
        out.append(Keys(tuple(dict.fromkeys(names)), tuple(dict.fromkeys(patterns)), negated=True))
    return tuple(out)


def single_name(keys: KeySet) -> str | None:
    """The one key of the set, where it is written as one."""
    if len(keys) == 1 and isinstance(keys[0], Keys) and not keys[0].negated and not keys[0].patterns:
        names = keys[0].names
        return names[0] if len(names) == 1 else None
    return None


class Each:
    """Every property with a key in `keys` satisfies all of `literals`; `declared` keys have a place in the order.

    `name` is the one key, where it is written as one; it may be given where it is known.
    """

    def __init__(
        self, keys: KeySet, literals: tuple[Literal, ...], declared: bool = False, name: str | None = None
    ) -> None:
        self.keys = keys
        self.literals = literals
        self.declared = declared
        self.name = name or single_name(keys)

    @lazy
    def forbids(self) -> bool:
        """Whether no such property may be there."""
        return any(sign and isinstance(expr, Never) for expr, sign in self.literals)

    @lazy
    def plain(self) -> bool:
        """Whether the keys are told by their names alone, so that it costs nothing to ask for one."""
        return all(isinstance(test, Keys) and not test.patterns for test in self.keys)

    @lazy
    def identity(self) -> tuple[object, ...]:
        """Equal for parts that say the same."""
        return self.keys, tuple((id(expr), sign) for expr, sign in self.literals), self.declared


class Some:
    """At least one property has a key in `keys` and a value that satisfies all of `literals`; `name` as above."""

    def __init__(self, keys: KeySet, literals: tuple[Literal, ...] = (), name: str | None = None) -> None:
        self.keys = keys
        self.literals = literals
        self.name = name or single_name(keys)

    @lazy
    def identity(self) -> tuple[object, ...]:
        """Equal for parts that say the same."""
        return "some", self.keys, tuple((id(expr), sign) for expr, sign in self.literals)


@frozen(eq=False, slots=False)
class ObjectClause:
    """A conjunction over one object. `low <= number of properties <= high`; it is none of `excluded`, and none of
    `denied` holds for it.
    """

    each: tuple[Each, ...] = ()
    some: tuple[Some, ...] = ()
    low: int = 0
    high: int | None = None
    evaluated: tuple[KeyTest, ...] = ()
    excluded: tuple[Members, ...] = ()
    denied: tuple[ObjectClause, ...] = ()

    @property
    def size(self) -> int:
        """How many parts it has."""
        return len(self.each) + len(self.some) + len(self.excluded) + len(self.denied)

    @lazy
    def demands(self) -> frozenset[tuple[object, ...]]:
        """The parts by content."""
        parts: list[tuple[object, ...]] = [("not", members) for members in self.excluded]
        parts += [("denied", clause.identity) for clause in self.denied]
        parts += [each.identity for each in self.each]
        parts += [some.identity for some in self.some]
        return frozenset(parts)

    @lazy
    def each_by_name(self) -> tuple[dict[str, list[Each]], list[Each]]:
        """`each`: what is about one key, by the key, and the rest."""
        by_name: dict[str, list[Each]] = {}
        general: list[Each] = []
        for each in self.each:
            if each.name is None:
                general.append(each)
            else:
                by_name.setdefault(each.name, []).append(each)
        return by_name, general

    @lazy
    def identity(self) -> tuple[object, ...]:
        """Equal for clauses that say the same."""
        return self.demands, self.low, self.high, frozenset(self.evaluated)

    @staticmethod
    def meet(clauses: Sequence[ObjectClause]) -> ObjectClause:
        """All the clauses together."""
        parts = [clause for clause in clauses if clause is not ANY_OBJECT]
        if len(parts) < 2:
            return parts[0] if parts else ANY_OBJECT
        return ObjectClause(
            _merge(part for clause in parts for part in clause.each),
            _merge(part for clause in parts for part in clause.some),
            max(clause.low for clause in parts),
            _least(clause.high for clause in parts),
            tuple(dict.fromkeys(test for clause in parts for test in clause.evaluated)),
            _merge(members for clause in parts for members in clause.excluded),
            _merge(denied for clause in parts for denied in clause.denied),
        )


@frozen(eq=False)
class EachAt:
    """Every item with `start <= index < stop` (`stop` None: no end) satisfies all of `literals`."""

    start: int
    stop: int | None
    literals: tuple[Literal, ...]

    def identity(self) -> tuple[object, ...]:
        return self.start, self.stop, tuple((id(expr), sign) for expr, sign in self.literals)


@frozen(eq=False)
class CountAt:
    """Of the items with `start <= index < stop`, at least `low` and at most `high` satisfy `literal`."""

    start: int
    stop: int | None
    literal: Literal
    low: int
    high: int | None

    def identity(self) -> tuple[object, ...]:
        return self.start, self.stop, id(self.literal[0]), self.literal[1], self.low, self.high


@frozen(eq=False, slots=False)
class ArrayClause:
    """A conjunction over one array. `unique`: no two items are equal; `repeats`: some two are; none of `excluded`."""

    each: tuple[EachAt, ...] = ()
    counts: tuple[CountAt, ...] = ()
    low: int = 0
    high: int | None = None
    unique: bool = False
    repeats: bool = False
    evaluated: tuple[tuple[int, int | None], ...] = ()
    evaluated_by: tuple[Literal, ...] = ()
    excluded: tuple[Items, ...] = ()

    @property
    def size(self) -> int:
        """How many parts it has."""
        return len(self.each) + len(self.counts) + len(self.excluded)

    @lazy
    def identity(self) -> tuple[object, ...]:
        """Equal for clauses that say the same."""
        each = frozenset(part.identity() for part in self.each)
        counts = frozenset(part.identity() for part in self.counts)
        by = frozenset((id(expr), sign) for expr, sign in self.evaluated_by)
        plain = self.low, self.high, self.unique, self.repeats, frozenset(self.evaluated), frozenset(self.excluded)
        return each, counts, by, *plain

    @staticmethod
    def meet(clauses: Sequence[ArrayClause]) -> ArrayClause:
        """All the clauses together."""
        parts = [clause for clause in clauses if clause is not ANY_ARRAY]
        if len(parts) < 2:
            return parts[0] if parts else ANY_ARRAY
        return ArrayClause(
            _merge(part for clause in parts for part in clause.each),
            _merge(part for clause in parts for part in clause.counts),
            max(clause.low for clause in parts),
            _least(clause.high for clause in parts),
            any(clause.unique for clause in parts),
            any(clause.repeats for clause in parts),
            tuple(dict.fromkeys(span for clause in parts for span in clause.evaluated)),
            tuple(literal for clause in parts for literal in clause.evaluated_by),
            _merge(items for clause in parts for items in clause.excluded),
        )


ANY_OBJECT = ObjectClause()
ANY_ARRAY = ArrayClause()


def _least(bounds: Iterable[int | None]) -> int | None:
    return min((bound for bound in bounds if bound is not None), default=None)


P = TypeVar("P")


def _merge(parts: Iterable[P]) -> tuple[P, ...]:
    return tuple(dict.fromkeys(parts))  # `Each` and the like go by identity: made once, so equal ones are mostly one


def holds_key(keys: KeySet, name: str) -> bool:
    """Whether the key set has `name`."""
    for test in keys:
        if isinstance(test, Keys):
            inside = name in test.names or any(pattern(source).contains(name) for source in test.patterns)
        else:
            inside = any(language.contains(name) for language in test.languages)
        if inside is test.negated:
            return False
    return True
