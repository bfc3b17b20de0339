"""Rows of logits on their way from the whole vocabulary to the few tokens that cuts leave.

Most cuts keep a few hundred tokens at most. So the first cut of a row looks for them by block: a block's highest logit
says whether anything in it can matter. What comes after works on the candidates alone. Results are those of the cuts'
definitions on the whole row, bit by bit, whatever else is in the batch.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import cuts
from .protocols import ChoiceView, Logits
from .random import uniform
from .transforms import Cut, MinP, TopK, TopP

STRIDE = 64
"""Tokens in a block: those whose ids have the same remainder, so that a block's highest is found by whole rows."""
FIRST_BLOCKS = 128
"""Blocks in which a nucleus is looked for before the whole row is."""
_NO = np.float32(-np.inf)


class Narrowed:
    """One row: all of the vocabulary at first, then candidates. Temperature is divided by once values are read.

    `x`: float32 [V], the row's logits, changed only by `spread`.
    """

    __slots__ = ("_blocks", "heat", "ids", "peak", "values", "x")

    def __init__(self, x: Logits) -> None:
        self.x = x
        self.heat = 1.0
        self.ids: NDArray[np.int64] | None = None
        self.values: NDArray[np.float32] | None = None
        self._blocks: Logits | None = None

    def cut(self, cut: Cut, row: ChoiceView) -> None:
        """Only what the cut keeps is left."""
        if self.values is None:
            first = self._first(cut, row)
            if first is not None:
                self.ids, self.values = first
                return
            self.values = self._heated(self.x)
        kept = cut.keep(self.values, row, self.ids)
        self.ids = kept if self.ids is None else self.ids[kept]
        self.values = self.values[kept]

    def spread(self) -> None:
        """Write what is left back into `x`, temperature applied, for a transform that wants the whole row."""
        if self.ids is not None and self.values is not None:
            self.x.fill(_NO)
            self.x[self.ids] = self.values
        elif self.heat != 1.0:
            self.x[:] = self._heated(self.x)
        self.ids = self.values = self._blocks = None
        self.heat = 1.0

    def draw(self, row: ChoiceView) -> int:
        """One of the candidates, by the choice's own random number at this place."""
        assert self.ids is not None and self.values is not None
        if len(self.ids) == 1:
            return int(self.ids[0])
        weights = np.exp(self.values - self.values.max())
        reached = np.cumsum(weights, dtype=np.float64)
        target = float(uniform([row.stream], [len(row.output)])[0]) * float(reached[-1])
        at = int(np.searchsorted(reached, target, side="right"))
        if at == len(reached):  # rounding
            at = int(np.flatnonzero(weights)[-1])
        return int(self.ids[at])

    def _heated(self, x: NDArray[np.float32]) -> NDArray[np.float32]:
        if self.heat == 1.0:
            return x
        with np.errstate(over="ignore"):
            heated: NDArray[np.float32] = (x - self._peak()) / np.float32(self.heat)
        return heated

    def _peak(self) -> np.float32:
        blocks = self._maxima()
        tail = self.x[len(blocks) * STRIDE :]
        peak: np.float32 = max(blocks.max(), tail.max()) if len(tail) else blocks.max()
        return peak

    def _maxima(self) -> Logits:
        """The highest logit of each block."""
        if self._blocks is None:
            count = len(self.x) // STRIDE
            head = self.x[: count * STRIDE].reshape(STRIDE, count)
            self._blocks = head.max(axis=0) if count else np.empty(0, np.float32)
        return self._blocks

    def _above(self, floor: np.float32) -> NDArray[np.int64]:
        """Ids of the logits that are at least `floor`, ascending."""
        maxima = self._maxima()
        count = len(maxima)
        blocks = np.flatnonzero(maxima >= floor)
        if 4 * len(blocks) > count:
            return np.flatnonzero(self.x >= floor)
        place, block = np.nonzero(self.x[: count * STRIDE].reshape(STRIDE, count)[:, blocks] >= floor)
        found = place * count + blocks[block]
        tail = np.flatnonzero(self.x[count * STRIDE :] >= floor) + count * STRIDE
        return np.concatenate([found, tail]) if len(tail) else found

    def _first(self, cut: Cut, row: ChoiceView) -> tuple[NDArray[np.int64], NDArray[np.float32]] | None:
        """What the row's first cut keeps, found by block; None where that does not pay."""
        p = row.params
        if isinstance(cut, TopK):
            floor = self._floor(p.top_k)
        elif isinstance(cut, TopP):
            floor = self._floor(FIRST_BLOCKS)
        elif isinstance(cut, MinP):
            # A little lower, for rounding: the cut itself decides among these.
            floor = self._peak() + np.float32(self.heat * np.log(p.min_p) * 1.001)
        else:
            return None
        if floor is None or not np.isfinite(floor):
            return None
        ids = self._above(floor)
        values = self._heated(self.x[ids])
        if isinstance(cut, TopP):
            weights = np.exp(self._heated(self.x) - values.max())
            total = float(weights.sum(dtype=np.float64))
            if float(weights[ids].sum(dtype=np.float64)) < p.top_p * total:
                return None
            kept = cuts.top_p(values, p.top_p, total)
        else:
            kept = cut.keep(values, row, ids)
        return ids[kept], values[kept]

    def _floor(self, count: int) -> np.float32 | None:
        """A value that at least `count` logits reach; None if blocks cannot tell."""
        maxima = self._maxima()
        if count > len(maxima) // 2:
            return None
        floor: np.float32 = np.partition(maxima, len(maxima) - count)[len(maxima) - count]
        return floor
