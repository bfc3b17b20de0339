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
    match node:
        case Sequence(items) | Both(items) | Choice(items):
            return items
        case Repeat(item) | Not(item) | Shortest(item) | Capture(_, item):
            return (item,)
        case Free():
            return tuple(tag.content for tag in node.tags)
        case _:
            return ()


def mapped(node: Node, change: Callable[[Node], Node]) -> Node:
    """The node with `change` made to each of the nodes right under it."""
    match node:
        case Sequence(items):
            return Sequence(tuple(map(change, items)))
        case Choice(alternatives):
            return Choice(tuple(map(change, alternatives)))
        case Both(items, place):
            return Both(tuple(map(change, items)), place)
        case Not(item, place):
            return Not(change(item), place)
        case Shortest(item, place):
            return Shortest(change(item), place)
        case Repeat(item, low, high):
            return Repeat(change(item), low, high)
        case Capture(name, item):
            return Capture(name, change(item))
        case Free():
            return replace(node, tags=tuple(Tag(tag.begin, change(tag.content), tag.end) for tag in node.tags))
        case _:
            return node


def renamed(node: Node, rename: Callable[[str], str]) -> Node:
    """The node with its references renamed."""
    if isinstance(node, Reference):
        return Reference(rename(node.name), node.place)
    return mapped(node, lambda inner: renamed(inner, rename))
