"""Masks that take long are filled by a thread of their own while the model computes, which needs no Python.

Those that take little are not: the model's threads wait for each other, so that to take a core from one of them for a
moment delays them all.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence

from .masking import StepMasks
from .speculation.drafts import Place

LITTLE = 0.002
"""Seconds. What the last masks took tells what to expect of the next."""


class Overlap:
    """Prepares the masks of one step at a time."""

    def __init__(self, prepare: Callable[[Sequence[Place]], StepMasks]) -> None:
        self._prepare = prepare
        self._asked: queue.SimpleQueue[Sequence[Place] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[StepMasks | Exception] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._seconds = LITTLE

    def begin(self, choices: Sequence[Place]) -> Callable[[], StepMasks]:
        """Start on the masks of `choices`; the function that is returned waits for them, and must be called once.

        Until then their matchers must stay as they are. It raises what `prepare` raises.
        """
        if self._seconds < LITTLE or all(choice.matcher is None for choice in choices):
            masks = self._timed(choices)
            return lambda: masks
        if self._thread is None:
            # A daemon: a program may end while a request runs.
            self._thread = threading.Thread(target=self._run, name="slipcast-masks", daemon=True)
            self._thread.start()
        self._asked.put(choices)
        return self._result

    def close(self) -> None:
        """End the thread; it comes back with the next constrained choice."""
        if self._thread is not None:
            self._asked.put(None)
            self._thread.join()
            self._thread = None

    def _result(self) -> StepMasks:
        result = self._done.get()
        if isinstance(result, Exception):
            raise result
        return result

    def _timed(self, choices: Sequence[Place]) -> StepMasks:
        started = time.perf_counter()
        try:
            return self._prepare(choices)
        finally:
            self._seconds = time.perf_counter() - started

    def _run(self) -> None:
        while (choices := self._asked.get()) is not None:
            try:
                self._done.put(self._timed(choices))
            except Exception as error:
                self._done.put(error)
