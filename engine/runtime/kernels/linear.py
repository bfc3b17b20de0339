"""Matrix products: activations [M, K] times packed weights [N, K] transposed.

One row of activations is bound by reading the weights: it prefetches. Several rows share each unpacked block, four at
a time, since more would not fit in the sixteen vector registers of AVX2; the first of them ask for the next weights.
Many rows, with weights of four bits, go through wider tiles (tiles.py). A row's arithmetic does not depend on which
others share its block, so a batch gives bit for bit what each row gives alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm.tirx.script import builder as T

from .activations import parameter, store_block
from .builder import (
    LANES,
    Buffer,
    Expr,
    Function,
    Kernel,
    Registers,
    either,
    i32,
    let,
    opaque,
    scratch,
    size,
    span,
    store,
    when,
    zeros,
)
from .formats import Nibbles, WeightFormat
from .isa import Isa, narrow
from .rows import BLOCK, Activation, Rows
from .tiles import FROM, PANEL, ROWS, Tiles

_STRIP = 4  # at most so many pairs or blocks in a row for a thread


@dataclass(frozen=True)
class Linear(Kernel):
    """y = x W^T. `bias` adds a float32 vector [rows], `residual` a float32 matrix like y; `cap` bounds what comes out
    to cap * tanh(y / cap); with `head_dim` y is split into heads, in the page dtype.
    """

    format: WeightFormat
    rows: int
    columns: int
    bias: bool = False
    residual: bool = False
    cap: float = 0.0
    head_dim: int | None = None  # then y is [M, rows / head_dim, head_dim] in the page dtype

    @property
    def name(self) -> str:
        kind = "residual" if self.residual else "heads" if self.head_dim else "plain"
        extras = ("_bias" if self.bias else "") + ("_capped" if self.cap else "")
        return f"linear_{self.format.name}_{self.rows}x{self.columns}_{kind}{extras}"

    def emit(self, isa: Isa, f: Function) -> None:
        count = size()
        weights = f.tensor("weights", (self.format.packed_bytes(self.rows, self.columns),), "uint8")
        x = Rows(parameter(f, "x", count, self.columns, self.format.activation), self.columns)
        bias = f.tensor("bias", (self.rows,), "float32") if self.bias else None
        residual = f.tensor("residual", (count, self.rows), "float32") if self.residual else None
        shape = (count, self.rows) if self.head_dim is None else (count, self.rows // self.head_dim, self.head_dim)
        dtype = "float32" if self.head_dim is None else isa.page_dtype
        y = f.tensor("y", shape, dtype)

        def start(group: Expr, row: Expr) -> Expr:
            first = zeros() if bias is None else bias[span(group * LANES)]
            return first if residual is None else residual[row, span(group * LANES)] + first

        def finish(group: Expr, row: Expr, total: Expr) -> None:
            value = narrow(isa.capped(total, self.cap) if self.cap else total, dtype)
            if self.head_dim is None:
                store(y, value, row, span(group * LANES))
            else:
                groups = self.head_dim // LANES
                store(y, value, row, group // groups, span(group % groups * LANES))

        def tile(group: Expr, rows: Sequence[Expr], *, prefetch: bool) -> None:
            initial = [start(group, row) for row in rows]
            sums = product(isa, self.format, weights, self.columns, group, x, rows, initial, prefetch=prefetch)
            for i, row in enumerate(rows):
                finish(group, row, sums[i])

        def wide(tiles: Tiles, group: Expr, first: Expr, number: Expr) -> None:
            def both(row: Expr, sums: tuple[Expr, Expr]) -> None:
                for g in range(2):
                    finish(group + g, row, sums[g])

            tiles.emit((group, group + 1), first, number, start, both)

        _share(isa, self.format, weights, x, count, self.rows // LANES, tile, wide, 2)


@dataclass(frozen=True)
class GatedUnit(Kernel):
    """act(x G^T) * (x U^T) into activations. G and U [rows, columns] share a packed matrix, 32 rows each in turn.

    `activation`: "silu", or "gelu", its approximation by tanh.
    """

    format: WeightFormat
    rows: int
    columns: int
    kind: Activation
    activation: str = "silu"

    @property
    def name(self) -> str:
        return f"gated_{self.activation}_{self.format.name}_{self.rows}x{self.columns}_{self.kind.name}"

    def emit(self, isa: Isa, f: Function) -> None:
        count = size()
        weights = f.tensor("weights", (self.format.packed_bytes(2 * self.rows, self.columns),), "uint8")
        x = Rows(parameter(f, "x", count, self.columns, self.format.activation), self.columns)
        y = parameter(f, "y", count, self.rows, self.kind)

        def tile(group: Expr, rows: Sequence[Expr], *, prefetch: bool) -> None:
            gated_block(isa, self, weights, x, y, group, rows, rows, group, prefetch=prefetch)

        def wide(tiles: Tiles, group: Expr, first: Expr, number: Expr) -> None:
            gated = scratch(PANEL * BLOCK)
            each = BLOCK // LANES
            with T.serial(each) as part:

                def both(row: Expr, sums: tuple[Expr, Expr]) -> None:
                    value = isa.activated(self.activation, sums[0]) * sums[1]
                    store(gated, value, span((row - first) * BLOCK + part * LANES))

                place = let(group * (2 * each) + part)
                tiles.emit((place, place + each), first, number, lambda group, row: zeros(), both)
            with T.serial(number * ROWS) as i:
                values = [gated[span(i * BLOCK + LANES * e)] for e in range(each)]
                store_block(isa, self.kind, y, self.rows, first + i, group, values)

        _share(isa, self.format, weights, x, count, self.rows // BLOCK, tile, wide, 1)


def gated_block(
    isa: Isa, unit: GatedUnit, weights: Buffer, x: Rows, y: Buffer, group: Expr, rows: Sequence[Expr],
    targets: Sequence[Expr], column: Expr, *, prefetch: bool,
) -> None:  # fmt: skip
    """Emit block `column` of 32 columns of y at rows `targets`, from rows of x and the 64 weight rows of `group`."""
    both = scratch(2 * BLOCK * len(rows))
    with T.serial(2 * BLOCK // LANES) as part:
        initial = [zeros() for _ in rows]
        place = group * (2 * BLOCK // LANES) + part
        sums = product(isa, unit.format, weights, unit.columns, place, x, rows, initial, prefetch=prefetch)
        for i in range(len(rows)):
            store(both, sums[i], span(2 * BLOCK * i + part * LANES))
    for i, row in enumerate(targets):
        values = []
        for e in range(0, BLOCK, LANES):
            gate, up = let(both[span(2 * BLOCK * i + e)]), both[span(2 * BLOCK * i + BLOCK + e)]
            values.append(isa.activated(unit.activation, gate) * up)
        store_block(isa, unit.kind, y, unit.rows, row, column, values)


def product(
    isa: Isa, form: WeightFormat, weights: Buffer, columns: int, group: Expr, x: Rows, rows: Sequence[Expr],
    initial: Sequence[Expr], *, prefetch: bool,
) -> Registers:  # fmt: skip
    """Emit the products of one group of eight weight rows with some rows of x; the sums are those of the rows."""
    blocks = columns // form.columns
    sums = Registers(initial)
    with T.serial(blocks) as block:
        base = T.Bind((group * blocks + block) * form.block_bytes)
        if prefetch and len(rows) == 1:
            form.prefetch(weights, base)
        elif prefetch:  # several rows stay at a group for long: the next one is asked for meanwhile
            form.prefetch(weights, base, ahead=blocks * form.block_bytes)
        form.multiply(isa, weights, base, x, rows, block, sums)
    return sums


def _share(
    isa: Isa, form: WeightFormat, weights: Buffer, x: Rows, count: Expr, groups: int, tile: Callable[..., None],
    wide: Callable[[Tiles, Expr, Expr, Expr], None], together: int,
) -> None:  # fmt: skip
    """Share the groups of weight rows among threads; each goes through all rows of x while its weights are in cache.

    `wide(tiles, group, first, number)` does `number` tiles of rows from `first` on, `together` groups from `group` on.
    """

    def one() -> None:
        with T.parallel(groups) as group:
            tile(group, [T.int32(0)], prefetch=True)

    def rest(group: Expr) -> None:
        with when(count % 4 >= 2):
            tile(group, [count // 4 * 4 + i for i in range(2)], prefetch=True)
        with when(count % 2 == 1):
            tile(group, [count - 1], prefetch=False)

    def several() -> None:
        with T.parallel(groups) as group:
            with when(count >= 4):
                tile(group, [T.int32(i) for i in range(4)], prefetch=True)
            with T.serial(count // 4 - 1) as four:
                tile(group, [(four + 1) * 4 + i for i in range(4)], prefetch=False)
            rest(group)

    def many() -> None:
        assert isinstance(form, Nibbles)
        strip = max(n for n in range(1, _STRIP + 1) if groups % (n * together) == 0) * together
        with T.parallel(groups // strip) as index:
            tiles = Tiles.make(isa, form, weights, x)
            with T.serial(strip // together) as i:
                group = let(index * strip + i * together)
                with T.serial((count // ROWS * ROWS + PANEL - 1) // PANEL) as panel:
                    first = let(panel * PANEL)
                    wide(tiles, group, first, opaque(T.min(i32(PANEL // ROWS), (count - first) // ROWS)))
                with T.serial(together) as g:
                    rest(group + g)

    if isa.tiles and isinstance(form, Nibbles) and groups % together == 0:
        either(count == 1, one, lambda: either(count < FROM, several, many))
    else:
        either(count == 1, one, several)
