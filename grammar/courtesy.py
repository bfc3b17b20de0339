"""Courtesy: work on a grammar that turns out long makes itself known, and begins in earnest once there is room for it.

A model's kernels share a step out evenly among the cores, in hundreds of parts, each of which waits for its last
thread. A thread that waits so gives its core away if another wants it, and has it back only after milliseconds: beside
one compilation a step may take as long as all of its parts' waits together, fifty times what it takes alone. So who
runs such steps (a host) runs them on fewer threads while there is long work, and is asked before the work goes on
whether it is about to end one that began before. Short work, as most is, never asks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

LONG: Final = 0.001
"""Seconds of work that may go on beside anything."""
PATIENCE: Final = 0.5
"""Seconds that a host is waited for, at most."""
NAP: Final = 0.001


class Courtesy:
    """Who works how long, and whom that would disturb. Any thread may call any method."""

    def __init__(self) -> None:
        self._begun: dict[int, float] = {}  # by thread; changed by that thread alone
        self._hosts: tuple[Callable[[], bool], ...] = ()
        self._lock = threading.Lock()

    @contextmanager
    def working(self) -> Iterator[None]:
        """This thread works on a grammar within; may be entered again."""
        me = threading.get_ident()
        if me in self._begun:
            yield
            return
        self._begun[me] = time.perf_counter()
        try:
            yield
        finally:
            del self._begun[me]

    def is_needed(self) -> bool:
        """Whether some thread is at long work."""
        if not self._begun:
            return False
        late = time.perf_counter() - LONG
        return any(begun < late for begun in tuple(self._begun.values()))

    def add_host(self, is_disturbed: Callable[[], bool]) -> None:
        """`is_disturbed`: whether long work that begins now would hold the host up for long. It asks `is_needed` before
        it comes into such a state again.
        """
        with self._lock:
            self._hosts = (*self._hosts, is_disturbed)

    def remove_host(self, is_disturbed: Callable[[], bool]) -> None:
        """The end of `add_host`."""
        with self._lock:
            self._hosts = tuple(host for host in self._hosts if host != is_disturbed)

    def disturbs(self) -> bool:
        """Whether this thread's work is long, and had better wait a little for a host."""
        if not self._hosts:
            return False
        begun = self._begun.get(threading.get_ident())
        if begun is None or time.perf_counter() - begun < LONG:
            return False
        return any(host() for host in self._hosts)

    def pause(self, sleep: Callable[[float], object] = time.sleep) -> None:
        """Called now and then by long work: waits for hosts. `sleep` lends whatever lock the thread holds."""
        if self._hosts and self.disturbs():
            end = time.perf_counter() + PATIENCE
            while self.disturbs() and time.perf_counter() < end:
                sleep(NAP)


COURTESY = Courtesy()
"""The one of this process, since all share its cores."""
