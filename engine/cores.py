"""What the engine's thread asks of the machine while its model computes: cores, and the interpreter back at once.

A step is shared out evenly among threads and waits for the last one many times over, so a core that is half taken is
worse than none (grammar/courtesy.py): beside long work on a grammar it runs on one thread less, and on one alone while
other programs crowd the machine. What it computes does not depend on that.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

from ..grammar.courtesy import COURTESY
from .runtime.cpu import LoadSample, free_threads

CROWDED: Final = 2.0
"""A step that took this many times the time that its thread ran was held up by other programs."""
SHORT: Final = 0.005
"""Seconds of being held up that mean nothing."""
LOOK: Final = 0.5
"""Seconds over which it is seen whether other programs leave the cores free again."""
SWITCH: Final = 0.00005
"""Seconds that another thread in Python runs on while the engine's waits for the interpreter."""


class Cores:
    """Decides on the threads of one engine's steps. Used by its thread, but for `_is_wide`."""

    def __init__(self, model: Any) -> None:
        """`model`: with `threads` and `use_threads` (runtime/model.py); one without them is left alone."""
        self._most = int(getattr(model, "threads", 1))
        self._model = model
        self._used = self._most
        self._wide = False
        self._crowded: LoadSample | None = None
        """Taken when other programs were last seen to hold the cores."""
        COURTESY.add_host(self._is_wide)

    def close(self) -> None:
        """The end: nobody need wait any more."""
        self._wide = False
        COURTESY.remove_host(self._is_wide)

    def begin(self) -> None:
        """A step is about to be computed."""
        if self._most == 1:
            return
        self._wide = True  # before it is asked, see Courtesy.add_host
        threads = self._most
        if self._crowded is not None and not self._is_free(self._crowded):
            threads = 1
        elif COURTESY.is_needed():
            threads -= 1  # one for all: of threads in Python one works at a time
        self._wide = threads == self._most
        if threads != self._used:
            self._model.use_threads(threads)
            self._used = threads

    def end(self, seconds: float, running: float) -> None:
        """It took so long, and the engine's thread ran for `running` of that."""
        if self._wide:
            self._wide = False
            if seconds > CROWDED * running and seconds - running > SHORT:
                self._crowded = LoadSample.take()

    def _is_free(self, since: LoadSample) -> bool:
        if LoadSample.clock() - since.wall < LOOK:
            return False
        free = free_threads(since) >= self._most
        self._crowded = None if free else LoadSample.take()
        return free

    def _is_wide(self) -> bool:
        return self._wide


class Interpreter:
    """Who has Python's interpreter how long: others hand it over soon while an engine waits for it, so that its steps
    do not wait for a compilation; otherwise as the program has it, so that an engine's work is not cut into pieces.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = 0
        self._usual = sys.getswitchinterval()

    @contextmanager
    def wanted(self) -> Iterator[None]:
        """An engine's thread does something without the interpreter, and wants it back at the end."""
        with self._lock:
            self._waiting += 1
            if self._waiting == 1:
                self._usual = sys.getswitchinterval()
                sys.setswitchinterval(min(SWITCH, self._usual))
        try:
            yield
        finally:
            with self._lock:
                self._waiting -= 1
                if not self._waiting:
                    sys.setswitchinterval(self._usual)


INTERPRETER: Final = Interpreter()
"""The one of this process."""
