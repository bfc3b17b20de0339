"""The compiled kernel for the common sampling chain, as samplers/quick.py calls it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tvm_ffi
from numpy.typing import NDArray

from ...grammar.tokens.compiled import load_kernel
from ...samplers.protocols import Logits, MaskRows
from ...samplers.quick import QuickRows

BLOCK = 64
ROOM = 4096


class Draw:
    """A QuickDraw for rows of a multiple of 64 logits. For one thread, since it keeps its working space."""

    def __init__(self) -> None:
        """Loads the kernel, compiling it at first use on a machine. Raises what TVM raises where that fails."""
        source = str(Path(__file__).with_name("kernels") / "draw.py")
        self._run = load_kernel("draw", _make, [source])
        self._no_masks = tvm_ffi.from_dlpack(np.zeros((1, 1), np.int32))
        room = (np.zeros(ROOM, np.float32), np.zeros(ROOM, np.float32), np.zeros(ROOM, np.int32))
        self._room = tuple(map(tvm_ffi.from_dlpack, room))
        self._blocks: tuple[object, object] | None = None
        self._width = 0

    def fits(self, width: int, /) -> bool:
        """Whole blocks only."""
        return width % BLOCK == 0 and width > 0

    def __call__(self, logits: Logits, masks: MaskRows | None, asked: QuickRows, /) -> NDArray[np.int32]:
        """See QuickDraw."""
        if self._blocks is None or self._width != logits.shape[1]:
            self._width = logits.shape[1]
            count = self._width // BLOCK
            highest, sums = (tvm_ffi.from_dlpack(np.zeros(count, np.float32)) for _ in range(2))
            self._blocks = (highest, sums)
        tokens = np.empty(len(asked.rows), np.int32)
        bits = self._no_masks if masks is None else tvm_ffi.from_dlpack(np.ascontiguousarray(masks).view(np.int32))
        arrays = (
            asked.rows, asked.inverse_heats, asked.tops, asked.shares, asked.floors, asked.numbers, tokens,
        )  # fmt: skip
        self._run(
            tvm_ffi.from_dlpack(logits), bits, *map(tvm_ffi.from_dlpack, arrays), *self._blocks,
            *self._room, int(masks is not None),
        )  # fmt: skip
        return tokens


def _make() -> object:
    from .kernels.draw import draw_kernel

    return draw_kernel()
