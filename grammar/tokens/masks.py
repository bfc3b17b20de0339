"""Masks of configurations: computed once, kept sparse at first and as a dense row from their second use on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ..automaton.codes import BIG, DEAD, OTHER_KEY
from ..automaton.tables import Tables
from .parts import BaseRow, Part, Parts
from .rows import EMPTY, NONE, MaskRows
from .vocabulary import Vocabulary
from .walkcodes import AFTER, ANY_FRAME, BELOW
from .walker import BoundTrie, Item, Walker

Int32s = npt.NDArray[np.int32]

_LONG_WALK: Final = 1500
"""A row whose mask took so many nodes gets a context-free part of its own."""
_LONG_DIFFERENCE: Final = 8000
"""The same for a row that was walked as a difference to another."""


@dataclass(frozen=True, slots=True)
class SparseMask:
    """The row `row` of `base` with the words `index` replaced by `value`; stale once `base` lost that row."""

    base: BaseRow
    row: int
    index: Int32s
    value: Int32s


class Position:
    """A configuration without its recorded text, and its mask.

    table_row  dense row of the mask, or NONE
    sparse     the mask before it is dense; None: not computed, or its base row is gone
    dependent  tokens whose fate the recorded text decides; their bits are not set in the mask
    """

    __slots__ = ("count", "dependent", "frame", "row", "sparse", "table_row")

    def __init__(self, row: int, frame: int, count: int) -> None:
        self.row, self.frame, self.count = row, frame, count
        self.table_row = NONE
        self.sparse: SparseMask | None = None
        self.dependent: tuple[int, ...] = ()


class Masks:
    """The masks of one arena. Not thread-safe: callers hold the arena's lock."""

    def __init__(self, vocabulary: Vocabulary, tables: Tables, budget: int) -> None:
        """`budget`: bytes for dense rows."""
        self._tables = tables
        self.rows = MaskRows(vocabulary.words, budget)
        self._walker = Walker(vocabulary.trie, tables, self.rows, vocabulary.size)
        self._parts = Parts(vocabulary, tables, self.rows, self._walker)
        self._fixed = BaseRow()
        self._fixed.table_row = EMPTY
        self._eos = vocabulary.eos_ids
        words: dict[int, int] = {}
        for end in vocabulary.eos_ids:
            words[end >> 5] = words.get(end >> 5, 0) | 1 << (end & 31)
        self._eos_words = words
        self.computed = 0
        self.visited = 0

    def write(self, position: Position, out: Int32s) -> None:
        """Writes the mask, but for its dependent tokens, to `out`, int32 [words]."""
        row = position.table_row
        if row != NONE:
            self.rows.used[row] = 1
            out[:] = self.rows.table[row]
            return
        sparse = position.sparse
        if sparse is None or sparse.base.table_row != sparse.row:
            sparse = position.sparse = self._compute(position)
            self.rows.used[sparse.row] = 1
            out[:] = self.rows.table[sparse.row]
            out[sparse.index] = sparse.value
            return
        if position.dependent:
            out[:] = self.rows.table[sparse.row]
            out[sparse.index] = sparse.value
            return
        self.rows.used[sparse.row] = 1
        row = self.rows.claim(position)
        dense = self.rows.table[row]
        dense[:] = self.rows.table[sparse.row]
        dense[sparse.index] = sparse.value
        position.sparse = None
        out[:] = dense

    # ---- parts of a computation

    def _compute(self, position: Position) -> SparseMask:
        tables, walker = self._tables, self._walker
        row, frame, count = position.row, position.frame, position.count
        if row == tables.end_row:
            return self._end_mask()
        tables.build_row(row)
        base, walks = self._plan(row, frame, count)
        walker.begin(base.table_row)
        base_row = base.table_row
        dependent: list[int] = []
        for number, (trie, items) in enumerate(walks, 1):
            dependent += walker.walk(trie, items, frame, count, last=number == len(walks))
        if walks:
            index, value = walker.take()
            self._learn(row, walker.visited)
        else:
            index = value = np.zeros(0, np.int32)
        self.computed += 1
        label = int(tables.accept[row]) - 1
        if label >= 0:
            following = tables.fill(frame, label)
            if following == tables.end_row:
                index, value = self._with_eos(base_row, index, value)
            elif tables.scopes[frame]:
                dependent += self._eos
        position.dependent = tuple(dependent)
        return SparseMask(base, base_row, index, value)

    def _plan(self, row: int, frame: int, count: int) -> tuple[BaseRow, list[tuple[BoundTrie, list[Item] | Int32s]]]:
        """The base row, and the walks over it that make the mask: exits of the wide row first, then the difference."""
        tables, main = self._tables, self._walker.main
        wide = int(tables.wide[row])
        part = self._part(wide, frame) if wide else None
        if part is None:
            return self._fixed, [(main, [(0, BELOW, frame, row, count, 0)])]
        low, high = int(tables.low[frame]), int(tables.high[frame])
        base = part.base if high == BIG else self._parts.within(part, high - count)
        walks: list[tuple[BoundTrie, list[Item] | Int32s]] = []
        if part.remains is not None and part.free(low, high, count):
            if len(part.remains) == 1 and high == BIG:
                label, trie = part.remains[0]
                following, next_frame = tables.next(frame, label)
                if following > 0:
                    base = self._parts.folded(part)
                    walks.append((trie, [(0, BELOW, next_frame, following, 0, 0)]))
                elif following != DEAD:
                    walks.append((trie, [(0, AFTER, ANY_FRAME, label, 0, 0)]))
            else:
                walks = [(trie, [(0, AFTER, ANY_FRAME, label, 0, 0)]) for label, trie in part.remains]
        elif len(part.exits):
            walks.append((main, part.exits))
        if wide != row:
            walks.append((main, [(0, BELOW, frame, row, count, wide)]))
        return base, walks

    def _part(self, wide: int, frame: int) -> Part | None:
        tables = self._tables
        reach, allow = int(tables.reach[wide]), int(tables.allow[frame])
        bounded = int(tables.high[frame]) != BIG
        if reach == OTHER_KEY:
            return self._parts.get(wide, -1, bounded=bounded) if allow & OTHER_KEY else None
        return self._parts.get(wide, -1 if reach == -1 else allow, bounded=bounded)

    def _learn(self, row: int, visited: int) -> None:
        self.visited += visited
        wide = int(self._tables.wide[row])
        if (visited > _LONG_WALK and not wide) or (visited > _LONG_DIFFERENCE and wide != row):
            self._tables.wide[row] = row

    def _end_mask(self) -> SparseMask:
        index = np.array(list(self._eos_words), np.int32)
        value = np.array(list(self._eos_words.values()), np.int64).astype(np.uint32).view(np.int32)
        return SparseMask(self._fixed, EMPTY, index, value)

    def _with_eos(self, base: int, index: Int32s, value: Int32s) -> tuple[Int32s, Int32s]:
        words = dict(zip(index.tolist(), value.tolist(), strict=True))
        for word, bits in self._eos_words.items():
            old = words.get(word)
            words[word] = (int(self.rows.table[base, word]) if old is None else old) | bits
        wrapped = np.array(list(words.values()), np.int64).astype(np.uint32).view(np.int32)
        return np.array(list(words), np.int32), wrapped
