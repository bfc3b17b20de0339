"""GGUF's block formats as arithmetic: decoding to float32, and quantising to Q8_0.

Source: the block structures of the ggml project (ggml-common.h) and its reference dequantisation. Every format is
little-endian; scales are float16.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

Bytes = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]


def decode(raw: Bytes, kind: str) -> Floats:
    """uint8 [N, bytes of a row] of GGUF type `kind` to float32 [N, K]. Raises KeyError for a type without a decoder."""
    return _DECODERS[kind](np.ascontiguousarray(raw))


def decodable(kind: str) -> bool:
    return kind in _DECODERS


def encode_q8_0(values: Floats) -> Bytes:
    """float32 [N, K] to Q8_0 blocks, uint8 [N, K / 32 * 34]: symmetric, 32 columns to a float16 scale."""
    blocks = values.reshape(len(values), -1, 32)
    scale = (np.abs(blocks).max(-1, keepdims=True) / 127).astype(np.float16)
    divisor = scale.astype(np.float32)
    quantised = np.rint(np.divide(blocks, divisor, out=np.zeros_like(blocks), where=divisor > 0))
    integers = np.clip(quantised, -127, 127).astype(np.int8)
    return np.concatenate([scale.view(np.uint8), integers.view(np.uint8)], axis=-1).reshape(len(values), -1)


def q5_0_to_q8_0(raw: Bytes) -> Bytes:
    """The same values: 5-bit integers fit in eight bits, and the scale stays."""
    block = _blocks(np.ascontiguousarray(raw), 22)
    integers = (_nibbles(block[:, :, 6:]) + _fifth_bits(block[:, :, 2:6]) - 16).astype(np.int8)
    return np.concatenate([block[:, :, :2], integers.view(np.uint8)], axis=-1).reshape(len(raw), -1)


def five_bits(raw: Bytes) -> Bytes:
    """Q5_1 as blocks of (float16 scale, float16 minimum, 32 bytes): the same integers, a byte each."""
    block = _blocks(np.ascontiguousarray(raw), 24)
    integers = (_nibbles(block[:, :, 8:]) + _fifth_bits(block[:, :, 4:8])).astype(np.uint8)
    return np.concatenate([block[:, :, :4], integers], axis=-1).reshape(len(raw), -1)


@dataclass(frozen=True)
class SuperBlocks:
    """The fields of K formats: blocks of 256 columns of eight times 32. All uint8, [N, blocks, ...].

    `scales` [8, 2]: of each 32 columns the scale and the minimum (Q6_K: int8 scales of each half). `integers` [8, 32].
    `factors`: the bytes of float16 by which scales, and minima, are multiplied.
    """

    scales: Bytes
    integers: Bytes
    factors: Bytes


def k_fields(raw: Bytes, *, bits: int) -> SuperBlocks:
    """Of Q4_K and Q5_K: value = d * scale * integer - m * minimum."""
    block = _blocks(np.ascontiguousarray(raw), 144 if bits == 4 else 176)
    scales = np.stack(_k_scales(block[:, :, 4:16]), axis=-1)
    if bits == 4:
        return SuperBlocks(scales, _k_nibbles(block[:, :, 16:]), block[:, :, :4])
    high = block[:, :, 16:48, None] >> np.arange(8, dtype=np.uint8) & 1
    fifth: Bytes = (high.swapaxes(2, 3) << 4).astype(np.uint8)
    integers: Bytes = _k_nibbles(block[:, :, 48:]) | fifth
    return SuperBlocks(scales, integers, block[:, :, :4])


def q6_k_fields(raw: Bytes) -> SuperBlocks:
    """Of Q6_K: value = d * scale * integer, both signed."""
    block = _blocks(np.ascontiguousarray(raw), 210)
    low = block[:, :, :128].reshape(*block.shape[:2], 2, 2, 32)
    low = np.stack([low & 15, low >> 4], axis=3)  # [..., half, nibble, pair, 32]
    pairs = block[:, :, 128:192].reshape(*block.shape[:2], 2, 1, 32)
    high: Bytes = (pairs >> np.arange(0, 8, 2, dtype=np.uint8)[:, None] & 3).astype(np.uint8)
    whole: Bytes = low.reshape(*block.shape[:2], 2, 4, 32) | high << np.uint8(4)
    integers: Bytes = whole.reshape(*block.shape[:2], 8, 32) - np.uint8(32)
    return SuperBlocks(block[:, :, 192:208].reshape(*block.shape[:2], 8, 2), integers, block[:, :, 208:])


def _blocks(raw: Bytes, size: int) -> Bytes:
    return raw.reshape(len(raw), -1, size)


def _half(raw: Bytes) -> Floats:
    """Two bytes a block to float32 [N, blocks, 1]."""
    return np.ascontiguousarray(raw).view(np.float16).astype(np.float32)


def _nibbles(raw: Bytes) -> Floats:
    """Sixteen bytes to 32 columns: the low halves, then the high."""
    return np.concatenate([raw & 15, raw >> 4], axis=-1).astype(np.float32)


def _rows(values: Floats) -> Floats:
    return np.ascontiguousarray(values.reshape(len(values), -1), dtype=np.float32)


def _q4_0(raw: Bytes) -> Floats:
    block = _blocks(raw, 18)
    return _rows(_half(block[:, :, :2]) * (_nibbles(block[:, :, 2:]) - 8))


def _q4_1(raw: Bytes) -> Floats:
    block = _blocks(raw, 20)
    return _rows(_half(block[:, :, :2]) * _nibbles(block[:, :, 4:]) + _half(block[:, :, 2:4]))


def _fifth_bits(raw: Bytes) -> Floats:
    """Four bytes, one bit a column, to 0 or 16."""
    return np.unpackbits(np.ascontiguousarray(raw), axis=-1, bitorder="little").astype(np.float32) * 16


def _q5_0(raw: Bytes) -> Floats:
    block = _blocks(raw, 22)
    return _rows(_half(block[:, :, :2]) * (_nibbles(block[:, :, 6:]) + _fifth_bits(block[:, :, 2:6]) - 16))


def _q5_1(raw: Bytes) -> Floats:
    block = _blocks(raw, 24)
    values = _nibbles(block[:, :, 8:]) + _fifth_bits(block[:, :, 4:8])
    return _rows(_half(block[:, :, :2]) * values + _half(block[:, :, 2:4]))


def _q8_0(raw: Bytes) -> Floats:
    block = _blocks(raw, 34)
    return _rows(_half(block[:, :, :2]) * block[:, :, 2:].view(np.int8))


def _k_scales(packed: Bytes) -> tuple[Bytes, Bytes]:
    """Twelve bytes to eight 6-bit scales and eight 6-bit minima, [N, blocks, 8]."""
    first, second, third = packed[:, :, 0:4], packed[:, :, 4:8], packed[:, :, 8:12]
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6 << 4)], axis=-1)
    minima = np.concatenate([second & 63, (third >> 4) | (second >> 6 << 4)], axis=-1)
    return scales, minima


def _k_nibbles(raw: Bytes) -> Bytes:
    """128 bytes to [N, blocks, 8, 32]: each 32 bytes hold two runs of 32 columns."""
    pairs = raw.reshape(*raw.shape[:2], 4, 32)
    return np.stack([pairs & 15, pairs >> 4], axis=3).reshape(*raw.shape[:2], 8, 32)


def _k_affine(raw: Bytes, bits: int) -> Floats:
    fields = k_fields(raw, bits=bits)
    scale = _half(fields.factors[..., :2]) * fields.scales[..., 0]
    minimum = _half(fields.factors[..., 2:]) * fields.scales[..., 1]
    return _rows(scale[..., None] * fields.integers - minimum[..., None])


def _q6_k(raw: Bytes) -> Floats:
    fields = q6_k_fields(raw)
    scale = _half(fields.factors) * fields.scales.view(np.int8).reshape(*fields.scales.shape[:2], 16)
    integers = fields.integers.view(np.int8).reshape(*fields.integers.shape[:2], 16, 16)
    return _rows(scale[..., None] * integers)


_DECODERS: Mapping[str, Callable[[Bytes], Floats]] = MappingProxyType({
    "F32": lambda raw: raw.view(np.float32),
    "F16": lambda raw: raw.view(np.float16).astype(np.float32),
    "BF16": lambda raw: (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32),
    "F64": lambda raw: raw.view(np.float64).astype(np.float32),
    "Q4_0": _q4_0, "Q4_1": _q4_1, "Q5_0": _q5_0, "Q5_1": _q5_1, "Q8_0": _q8_0,
    "Q4_K": lambda raw: _k_affine(raw, 4), "Q5_K": lambda raw: _k_affine(raw, 5), "Q6_K": _q6_k,
})  # fmt: skip
