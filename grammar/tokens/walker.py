"""The kernel bound to one arena: its tables, mask rows and scratch memory, and the rounds of walking and filling."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from time import perf_counter
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import tvm_ffi

from ..automaton.memory import reserve, view
from ..automaton.tables import Tables
from ..automaton.turns import Breath
from .compiled import load_walk
from .rows import MaskRows
from .vocabulary import Vocabulary
from .walkcodes import (
    CHANGED,
    COUNTERS,
    DEPENDENT,
    EXITS,
    FIRST,
    ITEM,
    LOWEST,
    MISSES,
    MORE,
    PATH_ROWS,
    PENDING,
    VISITED,
)

Int32s = npt.NDArray[np.int32]
Indexes = npt.NDArray[np.intp]
"""Numpy takes other integers for indexes at ten times the price."""
Item = tuple[int, int, int, int, int, int] | tuple[int, int, int, int, int, int, int]
"""Node, kind, frame, row or label, n, base row, stack (by default that of the walk); see `kernels`."""
Arrays = tuple[npt.NDArray[Any], ...]
NOTHING: Final = np.zeros(0, np.int32)
NO_WORDS: Final = np.zeros(0, np.intp)
NO_ITEMS: Final = np.zeros((0, ITEM), np.int32)


class Changes(NamedTuple):
    """A mask as what it changes in its base row: the numbers of words, and what they are.

    dependent: tokens whose fate the recorded text decides, their bits are not set.
    """

    words: Indexes = NO_WORDS
    values: Int32s = NOTHING
    dependent: tuple[int, ...] = ()


class _Scratch:
    """What one walk writes to, and the kernel's arguments with it."""

    def __init__(self, limit: int, width: int, size: int, before: Arrays) -> None:
        """`before`: the kernel's other arguments, up to the scratch arrays; `size`: of the vocabulary."""
        self.items: Int32s = reserve(2 * limit * ITEM, np.int32).reshape(2, limit, ITEM)
        self.cells = view(self.items)
        self.touched = reserve(width, np.int32)
        self.index, self.value = reserve(width, np.intp), reserve(width, np.int32)
        self.misses = reserve(4 * limit, np.int32).reshape(-1, 2)
        self.dependent = reserve(limit, np.int32)
        self.exits: Int32s = reserve(limit * ITEM, np.int32).reshape(limit, ITEM)
        self.cost: Int32s = reserve(size, np.int32)
        counters = reserve(COUNTERS, np.int32)
        self.counters = view(counters)
        # Each node opens at most one frame.
        path, own_top, own_rest = reserve(PATH_ROWS * 5, np.int32), reserve(limit, np.int32), reserve(limit, np.int32)
        first = (path, own_top, own_rest, reserve(width, np.int32), self.touched, self.index, self.value, self.misses)
        arrays = (*before, *first, self.exits, self.dependent, self.cost, self.items)
        self._alive = arrays  # they are handed over by address
        addresses = [ctypes.c_void_p(array.ctypes.data) for array in arrays]
        self.arguments = (tvm_ffi.from_dlpack(counters), *addresses, width, limit)


