"""The small kernels of the paged KV cache: rotate and split a fused projection, append to pages, merge, copy a page."""

from __future__ import annotations

from dataclasses import dataclass

from tvm.tirx.script import builder as T

from .attention import PAGE, key_place, page_shape
from .builder import LANES, Expr, PrimFunc, f32, for_each_row, function, let, size, span, splat, store, when
from .isa import Isa, narrow, widen


@dataclass(frozen=True)
class SplitRotary:
    """[N, heads + 2 kv_heads, head_dim] to rotated queries, rotated keys, and values.

    The table [positions, head_dim] holds cosines then sines: any scaling of the frequencies is in it. Rotation pairs
    column i with i + head_dim / 2.
    """

    heads: int
    kv_heads: int
    head_dim: int

    @property
    def name(self) -> str:
        return "split_rotary"

    def build(self, isa: Isa) -> PrimFunc:
        heads, kv_heads, dim = self.heads, self.kv_heads, self.head_dim
        half, dtype = dim // 2, isa.page_dtype
        with function(self.name) as f:
            rows, table_rows = size(), size()
            x = f.tensor("x", (rows, heads + 2 * kv_heads, dim), dtype)
            positions = f.tensor("positions", (rows,), "int32", offset=True)
            queries = f.tensor("queries", (rows, heads, dim), dtype)
            keys = f.tensor("keys", (rows, kv_heads, dim), dtype)
            values = f.tensor("values", (rows, kv_heads, dim), dtype)
            table = f.tensor("table", (table_rows, dim), "float32")

            def one(row: Expr) -> None:
                position = let(positions[row])
                with T.serial(half // LANES) as c:
                    low, high = span(c * LANES), span(half + c * LANES)
                    cosine, sine = let(table[position, low]), let(table[position, high])
                    for target, first, count in ((queries, 0, heads), (keys, heads, kv_heads)):
                        with T.serial(count) as head:
                            a = let(widen(x[row, first + head, low]))
                            b = let(widen(x[row, first + head, high]))
                            store(target, narrow(a * cosine - b * sine, dtype), row, head, low)
                            store(target, narrow(b * cosine + a * sine, dtype), row, head, high)
                with T.serial(kv_heads) as head, T.serial(dim // LANES) as c:
                    store(values, x[row, heads + kv_heads + head, span(c * LANES)], row, head, span(c * LANES))

            for_each_row(rows, one, parallel_from=16)
        return f.result()


@dataclass(frozen=True)
class Append:
    """Keys and values [N, kv_heads, head_dim] into pages, at slot positions; a negative position is skipped."""

    kv_heads: int
    head_dim: int

    @property
    def name(self) -> str:
        return "append"

    def build(self, isa: Isa) -> PrimFunc:
        dim = self.head_dim
        with function(self.name) as f:
            rows, count = size(), size()
            pages = f.tensor("pages", page_shape(count, self.kv_heads, dim), isa.page_dtype)
            keys = f.tensor("keys", (rows, self.kv_heads, dim), isa.page_dtype)
            values = f.tensor("values", (rows, self.kv_heads, dim), isa.page_dtype)
            positions = f.tensor("positions", (rows,), "int32", offset=True)

            def one(row: Expr) -> None:
                with when(positions[row] >= 0):
                    page, slot = let(positions[row] // PAGE), let(positions[row] % PAGE)
                    with T.serial(self.kv_heads) as head:
                        with T.serial(dim) as column:
                            store(pages, keys[row, head, column], page, 0, head, *key_place(column, slot, dim))
                        with T.serial(dim // LANES) as c:
                            store(pages, values[row, head, span(c * LANES)], page, 1, head, slot, span(c * LANES))

            for_each_row(rows, one, parallel_from=16)
        return f.result()


@dataclass(frozen=True)
class Merge:
    """Combine two attention results over disjoint keys, in place into the first; log sums are in base 2."""

    heads: int
    head_dim: int

    @property
    def name(self) -> str:
        return "merge"

    def build(self, isa: Isa) -> PrimFunc:
        with function(self.name) as f:
            rows = size()
            left = f.tensor("left", (rows, self.heads, self.head_dim), isa.page_dtype)
            left_sums = f.tensor("left_sums", (rows, self.heads), "float32")
            right = f.tensor("right", (rows, self.heads, self.head_dim), isa.page_dtype)
            right_sums = f.tensor("right_sums", (rows, self.heads), "float32")

            def one(row: Expr) -> None:
                with T.serial(self.heads) as head:
                    highest = let(T.max(left_sums[row, head], right_sums[row, head]))
                    a = let(T.exp2(left_sums[row, head] - highest))
                    b = let(T.exp2(right_sums[row, head] - highest))
                    share = let(f32(1.0) / (a + b))
                    with T.serial(self.head_dim // LANES) as c:
                        place = span(c * LANES)
                        one_side = widen(left[row, head, place]) * splat(a * share)
                        other = widen(right[row, head, place]) * splat(b * share)
                        store(left, narrow(one_side + other, isa.page_dtype), row, head, place)
                    store(left_sums, highest + T.log2(a + b), row, head)

            for_each_row(rows, one, parallel_from=8)
        return f.result()


@dataclass(frozen=True)
class CopyPage:
    """One whole page to another: what a fork inside a page needs. The number of filled slots is given and not used."""

    kv_heads: int
    head_dim: int

    @property
    def name(self) -> str:
        return "copy_page"

    def build(self, isa: Isa) -> PrimFunc:
        with function(self.name) as f:
            count = size()
            pages = f.tensor("pages", page_shape(count, self.kv_heads, self.head_dim), isa.page_dtype)
            source, target = f.scalar("source", "int64"), f.scalar("target", "int64")
            f.scalar("filled", "int64")
            vectors = self.head_dim // LANES
            with T.serial(2) as part, T.serial(self.kv_heads) as head, T.serial(PAGE) as slot, T.serial(vectors) as c:
                place = span(c * LANES)
                store(pages, pages[source, part, head, slot, place], target, part, head, slot, place)
        return f.result()


@dataclass(frozen=True)
class Compact:
    """Move tokens within pages: for sequence b, slots moves[0, bounds[b]:bounds[b+1]] to moves[1, ...]."""

    kv_heads: int
    head_dim: int

    @property
    def name(self) -> str:
        return "compact"

    def build(self, isa: Isa) -> PrimFunc:
        dim = self.head_dim
        with function(self.name) as f:
            count, total = size(), size()
            pages = f.tensor("pages", page_shape(count, self.kv_heads, dim), isa.page_dtype)
            bounds = f.tensor("bounds", (size(),), "int32", offset=True)
            moves = f.tensor("moves", (2, total), "int32", offset=True)
            batch = f.scalar("batch", "int32")
            with T.serial(batch) as b, T.serial(bounds[b + 1] - bounds[b]) as i:
                source, target = let(moves[0, bounds[b] + i]), let(moves[1, bounds[b] + i])
                with T.serial(self.kv_heads) as head, T.serial(dim) as column:
                    old = key_place(column, source % PAGE, dim)
                    new = key_place(column, target % PAGE, dim)
                    store(pages, pages[source // PAGE, 0, head, old[0], old[1]], target // PAGE, 0, head, *new)
                    value = pages[source // PAGE, 1, head, source % PAGE, column]
                    store(pages, value, target // PAGE, 1, head, target % PAGE, column)
        return f.result()


@dataclass(frozen=True)
class ReadBack:
    """Keys (rotated) and values of one layer, at slot positions, from pages into [layers, N, kv_heads, head_dim]."""

    layers: int
    kv_heads: int
    head_dim: int

    @property
    def name(self) -> str:
        return "read_back"

    def build(self, isa: Isa) -> PrimFunc:
        dim, dtype = self.head_dim, isa.page_dtype
        with function(self.name) as f:
            rows, count = size(), size()
            pages = f.tensor("pages", page_shape(count, self.kv_heads, dim), dtype)
            positions = f.tensor("positions", (rows,), "int32", offset=True)
            keys = f.tensor("keys", (self.layers, rows, self.kv_heads, dim), dtype)
            values = f.tensor("values", (self.layers, rows, self.kv_heads, dim), dtype)
            layer = f.scalar("layer", "int64")
            with T.serial(rows) as row:
                page, slot = let(positions[row] // PAGE), let(positions[row] % PAGE)
                with T.serial(self.kv_heads) as head, T.serial(dim) as column:
                    store(keys, pages[page, 0, head, *key_place(column, slot, dim)], layer, row, head, column)
                    store(values, pages[page, 1, head, slot, column], layer, row, head, column)
        return f.result()
