"""The request router of the replicas, on Ray Serve's own interface."""

from __future__ import annotations

from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

from .calls import Call
from .keys import WarmKeys
from .warmth import Warmth


class WarmRouter(RequestRouter):  # type: ignore[misc]
    """Sends a request where its prompt's beginning or its grammar is warm, unless that replica is overloaded."""

    def initialize_state(self, **options: Any) -> None:
        """Called by Serve. `warm`: False sends requests by the length of queues alone."""
        self._warm = bool(options.get("warm", True))
        self._warmth: Warmth[ReplicaID] = Warmth()

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Ranks of replicas, best first; Serve takes the first that accepts."""
        by_id = {replica.replica_id: replica for replica in candidate_replicas}
        queues = {name: self.replica_queue_len_cache.get(name) or 0 for name in by_id}
        keys = _keys(pending_request) if self._warm else WarmKeys()
        return [[by_id[name] for name in rank] for rank in self._warmth.ranked(keys, queues)]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any) -> None:
        """Called by Serve: the request went there, and will be warm there."""
        self._warmth.learn(_keys(pending_request), replica_id)

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Called by Serve: nothing is warm there any more."""
        super().on_replica_actor_died(replica_id)
        self._warmth.forget(replica_id)


def _keys(request: PendingRequest | None) -> WarmKeys:
    call = request.args[0] if request is not None and request.args else None
    return call.keys if isinstance(call, Call) else WarmKeys()
