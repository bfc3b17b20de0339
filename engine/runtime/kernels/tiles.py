"""Products of many rows of activations with weights of four bits, four rows and two groups of weight rows at a time.

A pair of groups is unpacked once for all rows, into memory that stays in the first-level cache. A tile's eight sums of
integers then fill half of AVX2's registers; each weight is loaded once for four rows, each activation once for two
groups. The integers are exact and the floats are folded block by block as for one row, so the bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from tvm.tirx.script import builder as T

from .builder import LANES, Buffer, Expr, i32, let, opaque, scratch, span, splat, store
from .formats import Nibbles
from .isa import Isa
from .rows import BLOCK, Rows

ROWS = 4  # of a tile
PANEL = 64  # rows that have their sums at hand together
FROM = 8  # rows; fewer do not pay for the unpacking
_PAIR = 2
_CHUNK = 18  # blocks that are unpacked together: 11 KiB
_WIDTH = 10 * LANES  # words of 32 bits of an unpacked block: eight vectors of weights, scales, minima


@dataclass(frozen=True)
class Tiles:
    """Emits the products of pairs of groups, for tiles of rows. Made where its scratch memory may live: once for
    several pairs, since memory of this size is asked for at every passage.
    """

    isa: Isa
    form: Nibbles
    weights: Buffer
    x: Rows
    ready: tuple[Buffer, Buffer]
    sums: Buffer

    @classmethod
    def make(cls, isa: Isa, form: Nibbles, weights: Buffer, x: Rows) -> Tiles:
        blocks = min(_CHUNK, x.columns // BLOCK)
        ready = (scratch(blocks * _WIDTH, "int32"), scratch(blocks * _WIDTH, "int32"))
        return cls(isa, form, weights, x, ready, scratch(PANEL * _PAIR * LANES))

    def emit(
        self, groups: tuple[Expr, Expr], first: Expr, tiles: Expr, start: Callable[[Expr, Expr], Expr],
        finish: Callable[[Expr, tuple[Expr, Expr]], None],
    ) -> None:  # fmt: skip
        """From row `first` on: `start(group, row)` is what a sum begins with, and `finish(row, sums)` gets those of a
        row with both groups, in turn.
        """
        with T.serial(tiles) as tile:
            for i in range(ROWS):
                for g, group in enumerate(groups):
                    store(self.sums, start(group, first + tile * ROWS + i), self._place(tile, i, g))
        # LLVM would unroll eight turns, and order and spill them badly: it is not told that there are eight.
        words = opaque(T.min(i32(8), tiles + 7))
        blocks = self.x.columns // BLOCK
        chunk = -(-blocks // -(-blocks // _CHUNK))
        with T.serial(-(-blocks // chunk)) as piece:
            at = let(piece * chunk)
            length = opaque(T.min(i32(chunk), blocks - at)) if blocks % chunk else i32(chunk)
            for g, group in enumerate(groups):
                with T.serial(length) as block:
                    self._unpack(self.ready[g], block, let((group * blocks + at + block) * self.form.block_bytes))
            with T.serial(tiles) as tile:
                rows = [let(first + tile * ROWS + i) for i in range(ROWS)]
                with T.serial(length) as block:
                    self._fold(rows, tile, block, let(at + block), words)
        with T.serial(tiles) as tile:
            for i in range(ROWS):
                sums = [let(self.sums[self._place(tile, i, g)]) for g in range(_PAIR)]
                finish(let(first + tile * ROWS + i), (sums[0], sums[1]))

    def _place(self, tile: Expr, i: int, g: int) -> Expr:
        return span(((tile * ROWS + i) * _PAIR + g) * LANES)

    def _unpack(self, ready: Buffer, block: Expr, base: Expr) -> None:
        self.form.prefetch(self.weights, base)
        vectors, scale, minimum = self.form.unpack(self.isa, self.weights, base)
        for i, vector in enumerate([*vectors, scale, minimum]):
            store(ready, T.reinterpret("int32x8", vector), span(block * _WIDTH + i * LANES))

    def _fold(self, rows: list[Expr], tile: Expr, block: Expr, place: Expr, words: Expr) -> None:
        """One block of 32 columns of a tile."""

        def vector(g: int, i: Expr) -> Expr:
            return self.ready[g][span(block * _WIDTH + i * LANES)]

        def factor(g: int, i: int) -> Expr:
            return T.reinterpret("float32x8", vector(g, 8 + i))

        vectors = [partial(vector, g) for g in range(_PAIR)]
        dots = self.isa.dots_nibbles(vectors, [partial(self.x.word, row, place) for row in rows], words)
        for i, row in enumerate(rows):
            scale, total = let(splat(self.x.scale(row, place))), let(splat(self.x.scaled_sum(row, place)))
            for g in range(_PAIR):
                at = self._place(tile, i, g)
                folded = self.form.fold(self.isa, dots[i][g], factor(g, 0), factor(g, 1), scale, total, self.sums[at])
                store(self.sums, folded, at)
