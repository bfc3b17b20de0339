"""Token masks: packed bit rows, uint32 [B, W]; bit i of word i // 32, least significant first, is token i."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from .protocols import Logits, MaskRows

WORD = 32
# For each byte of a row, the highest value that each of its eight tokens may have: float32 [256, 8].
CEILINGS = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), np.inf, -np.inf
).astype(np.float32)


def words(vocabulary: int) -> int:
    """Words in a row for `vocabulary` tokens."""
    return -(-vocabulary // WORD)


def pack(tokens: Iterable[int], vocabulary: int) -> MaskRows:
    """The row, uint32 [W], with the bits of `tokens` set."""
    bits = np.zeros(words(vocabulary) * WORD, np.uint8)
    bits[list(tokens)] = 1
    return np.packbits(bits, bitorder="little").view("<u4").astype(np.uint32, copy=False)


def unpack(rows: MaskRows, vocabulary: int) -> NDArray[np.bool_]:
    """Rows of bits, bool [..., V]."""
    return np.unpackbits(_bytes(rows), axis=-1, count=vocabulary, bitorder="little").view(np.bool_)


def apply(logits: Logits, rows: MaskRows) -> None:
    """Set `logits`, float32 [B, V], to -inf where `rows`, uint32 [B, W], has no bit."""
    # The minimum with a ceiling is a tenth of the time of a conditional copy.
    ceilings = CEILINGS.take(_bytes(rows), axis=0).reshape(len(rows), -1)
    np.minimum(logits, ceilings[:, : logits.shape[1]], out=logits)


def empty(rows: MaskRows) -> NDArray[np.bool_]:
    """Bool [B]: rows that allow nothing."""
    some: NDArray[np.bool_] = np.any(rows, axis=1)
    return np.logical_not(some)


def only(rows: MaskRows, among: MaskRows) -> NDArray[np.bool_]:
    """Bool [B]: rows with at least one bit, all of them within `among`, uint32 [W]."""
    outside: NDArray[np.bool_] = np.any(rows & ~among, axis=1)
    return np.logical_not(outside | empty(rows))


def _bytes(rows: MaskRows) -> NDArray[np.uint8]:
    return np.ascontiguousarray(rows).astype("<u4", copy=False).view(np.uint8)
