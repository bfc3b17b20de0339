"""Ways through the nodes of a grammar."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from .ir import Both, Capture, Choice, Free, Node, Not, Reference, Repeat, Sequence, Shortest, Tag


def references(node: Node) -> Iterator[str]:
    """The names of the rules that a node refers to."""
    waiting: list[Node] = [node]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Reference):
            yield found.name
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


def renamed(node: Node, rename: Callable[[str], str]) -> Node:
    """The node with its references renamed."""

    def again(inner: Node) -> Node:
        return renamed(inner, rename)

    match node:
        case Reference(name, place):
            return Reference(rename(name), place)
        case Sequence(items):
            return Sequence(tuple(map(again, items)))
        case Choice(alternatives):
            return Choice(tuple(map(again, alternatives)))
        case Both(items, place):
            return Both(tuple(map(again, items)), place)
        case Not(item, place):
            return Not(again(item), place)
        case Shortest(item, place):
            return Shortest(again(item), place)
        case Repeat(item, low, high):
            return Repeat(again(item), low, high)
        case Capture(name, item):
            return Capture(name, again(item))
        case Free():
            return replace(node, tags=tuple(Tag(tag.begin, again(tag.content), tag.end) for tag in node.tags))
        case _:
            return node
