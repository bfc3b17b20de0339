"""The vector operations that kernels need, in the forms of each instruction set.

Kernels are written once over an `Isa`. `Avx2` uses the x86 instructions that sum products of bytes, `Vnni` their
successor; `Portable` uses nothing but LLVM's generic vectors and integer arithmetic, so it runs on every target (tests
run it without AVX2). All compute the same integers; the floats of `Portable` differ in the last bits, since it does not
fuse multiply and add.

Weights of eight rows are interleaved by words: a 32-byte vector j holds, for each of the eight rows, the four bytes of
columns 4j..4j+3 of a block of 32 columns. A vector times a broadcast word of activations is then eight dot products.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

from tvm.tirx.script import builder as T

from .builder import LANES, Buffer, Expr, Function, Kernel, f32, i32, let, scratch, span, splat, store

if TYPE_CHECKING:
    from .formats import WeightFormat
    from .rows import Activation

_FLOATS = "float32x8"
_INTS = "int32x8"
Word: TypeAlias = Callable[[Expr], Expr]  # word or vector j of a block

# exp2 on [-1/2, 1/2]: minimax polynomial, relative error 2e-7 (the rounding of float32 dominates).
_EXP2 = (1.535336188e-4, 1.339887440e-3, 9.618437358e-3, 5.550332471e-2, 2.402264791e-1, 6.931472029e-1, 1.0)
LOG2_E = 1.4426950408889634


class Isa(ABC):
    """One instruction set. Expressions in, expressions out; nothing is emitted except by `let`."""

    name: str
    page_dtype: str  # of KV pages and of what goes in and out of attention
    weight_dtype: str = "uint8"  # of packed matrices
    tiles = False  # whether there is `dots_nibbles`, and it is worth it
    features: tuple[str, ...]  # what LLVM must be told that the CPU has, whether it knows the CPU or not

    def activation(self, form: WeightFormat) -> Activation:
        """The rows that are multiplied with weights of this format."""
        return form.activation

    def emit(self, kernel: Kernel, f: Function) -> None:
        """Declare the kernel's parameters and write its body."""
        kernel.emit(self, f)

    @abstractmethod
    def fma(self, a: Expr, b: Expr, c: Expr) -> Expr:
        """a * b + c over float32x8, fused where that is fast."""

    @abstractmethod
    def round(self, value: Expr) -> Expr:
        """float32x8 to the nearest int32x8, ties to even; |value| < 2**22."""

    @abstractmethod
    def half(self, raw: Expr) -> Expr:
        """Sixteen bytes holding eight float16 to float32x8, exactly; no infinities or NaN."""

    @abstractmethod
    def load_nibbles(self, weights: Buffer, base: Expr) -> list[Expr]:
        """128 bytes: byte i of vector j has column vector j in its low and j + 4 in its high half."""

    @abstractmethod
    def dot_nibbles(self, vectors: Sequence[Expr], words: Sequence[Expr]) -> Expr:
        """Unsigned 4-bit weights times eight words of int8 activations, exactly: float32x8."""

    def dots_nibbles(self, vectors: Sequence[Word], words: Sequence[Word], count: Expr) -> Sequence[Sequence[Expr]]:
        """`dot_nibbles` of each of some rows (first index) with each of some groups of eight weight rows, all words in
        turn; `count` is eight, known when it runs.
        """
        raise NotImplementedError

    @abstractmethod
    def load_bytes(self, weights: Buffer, base: Expr) -> list[Expr]:
        """256 bytes: eight vectors of int8."""

    @abstractmethod
    def dot_bytes(self, vectors: Sequence[Expr], words: Sequence[Expr]) -> Expr:
        """int8 weights (-127..127) times eight words of int8 activations, exactly: float32x8."""

    def exp2(self, value: Expr) -> Expr:
        """2**value over float32x8; values under -126 give 2**-126, values must stay under 128."""
        x = let(maximum(value, splat(f32(-126.0))))
        whole = let(self.round(x))
        rest = let(x - T.cast(whole, _FLOATS))
        power = splat(f32(_EXP2[0]))
        for coefficient in _EXP2[1:]:
            power = self.fma(power, rest, splat(f32(coefficient)))
        return power * T.reinterpret(_FLOATS, T.shift_left(whole + splat(i32(127)), splat(i32(23))))

    def activated(self, name: str, value: Expr) -> Expr:
        """silu: value * sigmoid(value). gelu, as approximated with tanh: value * sigmoid(1.6 (value + 0.0447 value^3)),
        the same as value / 2 * (1 + tanh(0.8 (...))). Under -87 the sigmoid is taken at -87, where it is 1e-38.
        """
        inner = value
        if name == "gelu":  # Hendrycks and Gimpel, 2016
            cube = self.fma(value * value, splat(f32(0.044715)), splat(f32(1.0)))
            inner = value * cube * splat(f32(2 * math.sqrt(2 / math.pi)))
        exponent = minimum(inner * splat(f32(-LOG2_E)), splat(f32(126.0)))
        return value / (splat(f32(1.0)) + self.exp2(exponent))

    def capped(self, value: Expr, cap: float) -> Expr:
        """cap * tanh(value / cap)."""
        exponent = minimum(value * splat(f32(2 * LOG2_E / cap)), splat(f32(126.0)))
        return splat(f32(cap)) - splat(f32(2 * cap)) / (splat(f32(1.0)) + self.exp2(exponent))


