"""The cheap positive half of emptiness: goals that one of a few plain values satisfies.

Most places of real schemas say little more than a type. That `null`, `""`, `0`, `[]` or `{}` is allowed there is seen
from the keywords one by one, without making the forms of anything inside. So is an example of a format, or that one
pattern alone leaves some text.
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
    Required,
    StringLength,
    Types,
    UniqueItems,
)
from ..schema.values import to_json
from .goals import EVERY_TYPE, Goal

_BRACKETED: frozenset[JsonType] = frozenset(("string", "array", "object"))
_OBJECT: frozenset[JsonType] = frozenset(("object",))
_NONE: frozenset[JsonType] = frozenset()
_ENDLESS = 1 << 30
_EASY = 10**15  # integers below are written in one way
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


def evident(expr: Expr) -> bool:
    """The same as `obvious` of the goal of one node, without making that goal."""
    if isinstance(expr, AllOf):
        return _together(expr.parts)
    if isinstance(expr, AnyOf | Const):
        return _chosen(expr, EVERY_TYPE)
    return bool(_kinds(expr)[1])


def brief(expr: Expr) -> int:
    """The same as `shortest` of the goal of one node, without making that goal."""
    if isinstance(expr, Const):
        return _constant(expr, True)
    types, plain = _kinds(expr)
    if types == _OBJECT and not plain and isinstance(expr, AllOf):
        return _object_length(expr.parts)
    return _length(types, plain)


def obvious(goal: Goal) -> bool:
    """True only if some value satisfies the goal that is seen from its keywords one by one; False says nothing."""
    if _plain(goal):
        return True
    return len(goal.literals) > 1 and all(sign for _, sign in goal.literals) and _together(goal.nodes)


def _together(parts: Sequence[Expr]) -> bool:
    types = EVERY_TYPE
    chosen: Expr | None = None
    for part in parts:
        if isinstance(part, Types):
            types = types & part.types
        elif isinstance(part, AnyOf | Const):
            if chosen is not None:
                return False
            chosen = part
    if chosen is not None:
        return _chosen(chosen, types) and all(isinstance(part, Types) for part in parts if part is not chosen)
    plain = types
    for part in parts:
        if not isinstance(part, Types):
            plain = _without(part, plain)
            if not plain:
                break
    if plain or "object" not in types:
        return bool(plain)
    needed = _needed(parts)
    return needed is not None and all(evident(then) for _, then in needed)


def _chosen(expr: Expr, types: frozenset[JsonType]) -> bool:
    """Whether a string of one of these types is the first choice of an enumeration."""
    while isinstance(expr, AnyOf) and expr.parts:
        expr = expr.parts[0]
    if isinstance(expr, Const):
        return "string" in types and expr.value[0] == "string" and len(expr.value[1]) <= _SHORT
    return types == EVERY_TYPE and not isinstance(expr, AnyOf) and evident(expr)


def _needed(parts: Sequence[Expr]) -> list[tuple[str, Expr]] | None:
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


def _object_length(parts: Sequence[Expr]) -> int:
    """The length of a shortest object, braces included; 0 says nothing."""
    needed = _needed(parts)
    if needed is None:
        return 0
    total = 2
    for name, then in needed:
        length = brief(then)
        if not length:
            return 0
        total += 4 + len(name) + length
    return total


def exemplified(goal: Goal) -> bool:
    """True only if an example of the goal's one format, or some text of its one pattern, satisfies it."""
    if "string" not in goal.types:
        return False
    formats: list[str] = []
    patterns: list[str] = []
    low, high = 0, _ENDLESS
    for expr, sign in goal.literals:
        if not sign or (type(expr) not in _HOLDS and type(expr) is not Types):
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
    if len(patterns) != 1 or low or high < _ENDLESS:
        return False
    language = pattern(patterns[0])
    return language.low <= _SHORT and not language.is_empty


def shortest(goal: Goal) -> int:
    """The length of a shortest value of the goal, where it is plain to see; 0 says nothing."""
    if goal.brief is None:
        goal.brief = _shortest(goal)
    return goal.brief


def _shortest(goal: Goal) -> int:
    if len(goal.literals) == 1:
        expr, sign = goal.literals[0]
        if isinstance(expr, Const):
            return _constant(expr, sign)
    plain = _plain(goal)
    if not plain and goal.types == _OBJECT and all(sign for _, sign in goal.literals):
        return _object_length(goal.nodes)
    return _length(goal.types, plain)


def _length(types: frozenset[JsonType], plain: frozenset[JsonType]) -> int:
    if "number" in plain:
        return 1
    if not plain or "number" in types:
        return 0
    if not _BRACKETED.isdisjoint(plain):
        return 2
    return 4 if _BRACKETED.isdisjoint(types) else 0


def _constant(expr: Const, sign: bool) -> int:
    kind, *rest = expr.value
    if not sign or kind not in ("string", "number"):
        return 0
    if kind == "number" and (rest[0].denominator != 1 or abs(rest[0]) >= _EASY):
        return 0
    return len(to_json(expr.value))


def _plain(goal: Goal) -> frozenset[JsonType]:
    """The types whose plain value satisfies the goal; none also if that is not plain to see."""
    if goal.plain is None:
        goal.plain = _held(goal)
    return goal.plain


def _held(goal: Goal) -> frozenset[JsonType]:
    types = goal.types
    for expr, sign in goal.literals:
        if type(expr) is Types:
            continue
        if not sign:
            return _NONE
        types = _without(expr, types)
    return types


def _kinds(expr: Expr) -> tuple[frozenset[JsonType], frozenset[JsonType]]:
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
    plain = types
    for part in expr.parts:
        if not isinstance(part, Types):
            plain = _without(part, plain)
    return types, plain


def _without(expr: Expr, types: frozenset[JsonType]) -> frozenset[JsonType]:
    """Those of the types whose plain value satisfies one node."""
    holds = _HOLDS.get(type(expr))
    if holds is None:
        return _NONE
    kind, test = holds
    return types - {kind} if kind in types and not test(expr) else types
