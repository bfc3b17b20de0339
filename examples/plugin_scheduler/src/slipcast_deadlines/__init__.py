"""A plugin for Slipcast: who must be done first is served first.

    slipcast serve --plugins deadlines --scheduler edf
    client.chat.completions.create(..., extra_body={"plugins": {"deadlines": {"within": 2.5}}})

Earliest deadline first (Liu and Layland 1973). A request without a deadline has one far away, so that it is served too,
in the order of arrival. The whole module is the plugin: an entry point may name a module, a class or an object.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, Field
from slipcast.plugins import BaseScheduler, ChoiceView, hookimpl

__version__ = "0.1.0"
slipcast_api = "1.0"
PATIENCE = 60.0
"""Seconds: the deadline of who gives none."""


class Deadline(BaseModel):
    """`within`: seconds after its arrival by which the answer is wanted."""

    within: float = Field(gt=0, le=3600)


class EarliestDeadlineFirst(BaseScheduler):
    """Asked once for each admission and preemption, never for each token."""

    name = "edf"

    def admit(self, waiting: Sequence[ChoiceView], running: Sequence[ChoiceView], /) -> int | None:
        """The earliest deadline; of equals the first in the line."""
        return min(range(len(waiting)), key=lambda i: deadline(waiting[i]))

    def preempt(self, running: Sequence[ChoiceView], /) -> int:
        """The latest deadline; of equals the one admitted last."""
        return max(range(len(running)), key=lambda i: (deadline(running[i]), i))


def deadline(choice: ChoiceView) -> float:
    """On the clock of `arrived`, seconds."""
    given = choice.options(Deadline)
    return choice.arrived + (PATIENCE if given is None else given.within)


@hookimpl
def slipcast_request_parameters() -> type[BaseModel]:
    """See Deadline."""
    return Deadline


@hookimpl
def slipcast_scheduler(name: str) -> EarliestDeadlineFirst | None:
    """Named by the configuration."""
    return EarliestDeadlineFirst() if name == EarliestDeadlineFirst.name else None
