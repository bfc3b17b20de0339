"""Quantising: float32 rows to GGUF's block formats.

Scales of 4 bits are refined: with the integers fixed, the scale (and minimum) of least squared error follow by linear
regression; integers are then rounded anew. A few rounds, keeping the best, are better than plain rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from .blocks import Bytes, Floats, encode_q8_0

_ROUNDS = 3


class TooLargeError(ValueError):
    """A value does not fit in float16."""


def encode(values: Floats, kind: str) -> Bytes:
    """float32 [N, K] to rows of GGUF type `kind`, uint8 [N, bytes of a row]; K must be a multiple of 32.

    Raises TooLargeError for values beyond float16 where the format has them.
    """
    with np.errstate(over="ignore"):
        raw = _ENCODERS[kind](np.ascontiguousarray(values, dtype=np.float32))
    return raw.reshape(len(values), -1)


def _q4_0(values: Floats) -> Bytes:
    """value = scale * (q - 8)."""
    blocks = values.reshape(-1, 32)
    extreme = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)
    scale = _half(extreme * np.float32(-1 / 8))
    best, error = scale, np.full_like(scale, np.inf)
    for _ in range(_ROUNDS):
        q = _integers(blocks, scale, 8, 0, 15) - 8
        found = np.square(blocks - scale * q).sum(1, keepdims=True)
        best, error = np.where(found < error, scale, best), np.minimum(found, error)
        scale = _half(_ratio((blocks * q).sum(1, keepdims=True), np.square(q).sum(1, keepdims=True)))
    stored = _integers(blocks, best, 8, 0, 15).astype(np.uint8)
    return np.concatenate([best.astype("<f2").view(np.uint8), _nibbles(stored)], axis=1)


def _q4_1(values: Floats) -> Bytes:
    """value = scale * q + low."""
    blocks = values.reshape(-1, 32)
    low = _half(blocks.min(1, keepdims=True))
    scale = _half((blocks.max(1, keepdims=True) - low) / 15)
    best, best_low, error = scale, low, np.full_like(scale, np.inf)
    for _ in range(_ROUNDS):
        q = _integers(blocks - low, scale, 0, 0, 15)
        found = np.square(blocks - scale * q - low).sum(1, keepdims=True)
        better = found < error
        best, best_low = np.where(better, scale, best), np.where(better, low, best_low)
        error = np.minimum(found, error)
        mean = q.mean(1, keepdims=True)
        centred = q - mean
        scale = _half(_ratio((blocks * centred).sum(1, keepdims=True), np.square(centred).sum(1, keepdims=True)))
        low = _half(blocks.mean(1, keepdims=True) - scale * mean)
    stored = _integers(blocks - best_low, best, 0, 0, 15).astype(np.uint8)
    fields = np.concatenate([best, best_low], axis=1).astype("<f2").view(np.uint8)
    return np.concatenate([fields, _nibbles(stored)], axis=1)


def _q8_0(values: Floats) -> Bytes:
    if np.abs(values).max(initial=0) > 65504 * 127:
        raise TooLargeError
    return encode_q8_0(values)


def _integers(values: Floats, scale: Floats, shift: int, low: int, high: int) -> Floats:
    """values / scale to the nearest integers, shifted into their range; 0 where there is no scale."""
    integers: Floats = np.clip(np.rint(_ratio(values, scale)) + np.float32(shift), low, high)
    return integers


def _ratio(above: Floats, below: Floats) -> Floats:
    above, below = np.broadcast_arrays(above, below)
    return np.divide(above, below, out=np.zeros_like(above), where=below != 0)


def _half(values: Floats) -> Floats:
    """Rounded to float16, as it will be stored."""
    rounded = values.astype(np.float16).astype(np.float32)
    if not np.isfinite(rounded).all():
        raise TooLargeError
    return rounded


def _nibbles(q: Bytes) -> Bytes:
    return q[:, :16] | q[:, 16:] << np.uint8(4)


def _f16(values: Floats) -> Bytes:
    return _half(values).astype("<f2").view(np.uint8)


def _bf16(values: Floats) -> Bytes:
    """To the nearest, ties to even."""
    bits = values.view(np.uint32)
    rounded = bits + np.uint32(0x7FFF) + (bits >> np.uint32(16) & np.uint32(1))
    return (rounded >> np.uint32(16)).astype("<u2").view(np.uint8)


_ENCODERS: Mapping[str, Callable[[Floats], Bytes]] = MappingProxyType({
    "Q4_0": _q4_0, "Q4_1": _q4_1, "Q8_0": _q8_0, "F16": _f16, "BF16": _bf16,
    "F32": lambda values: values.view(np.uint8),
})  # fmt: skip
