"""Deep recursion on stacks of ordinary size.

Python counts the depth of calls per thread. A schema of 500 nested levels is a recursion of thousands of calls here, so
every few levels it goes on in a thread of its own, which begins at depth zero, while the thread below waits.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from ..courtesy import COURTESY
from ..errors import BudgetError

V = TypeVar("V")

MAX_DEPTH: Final = 4096
STRIDE: Final = 20
"""Levels in one thread. One level is at most a dozen calls, of the thousand that Python allows."""


class Depth:
    """How deep one recursion stands, in levels that its functions announce by `enter`."""

    __slots__ = ("level",)

    def __init__(self) -> None:
        self.level = 0

    def enter(self, compute: Callable[[], V]) -> V:
        """`compute()`, one level deeper. Raises BudgetError beyond `MAX_DEPTH` levels."""
        self.level += 1
        try:
            return compute() if self.level % STRIDE else self.deeper(compute)
        finally:
            self.level -= 1

    def deeper(self, compute: Callable[[], V]) -> V:
        """`compute()` in a thread of its own, for the levels that are a multiple of `STRIDE`."""
        if self.level > MAX_DEPTH:
            raise BudgetError(f"the schema nests deeper than {MAX_DEPTH} levels of what stands inside what")
        return _in_thread(compute)


def _in_thread(compute: Callable[[], V]) -> V:
    results: list[V] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            with COURTESY.working():  # in the caller's stead, who waits
                results.append(compute())
        except BaseException as error:  # whatever it is, it belongs to the caller
            errors.append(error)

    thread = threading.Thread(target=work, name="slipcast-deeper", daemon=True)
    thread.start()
    thread.join()
    if errors:
        raise errors[0]
    return results[0]
