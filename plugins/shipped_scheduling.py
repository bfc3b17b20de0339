"""Shipped plugin: scheduling policies, by the names that the configuration's `scheduler` takes.

    fcfs             first come, first served
    priority         the request's `priority`, lower first; of equals, first come first served
    prefix           those first that have least to compute, given what the KV cache holds
    fair             as much service for each user, by the tokens that they were given
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from .base import BaseScheduler
from .hookspecs import hookimpl
from .protocols import ChoiceView, KVManager, Scheduler

PATIENCE = 10.0
"""Seconds of waiting after which a choice goes first under "prefix", whatever it has to compute."""
OUTPUT_WEIGHT = 2
"""What a token of output counts beside one of the prompt: it takes a step of its own."""


class FirstComeFirstServed(BaseScheduler):
    """Admits the one that waits longest; when pages run out, puts back the one that was admitted last.

    So the oldest request always goes on, which is why the batch cannot come to a standstill.
    """

    name = "fcfs"

    def admit(self, waiting: Sequence[ChoiceView], running: Sequence[ChoiceView], /) -> int | None:
        """The head of the line."""
        return 0


class Priority(BaseScheduler):
    """Admits the lowest `priority` first, and puts back the highest one, of equals the one admitted last.

    As vLLM's policy of that name: a running choice is put back only when pages run out, not for a newcomer.
    """

    name = "priority"

    def admit(self, waiting: Sequence[ChoiceView], running: Sequence[ChoiceView], /) -> int | None:
        """The lowest priority, of equals the first in the line."""
        return min(range(len(waiting)), key=lambda i: waiting[i].priority)

    def preempt(self, running: Sequence[ChoiceView], /) -> int:
        """The highest priority, of equals the last one admitted."""
        return max(range(len(running)), key=lambda i: (running[i].priority, i))


class ShortestMissFirst(BaseScheduler):
    """Admits the one with the fewest tokens to compute before it can go on: shortest job first, with what the cache
    has left out of the job (longest-prefix-match of SGLang, Zheng et al. 2024, arXiv 2312.07104, by its complement).

    So requests that share a prefix come one after another while it is there. Who waits for `PATIENCE` seconds goes
    first.
    """

    name = "prefix"

    def __init__(self, kv: KVManager, clock: Callable[[], float] = time.monotonic) -> None:
        self._kv = kv
        self._clock = clock

    def admit(self, waiting: Sequence[ChoiceView], running: Sequence[ChoiceView], /) -> int | None:
        """The shortest miss, of equals the first in the line."""
        now = self._clock()
        for i, choice in enumerate(waiting):
            if now - choice.arrived >= PATIENCE:
                return i
        return min(range(len(waiting)), key=lambda i: self._missing(waiting[i]))

    def _missing(self, choice: ChoiceView) -> int:
        tokens = [*choice.prompt, *choice.output]
        return len(tokens) - self._kv.match(tokens)


class FairShare(BaseScheduler):
    """Admits a choice of the user who was served least, counted in tokens: the virtual token counter of Sheng et al.
    2024 (arXiv 2401.00588). Who comes back after a pause starts no lower than the least served of those who stayed, so
    that nobody saves up service.

    Users are told apart by the request's `user`; requests without one are one user together.
    """

    name = "fair"

    def __init__(self) -> None:
        self._served: dict[str | None, float] = {}
        self._here: set[str | None] = set()
        self._floor = 0.0
        self._counted: dict[ChoiceView, int] = {}

    def admit(self, waiting: Sequence[ChoiceView], running: Sequence[ChoiceView], /) -> int | None:
        """Of the least served user, the first in the line."""
        self._count(running)
        self._welcome({choice.user for choice in (*running, *waiting)})
        chosen = min(range(len(waiting)), key=lambda i: (self._served[waiting[i].user], i))
        self._counted.setdefault(waiting[chosen], 0)
        return chosen

    def preempt(self, running: Sequence[ChoiceView], /) -> int:
        """Of the most served user, the last one admitted."""
        self._count(running)
        return max(range(len(running)), key=lambda i: (self._served.get(running[i].user, 0.0), i))

    def leave(self, choice: ChoiceView, /, *, aborted: bool) -> None:
        """What it was given is counted to the end."""
        if choice in self._counted:
            self._count([choice])
            del self._counted[choice]

    def _welcome(self, here: set[str | None]) -> None:
        stayed = [self._served[user] for user in here & self._here]
        # Where nobody stayed there is nobody to be fair to for what was before.
        self._floor = max(self._floor, min(stayed) if stayed else max(self._served.values(), default=0.0))
        for user in here - self._here:
            self._served[user] = max(self._served.get(user, 0.0), self._floor)
        self._here = here
        # At the floor they would come back as if they had never been: nothing is lost by forgetting them.
        for user in [user for user, served in self._served.items() if user not in here and served <= self._floor]:
            del self._served[user]

    def _count(self, choices: Sequence[ChoiceView]) -> None:
        for choice in choices:
            given = len(choice.prompt) + OUTPUT_WEIGHT * len(choice.output)
            new = given - self._counted.get(choice, 0)
            self._counted[choice] = given
            self._served[choice.user] = self._served.get(choice.user, 0.0) + new


@hookimpl(trylast=True)
def slipcast_scheduler(name: str, kv: KVManager) -> Scheduler | None:
    """The policies of this module."""
    policies: dict[str, Callable[[], Scheduler]] = {
        FirstComeFirstServed.name: FirstComeFirstServed,
        Priority.name: Priority,
        ShortestMissFirst.name: lambda: ShortestMissFirst(kv),
        FairShare.name: FairShare,
    }
    policy = policies.get(name)
    return None if policy is None else policy()
