"""What all processes of a deployment share, in one actor of the cluster: responses that later requests continue,
whichever replica is asked, and which process deployed last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import ray

from ..api.messages import Message
from ..api.response_types import Response
from ..api.responses import ResponseStore, Stored

NAME: Final = "slipcast-shared"
NAMESPACE: Final = "slipcast"


class Shared(ResponseStore):
    """The actor's class. `owner`: of the process that deployed last, "" where the actor had to begin anew."""

    def __init__(self) -> None:
        super().__init__()
        self._owner = ""

    def own(self, owner: str) -> None:
        """This process has deployed."""
        self._owner = owner

    def owner(self) -> str:
        """Which process has deployed last."""
        return self._owner


class SharedResponses(ResponseStore):
    """A ResponseStore that stands for the one in the actor."""

    def __init__(self) -> None:
        super().__init__()
        self._actor = shared()

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
