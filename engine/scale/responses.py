"""Responses that later requests continue, in one place for all replicas: whichever is asked next knows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import ray

from ..api.messages import Message
from ..api.response_types import Response
from ..api.responses import ResponseStore, Stored

NAME: Final = "slipcast-responses"
NAMESPACE: Final = "slipcast"


class SharedResponses(ResponseStore):
    """A ResponseStore in an actor of the cluster, made when first asked for and made anew, empty, if it dies."""

    def __init__(self) -> None:
        actor = ray.remote(num_cpus=0, max_restarts=-1)(ResponseStore)
        options = {"name": NAME, "namespace": NAMESPACE, "get_if_exists": True, "lifetime": "detached"}
        self._actor: Any = actor.options(**options).remote()

    def put(self, response: Response, messages: Sequence[Message]) -> None:
        """Keep a response; the oldest make room."""
        # Not waited for: a client knows the id only after this is on its way.
        self._actor.put.remote(response, tuple(messages))

    def find(self, response_id: str) -> Stored | None:
        """A response, None where it is not kept."""
        found: Stored | None = ray.get(self._actor.find.remote(response_id))
        return found

    def take(self, response_id: str) -> Stored | None:
        """A response that is forgotten by this, None where it is not kept."""
        taken: Stored | None = ray.get(self._actor.take.remote(response_id))
        return taken


def forget_responses() -> None:
    """End the actor, where there is one."""
    try:
        ray.kill(ray.get_actor(NAME, namespace=NAMESPACE))
    except ValueError:
        return
