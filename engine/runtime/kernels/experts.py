"""Mixture of experts: each token goes through a few of many feed-forward parts, and their results are weighed.

A token and one of its experts are a pair: pair t * used + j is the j-th expert of token t. Pairs are sorted by expert,
so that an expert's weights are read once for all its tokens; the order in which a token's results are added is that of
its pairs, and a pair's arithmetic does not depend on which others share its expert. So a batch gives bit for bit what
each row gives alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm.tirx.script import builder as T

from .activations import parameter
from .builder import (
    LANES,
    Expr,
    Function,
    Kernel,
    f32,
    for_each_row,
    i32,
    let,
    scratch,
    size,
    span,
    splat,
    store,
    when,
    zeros,
)
from .formats import WeightFormat
from .isa import LOG2_E, Isa
from .linear import GatedUnit, gated_block, product
from .rows import BLOCK, Rows


@dataclass(frozen=True)
class Route(Kernel):
    """Scores [N, width >= experts] to `weights` float32 [N * used], which sum to one for each token: the softmax over
    the `used` best experts, best first; `order` int32 [N * used], pairs sorted by expert; and, in front of it in the
    same tensor, experts + 1 bounds of each expert's run.
    """

    experts: int
    used: int
    width: int

    @property
    def name(self) -> str:
        return "route"

    def emit(self, isa: Isa, f: Function) -> None:
        experts, used = self.experts, self.used
        rows, pairs, listed = size(), size(), size()
        scores = f.tensor("scores", (rows, self.width), "float32")
        weights = f.tensor("weights", (pairs,), "float32")
        order = f.tensor("order", (listed,), "int32")
        chosen = f.tensor("chosen", (pairs,), "int32")

        def best(row: Expr) -> None:
            """Choose `used` times the highest score that is left; the first of equal ones."""
            left = scratch(experts)
            with T.serial(experts) as e:
                store(left, scores[row, e], e)
            highest, total = scratch(1), scratch(1)
            store(total, f32(0.0), 0)
            with T.serial(used) as j:
                place = scratch(1, "int32")
                store(place, i32(0), 0)
                with T.serial(experts) as e, when(left[e] > left[place[0]]):
                    store(place, e, 0)
                with when(j == 0):
                    store(highest, left[place[0]], 0)
                power = splat((left[place[0]] - highest[0]) * f32(LOG2_E))
                lanes = scratch(LANES)
                store(lanes, isa.exp2(power), span(0))
                store(weights, lanes[0], row * used + j)
                store(total, total[0] + lanes[0], 0)
                store(chosen, place[0], row * used + j)
                store(left, f32(-3e38), place[0])
            with T.serial(used) as j:
                store(weights, weights[row * used + j] / total[0], row * used + j)

        with T.serial(rows) as row:
            best(row)
        with T.serial(experts + 1) as e:
            store(order, i32(0), e)
        with T.serial(rows * used) as pair:
            store(order, order[chosen[pair] + 1] + 1, chosen[pair] + 1)
        next_place = scratch(experts, "int32")
        with T.serial(experts) as e:
            store(next_place, order[e], e)
            store(order, order[e] + order[e + 1], e + 1)
        with T.serial(rows * used) as pair:
            expert = let(chosen[pair])
            store(order, pair, next_place[expert] + (experts + 1))
            store(next_place, next_place[expert] + 1, expert)


@dataclass(frozen=True)
class ExpertUnit(Kernel):
    """GatedUnit by expert: rows of x, one a token, to rows of y, one a pair. The experts' matrices lie in a row."""

    unit: GatedUnit
    experts: int
    used: int

    @property
    def name(self) -> str:
        return "experts_" + self.unit.name

    def emit(self, isa: Isa, f: Function) -> None:
        unit, form = self.unit, self.unit.format
        rows, pairs, listed = size(), size(), size()
        weights = f.tensor("weights", (self.experts * form.packed_bytes(2 * unit.rows, unit.columns),), "uint8")
        x = Rows(parameter(f, "x", rows, unit.columns, form.activation), unit.columns)
        order = f.tensor("order", (listed,), "int32")
        y = parameter(f, "y", pairs, unit.rows, unit.kind)
        groups = unit.rows // BLOCK

        def tile(expert: Expr, group: Expr, found: Sequence[Expr]) -> None:
            sources = [let(pair // self.used) for pair in found]
            gated_block(isa, unit, weights, x, y, expert * groups + group, sources, found, group, prefetch=False)

        with T.parallel(groups) as group:
            _pairs_of_experts(order, self.experts, lambda expert, found: tile(expert, group, found))


@dataclass(frozen=True)
class ExpertDown(Kernel):
    """y = x W^T by expert: float32 rows, one a pair."""

    format: WeightFormat
    rows: int
    columns: int
    experts: int

    @property
    def name(self) -> str:
        return f"experts_down_{self.format.name}_{self.rows}x{self.columns}"

    def emit(self, isa: Isa, f: Function) -> None:
        form = self.format
        pairs, listed = size(), size()
        total = self.experts * form.packed_bytes(self.rows, self.columns)
        weights = f.tensor("weights", (total,), "uint8")
        x = Rows(parameter(f, "x", pairs, self.columns, form.activation), self.columns)
        order = f.tensor("order", (listed,), "int32")
        y = f.tensor("y", (pairs, self.rows), "float32")
        groups = self.rows // LANES

        def tile(expert: Expr, group: Expr, found: Sequence[Expr]) -> None:
            place, start = expert * groups + group, [zeros() for _ in found]
            sums = product(isa, form, weights, self.columns, place, x, found, start, prefetch=False)
            for i, pair in enumerate(found):
                store(y, sums[i], pair, span(group * LANES))

        with T.parallel(groups) as group:
            _pairs_of_experts(order, self.experts, lambda expert, found: tile(expert, group, found))


@dataclass(frozen=True)
class Combine(Kernel):
    """A token's results by their weights, on top of the residual: float32 [N, columns]."""

    columns: int
    used: int

    @property
    def name(self) -> str:
        return "combine_experts"

    def emit(self, isa: Isa, f: Function) -> None:
        rows, pairs = size(), size()
        x = f.tensor("x", (pairs, self.columns), "float32")
        weights = f.tensor("weights", (pairs,), "float32")
        residual = f.tensor("residual", (rows, self.columns), "float32")
        y = f.tensor("y", (rows, self.columns), "float32")

        def one(row: Expr) -> None:
            with T.serial(self.columns // LANES) as c:
                place = span(c * LANES)
                total = scratch(LANES)
                store(total, residual[row, place], span(0))
                for j in range(self.used):
                    pair = let(row * self.used + j)
                    value = isa.fma(x[pair, place], splat(weights[pair]), total[span(0)])
                    store(total, value, span(0))
                store(y, total[span(0)], row, place)

        for_each_row(rows, one, parallel_from=8)


def _pairs_of_experts(order: Expr, experts: int, tile: Callable[[Expr, Sequence[Expr]], None]) -> None:
    """`tile(expert, pairs)` for the pairs of every expert, up to four at a time."""
    with T.serial(experts) as expert:
        start = let(order[expert])
        count = let(order[expert + 1] - start)
        first = let(start + (experts + 1))
        with T.serial(count // 4) as four:
            tile(expert, [let(order[first + four * 4 + i]) for i in range(4)])
        with T.serial(count % 4) as one:
            tile(expert, [let(order[first + count // 4 * 4 + one])])
