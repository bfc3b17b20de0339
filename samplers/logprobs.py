"""Log-probabilities under the model's raw distribution, always finite, so that they can be written as JSON."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .cuts import highest
from .protocols import Logits

# What stands for minus infinity; the value that OpenAI's API uses for "very unlikely".
FLOOR = -9999.0


@dataclass(frozen=True, slots=True)
class RowLogprobs:
    """Natural logarithms for one token: `chosen` its own, `top` the likeliest as (id, logprob), best first."""

    chosen: float
    top: tuple[tuple[int, float], ...]


def logprobs(raw: Logits, token: int, top: int) -> RowLogprobs:
    """Of `token`, and of the `top` likeliest tokens, under softmax(raw), `raw` float32 [V]."""
    peak = float(raw.max())
    if not np.isfinite(peak):
        return RowLogprobs(FLOOR, ())
    log_total = peak + float(np.log(np.exp(raw - np.float32(peak)).sum(dtype=np.float64)))

    def of(id_: int) -> float:
        value = float(raw[id_]) - log_total
        return max(value, FLOOR) if np.isfinite(value) else FLOOR

    best = highest(raw, top) if top else ()
    return RowLogprobs(of(token), tuple((int(id_), of(int(id_))) for id_ in best))
