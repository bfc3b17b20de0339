"""Rows of token masks, as wide as the model's logits, and who is complete."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ..samplers import masks as bits


class Masks:
    """Rows that matchers fill.

    `vocabulary_size`: V, the width of the logits. `tokens`: how many ids the tokenizer has; logits beyond them are
    padding, and never drawn. `ends`: ids that end an output.
    """

    def __init__(self, vocabulary_size: int, tokens: int, ends: Sequence[int]) -> None:
        self._free = bits.pack(range(min(tokens, vocabulary_size)), vocabulary_size)
        self._padded = tokens < vocabulary_size
        self._ends = bits.pack([id_ for id_ in ends if id_ < vocabulary_size], vocabulary_size)

    @property
    def width(self) -> int:
        """W, the words of a row."""
        return len(self._free)

    @property
    def padded(self) -> bool:
        """Whether logits have padding, so that a row is needed even where every token is allowed."""
        return self._padded

    def free(self, count: int) -> NDArray[np.uint32]:
        """uint32 [count, W]: rows that allow every token, to be changed."""
        rows = np.empty((count, len(self._free)), np.uint32)
        rows[:] = self._free
        return rows

    def only_ends(self, row: NDArray[np.uint32]) -> bool:
        """Whether only an end token may follow, so that there is nothing left to ask the model."""
        return bool(bits.only(row[None], self._ends)[0])
