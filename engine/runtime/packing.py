"""From GGUF's row-major blocks to the interleaved layouts of the kernels (kernels/formats.py), without loss.

Formats are repacked bit by bit: 4-bit integers stay 4 bits, 5- and 6-bit integers take 8, scales stay as they are. Only
a matrix put together from tensors of different formats is rewritten, as Q8_0 by way of float32 (or as F32 if all are
floats); plans avoid that where they can.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from .blocks import decode, encode_q8_0, five_bits, k_fields, q5_0_to_q8_0, q6_k_fields

Bytes = npt.NDArray[np.uint8]

GROUP = 8  # weight rows that are interleaved
BLOCK = 32  # columns of a block
_SUPER = 256  # columns of a block of the K formats
_PIECE = 8 << 20  # bytes of a tensor that are repacked at a time, so that little is held twice

NATIVE: Mapping[str, str] = MappingProxyType({
    "Q4_0": "q4_0", "Q4_1": "q4_1", "Q5_0": "q8_0", "Q5_1": "q8_1", "Q8_0": "q8_0",
    "Q4_K": "q4_k", "Q5_K": "q5_k", "Q6_K": "q6_k", "F16": "f16", "BF16": "bf16", "F32": "f32",
})  # fmt: skip
_FLOATS = frozenset({"f16", "bf16", "f32"})


class NotFiniteError(ValueError):
    """A weight or a scale is infinite or no number."""


def packed_format(types: set[str]) -> str:
    """The kernels' format for a matrix put together from tensors of these GGUF types."""
    formats = {NATIVE.get(kind, "f32") for kind in types}
    if len(formats) == 1:
        return formats.pop()
    return "f32" if formats <= _FLOATS else "q8_0"


def block_columns(form: str) -> int:
    """A matrix has a multiple of so many columns."""
    return _SUPER if form.endswith("_k") else BLOCK


def pack(raw: Bytes, kind: str, form: str, out: Bytes) -> None:
    """Fill `out`, uint8 [..., K / 32 or K / 256, bytes of a block], from `raw`, uint8 [N, bytes of a row].

    `kind` is the GGUF type of `raw`. The leading dimensions of `out` hold ceil(N / 8) groups of eight rows; rows past
    the last are zero. Raises NotFiniteError for weights that are not numbers: the kernels have no place for them.
    """
    if NATIVE.get(kind) != form:
        values = decode(raw, kind)
        if not np.isfinite(values).all():
            raise NotFiniteError
        raw, kind = (values.view(np.uint8), "F32") if form == "f32" else (encode_q8_0(values), "Q8_0")
    missing = -len(raw) % GROUP
    if missing:
        raw = np.concatenate([raw, np.zeros((missing, raw.shape[1]), np.uint8)])
    _PACKERS[kind](raw, out)


def pieces(rows: int, row_bytes: int, step: int) -> Iterator[tuple[int, int]]:
    """(start, end) of runs of rows to pack at a time: multiples of `step` rows, but for the last."""
    count = max(1, _PIECE // max(1, row_bytes) // step) * step
    for start in range(0, rows, count):
        yield start, min(rows, start + count)


def head_order(rows: int, head_dim: int, rotated: int, *, paired: bool) -> npt.NDArray[np.intp]:
    """The order of rows in which column i of a head turns with column i + head_dim / 2.

    Of a head of the source the first `rotated` columns turn: neighbours if `paired` (as GGUF stores some families),
    else i with i + rotated / 2. Queries and keys are put in the same order, so their products do not change.
    """
    half = rotated // 2
    first, second = (range(0, rotated, 2), range(1, rotated, 2)) if paired else (range(half), range(half, rotated))
    still = range(rotated, head_dim)
    middle = len(still) // 2
    order = np.array([*first, *still[:middle], *second, *still[middle:]], np.intp)
    return (np.arange(0, rows, head_dim)[:, None] + order).ravel()


def _move(source: Bytes, target: Bytes, dtype: str, lead: tuple[int, ...]) -> None:
    """Interleave fields: source [N, blocks, bytes] to target [..., blocks, 8 * bytes], in units of `dtype`."""
    fields = np.ascontiguousarray(source).view(dtype)
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


def _pack_super(
    scales: Bytes, integers: Bytes, factors: Bytes, out: Bytes
) -> None:
    """Blocks of 256: of each 32 columns the integers, then the small scales; behind all of them the factors.

    uint8 `scales` [N, blocks, 8, fields], `integers` [N, blocks, 8, bytes], `factors` [N, blocks, bytes of float16].
    """
    if not np.isfinite(np.ascontiguousarray(factors).view("<f2")).all():
        raise NotFiniteError
    lead, blocks = out.shape[:-2], out.shape[-2]
    body, small = integers.shape[-1] * GROUP, scales.shape[-1] * GROUP
    parts = out[..., : 8 * (body + small)].reshape(*lead, blocks, 8, body + small)
    for i in range(8):
        _move(integers[:, :, i], parts[..., i, :body], "<u4", lead)
        _move(scales[:, :, i], parts[..., i, body:], "<u1", lead)
    _move(factors, out[..., 8 * (body + small) :], "<u2", lead)


def _pack_q4_k(raw: Bytes, out: Bytes) -> None:
    fields = k_fields(raw, bits=4)
    nibbles: Bytes = fields.integers[..., :16] | fields.integers[..., 16:] << np.uint8(4)
    _pack_super(fields.scales, nibbles, fields.factors, out)


def _pack_q5_k(raw: Bytes, out: Bytes) -> None:
    fields = k_fields(raw, bits=5)
    _pack_super(fields.scales, fields.integers, fields.factors, out)


def _pack_q6_k(raw: Bytes, out: Bytes) -> None:
    fields = q6_k_fields(raw)
    _pack_super(fields.scales, fields.integers, fields.factors, out)


def _pack_floats(raw: Bytes, out: Bytes, *, width: int, exponent: int) -> None:
    """`exponent` is the mask of the exponent's bits, all ones in what is not finite."""
    rows = raw.reshape(len(raw), -1, BLOCK * width)
    if (rows.view(f"<u{width}") & exponent == exponent).any():
        raise NotFiniteError
    _move(rows, out, f"<u{width}", out.shape[:-2])


_PACKERS: Mapping[str, Callable[[Bytes, Bytes], None]] = MappingProxyType({
    "Q4_0": lambda raw, out: _pack_quantised(raw, out, block_bytes=18, halves=1, words=4),
    "Q4_1": lambda raw, out: _pack_quantised(raw, out, block_bytes=20, halves=2, words=4),
    "Q5_0": lambda raw, out: _pack_quantised(q5_0_to_q8_0(raw), out, block_bytes=34, halves=1, words=8),
    "Q5_1": lambda raw, out: _pack_quantised(five_bits(raw), out, block_bytes=36, halves=2, words=8),
    "Q8_0": lambda raw, out: _pack_quantised(raw, out, block_bytes=34, halves=1, words=8),
    "Q4_K": _pack_q4_k, "Q5_K": _pack_q5_k, "Q6_K": _pack_q6_k,
    "F16": lambda raw, out: _pack_floats(raw, out, width=2, exponent=0x7C00),
    "BF16": lambda raw, out: _pack_floats(raw, out, width=2, exponent=0x7F80),
    "F32": lambda raw, out: _pack_floats(raw, out, width=4, exponent=0x7F800000),
})  # fmt: skip
