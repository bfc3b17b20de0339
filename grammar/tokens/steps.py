"""Tokens byte by byte, in Python: what accepting one does. The meaning is `automaton.stepper`'s, at a higher speed.

The count of a frame without upper bound stops at its lower one, so that long texts come back to the same state.
"""

from __future__ import annotations

from ..automaton.codes import (
    BIG,
    CHECK_LOW,
    CLOSED,
    COUNT,
    DENSE,
    EDGE_SHIFT,
    LABEL_MASK,
    MAX_EDGES,
    NEED,
    REACH,
    REACH_WIDE,
    ROW_MASK,
    TOKEN_BYTE,
)
from ..automaton.frames import FrameHandler
from ..automaton.memory import view
from ..automaton.stepper import Configuration, ends, follow, reaches, run, token_edges
from ..automaton.tables import Tables
from ..automaton.turns import Breath

_CHECKED = COUNT | NEED | REACH | REACH_WIDE


class Stepper:
    """Steps over the tables. Callers hold the arena's lock, since rows and transitions are made as they are met."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._rows, self._form = view(tables.rows), view(tables.form)
        self._accept, self._need, self._allow = view(tables.accept), view(tables.need), view(tables.allow)
        self._reach = view(tables.reach)
        self._low, self._high, self._scopes = view(tables.low), view(tables.high), view(tables.scopes)
        self._base, self._capacity = view(tables.base), view(tables.capacity)
        self._next_row, self._next_frame = view(tables.next_row), view(tables.next_frame)
        self._edge_byte, self._edge_next = view(tables.edge_byte), view(tables.edge_next)
        stacks = tables.stacks
        self._top, self._rest, self._stack_scopes = view(stacks.top), view(stacks.rest), view(stacks.scopes)
        self._enters, self._leaves = view(stacks.enters), view(stacks.leaves)
        self._known: dict[int, bool] = {}

    def run(self, start: Configuration, data: bytes) -> Configuration | None:
        """The configuration after `data`; None if a byte is refused."""
        if TOKEN_BYTE in data:
            return run(self.tables, start, data)
        row, frame, n, texts, stack = start
        rows, form, edge_byte = self._rows, self._form, self._edge_byte
        high_of, low_of = self._high, self._low
        base_of, capacity, scopes = self._base, self._capacity, self._scopes
        next_row, next_frame, push = self._next_row, self._next_frame, self.tables.stacks.push
        written = 0  # bytes of `data` that the texts hold
        for at_byte, byte in enumerate(data):
            while True:
                base = form[2 * row]
                if base == DENSE:
                    value = rows[row << 8 | byte]
                elif base < 0:
                    value = self.tables.value(row, byte)
                else:
                    packed = form[2 * row + 1]
                    first = packed >> EDGE_SHIFT
                    for edge in range(first, first + (packed & MAX_EDGES)):
                        if edge_byte[edge] == byte:
                            value = self._edge_next[edge]
                            break
                    else:
                        value = rows[base - 1 << 8 | byte]
                if value > 0:
                    row = value & ROW_MASK
                    if value & _CHECKED:
                        high = high_of[frame]
                        if high != BIG:
                            if value & COUNT:
                                n += 1
                            if value & (COUNT | NEED) and n + self._need[row] > high:
                                return None
                        elif value & COUNT and n < low_of[frame]:
                            n += 1  # without an upper bound the count is of no interest beyond the lower one
                        if value & REACH and not self._reach[row] & self._allow[frame]:
                            return None
                        if value & REACH_WIDE and not reaches(self.tables, row, frame, True):
                            return None
                    break
                if value < 0:
                    if -value & CHECK_LOW and n < low_of[frame]:
                        return None
                    label, ended = (-value & LABEL_MASK) - 1, at_byte + 1
                else:
                    label, ended = self._accept[row] - 1, at_byte
                    if label < 0:
                        return None
                if texts:
                    texts = _append(texts, data[written:ended])
                written = ended
                while True:
                    at = base_of[frame] + label
                    target = next_row[at] if label < capacity[frame] else 0
                    if target and texts and scopes[frame] and not self._told(frame, label, at):
                        target = 0
                    if target != CLOSED or not stack:
                        break
                    frame, label, stack = self._top[stack], next_frame[at], self._rest[stack]
                if target > 0:
                    row, frame, n = target, next_frame[at], 0
                    if frame < 0:
                        back, frame = self._leaves[-frame], self._enters[-frame]
                        stack = push(stack, back, scopes[back])
                    if texts or scopes[frame] or self._stack_scopes[stack]:
                        count = self._stack_scopes[stack] + scopes[frame]
                        texts = texts[:count] + (b"",) * (count - len(texts))
                else:
                    after = follow(self.tables, frame, label, texts, stack)
                    if after is None:
                        return None
                    row, frame, n, texts, stack = after
                if value < 0:
                    break
        return Configuration(row, frame, n, _append(texts, data[written:]) if texts else texts, stack)

    def _told(self, frame: int, label: int, at: int) -> bool:
        """Whether the transition of a frame that records text, at the place `at`, is the same whatever the text."""
        known = self._known.get(at)
        if known is None:
            handler = self.tables.handler(frame)
            known = self._known[at] = isinstance(handler, FrameHandler) and handler.told(label)
        return known

    def forced(self, start: Configuration, limit: int) -> bytes:
        """The bytes that every text must go on with, at most `limit`; none where the text may end."""
        found = bytearray()
        at = start
        breath = Breath(self.tables.pauses)
        while len(found) < limit and not ends(self.tables, at):
            breath()
            step = self._only_step(at)
            if step is None:
                break
            byte, at = step
            found.append(byte)
        return bytes(found)

    def _only_step(self, at: Configuration) -> tuple[int, Configuration] | None:
        if token_edges(self.tables, at) is not None:
            return None
        row = at[0]
        values = self.tables.values(row)
        candidates = range(256) if self._accept[row] else values.nonzero()[0].tolist()
        only: tuple[int, Configuration] | None = None
        for byte in candidates:
            after = self.run(at, bytes((byte,)))
            if after is not None:
                if only is not None:
                    return None
                only = (byte, after)
        return only


def _append(texts: tuple[bytes, ...], more: bytes) -> tuple[bytes, ...]:
    return tuple([text + more for text in texts])

