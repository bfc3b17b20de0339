"""Rows of activations as matrix products read them, and the kernels that produce them: norms, conversions, embeddings.

Two kinds. `int8`: a row of K columns is K + K/4 bytes: K int8 values quantised symmetrically per block of 32, then K/32
float32 scales, then K/32 float32 sums of the block's dequantised values (formats with a minimum need them). `float32`:
the values as they are, for weights that are not quantised.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm.tirx.script import builder as T

from .builder import (
    LANES,
    Buffer,
    Expr,
    Function,
    Kernel,
    f32,
    for_each_row,
    let,
    scratch,
    size,
    span,
    splat,
    store,
    zeros,
)
from .formats import WeightFormat
from .isa import Isa, absolute, lanes_max, lanes_sum, lanes_sum_int, maximum, widen
from .rows import BLOCK, Activation

_VECTORS = BLOCK // LANES


def parameter(f: Function, name: str, rows: Expr, columns: int, kind: Activation) -> Buffer:
    """A tensor parameter holding rows of activations."""
    return f.tensor(name, (rows, kind.row_width(columns)), kind.dtype)


def store_block(
    isa: Isa, kind: Activation, rows: Buffer, columns: int, row: Expr, block: Expr, values: Sequence[Expr]
) -> None:
    """Write one block of 32 values, given as four float32x8 expressions, in the form of `kind`."""
    bound = [let(value) for value in values]
    if kind.name == "float32":
        for i, value in enumerate(bound):
            store(rows, value, row, span(block * BLOCK + LANES * i))
        return
    a, b, c, d = (absolute(value) for value in bound)
    largest = let(lanes_max(maximum(maximum(a, b), maximum(c, d))))
    inverse = let(T.if_then_else(largest > f32(0.0), f32(127.0) / largest, f32(0.0)))
    quantised = [let(isa.round(value * splat(inverse))) for value in bound]
    for i, q in enumerate(quantised):
        store(rows, T.reinterpret("uint8x8", T.cast(q, "int8x8")), row, span(block * BLOCK + LANES * i))
    scale = let(largest * f32(1 / 127))
    total = T.cast(lanes_sum_int((quantised[0] + quantised[1]) + (quantised[2] + quantised[3])), "float32")
    for field, value in enumerate((scale, scale * total)):
        offset = columns + field * (columns // BLOCK) * 4 + block * 4
        store(rows, T.reinterpret("uint8x4", value), row, span(offset, 4))


@dataclass(frozen=True)
class Norm(Kernel):
    """RMS norm of float32 rows, times a gain, into activations; with `select` of the rows listed by index only."""

    columns: int
    epsilon: float
    kind: Activation
    select: bool = False

    @property
    def name(self) -> str:
        return f"norm_{self.columns}_{self.kind.name}{'_selected' if self.select else ''}"

    def emit(self, isa: Isa, f: Function) -> None:
        columns = self.columns
        count, rows = size(), size()
        x = f.tensor("x", (rows, columns), "float32")
        gain = f.tensor("gain", (columns,), "float32")
        index = f.tensor("index", (count,), "int32") if self.select else None
        y = parameter(f, "y", count if self.select else rows, columns, self.kind)

        def one(row: Expr) -> None:
            source = row if index is None else let(index[row])
            factor = _norm_factor(isa, x, source, columns, self.epsilon)
            with T.serial(columns // BLOCK) as block:
                places = [span(block * BLOCK + LANES * e) for e in range(_VECTORS)]
                values = [x[source, place] * splat(factor) * gain[place] for place in places]
                store_block(isa, self.kind, y, columns, row, block, values)

        for_each_row(count if self.select else rows, one, parallel_from=8)


def _norm_factor(isa: Isa, x: Buffer, row: Expr, columns: int, epsilon: float) -> Expr:
    """One over the root of a row's mean square."""
    sums = scratch(BLOCK)
    for e in range(_VECTORS):
        store(sums, zeros(), span(LANES * e))
    with T.serial(columns // BLOCK) as block:
        for e in range(_VECTORS):
            value = let(x[row, span(block * BLOCK + LANES * e)])
            store(sums, isa.fma(value, value, sums[span(LANES * e)]), span(LANES * e))
    total = (sums[span(0)] + sums[span(8)]) + (sums[span(16)] + sums[span(24)])
    return let(f32(1.0) / T.sqrt(lanes_sum(total) * f32(1.0 / columns) + f32(epsilon)))


@dataclass(frozen=True)
class NormAdd(Kernel):
    """residual + (RMS norm of x, times a gain): what families with norms behind their layers add. All float32."""

    columns: int
    epsilon: float

    @property
    def name(self) -> str:
        return f"norm_add_{self.columns}"

    def emit(self, isa: Isa, f: Function) -> None:
        rows = size()
        x = f.tensor("x", (rows, self.columns), "float32")
        gain = f.tensor("gain", (self.columns,), "float32")
        residual = f.tensor("residual", (rows, self.columns), "float32")
        y = f.tensor("y", (rows, self.columns), "float32")

        def one(row: Expr) -> None:
            factor = _norm_factor(isa, x, row, self.columns, self.epsilon)
            with T.serial(self.columns // LANES) as c:
                place = span(c * LANES)
                store(y, isa.fma(x[row, place] * splat(factor), gain[place], residual[row, place]), row, place)

        for_each_row(rows, one, parallel_from=8)


@dataclass(frozen=True)
class Convert(Kernel):
    """What attention returns, [rows, heads, head_dim] in the page dtype, to activations of heads * head_dim columns."""

    heads: int
    head_dim: int
    kind: Activation

    @property
    def name(self) -> str:
        return f"convert_{self.heads}x{self.head_dim}_{self.kind.name}"

    def emit(self, isa: Isa, f: Function) -> None:
        columns = self.heads * self.head_dim
        rows = size()
        x = f.tensor("x", (rows, self.heads, self.head_dim), isa.page_dtype)
        y = parameter(f, "y", rows, columns, self.kind)

        def one(row: Expr) -> None:
            with T.serial(columns // BLOCK) as block:
                values = []
                for e in range(_VECTORS):
                    column = block * BLOCK + LANES * e
                    values.append(widen(x[row, column // self.head_dim, span(column % self.head_dim)]))
                store_block(isa, self.kind, y, columns, row, block, values)

        for_each_row(rows, one, parallel_from=8)


@dataclass(frozen=True)
class Embed(Kernel):
    """Rows of a packed table, by token id, as float32, times `scale`. Ids must lie in the table: nothing is checked."""

    format: WeightFormat
    rows: int
    columns: int
    scale: float = 1.0

    @property
    def name(self) -> str:
        return f"embed_{self.format.name}_{self.rows}x{self.columns}"

    def emit(self, isa: Isa, f: Function) -> None:
        width = self.format.columns
        blocks = self.columns // width
        count = size()
        table = f.tensor("table", (self.format.packed_bytes(self.rows, self.columns),), "uint8")
        ids = f.tensor("ids", (count,), "int32")
        y = f.tensor("y", (count, self.columns), "float32")

        def one(row: Expr) -> None:
            token = let(ids[row])
            with T.serial(blocks) as block:
                base = let((token // LANES * blocks + block) * self.format.block_bytes)
                with T.serial(width) as column:
                    value = self.format.element(table, base, token % LANES, column)
                    scaled = value if self.scale == 1.0 else value * f32(self.scale)
                    store(y, scaled, row, block * width + column)

        for_each_row(count, one, parallel_from=64)
