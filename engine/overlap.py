"""Masks are filled by a thread of their own while the model computes, which needs no Python."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence

from .choice import Choice
from .masking import StepMasks


class Overlap:
    """Prepares the masks of one step at a time."""

    def __init__(self, prepare: Callable[[Sequence[Choice]], StepMasks]) -> None:
        self._prepare = prepare
        self._asked: queue.SimpleQueue[Sequence[Choice] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[StepMasks | Exception] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def begin(self, choices: Sequence[Choice]) -> Callable[[], StepMasks]:
        """Start on the masks of `choices`; the function that is returned waits for them, and must be called once.

        Until then their matchers must stay as they are. It raises what `prepare` raises.
        """
        if all(choice.matcher is None for choice in choices):
            masks = self._prepare(choices)
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

    def _run(self) -> None:
        while (choices := self._asked.get()) is not None:
            try:
                self._done.put(self._prepare(choices))
            except Exception as error:
                self._done.put(error)
