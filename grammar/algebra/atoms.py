"""What one keyword, or its negation, says about objects and about arrays, as clauses.

None stands for "no demand": every keyword allows all values of the types it is not about, so its negation allows none
of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..regular import ANY
from ..schema.expr import (
    AnyOf,
    Const,
    Contains,
    EachItem,
    EachName,
    EachProperty,
    Expr,
    ItemCount,
    Keys,
    Never,
    PropertyCount,
    Required,
    Types,
    UniqueItems,
)
from ..schema.values import Canonical
from .clauses import (
    EVERY_KEY,
    ArrayClause,
    CountAt,
    Each,
    EachAt,
    Items,
    KeySet,
    Members,
    Named,
    ObjectClause,
    Some,
    single_name,
)
from .goals import Goals, Literal
from .scalars import Scalars

NEVER: Literal = (Never(), True)


class Atoms:
    """Keyword by keyword. `const_node` gives one `Const` node a value, since goals go by the identity of nodes."""

    def __init__(self, goals: Goals, scalars: Scalars) -> None:
        self._goals = goals
        self._scalars = scalars
        self._consts: dict[Canonical, Const] = {}
        self._any_consts: dict[tuple[Canonical, ...], AnyOf] = {}

    def const_node(self, value: Canonical) -> Const:
        """The node that asks for `value` (canonical)."""
        return self._consts.setdefault(value, Const(value))

    def any_const_node(self, values: tuple[Canonical, ...]) -> AnyOf:
        """The node that asks for one of `values`."""
        found = self._any_consts.get(values)
        if found is None:
            found = self._any_consts[values] = AnyOf(tuple(self.const_node(value) for value in values))
        return found

    def plain_object(self, literals: Sequence[Literal]) -> ObjectClause | None:
        """The one clause, without annotations, of literals that only say type, properties and required keys."""
        each: list[Each] = []
        some: list[Some] = []
        expr: Any
        for expr, sign in literals:
            kind = type(expr)
            if not sign:
                return None
            if kind is EachProperty:
                keys = expr.keys
                declared = not keys.negated and not keys.patterns
                name = keys.names[0] if declared and len(keys.names) == 1 else None
                each.append(Each((keys,), ((expr.then, True),), declared, name))
            elif kind is Required:
                some.append(Some((Keys((expr.name,)),), (), expr.name))
            elif kind is not Types:
                return None
        return ObjectClause(tuple(each), tuple(some))

    def object(self, expr: Expr, sign: bool) -> tuple[ObjectClause, ...] | None:
        """Clauses of one literal among objects."""
        match expr:
            case Types(types=types):
                return None if ("object" in types) is sign else ()
            case Const(value=("object", members)):
                return (self._const_object(members, sign),)
            case Const():
                return () if sign else None
            case EachProperty(keys=keys, then=then, evaluates=evaluates):
                if not sign:
                    return (_some((keys,), (then, False)),)
                declared = not keys.negated and not keys.patterns
                seen = (keys,) if evaluates else ()
                return (ObjectClause(each=(Each((keys,), ((then, True),), declared),), evaluated=seen),)
            case EachName(then=then):
                names = self._scalars.strings(self._goals.of([(then, True)]))
                if names == (ANY,):
                    return None if sign else ()
                outside: KeySet = (Named(names, negated=True),) if names else (EVERY_KEY,)
                return (_none(outside),) if sign else (ObjectClause(some=(Some(outside),)),)
            case Required(name=name):
                keys = Keys((name,))
                return (ObjectClause(some=(Some((keys,)),)),) if sign else (_none((keys,)),)
            case PropertyCount(low=low, high=high):
                if sign:
                    return (ObjectClause(low=low, high=high),)
                below = [ObjectClause(high=low - 1)] if low > 0 else []
                above = [] if high is None else [ObjectClause(low=high + 1)]
                return (*below, *above)
        return None if sign else ()

    def array(self, expr: Expr, sign: bool) -> tuple[ArrayClause, ...] | None:
        """Clauses of one literal among arrays."""
        match expr:
            case Types(types=types):
                return None if ("array" in types) is sign else ()
            case Const(value=("array", items)):
                return (self._const_array(items, sign),)
            case Const():
                return () if sign else None
            case EachItem(start=start, stop=stop, then=then, evaluates=evaluates):
                if not sign:
                    return (ArrayClause(counts=(CountAt(start, stop, (then, False), 1, None),)),)
                seen = ((start, stop),) if evaluates else ()
                return (ArrayClause(each=(EachAt(start, stop, ((then, True),)),), evaluated=seen),)
            case Contains(then=then, low=low, high=high, evaluates=evaluates):
                literal: Literal = (then, True)
                if not sign:
                    fewer = [_contains(literal, 0, low - 1)] if low > 0 else []
                    more = [] if high is None else [_contains(literal, high + 1, None)]
                    return (*fewer, *more)
                by = (literal,) if evaluates else ()
                counts = (CountAt(0, None, literal, low, high),) if low or high is not None else ()
                return (ArrayClause(counts=counts, evaluated_by=by),)
            case ItemCount(low=low, high=high):
                if sign:
                    return (ArrayClause(low=low, high=high),)
                below = [ArrayClause(high=low - 1)] if low > 0 else []
                above = [] if high is None else [ArrayClause(low=high + 1)]
                return (*below, *above)
            case UniqueItems():
                return (ArrayClause(unique=True),) if sign else (ArrayClause(repeats=True),)
        return None if sign else ()

    def _const_object(self, value: Members, sign: bool) -> ObjectClause:
        if not sign:
            return ObjectClause(excluded=(value,))
        members = [(Keys((name,)), self.const_node(member)) for name, member in value]
        others = (Keys(tuple(name for name, _ in value), negated=True),)
        each = tuple(Each((keys,), ((node, True),)) for keys, node in members)
        some = tuple(Some((keys,)) for keys, _ in members)
        return ObjectClause(each=(*each, Each(others, (NEVER,))), some=some)

    def _const_array(self, value: Items, sign: bool) -> ArrayClause:
        if not sign:
            return ArrayClause(excluded=(value,))
        each = tuple(EachAt(i, i + 1, ((self.const_node(item), True),)) for i, item in enumerate(value))
        return ArrayClause(each=each, low=len(value), high=len(value))


def _none(keys: KeySet) -> ObjectClause:
    return ObjectClause(each=(Each(keys, (NEVER,)),))


def _some(keys: KeySet, literal: Literal) -> ObjectClause:
    """A property of a known name satisfies the literal exactly if it is there and, being there, satisfies it."""
    if single_name(keys) is None:
        return ObjectClause(some=(Some(keys, (literal,)),))
    return ObjectClause(each=(Each(keys, (literal,)),), some=(Some(keys),))


def _contains(literal: Literal, low: int, high: int | None) -> ArrayClause:
    return ArrayClause(counts=(CountAt(0, None, literal, low, high),))


__all__ = ["NEVER", "Atoms"]
