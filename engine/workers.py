"""Threads for jobs that take microseconds, mostly, and now and then seconds.

One thread does them all, in order, as long as it gets on: handing work between threads costs more than most jobs.
Whoever waits for a job and sees that none ended for a moment calls another thread in, so that a long job holds up no
other.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Final

from ..grammar.courtesy import COURTESY

STUCK: Final = 0.001
"""Seconds without the end of a job, after which another thread takes the next one."""
MOST: Final = 8
"""Threads: what long jobs at once, in Python each of them, the program's other threads can live beside."""


class Job:
    """Something to do; `done` once it is. It raises nothing: what went wrong is part of what it leaves."""

    __slots__ = ("_do", "_waited", "done")

    def __init__(self, do: Callable[[], None]) -> None:
        self._do = do
        self._waited = False
        self.done = False


def _nothing() -> None:
    pass


DONE: Final = Job(_nothing)
"""One that was done at once."""
DONE.done = True


class Workers:
    """The threads. One thread puts jobs and waits for them; they start with the first job and end with `close`."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._called = threading.Condition(self._lock)
        self._ended = threading.Condition(self._lock)
        self._jobs: deque[Job] = deque()
        self._threads: list[threading.Thread] = []
        self._idle = 0
        self._busy = 0
        self._calls = 0
        self._missing = 0
        self._count = 0
        self._closing = False
        self.seconds = 0.0
        """CPU time that jobs took, those that have ended."""

    def put(self, do: Callable[[], None]) -> Job:
        """A job, to be done in the order of asking."""
        job = Job(do)
        with self._lock:
            self._jobs.append(job)
            if not self._busy:
                self._call()
        return job

    def wait(self, jobs: Iterable[Job], seconds: float) -> None:
        """Return when all of `jobs` are done, or after `seconds`."""
        with self._lock:
            waited = [job for job in jobs if not job.done]
            if not waited:
                return
            for job in waited:
                job._waited = True
            self._missing = len(waited)
            deadline = time.monotonic() + seconds
            while self._missing and (left := deadline - time.monotonic()) > 0:
                count = self._count
                self._ended.wait(min(left, STUCK) if self._jobs else left)
                if self._jobs and self._count == count:
                    self._call()
            for job in waited:
                job._waited = False
            self._missing = 0

    def close(self, seconds: float = 5.0) -> None:
        """End the threads; those with a job end after it, and are waited for no longer than `seconds`."""
        with self._lock:
            self._closing = True
            self._jobs.clear()
            self._called.notify_all()
        deadline = time.monotonic() + seconds
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _call(self) -> None:
        """Another thread begins to take jobs."""
        if self._idle:
            self._idle -= 1
            self._busy += 1
            self._calls += 1
            self._called.notify()
        elif len(self._threads) < MOST and not self._closing:
            # A daemon: a program may end while a request runs.
            thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._threads.append(thread)
            self._busy += 1  # it is on its way: no other need be called for the same job
            thread.start()

    def _run(self) -> None:
        with self._lock:
            while True:
                while self._jobs:
                    self._do(self._jobs.popleft())
                self._busy -= 1
                self._idle += 1
                while not self._calls and not self._closing:
                    self._called.wait()
                if self._closing:
                    return
                self._calls -= 1

    def _do(self, job: Job) -> None:
        self._lock.release()
        begun = time.thread_time()
        try:
            with COURTESY.working():
                job._do()
        finally:
            seconds = time.thread_time() - begun
            self._lock.acquire()
            self.seconds += seconds
            job.done = True
            job._do = _nothing  # whoever waits for it may be what it was about: a circle
            self._count += 1
            if job._waited:
                self._missing -= 1
                if not self._missing:
                    self._ended.notify()
