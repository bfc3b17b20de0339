"""Compiling without pauses of Python's garbage collector.

A compilation makes thousands of small objects that all stay alive. The collector is called by how many there are, finds
nothing to collect, and now and then looks through the whole heap: with a vocabulary in it that takes longer than most
compilations. So it is held off meanwhile, and what was made then counts as old, as if it had been looked through.

A program that does nothing but serve goes further (`own`): looking through all that its grammars made takes up to a
second, in which no stream goes on. What is made is put out of the collector's sight, what has grown old beside it is
left alone too, and all is looked through when the program finds the time (`sweep`).
"""

from __future__ import annotations

import gc
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from .errors import GrammarError

YOUNG: Final = 1
"""The collector's generations up to this one hold what was made since it last looked."""
NEVER: Final = 1 << 30
OLD: Final = 100
"""Collections of what was young, of some thousand objects each, after which a sweep is worth while."""
MANY: Final = 200_000
"""Objects that take longer to look through than a stream should stand still."""


class CollectorPause:
    """Holds off automatic collection while any thread is inside `held()`; afterwards it is as it was."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._resume = False
        self._frozen = False
        self._owned = False
        self._failed = False
        self._thresholds = gc.get_threshold()
        self.compiled = 0
        """Compilations since the last sweep."""
        self.dropped = 0
        """Tables of grammars, or as much, given up since the last sweep: in circles, so that only that frees them."""

    @contextmanager
    def held(self) -> Iterator[None]:
        """No automatic collection within; may be entered again and by many threads."""
        with self._lock:
            if not self._inside:
                self._resume = gc.isenabled()
                gc.disable()
            self._inside += 1
            self.compiled += 1
        try:
            yield
        except GrammarError as error:
            # What was made for nothing is held by the frames that failed, and in circles.
            _clear(error)
            self._failed = True
            raise
        finally:
            with self._lock:
                self._inside -= 1
                if not self._inside and self._resume:
                    self._resumed()

    @property
    def made(self) -> int:
        """Objects that were made within `held()` and are still there, by all threads together: to be compared with
        what it was before.
        """
        return gc.get_count()[0]

    def _resumed(self) -> None:
        if self._failed:
            self._failed = False
            if self._owned and gc.get_count()[0] > MANY:
                self.dropped += 1
            else:
                gc.collect(YOUNG)
        self._grow_old()
        gc.enable()

    def _grow_old(self) -> None:
        """Moves all objects to the oldest generation: two links of lists, whatever their number."""
        if self._owned:
            gc.freeze()
            return
        if not self._frozen:
            self._frozen = gc.get_freeze_count() > 0  # the program's own doing, and not to be undone; slow to ask then
        if not self._frozen:
            gc.freeze()
            gc.unfreeze()

    def own(self) -> None:
        """This process serves and nothing else: what is there now, and what compilations leave, is looked through in
        `sweep` only, which somebody must call now and then.
        """
        with self._lock:
            if not self._owned:
                self._owned = True
                self._thresholds = gc.get_threshold()
                gc.set_threshold(*self._thresholds[:2], NEVER)
            gc.collect()
            gc.freeze()

    @property
    def grown(self) -> bool:
        """Whether so much has grown old since the last sweep that another is worth while."""
        return gc.get_count()[2] > OLD

    def sweep(self) -> None:
        """Look through everything, and free what nobody uses. Other threads stand still meanwhile.

        For whoever called `own`; without effect while something is compiled.
        """
        with self._lock:
            if self._owned and not self._inside:
                self.compiled = self.dropped = 0
                gc.unfreeze()
                gc.collect()
                gc.freeze()

    def release(self) -> None:
        """The end of `own`: the collector looks through everything by itself again."""
        with self._lock:
            if self._owned:
                self._owned = False
                gc.set_threshold(*self._thresholds)
                gc.unfreeze()


def _clear(error: BaseException | None) -> None:
    """Forget what the frames behind an error held, and those of errors behind it."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


COLLECTOR = CollectorPause()
"""The one of this process, since the collector is one for the process."""
