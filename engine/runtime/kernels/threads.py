"""The same kernels for GPUs: a thread for each element of what comes out, or for each row.

They are written once for CUDA, OpenCL, Metal and WebGPU, so they use what all four have: 32-bit numbers and no vectors.
Activations stay float32. Weights keep the packed layout of the CPU's kernels, read as uint32 words. Nothing is shared
between threads, so these are right before they are fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tvm.tirx.script import builder as T

from .activations import Convert, Embed, Norm, NormAdd
from .attention import PAGE, Attention, key_place, page_shape
from .builder import LANES, Buffer, Expr, Function, Kernel, f32, i32, let, size, store, when
from .cache import Append
from .formats import WeightFormat
from .linear import GatedUnit, Linear
from .rows import BLOCK, FLOAT32, Activation

_GROUP = 64  # threads that start together


class Threads:
    """Takes the place of an instruction set."""

    name = "threads"
    page_dtype = "float32"
    weight_dtype = "uint32"

    def activation(self, form: WeightFormat) -> Activation:
        return FLOAT32

    def emit(self, kernel: Kernel, f: Function) -> None:
        """Raises NotImplementedError for the kernels of mixtures of experts."""
        if type(kernel) not in _EMITTERS:
            raise NotImplementedError(f"no GPU kernel does {kernel.name!r}")
        _EMITTERS[type(kernel)](kernel, f)


class _Words:
    """A packed matrix as bytes; where there are none, they are cut out of words."""

    def __init__(self, f: Function, name: str, form: WeightFormat, rows: int, columns: int) -> None:
        self._form, self._blocks = form, columns // form.columns
        self._words = f.tensor(name, (form.packed_bytes(rows, columns) // 4,), "uint32")

    def __getitem__(self, place: Expr) -> Expr:
        shift = T.cast(place % 4 * 8, "uint32")
        return T.shift_right(self._words[place // 4], shift) & T.uint32(255)

    def value(self, row: Expr, column: Expr) -> Expr:
        form = self._form
        base = let((row // LANES * self._blocks + column // form.columns) * form.block_bytes)
        return form.element(self, base, let(row % LANES), let(column % form.columns))


@contextmanager
def _each(count: Expr) -> Iterator[Expr]:
    """The body, in a thread for each number under `count`."""
    blocks = T.thread_binding(0, (count + (_GROUP - 1)) // _GROUP, "blockIdx.x")
    with blocks as block, T.thread_binding(0, _GROUP, "threadIdx.x") as thread:
        index = let(block * _GROUP + thread)
        with when(index < count):
            yield index


def _local(count: int, value: float = 0.0) -> Buffer:
    """float32 numbers of one thread."""
    numbers = T.alloc_buffer((count,), "float32", scope="local")
    with T.serial(count) as i:
        store(numbers, f32(value), i)
    return numbers


def _add(total: Buffer, value: Expr) -> None:
    store(total, total[0] + value, 0)


def _embed(kernel: Embed, f: Function) -> None:
    count = size()
    table = _Words(f, "table", kernel.format, kernel.rows, kernel.columns)
    ids = f.tensor("ids", (count,), "int32")
    y = f.tensor("y", (count, kernel.columns), "float32")
    with _each(count * kernel.columns) as i:
        row, column = let(i // kernel.columns), let(i % kernel.columns)
        store(y, table.value(let(ids[row]), column) * f32(kernel.scale), row, column)


def _norm_factor(read: Callable[[Expr], Expr], columns: int, epsilon: float) -> Expr:
    """One over the root of the mean square of what `read(column)` gives."""
    squares = _local(1)
    with T.serial(columns) as column:
        value = let(read(column))
        _add(squares, value * value)
    return let(f32(1.0) / T.sqrt(squares[0] * f32(1.0 / columns) + f32(epsilon)))


def _norm(kernel: Norm, f: Function) -> None:
    columns, count, rows = kernel.columns, size(), size()
    x = f.tensor("x", (rows, columns), "float32")
    gain = f.tensor("gain", (columns,), "float32")
    index = f.tensor("index", (count,), "int32") if kernel.select else None
    total = rows if index is None else count
    y = f.tensor("y", (total, columns), "float32")
    with _each(total) as row:
        source = row if index is None else let(index[row])
        factor = _norm_factor(lambda column: x[source, column], columns, kernel.epsilon)
        with T.serial(columns) as column:
            store(y, x[source, column] * factor * gain[column], row, column)


def _norm_add(kernel: NormAdd, f: Function) -> None:
    columns, rows = kernel.columns, size()
    x = f.tensor("x", (rows, columns), "float32")
    gain = f.tensor("gain", (columns,), "float32")
    residual = f.tensor("residual", (rows, columns), "float32")
    y = f.tensor("y", (rows, columns), "float32")
    with _each(rows) as row:
        factor = _norm_factor(lambda column: x[row, column], columns, kernel.epsilon)
        with T.serial(columns) as column:
            store(y, residual[row, column] + x[row, column] * factor * gain[column], row, column)


def _convert(kernel: Convert, f: Function) -> None:
    dim, columns, rows = kernel.head_dim, kernel.heads * kernel.head_dim, size()
    x = f.tensor("x", (rows, kernel.heads, dim), "float32")
    y = f.tensor("y", (rows, columns), "float32")
    with _each(rows * columns) as i:
        row, column = let(i // columns), let(i % columns)
        store(y, x[row, column // dim, column % dim], row, column)


def _linear(kernel: Linear, f: Function) -> None:
    count, dim = size(), kernel.head_dim
    weights = _Words(f, "weights", kernel.format, kernel.rows, kernel.columns)
    x = f.tensor("x", (count, kernel.columns), "float32")
    bias = f.tensor("bias", (kernel.rows,), "float32") if kernel.bias else None
    residual = f.tensor("residual", (count, kernel.rows), "float32") if kernel.residual else None
    y = f.tensor("y", (count, kernel.rows) if dim is None else (count, kernel.rows // dim, dim), "float32")
    with _each(count * kernel.rows) as i:
        row, place = let(i // kernel.rows), let(i % kernel.rows)
        total = _local(1)
        with T.serial(kernel.columns) as column:
            _add(total, weights.value(place, column) * x[row, column])
        value = total[0]
        if bias is not None:
            value = value + bias[place]
        if residual is not None:
            value = value + residual[row, place]
        store(y, _capped(value, kernel.cap), row, *((place,) if dim is None else (place // dim, place % dim)))


def _gated(kernel: GatedUnit, f: Function) -> None:
    count = size()
    weights = _Words(f, "weights", kernel.format, 2 * kernel.rows, kernel.columns)
    x = f.tensor("x", (count, kernel.columns), "float32")
    y = f.tensor("y", (count, kernel.rows), "float32")
    with _each(count * kernel.rows) as i:
        row, place = let(i // kernel.rows), let(i % kernel.rows)
        gate_row = let(place // BLOCK * (2 * BLOCK) + place % BLOCK)
        gate, up = _local(1), _local(1)
        with T.serial(kernel.columns) as column:
            _add(gate, weights.value(gate_row, column) * x[row, column])
            _add(up, weights.value(gate_row + BLOCK, column) * x[row, column])
        store(y, _activated(kernel.activation, let(gate[0])) * up[0], row, place)


def _activated(name: str, value: Expr) -> Expr:
    """See `Isa.activated`."""
    inner = value
    if name == "gelu":
        inner = f32(1.5957691216057308) * (value + f32(0.044715) * value * value * value)
    return value / (f32(1.0) + T.exp(f32(0.0) - inner))


def _capped(value: Expr, cap: float) -> Expr:
    return f32(cap) * T.tanh(value * f32(1.0 / cap)) if cap else value


def _append(kernel: Append, f: Function) -> None:
    heads, kv_heads, dim = kernel.heads, kernel.kv_heads, kernel.head_dim
    half, rows, table_rows, pages_count = dim // 2, size(), size(), size()
    xs = [f.tensor(f"x{i}", (rows, part, dim), "float32") for i, part in enumerate(kernel.parts)]
    gains = [f.tensor(name, (dim,), "float32") for name in ("query_gain", "key_gain") if kernel.epsilon]
    positions = f.tensor("positions", (rows,), "int32")
    slots = f.tensor("slots", (rows,), "int32")
    table = f.tensor("table", (table_rows, dim), "float32")
    pages = f.tensor("pages", page_shape(pages_count, kv_heads, dim), "float32")
    queries = f.tensor("queries", (rows, heads, dim), "float32")

    def rotate(x: Buffer, row: Expr, head: Expr, gain: Buffer | None, put: Callable[[Expr, Expr], None]) -> None:
        def read(column: Expr) -> Expr:
            value = x[row, head, column]
            return value if gain is None else value * factor * gain[column]

        factor = f32(1.0)
        if gain is not None and kernel.epsilon is not None:
            factor = _norm_factor(lambda column: x[row, head, column], dim, kernel.epsilon)
        with T.serial(half) as c:
            a, b = let(read(c)), let(read(c + half))
            cosine, sine = let(table[positions[row], c]), let(table[positions[row], c + half])
            put(c, a * cosine - b * sine)
            put(c + half, b * cosine + a * sine)

    total = heads + 2 * kv_heads
    with _each(rows * total) as i:
        row, head = let(i // total), let(i % total)
        page, slot = let(slots[row] // PAGE), let(slots[row] % PAGE)
        with when(head < heads):
            x, first = kernel.source(xs, 0)
            rotate(x, row, let(head + first), gains[0] if gains else None,
                   lambda c, value: store(queries, value, row, head, c))  # fmt: skip
        with when(T.And(head >= heads, head < heads + kv_heads)):
            x, first = kernel.source(xs, heads)
            inner = let(head - heads)
            rotate(x, row, let(inner + first), gains[1] if gains else None,
                   lambda c, value: store(pages, value, page, 0, inner, *key_place(c, slot, dim)))  # fmt: skip
        with when(head >= heads + kv_heads):
            x, first = kernel.source(xs, heads + kv_heads)
            other = let(head - (heads + kv_heads))
            with T.serial(dim) as c:
                store(pages, x[row, other + first, c], page, 1, other, slot, c)


def _attention(kernel: Attention, f: Function) -> None:
    heads, kv_heads, dim = kernel.heads, kernel.kv_heads, kernel.head_dim
    rows, page_count, listed = size(), size(), size()
    q = f.tensor("q", (rows, heads, dim), "float32")
    pages = f.tensor("pages", page_shape(page_count, kv_heads, dim), "float32")
    positions = f.tensor("positions", (rows,), "int32")
    sequences = f.tensor("sequences", (rows,), "int32")
    for name, count in (("block_bounds", size()), ("block_rows", rows), ("block_pages", size())):
        f.tensor(name, (count,), "int32")  # how the CPU shares the work
    page_bounds = f.tensor("page_bounds", (size(),), "int32")
    page_ids = f.tensor("page_ids", (listed,), "int32")
    output = f.tensor("output", (rows, heads, dim), "float32")
    with _each(rows * heads) as i:
        row, head = let(i // heads), let(i % heads)
        kv_head = let(head // (heads // kv_heads))
        limit = let(positions[row] + 1)
        start = let(T.max(i32(0), limit - kernel.window)) if kernel.window else i32(0)
        table = let(page_bounds[sequences[row]])
        sums, total, highest = _local(dim), _local(1), _local(1, -1e30)
        with T.serial(limit - start) as step:
            token = let(start + step)
            page, slot = let(page_ids[table + token // PAGE]), let(token % PAGE)
            score = _local(1)
            with T.serial(dim) as c:
                _add(score, q[row, head, c] * pages[(page, 0, kv_head, *key_place(c, slot, dim))])
            bounded = let(_capped(score[0] * f32(kernel.scale), kernel.cap))
            after = let(T.max(highest[0], bounded))
            decay, weight = let(T.exp(highest[0] - after)), let(T.exp(bounded - after))
            store(highest, after, 0)
            store(total, total[0] * decay + weight, 0)
            with T.serial(dim) as c:
                store(sums, sums[c] * decay + weight * pages[page, 1, kv_head, slot, c], c)
        with T.serial(dim) as c:
            store(output, sums[c] / total[0], row, head, c)


_EMITTERS: Mapping[type[Kernel], Callable[[Any, Function], None]] = {
    Embed: _embed,
    Norm: _norm,
    NormAdd: _norm_add,
    Convert: _convert,
    Linear: _linear,
    GatedUnit: _gated,
    Append: _append,
    Attention: _attention,
}
