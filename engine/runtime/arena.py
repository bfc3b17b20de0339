"""Aligned blocks of memory for weights and KV pages."""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt
from tvm_ffi import from_dlpack

from ..errors import ModelError

_ALIGNMENT = 128  # kernels assume 64
_HUGE_PAGE = 2 << 20


class Arena:
    """Hands out zeroed uint8 arrays from one anonymous mapping; the arrays keep it alive."""

    def __init__(self, sizes: Sequence[int], purpose: str, *, huge: bool) -> None:
        """Room for arrays of these sizes, in bytes, and padding behind them. Raises ModelError if there is none.

        `huge`: in huge pages where the system has them. They are read sooner, but the first write to each zeroes 2 MB.
        """
        total = sum(_aligned(size) for size in sizes) + _HUGE_PAGE
        try:
            # A shared mapping, mmap's default, would get no huge pages: reading weights then takes half as long again.
            memory = mmap.mmap(-1, total, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, OverflowError, MemoryError) as error:
            message = f"the system gives no {total >> 20} MB of memory for {purpose}"
            raise ModelError(message, remedy="use a smaller model, batch or context") from error
        if huge:
            with suppress(OSError, AttributeError):  # not every system has them
                memory.madvise(mmap.MADV_HUGEPAGE)
        self._bytes: npt.NDArray[np.uint8] = np.frombuffer(memory, np.uint8)
        self._next = -self._bytes.ctypes.data % _HUGE_PAGE if total > 4 * _HUGE_PAGE else 0

    def take(self, size: int) -> npt.NDArray[np.uint8]:
        start = self._next
        self._next += _aligned(size)
        return self._bytes[start : start + size]


def as_tensor(array: npt.NDArray[Any]) -> Any:
    """The array as TVM's tensor, sharing its memory."""
    return from_dlpack(array)


def aligned_copy(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy that starts where kernels want it; numpy aligns to 16 bytes only."""
    return aligned_copies([array])[0]


def aligned_copies(arrays: Sequence[npt.NDArray[Any]]) -> list[npt.NDArray[Any]]:
    """Copies that start where kernels want them, in one piece of memory."""
    room = np.empty(sum(_aligned(array.nbytes) for array in arrays) + _ALIGNMENT, np.uint8)
    start = -room.ctypes.data % _ALIGNMENT
    copies = []
    for array in arrays:
        copy: npt.NDArray[Any] = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
        copy[...] = array
        copies.append(copy)
        start += _aligned(array.nbytes)
    return copies


def _aligned(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT
