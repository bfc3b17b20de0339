"""How fast this machine reads memory: a kernel that adds up an array much larger than the caches, as STREAM does."""

from __future__ import annotations

import time

import numpy as np
import tvm
from slipcast.engine.runtime.arena import Arena, aligned_copy, as_tensor
from slipcast.engine.runtime.cpu import instruction_set
from slipcast.engine.runtime.kernels.builder import LANES, Registers, function, i32, prefetch, size, span, store, zeros
from slipcast.engine.runtime.library import host_target
from tvm.tirx.script import builder as T

BYTES = 400 << 20
_READS = 5
_PARTS, _VECTORS = 64, 8  # of the array, for threads; of float32x8, in a turn of the loop


class MemorySpeed:
    """Reads in huge pages, as weights are kept; with prefetching, and without, since machines differ."""

    def __init__(self) -> None:
        memory = Arena([BYTES], "reading", huge=True).take(BYTES)
        memory[:] = 0
        self._source = as_tensor(memory.view(np.float32))
        self._sums = as_tensor(aligned_copy(np.zeros((_PARTS, LANES), np.float32)))
        self._kernels = [_read_kernel(ahead) for ahead in (0, 2048)]

    def gigabytes_per_cpu_second(self) -> float:
        """Of the better kernel, over a few reads of about 0.02 s."""
        spent = []
        for kernel in self._kernels:
            start = time.process_time()
            for _ in range(_READS):
                kernel(self._source, self._sums)
            spent.append(time.process_time() - start)
        return _READS * BYTES / min(spent) / 1e9


def _read_kernel(ahead: int) -> tvm.runtime.PackedFunc:
    width = _VECTORS * LANES
    turns = BYTES // 4 // _PARTS // width
    with function("read") as f:
        source = f.tensor("source", (BYTES // 4,), "float32")
        sums = f.tensor("sums", (size(), LANES), "float32")
        with T.parallel(_PARTS) as part:
            total = Registers([zeros()] * _VECTORS)
            with T.serial(turns) as turn:
                for i in range(_VECTORS):
                    place = (part * turns + turn) * width + i * LANES
                    if ahead and i % 2 == 0:
                        prefetch(source, place + i32(ahead // 4))
                    total[i] = total[i] + source[span(place)]
            value = total[0]
            for i in range(1, _VECTORS):
                value = value + total[i]
            store(sums, value, part, span(0))
    target = tvm.target.Target(host_target(instruction_set()).description())
    return tvm.compile(f.result(), target=target)["read"]
