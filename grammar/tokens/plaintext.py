"""Tokens of characters that stand for themselves in a JSON string, where any of these leads back to the same row.

Most tokens of a long string are such: where they lead is known from how many characters they have.
"""

from __future__ import annotations

from typing import Final

from ..automaton.codes import BIG, COUNT, NEVER_LOOPS, ROW_MASK, STRING_LOOPS, byte_class
from ..automaton.memory import view
from ..automaton.stepper import Configuration
from ..automaton.tables import Tables
from .vocabulary import Vocabulary

_PLAIN_ASCII: Final = [byte for byte in range(0x20, 0x7F) if byte_class(byte) != NEVER_LOOPS]
_PLAIN_BYTES: Final = [*_PLAIN_ASCII, *range(0xC2, 0xF5)]
_PLAIN_LOW: Final = STRING_LOOPS & (1 << 64) - 1
_PLAIN_HIGH: Final = (STRING_LOOPS & (1 << 96) - 1) >> 64
_MOST_INSIDE: Final = 64


class PlainText:
    """What plain tokens do in the rows of one arena. Callers hold the arena's lock."""

    def __init__(self, vocabulary: Vocabulary, tables: Tables) -> None:
        self._tokens, self._characters = vocabulary.tokens, vocabulary.plain_characters
        self._tables = tables
        self._known: dict[int, bool] = {}
        self._form, self._loops, self._need = view(tables.form), view(tables.loops), view(tables.need)
        self._low, self._high = view(tables.low), view(tables.high)

    def after(self, at: Configuration, token: int) -> Configuration | None:
        """Where a plain token leads from a row that all such lead back to; None if that is not plain to see."""
        row, frame, n, texts, stack = at
        known = self._known.get(row)
        count = self._characters[token]
        if not count or not (self.leads_back(row) if known is None else known):
            return None
        high = self._high[frame]
        if high != BIG:
            n += count
            if n + self._need[row] > high:
                return None
        elif n < (low := self._low[frame]):
            n = min(n + count, low)  # without an upper bound the count is of no interest beyond the lower one
        elif not texts:
            return at
        if texts:
            data = self._tokens[token] or b""
            texts = tuple([text + data for text in texts])
        return Configuration(row, frame, n, texts, stack)

    def leads_back(self, row: int) -> bool:
        """Whether every plain character counts and leads back to the row itself."""
        known = self._known.get(row)
        if known is None:
            if self._form[2 * row] < 0:  # lazy still
                return False
            known = self._known[row] = self.refuses_none(row) and self.counts_one(row)
        return known

    def refuses_none(self, row: int) -> bool:
        """Whether no plain character is refused, here or later."""
        if _PLAIN_LOW & ~self._loops[2 * row] or _PLAIN_HIGH & ~self._loops[2 * row + 1]:
            return False
        # Inside a character the summary tells what comes after it, which a subtree of the trie may be skipped for; but
        # a token that begins a character does not go on from there.
        return bool((self._tables.values(row)[_PLAIN_BYTES] > 0).all())

    def counts_one(self, row: int) -> bool:
        """Whether every plain character that is not refused counts and leads back to the row itself."""
        tables = self._tables
        values = tables.values(row)
        ascii_values = values[_PLAIN_ASCII]
        if (ascii_values & ROW_MASK != row).any() or not (values[_PLAIN_BYTES] & COUNT).all():
            return False
        inside: set[int] = set()
        waiting = [*{*(values[0xC2:0xF5] & ROW_MASK).tolist()}]
        while waiting:
            current = waiting.pop()
            if current in inside or current == row:
                continue
            inside.add(current)
            values = tables.values(current)
            bytes_ = values.nonzero()[0]
            if len(inside) > _MOST_INSIDE or tables.need[current] != tables.need[row]:
                return False
            if (values < 0).any() or bytes_[0] < 0x80 or bytes_[-1] > 0xBF:
                return False
            waiting += {*(values[bytes_] & ROW_MASK).tolist()}
        return True
