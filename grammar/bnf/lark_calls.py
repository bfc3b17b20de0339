"""Calls in free text, as llguidance's documentation writes them in Lark, as free text with triggers.

    start: (foo | bar)* rest
    rest: TEXT
    foo_head[lazy]: TEXT "<function"
    foo: foo_head "=foo>" INT "</function>"
    TEXT: /(.|\\n)*/

There a lexer ends a lazy lexeme as soon as it can, and gives up all others that were being read with it. Here every way
to split a text is followed, in which `rest` could take what looks like a call and is none. What such a grammar means is
that a call begins wherever its trigger stands, so it is read as `Free`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from ..regular import ANY
from .ir import Capture, Choice, Free, Node, Reference, Regex, Repeat, Sequence, Shortest, Tag, Text
from .walk import mapped

_MOST_STEPS: Final = 100
_LITERAL: Final = r"(?:[^\\^$.*+?()\[\]{}|]|\\[^A-Za-z0-9]|\\[nrt])++"
_ANY_TEXT_THEN: Final = re.compile(
    rf"(?:\((?:\?:)?(?:\[\^\\n\]\|\\n|\\n\|\[\^\\n\])\)\*|\[\\s\\S\]\*|\(\?s:\.\*\))(?P<after>{_LITERAL})"
    rf"|\(\?s:\.\*(?P<inside>{_LITERAL})\)"
)
"""A pattern of any text and then a fixed one."""
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_NAMED: Final = {"n": "\n", "r": "\r", "t": "\t"}


def with_calls(rules: Mapping[str, Node]) -> dict[str, Node]:
    """The rules, with free text where a repetition of calls stands."""
    if not any(isinstance(rule, Shortest) for rule in rules.values()):
        return dict(rules)
    reader = _Reader(rules)
    return {name: reader.node(rule) for name, rule in rules.items()}


class _Reader:
    def __init__(self, rules: Mapping[str, Node]) -> None:
        self._rules = rules

    def node(self, node: Node) -> Node:
        """A node, with free text in it."""
        match node:
            case Repeat(item, low, None) if (tags := self._tags(item)) is not None and low < 2:
                return self._free(tags, low, rest=False)
            case Sequence(items):
                return self._sequence(items)
            case Sequence() | Choice() | Repeat() | Capture():
                return mapped(node, self.node)
        return node

    def _sequence(self, items: tuple[Node, ...]) -> Node:
        found: list[Node] = []
        at = 0
        while at < len(items):
            item = items[at]
            at += 1
            if isinstance(item, Repeat) and item.high is None and item.low < 2:
                tags = self._tags(item.item)
                if tags is not None:
                    rest = at < len(items) and self._is_any_text(items[at])
                    at += rest
                    found.append(self._free(tags, item.low, rest=rest))
                    continue
            found.append(self.node(item))
        return found[0] if len(found) == 1 else Sequence(tuple(found))

    def _free(self, tags: list[Tag], low: int, *, rest: bool) -> Node:
        triggers = tuple(dict.fromkeys(tag.begin for tag in tags))
        if rest:
            return Free(triggers, tuple(tags), at_least_one=low > 0)
        return Repeat(Free(triggers, tuple(tags), at_least_one=True, stop_after_first=True), low, None)

    def _tags(self, node: Node) -> list[Tag] | None:
        """The calls that a node is a choice of; None if it is anything else."""
        node = self._resolved(node)
        if isinstance(node, Choice):
            found = [self._tags(alternative) for alternative in node.alternatives]
            return [tag for tags in found if tags for tag in tags] if found and all(found) else None
        items = node.items if isinstance(node, Sequence) else (node,)
        trigger = self._trigger(items[0]) if items else None
        if trigger is None:
            return None
        rest = tuple(self.node(item) for item in items[1:])
        return [Tag(trigger, rest[0] if len(rest) == 1 else Sequence(rest) if rest else Text(""), "")]

    def _trigger(self, node: Node) -> str | None:
        """The text that ends a lazy lexeme of any text, if it is one."""
        node = self._resolved(node)
        if not isinstance(node, Shortest):
            return None
        match self._resolved(node.item):
            case Sequence((first, last)) if self._is_any_text(first):
                end = self._resolved(last)
                return end.text if isinstance(end, Text) and end.text else None
            case Regex(_, pattern) if (written := _ANY_TEXT_THEN.fullmatch(pattern)) is not None:
                return _ESCAPED.sub(lambda part: _NAMED.get(part[1], part[1]), written["inside"] or written["after"])
        return None

    def _is_any_text(self, node: Node) -> bool:
        node = self._resolved(node)
        return isinstance(node, Regex) and node.language.normal() == ANY

    def _resolved(self, node: Node) -> Node:
        """What names stand for."""
        for _ in range(_MOST_STEPS):
            if not isinstance(node, Reference) or node.name not in self._rules:
                break
            node = self._rules[node.name]
        return node
