"""Calling parts that others wrote: measured, within a time limit, and not any more once they fail again and again."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

_LOG = logging.getLogger(__name__)
P = ParamSpec("P")
R = TypeVar("R")

FAULT_LIMIT = 8
MAX_HUNG = 4
"""Calls that may hang at once before their plugin is quarantined: each holds a thread."""


class LateError(TimeoutError):
    """A plugin did not answer in time."""


class QuarantineError(Exception):
    """A plugin is not called any more, since it failed again and again."""


class Guard:
    """One plugin's account. Used by one thread; its numbers may be read by any.

    With `timeout`, in seconds, the plugin runs in a thread of its own: one that does not answer is left behind, and the
    next call gets a new thread. None: it runs in the caller's, and may hold it up.

    `limit` requests that fail by it, none that used it ending well in between, quarantine the plugin; so do `MAX_HUNG`
    calls that hang at the same time.
    """

    def __init__(self, plugin: str, *, timeout: float | None = None, limit: int = FAULT_LIMIT) -> None:
        self.plugin = plugin
        self.calls = 0
        self.seconds = 0.0
        self.faults = 0
        self.quarantined: str | None = None  # why
        self._timeout = timeout
        self._limit = limit
        self._in_a_row = 0
        self._worker: _Worker | None = None
        self._hung: list[_Worker] = []

    def call(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """`function(*args, **kwargs)`. Raises what it raises, LateError, or QuarantineError without calling it."""
        if self._timeout is None:
            return self.call_here(function, *args, **kwargs)
        result: R = self.call_here(self._call_in_time, lambda: function(*args, **kwargs), self._timeout)
        return result

    def call_here(self, function: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs) -> R:
        """`call` in the caller's thread, without a time limit."""
        if self.quarantined is not None:
            raise QuarantineError(f"it is quarantined: {self.quarantined}")
        self.calls += 1
        started = time.perf_counter()
        try:
            return function(*args, **kwargs)
        finally:
            self.seconds += time.perf_counter() - started

    def failed(self, error: Exception) -> None:
        """A request failed by the plugin, or was refused since it is quarantined."""
        if isinstance(error, QuarantineError):
            return
        self.faults += 1
        self._in_a_row += 1
        if self._in_a_row >= self._limit:
            self.quarantine(f"it failed {self._in_a_row} times in a row, at last with {_told(error)}")

    def served(self) -> None:
        """A request that used the plugin ended well."""
        self._in_a_row = 0

    def close(self) -> None:
        """End the plugin's thread."""
        if self._worker is not None:
            self._worker.end()
            self._worker = None

    def _call_in_time(self, work: Callable[[], Any], timeout: float) -> Any:
        worker = self._worker
        if worker is None:
            worker = self._worker = _Worker(self.plugin)
        done, result, error = worker.run(work, timeout)
        if done:
            if error is not None:
                raise error
            return result
        worker.end()
        self._worker = None
        self._hung = [other for other in self._hung if other.busy] + [worker]
        late = LateError(f"it did not answer within {timeout:g} s")
        if len(self._hung) >= MAX_HUNG:
            self.quarantine(f"{len(self._hung)} of its calls hang")
        raise late

    def quarantine(self, reason: str) -> None:
        """The plugin is not called any more."""
        if self.quarantined is None:
            self.quarantined = reason
            _LOG.error("the plugin %r is quarantined: %s", self.plugin, reason)


class _Worker:
    """A thread that does one call at a time."""

    def __init__(self, plugin: str) -> None:
        self._asked: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[tuple[Any, Exception | None]] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, name=f"slipcast-plugin-{plugin}", daemon=True)
        self._thread.start()

    @property
    def busy(self) -> bool:
        """Whether the call that was given up still runs."""
        return self._thread.is_alive()

    def run(self, work: Callable[[], Any], timeout: float) -> tuple[bool, Any, Exception | None]:
        """Whether the work was done in time, its result, its error."""
        self._asked.put(work)
        try:
            return (True, *self._done.get(timeout=timeout))
        except queue.Empty:
            return False, None, None

    def end(self) -> None:
        """No more work; the thread ends when it is done with what it has."""
        self._asked.put(None)

    def _serve(self) -> None:
        while (work := self._asked.get()) is not None:
            try:
                self._done.put((work(), None))
            except Exception as error:
                self._done.put((None, error))
            del work  # it holds a step's arrays


def _told(error: Exception) -> str:
    return " ".join(f"{type(error).__name__}: {error}".split())
