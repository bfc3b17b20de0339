"""Puts speculation together, once a step: who is worth a draft and of what length, its tokens, its places' matchers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ..choice import Choice
from ..stats import Counters
from .drafts import Drawing

if TYPE_CHECKING:
    from ..scheduler import BatchScheduler, Work


class Speculator(Protocol):
    def draft(self, works: Sequence[Work], scheduler: BatchScheduler) -> list[Work]: ...

    def learn(
        self, works: Sequence[Work], drawings: Sequence[Drawing], seconds: float, counters: Counters
    ) -> None: ...

    def release(self, choice: Choice) -> None: ...