class Walker:
    """Walks for masks. Callers hold the arena's lock; a walk may lend it while it waits for what it missed, so each
    that is under way has scratch memory of its own.

    cost     int32 [size], what the last walk noted, if it had COSTS
    visited  nodes visited by the last walk
    lowest   the smallest stack, of those below the configuration's, that the last walk came down to
    """

    def __init__(self, vocabulary: Vocabulary, tables: Tables, rows: MaskRows) -> None:
        self._tables = tables
        self._kernel = load_walk()
        self._tries = tries = vocabulary.tries
        # A walk holds at most one item per node it visits; the tries besides the main one are parts of it, merged.
        self._limit, self._width = 4 * vocabulary.node_count + 64, rows.words
        self._size = vocabulary.size
        self.visited = self.lowest = 0
        self._allow = view(tables.allow)
        stacks = tables.stacks
        self._before: Arrays = (
            tries.nodes, tries.roots, tries.first, tries.order, tries.summary, tries.characters, tries.lengths,
            tables.rows, tables.form, tables.edge_byte, tables.edge_next, tables.accept, tables.need, tables.reach,
            tables.reach_words, tables.loops, tables.base, tables.capacity, tables.allow, tables.low, tables.high,
            tables.next_row, tables.next_frame, stacks.enters, stacks.leaves, stacks.top, stacks.rest, rows.table,
        )  # fmt: skip
        self._last = self._scratch()
        self._idle = [self._last]

    @property
    def cost(self) -> Int32s:
        """See above; until the next walk."""
        return self._last.cost

    def _scratch(self) -> _Scratch:
        return _Scratch(self._limit, self._width, self._size, self._before)

    def walk(
        self,
        items: Sequence[Item],
        *,
        base: int,
        exits: Int32s = NO_ITEMS,
        later: Sequence[Item] = (),
        frame: int = 0,
        count: int = 0,
        stack: int = 0,
        mode: int = 0,
        free_row: int = 0,
        allow: int = -1,
        costs: tuple[Int32s, Int32s] | None = None,
    ) -> Changes:
        """Walks from `exits` (completed by `frame`, `count` and `stack`), then from `items`, over the mask row `base`.

        `later`: items for when these are done, so that none of them undoes what those set.
        `mode` may hold CONTEXT_FREE, COSTS and PLAIN_BASE; `free_row` is a row that every plain character leads back to
        (costs of whole subtrees are known there); `allow` filters keys where there is no frame; `costs`: of tokens, as
        known in advance. Whatever the walk misses is filled on the way. An exception of a handler or a row's builder
        leaves the walker as it was.
        """
        scratch = self._idle.pop() if self._idle else self._scratch()
        if costs is not None:
            scratch.cost[costs[0]] = costs[1]
        counters, cells = scratch.counters, scratch.cells
        waiting = len(exits)
        if waiting:
            scratch.items[0, :waiting] = exits
        elif not items:
            items, later = later, ()
        _put(items, cells, waiting * ITEM, stack)
        waiting += len(items)
        here = 0
        began, no_frame = perf_counter(), self._allow
        breath: Breath | None = None
        mode |= FIRST | (MORE if later else 0)
        try:
            while True:
                no_frame[0] = allow
                self._kernel(*scratch.arguments, waiting, here, frame, count, stack, base, mode, free_row)
                no_frame[0] = -1
                waiting = counters[PENDING]
                misses = counters[MISSES]
                if misses:
                    breath = breath or Breath(self._tables.pauses, began)
                    self._tables.fill_requests(scratch.misses[:misses].tolist(), breath)
                mode &= ~FIRST
                here = 1 - here
                if not waiting:
                    if not mode & MORE:
                        break
                    mode &= ~MORE
                    waiting, here = len(later), 0
                    _put(later, cells, 0, stack)
        except BaseException:
            no_frame[0] = -1
            scratch.touched[:] = 0
            raise
        finally:
            self._idle.append(scratch)
        self._last = scratch
        self.visited, self.lowest = counters[VISITED], counters[LOWEST]
        changed = counters[CHANGED]
        dependent: list[int] = []
        if counters[DEPENDENT]:
            for node in scratch.dependent[: counters[DEPENDENT]].tolist():
                dependent += self._tries.below(node).tolist()
        return Changes(scratch.index[:changed].copy(), scratch.value[:changed].copy(), tuple(dependent))

    def exits(self) -> Int32s:
        """[k, 7]: the ends of the lexeme that the last, context-free walk met, as items that any frame can finish."""
        return self._last.exits[: self._last.counters[EXITS]].copy()


def _put(items: Sequence[Item], cells: memoryview[int], cell: int, stack: int) -> None:
    """Writes items from a cell on."""
    for item in items:
        for number in item:
            cells[cell] = number
            cell += 1
        if len(item) < ITEM:
            cells[cell] = stack
            cell += 1
