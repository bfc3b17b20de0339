"""The cheap positive half of emptiness: nodes and goals that one of a few plain values satisfies.

Most places of real schemas say little more than a type. That `null`, `""`, `0`, `[]` or `{}` is allowed there is seen
from the keywords one by one, without making a goal or the forms of anything inside. So is the first string of an
enumeration, an example of a format, some text of a pattern or of a length, and an object whose required keys have such
values. What is found here is true; what is not found says nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..regular import EXAMPLES, pattern
from ..schema.expr import (
    ALWAYS,
    AllOf,
    Always,
    AnyOf,
    Const,
    Contains,
    EachItem,
    EachProperty,
    Expr,
    Format,
    ItemCount,
    JsonType,
    MultipleOf,
    NumberRange,
    Pattern,
    PropertyCount,
    Ref,
    Required,
    StringLength,
    Types,
    UniqueItems,
)
from .goals import EVERY_TYPE, Goal, Goals

_NONE: frozenset[JsonType] = frozenset()
_ENDLESS = 1 << 30
_DEEP = 3  # references within what references lead to
_SHORT = 1000  # texts that are not too long to be written, see `writable`


def _has_zero(expr: NumberRange) -> bool:
    low, high = expr.low, expr.high
    above = low is None or low < 0 or (low == 0 and not expr.low_open)
    return above and (high is None or high > 0 or (high == 0 and not expr.high_open))


# What each keyword speaks about, and whether the plain value of that type satisfies it.
_HOLDS: Mapping[type, tuple[JsonType, Callable[[Any], bool]]] = {
    EachProperty: ("object", lambda expr: True),
    Required: ("object", lambda expr: False),
    PropertyCount: ("object", lambda expr: expr.low == 0),
    EachItem: ("array", lambda expr: True),
    UniqueItems: ("array", lambda expr: True),
    Contains: ("array", lambda expr: expr.low == 0),
    ItemCount: ("array", lambda expr: expr.low == 0),
    MultipleOf: ("number", lambda expr: True),
    NumberRange: ("number", _has_zero),
    StringLength: ("string", lambda expr: expr.low == 0),
    Pattern: ("string", lambda expr: False),
    Format: ("string", lambda expr: False),
}


def obvious(goal: Goal, goals: Goals) -> bool:
    """True only if some value satisfies the goal, one that is seen from the keywords; False says nothing."""
    if plain(goal):
        return True
    if goal.impossible or not all(sign for _, sign in goal.literals):
        return False
    return _together([expr for expr, _ in goal.literals], goals)


def evident(expr: Expr, goals: Goals) -> bool:
    """The same of one node, without its goal."""
    if isinstance(expr, Types):
        return True
    if isinstance(expr, AllOf):
        return _together(expr.parts, goals)
    if isinstance(expr, AnyOf | Const):
        return _chosen(expr, EVERY_TYPE, goals)
    if isinstance(expr, Ref):
        return _referred(expr.target, goals)
    return bool(plain_types(expr)[1]) or _exemplified((expr,))


def plain(goal: Goal) -> frozenset[JsonType]:
    """The types whose plain value satisfies the goal; none also if that is not plain to see."""
    if goal.plain is None:
        types = goal.types
        for expr, sign in goal.literals:
            if type(expr) is not Types:
                types = _without(expr, types) if sign else _NONE
        goal.plain = types
    return goal.plain


def plain_types(expr: Expr) -> tuple[frozenset[JsonType], frozenset[JsonType]]:
    """The types that a node leaves, and those of them whose plain value satisfies it (none if that is not plain)."""
    if isinstance(expr, Types):
        return expr.types, expr.types
    if isinstance(expr, Always):
        return EVERY_TYPE, EVERY_TYPE
    types = EVERY_TYPE
    if not isinstance(expr, AllOf):
        return types, _without(expr, types)
    for part in expr.parts:
        if isinstance(part, Types):
            types = types & part.types
    left = types
    for part in expr.parts:
        if not isinstance(part, Types):
            left = _without(part, left)
    return types, left


def needed(parts: Sequence[Expr]) -> list[tuple[str, Expr]] | None:
    """The keys that an object must have and what their values must satisfy, where that is all it must do; None if it is
    not, or not plainly so.
    """
    named: dict[str, Expr] = {}
    others: list[EachProperty] = []
    required: dict[str, None] = {}
    for part in parts:
        if isinstance(part, Required):
            required[part.name] = None
        elif isinstance(part, EachProperty):
            keys = part.keys
            if keys.negated or keys.patterns or len(keys.names) != 1 or keys.names[0] in named:
                others.append(part)
            else:
                named[keys.names[0]] = part.then
        elif not isinstance(part, Types):
            return None
    for part in others:
        keys = part.keys
        if not keys.negated or keys.patterns or not required.keys() <= set(keys.names):
            return None
    return [(name, named.get(name, ALWAYS)) for name in required]


def _without(expr: Expr, types: frozenset[JsonType]) -> frozenset[JsonType]:
    """Those of the types whose plain value satisfies one node."""
    holds = _HOLDS.get(type(expr))
    if holds is None:
        return _NONE
    kind, test = holds
    return types - {kind} if kind in types and not test(expr) else types


def _together(parts: Sequence[Expr], goals: Goals) -> bool:
    types = EVERY_TYPE
    chosen: Expr | None = None
    for part in parts:
        if isinstance(part, Types):
            types = types & part.types
        elif isinstance(part, AnyOf | Const | Ref):
            if chosen is not None:
                return False
            chosen = part
    if chosen is not None:
        return _chosen(chosen, types, goals) and all(isinstance(part, Types) for part in parts if part is not chosen)
    left = types
    for part in parts:
        if not isinstance(part, Types):
            left = _without(part, left)
            if not left:
                break
    if left:
        return True
    if "string" in types and _exemplified(parts):
        return True
    keys = needed(parts) if "object" in types else None
    return keys is not None and all(evident(then, goals) for _, then in keys)


def _chosen(expr: Expr, types: frozenset[JsonType], goals: Goals) -> bool:
    """Whether a value of one of these types is the first choice."""
    while isinstance(expr, AnyOf) and expr.parts:
        expr = expr.parts[0]
    if isinstance(expr, Const):
        return "string" in types and expr.value[0] == "string" and len(expr.value[1]) <= _SHORT
    return types == EVERY_TYPE and not isinstance(expr, AnyOf) and evident(expr, goals)


def _referred(target: int, goals: Goals) -> bool:
    found = goals.evident.get(target)
    if found is None:
        if goals.referred == _DEEP:
            return False
        goals.evident[target] = False  # of what leads back to itself nothing is plain
        goals.referred += 1
        found = goals.evident[target] = evident(goals.schema.definitions[target], goals)
        goals.referred -= 1
    return found


def _exemplified(parts: Sequence[Expr]) -> bool:
    """Whether an example of the one format, some text of the one pattern, or any of a length is a string of `parts`."""
    formats: list[str] = []
    patterns: list[str] = []
    low, high = 0, _ENDLESS
    for expr in parts:
        if type(expr) not in _HOLDS and type(expr) is not Types:
            return False
        if isinstance(expr, Format):
            formats.append(expr.name)
        elif isinstance(expr, Pattern):
            patterns.append(expr.source)
        elif isinstance(expr, StringLength):
            low, high = max(low, expr.low), min(high, _ENDLESS if expr.high is None else expr.high)
    if formats:
        text = EXAMPLES[formats[0]]
        return len(formats) == 1 and low <= len(text) <= high and all(text in pattern(source) for source in patterns)
    if not patterns:
        return low <= min(high, _SHORT)
    if len(patterns) != 1 or low or high < _ENDLESS:
        return False
    language = pattern(patterns[0])
    return language.low <= _SHORT and not language.is_empty
