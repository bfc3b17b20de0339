"""The kinds of activation rows; see activations.py for their layout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm.tirx.script import builder as T

from .builder import Buffer, Expr

BLOCK = 32  # columns that share a scale, in weights and activations


@dataclass(frozen=True)
class Activation:
    name: str
    dtype: str

    def row_width(self, columns: int) -> int:
        """Elements of `dtype` in a row."""
        return columns if self.name == "float32" else columns + columns // 4


INT8 = Activation("int8", "uint8")
FLOAT32 = Activation("float32", "float32")


@dataclass(frozen=True)
class Rows:
    """Reading access to rows of activations inside a kernel."""

    buffer: Buffer
    columns: int

    def value(self, row: Expr, column: Expr) -> Expr:
        """float32 rows only."""
        return self.buffer[row, column]

    def words(self, row: Expr, block: Expr) -> Sequence[Expr]:
        """int8 rows: the block's 32 values as eight int32."""
        return [self.word(row, block, j) for j in range(8)]

    def word(self, row: Expr, block: Expr, j: Expr) -> Expr:
        """One of them."""
        return T.reinterpret("int32", self.buffer.vload([row, block * BLOCK + 4 * j], "uint8x4"))

    def scale(self, row: Expr, block: Expr) -> Expr:
        return self._field(row, block, 0)

    def scaled_sum(self, row: Expr, block: Expr) -> Expr:
        """The sum of the block's values: scale times the sum of its int8."""
        return self._field(row, block, 1)

    def _field(self, row: Expr, block: Expr, field: int) -> Expr:
        offset = self.columns + field * (self.columns // BLOCK) * 4 + block * 4
        return T.reinterpret("float32", self.buffer.vload([row, offset], "uint8x4"))
