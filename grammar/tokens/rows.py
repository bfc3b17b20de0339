"""Dense mask rows in one table, so that the masks of a batch are one gather of row numbers.

The table is bounded; rows that were not read since the last sweep make room for new ones (a clock in batches). Whoever
owns a row is told by its `table_row` becoming NONE.
"""

from __future__ import annotations

from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from ..automaton.memory import reserve, touch

NONE: Final = -1
EMPTY: Final = 0
"""The row that allows nothing."""
PLAIN_TOKENS: Final = 1
"""The row of all plain tokens, see `trie.PLAIN`."""

_MIN_ROWS: Final = 64
_CHUNK: Final = 128


class Owner(Protocol):
    """What a row was made for."""

    table_row: int


class BaseRow:
    """A mask row that sparse masks build on. `table_row` is NONE once the row was given to another."""

    __slots__ = ("__weakref__", "table_row")

    def __init__(self) -> None:
        self.table_row = NONE


class MaskRows:
    """A table of mask rows. Not thread-safe: callers hold the arena's lock.

    table  int32 [capacity, words]
    used   uint8 [capacity], set where a row was read since the last sweep
    sweeps  how often rows were taken from their owners
    """

    def __init__(self, words: int, budget: int) -> None:
        """Room for about `budget` bytes of rows, but at least 64 rows; the system gives memory as it is touched."""
        self.words = words
        self.capacity = max(budget // (4 * words), _MIN_ROWS)
        self._memory: npt.NDArray[np.int32] = reserve(self.capacity * words, np.int32)
        self._resident = 0
        self.table: npt.NDArray[np.int32] = self._memory.reshape(self.capacity, words)
        self.used = np.zeros(self.capacity, np.uint8)
        self._owners: list[Owner | None] = [None, None]
        self._free: list[int] = []
        self.sweeps = 0

    @property
    def count(self) -> int:
        """Rows in use, the two fixed ones among them."""
        return len(self._owners) - len(self._free)

    @property
    def nbytes(self) -> int:
        """Bytes of the rows that were ever used."""
        return len(self._owners) * 4 * self.words

    def claim(self, owner: Owner) -> int:
        """A row for `owner`, whose `table_row` is set; its content is arbitrary."""
        if self._free:
            row = self._free.pop()
        elif len(self._owners) < self.capacity:
            row = len(self._owners)
            self._owners.append(None)
            if row >= self._resident:
                self._touch()
        else:
            self._sweep()
            row = self._free.pop()
        self._owners[row] = owner
        self.used[row] = 1
        owner.table_row = row
        return row

    def release(self, owner: Owner) -> None:
        """Gives a row back."""
        row = owner.table_row
        if row > PLAIN_TOKENS:
            self._owners[row] = None
            self._free.append(row)
            owner.table_row = NONE

    def _touch(self) -> None:
        """Makes the next rows resident: a first write to each of their pages would cost as much as a mask."""
        first, self._resident = len(self._owners) - 1, min(self._resident + _CHUNK, self.capacity)
        touch(self._memory, first * self.words, self._resident * self.words)

    def _sweep(self) -> None:
        idle = np.flatnonzero(self.used[2:] == 0) + 2
        if not len(idle):
            idle = np.arange(2, self.capacity, 8)
        self.used[:] = 0
        self.sweeps += 1
        for row in idle.tolist():
            owner = self._owners[row]
            if owner is not None:
                owner.table_row = NONE
                self._owners[row] = None
                self._free.append(row)


def set_bits(row: npt.NDArray[np.int32], tokens: npt.NDArray[np.int32]) -> None:
    """Sets the bits of tokens in a mask row."""
    np.bitwise_or.at(row.view(np.uint32), tokens >> 5, np.left_shift(np.uint32(1), (tokens & 31).astype(np.uint32)))
