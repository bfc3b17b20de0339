"""The seeded draw: greedy rows take the highest logit, others invert the cumulative distribution."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .base import BaseSampler
from .protocols import ChoiceView, Logits
from .random import uniform

_BLOCK = 256


class SeededSampler(BaseSampler):
    """The engine's own sampler.

    The draw for output position k uses number k of the choice's stream, so it does not depend on the rest of the batch,
    on preemption, or on how the prompt was computed.
    """

    name = "seeded"

    def choose(self, logits: Logits, rows: Sequence[ChoiceView], /) -> NDArray[np.int64]:
        """See Sampler.choose. `logits` is overwritten where rows are drawn."""
        drawn = [i for i, row in enumerate(rows) if not row.params.greedy]
        if len(drawn) == len(rows):
            return invert(logits, rows)
        tokens: NDArray[np.int64] = logits.argmax(axis=1).astype(np.int64, copy=False)
        if drawn:
            tokens[drawn] = invert(logits[drawn], [rows[i] for i in drawn])
        return tokens


def invert(logits: Logits, rows: Sequence[ChoiceView], heats: Sequence[float] | None = None) -> NDArray[np.int64]:
    """Draw from softmax(logits / heats), float32 [R, V], by inverse transform over blocks; `logits` is overwritten.

    A running float32 sum over a whole vocabulary would drift; sums of small blocks, accumulated in float64, do not.
    """
    weights = logits
    np.subtract(logits, logits.max(axis=1, keepdims=True), out=weights)
    if heats is not None and any(heat != 1.0 for heat in heats):
        with np.errstate(over="ignore"):
            np.divide(weights, np.array(heats, np.float32)[:, None], out=weights)
    np.exp(weights, out=weights)
    starts = np.arange(0, weights.shape[1], _BLOCK)
    cumulative = np.add.reduceat(weights, starts, axis=1).astype(np.float64).cumsum(axis=1)
    total = cumulative[:, -1]
    target = uniform([row.stream for row in rows], [len(row.output) for row in rows]) * total
    tokens = np.empty(len(rows), np.int64)
    for i, want in enumerate(target):
        block = int(np.searchsorted(cumulative[i], want, side="right"))
        # Rounding may leave the target at or past the end: the last block with any weight holds it then.
        block = min(block, int(np.searchsorted(cumulative[i], total[i], side="left")))
        low = block * _BLOCK
        part = weights[i, low : low + _BLOCK].astype(np.float64)
        rest = want - (cumulative[i, block - 1] if block else 0.0)
        inside = int(np.searchsorted(part.cumsum(), rest, side="right"))
        if inside >= len(part):
            inside = int(np.flatnonzero(part)[-1])
        tokens[i] = low + inside
    return tokens
