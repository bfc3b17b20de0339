"""Arrays in reserved anonymous memory: their addresses never change, and untouched pages cost nothing."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import sys
from typing import Any, cast

import numpy as np
import numpy.typing as npt

# Python 3.11 does not name the flag. Without it a cautious kernel refuses reservations beyond its free memory.
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
_HUGE_PAGE = 2 << 20


def reserve(count: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """A zeroed one-dimensional array of `count` items, page aligned; the system gives its pages as they are touched."""
    size = max(count * np.dtype(dtype).itemsize, mmap.PAGESIZE)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    return np.frombuffer(memory, dtype=dtype, count=count)


def view(array: npt.NDArray[Any]) -> memoryview[int]:
    """The array as a flat memoryview: scalar access through it costs a third of numpy's."""
    return cast("memoryview[int]", memoryview(cast(Any, array.reshape(-1))))


def touch(array: npt.NDArray[Any], first: int, last: int) -> None:
    """Makes the memory of the items from `first` up to `last`, none of them in use yet, resident now.

    A page is a microsecond or several when it is first written, in the midst of work that takes as long; here it is
    paid in advance, and in pages of 2 MiB where the system has them. Items in use are left alone.
    """
    start = array.ctypes.data + first * array.itemsize
    memory: object = getattr(array.base, "obj", None)
    if isinstance(memory, mmap.mmap) and hasattr(mmap, "MADV_HUGEPAGE"):
        offset = first * array.itemsize // _HUGE_PAGE * _HUGE_PAGE
        with contextlib.suppress(OSError):  # a kernel without huge pages: small ones do
            memory.madvise(mmap.MADV_HUGEPAGE, offset, last * array.itemsize - offset)
    step = max(mmap.PAGESIZE // array.itemsize, 1)
    aligned = first + (-start % mmap.PAGESIZE) // array.itemsize
    array[aligned:last:step] = 0


def give_back() -> None:
    """Returns freed memory to the system, where the C library keeps it otherwise (glibc does, tens of megabytes of it
    after large arrays came and went).
    """
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
