"""Which replica has what warm, as the router has seen it, and how much more than its share one may be given."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Sequence
from typing import Final, Generic, TypeVar

from .keys import WarmKeys

ReplicaT = TypeVar("ReplicaT", bound=Hashable)
MOST_KEYS: Final = 50_000
# A warm replica may have this many times the mean of all queues, and some more, before it counts as overloaded
# (consistent hashing with bounded loads, Mirrokni et al. 2016).
LOAD_FACTOR: Final = 1.25
LOAD_SLACK: Final = 2


class Warmth(Generic[ReplicaT]):
    """Remembers, for the latest keys, the replica that each was sent to last."""

    def __init__(self, most: int = MOST_KEYS) -> None:
        self._most = most
        self._last: OrderedDict[str, ReplicaT] = OrderedDict()

    def learn(self, keys: WarmKeys, replica: ReplicaT) -> None:
        """The replica was sent a request with these keys."""
        for key in _named(keys):
            self._last[key] = replica
            self._last.move_to_end(key)
        while len(self._last) > self._most:
            self._last.popitem(last=False)

    def forget(self, replica: ReplicaT) -> None:
        """The replica is gone."""
        for key in [key for key, known in self._last.items() if known == replica]:
            del self._last[key]

    def ranked(self, keys: WarmKeys, queues: Mapping[ReplicaT, int]) -> list[list[ReplicaT]]:
        """Replicas by rank, best first: who knows the longest beginning of the prompt, or else the grammar, if it is
        not overloaded; then the others, shortest queue first. `queues`: requests of each replica.
        """
        if not queues:
            return []
        limit = LOAD_FACTOR * (sum(queues.values()) + 1) / len(queues) + LOAD_SLACK
        warm: list[ReplicaT] = []
        for key in reversed(_named(keys)):
            known = self._last.get(key)
            if known is not None and known not in warm and queues.get(known, limit) < limit:
                warm.append(known)
        rest = sorted((replica for replica in queues if replica not in warm), key=lambda replica: queues[replica])
        return [[replica] for replica in warm] + _by_queue(rest, queues)


def _named(keys: WarmKeys) -> list[str]:
    """The grammar first, then beginnings by length: the last weighs most."""
    return [*((f"g{keys.grammar}",) if keys.grammar else ()), *(f"p{prefix}" for prefix in keys.prefixes)]


def _by_queue(replicas: Sequence[ReplicaT], queues: Mapping[ReplicaT, int]) -> list[list[ReplicaT]]:
    """Replicas with queues of one length stand in one rank, of which the router takes any."""
    ranks: list[list[ReplicaT]] = []
    for replica in replicas:
        if ranks and queues[ranks[-1][0]] == queues[replica]:
            ranks[-1].append(replica)
        else:
            ranks.append([replica])
    return ranks
