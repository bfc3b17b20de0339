"""Which keys can still come: sets of labels as the kernels read them, in one word or in several."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from .codes import MAX_LABELS_NARROW, OTHER_KEY, REACH, REACH_WIDE
from .tables import Tables

_WORD: Final = MAX_LABELS_NARROW
_ONES: Final = (1 << _WORD) - 1
_FEW_WORDS: Final = 12


class KeyReach:
    """Sets of key labels of one automaton of keys. A set is a Python integer here, bit i for label FIRST_LABEL + i.

    In the tables up to 62 labels are one word, and more are words of 62 bits in `reach_words`. Where undeclared keys
    that match no pattern may come (`other`), theirs is label 0, and its bit is OTHER_KEY instead: the rows of such
    keys are shared by automata of both forms.
    """

    def __init__(self, tables: Tables, labels: int, other: bool) -> None:
        self.tables = tables
        self.labels = labels
        self.other = other
        self.words = -(-labels // _WORD) if labels > MAX_LABELS_NARROW else 0
        self.flag = REACH_WIDE if self.words else REACH
        self._offsets: dict[int, int] = {}
        self._masks: dict[int, int] = {}

    def value(self, mask: int) -> int:
        """The value of `reach` for rows from which the labels of `mask` can come."""
        if not self.words:
            return mask & ~1 | OTHER_KEY if self.other and mask & 1 else mask
        offset = self._offsets.get(mask)
        if offset is None:
            offset = self._offsets[mask] = self.tables.add_reach(self._packed(mask))
            self._masks[offset] = mask
        return offset

    def allow(self, mask: int) -> int:
        """The value of `allow` for a frame in which the labels of `mask` may come."""
        if not self.words:
            return self.value(mask)
        return self.value(mask) | self.words << 32 | (OTHER_KEY if self.other and mask & 1 else 0)

    def mask(self, value: int) -> int:
        """The set that a value of `reach` stands for."""
        if self.words and value != OTHER_KEY:
            return self._masks[value]
        return value & ~OTHER_KEY | 1 if value & OTHER_KEY else value

    def union(self, rows: Iterable[int]) -> int:
        """The value of `reach` for a row that leads to any of `rows`."""
        reach = self.tables.reach
        together = 0
        for row in rows:
            together |= self.mask(int(reach[row]))
        return self.value(together)

    def flag_of(self, value: int) -> int:
        """The flag with which a row of this reach is entered: the free body's needs no words."""
        return REACH if value == OTHER_KEY else self.flag

    def require_room(self, sets: int) -> None:
        """Raises BudgetError where the tables have no room for as many sets more."""
        self.tables.require_reach(sets * self.words)

    def singles(self, labels: Sequence[int], others: int = 0) -> list[int]:
        """`value(1 << label | others)` for many labels; `others` is a set that they share."""
        if not self.words:
            return [self.value(1 << label | others) for label in labels]
        at = np.array(labels, np.int64)
        packed = np.tile(self._packed(others), (len(labels), 1))
        word, bit = at // _WORD, at % _WORD
        packed[np.arange(len(labels)), word] |= np.left_shift(1, bit)
        if self.other and 0 in labels:
            raise ValueError("label 0 is that of other keys")
        first = self.tables.add_reach(packed)
        offsets = range(first, first + packed.size, self.words)
        for label, offset in zip(labels, offsets, strict=True):
            mask = 1 << label | others
            self._masks[offset] = mask
            self._offsets.setdefault(mask, offset)
        return list(offsets)

    def _packed(self, mask: int) -> npt.NDArray[np.int64]:
        if self.other and mask & 1:
            mask ^= 1
            first = OTHER_KEY
        else:
            first = 0
        if self.words <= _FEW_WORDS:
            words = np.array([mask >> _WORD * i & _ONES for i in range(self.words)], np.int64)
        else:
            size = self.words * _WORD
            raw = np.frombuffer(mask.to_bytes(-(-size // 8), "little"), np.uint8)
            bits = np.zeros((self.words, 64), np.uint8)
            bits[:, :_WORD] = np.unpackbits(raw, bitorder="little", count=size).reshape(self.words, _WORD)
            words = np.packbits(bits, axis=1, bitorder="little").view(np.int64).reshape(-1)
        words[0] |= first
        return words
