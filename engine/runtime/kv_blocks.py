"""Which rows of a step the attention computes together: blocks of rows whose sequences begin with the same pages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .kernels.attention import QUERIES

Int32s = npt.NDArray[np.int32]

TOGETHER = 8
"""Rows of a block of several sequences: threads share the blocks, so that a few smaller ones are better than one."""
_FEW_ROWS = 4
_COMMON = 4
"""Pages that sequences must have in common to be taken together."""


@dataclass(frozen=True)
class Blocks:
    """Block k has the rows `rows[bounds[k]]` to `rows[bounds[k + 1]]`, whose sequences share their first `pages[k]`
    pages. All int32: `bounds` [K + 1], `rows` [N], `pages` [K].
    """

    bounds: Int32s
    rows: Int32s
    pages: Int32s


def blocks_of(lengths: Sequence[int], tables: Sequence[Sequence[int]]) -> Blocks:
    """Blocks for sequences of so many rows, one after the other, and so many pages.

    Rows of a prompt's chunk go in blocks of their own; sequences with few rows that have forked from one another, as
    decodes that share a prefix and their drafts, go together. All rows in a block share its `pages` physically.
    """
    starts = [0]
    for length in lengths:
        starts.append(starts[-1] + length)
    forks: dict[int, list[int]] = {}
    for i, (length, table) in enumerate(zip(lengths, tables, strict=True)):
        # Pages are shared from the first on: who has one in common at a place has all before it in common.
        key = table[_COMMON - 1] if length <= _FEW_ROWS and len(table) > _COMMON else -1 - i
        forks.setdefault(key, []).append(i)
    bounds, rows, pages = [0], [], []
    for group in forks.values():
        own = [row for i in group for row in range(starts[i], starts[i + 1])]
        common = len(tables[group[0]]) if len(group) == 1 else _common([tables[i] for i in group])
        size = QUERIES if len(group) == 1 else TOGETHER
        for at in range(0, len(own), size):
            rows += own[at : at + size]
            bounds.append(len(rows))
            pages.append(common)
    return Blocks(np.array(bounds, np.int32), np.array(rows, np.int32), np.array(pages, np.int32))


def _common(tables: Sequence[Sequence[int]]) -> int:
    """How many first pages all tables have; at least `_COMMON`."""
    first = tables[0]
    low, high = _COMMON, min(map(len, tables))
    while low < high:
        middle = (low + high + 1) // 2
        if all(table[middle - 1] == first[middle - 1] for table in tables):
            low = middle
        else:
            high = middle - 1
    return low
