"""Masks of configurations: computed once, kept sparse at first and as a dense row from their second use on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from ..automaton.codes import BIG, DEAD, OTHER_KEY, ROW_MASK
from ..automaton.tables import Tables
from .parts import Part, Parts
from .rows import EMPTY, NONE, BaseRow, MaskRows
from .runs import Runs
from .vocabulary import Vocabulary
from .walkcodes import AFTER, BELOW, OWN_BYTES
from .walker import Item, Walk, Walker, view

Int32s = npt.NDArray[np.int32]

_NOTHING: Final = np.zeros(0, np.int32)
_EFFORT: Final = 8000
"""Nodes visited for a row in sum, beyond which its context-free part is kept: about what making that costs."""


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
        self._runs = Runs(vocabulary, tables, self.rows)
        self._fixed = BaseRow()
        self._fixed.table_row = EMPTY
        self._eos = vocabulary.eos_ids
        self._form, self._wide = view(tables.form), view(tables.wide)
        self._reach, self._allow = view(tables.reach), view(tables.allow)
        self._low, self._high = view(tables.low), view(tables.high)
        self._accept, self._scopes = view(tables.accept), view(tables.scopes)
        self._copies: dict[tuple[int, int], bool] = {}
        self._effort: dict[int, int] = {}
        self._disjoint: dict[tuple[int, int], bool] = {}
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
        if self._form[2 * row] < 0:
            tables.build_row(row)
        base, walks = self._plan(row, frame, count)
        base_row = base.table_row
        dependent: list[int] = []
        index = value = _NOTHING
        if walks:
            walker.begin(base_row)
            last = walks[-1]
            for walk in walks:
                dependent += walker.walk(walk, last=walk is last)
            index, value = walker.take()
            self._learn(row, walker.visited)
        self.computed += 1
        label = self._accept[row] - 1
        if label >= 0:
            following = tables.fill(frame, label)
            if following == tables.end_row:
                index, value = self._with_eos(base_row, index, value)
            elif self._scopes[frame]:
                dependent += self._eos
        position.dependent = tuple(dependent)
        return SparseMask(base, base_row, index, value)

    def _plan(self, row: int, frame: int, count: int) -> tuple[BaseRow, list[Walk]]:
        """The base row, and the walks over it that make the mask."""
        label = self._accept[row] - 1
        if label >= 0:
            return self._plan_ending(row, frame, count, label)
        wide = self._wide[row]
        part = self._part(wide, frame) if wide and not self._accept[wide] else None
        if part is not None:
            return self._plan_part(part, row, frame, count)
        run = self._runs.of(row)
        if run is not None:
            return self._runs.base(run), self._runs.walks(run, frame, count)
        return self._fixed, [Walk(self._walker.main, [(0, BELOW, frame, row, count, 0)])]

    def _plan_ending(self, row: int, frame: int, count: int, label: int) -> tuple[BaseRow, list[Walk]]:
        """The plan of a row whose lexeme may have ended: what it reads itself, and what may come after the end."""
        main = self._walker.main
        whole: list[Item] = [(0, BELOW, frame, row, count, 0)]
        after, after_frame = self._tables.next(frame, label)
        if (after <= 0 and after != DEAD) or (after > 0 and not self._apart(row, after)):
            return self._fixed, [Walk(main, whole)]
        walks = [] if after == DEAD else self._runs.walks_after(after, after_frame, frame, label, main)
        part = self._part(row, frame) if self._wide[row] == row else None
        if part is None:
            return self._fixed, [*walks, Walk(main, whole, mode=OWN_BYTES)]
        base, inside = self._plan_part(part, row, frame, count)
        return base, inside + walks

    def _plan_part(self, part: Part, row: int, frame: int, count: int) -> tuple[BaseRow, list[Walk]]:
        """Exits of the wide row first, then the difference between it and `row`: it undoes what they set."""
        low, high = self._low[frame], self._high[frame]
        base = part.base if high == BIG else self._parts.within(part, high - count)
        walks: list[Walk] = []
        if part.remains is not None and part.free(low, high, count):
            if len(part.remains) == 1 and high == BIG:
                label, trie = part.remains[0]
                following, next_frame = self._tables.next(frame, label)
                if following > 0:
                    base = self._parts.folded(part)
                    walks.append(Walk(trie, [(0, BELOW, next_frame, following, 0, 0)]))
                elif following != DEAD:
                    walks.append(Walk(trie, [(0, AFTER, frame, label, 0, 0)]))
            else:
                walks = [Walk(trie, [(0, AFTER, frame, label, 0, 0)]) for label, trie in part.remains]
        elif len(part.exits):
            walks.append(Walk(self._walker.main, part.exits, frame, count))
        wide = self._wide[row]
        if wide != row:
            walks.append(Walk(self._walker.main, [(0, BELOW, frame, row, count, self._stand_in(row, wide))]))
        return base, walks

    def _apart(self, row: int, after: int) -> bool:
        """Whether no byte can be read both by `row`, whose lexeme may end, and by the row after that end."""
        known = self._disjoint.get((row, after))
        if known is None:
            both = (self._tables.values(row) != 0) & (self._tables.values(after) != 0)
            known = self._disjoint[row, after] = not self._accept[after] and not both.any()
        return known

    def _part(self, wide: int, frame: int) -> Part | None:
        reach, allow = self._reach[wide], self._allow[frame]
        bounded = self._high[frame] != BIG
        if reach == OTHER_KEY:
            return self._parts.get(wide, -1, bounded=bounded) if allow & OTHER_KEY else None
        return self._parts.get(wide, -1 if reach == -1 else allow, bounded=bounded)

    def _stand_in(self, row: int, wide: int) -> int:
        """The row that a sparse `row` is laid over, if it leads where `wide` leads: then only its edges differ."""
        under = self._form[2 * row] - 1
        if under <= 0 or under == wide or self._wide[under] != wide or self._form[2 * wide] != 0:
            return wide
        known = self._copies.get((under, wide))
        if known is None:
            rows = self._tables.rows
            known = self._copies[under, wide] = not ((rows[under] ^ rows[wide]) & ROW_MASK).any()
        return under if known else wide

    def _learn(self, row: int, visited: int) -> None:
        """A row that was much work, at once or in sum, gets a context-free part of its own."""
        self.visited += visited
        if self._wide[row] == row or self._reach[row] != -1:
            return
        effort = self._effort[row] = self._effort.get(row, 0) + visited
        if effort > _EFFORT:
            self._wide[row] = row
            del self._effort[row]

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
