"""From the fused projection to queries and pages: rotate, split, and put keys and values where they belong."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.tirx.script import builder as T

from .attention import PAGE, key_place, page_shape
from .builder import LANES, Expr, PrimFunc, for_each_row, function, let, scratch, size, span, store
from .isa import Isa, narrow, widen


@dataclass(frozen=True)
class Append:
    """[N, heads + 2 kv_heads, head_dim] to rotated queries; rotated keys, and values, go into the pages.

    Row i stands at position positions[i] of its sequence and goes to slot slots[i]: page times 16 plus the place in it.
    The table [positions, head_dim] holds cosines then sines: any scaling of the frequencies is in it. Rotation pairs
    column i with i + head_dim / 2.
    """

    heads: int
    kv_heads: int
    head_dim: int

    @property
    def name(self) -> str:
        return "append"

    def build(self, isa: Isa) -> PrimFunc:
        heads, kv_heads, dim = self.heads, self.kv_heads, self.head_dim
        half, dtype = dim // 2, isa.page_dtype
        with function(self.name) as f:
            rows, table_rows, count = size(), size(), size()
            x = f.tensor("x", (rows, heads + 2 * kv_heads, dim), dtype)
            positions = f.tensor("positions", (rows,), "int32")
            slots = f.tensor("slots", (rows,), "int32")
            table = f.tensor("table", (table_rows, dim), "float32")
            pages = f.tensor("pages", page_shape(count, kv_heads, dim), dtype)
            queries = f.tensor("queries", (rows, heads, dim), dtype)

            def rotate(row: Expr, head: Expr, c: Expr) -> tuple[Expr, Expr]:
                """Vector c of the lower and of the upper half, rotated."""
                low, high = span(c * LANES), span(half + c * LANES)
                cosine, sine = let(table[positions[row], low]), let(table[positions[row], high])
                a, b = let(widen(x[row, head, low])), let(widen(x[row, head, high]))
                return narrow(a * cosine - b * sine, dtype), narrow(b * cosine + a * sine, dtype)

            def one(row: Expr) -> None:
                page, slot = let(slots[row] // PAGE), let(slots[row] % PAGE)
                with T.serial(heads) as head, T.serial(half // LANES) as c:
                    for start, value in zip((0, half), rotate(row, head, c), strict=True):
                        store(queries, value, row, head, span(start + c * LANES))
                with T.serial(kv_heads) as head:
                    key = scratch(dim, dtype)
                    with T.serial(half // LANES) as c:
                        for start, value in zip((0, half), rotate(row, heads + head, c), strict=True):
                            store(key, value, span(start + c * LANES))
                    with T.serial(dim) as column:
                        store(pages, key[column], page, 0, head, *key_place(column, slot, dim))
                    with T.serial(dim // LANES) as c:
                        value = x[row, heads + kv_heads + head, span(c * LANES)]
                        store(pages, value, page, 1, head, slot, span(c * LANES))

            for_each_row(rows, one, parallel_from=16)
        return f.result()
