"""An evaluator of schema expressions over values, written straight from the specification and independent of the
algebra.

`allowed(schema, value)` answers what the automaton must answer. Each node gives None (the value is not allowed) or the
set of keys and indices that it evaluated, which is what `unevaluatedProperties` and `unevaluatedItems` see.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import regress
from slipcast.grammar.schema import expr as x
from slipcast.grammar.schema.values import canonical

Evaluated = frozenset[Any]
NOTHING: Evaluated = frozenset()


def allowed(schema: x.Schema, value: Any, formats: Callable[[str, str], bool] | None = None) -> bool:
    """Whether `schema` allows `value` (Python objects as from json). `formats(name, text)` judges formats, None lets
    all pass.
    """
    return Oracle(schema, formats).evaluate(schema.root, canonical(value)) is not None


@lru_cache(maxsize=4096)
def _regex(source: str) -> regress.Regex:
    """Unicode mode, or where that refuses (`\\_`) the lenient mode of annex B."""
    try:
        return regress.Regex(source, "u")
    except regress.RegressError:
        return regress.Regex(source)


def found(source: str, text: str) -> bool:
    return _regex(source).find(text) is not None


def in_keys(keys: x.Keys, key: str) -> bool:
    return (key in keys.names or any(found(source, key) for source in keys.patterns)) is not keys.negated


def within(count: int, low: int, high: int | None) -> bool:
    return low <= count and (high is None or count <= high)


class Oracle:
    def __init__(self, schema: x.Schema, formats: Callable[[str, str], bool] | None) -> None:
        self.definitions = schema.definitions
        self.formats = formats

    def evaluate(self, node: x.Expr, value: tuple[Any, ...]) -> Evaluated | None:
        return getattr(self, type(node).__name__)(node, value)

    def ok(self, node: x.Expr, value: tuple[Any, ...]) -> bool:
        return self.evaluate(node, value) is not None

    def test(self, condition: bool) -> Evaluated | None:
        return NOTHING if condition else None

    # Any value

    def Always(self, node, value):
        return NOTHING

    def Never(self, node, value):
        return None

    def Types(self, node, value):
        return self.test(value[0] in node.types)

    def Const(self, node, value):
        return self.test(value == node.value)

    # Numbers and strings

    def NumberRange(self, node, value):
        if value[0] != "number":
            return NOTHING
        low = node.low is None or (value[1] > node.low if node.low_open else value[1] >= node.low)
        high = node.high is None or (value[1] < node.high if node.high_open else value[1] <= node.high)
        return self.test(low and high)

    def MultipleOf(self, node, value):
        return self.test(value[0] != "number" or (value[1] / node.step).denominator == 1)

    def StringLength(self, node, value):
        return self.test(value[0] != "string" or within(len(value[1]), node.low, node.high))

    def Pattern(self, node, value):
        return self.test(value[0] != "string" or found(node.source, value[1]))

    def Format(self, node, value):
        return self.test(value[0] != "string" or self.formats is None or self.formats(node.name, value[1]))

    # Objects

    def EachProperty(self, node, value):
        if value[0] != "object":
            return NOTHING
        covered = [(key, member) for key, member in value[1] if in_keys(node.keys, key)]
        if not all(self.ok(node.then, member) for _, member in covered):
            return None
        return frozenset(key for key, _ in covered) if node.evaluates else NOTHING

    def EachName(self, node, value):
        return self.test(value[0] != "object" or all(self.ok(node.then, ("string", key)) for key, _ in value[1]))

    def Required(self, node, value):
        return self.test(value[0] != "object" or any(key == node.name for key, _ in value[1]))

    def PropertyCount(self, node, value):
        return self.test(value[0] != "object" or within(len(value[1]), node.low, node.high))

    # Arrays

    def EachItem(self, node, value):
        if value[0] != "array":
            return NOTHING
        stop = len(value[1]) if node.stop is None else min(node.stop, len(value[1]))
        if not all(self.ok(node.then, value[1][index]) for index in range(node.start, stop)):
            return None
        return frozenset(range(node.start, stop)) if node.evaluates else NOTHING

    def Contains(self, node, value):
        if value[0] != "array":
            return NOTHING
        hits = frozenset(index for index, item in enumerate(value[1]) if self.ok(node.then, item))
        if not within(len(hits), node.low, node.high):
            return None
        return hits if node.evaluates else NOTHING

    def ItemCount(self, node, value):
        return self.test(value[0] != "array" or within(len(value[1]), node.low, node.high))

    def UniqueItems(self, node, value):
        return self.test(value[0] != "array" or len(set(value[1])) == len(value[1]))

    # Combinations

    def Unevaluated(self, node, value):
        seen = self.evaluate(node.base, value)
        if seen is None or value[0] != node.kind:
            return seen
        members = value[1] if node.kind == "object" else enumerate(value[1])
        keys = []
        for key, member in members:
            keys.append(key)
            if key not in seen and not self.ok(node.then, member):
                return None
        return seen | frozenset(keys)

    def AllOf(self, node, value):
        seen = NOTHING
        for part in node.parts:
            more = self.evaluate(part, value)
            if more is None:
                return None
            seen |= more
        return seen

    def AnyOf(self, node, value):
        results = [seen for part in node.parts if (seen := self.evaluate(part, value)) is not None]
        return NOTHING.union(*results) if results else None

    def OneOf(self, node, value):
        results = [seen for part in node.parts if (seen := self.evaluate(part, value)) is not None]
        return results[0] if len(results) == 1 else None

    def Not(self, node, value):
        return self.test(not self.ok(node.part, value))

    def IfThenElse(self, node, value):
        tested = self.evaluate(node.test, value)
        if tested is None:
            return self.evaluate(node.otherwise, value)
        then = self.evaluate(node.then, value)
        return None if then is None else tested | then

    def Ref(self, node, value):
        return self.evaluate(self.definitions[node.target], value)
