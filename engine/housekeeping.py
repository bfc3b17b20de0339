"""What a process that serves does for its memory, beside serving.

Python's collector stops every thread while it looks through what grammars made, up to a second, and no stream goes on
meanwhile. So it is kept from that (grammar/pause.py), and does it when the engines rest; or, where tables were given up
that take much memory, at the latest after a while.

What was freed the C library keeps for later: a fiftieth of the process's memory in a minute of many requests. It is
given back to the system also while the engines work, now and then only: for some hundredths of a second threads may
wait for memory meanwhile.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final, Self

from ..grammar.automaton.memory import give_back
from ..grammar.pause import COLLECTOR, CollectorPause

EVERY: Final = 1.0
"""Seconds between two looks."""
ENOUGH: Final = 64
"""Compilations, after which a rest is used."""
PATIENCE: Final = 60.0
"""Seconds without a rest, after which the memory of tables that were given up is had back all the same."""
TIDY: Final = 15.0
"""Seconds between two times that freed memory is given back to the system."""
SWITCH: Final = 0.001
"""Seconds that a thread in Python runs on while another waits. (While it waits for the engine's, less: cores.py.)"""


class Housekeeping:
    """Takes over the process's collector and looks after it from a thread, until closed; the first look takes up to a
    second. `busy`: whether anybody would notice a pause.
    """

    def __init__(
        self, busy: Callable[[], bool], *, every: float = EVERY, patience: float = PATIENCE,
        collector: CollectorPause = COLLECTOR,
    ) -> None:  # fmt: skip
        self._busy = busy
        self._every = every
        self._patience = patience
        self._collector = collector
        self._ended = threading.Event()
        self._rested = self._tidied = time.monotonic()
        self._switch = sys.getswitchinterval()
        self._thread = threading.Thread(target=self._run, name="slipcast-housekeeping", daemon=True)

    def __enter__(self) -> Self:
        sys.setswitchinterval(min(SWITCH, self._switch))
        self._collector.own()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._collector.release()
        sys.setswitchinterval(self._switch)

    def _run(self) -> None:
        while not self._ended.wait(self._every):
            now = time.monotonic()
            if self._is_time():
                self._collector.sweep()
                self._rested = time.monotonic()
            elif now - self._tidied < TIDY:
                continue
            give_back()
            self._tidied = now

    def _is_time(self) -> bool:
        dropped = self._collector.dropped > 0
        if not dropped and self._collector.compiled < ENOUGH and not self._collector.grown:
            self._rested = time.monotonic()
            return False
        return not self._busy() or (dropped and time.monotonic() - self._rested > self._patience)
