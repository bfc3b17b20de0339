"""Compiling without pauses of Python's garbage collector.

A compilation makes thousands of small objects that all stay alive. The collector is called by how many there are, finds
nothing to collect, and now and then looks through the whole heap: with a vocabulary in it that takes longer than most
compilations. So it is held off meanwhile, and what was made then counts as old, as if it had been looked through.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager


class CollectorPause:
    """Holds off automatic collection while any thread is inside `held()`; afterwards it is as it was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._resume = False
        self._frozen = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """No automatic collection within; may be entered again and by many threads."""
        with self._lock:
            if not self._inside:
                self._resume = gc.isenabled()
                gc.disable()
            self._inside += 1
        try:
            yield
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside and self._resume:
                    self._grow_old()
                    gc.enable()

    def _grow_old(self) -> None:
        """Moves all objects to the oldest generation: two links of lists, whatever their number."""
        if not self._frozen:
            self._frozen = gc.get_freeze_count() > 0  # the program's own doing, and not to be undone; slow to ask then
        if not self._frozen:
            gc.freeze()
            gc.unfreeze()


COLLECTOR = CollectorPause()
"""The one of this process, since the collector is one for the process."""
