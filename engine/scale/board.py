"""One place for the metrics of all replicas: an actor that keeps what each showed last."""

from __future__ import annotations

import time
from typing import Any, Final

import ray

from .merging import merge

NAME: Final = "slipcast-board"
NAMESPACE: Final = "slipcast"
STALE_SECONDS: Final = 20.0
Board = Any
"""The handle of the actor: `show.remote(replica, text)` and `merged.remote()`."""


class BoardActor:
    """Prometheus texts by replica."""

    def __init__(self) -> None:
        self._shown: dict[str, tuple[float, str]] = {}

    def show(self, replica: str, text: bytes) -> None:
        """A replica's metrics, in place of what it showed before."""
        self._shown[replica] = (time.monotonic(), text.decode())

    def merged(self) -> bytes:
        """All that was shown lately, a label `replica` in each sample."""
        now = time.monotonic()
        self._shown = {name: shown for name, shown in self._shown.items() if now - shown[0] < STALE_SECONDS}
        return merge({name: text for name, (_, text) in self._shown.items()})


def board() -> Board:
    """The handle of the one board of the cluster, made when first asked for."""
    actor = ray.remote(num_cpus=0)(BoardActor)
    return actor.options(name=NAME, namespace=NAMESPACE, get_if_exists=True, lifetime="detached").remote()
