"""Equal subschemas become one node, so that the next stage, which knows nodes by identity, works on each only once.

Real schemas say `{"type": "string"}` a hundred times; a third of their subschemas are distinct. What is inside a
subschema is not shared with other subschemas, since a node bears its provenance (`at`): a shared subschema bears that
of its first place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .expr import (
    ALWAYS,
    AllOf,
    AnyOf,
    Contains,
    EachItem,
    EachName,
    EachProperty,
    Expr,
    IfThenElse,
    Not,
    OneOf,
    Required,
    Types,
    Unevaluated,
)


class Sharing:
    """The nodes of one reading that stand for a whole subschema, by content."""

    __slots__ = ("_by_shape", "_known")

    def __init__(self) -> None:
        self._by_shape: dict[Any, Expr] = {}
        self._known: set[int] = {id(ALWAYS)}

    def one(self, node: Expr) -> Expr:
        """The node that stands for all subschemas with the content of `node`, whose own subschemas went through
        here.
        """
        shape = self._whole(node) if type(node) is AllOf else self._shape(node)
        known = self._by_shape.setdefault(shape, node)
        self._known.add(id(known))
        return known

    def _whole(self, node: AllOf) -> Any:
        """The shape of a schema object: that of each keyword, those of the most common ones without a call."""
        key: list[Any] = [AllOf]
        parts: tuple[Any, ...] = node.parts
        for part in parts:
            kind = type(part)
            if kind is EachProperty:
                keys = part.keys
                key += kind, keys.names, keys.patterns, keys.negated, self._shape(part.then), part.evaluates
            elif kind is Types:
                key.append(part.types)
            elif kind is Required:
                key += kind, part.name
            else:
                key.append(self._shape(part))
        return tuple(key)

    def _shape(self, node: Any) -> Any:
        """A key equal for equal content. Subschemas are keyed by identity, so that no content is hashed twice."""
        same = id(node)
        if same in self._known:
            return same
        kind = type(node)
        composite = _SHAPES.get(kind)
        return node if composite is None else composite(node, self._shape)


def _many(node: Any, shape: Callable[[Expr], Any]) -> Any:
    return (type(node), *[shape(part) for part in node.parts])


_SHAPES: Mapping[type, Callable[[Any, Callable[[Expr], Any]], Any]] = {
    AllOf: _many,
    AnyOf: _many,
    OneOf: _many,
    EachProperty: lambda node, shape: (
        EachProperty, node.keys.names, node.keys.patterns, node.keys.negated, shape(node.then), node.evaluates
    ),
    Not: lambda node, shape: (Not, shape(node.part)),
    IfThenElse: lambda node, shape: (IfThenElse, shape(node.test), shape(node.then), shape(node.otherwise)),
    # Hashing a node calls Python code: the two most common ones are taken apart.
    Required: lambda node, shape: (Required, node.name),
    Types: lambda node, shape: (Types, node.types),
    EachName: lambda node, shape: (EachName, shape(node.then)),
    EachItem: lambda node, shape: (EachItem, node.start, node.stop, shape(node.then), node.evaluates),
    Contains: lambda node, shape: (Contains, node.low, node.high, shape(node.then), node.evaluates),
    Unevaluated: lambda node, shape: (Unevaluated, node.kind, shape(node.base), shape(node.then)),
}
