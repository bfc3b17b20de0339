"""From GGUF's row-major blocks to the interleaved layouts of the kernels (kernels/formats.py).

Formats that the kernels know are repacked bit by bit: only 4-byte words move. Others are first rewritten in a format
that is known: Q5_0 as Q8_0 exactly; Q4_K as Q4_1, with scales rounded to float16 (one part in 2,000, and the weights
are one in 15); the rest, and mixtures, as Q8_0 by way of float32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from .blocks import decode, encode_q8_0, q4_k_to_q4_1, q5_0_to_q8_0

Bytes = npt.NDArray[np.uint8]

GROUP = 8  # weight rows that are interleaved
BLOCK = 32  # columns of a block

NATIVE: Mapping[str, str] = MappingProxyType(
    {"Q4_0": "q4_0", "Q4_1": "q4_1", "Q8_0": "q8_0", "F16": "f16", "BF16": "bf16", "F32": "f32"}
)
# GGUF type: the type to rewrite it in, and how
_REWRITTEN: Mapping[str, tuple[str, Callable[[Bytes], Bytes]]] = MappingProxyType(
    {"Q4_K": ("Q4_1", q4_k_to_q4_1), "Q5_0": ("Q8_0", q5_0_to_q8_0)}
)
_FLOATS = frozenset({"f16", "bf16", "f32"})


class NotFiniteError(ValueError):
    """A weight or a scale is infinite or no number."""


def packed_format(types: set[str]) -> str:
    """The kernels' format for a matrix put together from tensors of these GGUF types."""
    formats = {NATIVE.get(_REWRITTEN[kind][0] if kind in _REWRITTEN else kind, "q8_0") for kind in types}
    if len(formats) == 1:
        return formats.pop()
    return "f32" if formats <= _FLOATS else "q8_0"


def pack(raw: Bytes, kind: str, form: str, out: Bytes) -> None:
    """Fill `out`, uint8 [..., K / 32, bytes of a block], from `raw`, uint8 [N, bytes of a row of GGUF type `kind`].

    The leading dimensions of `out` hold ceil(N / 8) groups of eight rows; rows past the last are zero. Raises
    NotFiniteError for weights that are not numbers: the kernels have no place for them.
    """
    if kind in _REWRITTEN and NATIVE[_REWRITTEN[kind][0]] == form:
        kind, rewrite = _REWRITTEN[kind]
        raw = rewrite(raw)
    if NATIVE.get(kind) != form:
        values = decode(raw, kind)
        if not np.isfinite(values).all():
            raise NotFiniteError
        raw = values.view(np.uint8) if form == "f32" else encode_q8_0(values)
    missing = -len(raw) % GROUP
    if missing:
        raw = np.concatenate([raw, np.zeros((missing, raw.shape[1]), np.uint8)])
    _PACKERS[form](raw, out)


def interleaved_heads(head_count: int, head_dim: int) -> npt.NDArray[np.intp]:
    """The order of rows that undoes llama.cpp's permutation of query and key weights.

    GGUF stores them for rotating neighbouring columns; our kernels rotate column i with i + head_dim / 2.
    """
    order = np.arange(head_count * head_dim).reshape(head_count, head_dim // 2, 2)
    return order.transpose(0, 2, 1).ravel()


def _move(source: Bytes, target: Bytes, dtype: str, lead: tuple[int, ...]) -> None:
    """Interleave fields: source [N, blocks, bytes] to target [..., blocks, 8 * bytes], in units of `dtype`."""
    fields = source.view(dtype)
    _, blocks, count = fields.shape
    # Splitting an axis is always a view, so neither side is copied on the way.
    grouped = fields.reshape(*lead, GROUP, blocks, count)
    target.view(dtype).reshape(*lead, blocks, count, GROUP)[...] = np.moveaxis(grouped, -3, -1)


def _pack_quantised(raw: Bytes, out: Bytes, *, block_bytes: int, halves: int, words: int) -> None:
    """A block of `halves` float16 fields and then `words` four-byte words; each kind goes out together."""
    rows = raw.reshape(len(raw), -1, block_bytes)
    if not np.isfinite(rows[:, :, : 2 * halves].view("<f2")).all():
        raise NotFiniteError
    lead = out.shape[:-2]
    split = 4 * words * GROUP
    _move(rows[:, :, 2 * halves :], out[..., :split], "<u4", lead)
    _move(rows[:, :, : 2 * halves], out[..., split:], "<u2", lead)


def _pack_floats(raw: Bytes, out: Bytes, *, width: int, exponent: int) -> None:
    """`exponent` is the mask of the exponent's bits, all ones in what is not finite."""
    rows = raw.reshape(len(raw), -1, BLOCK * width)
    if (rows.view(f"<u{width}") & exponent == exponent).any():
        raise NotFiniteError
    _move(rows, out, f"<u{width}", out.shape[:-2])


_PACKERS: Mapping[str, Callable[[Bytes, Bytes], None]] = MappingProxyType({
    "q4_0": lambda raw, out: _pack_quantised(raw, out, block_bytes=18, halves=1, words=4),
    "q4_1": lambda raw, out: _pack_quantised(raw, out, block_bytes=20, halves=2, words=4),
    "q8_0": lambda raw, out: _pack_quantised(raw, out, block_bytes=34, halves=1, words=8),
    "f16": lambda raw, out: _pack_floats(raw, out, width=2, exponent=0x7C00),
    "bf16": lambda raw, out: _pack_floats(raw, out, width=2, exponent=0x7F80),
    "f32": lambda raw, out: _pack_floats(raw, out, width=4, exponent=0x7F800000),
})  # fmt: skip
