"""Stacks of frames, each interned as a number: the frame on its top and the number of the rest, 0 for the empty one.

    top     int32   the frame that goes on when what was opened ends
    rest    int32   the stack below it; always a smaller number, so that a chain runs downwards
    scopes  int32   how many texts all its frames record

What a transition opens is a pair, interned as a number from 1 on:

    enters  int32   the frame to go on in
    leaves  int32   the frame that is put on the stack

Numbers from TEMPORARY on are the stacks of one walk of the kernel, forgotten when it ends.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from ..errors import FullError
from .memory import reserve

TEMPORARY: Final = 1 << 22

Int32s = npt.NDArray[np.int32]


class Stacks:
    """The stacks of one arena; append-only. Pushing takes the tables' lock."""

    def __init__(self) -> None:
        self.top: Int32s = reserve(TEMPORARY, np.int32)
        self.rest: Int32s = reserve(TEMPORARY, np.int32)
        self.scopes: Int32s = reserve(TEMPORARY, np.int32)
        self.enters: Int32s = reserve(TEMPORARY, np.int32)
        self.leaves: Int32s = reserve(TEMPORARY, np.int32)
        self._known: dict[int, int] = {}
        self._pairs: dict[int, int] = {}
        self._used = 1

    def __len__(self) -> int:
        return self._used

    def push(self, stack: int, frame: int, scopes: int) -> int:
        """The stack with `frame`, which records `scopes` texts, on top of `stack`."""
        key = frame << 32 | stack
        known = self._known.get(key)
        if known is None:
            known = self._used
            if known >= TEMPORARY:
                raise _full()
            self.top[known], self.rest[known] = frame, stack
            self.scopes[known] = self.scopes[stack] + scopes
            self._used = known + 1
            self._known[key] = known
        return known

    def pair(self, frame: int, back: int) -> int:
        """The number of going on in `frame` with `back` on the stack."""
        key = back << 32 | frame
        known = self._pairs.get(key)
        if known is None:
            known = len(self._pairs) + 1
            if known >= TEMPORARY:
                raise _full()
            self.enters[known], self.leaves[known] = frame, back
            self._pairs[key] = known
        return known


def _full() -> FullError:
    return FullError(f"the automaton's tables are full: {TEMPORARY} stacks", remedy="use a new GrammarCompiler")
