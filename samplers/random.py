"""Counter-based random numbers: a number is a function of (stream, position), so no state moves with the batch.

SplitMix64 (Steele, Lea, Flood 2014) as a counter generator: output n of a stream is its finaliser on seed + n * gamma.
"""

from __future__ import annotations

from collections.abc import Sequence
from secrets import randbits

import numpy as np
from numpy.typing import NDArray

_MASK = (1 << 64) - 1
_GAMMA = 0x9E3779B97F4A7C15
_M1 = 0xBF58476D1CE4E5B9
_M2 = 0x94D049BB133111EB


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * _M1) & _MASK
    z = ((z ^ (z >> 27)) * _M2) & _MASK
    return z ^ (z >> 31)


def fresh_seed() -> int:
    """A seed from the system, 64 bits."""
    return randbits(64)


def stream(seed: int, index: int) -> int:
    """The 64-bit stream of choice `index` of a request with `seed` (any integer; taken modulo 2**64)."""
    return _mix((_mix((seed + _GAMMA) & _MASK) + (index + 1) * _GAMMA) & _MASK)


def uniform(streams: Sequence[int], positions: Sequence[int]) -> NDArray[np.float64]:
    """Numbers in [0, 1), float64 [B]: number `positions[i]` of `streams[i]`."""
    z = np.array(streams, np.uint64)
    with np.errstate(over="ignore"):
        z = z + np.array(positions, np.uint64) * np.uint64(_GAMMA)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(_M1)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(_M2)
    z = z ^ (z >> np.uint64(31))
    return (z >> np.uint64(11)).astype(np.float64) * 2.0**-53
