"""The request routers of the replicas, on Ray Serve's own interface."""

from __future__ import annotations

import random
from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from .calls import Call
from .keys import WarmKeys
from .warmth import Warmth


class WarmRouter(RequestRouter):  # type: ignore[misc]
    """Sends a request where its prompt's beginning or its grammar is warm, unless that replica is overloaded."""

    def initialize_state(self, **options: Any) -> None:
        """Called by Serve."""
        self._warmth: Warmth[ReplicaID] = Warmth()

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Ranks of replicas, best first; Serve takes the first that accepts."""
        _rest_between_rounds(pending_request)
        by_id = {replica.replica_id: replica for replica in candidate_replicas}
        queues = {name: self.replica_queue_len_cache.get(name) or 0 for name in by_id}
        return [[by_id[name] for name in rank] for rank in self._warmth.ranked(_keys(pending_request), queues)]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        """Called by Serve: the request went there, and will be warm there."""
        self._warmth.learn(_keys(pending_request), replica_id)

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Called by Serve: nothing is warm there any more."""
        super().on_replica_actor_died(replica_id)
        self._warmth.forget(replica_id)


class RandomRouter(RequestRouter):  # type: ignore[misc]
    """Sends each request to any replica: what others are measured against."""

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Each replica a rank of its own, shuffled: within a rank Serve would prefer the shorter queue."""
        _rest_between_rounds(pending_request)
        return [[replica] for replica in random.sample(candidate_replicas, len(candidate_replicas))]


def _rest_between_rounds(request: PendingRequest | None) -> None:
    """Where all replicas are full Serve asks again, and without this at once, round after round."""
    if request is not None:
        request.routing_context.should_backoff = True


def _keys(request: PendingRequest | None) -> WarmKeys:
    call = request.args[0] if request is not None and request.args else None
    return call.keys if isinstance(call, Call) else WarmKeys()
