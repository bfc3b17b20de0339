"""The engine's own logits transforms, each a LogitsProcessor over the rows that want it.

edit   100 penalties, 200 logit bias, 300 DRY (dry.py), last of all what grammar alignment measures (aligned.py)
shape  10 grammar alignment, 100 temperature, 200 top-n-sigma, 300 top-k, 400 typical, 500 top-p, 600 min-p, 700 XTC,
       800 mirostat (mirostat.py)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from . import cuts
from .base import BaseProcessor
from .protocols import ChoiceView, Logits, Phase
from .random import uniform

_NO = np.float32(-np.inf)
# XTC's chance must not be the number that the draw uses.
_XTC_STREAM = 0x58544358544358


class Penalties(BaseProcessor):
    """Repetition (divides or multiplies; prompt and output), presence and frequency (subtract; output only).

    Keskar et al. 2019 (CTRL, arXiv 1909.05858) for the first, OpenAI's API reference for the others.
    """

    name = "penalties"
    order = 100

    def __init__(self) -> None:
        self._counts: dict[ChoiceView, _Counts] = {}

    def wants(self, row: ChoiceView, /) -> bool:
        p = row.params
        return p.repetition_penalty != 1.0 or p.presence_penalty != 0.0 or p.frequency_penalty != 0.0

    def apply(self, logits: Logits, rows: Sequence[ChoiceView], /) -> None:
        for i, row in enumerate(rows):
            counts = self._counts.get(row)
            if counts is None:
                counts = self._counts[row] = _Counts()
            p = row.params
            if p.repetition_penalty != 1.0:
                ids = counts.repeated(row)
                x, factor = logits[i, ids], np.float32(p.repetition_penalty)
                logits[i, ids] = np.where(x > 0, x / factor, x * factor)
            if p.presence_penalty != 0.0 or p.frequency_penalty != 0.0:
                ids, times = counts.output(row)
                logits[i, ids] -= np.float32(p.presence_penalty) + np.float32(p.frequency_penalty) * times

    def release(self, row: ChoiceView, /, *, aborted: bool) -> None:
        self._counts.pop(row, None)


class _Counts:
    """Tokens of one choice, counted as they come."""

    def __init__(self) -> None:
        self._seen = 0
        self._last = -1
        self._times: dict[int, int] = {}
        self._all: NDArray[np.int64] | None = None

    def output(self, row: ChoiceView) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Ids of the output, and how often each was output."""
        self._follow(row)
        count = len(self._times)
        return np.fromiter(self._times, np.int64, count), np.fromiter(self._times.values(), np.float32, count)

    def repeated(self, row: ChoiceView) -> NDArray[np.int64]:
        """Ids of prompt and output, or of the last of them, each once."""
        window = row.params.repeat_last_n
        if window >= 0:
            last = [*row.prompt[max(0, len(row.prompt) + len(row.output) - window) :], *row.output]
            return np.unique(np.array(last[len(last) - min(window, len(last)) :], np.int64))
        before = len(self._times)
        self._follow(row)
        if self._all is None or len(self._times) != before:
            self._all = np.fromiter({*row.prompt, *self._times}, np.int64)
        return self._all

    def _follow(self, row: ChoiceView) -> None:
        output = row.output
        if len(output) < self._seen or (self._seen and output[self._seen - 1] != self._last):
            self._seen, self._times, self._all = 0, {}, None  # it was rolled back
        for token in output[self._seen :]:
            self._times[token] = self._times.get(token, 0) + 1
        self._seen = len(output)
        self._last = output[-1] if output else -1


class LogitBias(BaseProcessor):
    """Adds `logit_bias` to the tokens that it names (OpenAI's API reference)."""

    name = "logit_bias"
    order = 200

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
        with np.errstate(over="ignore"):
            np.divide(logits, np.array([[heat(row)] for row in rows], np.float32), out=logits)


class Cut(BaseProcessor):
    """A transform that only removes tokens."""

    name: str
    phase: Phase = "shape"
    argmax_invariant = True

    def keep(self, x: Logits, row: ChoiceView, ids: NDArray[np.int64] | None, /) -> NDArray[np.int64]:
        """Of the logits `x`, float32 [N], of candidates by ascending id, temperature applied: indices kept, ascending.

        `ids`: the candidates' token ids, None: all of the vocabulary. Tokens that an earlier cut removed are not among
        the candidates, or at -inf.
        """
        raise NotImplementedError

    def apply(self, logits: Logits, rows: Sequence[ChoiceView], /) -> None:
        for x, row in zip(logits, rows, strict=True):
            kept = self.keep(x, row, None)
            values = x[kept]
            x.fill(_NO)
            x[kept] = values


class TopNSigma(Cut):
    """See cuts.top_n_sigma."""

    name = "top_n_sigma"
    order = 200

    def wants(self, row: ChoiceView, /) -> bool:
        return row.params.top_n_sigma > 0.0

    def keep(self, x: Logits, row: ChoiceView, ids: NDArray[np.int64] | None, /) -> NDArray[np.int64]:
        return cuts.top_n_sigma(x, row.params.top_n_sigma)


class TopK(Cut):
    """See cuts.top_k."""

    name = "top_k"
    order = 300

    def wants(self, row: ChoiceView, /) -> bool:
        return row.params.top_k > 0

    def keep(self, x: Logits, row: ChoiceView, ids: NDArray[np.int64] | None, /) -> NDArray[np.int64]:
        return cuts.top_k(x, row.params.top_k)


class Typical(Cut):
    """See cuts.typical."""

    name = "typical"
    order = 400
    argmax_invariant = False

    def wants(self, row: ChoiceView, /) -> bool:
        return row.params.typical_p < 1.0 and not row.params.greedy

    def keep(self, x: Logits, row: ChoiceView, ids: NDArray[np.int64] | None, /) -> NDArray[np.int64]:
        return cuts.typical(x, row.params.typical_p)


class TopP(Cut):
    """See cuts.top_p."""

    name = "top_p"
    order = 500

    def wants(self, row: ChoiceView, /) -> bool:
        return row.params.top_p < 1.0

    def keep(self, x: Logits, row: ChoiceView, ids: NDArray[np.int64] | None, /) -> NDArray[np.int64]:
        return cuts.top_p(x, row.params.top_p)


class MinP(Cut):
    """See cuts.min_p."""

    name = "min_p"
    order = 600

    def wants(self, row: ChoiceView, /) -> bool:
        return row.params.min_p > 0.0

    def keep(self, x: Logits, row: ChoiceView, ids: NDArray[np.int64] | None, /) -> NDArray[np.int64]:
        return cuts.min_p(x, row.params.min_p)


class Xtc(Cut):
    """See cuts.exclude_top; the chance is a number of the choice's own at each place, like the draw's."""

    name = "xtc"
    order = 700
    argmax_invariant = False

    def wants(self, row: ChoiceView, /) -> bool:
        return row.params.xtc_probability > 0.0 and not row.params.greedy

    def keep(self, x: Logits, row: ChoiceView, ids: NDArray[np.int64] | None, /) -> NDArray[np.int64]:
        chance = float(uniform([row.stream ^ _XTC_STREAM], [len(row.output)])[0])
        if chance >= row.params.xtc_probability:
            return np.flatnonzero(x > _NO)
        return cuts.exclude_top(x, row.params.xtc_threshold)


def heat(row: ChoiceView) -> float:
    """The temperature, above 0 in float32."""
    return max(row.params.temperature, 1e-30)
