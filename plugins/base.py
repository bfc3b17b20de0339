"""Bases for parts that plugins offer: the members that most of them leave as they are.

Those of processors and samplers stand in slipcast.samplers.base, and are offered here as well.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..samplers.base import BaseProcessor, BaseSampler
from .protocols import ChoiceView

__all__ = ["BaseProcessor", "BaseSampler", "BaseScheduler"]


class BaseScheduler:
    """Puts back the one that was admitted last, and keeps nothing. What is left to say: `name`, and `admit`.

    As long as `admit` follows an order that does not change, the first by it always goes on, so that the batch cannot
    come to a standstill.
    """

    def preempt(self, running: Sequence[ChoiceView], /) -> int:
        """The last one admitted."""
        return len(running) - 1

    def leave(self, choice: ChoiceView, /, *, aborted: bool) -> None:
        """Nothing is kept."""
