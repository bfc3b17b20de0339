"""White space and punctuation as rows: bounded runs, the spaced form, and pretty printing with its depth."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from .codes import ARRAY_CLOSE, EDGE_SHIFT, ITEM_NEXT, OBJECT_OPEN, VALUE_END
from .specs import Whitespace
from .tables import Tables

SPACES: Final = (0x20, 0x0A, 0x0D, 0x09)
COMMA, COLON = 0x2C, 0x3A
SPACE, NEWLINE = 0x20, 0x0A


_BLOCK_ROWS: Final = 64


class _RunBlock:
    """What rows of `width` edges with runs of white space before them have in common, as arrays for `rows` of them."""

    def __init__(self, longest: int, width: int, rows: int) -> None:
        steps = longest + 1
        self.rows = rows
        self.width = width + (len(SPACES) if longest else 0)
        byte = np.zeros((rows * steps, self.width), np.int32)
        byte[:, width:] = SPACES[: self.width - width]
        after = np.zeros((rows * steps, self.width), np.int32)
        after[:, width:] = np.arange(1, rows * steps + 1)[:, None]
        self.byte, self.after = byte.reshape(-1), after.reshape(-1)
        self.form = (self.width * np.arange(rows * steps, dtype=np.int32)) << EDGE_SHIFT | self.width
        self.white = np.tile(np.arange(longest, -1, -1, dtype=np.int8), rows)
        self.first = steps * np.arange(rows, dtype=np.int32)


class RunTemplate:
    """Rows with white space before their edges as one shape, laid out in advance and written many times.

    `edges`: for each row the edges (byte, slot); what a slot stands for is said when the rows are made.
    """

    def __init__(self, tables: Tables, longest: int, edges: list[list[tuple[int, int]]]) -> None:
        self._tables = tables
        slots = 1 + max(slot for row in edges for _, slot in row)
        byte: list[int] = []
        value: list[int] = []  # indexes of: 0, the slots, the rows in order
        counts: list[int] = []
        for row in edges:
            for step in range(longest + 1):
                number = len(counts)
                after = 1 + slots + number + 1 if step < longest else 0
                spaces = [(space, after) for space in SPACES] if longest else []
                here = [(each, 1 + slot) for each, slot in row] + spaces
                byte += [each for each, _ in here]
                value += [each for _, each in here]
                counts.append(len(here))
        self.rows = len(counts)
        """How many rows are made: `longest + 1` for each row of `edges`, of which the first is the beginning."""
        self._byte = np.array(byte, np.int32)
        self._value = np.array(value, np.intp)
        count = np.array(counts, np.int32)
        self._form = (np.cumsum(count, dtype=np.int32) - count) << EDGE_SHIFT | count
        self._order = np.arange(self.rows, dtype=np.int32)
        self._white = np.tile(np.arange(longest, -1, -1, dtype=np.int8), len(edges))
        self._vector = np.zeros(1 + slots + self.rows, np.int32)
        self._slots = slots

    def write(self, first: int, values: list[int]) -> None:
        """Makes the sparse rows from `first` on, `rows` of them; `values` are what the slots stand for."""
        tables, slots, vector = self._tables, self._slots, self._vector
        vector[1 : slots + 1] = values
        np.add(self._order, first, out=vector[slots + 1 :])
        offset = tables.add_edges(len(self._byte))
        stop = offset + len(self._byte)
        tables.edge_byte[offset:stop] = self._byte
        vector.take(self._value, out=tables.edge_next[offset:stop], mode="clip")  # mode: else it is buffered
        np.add(self._form, offset << EDGE_SHIFT, out=tables.form[first : first + self.rows, 1])
        tables.white[first : first + self.rows] = self._white


class Spacing:
    """Rows for what stands between tokens of a text, after one whitespace mode."""

    def __init__(self, tables: Tables, whitespace: Whitespace) -> None:
        self.tables = tables
        self.mode = whitespace.mode
        self.indent = whitespace.indent
        self.longest = whitespace.longest if whitespace.mode == "bounded" else 0
        count = self.longest
        self._lead_bytes = np.array(SPACES * count, np.int32)
        self._lead_next = np.repeat(np.arange(1, count + 1, dtype=np.int32), len(SPACES))
        self._lead_form = 4 * np.arange(count, dtype=np.int32) << EDGE_SHIFT | 4
        self._lead_white = np.arange(count - 1, -1, -1, dtype=np.int8)
        self._after: dict[tuple[bool, bool, int], int] = {}
        self._blocks: dict[int, _RunBlock] = {}
        self._begun: dict[tuple[bytes, bool], int] = {}

    # ---- bounded runs

    def lead(self, row: int) -> None:
        """Lets a run of white space come before `row`, which is dense and has no edges for it.

        Each row of the run is the row itself but for where a further space leads. Does nothing in the other modes.
        """
        count = self.longest
        if not count:
            return
        tables = self.tables
        first = tables.sparse(count)
        for byte in SPACES:
            tables.rows[row, byte] = first
        offset = tables.add_edges(4 * count)
        edges = slice(offset, offset + 4 * count)
        tables.edge_byte[edges] = self._lead_bytes
        tables.edge_next[edges] = self._lead_next + first
        tables.edge_next[edges.stop - 4 : edges.stop] = 0
        tables.white[row] = count
        tables.white[first : first + count] = self._lead_white
        form = tables.form[first : first + count]
        form[:, 0] = row + 1
        form[:, 1] = self._lead_form + (offset << EDGE_SHIFT)

    def runs(self, edges: list[tuple[int, int]]) -> int:
        """A row with these edges (byte, value), white space before them as the mode has it between tokens."""
        return int(self.run_block(np.array([edges], np.int32))[0])

    def run_block(self, edges: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Many such rows at once: `edges` [rows, edges a row, 2] of (byte, value); returns the rows' numbers."""
        tables = self.tables
        rows, width = edges.shape[0], edges.shape[1]
        block = self._blocks.get(width)
        if block is None or block.rows < rows:
            block = self._blocks[width] = _RunBlock(self.longest, width, max(rows, _BLOCK_ROWS))
        count = rows * (self.longest + 1)
        first = tables.sparse(count)
        offset = tables.add_edges(count * block.width)
        stop = offset + count * block.width
        shape = (rows, self.longest + 1, block.width)
        tables.edge_byte[offset:stop] = block.byte[: stop - offset]
        np.add(block.after[: stop - offset], first, out=tables.edge_next[offset:stop])
        byte, after = tables.edge_byte[offset:stop].reshape(shape), tables.edge_next[offset:stop].reshape(shape)
        byte[:, :, :width] = edges[:, None, :, 0]
        after[:, :, :width] = edges[:, None, :, 1]
        if self.longest:
            after[:, -1, width:] = 0
        np.add(block.form[:count], offset << EDGE_SHIFT, out=tables.form[first : first + count, 1])
        tables.white[first : first + count] = block.white[:count]
        return block.first[:rows] + first

    # ---- fixed text

    def edge(self, text: bytes, last: int, flag: int = 0, reach: int = -1) -> tuple[int, int]:
        """An edge (byte, value) into a chain of rows that reads `text`; its last byte has the value `last`.

        With a `flag`, entering the chain is checked against `reach`.
        """
        value = last
        for byte in reversed(text[1:]):
            row = self.tables.sparse()
            self.tables.set_sparse(row, 0, [(byte, value)])
            self.tables.reach[row] = reach
            value = row | flag
        return text[0], value

    def line(self, depth: int) -> bytes:
        """A line break and the indentation of a level (pretty mode)."""
        return b"\n" + b" " * (self.indent * depth)

    # ---- arrays

    def after_item(self, may_continue: bool, may_close: bool, depth: int = 0) -> int:
        """The row after an array's item: a comma (label ITEM_NEXT, with the space that the mode puts there), or `]`.

        `depth` is the level of the items (pretty mode only). Raises ValueError if neither may come.
        """
        if not may_continue and not may_close:
            raise ValueError("after an item either a comma or the bracket must be able to come")
        key = (may_continue, may_close, depth if self.mode == "pretty" else 0)
        row = self._after.get(key)
        if row is None:
            row = self._after[key] = self._after_item(may_continue, may_close, depth)
        return row

    def begun(self, start: int, *, objects: bool) -> int:
        """The row after a comma that ends where one of the items that the row `start` reads has begun: with the label
        VALUE_END, or OBJECT_OPEN for `objects` if these are told apart.
        """
        first = self.tables.values(start) != 0
        first[: SPACE + 1] = False
        key = first.tobytes(), objects
        row = self._begun.get(key)
        if row is None:
            row = self._begun[key] = self.tables.dense()
            self.tables.rows[row, first] = -(VALUE_END + 1)
            if objects:
                self.tables.rows[row, ord("{")] = -(OBJECT_OPEN + 1)
            self.lead(row)
        return row

    def _after_item(self, may_continue: bool, may_close: bool, depth: int) -> int:
        comma, close = b",", b"]"
        if self.mode == "spaced":
            comma = b", "
        elif self.mode == "pretty":
            comma += self.line(depth)
            close = self.line(depth - 1) + close
        edges = [self.edge(comma, -(ITEM_NEXT + 1))] if may_continue else []
        if may_close:
            edges.append(self.edge(close, -(ARRAY_CLOSE + 1)))
        return self.runs(edges)
