"""Shipped plugin: the scheduling policy "fcfs", first come first served."""

from __future__ import annotations

from collections.abc import Sequence

from .base import BaseScheduler
from .hookspecs import hookimpl
from .protocols import ChoiceView, Scheduler


class FirstComeFirstServed(BaseScheduler):
    """Admits the one that waits longest; when pages run out, puts back the one that was admitted last.

    So the oldest request always goes on, which is why the batch cannot come to a standstill.
    """

    name = "fcfs"

    def admit(self, waiting: Sequence[ChoiceView], running: Sequence[ChoiceView], /) -> int | None:
        """The head of the line."""
        return 0


@hookimpl(trylast=True)
def slipcast_scheduler(name: str) -> Scheduler | None:
    """First come first served."""
    return FirstComeFirstServed() if name == FirstComeFirstServed.name else None
