"""The kernel bound to one arena: its tables, mask rows and scratch memory, and the rounds of walking and filling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt
import tvm_ffi

from ..automaton.memory import reserve
from ..automaton.tables import Tables
from .compiled import load_walk
from .rows import MaskRows
from .trie import Trie
from .walkcodes import (
    CHANGED,
    COUNTERS,
    DEPENDENT,
    EXITS,
    FIRST,
    ITEM,
    LAST,
    MISSES,
    PENDING,
    STACK_ROWS,
    VISITED,
)

Int32s = npt.NDArray[np.int32]
Item = tuple[int, int, int, int, int, int]

_SPARE: Final = 64


@dataclass(frozen=True)
class BoundTrie:
    """A trie, and its arrays as the kernel takes them."""

    trie: Trie
    tensors: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Walk:
    """One walk over a trie: from where, what completes items without a frame, and bits of `walkcodes` besides."""

    trie: BoundTrie
    items: Sequence[Item] | Int32s
    frame: int = 0
    count: int = 0
    mode: int = 0


def bind(trie: Trie) -> BoundTrie:
    """The trie with its arrays seen as tensors, in the order of the kernel's parameters; nothing is copied."""
    arrays = (trie.nodes, trie.roots, trie.first, trie.order, trie.summary, trie.characters, trie.lengths)
    return BoundTrie(trie, tuple(tvm_ffi.from_dlpack(array) for array in arrays))


class Walker:
    """Walks for one mask at a time: `begin`, any number of `walk`, then `take` or `abandon`.

    Not thread-safe: callers hold the arena's lock.
    """

    def __init__(self, trie: Trie, tables: Tables, rows: MaskRows, size: int) -> None:
        self._tables = tables
        self._walk = load_walk()
        self.main = bind(trie)
        # A walk holds at most one item per node; the tries of what remains after exits have at most twice the nodes.
        limit = 2 * len(trie.nodes) + _SPARE
        width = rows.words
        self._items: list[Int32s] = [_items(limit), _items(limit)]
        self._touched = reserve(width, np.int32)
        self._index = reserve(width, np.int32)
        self._value = reserve(width, np.int32)
        self._misses = reserve(4 * limit, np.int32).reshape(2 * limit, 2)
        self._exits = _items(limit)
        self._dependent = reserve(limit, np.int32)
        self.cost = reserve(size, np.int32)
        self._counters = reserve(COUNTERS, np.int32)
        self._counter = view(self._counters)
        self._item_cells = [view(items) for items in self._items]
        self._buffers = [tvm_ffi.from_dlpack(items) for items in self._items]
        arrays = (
            tables.rows, tables.form, tables.edge_byte, tables.edge_next, tables.accept, tables.need, tables.reach,
            tables.reach_words, tables.loops, tables.base, tables.capacity, tables.allow, tables.low, tables.high,
            tables.next_row, tables.next_frame,
            rows.table, reserve(STACK_ROWS * 4, np.int32).reshape(-1, 4), reserve(width, np.int32),
            self._touched, self._index, self._value, self._misses, self._exits, self._dependent, self.cost,
            self._counters,
        )  # fmt: skip
        self._fixed = tuple(tvm_ffi.from_dlpack(array) for array in arrays)
        self._base = 0
        self._mode = FIRST
        self._free_row = 0

    def begin(self, base: int, mode: int = 0, free_row: int = 0) -> None:
        """Begins a mask over the row `base` of the mask rows.

        `mode` may hold CONTEXT_FREE, COSTS and PLAIN_BASE; `free_row` is a row that every plain character leads back to
        (costs of whole subtrees are known there).
        """
        self._base = base
        self._mode = FIRST | mode
        self._free_row = free_row

    def walk(self, walk: Walk, *, last: bool) -> list[int]:
        """Walks to the end, nothing pending. Returns tokens that depend on recorded text.

        `last`: no more walks follow for this mask. An exception of a handler or a row's builder leaves the walker
        ready for `begin`.
        """
        counter, items, tensors = self._counter, walk.items, walk.trie.tensors
        here = 0
        view = self._item_cells[0]
        if len(items) == 1:
            for column, number in enumerate(items[0]):
                view[column] = number
        else:
            self._items[0][: len(items)] = items
        pending = len(items)
        ending = walk.mode | (LAST if last else 0)
        counter[DEPENDENT] = 0
        dependent: list[int] = []
        try:
            while True:
                self._walk(
                    *tensors, *self._fixed, self._buffers[here], self._buffers[1 - here],
                    pending, walk.frame, walk.count, self._base, self._mode | ending, self._free_row,
                )  # fmt: skip
                self._mode &= ~FIRST
                pending = counter[PENDING]
                if not pending:
                    break
                if counter[MISSES]:
                    self._tables.fill_requests(self._misses[: counter[MISSES]].tolist())
                here = 1 - here
        except BaseException:
            self.abandon()
            raise
        if counter[DEPENDENT]:
            for node in self._dependent[: counter[DEPENDENT]].tolist():
                dependent += walk.trie.trie.tokens_below(node).tolist()
        return dependent

    def take(self) -> tuple[Int32s, Int32s]:
        """Numbers of the words in which the mask differs from its base row, and their values; after the last walk."""
        changed = self._counter[CHANGED]
        return self._index[:changed].copy(), self._value[:changed].copy()

    def exits(self) -> Int32s:
        """[k, 6]: the ends of the lexeme that a context-free walk met, as items that any frame can finish."""
        return self._exits[: self._counter[EXITS]].copy()

    @property
    def visited(self) -> int:
        """Nodes visited since `begin`."""
        return self._counter[VISITED]

    def abandon(self) -> None:
        """Drops the mask in the making."""
        self._touched[:] = 0


def _items(count: int) -> Int32s:
    items: Int32s = reserve(count * ITEM, np.int32).reshape(count, ITEM)
    return items


def view(array: npt.NDArray[Any]) -> memoryview[int]:
    """The array as a flat memoryview: scalar access through it costs a third of numpy's."""
    return cast("memoryview[int]", memoryview(cast(Any, array.reshape(-1))))
