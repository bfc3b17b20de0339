"""What the host's CPU offers: its instruction set for the kernels, its free cores and its free memory."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_AVX2_FLAGS = frozenset({"avx2", "fma", "f16c"})
# What /proc/cpuinfo must list for each kernel family, the best first.
_FLAGS = {
    "avx512vnni": _AVX2_FLAGS | {"avx512f", "avx512bw", "avx512vl", "avx512_vnni"},
    "avxvnni": _AVX2_FLAGS | {"avx_vnni"},
    "avx2": _AVX2_FLAGS,
}
_CGROUP_QUOTA = Path("/sys/fs/cgroup/cpu.max")
_CGROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")
_CGROUP_USED = Path("/sys/fs/cgroup/memory.current")
_MEMORY_INFO = Path("/proc/meminfo")
_CPU_TIMES = Path("/proc/stat")
_CPU_INFO = Path("/proc/cpuinfo")


def instruction_set() -> str:
    """The best kernel family that this machine runs: "avx512vnni", "avxvnni", "avx2" or "portable"."""
    try:
        text = _CPU_INFO.read_text()
    except OSError:  # no such file outside Linux
        return "portable"
    for line in text.splitlines():
        if line.startswith("flags"):
            has = set(line.split(":", 1)[1].split())
            return next((name for name, needed in _FLAGS.items() if has >= needed), "portable")
    return "portable"


def usable_cores() -> int:
    """Cores that this process may run on: its affinity, cut by the container's quota."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # no control group, or "max"
        quota, period = _CGROUP_QUOTA.read_text().split()
        cores = min(cores, max(1, round(int(quota) / int(period))))
    return cores


@dataclass(frozen=True)
class LoadSample:
    """CPU seconds since boot, of everyone and of this process; two samples give the load between them."""

    wall: float
    busy: float | None
    own: float

    @staticmethod
    def clock() -> float:
        """Seconds, as `wall` has them."""
        return time.monotonic()

    @classmethod
    def take(cls) -> LoadSample:
        own = time.process_time()
        try:
            fields = [int(field) for field in _CPU_TIMES.read_text().split("\n", 1)[0].split()[1:]]
            # user, nice, system, idle, iowait, irq, softirq, steal
            busy = (sum(fields[:3]) + sum(fields[5:8])) / os.sysconf("SC_CLK_TCK")
        except (OSError, ValueError, IndexError):
            busy = None
        return cls(time.monotonic(), busy, own)


def free_threads(since: LoadSample) -> int:
    """Threads for the kernels: cores that others left free since a sample, at least one.

    A core half taken is not counted: the work is split evenly beforehand, and everyone would wait for the slowest.
    """
    cores = usable_cores()
    now = LoadSample.take()
    elapsed = now.wall - since.wall
    if since.busy is None or now.busy is None or elapsed < 0.1:
        return cores
    others = max(0.0, (now.busy - since.busy) - (now.own - since.own)) / elapsed
    return max(1, min(cores, round(cores - others - 0.1)))


def available_memory() -> int | None:
    """Bytes that can be taken without swapping, within the container's limit; None if the system does not say."""
    try:
        fields = dict(line.split(":", 1) for line in _MEMORY_INFO.read_text().splitlines())
        available = int(fields["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None
    with suppress(OSError, ValueError):  # no control group, or "max"
        available = min(available, int(_CGROUP_LIMIT.read_text()) - int(_CGROUP_USED.read_text()))
    return max(0, available)
