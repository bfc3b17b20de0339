"""Mirostat 2: a cut that moves so that the text's surprise stays near a target (Basu et al. 2021, arXiv 2007.14966).

Tokens that surprise by more than mu bits are cut. mu begins at twice the target tau, and after each token moves against
the miss: by eta times what the token's surprise, among those that were left, exceeds tau.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from . import cuts
from .protocols import ChoiceView, Logits
from .transforms import Cut


class Mirostat2(Cut):
    """The last cut, so that what it leaves is what is drawn from."""

    name = "mirostat"
    order = 800

    def __init__(self) -> None:
        self._places: dict[ChoiceView, _Place] = {}

    def wants(self, row: ChoiceView, /) -> bool:
        return row.params.mirostat == 2

    def keep(self, x: Logits, row: ChoiceView, ids: NDArray[np.int64] | None, /) -> NDArray[np.int64]:
        place = self._places.setdefault(row, _Place())
        kept = cuts.below_surprise(x, place.mu(row))
        place.ids = kept if ids is None else ids[kept]
        place.surprises = cuts.surprises(x[kept])
        return kept

    def release(self, row: ChoiceView, /, *, aborted: bool) -> None:
        self._places.pop(row, None)


class _Place:
    """What is kept of the last place that was cut, whose token is known only when the next one is asked for."""

    def __init__(self) -> None:
        self._known: list[float] = []  # mu before each token of the output
        self.ids: NDArray[np.int64] = np.empty(0, np.int64)
        self.surprises: NDArray[np.float64] = np.empty(0)

    def mu(self, row: ChoiceView) -> float:
        """mu before the token that comes next; tokens that a grammar forced, and were not drawn here, leave it."""
        p, position = row.params, len(row.output)
        if not self._known:
            self._known.append(2.0 * p.mirostat_tau)
        if position < len(self._known):  # rolled back, or asked again
            del self._known[position + 1 :]
            return self._known[position]
        mu = self._known[-1]
        at = np.flatnonzero(self.ids == row.output[len(self._known) - 1])
        if len(at):
            mu -= p.mirostat_eta * (float(self.surprises[at[0]]) - p.mirostat_tau)
        self._known.extend([mu] * (position + 1 - len(self._known)))
        return mu