class Avx2(Isa):
    """AVX2, FMA and F16C: every x86 server and desktop since 2013 (Intel) and 2015 (AMD)."""

    name = "avx2"
    tiles = True
    page_dtype = "float16"
    features: tuple[str, ...] = ("avx2", "fma", "f16c")

    def fma(self, a: Expr, b: Expr, c: Expr) -> Expr:
        return _intrinsic(_FLOATS, "llvm.fma", a, b, c)

    def round(self, value: Expr) -> Expr:
        return _intrinsic(_INTS, "llvm.x86.avx.cvt.ps2dq.256", value)

    def half(self, raw: Expr) -> Expr:
        return T.cast(T.reinterpret("float16x8", raw), _FLOATS)

    def load_nibbles(self, weights: Buffer, base: Expr) -> list[Expr]:
        packed = [let(weights.vload([base + 32 * j], "uint8x32")) for j in range(4)]
        low = [let(v & splat(T.uint8(15), 32)) for v in packed]
        return low + [let(T.shift_right(v, splat(T.uint8(4), 32))) for v in packed]

    def dot_nibbles(self, vectors: Sequence[Expr], words: Sequence[Expr]) -> Expr:
        # Sixteen products a lane of int16: 16 * 15 * 127 = 30,480 < 32,768, so one widening at the end is exact.
        sums = [_multiply_pairs(v, _bytes(word)) for v, word in zip(vectors, words, strict=True)]
        return T.cast(_add_pairs(_tree_sum(sums)), _FLOATS)

    def dots_nibbles(self, vectors: Sequence[Word], words: Sequence[Word], count: Expr) -> Sequence[Sequence[Expr]]:
        pairs = [(i, g) for i in range(len(words)) for g in range(len(vectors))]
        sums = scratch(16 * len(pairs), "int16")
        place = {pair: span(16 * at, 16) for at, pair in enumerate(pairs)}
        for pair in pairs:
            store(sums, splat(T.int16(0), 16), place[pair])
        with T.serial(count // 2) as two:
            for j in (two * 2, two * 2 + 1):
                found = [let(T.reinterpret("uint8x32", vector(j))) for vector in vectors]
                for i, word in enumerate(words):
                    row = let(_bytes(word(j)))
                    for g, vector in enumerate(found):
                        store(sums, sums[place[i, g]] + _multiply_pairs(vector, row), place[i, g])
        total = {pair: T.cast(_add_pairs(sums[at]), _FLOATS) for pair, at in place.items()}
        return [[total[i, g] for g in range(len(vectors))] for i in range(len(words))]

    def load_bytes(self, weights: Buffer, base: Expr) -> list[Expr]:
        return [let(T.reinterpret("int8x32", weights.vload([base + 32 * j], "uint8x32"))) for j in range(8)]

    def dot_bytes(self, vectors: Sequence[Expr], words: Sequence[Expr]) -> Expr:
        # The instruction wants unsigned times signed: move the weight's sign to the activation.
        # Two products a lane of int16, 2 * 127 * 127 < 32,768, and widened before they meet others.
        total = None
        for v, word in zip(vectors, words, strict=True):
            magnitude = T.reinterpret("uint8x32", _with_sign_of(v, v))
            term = _add_pairs(_multiply_pairs(magnitude, _with_sign_of(_bytes(word), v)))
            total = term if total is None else total + term
        return T.cast(total, _FLOATS)


class Vnni(Avx2):
    """VPDPBUSD, which sums four products of bytes a lane in one instruction where AVX2 takes three: the same bits.

    On vectors of 32 bytes as in AVX2: wider ones would not read memory faster.
    """

    tiles = False  # not measured: this project has run on no such processor

    def __init__(self, name: str, *features: str) -> None:
        self.name = name
        self.features = (*Avx2.features, *features)

    def dot_nibbles(self, vectors: Sequence[Expr], words: Sequence[Expr]) -> Expr:
        return self._dot([(v, _bytes(word)) for v, word in zip(vectors, words, strict=True)])

    def dot_bytes(self, vectors: Sequence[Expr], words: Sequence[Expr]) -> Expr:
        # Unsigned times signed, as in AVX2.
        pairs = []
        for v, word in zip(vectors, words, strict=True):
            pairs.append((T.reinterpret("uint8x32", _with_sign_of(v, v)), _with_sign_of(_bytes(word), v)))
        return self._dot(pairs)

    def _dot(self, pairs: Sequence[tuple[Expr, Expr]]) -> Expr:
        # Two chains, since each instruction waits several cycles for the one before it.
        sums = [splat(i32(0)), splat(i32(0))]
        for i, (unsigned, signed) in enumerate(pairs):
            sums[i % 2] = self.add_products(sums[i % 2], unsigned, signed)
        return T.cast(sums[0] + sums[1], _FLOATS)

    def add_products(self, total: Expr, unsigned: Expr, signed: Expr) -> Expr:
        """int32x8: each lane of `total` and its four products of uint8x32 and int8x32 (Intel's manual, VPDPBUSD)."""
        return _intrinsic(_INTS, "llvm.x86.avx512.vpdpbusd.256", total, unsigned, signed)


class Portable(Isa):
    """Generic LLVM vectors. Pages are float32, since float16 arithmetic may need library calls on such machines."""

    name = "portable"
    page_dtype = "float32"
    features = ()

    def fma(self, a: Expr, b: Expr, c: Expr) -> Expr:
        return a * b + c

    def round(self, value: Expr) -> Expr:
        # Adding 1.5 * 2**23 leaves the rounded integer in the low bits of the significand.
        magic = splat(f32(12582912.0))
        return T.reinterpret(_INTS, value + magic) - splat(i32(0x4B400000))

    def half(self, raw: Expr) -> Expr:
        # The bits of a float16, moved to float32's place, are off by 2**112 in the exponent only (denormals included).
        bits = T.cast(T.reinterpret("int16x8", raw), _INTS)
        magnitude = T.shift_left(bits & splat(i32(0x7FFF)), splat(i32(13)))
        sign = bits & splat(i32(-(1 << 31)))
        scaled = T.reinterpret(_FLOATS, magnitude) * splat(f32(2.0**112))
        return T.reinterpret(_FLOATS, T.reinterpret(_INTS, scaled) | sign)

    def load_nibbles(self, weights: Buffer, base: Expr) -> list[Expr]:
        return [let(T.reinterpret(_INTS, weights.vload([base + 32 * j], "uint8x32"))) for j in range(4)]

    def dot_nibbles(self, vectors: Sequence[Expr], words: Sequence[Expr]) -> Expr:
        terms = []
        for j, word in enumerate(words):
            for byte in range(4):
                shift = 8 * byte + 4 * (j // 4)
                weight = T.shift_right(vectors[j % 4], splat(i32(shift))) & splat(i32(15))
                terms.append(weight * splat(_signed_byte(word, byte)))
        return T.cast(_tree_sum(terms), _FLOATS)

    def load_bytes(self, weights: Buffer, base: Expr) -> list[Expr]:
        return [let(T.reinterpret(_INTS, weights.vload([base + 32 * j], "uint8x32"))) for j in range(8)]

    def dot_bytes(self, vectors: Sequence[Expr], words: Sequence[Expr]) -> Expr:
        terms = []
        for v, word in zip(vectors, words, strict=True):
            for byte in range(4):
                weight = T.shift_right(T.shift_left(v, splat(i32(24 - 8 * byte))), splat(i32(24)))
                terms.append(weight * splat(_signed_byte(word, byte)))
        return T.cast(_tree_sum(terms), _FLOATS)


_AVX512 = ("avx512f", "avx512bw", "avx512vl", "avx512vnni")
INSTRUCTION_SETS: dict[str, Isa] = {
    isa.name: isa for isa in (Vnni("avx512vnni", *_AVX512), Vnni("avxvnni", "avxvnni"), Avx2(), Portable())
}


def widen(value: Expr) -> Expr:
    """float16x8 or float32x8 to float32x8."""
    return T.cast(value, _FLOATS)


def narrow(value: Expr, dtype: str) -> Expr:
    """float32x8 to eight lanes of `dtype`."""
    return T.cast(value, f"{dtype}x{LANES}")


def maximum(a: Expr, b: Expr) -> Expr:
    return _intrinsic(_FLOATS, "llvm.maxnum", a, b)


def minimum(a: Expr, b: Expr) -> Expr:
    return _intrinsic(_FLOATS, "llvm.minnum", a, b)


def absolute(value: Expr) -> Expr:
    return _intrinsic(_FLOATS, "llvm.fabs", value)


def lanes_max(value: Expr) -> Expr:
    return _intrinsic("float32", "llvm.vector.reduce.fmax", value)


def lanes_sum(value: Expr) -> Expr:
    return _intrinsic("float32", "llvm.vector.reduce.fadd", f32(0.0), value)


def lanes_sum_int(value: Expr) -> Expr:
    return _intrinsic("int32", "llvm.vector.reduce.add", value)


def _intrinsic(dtype: str, name: str, *arguments: Expr) -> Expr:
    return T.call_llvm_pure_intrin(dtype, name, *arguments)


def _bytes(word: Expr) -> Expr:
    return T.reinterpret("int8x32", splat(word))


def _signed_byte(word: Expr, byte: int) -> Expr:
    return T.shift_right(T.shift_left(word, i32(24 - 8 * byte)), i32(24))


def _multiply_pairs(unsigned: Expr, signed: Expr) -> Expr:
    return _intrinsic("int16x16", "llvm.x86.avx2.pmadd.ub.sw", unsigned, signed)


def _add_pairs(value: Expr) -> Expr:
    return _intrinsic(_INTS, "llvm.x86.avx2.pmadd.wd", value, splat(T.int16(1), 16))


def _with_sign_of(value: Expr, sign: Expr) -> Expr:
    return _intrinsic("int8x32", "llvm.x86.avx2.psign.b", value, sign)


def _tree_sum(terms: Sequence[Expr]) -> Expr:
    level = list(terms)
    while len(level) > 1:
        level = [level[i] + level[i + 1] if i + 1 < len(level) else level[i] for i in range(0, len(level), 2)]
    return level[0]
