"""Ways through the nodes of a grammar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from .ir import Both, Capture, Choice, Free, Node, Not, Reference, Repeat, Sequence, Shortest, Tag


def references(node: Node) -> Iterator[Reference]:
    """The references to rules in a node."""
    waiting: list[Node] = [node]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Reference):
            yield found
        waiting += children(found)


def children(node: Node) -> tuple[Node, ...]:
    """The nodes right under a node."""
    if isinstance(node, Sequence | Both):
        return node.items
    if isinstance(node, Choice):
        return node.alternatives
    if isinstance(node, Repeat | Not | Shortest | Capture):
        return (node.item,)
    return tuple(tag.content for tag in node.tags) if isinstance(node, Free) else ()


def mapped(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with `change` made to each of the nodes right under it."""
    if isinstance(node, Sequence):
        return Sequence(tuple(map(change, node.items)))
    if isinstance(node, Choice):
        return Choice(tuple(map(change, node.alternatives)))
    if isinstance(node, Repeat):
        return Repeat(change(node.item), node.low, node.high)
    if isinstance(node, Capture):
        return Capture(node.name, change(node.item))
    if isinstance(node, Both):
        return Both(tuple(map(change, node.items)), node.place)
    if isinstance(node, Not):
        return Not(change(node.item), node.place)
    if isinstance(node, Shortest):
        return Shortest(change(node.item), node.place)
    if isinstance(node, Free):
        return replace(node, tags=tuple(Tag(tag.begin, change(tag.content), tag.end) for tag in node.tags))
    return node


def renamed(node: Node, rename: Callable[[str], str]) -> Node:
    """The node with its references renamed."""
    if isinstance(node, Reference):
        return Reference(rename(node.name), node.place)
    return mapped(node, lambda inner: renamed(inner, rename))
