"""Least fixpoints over recursive schemas, one value at a time.

A function over goals that meets the goal it is computing answers with the bottom value there (a JSON value is finite,
so what only a cycle would allow is not allowed). Over a distributive lattice one such pass gives the least fixpoint at
the head of the cycle. Answers found inside a cycle rest on that assumption and are not kept; the head's is.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from ..courtesy import COURTESY
from .depth import STRIDE, Depth

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Fixpoint(Generic[K, V]):
    """A memo that is safe under recursion; `top`, where given, needs no assumption and is always kept."""

    def __init__(self, depth: Depth, bottom: V, top: V | None = None) -> None:
        self._depth = depth
        self._bottom = bottom
        self._top = top
        self._done: dict[K, V] = {}
        self._active: dict[K, int] = {}
        self._touched = 1 << 60  # least depth of an active key that an answer in progress has relied on

    def __contains__(self, key: K) -> bool:
        return key in self._done

    def get(self, key: K, compute: Callable[[], V]) -> V:
        """The value at `key`; `compute` may call `get` again, for this key too."""
        if key in self._done:
            return self._done[key]
        COURTESY.pause()
        depth = self._active.get(key)
        if depth is not None:
            self._touched = min(self._touched, depth)
            return self._bottom
        depth = len(self._active)
        outer, self._touched = self._touched, 1 << 60
        self._active[key] = depth
        nesting = self._depth
        nesting.level += 1  # as `Depth.enter`, without a call: nothing is asked more often
        try:
            value = compute() if nesting.level % STRIDE else nesting.deeper(compute)
        finally:
            nesting.level -= 1
            del self._active[key]
            touched, self._touched = self._touched, outer
        if touched >= depth or (self._top is not None and value == self._top):
            self._done[key] = value
        else:
            self._touched = min(self._touched, touched)
        return value
