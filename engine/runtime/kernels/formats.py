"""Weight formats as kernels read them: eight rows interleaved, in blocks of 8 rows x 32 columns.

A packed matrix [N, K] is N/8 groups of K/32 blocks, so a product reads memory strictly forwards. Inside a block:

    q4_0    144 bytes: 128 of nibbles, 8 float16 scales; value = scale * (q - 8)
    q4_1    160 bytes: 128 of nibbles, 8 float16 scales, 8 float16 minima; value = scale * q + minimum
    q8_0    272 bytes: 256 of int8, 8 float16 scales; value = scale * q
    f16, bf16, f32    [32 columns][8 rows] of the value itself, multiplied in float32: nothing is lost

The GGUF formats of these names repack into them bit by bit (packing.py).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence

from tvm.tirx.script import builder as T

from .builder import LANES, Buffer, Expr, Registers, f32, i32, let, prefetch, span, splat
from .isa import Isa
from .rows import BLOCK, FLOAT32, INT8, Activation, Rows

_CACHE_LINE = 64
_PREFETCH_AHEAD = 2048  # bytes; one thread then reads at 80-90% of the memory's speed


class WeightFormat(ABC):
    """One packed format: its size, and the code to multiply by a block and to read one element."""

    name: str
    block_bytes: int
    activation: Activation

    def packed_bytes(self, rows: int, columns: int) -> int:
        """Bytes of a matrix; rows must divide by 8 and columns by 32."""
        return rows // LANES * (columns // BLOCK) * self.block_bytes

    @abstractmethod
    def multiply(
        self, isa: Isa, weights: Buffer, base: Expr, x: Rows, rows: Sequence[Expr], block: Expr, sums: Registers
    ) -> None:
        """Emit, for row i of x, sums[i] += (the block of eight weight rows at byte `base`) times (the row's block)."""

    @abstractmethod
    def element(self, isa: Isa, weights: Buffer, base: Expr, row: Expr, column: Expr) -> Expr:
        """One float32 value of the block at byte `base`."""

    def prefetch(self, weights: Buffer, base: Expr) -> None:
        for line in range((self.block_bytes + _CACHE_LINE - 1) // _CACHE_LINE):
            prefetch(weights, base + _PREFETCH_AHEAD + _CACHE_LINE * line)


class _Nibbles(WeightFormat):
    activation = INT8

    def __init__(self, name: str, *, minima: bool) -> None:
        self.name = name
        self.block_bytes = 160 if minima else 144
        self._minima = minima

    def multiply(
        self, isa: Isa, weights: Buffer, base: Expr, x: Rows, rows: Sequence[Expr], block: Expr, sums: Registers
    ) -> None:
        vectors = isa.load_nibbles(weights, base)
        scale = let(isa.half(weights.vload([base + 128], "uint8x16")))
        minimum = isa.half(weights.vload([base + 144], "uint8x16")) if self._minima else scale * splat(f32(-8.0))
        minimum = let(minimum)
        for i, row in enumerate(rows):
            dot = isa.dot_nibbles(vectors, x.words(row, block))
            factor = scale * splat(x.scale(row, block))
            shift = splat(x.scaled_sum(row, block))
            sums[i] = isa.fma(minimum, shift, isa.fma(dot, factor, sums[i]))

    def element(self, isa: Isa, weights: Buffer, base: Expr, row: Expr, column: Expr) -> Expr:
        word = column % 16 // 4
        byte = T.cast(weights[base + word * 32 + row * 4 + column % 4], "int32")
        q = T.cast(T.shift_right(byte, column // 16 * 4) & i32(15), "float32")
        scale = _half_scalar(weights, base + 128 + row * 2)
        if self._minima:
            return scale * q + _half_scalar(weights, base + 144 + row * 2)
        return scale * (q - f32(8.0))


class _Bytes(WeightFormat):
    name = "q8_0"
    block_bytes = 272
    activation = INT8

    def multiply(
        self, isa: Isa, weights: Buffer, base: Expr, x: Rows, rows: Sequence[Expr], block: Expr, sums: Registers
    ) -> None:
        vectors = isa.load_bytes(weights, base)
        scale = let(isa.half(weights.vload([base + 256], "uint8x16")))
        for i, row in enumerate(rows):
            dot = isa.dot_bytes(vectors, x.words(row, block))
            factor = scale * splat(x.scale(row, block))
            sums[i] = isa.fma(dot, factor, sums[i])

    def element(self, isa: Isa, weights: Buffer, base: Expr, row: Expr, column: Expr) -> Expr:
        q = T.reinterpret("int8", weights[base + column // 4 * 32 + row * 4 + column % 4])
        return _half_scalar(weights, base + 256 + row * 2) * T.cast(q, "float32")


class _Floats(WeightFormat):
    activation = FLOAT32

    def __init__(self, name: str, width: int) -> None:
        self.name = name
        self.block_bytes = BLOCK * LANES * width
        self._width = width

    def multiply(
        self, isa: Isa, weights: Buffer, base: Expr, x: Rows, rows: Sequence[Expr], block: Expr, sums: Registers
    ) -> None:
        with T.serial(BLOCK // 4) as group:
            for j in range(4):
                column = let(group * 4 + j)
                value = let(self._eight(isa, weights, base + column * (LANES * self._width)))
                for i, row in enumerate(rows):
                    sums[i] = isa.fma(value, splat(x.value(row, block * BLOCK + column)), sums[i])

    def _eight(self, isa: Isa, weights: Buffer, offset: Expr) -> Expr:
        raw = weights[span(offset, LANES * self._width)]
        if self.name == "f16":
            return isa.half(raw)
        if self.name == "f32":
            return T.reinterpret("float32x8", raw)
        high = T.cast(T.reinterpret("uint16x8", raw), "uint32x8")
        return T.reinterpret("float32x8", T.shift_left(high, splat(T.uint32(16))))

    def element(self, isa: Isa, weights: Buffer, base: Expr, row: Expr, column: Expr) -> Expr:
        offset = base + (column * LANES + row) * self._width
        if self.name == "f16":
            return _half_scalar(weights, offset)
        high = _uint16(weights, offset if self.name == "bf16" else offset + 2)
        low = T.uint32(0) if self.name == "bf16" else T.cast(_uint16(weights, offset), "uint32")
        return T.reinterpret("float32", T.shift_left(T.cast(high, "uint32"), T.uint32(16)) | low)


FORMATS: dict[str, WeightFormat] = {
    form.name: form
    for form in (
        _Nibbles("q4_0", minima=False),
        _Nibbles("q4_1", minima=True),
        _Bytes(),
        _Floats("f16", 2),
        _Floats("bf16", 2),
        _Floats("f32", 4),
    )
}


def _uint16(weights: Buffer, offset: Expr) -> Expr:
    return T.cast(weights[offset], "uint16") | T.shift_left(T.cast(weights[offset + 1], "uint16"), T.uint16(8))


def _half_scalar(weights: Buffer, offset: Expr) -> Expr:
    """One finite float16 as float32 by integer arithmetic, which every target has (see Portable.half)."""
    bits = let(T.cast(_uint16(weights, offset), "uint32"))
    magnitude = T.reinterpret("float32", T.shift_left(bits & T.uint32(0x7FFF), T.uint32(13))) * f32(2.0**112)
    sign = T.shift_left(bits & T.uint32(0x8000), T.uint32(16))
    return T.reinterpret("float32", T.reinterpret("uint32", magnitude) | sign)
