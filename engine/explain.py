"""What a grammar did to an output, token by token, for requests that ask to explain."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..samplers import masks as bits
from .choice import Choice
from .request import TokenNote


@dataclass(frozen=True, slots=True)
class MaskEffect:
    """`allowed`: how many tokens the mask left, None where there was none; `removed`: the probability of the others."""

    allowed: int | None
    removed: float


def mask_effect(logits: NDArray[np.float32], row: NDArray[np.uint32] | None) -> MaskEffect:
    """Of the mask `row`, uint32 [W], on softmax(`logits`), raw, float32 [V]."""
    if row is None:
        return MaskEffect(None, 0.0)
    allowed = bits.unpack(row, len(logits))
    peak = logits.max()
    if not np.isfinite(peak):  # the row fails, in the chain
        return MaskEffect(int(allowed.sum()), 0.0)
    weights = np.exp(logits - peak, dtype=np.float64)
    return MaskEffect(int(allowed.sum()), float(weights[~allowed].sum() / weights.sum()))


class Pointers:
    """Notes where a choice stands in its schema, before each token that it takes; nothing unless that is asked for."""

    def __init__(self, choice: Choice) -> None:
        self.told: list[str | None] = []
        self._ask = getattr(choice.matcher, "pointer", None) if choice.owner.request.explain else None
        self._wanted = choice.owner.request.explain

    def note(self) -> None:
        """The next token is about to be taken."""
        if self._wanted:
            self.told.append(None if self._ask is None else self._ask())


def token_note(
    token: int, spelled: tuple[str, bytes], position: int, drawn: int, effect: MaskEffect, pointers: list[str | None]
) -> TokenNote:
    """Of a token at `position` of those that were taken at once; the first stands for the one that was drawn."""
    pointer = pointers[position] if position < len(pointers) else None
    if position:
        return TokenNote(token, *spelled, forced=True, allowed=1, removed=None, pointer=pointer)
    forced = effect.allowed == 1 or token != drawn
    return TokenNote(token, *spelled, forced=forced, allowed=effect.allowed, removed=effect.removed, pointer=pointer)
