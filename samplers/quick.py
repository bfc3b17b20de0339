"""The common chain in one call: temperature, top-k, top-p, min-p and the draw of rows that ask for nothing else.

The engine brings a compiled kernel for it (engine/runtime/draw.py); what that leaves is done step by step (narrow.py).
Whether a row is quick depends on its own options alone, so its tokens do not depend on the rest of the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .protocols import ChoiceView, Logits, LogitsProcessor, MaskRows
from .random import uniform
from .transforms import MinP, Temperature, TopK, TopP, heat

LEFT = -1
EMPTY = -2
_KNOWN = (Temperature, TopK, TopP, MinP)


@dataclass(frozen=True, slots=True)
class QuickRows:
    """What to draw, by row; N rows. `rows` int32 [N]: which of the batch. `inverse_heats` float32 [N]: 1 / temperature.
    `tops` int32 [N]: k, 0 for all. `shares` float64 [N]: p, 1 for all. `floors` float32 [N]: how far below the highest
    logit a token may be, at most 0; -inf for any. `numbers` float64 [N]: in [0, 1), where in the distribution to draw.
    """

    rows: NDArray[np.int32]
    inverse_heats: NDArray[np.float32]
    tops: NDArray[np.int32]
    shares: NDArray[np.float64]
    floors: NDArray[np.float32]
    numbers: NDArray[np.float64]


class QuickDraw(Protocol):
    """The kernel."""

    def fits(self, width: int, /) -> bool:
        """Whether it takes rows of so many logits."""
        ...

    def __call__(self, logits: Logits, masks: MaskRows | None, asked: QuickRows, /) -> NDArray[np.int32]:
        """A token for each row that is asked for, int32 [N]; LEFT where it cannot tell, EMPTY where nothing is allowed.

        `logits` float32 [B, V] may be changed where `masks`, uint32 [B, V / 32], forbids.
        """
        ...


def is_quick(processors: Sequence[LogitsProcessor], active: int) -> bool:
    """Whether a row's shape is made by nothing but the transforms that the kernel knows."""
    return all(type(p) in _KNOWN for i, p in enumerate(processors) if active >> i & 1 and p.phase == "shape")


def quick_rows(at: Sequence[int], rows: Sequence[ChoiceView]) -> QuickRows:
    """What to draw for the rows `at` of the batch."""
    chosen = [rows[i] for i in at]
    params = [row.params for row in chosen]
    heats = [1.0 if p.greedy else heat(row) for p, row in zip(params, chosen, strict=True)]
    with np.errstate(over="ignore", divide="ignore"):
        logs = np.log(np.array([0.0 if p.greedy else p.min_p for p in params]))
        return QuickRows(
            np.array(at, np.int32),
            np.minimum(1.0 / np.array(heats), 1e30).astype(np.float32),
            np.array([1 if p.greedy else min(p.top_k, 1 << 30) for p in params], np.int32),
            np.array([1.0 if p.greedy else p.top_p for p in params]),
            (logs * heats).astype(np.float32),
            uniform([row.stream for row in chosen], [len(row.output) for row in chosen]),
        )
