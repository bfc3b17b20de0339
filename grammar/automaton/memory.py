"""Arrays in reserved anonymous memory: their addresses never change, and untouched pages cost nothing."""

from __future__ import annotations

import contextlib
import mmap
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

# Python 3.11 does not name the flag. Without it a cautious kernel refuses reservations beyond its free memory.
_NORESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
_HUGE_PAGE = 2 << 20


def reserve(count: int, dtype: npt.DTypeLike, *, huge: bool = False) -> npt.NDArray[Any]:
    """A zeroed one-dimensional array of `count` items, page aligned, its pages given by the system as they are touched.

    `huge` asks for 2 MiB pages: for arrays that are used densely from their start, where page faults and misses of the
    address cache would show.
    """
    size = max(count * np.dtype(dtype).itemsize, mmap.PAGESIZE)
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
    if huge and size >= _HUGE_PAGE and hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages: small ones do
            memory.madvise(mmap.MADV_HUGEPAGE)
    return np.frombuffer(memory, dtype=dtype, count=count)
