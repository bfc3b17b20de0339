"""Weight formats as kernels read them: eight rows interleaved, in blocks of 8 rows x 32 columns (K formats: 256).

A packed matrix [N, K] is N/8 groups of K/32 (K/256) blocks, so a product reads memory strictly forwards. In a block:

    q4_0    144 bytes: 128 of nibbles, 8 float16 scales; value = scale * (q - 8)
    q4_1    160 bytes: 128 of nibbles, 8 float16 scales, 8 float16 minima; value = scale * q + minimum
    q8_0    272 bytes: 256 of int8, 8 float16 scales; value = scale * q
    q8_1    288 bytes: 256 of int8, 8 float16 scales, 8 float16 minima; value = scale * q + minimum
    q4_k    1184 bytes: eight times (128 of nibbles, 8 uint8 scales, 8 uint8 minima), then 8 float16 d, 8 float16 m;
            value = d * scale * q - m * minimum
    q5_k    2208 bytes: the same with 256 of int8 for 128 of nibbles
    q6_k    2192 bytes: eight times (256 of int8, 8 int8 scales of the first 16 columns, 8 of the others), then 8
            float16 d; value = d * scale * q
    f16, bf16, f32    [32 columns][8 rows] of the value itself, multiplied in float32: nothing is lost

The GGUF formats repack into them without loss (packing.py).
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
    columns: int = BLOCK  # of a block
    block_bytes: int
    activation: Activation

    def packed_bytes(self, rows: int, columns: int) -> int:
        """Bytes of a matrix; rows must divide by 8 and columns by a block's."""
        return rows // LANES * (columns // self.columns) * self.block_bytes

    @abstractmethod
    def multiply(
        self, isa: Isa, weights: Buffer, base: Expr, x: Rows, rows: Sequence[Expr], block: Expr, sums: Registers
    ) -> None:
        """Emit, for row i of x, sums[i] += (the block of eight weight rows at byte `base`) times (the row's block)."""

    @abstractmethod
    def element(self, weights: Buffer, base: Expr, row: Expr, column: Expr) -> Expr:
        """One float32 value of the block at byte `base`; `weights` gives bytes, in any type of 8 bits or more."""

    def prefetch(self, weights: Buffer, base: Expr, ahead: int = _PREFETCH_AHEAD) -> None:
        for line in range((self.block_bytes + _CACHE_LINE - 1) // _CACHE_LINE):
            prefetch(weights, base + ahead + _CACHE_LINE * line)


class Nibbles(WeightFormat):
    """Integers of four bits, with a scale and a minimum for 32 columns."""

    activation = INT8

    def __init__(self, name: str, *, minima: bool) -> None:
        self.name = name
        self.block_bytes = 160 if minima else 144
        self._minima = minima

    def multiply(
        self, isa: Isa, weights: Buffer, base: Expr, x: Rows, rows: Sequence[Expr], block: Expr, sums: Registers
    ) -> None:
        vectors, scale, minimum = self.unpack(isa, weights, base)
        for i, row in enumerate(rows):
            dot = isa.dot_nibbles(vectors, x.words(row, block))
            factor, total = splat(x.scale(row, block)), splat(x.scaled_sum(row, block))
            sums[i] = self.fold(isa, dot, scale, minimum, factor, total, sums[i])

    def unpack(self, isa: Isa, weights: Buffer, base: Expr) -> tuple[Sequence[Expr], Expr, Expr]:
        """The vectors of the block at byte `base` as `isa` takes them, scales and minima."""
        vectors = isa.load_nibbles(weights, base)
        scale = let(isa.half(weights.vload([base + 128], "uint8x16")))
        minimum = isa.half(weights.vload([base + 144], "uint8x16")) if self._minima else scale * splat(f32(-8.0))
        return vectors, scale, let(minimum)

    def fold(
        self, isa: Isa, dot: Expr, scale: Expr, minimum: Expr, factor: Expr, total: Expr, before: Expr
    ) -> Expr:
        """`before` and a block's product: `dot` of the integers, `factor` and `total` of the activations."""
        return isa.fma(minimum, total, isa.fma(dot, scale * factor, before))

    def element(self, weights: Buffer, base: Expr, row: Expr, column: Expr) -> Expr:
        q = _nibble(weights, base, row, column)
        scale = _half_scalar(weights, base + 128 + row * 2)
        if self._minima:
            return scale * q + _half_scalar(weights, base + 144 + row * 2)
        return scale * (q - f32(8.0))


class _Bytes(WeightFormat):
    activation = INT8

    def __init__(self, name: str, *, minima: bool) -> None:
        self.name = name
        self.block_bytes = 288 if minima else 272
        self._minima = minima

    def multiply(
        self, isa: Isa, weights: Buffer, base: Expr, x: Rows, rows: Sequence[Expr], block: Expr, sums: Registers
    ) -> None:
        vectors = isa.load_bytes(weights, base)
        scale = let(isa.half(weights.vload([base + 256], "uint8x16")))
        minimum = let(isa.half(weights.vload([base + 272], "uint8x16"))) if self._minima else None
        for i, row in enumerate(rows):
            dot = isa.dot_bytes(vectors, x.words(row, block))
            total = isa.fma(dot, scale * splat(x.scale(row, block)), sums[i])
            if minimum is not None:
                total = isa.fma(minimum, splat(x.scaled_sum(row, block)), total)
            sums[i] = total

    def element(self, weights: Buffer, base: Expr, row: Expr, column: Expr) -> Expr:
        value = _half_scalar(weights, base + 256 + row * 2) * _byte(weights, base, row, column)
        return value + _half_scalar(weights, base + 272 + row * 2) if self._minima else value


class _SuperBlocks(WeightFormat):
    """Eight blocks of 32 columns, each with small integer scales, and float16 factors of those behind all eight."""

    activation = INT8
    columns = 8 * BLOCK

    def __init__(self, name: str, *, bits: int) -> None:
        self.name = name
        self._bits = bits
        self._body = 128 if bits == 4 else 256
        self._stride = self._body + 2 * LANES
        self._factors = 8 * self._stride
        self.block_bytes = self._factors + (16 if bits == 6 else 32)

    def multiply(
        self, isa: Isa, weights: Buffer, base: Expr, x: Rows, rows: Sequence[Expr], block: Expr, sums: Registers
    ) -> None:
        scales = let(isa.half(weights.vload([base + self._factors], "uint8x16")))
        minima = scales if self._bits == 6 else let(isa.half(weights.vload([base + self._factors + 16], "uint8x16")))
        with T.serial(8) as part:
            at = let(base + part * self._stride)
            place = let(block * 8 + part)
            first = weights.vload([at + self._body], "uint8x8")
            second = weights.vload([at + self._body + LANES], "uint8x8")
            if self._bits == 6:
                both = (let(scales * _signed(first)), let(scales * _signed(second)))
                self._add_halves(isa, weights, at, x, rows, place, sums, both)
            else:
                scale = let(scales * T.cast(first, "float32x8"))
                minimum = let(minima * T.cast(second, "float32x8"))
                self._add(isa, weights, at, x, rows, place, sums, scale, minimum)

    def _add(
        self, isa: Isa, weights: Buffer, at: Expr, x: Rows, rows: Sequence[Expr], place: Expr, sums: Registers,
        scale: Expr, minimum: Expr,
    ) -> None:  # fmt: skip
        nibbles = self._bits == 4
        vectors = isa.load_nibbles(weights, at) if nibbles else isa.load_bytes(weights, at)
        dots = isa.dot_nibbles if nibbles else isa.dot_bytes
        for i, row in enumerate(rows):
            dot = dots(vectors, x.words(row, place))
            total = isa.fma(dot, scale * splat(x.scale(row, place)), sums[i])
            sums[i] = total - minimum * splat(x.scaled_sum(row, place))

    def _add_halves(
        self, isa: Isa, weights: Buffer, at: Expr, x: Rows, rows: Sequence[Expr], place: Expr, sums: Registers,
        both: tuple[Expr, Expr],
    ) -> None:  # fmt: skip
        """Q6_K has a scale for each 16 columns: half of the words each."""
        vectors = isa.load_bytes(weights, at)
        for i, row in enumerate(rows):
            words = x.words(row, place)
            halves = [isa.dot_bytes(vectors[h : h + 4], words[h : h + 4]) * both[h // 4] for h in (0, 4)]
            sums[i] = isa.fma(halves[0] + halves[1], splat(x.scale(row, place)), sums[i])

    def element(self, weights: Buffer, base: Expr, row: Expr, column: Expr) -> Expr:
        at = let(base + column // BLOCK * self._stride)
        inner = let(column % BLOCK)
        factor = _half_scalar(weights, base + self._factors + row * 2)
        if self._bits == 6:
            small = _int8(weights, at + self._body + inner // 16 * LANES + row)
            return factor * small * _byte(weights, at, row, inner)
        q = _nibble(weights, at, row, inner) if self._bits == 4 else _byte(weights, at, row, inner)
        small = T.cast(weights[at + self._body + row], "float32")
        least = T.cast(weights[at + self._body + LANES + row], "float32")
        return factor * small * q - _half_scalar(weights, base + self._factors + 16 + row * 2) * least


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

    def element(self, weights: Buffer, base: Expr, row: Expr, column: Expr) -> Expr:
        offset = base + (column * LANES + row) * self._width
        if self.name == "f16":
            return _half_scalar(weights, offset)
        high = _uint16(weights, offset if self.name == "bf16" else offset + 2)
        low = T.uint32(0) if self.name == "bf16" else _uint16(weights, offset)
        return T.reinterpret("float32", T.shift_left(high, T.uint32(16)) | low)


FORMATS: dict[str, WeightFormat] = {
    form.name: form
    for form in (
        Nibbles("q4_0", minima=False),
        Nibbles("q4_1", minima=True),
        _Bytes("q8_0", minima=False),
        _Bytes("q8_1", minima=True),
        _SuperBlocks("q4_k", bits=4),
        _SuperBlocks("q5_k", bits=5),
        _SuperBlocks("q6_k", bits=6),
        _Floats("f16", 2),
        _Floats("bf16", 2),
        _Floats("f32", 4),
    )
}


def _nibble(weights: Buffer, base: Expr, row: Expr, column: Expr) -> Expr:
    """An unsigned 4-bit weight as float32."""
    byte = T.cast(weights[base + column % 16 // 4 * 32 + row * 4 + column % 4], "int32")
    return T.cast(T.shift_right(byte, column // 16 * 4) & i32(15), "float32")


def _byte(weights: Buffer, base: Expr, row: Expr, column: Expr) -> Expr:
    """A signed 8-bit weight as float32."""
    return _int8(weights, base + column // 4 * 32 + row * 4 + column % 4)


def _int8(weights: Buffer, offset: Expr) -> Expr:
    """One int8 as float32."""
    return T.cast(T.shift_right(T.shift_left(T.cast(weights[offset], "int32"), i32(24)), i32(24)), "float32")


def _signed(bytes_: Expr) -> Expr:
    """uint8x8 holding int8 to float32x8."""
    return T.cast(T.reinterpret("int8x8", bytes_), "float32x8")


def _uint16(weights: Buffer, offset: Expr) -> Expr:
    """Two bytes, as uint32."""
    return T.cast(weights[offset], "uint32") | T.shift_left(T.cast(weights[offset + 1], "uint32"), T.uint32(8))


def _half_scalar(weights: Buffer, offset: Expr) -> Expr:
    """One finite float16 as float32 by integer arithmetic, which every target has (see Portable.half)."""
    bits = let(_uint16(weights, offset))
    magnitude = T.reinterpret("float32", T.shift_left(bits & T.uint32(0x7FFF), T.uint32(13))) * f32(2.0**112)
    sign = T.shift_left(bits & T.uint32(0x8000), T.uint32(16))
    return T.reinterpret("float32", T.reinterpret("uint32", magnitude) | sign)
