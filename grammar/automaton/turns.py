"""Turns: long work under the tables' lock lets others in, where nothing that is shared is half done.

What grammars build goes into tables that all share, under one lock. Mostly that takes microseconds; the algebra behind
one transition or the search for a way out may take seconds. Such work pauses now and then. What belongs to one grammar
(its algebra, its frames' parts) may be half done in a pause, so that is worked on in turns, one thread at a time.
"""

from __future__ import annotations

import threading
from collections import deque
from time import perf_counter
from types import TracebackType
from typing import Final

from ..courtesy import COURTESY

PAUSE: Final = 50e-6
"""Seconds. Long enough for a waiting thread to wake and take the lock; then it is had back only after that thread."""
HELD: Final = 0.001
"""Seconds of work after which it is time for a pause."""
LENT: Final = 0.05
"""Seconds that a pause takes at most, while matchers wait for the lock."""
WAIT: Final = 0.05


class Pauses:
    """Pauses of one lock."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lent = threading.Condition(lock)
        self.waiting: deque[None] = deque()
        """One for each matcher that waits for the lock."""
        self.count = 0
        """How often the lock was lent."""

    def pause(self) -> None:
        """Lets others have the lock, which the caller holds, however often it entered it; all matchers that wait."""
        self.count += 1
        self._lent.wait(PAUSE)
        if self.waiting:
            end = perf_counter() + LENT
            while self.waiting and perf_counter() < end:
                self._lent.wait(PAUSE)
        COURTESY.pause(self._lent.wait)

    def wait(self) -> None:
        """Lets others have the lock until `tell`, or for a while."""
        self.count += 1
        self._lent.wait(WAIT)

    def tell(self) -> None:
        """Wakes who waits. The caller holds the lock."""
        self._lent.notify_all()


class Breath:
    """Pauses of long work, after every millisecond of it: called where nothing that is shared is half done."""

    __slots__ = ("_pauses", "_since")

    def __init__(self, pauses: Pauses) -> None:
        self._pauses = pauses
        self._since = perf_counter()

    def __call__(self) -> None:
        if perf_counter() - self._since > HELD:
            self._pauses.pause()
            self._since = perf_counter()


class Entrance:
    """The lock as matchers take it, which are short of time: those who pause see that they wait."""

    __slots__ = ("_lock", "_waiting")

    def __init__(self, lock: threading.RLock, pauses: Pauses) -> None:
        self._lock = lock
        self._waiting = pauses.waiting

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._waiting.append(None)
            try:
                self._lock.acquire()
            finally:
                self._waiting.pop()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def enter_if_free(self) -> bool:
        """Takes it if nobody has it; to be left by `leave`."""
        return self._lock.acquire(blocking=False)

    def leave(self) -> None:
        """After `enter_if_free`."""
        self._lock.release()


class Turn:
    """The right to work on one grammar: `with turn:`, by a thread that holds the tables' lock; may be nested.

    Waiting for it lends the lock, so whoever enters must have nothing shared half done.
    """

    __slots__ = ("_depth", "_pauses", "_thread")

    def __init__(self, pauses: Pauses) -> None:
        self._pauses = pauses
        self._thread = 0
        self._depth = 0

    def __enter__(self) -> None:
        me = threading.get_ident()
        while self._depth and self._thread != me:
            self._pauses.wait()
        self._thread = me
        self._depth += 1

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if not self._depth:
            self._pauses.tell()

    def pause(self) -> None:
        """Lets other grammars' threads have the lock, if it is this thread's turn; else there is nothing to lend."""
        if self._depth and self._thread == threading.get_ident():
            self._pauses.pause()
