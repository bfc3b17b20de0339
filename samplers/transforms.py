"""The engine's own logits transforms, each a LogitsProcessor over the rows that want it.

edit   100 penalties, 200 logit bias          shape  100 temperature, 200 top-k, 300 top-p, 400 min-p
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .base import BaseProcessor
from .protocols import ChoiceView, Logits, LogitsProcessor, Phase

_NO = np.float32(-np.inf)
# How far below the highest logit the candidates of a cut are looked for first: nearly always enough, and a cheap pass.
_REACHES = (6.0, 12.0, 24.0)


class _Counts:
    """Tokens of one choice, counted as they come."""

    def __init__(self, row: ChoiceView) -> None:
        self._seen = 0
        self._last = -1
        self._index: dict[int, int] = {}
        self._counts: list[int] = []
        self._prompt = frozenset(row.prompt) if row.params.repetition_penalty != 1.0 else frozenset()

    def of(self, row: ChoiceView) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Ids and how often each was output; ids of the prompt alone have count 0."""
        output = row.output
        shrunk = len(output) < self._seen or (self._seen and output[self._seen - 1] != self._last)
        if shrunk:
            self._seen, self._index, self._counts = 0, {}, []
        if not self._index:
            self._index = {token: i for i, token in enumerate(sorted(self._prompt))}
            self._counts = [0] * len(self._index)
        for token in output[self._seen :]:
            at = self._index.setdefault(token, len(self._counts))
            if at == len(self._counts):
                self._counts.append(0)
            self._counts[at] += 1
        self._seen = len(output)
        self._last = output[-1] if output else -1
        return np.fromiter(self._index, np.int64, len(self._index)), np.array(self._counts, np.float32)


class Penalties(BaseProcessor):
    """Repetition (divides or multiplies; prompt and output), presence and frequency (subtract; output only)."""

    name = "penalties"
    phase: Phase = "edit"
    order = 100
    argmax_invariant = False

    def __init__(self) -> None:
        self._counts: dict[ChoiceView, _Counts] = {}

    def wants(self, row: ChoiceView, /) -> bool:
        p = row.params
        return p.repetition_penalty != 1.0 or p.presence_penalty != 0.0 or p.frequency_penalty != 0.0

    def apply(self, logits: Logits, rows: Sequence[ChoiceView], /) -> None:
        for i, row in enumerate(rows):
            counts = self._counts.get(row)
            if counts is None:
                counts = self._counts[row] = _Counts(row)
            ids, times = counts.of(row)
            p = row.params
            x = logits[i, ids]
            if p.repetition_penalty != 1.0:
                factor = np.float32(p.repetition_penalty)
                x = np.where(x > 0, x / factor, x * factor)
            x -= np.float32(p.presence_penalty) * (times > 0) + np.float32(p.frequency_penalty) * times
            logits[i, ids] = x

    def release(self, row: ChoiceView, /, *, aborted: bool) -> None:
        self._counts.pop(row, None)


class LogitBias(BaseProcessor):
    """Adds `logit_bias` to the tokens that it names."""

    name = "logit_bias"
    phase: Phase = "edit"
    order = 200
    argmax_invariant = False

    def wants(self, row: ChoiceView, /) -> bool:
        return bool(row.params.bias_pairs)

    def apply(self, logits: Logits, rows: Sequence[ChoiceView], /) -> None:
        for i, row in enumerate(rows):
            ids, values = zip(*row.params.bias_pairs, strict=True)
            logits[i, list(ids)] += np.array(values, np.float32)


class Temperature(BaseProcessor):
    """Divides by the temperature. The highest logit is moved to 0 first, so that no temperature overflows."""

    name = "temperature"
    phase: Phase = "shape"
    order = 100
    argmax_invariant = True

    def wants(self, row: ChoiceView, /) -> bool:
        return row.params.temperature not in (0.0, 1.0)

    def apply(self, logits: Logits, rows: Sequence[ChoiceView], /) -> None:
        np.subtract(logits, logits.max(axis=1, keepdims=True), out=logits)
        heat = np.array([[max(row.params.temperature, 1e-30)] for row in rows], np.float32)
        with np.errstate(over="ignore"):
            np.divide(logits, heat, out=logits)


class TopK(BaseProcessor):
    """Keeps the k highest; of equal logits at the edge, the lower ids."""

    name = "top_k"
    phase: Phase = "shape"
    order = 200
    argmax_invariant = True

    def wants(self, row: ChoiceView, /) -> bool:
        return row.params.top_k > 0

    def apply(self, logits: Logits, rows: Sequence[ChoiceView], /) -> None:
        for x, row in zip(logits, rows, strict=True):
            _keep(x, highest(x, row.params.top_k))


class TopP(BaseProcessor):
    """Keeps the smallest set of likeliest tokens whose probability reaches p (nucleus: Holtzman et al. 2020)."""

    name = "top_p"
    phase: Phase = "shape"
    order = 300
    argmax_invariant = True

    def wants(self, row: ChoiceView, /) -> bool:
        return row.params.top_p < 1.0

    def apply(self, logits: Logits, rows: Sequence[ChoiceView], /) -> None:
        for x, row in zip(logits, rows, strict=True):
            _keep(x, _nucleus(x, row.params.top_p))


class MinP(BaseProcessor):
    """Keeps tokens at least `min_p` times as likely as the likeliest (Nguyen et al. 2024)."""

    name = "min_p"
    phase: Phase = "shape"
    order = 400
    argmax_invariant = True

    def wants(self, row: ChoiceView, /) -> bool:
        return row.params.min_p > 0.0

    def apply(self, logits: Logits, rows: Sequence[ChoiceView], /) -> None:
        floor = np.log(np.array([[row.params.min_p] for row in rows], np.float32))
        np.copyto(logits, _NO, where=logits < logits.max(axis=1, keepdims=True) + floor)


def default_processors() -> tuple[LogitsProcessor, ...]:
    """A fresh set of the shipped transforms."""
    return (Penalties(), LogitBias(), Temperature(), TopK(), TopP(), MinP())


def highest(x: Logits, k: int) -> NDArray[np.int64]:
    """Ids of the k highest finite logits of `x`, float32 [V], best first, equals by id; fewer if fewer are finite."""
    k = min(k, len(x))
    top = x.max()
    for reach in _REACHES:
        found = np.flatnonzero(x >= top - np.float32(reach))
        if len(found) >= k:
            break
    else:
        found = np.flatnonzero(x > _NO)
    if len(found) > 4 * k:
        edge = np.partition(x[found], len(found) - k)[len(found) - k]
        found = found[x[found] >= edge]
    return found[np.argsort(-x[found], kind="stable")[:k]]


def _nucleus(x: Logits, p: float) -> NDArray[np.int64]:
    top = x.max()
    weights = np.exp(x - top)
    need = float(weights.sum(dtype=np.float64)) * p
    for reach in _REACHES:
        found = np.flatnonzero(x >= top - np.float32(reach))
        if weights[found].sum(dtype=np.float64) >= need:
            break
    else:
        found = np.flatnonzero(weights)
    found = found[np.argsort(-x[found], kind="stable")]
    reached = np.cumsum(weights[found], dtype=np.float64)
    return found[: int(np.searchsorted(reached, need, side="left")) + 1]


def _keep(x: Logits, ids: NDArray[np.int64]) -> None:
    kept = x[ids]
    x.fill(_NO)
    x[ids] = kept
