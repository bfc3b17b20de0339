"""Attention over ragged chunks and over KV pages, with online softmax; the kernels that TVM's paged KV cache calls.

One generator makes the three kernels, which differ in where keys come from and how queries are shared out:

    ragged   queries of this step against keys of this step (not yet in pages), causal
    paged    several queries a sequence against its pages
    decode   one query a sequence against its pages

A page of 16 tokens holds keys as [page / 8][head_dim][8] (eight tokens side by side, so that a score vector is eight
tokens) and values as [page][head_dim]. The argument lists are those of the C++ cache; rotary arguments are ignored,
since rotation happens before (cache.py). Scores are kept in base 2: exp2 is cheaper, and log sums merge in base 2.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from tvm.tirx.script import builder as T

from .builder import (
    LANES,
    Buffer,
    Expr,
    Function,
    PrimFunc,
    f32,
    function,
    i32,
    let,
    prefetch,
    scratch,
    size,
    span,
    splat,
    store,
    when,
    zeros,
)
from .isa import Isa, lanes_max, lanes_sum, maximum, narrow, transpose8, widen

PAGE = 16
_VECTORS = PAGE // LANES
_QUERIES = 16  # query rows that share each key block
_LOWEST = -1e30  # a score that never counts; finite, so that differences stay numbers
_LOG2_E = 1.4426950408889634

Kind = Literal["ragged", "paged", "decode"]


@dataclass(frozen=True)
class Attention:
    """Grouped-query attention; `heads` is a multiple of `kv_heads`, `head_dim` of 8."""

    kind: Kind
    heads: int
    kv_heads: int
    head_dim: int

    @property
    def name(self) -> str:
        return f"attention_{self.kind}"

    def build(self, isa: Isa) -> PrimFunc:
        with function(self.name) as f:
            _Emitter(isa, self, f).emit()
        return f.result()


def key_place(column: Expr, slot: Expr, head_dim: int) -> tuple[Expr, Expr]:
    """Where the key of token `slot` of a page keeps `column`: the last two indices into a page."""
    per_row = head_dim // LANES
    return slot // LANES * LANES + column // per_row, column % per_row * LANES + slot % LANES


def page_shape(pages: Expr, kv_heads: int, head_dim: int) -> tuple[Expr, ...]:
    return (pages, 2, kv_heads, PAGE, head_dim)


def _head_groups(heads: int) -> Iterator[tuple[int, int]]:
    """(first, count): heads that share each loaded key or value; three use the registers of AVX2 best."""
    first = 0
    while first < heads:
        left = heads - first
        count = 3 if left == 3 or left > 4 else min(2, left)
        yield first, count
        first += count


class _Emitter:
    """Emits one kernel. `z` counts the query rows of the block at hand, `g` the query heads of one KV head."""

    def __init__(self, isa: Isa, attention: Attention, f: Function) -> None:
        self.isa = isa
        self.kind = attention.kind
        self.kv_heads = attention.kv_heads
        self.heads = attention.heads
        self.dim = attention.head_dim
        self.group = attention.heads // attention.kv_heads
        self.queries = 1 if attention.kind == "decode" else _QUERIES
        self._parameters(f)

    def _parameters(self, f: Function) -> None:
        dtype, dim = self.isa.page_dtype, self.dim
        self.batch, self.rows, keys, pages, page_count = size(), size(), size(), size(), size()
        bounds = (self.batch + 1,)
        rows = self.batch if self.kind == "decode" else self.rows
        self.q = f.tensor("q", (rows, self.heads, dim), dtype)
        if self.kind != "decode":
            self.query_bounds = f.tensor("query_bounds", bounds, "int32", offset=True)
        if self.kind == "ragged":
            self.keys = f.tensor("keys", (keys, self.kv_heads, dim), dtype)
            self.values = f.tensor("values", (keys, self.kv_heads, dim), dtype)
            self.key_bounds = f.tensor("key_bounds", bounds, "int32", offset=True)
            f.tensor("query_positions", (rows,), "int32", offset=True)
            f.tensor("key_offsets", (self.batch,), "int32", offset=True)
        else:
            self.pages = f.tensor("pages", page_shape(pages, self.kv_heads, dim), dtype)
            self.page_bounds = f.tensor("page_bounds", bounds, "int32", offset=True)
            self.page_ids = f.tensor("page_ids", (page_count,), "int32", offset=True)
            self.last_lengths = f.tensor("last_lengths", (self.batch,), "int32", offset=True)
            f.tensor("key_offsets", (self.batch,), "int32", offset=True)
            f.tensor("query_positions", (rows,), "int32", offset=True)
        self.output = f.tensor("output", (rows, self.heads, dim), dtype)
        self.log_sums = f.tensor("log_sums", (rows, self.heads), "float32")
        self.causal = None if self.kind == "decode" else f.scalar("causal", "int32")
        f.scalar("rotary_mode", "int32")
        f.scalar("rotary_scale", "float32")
        f.scalar("rotary_theta", "float32")
        self.scale = f.scalar("scale", "float32")

    def emit(self) -> None:
        with self._query_block():
            self._key_span()
            self._start()
            last = self._visible(self.first + self.count)
            with T.serial((last + (PAGE - 1)) // PAGE) as block:
                self.block = block
                if self.kind == "ragged":
                    self._transpose_keys()
                else:
                    self.page = let(self.page_ids[self.page_bounds[self.sequence] + block])
                    following = T.min(block + 1, self.page_total - 1)
                    self.next_page = let(self.page_ids[self.page_bounds[self.sequence] + following])
                with T.serial(self.count) as z:
                    self._attend(z)
            self._finish()

    @contextmanager
    def _query_block(self) -> Iterator[None]:
        """A task: a KV head and up to 16 query rows of a sequence. Sets sequence, head, row, first, count, length."""
        if self.kind == "decode":
            with T.parallel(self.batch * self.kv_heads) as task:
                self.sequence = let(task // self.kv_heads)
                self.head = let(task % self.kv_heads)
                self.row, self.first, self.count, self.length = self.sequence, i32(0), i32(1), i32(1)
                yield
            return
        # At most rows/16 + batch blocks. Later blocks see more keys: pair an early with a late one in a thread's share.
        blocks = let(self.rows // _QUERIES + self.batch)
        with T.parallel(blocks * self.kv_heads) as task:
            self.head = let(task // blocks)
            turn = let(task % blocks)
            index = let(T.if_then_else(turn % 2 == 0, turn // 2, blocks - 1 - turn // 2))
            found = scratch(2, "int32")  # blocks still to skip, sequence
            store(found, index, 0)
            store(found, i32(-1), 1)
            with T.serial(self.batch) as b, when(found[1] < 0):
                own = let((self.query_bounds[b + 1] - self.query_bounds[b] + (_QUERIES - 1)) // _QUERIES)
                with T.If(found[0] < own):
                    with T.Then():
                        store(found, b, 1)
                    with T.Else():
                        store(found, found[0] - own, 0)
            with when(found[1] >= 0):
                self.sequence = let(found[1])
                self.first = let(found[0] * _QUERIES)
                start = let(self.query_bounds[self.sequence])
                self.length = let(self.query_bounds[self.sequence + 1] - start)
                self.row = let(start + self.first)
                self.count = let(T.min(i32(_QUERIES), self.length - self.first))
                yield

    def _key_span(self) -> None:
        if self.kind == "ragged":
            self.key_start = let(self.key_bounds[self.sequence])
            self.key_total = let(self.key_bounds[self.sequence + 1] - self.key_start)
            return
        self.page_total = let(self.page_bounds[self.sequence + 1] - self.page_bounds[self.sequence])
        tokens = (self.page_total - 1) * PAGE + self.last_lengths[self.sequence]
        self.key_total = let(T.if_then_else(self.page_total > 0, tokens, i32(0)))

    def _visible(self, rows: Expr) -> Expr:
        """Keys that the first `rows` query rows of the sequence may see; queries are its last tokens."""
        if self.causal is None or self.kind != "ragged":
            return self.key_total
        seen = T.min(self.key_total, self.key_total - self.length + rows)
        return let(T.if_then_else(self.causal > 0, seen, self.key_total))

    def _start(self) -> None:
        per_head = self.queries * self.group
        self.scaled = scratch(per_head * self.dim)
        self.sums = scratch(per_head * self.dim)
        self.state = scratch(per_head * 2 * LANES)  # running maximum in eight equal lanes, then eight partial sums
        self.weights = scratch(self.group * PAGE)
        self.decay = scratch(self.group * LANES)
        self.key_block = scratch(self.dim * PAGE, self.isa.page_dtype) if self.kind == "ragged" else None
        with T.serial(self.count) as z:
            for g in range(self.group):
                with T.serial(self.dim // LANES) as c:
                    query = widen(self.q[self.row + z, self.head * self.group + g, span(c * LANES)])
                    store(self.scaled, query * splat(self.scale * f32(_LOG2_E)), span(self._at(z, g) + c * LANES))
                    store(self.sums, zeros(), span(self._at(z, g) + c * LANES))
                store(self.state, splat(f32(_LOWEST)), span(self._state_at(z, g)))
                store(self.state, zeros(), span(self._state_at(z, g) + LANES))

    def _at(self, z: Expr, g: int) -> Expr:
        return (z * self.group + g) * self.dim

    def _state_at(self, z: Expr, g: int) -> Expr:
        return (z * self.group + g) * (2 * LANES)

    def _transpose_keys(self) -> None:
        """This step's keys, sixteen at a time, into the layout of a page; rows past the end repeat the last."""
        assert self.key_block is not None
        dtype = self.isa.page_dtype
        bits = "int16" if dtype == "float16" else "int32"
        for half in range(_VECTORS):
            with T.serial(self.dim // LANES) as c:
                rows = []
                for token in range(LANES):
                    key = T.min(self.block * PAGE + (half * LANES + token), self.key_total - 1)
                    raw = self.keys[self.key_start + key, self.head, span(c * LANES)]
                    rows.append(T.reinterpret(f"{bits}x{LANES}", raw))
                turned = T.reinterpret(f"{dtype}x{LANES * LANES}", transpose8(rows, bits))
                store(self.key_block, turned, span(half * self.dim * LANES + c * (LANES * LANES), LANES * LANES))

    def _key(self, half: int, column: Expr) -> Expr:
        """One column of eight neighbouring keys."""
        if self.key_block is not None:
            return widen(self.key_block[span(half * self.dim * LANES + column * LANES)])
        row, place = key_place(column, half * LANES, self.dim)
        return widen(self.pages[self.page, 0, self.head, row, span(place)])

    def _value(self, slot: Expr, column: Expr) -> Expr:
        """Eight columns of one value."""
        if self.kind == "ragged":
            return widen(self.values[self.key_start + self.block * PAGE + slot, self.head, span(column)])
        return widen(self.pages[self.page, 1, self.head, slot, span(column)])

    def _attend(self, z: Expr) -> None:
        """One query row, all its heads, against the key block."""
        limit = let(self._visible(self.first + z + 1) - self.block * PAGE)
        valid = let(T.max(T.min(i32(PAGE), limit), i32(0)))
        for first, count in _head_groups(self.group):
            scores = self._scores(z, first, count)
            for g in range(count):
                self._softmax(z, first + g, [scores[span(g * PAGE + LANES * half)] for half in range(_VECTORS)], limit)
        for first, count in _head_groups(self.group):
            self._weigh_values(z, first, count, valid)

    def _scores(self, z: Expr, first: int, count: int) -> Buffer:
        scores = scratch(count * PAGE)
        for i in range(count * _VECTORS):
            store(scores, zeros(), span(LANES * i))
        with T.serial(self.dim) as column:
            if self.kind == "decode" and first == 0:
                self._prefetch_next(column)
            keys = [let(self._key(half, column)) for half in range(_VECTORS)]
            for g in range(count):
                query = let(splat(self.scaled[self._at(z, first + g) + column]))
                for half in range(_VECTORS):
                    place = span(g * PAGE + LANES * half)
                    store(scores, self.isa.fma(query, keys[half], scores[place]), place)
        return scores

    def _prefetch_next(self, column: Expr) -> None:
        """The next page's keys and values of this head, spread over the columns of this one."""
        per_line = 64 // (2 if self.isa.page_dtype == "float16" else 4)
        lines = PAGE * self.dim // per_line
        each = max(1, 2 * lines // self.dim)
        for i in range(each):
            line = column * each + i
            element = line % lines * per_line
            which = line // lines % 2
            prefetch(self.pages, self.next_page, which, self.head, element // self.dim, element % self.dim)

    def _softmax(self, z: Expr, g: int, scores: list[Expr], limit: Expr) -> None:
        """Fold sixteen scores into the running maximum and sum; leave their weights and the decay of earlier sums."""
        lowest = splat(f32(_LOWEST))
        masked = []
        for half, score in enumerate(scores):
            slots = T.ramp(i32(half * LANES), 1, LANES)
            masked.append(let(T.Select(slots < splat(limit), score, lowest)))
        highest = masked[0]
        for score in masked[1:]:
            highest = maximum(highest, score)
        at = self._state_at(z, g)
        before = let(self.state[span(at)])
        after = let(maximum(before, splat(lanes_max(highest))))
        decay = let(self.isa.exp2(before - after))
        store(self.decay, decay, span(LANES * g))
        store(self.state, after, span(at))
        total = self.state[span(at + LANES)] * decay
        for half, score in enumerate(masked):
            weight = let(self.isa.exp2(score - after))
            store(self.weights, weight, span(g * PAGE + LANES * half))
            total = total + weight
        store(self.state, total, span(at + LANES))

    def _weigh_values(self, z: Expr, first: int, count: int, valid: Expr) -> None:
        vectors = 4 if count > 1 else 8
        while (self.dim // LANES) % vectors:
            vectors //= 2
        with T.serial(self.dim // LANES // vectors) as c:
            column = let(c * (LANES * vectors))
            sums = scratch(count * vectors * LANES)
            places = [(g, e, span((g * vectors + e) * LANES)) for g in range(count) for e in range(vectors)]
            outer = {(g, e): span(self._at(z, first + g) + column + LANES * e) for g, e, _ in places}
            for g, e, place in places:
                store(sums, self.sums[outer[g, e]] * self.decay[span(LANES * (first + g))], place)
            with T.serial(valid) as slot:
                values = [let(self._value(slot, column + LANES * e)) for e in range(vectors)]
                weights = [let(splat(self.weights[(first + g) * PAGE + slot])) for g in range(count)]
                for g, e, place in places:
                    store(sums, self.isa.fma(weights[g], values[e], sums[place]), place)
            for g, e, place in places:
                store(self.sums, sums[place], outer[g, e])

    def _finish(self) -> None:
        with T.serial(self.count) as z:
            for g in range(self.group):
                head = self.head * self.group + g
                total = let(T.max(lanes_sum(self.state[span(self._state_at(z, g) + LANES)]), f32(1e-30)))
                with T.serial(self.dim // LANES) as c:
                    value = self.sums[span(self._at(z, g) + c * LANES)] * splat(f32(1.0) / total)
                    store(self.output, narrow(value, self.isa.page_dtype), self.row + z, head, span(c * LANES))
                store(self.log_sums, self.state[self._state_at(z, g)] + T.log2(total), self.row + z, head)
