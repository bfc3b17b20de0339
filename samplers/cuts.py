"""Truncations, by definition: each says which of some tokens are kept.

All take `x`, float32 [N]: logits of candidates in the order of their ids, temperature applied, at least one of them
above -inf; and return the kept ones as int64 indices into `x`, ascending, never none. They see only what the cuts
before them left, so that each is defined on the renormalised distribution of that.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]
Indices = NDArray[np.int64]

_NO = np.float32(-np.inf)
_SIZES = (128, 2048, 16384)
"""How many of the lowest keys are looked at before all of them are sorted."""


def top_k(x: Floats, k: int) -> Indices:
    """The k highest; of equal ones at the edge, the lower ids. (Fan, Lewis, Dauphin 2018, arXiv 1805.04833.)"""
    if k >= len(x):
        return np.flatnonzero(x > _NO)
    edge = np.partition(x, len(x) - k)[len(x) - k]
    if edge == _NO:
        return np.flatnonzero(x > _NO)
    kept = x > edge
    ties = np.flatnonzero(x == edge)
    kept[ties[: k - int(np.count_nonzero(kept))]] = True
    return np.flatnonzero(kept)


def top_p(x: Floats, p: float, total: float | None = None) -> Indices:
    """The smallest set of likeliest tokens whose probability reaches p. (Holtzman et al. 2020, arXiv 1904.09751.)

    `total`: the sum of exp(x - max(x)) over more than these, where `x` is the likeliest part of them; it must hold the
    answer.
    """
    weights = np.exp(x - x.max())
    return _smallest(-x, weights, p * (float(weights.sum(dtype=np.float64)) if total is None else total))


def _smallest(keys: NDArray[Any], weights: NDArray[Any], need: float) -> Indices:
    """The fewest indices, of the lowest keys and of equal ones the lower, whose weights together reach `need`."""
    for size in _SIZES:
        if size >= len(keys):
            break
        found = np.flatnonzero(keys <= np.partition(keys, size)[size])
        if float(weights[found].sum(dtype=np.float64)) >= need:
            break
    else:
        size = len(keys)
    if size >= len(keys):
        found = np.arange(len(keys))
    found = found[np.argsort(keys[found], kind="stable")]
    reached = np.cumsum(weights[found], dtype=np.float64)
    count = int(np.searchsorted(reached, min(need, float(reached[-1])), side="left")) + 1
    return np.sort(found[:count])


def min_p(x: Floats, p: float) -> Indices:
    """Tokens at least p times as likely as the likeliest. (Nguyen et al. 2024, arXiv 2407.01082.)"""
    return np.flatnonzero(x >= x.max() + np.float32(np.log(p)))


def top_n_sigma(x: Floats, n: float) -> Indices:
    """Logits within n standard deviations, of all logits above -inf, of the highest. (Tang et al. 2024, arXiv
    2411.07641.)
    """
    finite = x[x > _NO]
    return np.flatnonzero(x >= x.max() - np.float32(n * float(finite.std(dtype=np.float64))))


def typical(x: Floats, p: float) -> Indices:
    """The smallest set whose probability reaches p of the tokens whose surprise is nearest to the entropy; of equally
    near ones the lower ids. (Meister et al. 2023, arXiv 2202.00666.)
    """
    logs = log_softmax(x)
    weights = np.exp(logs)
    entropy = -float(np.sum(weights * np.where(weights > 0, logs, 0)))
    return _smallest(np.abs(-logs - entropy), weights, p * float(weights.sum()))


def exclude_top(x: Floats, threshold: float) -> Indices:
    """All but those with at least the probability `threshold`, of which only the least likely stays: XTC (p-e-w 2024,
    oobabooga/text-generation-webui, pull request 6335). Whether a token is drawn so at all is a matter of chance,
    `xtc_probability`.
    """
    logs = log_softmax(x)
    above = np.flatnonzero(logs >= np.log(threshold))
    kept = x > _NO
    if len(above) > 1:
        kept[above] = False
        kept[above[np.argmin(x[above])]] = True
    return np.flatnonzero(kept)


def surprises(x: Floats) -> NDArray[np.float64]:
    """-log2 of each probability, float64 [N]."""
    bits: NDArray[np.float64] = log_softmax(x) / -np.log(2.0)
    return bits


def below_surprise(x: Floats, mu: float) -> Indices:
    """Tokens that surprise by at most `mu` bits, the likeliest in any case: the cut of mirostat 2 (Basu et al. 2021,
    arXiv 2007.14966).
    """
    found = np.flatnonzero(surprises(x) <= mu)
    return found if len(found) else np.array([np.argmax(x)])


def log_softmax(x: Floats) -> NDArray[np.float64]:
    """Natural logarithms of the probabilities, float64 [N]."""
    wide = x.astype(np.float64)
    wide -= wide.max()
    wide -= np.log(np.exp(wide).sum())
    return wide


def highest(x: Floats, k: int) -> Indices:
    """Indices of the k highest finite values, best first, equals by index; fewer if fewer are finite."""
    kept = top_k(x, k) if k < len(x) else np.flatnonzero(x > _NO)
    return kept[np.argsort(-x[kept], kind="stable")]
