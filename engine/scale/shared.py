"""What all processes of a deployment share, in one actor of the cluster: responses that later requests continue,
whichever replica is asked, and which process deployed last.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, Final

import ray
from ray.exceptions import RayError

from ..api.messages import Message
from ..api.response_types import Response
from ..api.responses import ResponseStore, Stored

_LOG = logging.getLogger(__name__)
NAME: Final = "slipcast-shared"
NAMESPACE: Final = "slipcast"
CLAIM_SECONDS: Final = 900.0
"""Longer than a model takes to be fetched, compiled and loaded."""


class Shared(ResponseStore):
    """The actor's class. One process at a time deploys: it claims, and says afterwards whether that went well. `owner`:
    the one that deployed last, "" where the actor had to begin anew.
    """

    def __init__(self) -> None:
        super().__init__()
        self._owner = ""
        self._claim = ""
        self._claimed_until = 0.0

    def claim(self, name: str) -> bool:
        """Whether this process may deploy now. A claim of a process that has died ends after CLAIM_SECONDS."""
        if self.claimed():
            return False
        self._claim, self._claimed_until = name, time.monotonic() + CLAIM_SECONDS
        return True

    def claimed(self) -> bool:
        """Whether some process deploys right now."""
        return self._claim != "" and time.monotonic() < self._claimed_until

    def settle(self, name: str, deployed: bool) -> None:
        """The process is done."""
        if deployed:
            self._owner = name
        if self._claim == name:
            self._claim = ""

    def owner(self) -> str:
        """Which process has deployed last."""
        return self._owner


class SharedResponses(ResponseStore):
    """A ResponseStore that stands for the one in the actor."""

    def __init__(self) -> None:
        super().__init__()
        self._actor = shared()
        self._on_the_way: list[Any] = []

    def put(self, response: Response, messages: Sequence[Message]) -> None:
        """Keep a response; the oldest make room. Whoever tells of it waits for `settle` before."""
        self._on_the_way.append(self._actor.put.remote(response, tuple(messages)))

    async def settle(self) -> None:
        """Returns once all that was put is there, for whichever replica is asked next."""
        while self._on_the_way:
            try:
                await self._on_the_way.pop()
            except RayError:
                _LOG.warning("a response could not be kept", exc_info=True)

    def find(self, response_id: str) -> Stored | None:
        """A response, None where it is not kept."""
        found: Stored | None = ray.get(self._actor.find.remote(response_id))
        return found

    def take(self, response_id: str) -> Stored | None:
        """A response that is forgotten by this, None where it is not kept."""
        taken: Stored | None = ray.get(self._actor.take.remote(response_id))
        return taken


def shared() -> Any:
    """A handle of the actor, which is made when first asked for and made anew, empty, if it dies."""
    actor = ray.remote(num_cpus=0, max_restarts=-1)(Shared)
    options = {"name": NAME, "namespace": NAMESPACE, "get_if_exists": True, "lifetime": "detached"}
    return actor.options(**options).remote()


def end_shared() -> None:
    """End the actor, where there is one."""
    try:
        ray.kill(ray.get_actor(NAME, namespace=NAMESPACE))
    except ValueError:
        return
