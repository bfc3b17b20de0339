"""From the fused projection to queries and pages: rotate, split, and put keys and values where they belong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm.tirx.script import builder as T

from .attention import PAGE, key_place, page_shape
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
from .isa import Isa, lanes_sum, narrow, widen


@dataclass(frozen=True)
class Append(Kernel):
    """Projections to rotated queries; rotated keys, and values, go into the pages.

    The projections come as one tensor [N, heads + 2 kv_heads, head_dim] or as several with those heads in turn:
    `parts` lists how many each has. Row i stands at position positions[i] of its sequence and goes to slot slots[i]:
    page times 16 plus the place in it. The table [positions, head_dim] holds cosines then sines: any scaling of the
    frequencies is in it. Rotation pairs column i with i + head_dim / 2. With `epsilon` each query and key head goes
    through an RMS norm first, with the gains query_gain and key_gain [head_dim].
    """

    heads: int
    kv_heads: int
    head_dim: int
    parts: tuple[int, ...]
    epsilon: float | None = None

    @property
    def name(self) -> str:
        return "append" if len(self.parts) == 1 else "append_" + "_".join(map(str, self.parts))

    def source(self, xs: Sequence[Buffer], first: int) -> tuple[Buffer, int]:
        """The projection that has the heads from `first` on, and where in it they begin."""
        for x, part in zip(xs, self.parts, strict=True):
            if first < part:
                return x, first
            first -= part
        raise ValueError(f"{self.parts} have no head {first}")

    def emit(self, isa: Isa, f: Function) -> None:
        heads, kv_heads, dim = self.heads, self.kv_heads, self.head_dim
        half, dtype = dim // 2, isa.page_dtype
        rows, table_rows, count = size(), size(), size()
        xs = [f.tensor(f"x{i}", (rows, part, dim), dtype) for i, part in enumerate(self.parts)]
        gains = [f.tensor(name, (dim,), "float32") for name in ("query_gain", "key_gain") if self.epsilon]
        positions = f.tensor("positions", (rows,), "int32")
        slots = f.tensor("slots", (rows,), "int32")
        table = f.tensor("table", (table_rows, dim), "float32")
        pages = f.tensor("pages", page_shape(count, kv_heads, dim), dtype)
        queries = f.tensor("queries", (rows, heads, dim), dtype)

        def head_vectors(x: Buffer, row: Expr, head: Expr, gain: Buffer | None) -> Callable[[Expr], Expr]:
            """Reads eight columns of a head, in float32, normed if there is a gain."""
            if gain is None or self.epsilon is None:
                return lambda place: widen(x[row, head, place])
            squares = scratch(LANES)
            store(squares, zeros(), span(0))
            with T.serial(dim // LANES) as c:
                value = let(widen(x[row, head, span(c * LANES)]))
                store(squares, isa.fma(value, value, squares[span(0)]), span(0))
            mean = lanes_sum(squares[span(0)]) * f32(1.0 / dim)
            factor = let(splat(f32(1.0) / T.sqrt(mean + f32(self.epsilon))))
            return lambda place: widen(x[row, head, place]) * factor * gain[place]

        def rotate(read: Callable[[Expr], Expr], row: Expr, c: Expr) -> tuple[Expr, Expr]:
            """Vector c of the lower and of the upper half, rotated."""
            low, high = span(c * LANES), span(half + c * LANES)
            cosine, sine = let(table[positions[row], low]), let(table[positions[row], high])
            a, b = let(read(low)), let(read(high))
            return narrow(a * cosine - b * sine, dtype), narrow(b * cosine + a * sine, dtype)

        def one(row: Expr) -> None:
            page, slot = let(slots[row] // PAGE), let(slots[row] % PAGE)
            (query, q0), (key_source, k0), (values, v0) = (self.source(xs, at) for at in (0, heads, heads + kv_heads))
            with T.serial(heads) as head:
                read = head_vectors(query, row, head + q0, gains[0] if gains else None)
                with T.serial(half // LANES) as c:
                    for start, value in zip((0, half), rotate(read, row, c), strict=True):
                        store(queries, value, row, head, span(start + c * LANES))
            with T.serial(kv_heads) as head:
                key = scratch(dim, dtype)
                read = head_vectors(key_source, row, head + k0, gains[1] if gains else None)
                with T.serial(half // LANES) as c:
                    for start, value in zip((0, half), rotate(read, row, c), strict=True):
                        store(key, value, span(start + c * LANES))
                with T.serial(dim) as column:
                    store(pages, key[column], page, 0, head, *key_place(column, slot, dim))
                with T.serial(dim // LANES) as c:
                    value = values[row, head + v0, span(c * LANES)]
                    store(pages, value, page, 1, head, slot, span(c * LANES))

        for_each_row(rows, one, parallel_from=16)
