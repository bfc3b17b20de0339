"""The byte automaton, one byte at a time: the exact definition of what the tables mean.

The kernels of `grammar.tokens` do the same for whole vocabularies; where they cannot
(recorded text decides), this does.
"""

from __future__ import annotations

from operator import and_
from typing import NamedTuple

from .codes import (
    CHECK_LOW,
    CLOSED,
    COUNT,
    LABEL_MASK,
    NEED,
    REACH,
    REACH_WIDE,
    ROW_MASK,
    TEXT_DEPENDENT,
    TOKEN_BYTE,
)
from .tables import Tables
from .tokencodes import TokenEdges

_LOW_WORD = (1 << 32) - 1
_COUNT_WORDS = 0xFFFF


class Configuration(NamedTuple):
    """Where the automaton stands.

    length  code points so far of a bounded string
    texts   what was read since each scope of the stack and of the frame began, outermost first
    stack   the frames that go on when what they opened ends, see `Stacks`
    """

    row: int
    frame: int
    length: int = 0
    texts: tuple[bytes, ...] = ()
    stack: int = 0


def step(tables: Tables, at: Configuration, byte: int) -> Configuration | None:
    """The configuration after one more byte; None where no allowed text goes on with it."""
    if byte == TOKEN_BYTE:
        edges = token_edges(tables, at)
        return None if edges is None else edges[0]
    row, frame, count, texts, stack = at
    while True:
        value = tables.value(row, byte)
        if value > 0:
            following = value & ROW_MASK
            if value > ROW_MASK:
                if value & COUNT:
                    count += 1
                if value & (COUNT | NEED) and count + int(tables.need[following]) > int(tables.high[frame]):
                    return None
                if value & (REACH | REACH_WIDE) and not reaches(tables, following, frame, bool(value & REACH_WIDE)):
                    return None
            if texts:
                texts = tuple(text + bytes((byte,)) for text in texts)
            return Configuration(following, frame, count, texts, stack)
        if value < 0:
            if -value & CHECK_LOW and count < int(tables.low[frame]):
                return None
            if texts:
                texts = tuple(text + bytes((byte,)) for text in texts)
            return follow(tables, frame, (-value & LABEL_MASK) - 1, texts, stack)
        label = int(tables.accept[row]) - 1
        if label < 0:
            return None
        ended = follow(tables, frame, label, texts, stack)
        if ended is None:
            return None
        row, frame, count, texts, stack = ended


def follow(
    tables: Tables, frame: int, label: int, texts: tuple[bytes, ...], stack: int = 0
) -> Configuration | None:
    """The configuration after a lexeme of `frame` ended with `label`."""
    stacks = tables.stacks
    while True:
        own = int(tables.scopes[frame])
        if own:
            scopes = int(stacks.scopes[stack]) + own
            row, following = tables.resolve(frame, label, texts[scopes - own : scopes])
        else:
            row, following = tables.next(frame, label)
            assert row != TEXT_DEPENDENT, "a frame without scopes depends on text"
        if row != CLOSED:
            break
        if not stack:
            return None
        frame, label, stack = int(stacks.top[stack]), following, int(stacks.rest[stack])
    if row < 0:
        return None
    if following < 0:
        back, following = int(stacks.leaves[-following]), int(stacks.enters[-following])
        stack = stacks.push(stack, back, int(tables.scopes[back]))
    scopes = int(stacks.scopes[stack]) + int(tables.scopes[following])
    texts = texts[:scopes] + (b"",) * (scopes - len(texts))
    return Configuration(row, following, 0, texts, stack)


def token_edges(tables: Tables, at: Configuration) -> tuple[Configuration, TokenEdges] | None:
    """The tokens that may come here as such, and where their ids are read after TOKEN_BYTE; None if there are none."""
    while tables.takes_tokens and at.row != tables.end_row:
        tables.build_row(at.row)
        edges = tables.token_rows.get(at.row)
        if edges is not None:
            return at._replace(row=edges.row), edges
        label = int(tables.accept[at.row]) - 1
        after = follow(tables, at.frame, label, at.texts, at.stack) if label >= 0 else None
        if after is None:
            break
        at = after
    return None


def reaches(tables: Tables, row: int, frame: int, wide: bool) -> bool:
    """Whether from `row` a key can be completed that `frame` allows."""
    reach, allow = int(tables.reach[row]), int(tables.allow[frame])
    if not wide:
        return bool(reach & allow)
    here, there = reach & _LOW_WORD, allow & _LOW_WORD
    words, count = tables.reach_words, allow >> 32 & _COUNT_WORDS
    return any(map(and_, words[here : here + count].tolist(), words[there : there + count].tolist()))


def ends(tables: Tables, at: Configuration) -> bool:
    """Whether the text may end here: the lexeme, and what may end with it, one after the other."""
    while at.row != tables.end_row:
        tables.build_row(at.row)
        label = int(tables.accept[at.row]) - 1
        after = follow(tables, at.frame, label, at.texts, at.stack) if label >= 0 else None
        if after is None:
            return False
        at = after
    return True


def run(tables: Tables, at: Configuration, text: bytes) -> Configuration | None:
    """The configuration after `text`, or None if it leads nowhere."""
    current: Configuration | None = at
    for byte in text:
        current = step(tables, current, byte) if current is not None else None
        if current is None:
            return None
    return current


__all__ = ["Configuration", "ends", "follow", "reaches", "run", "step", "token_edges"]


class ByteAutomaton:
    """What the automata of schemas, languages and rules have in common: tables, and where they start in them."""

    tables: Tables
    start: Configuration

    @property
    def start_row(self) -> int:
        return self.start.row

    @property
    def start_frame(self) -> int:
        return self.start.frame

    def accepts(self, text: str | bytes) -> bool:
        """Whether the whole text (UTF-8) is one that the automaton allows."""
        data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
        with self.tables.lock:
            at = run(self.tables, self.start, data)
            return at is not None and ends(self.tables, at)
