"""GrammarBNF's one form: what every reader of grammar texts produces, and what the automaton is made from.

A grammar is context-free over Unicode code points. Its terminals are texts, classes of characters, regular languages,
whole JSON Schemas, and tokens of the vocabulary by id or name. Nothing is unrolled here: a repetition is a node with
its bounds.

    text  --a reader-->  Grammar  --lower.lowered-->  numbered nodes  -->  automaton
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import field
from functools import cached_property
from typing import Any, TypeAlias

from ..frozen import frozen
from ..regular import Language
from ..regular.charset import CharSet


class Written:
    """A text of which somebody may ask where its lines begin: hardly any place in it ends in an error."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def lines(self) -> list[int]:
        """The offsets where lines begin."""
        return [0, *(match.end() for match in re.finditer("\n", self.text))]


@frozen
class Place:
    """Where a node stands: `offset` counts the characters before it. Without a source it stands nowhere."""

    source: Written | None = field(default=None, repr=False)
    offset: int = 0

    @property
    def line(self) -> int:
        """From 1; 0: nowhere, a reader made the node."""
        return 0 if self.source is None else bisect_right(self.source.lines, self.offset)

    @property
    def column(self) -> int:
        """From 1; 0: nowhere."""
        return 0 if self.source is None else self.offset - self.source.lines[self.line - 1] + 1


@frozen
class Text:
    """Exactly this text; "" is the empty one."""

    text: str


@frozen
class Chars:
    """One code point of a set."""

    set: CharSet


@frozen
class Regex:
    """A text of a regular language. `source`: the pattern (ECMA-262, matched as a whole) it was written as, if any."""

    language: Language
    source: str = field(default="", compare=False)


@frozen
class Both:
    """A text that all of these match. They are regular; `terminals.lower` makes a Regex of it."""

    items: tuple[Node, ...]
    place: Place = field(default=Place(), compare=False)


@frozen
class Not:
    """Any text that `item`, which is regular, does not match. `terminals.lower` makes a Regex of it."""

    item: Node
    place: Place = field(default=Place(), compare=False)


@frozen
class Shortest:
    """A text that `item`, which is regular, matches while it matches no shorter beginning of it: a lazy lexeme.

    `terminals.lower` makes a Regex of it.
    """

    item: Node
    place: Place = field(default=Place(), compare=False)


@frozen
class Sequence:
    """One after the other; none of them is the empty text."""

    items: tuple[Node, ...]


@frozen
class Choice:
    """Any of these; no alternative at all matches nothing."""

    alternatives: tuple[Node, ...]


@frozen
class Repeat:
    """`low` to `high` times, None: without end."""

    item: Node
    low: int = 0
    high: int | None = None


@frozen
class Reference:
    """A rule by its name."""

    name: str
    place: Place = field(default=Place(), compare=False)


@frozen
class JsonSchema:
    """A JSON text that a schema allows.

    `schema`: dict, bool, or JSON text; `options` are those of GrammarCompiler.json_schema.
    """

    schema: Any = field(hash=False)
    options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    place: Place = field(default=Place(), compare=False)


@frozen
class Token:
    """One token of the vocabulary, by id or by the name of a special token. `negated`: any token but these."""

    ids: frozenset[int] = frozenset()
    names: frozenset[str] = frozenset()
    negated: bool = False
    place: Place = field(default=Place(), compare=False)


@frozen
class Capture:
    """The text that `item` matches is reported under a name; it means the same as `item`."""

    name: str
    item: Node


@frozen
class Tag:
    """A segment of free text that is not free: `begin`, then `content` (a node), then `end`."""

    begin: str
    content: Node
    end: str


@frozen
class Free:
    """Free text in which a trigger starts a segment, until the segment's end (a structural tag).

    Each trigger begins the `begin` of at least one tag; what is free holds no trigger and none of `excludes`. Without
    triggers it is any text without the excluded ones.
    """

    triggers: tuple[str, ...] = ()
    tags: tuple[Tag, ...] = ()
    at_least_one: bool = False
    stop_after_first: bool = False
    excludes: tuple[str, ...] = ()
    whole_words: bool = False  # a trigger inside a longer word starts nothing


Node: TypeAlias = (
    Text | Chars | Regex | Sequence | Choice | Repeat | Reference | JsonSchema | Token | Capture | Free
    | Both | Not | Shortest
)  # fmt: skip


@frozen
class Grammar:
    """Rules by name, and the one to start with.

    `syntax` names the reader, for messages; `places` says where rules begin.
    """

    rules: Mapping[str, Node]
    start: str = "root"
    syntax: str = "grammarbnf"
    places: Mapping[str, Place] = field(default_factory=dict, compare=False)
