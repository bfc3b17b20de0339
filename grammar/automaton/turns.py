"""Turns: long work under the tables' lock lets others in, where nothing that is shared is half done.

What grammars build goes into tables that all share, under one lock. Mostly that takes microseconds; the algebra behind
one transition or the search for a way out may take seconds. Such work pauses now and then. What belongs to one grammar
(its algebra, its frames' parts) may be half done in a pause, so that is worked on in turns, one thread at a time.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from functools import partial
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
        if threading.active_count() == 1:
            return
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

    def __init__(self, pauses: Pauses, since: float | None = None) -> None:
        """`since`: when the work began, by `perf_counter`, if that was before."""
        self._pauses = pauses
        self._since = perf_counter() if since is None else since

    def __call__(self) -> None:
        if perf_counter() - self._since > HELD:
            self._pauses.pause()
            self._since = perf_counter()


class Entrance:
    """The lock as matchers take it, which are short of time: those who pause see that they wait.

    enter_if_free  takes it if nobody has it, and says whether
    leave          gives it back

    Neither is a method, since they are called for each token, and `with` would call two functions of Python's.
    """

    __slots__ = ("_enter", "_waiting", "enter_if_free", "leave")

    def __init__(self, lock: threading.RLock, pauses: Pauses) -> None:
        self._enter = lock.acquire
        self._waiting = pauses.waiting
        self.enter_if_free: Callable[[], bool] = partial(lock.acquire, False)
        self.leave: Callable[[], None] = lock.release

    def wait(self) -> None:
        """Takes it once it is free."""
        self._waiting.append(None)
        try:
            self._enter()
        finally:
            self._waiting.pop()

    def __enter__(self) -> None:
        if not self.enter_if_free():
            self.wait()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()


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
