"""Attention over KV pages with online softmax: one kernel for prompts and for single tokens.

Each query row folds its sequence's pages in order, from the first page (that its window reaches) up to its own
position. Nothing else enters its arithmetic: not which rows are computed beside it, not how the sequence's tokens were
cut into steps, not whether its pages are shared. So a step is the same to the last bit in any company, and all that
batching promises rests on that.

Rows are computed in blocks. A block goes through the pages that all its rows have in common once, and its rows fold
each of them while it is at hand; then each row goes on alone with the pages of its own. So the rows of a prompt read
its pages together, and so do sequences that share a prefix. A few rows at a time fold a page that all of them see
whole: each key and value is then loaded and widened once for all heads of those rows. (Cascades that merge partial
results of prefix and rest, as in Hydragen and FlashInfer, give other bits with other company, since sums of floats
depend on their order.)

A page of 16 tokens holds keys as [page / 8][head_dim][8] (eight tokens side by side, so that a score vector is eight
tokens) and values as [page][head_dim]. Scores are kept in base 2, where the exponential is cheaper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from tvm.tirx.script import builder as T

from .builder import (
    LANES,
    Buffer,
    Expr,
    Function,
    Kernel,
    f32,
    i32,
    let,
    opaque,
    prefetch,
    scratch,
    size,
    span,
    splat,
    store,
    when,
    zeros,
)
from .isa import LOG2_E, Isa, lanes_max, lanes_sum, maximum, narrow, widen

PAGE = 16
_VECTORS = PAGE // LANES
QUERIES = 16  # query rows of a block, at most
Query: TypeAlias = tuple[Expr, int]  # a row of the block, and a head of the group
_LOWEST = -1e30  # a score that never counts; finite, so that differences stay numbers


@dataclass(frozen=True)
class Attention(Kernel):
    """Grouped-query attention of queries [N, heads, head_dim] over pages; `heads` is a multiple of `kv_heads`.

    Row i is token positions[i] of sequence b = sequences[i], whose pages are page_ids[page_bounds[b]] to
    page_ids[page_bounds[b + 1]]; it sees the tokens up to its own. Block k has the rows block_rows[block_bounds[k]] to
    block_rows[block_bounds[k + 1]], of sequences that have their first block_pages[k] pages in common. Every row is in
    one block.

    Scores are multiplied by `scale`, then bounded to cap * tanh(score / cap) where there is a `cap`. With a `window` a
    query sees the last so many tokens only, its own included.
    """

    heads: int
    kv_heads: int
    head_dim: int
    scale: float
    window: int = 0
    cap: float = 0.0

    @property
    def name(self) -> str:
        return f"attention_{self.window}" if self.window else "attention"

    def emit(self, isa: Isa, f: Function) -> None:
        _Emitter(isa, self, f).emit()


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
    """Emits the kernel. `z` counts the query rows of the block at hand, `g` the query heads of one KV head; a query is
    a pair of them.
    """

    def __init__(self, isa: Isa, attention: Attention, f: Function) -> None:
        self.isa = isa
        self.kv_heads = attention.kv_heads
        self.heads = attention.heads
        self.dim = attention.head_dim
        self.group = attention.heads // attention.kv_heads
        self.scale, self.window, self.cap = attention.scale, attention.window, attention.cap
        self.fold = 4 if self.group == 1 else 2  # rows at a time: with three heads, all registers of AVX2
        self._parameters(f)

    def _parameters(self, f: Function) -> None:
        dtype, dim = self.isa.page_dtype, self.dim
        self.rows, pages, page_count = size(), size(), size()
        self.blocks = size()
        self.q = f.tensor("q", (self.rows, self.heads, dim), dtype)
        self.pages = f.tensor("pages", page_shape(pages, self.kv_heads, dim), dtype)
        self.positions = f.tensor("positions", (self.rows,), "int32")
        self.sequences = f.tensor("sequences", (self.rows,), "int32")
        self.block_bounds = f.tensor("block_bounds", (size(),), "int32")
        self.block_rows = f.tensor("block_rows", (self.rows,), "int32")
        self.block_pages = f.tensor("block_pages", (self.blocks,), "int32")
        self.page_bounds = f.tensor("page_bounds", (size(),), "int32")
        self.page_ids = f.tensor("page_ids", (page_count,), "int32")
        self.output = f.tensor("output", (self.rows, self.heads, dim), dtype)

    def emit(self) -> None:
        with self._block():
            self._start()
            # Once for all rows and the pages in common, then once for each row and its own.
            with T.serial(self.count + 1) as turn:
                together = turn == 0
                z_first = let(T.if_then_else(together, i32(0), turn - 1))
                z_count = let(T.if_then_else(together, self.count, i32(1)))
                limit = let(T.if_then_else(together, self.ends[1], self.limits[z_first]))
                common = let(self.block_pages[self.index])
                last = let((limit + (PAGE - 1)) // PAGE)
                last = let(T.if_then_else(together, T.min(common, last), last))
                start = T.if_then_else(together, i32(0), common)
                if self.window:
                    nearest = let(T.if_then_else(together, self.ends[0], limit))
                    start = T.max(start, T.max(i32(0), nearest - self.window) // PAGE)
                start = opaque(start)
                last = opaque(last)
                table = let(self.page_bounds[self.sequences[self._row(z_first)]])
                with T.serial(T.max(last - start, i32(0))) as step:
                    self.block = let(start + step)
                    self.page = let(self.page_ids[table + self.block])
                    self.next_page = let(self.page_ids[table + T.min(self.block + 1, last - 1)])
                    whole = (self.block + 1) * PAGE <= self.ends[0]
                    if self.window:
                        whole = T.And(whole, self.ends[1] - self.window <= self.block * PAGE)
                    folds = opaque(T.if_then_else(T.And(together, whole), self.count // self.fold, i32(0)))
                    with T.serial(folds) as fold:
                        self._attend_whole([let(fold * self.fold + i) for i in range(self.fold)], fold == 0)
                    rest = let(folds * self.fold)
                    with T.serial(z_count - rest) as z:
                        self._attend(let(z_first + rest + z))
            self._finish()

    @contextmanager
    def _block(self) -> Iterator[None]:
        """A task: a KV head and a block of rows. Sets head, index (the block's), first and count (of its rows)."""
        # Later blocks of a prompt see more keys: pair an early with a late one in a thread's share.
        blocks = self.blocks
        with T.parallel(blocks * self.kv_heads) as task:
            self.head = let(task // blocks)
            turn = let(task % blocks)
            self.index = let(T.if_then_else(turn % 2 == 0, turn // 2, blocks - 1 - turn // 2))
            self.first = let(self.block_bounds[self.index])
            self.count = let(self.block_bounds[self.index + 1] - self.first)
            yield

    def _row(self, z: Expr) -> Expr:
        return self.block_rows[self.first + z]

    def _start(self) -> None:
        per_head = QUERIES * self.group
        self.scaled = scratch(per_head * self.dim)
        self.sums = scratch(per_head * self.dim)
        self.state = scratch(per_head * 2 * LANES)  # running maximum in eight equal lanes, then eight partial sums
        self.weights = scratch(self.fold * self.group * PAGE)
        self.decay = scratch(self.fold * self.group * LANES)
        self.limits = scratch(QUERIES, "int32")  # how many tokens each row sees
        self.ends = scratch(2, "int32")  # the fewest, and the most
        store(self.ends, i32(2**31 - 1), 0)
        store(self.ends, i32(0), 1)
        scale = splat(f32(LOG2_E * self.scale))
        with T.serial(self.count) as z:
            row = let(self._row(z))
            limit = let(self.positions[row] + 1)
            store(self.limits, limit, z)
            store(self.ends, T.min(self.ends[0], limit), 0)
            store(self.ends, T.max(self.ends[1], limit), 1)
            for g in range(self.group):
                with T.serial(self.dim // LANES) as c:
                    query = widen(self.q[row, self.head * self.group + g, span(c * LANES)])
                    store(self.scaled, query * scale, span(self._at(z, g) + c * LANES))
                    store(self.sums, zeros(), span(self._at(z, g) + c * LANES))
                store(self.state, splat(f32(_LOWEST)), span(self._state_at(z, g)))
                store(self.state, zeros(), span(self._state_at(z, g) + LANES))

    def _at(self, z: Expr, g: int) -> Expr:
        return (z * self.group + g) * self.dim

    def _state_at(self, z: Expr, g: int) -> Expr:
        return (z * self.group + g) * (2 * LANES)

    def _key(self, half: int, column: Expr) -> Expr:
        """One column of eight neighbouring keys."""
        row, place = key_place(column, half * LANES, self.dim)
        return widen(self.pages[self.page, 0, self.head, row, span(place)])

    def _value(self, slot: Expr, column: Expr) -> Expr:
        """Eight columns of one value."""
        return widen(self.pages[self.page, 1, self.head, slot, span(column)])

    def _attend(self, z: Expr) -> None:
        """One query row, all its heads, against the page: the tokens up to its own, as far back as it looks."""
        limit = opaque(self.limits[z] - self.block * PAGE)
        start = opaque(T.max(i32(0), limit - self.window)) if self.window else i32(0)
        seen = T.And(limit > 0, start < PAGE) if self.window else limit > 0
        with when(seen):
            valid = opaque(T.min(i32(PAGE), limit))
            self._fold_page([z], i32(0) == 0, start, limit, valid)

    def _attend_whole(self, rows: Sequence[Expr], first: Expr) -> None:
        """A few query rows, all their heads, against the whole page."""
        self._fold_page(rows, first, i32(0), i32(PAGE), i32(PAGE))

    def _fold_page(self, rows: Sequence[Expr], first: Expr, start: Expr, limit: Expr, valid: Expr) -> None:
        """Scores, weights and sums of all heads of the rows; each is the same in any company. With `first` the next
        page is asked for meanwhile.
        """
        groups = [
            [(z, g) for z in rows for g in range(at, at + count)] for at, count in _head_groups(self.group)
        ]
        for number, queries in enumerate(groups):
            scores = self._scores(queries, first if number == 0 else None)
            for i, (z, g) in enumerate(queries):
                halves = [scores[span(i * PAGE + LANES * half)] for half in range(_VECTORS)]
                self._softmax(z, g, self._place(rows, z, g), halves, start, limit)
        for queries in groups:
            self._weigh_values(queries, [self._place(rows, z, g) for z, g in queries], start, valid)

    def _place(self, rows: Sequence[Expr], z: Expr, g: int) -> int:
        """Where a query has its weights and its decay."""
        return next(i for i, row in enumerate(rows) if row is z) * self.group + g

    def _scores(self, queries: Sequence[Query], first: Expr | None) -> Buffer:
        scores = scratch(len(queries) * PAGE)
        for i in range(len(queries) * _VECTORS):
            store(scores, zeros(), span(LANES * i))
        with T.serial(self.dim) as column:
            if first is not None:
                with when(first):
                    self._prefetch_next(column)
            keys = [let(self._key(half, column)) for half in range(_VECTORS)]
            for i, (z, g) in enumerate(queries):
                query = let(splat(self.scaled[self._at(z, g) + column]))
                for half in range(_VECTORS):
                    place = span(i * PAGE + LANES * half)
                    store(scores, self.isa.fma(query, keys[half], scores[place]), place)
        return scores

    def _prefetch_next(self, column: Expr) -> None:
        """Part of the next page's keys and values of this head: spread over the columns of this page's keys.

        All at once would wait for the few requests that a core can have under way (a fifth slower at 2,048 tokens).
        """
        per_line = 64 // (2 if self.isa.page_dtype == "float16" else 4)
        lines = PAGE * self.dim // per_line
        each = 2 * lines // self.dim
        for i in range(each):
            line = let(column * each + i)
            prefetch(self.pages, self.next_page, line // lines, self.head, 0, line % lines * per_line)

    def _softmax(
        self, z: Expr, g: int, place: int, scores: Sequence[Expr], start: Expr, limit: Expr
    ) -> None:
        """Fold sixteen scores into the running maximum and sum; leave their weights and the decay of earlier sums."""
        lowest = splat(f32(_LOWEST))
        masked = []
        for half, score in enumerate(scores):
            slots = T.ramp(i32(half * LANES), 1, LANES)
            if self.cap:
                score = let(self.isa.capped(score, self.cap * LOG2_E))
            score = T.Select(slots < splat(limit), score, lowest)
            if self.window:
                score = T.Select(slots < splat(start), lowest, score)
            masked.append(let(score))
        highest = masked[0]
        for score in masked[1:]:
            highest = maximum(highest, score)
        at = self._state_at(z, g)
        before = let(self.state[span(at)])
        after = let(maximum(before, splat(lanes_max(highest))))
        decay = let(self.isa.exp2(before - after))
        store(self.decay, decay, span(LANES * place))
        store(self.state, after, span(at))
        total = self.state[span(at + LANES)] * decay
        for half, score in enumerate(masked):
            weight = let(self.isa.exp2(score - after))
            store(self.weights, weight, span(place * PAGE + LANES * half))
            total = total + weight
        store(self.state, total, span(at + LANES))

    def _weigh_values(self, queries: Sequence[Query], weighed: Sequence[int], start: Expr, valid: Expr) -> None:
        count = len(queries)
        vectors = 8 if count == 1 else 4 if count <= 3 else 2
        while (self.dim // LANES) % vectors:
            vectors //= 2
        with T.serial(self.dim // LANES // vectors) as c:
            column = let(c * (LANES * vectors))
            sums = scratch(count * vectors * LANES)
            place = {(i, e): span((i * vectors + e) * LANES) for i in range(count) for e in range(vectors)}
            outer = {(i, e): span(self._at(*queries[i]) + column + LANES * e) for i, e in place}
            for i, e in place:
                store(sums, self.sums[outer[i, e]] * self.decay[span(LANES * weighed[i])], place[i, e])
            with T.serial(valid - start) as step:
                slot = let(start + step)

                def weight(i: int) -> Expr:
                    return let(splat(self.weights[weighed[i] * PAGE + slot]))

                def value(e: int) -> Expr:
                    return let(self._value(slot, column + LANES * e))

                def add(i: int, e: int, weight: Expr, value: Expr) -> None:
                    store(sums, self.isa.fma(weight, value, sums[place[i, e]]), place[i, e])

                # The sums take twelve of AVX2's sixteen registers: the fewer operands stay, the others come in turn.
                if count < vectors:
                    weights = [weight(i) for i in range(count)]
                    for e in range(vectors):
                        one = value(e)
                        for i in range(count):
                            add(i, e, weights[i], one)
                else:
                    values = [value(e) for e in range(vectors)]
                    for i in range(count):
                        one = weight(i)
                        for e in range(vectors):
                            add(i, e, one, values[e])
            for i, e in place:
                store(self.sums, sums[place[i, e]], outer[i, e])

    def _finish(self) -> None:
        with T.serial(self.count) as z:
            row = let(self._row(z))
            for g in range(self.group):
                head = self.head * self.group + g
                total = let(T.max(lanes_sum(self.state[span(self._state_at(z, g) + LANES)]), f32(1e-30)))
                with T.serial(self.dim // LANES) as c:
                    value = self.sums[span(self._at(z, g) + c * LANES)] * splat(f32(1.0) / total)
                    store(self.output, narrow(value, self.isa.page_dtype), row, head, span(c * LANES))
