"""A state of a string automaton as a row: classes of code points with target rows in, bytes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from ..frozen import frozen
from ..regular.charset import CharSet
from .blocks import Block, Layout, layout
from .codes import COUNT, EDGE_SHIFT, HIGH_BYTES, NEED, STRING_LOOPS
from .specs import Spelling
from .spelling import QUOTE
from .tables import Int32s, Tables

_SPARSE_UP_TO: Final = 12
_WIDE_FROM: Final = 30


@frozen
class Marks:
    """What the rows of an automaton check: `first` on the byte that begins a character, `inside` on the others.

    Strings count characters; keys check which labels can still come, and `union` is the reach of a row that leads to
    any of several rows.
    """

    first: int = COUNT
    inside: int = 0
    union: Callable[[Sequence[int]], int] | None = None


COUNTED: Final = Marks()
PLAIN: Final = Marks(first=0)


class CharRows:
    """Makes rows of states. The rows inside characters are shared by all states with the same targets."""

    def __init__(self, tables: Tables, spelling: Spelling) -> None:
        self.tables = tables
        self.spelling: Spelling = spelling
        self._made: dict[tuple[Block, tuple[int, ...], int], Int32s] = {}
        self._postponed: dict[tuple[Block, tuple[int, ...], int, int], int] = {}

    def write(
        self,
        row: int,
        partition: tuple[CharSet, ...],
        targets: tuple[int, ...],
        closing: int,
        marks: Marks = COUNTED,
        *,
        total: bool = False,
        keep: bool = True,
    ) -> None:
        """Fills `row`: a character of class `partition[i]` leads to `targets[i]`, the quote has the value `closing`.

        `total`: no character is refused from here on, so that whole tokens of string characters may be skipped over.
        `keep`: the row's mask is worth keeping where it is wide (not if each frame filters it differently).
        """
        shape = layout(partition, self.spelling)
        entries = self._entries(shape, targets, marks)
        flag = marks.first
        values = np.array([0, *[t | flag for t in targets], *[e | flag for e in entries]], np.int32)
        tables = self.tables
        if len(shape.bytes) <= _SPARSE_UP_TO:
            edges = list(zip(shape.bytes.tolist(), values[shape.root[shape.bytes]].tolist(), strict=True))
            if closing:
                edges.append((QUOTE, closing))
            tables.set_sparse(row, 0, edges)
        else:
            own = tables.rows[row]
            own[:] = values[shape.root]
            own[QUOTE] = closing
            if keep and len(shape.bytes) >= _WIDE_FROM:
                tables.wide[row] = row
        self._record_loops(row, shape, targets, entries, marks, total)

    def _record_loops(
        self, row: int, shape: Layout, targets: tuple[int, ...], entries: list[int], marks: Marks, total: bool
    ) -> None:
        looping = STRING_LOOPS if total else 0
        for classes, target in zip(shape.loops, targets, strict=True):
            if target == row:
                looping |= classes
        if not looping:
            return
        tables = self.tables
        tables.set_loops(row, looping, counted=bool(marks.first & COUNT))
        if not looping >> HIGH_BYTES & 1:
            return
        for (group, node), entry in zip(shape.entries, entries, strict=True):
            part = shape.groups[group]
            if part.lazily and total and node in part.block.utf8:
                tables.loops[entry] = tables.loops[row]
        for part in shape.groups:
            if not part.lazily and (total or targets[part.classes[0]] == row) and len(part.block.utf8):
                inner = self.block(part.block, tuple([targets[c] for c in part.classes]), marks)
                tables.loops[inner[part.block.utf8]] = tables.loops[row]

    def _entries(self, shape: Layout, targets: tuple[int, ...], marks: Marks) -> list[int]:
        """The rows after the first byte of characters that have several."""
        made: list[Int32s | None] = []
        for group in shape.groups:
            own = tuple([targets[c] for c in group.classes])
            made.append(None if group.lazily else self.block(group.block, own, marks))
        rows = []
        for number, node in shape.entries:
            block_rows = made[number]
            if block_rows is None:
                group = shape.groups[number]
                rows.append(self._later(group.block, node, tuple([targets[c] for c in group.classes]), marks))
            else:
                rows.append(int(block_rows[node]))
        return rows

    def _later(self, block: Block, node: int, targets: tuple[int, ...], marks: Marks) -> int:
        """A lazy row for one node of a block that is made when the row is needed."""
        key = (block, targets, marks.inside, node)
        row = self._postponed.get(key)
        if row is None:
            tables = self.tables

            def build(row: int) -> None:
                made = self.block(block, targets, marks)
                source = int(made[node])
                base, edges = tables.form[source].tolist()
                if tables.loops[row, 1]:
                    tables.loops[made[block.utf8]] = tables.loops[row]
                tables.form[row, 1] = edges if base else 0
                tables.form[row, 0] = base if base else source + 1

            row = self._postponed[key] = tables.lazy(build, light=True)
            used = [targets[c] for c in block.node_classes[node]]
            tables.need[row] = min(tables.need[t] for t in used)
            if marks.union is not None:
                tables.reach[row] = marks.union(used)
        return row

    def block(self, block: Block, targets: tuple[int, ...], marks: Marks = COUNTED) -> Int32s:
        """The rows of a block's nodes, in the block's order."""
        key = (block, targets, marks.inside)
        made = self._made.get(key)
        if made is None:
            made = self._made[key] = self._make(block, targets, marks)
        return made

    def _make(self, block: Block, targets: tuple[int, ...], marks: Marks) -> Int32s:
        tables = self.tables
        dense = len(block.dense)
        first, light = tables.dense(dense), tables.sparse(block.nodes - dense)
        rows = block.order + (light - dense)
        rows[:dense] = block.order[:dense] + first
        values = np.concatenate([(0, *targets), rows], dtype=np.int32)
        if marks.inside:
            values[1:] |= marks.inside
        np.take(values, block.dense, out=tables.rows[first : first + dense], mode="clip")
        offset = tables.add_edges(len(block.edge_byte))
        edges = slice(offset, offset + len(block.edge_byte))
        tables.edge_byte[edges] = block.edge_byte
        np.take(values, block.edge_value, out=tables.edge_next[edges], mode="clip")
        form = tables.form[light : light + block.nodes - dense]
        form[:] = block.forms
        form[:, 1] += offset << EDGE_SHIFT
        needs = self._annotate(rows, block, targets, marks)
        if needs is not None:
            self._check_needs(block, targets, needs, first, edges)
        return rows

    def _check_needs(self, block: Block, targets: tuple[int, ...], needs: Int32s, first: int, edges: slice) -> None:
        """Where a byte decides between targets of different need, what the first byte allowed is checked again."""
        tables = self.tables
        dense = len(block.dense)
        wants = np.concatenate([np.zeros(1, np.int32), tables.need[list(targets)], needs])
        for i in range(dense):
            own = tables.rows[first + i]
            own[wants[block.dense[i]] > needs[i]] |= NEED
        tables.edge_next[edges][wants[block.edge_value] > np.repeat(needs[dense:], block.counts)] |= NEED

    def _annotate(self, rows: Int32s, block: Block, targets: tuple[int, ...], marks: Marks) -> Int32s | None:
        """Sets need and reach of rows inside characters; returns the needs if they are not all the same."""
        tables = self.tables
        wants = [tables.need.item(target) for target in targets]
        if marks.union is not None:
            for row, used in zip(rows.tolist(), block.node_classes, strict=True):
                tables.reach[row] = marks.union([targets[c] for c in used])
                tables.need[row] = min([wants[c] for c in used])
            return None
        if not any(wants):
            return None
        if min(wants) == max(wants):
            tables.need[rows] = wants[0]
            return None
        needs = np.array([min([wants[c] for c in used]) for used in block.node_classes], np.int32)
        tables.need[rows] = needs
        return needs
