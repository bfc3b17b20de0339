"""Finite sets of words as rows: enums, and the declared names among keys, with everything else left to a base.

A trie differs from its base (the free string, the body of undeclared keys, nothing) in a few bytes a row, so its rows
are sparse ones over the base's. Plain characters are laid out in bulk: a row and an edge each, whatever the number
of words. Characters with several spellings (`\\u00e9`, in `any` spelling every one) get the rows between their bytes
when a text first goes there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..frozen import frozen
from .charrows import COUNTED, Marks
from .codes import EDGE_SHIFT, ROW_MASK
from .specs import Spelling
from .spelling import BACKSLASH, QUOTE, SHORT_ESCAPES, escapable
from .tables import Int32s, Tables
from .trieshape import TrieShape, trie_shape
from .turns import Breath

_SPARSE_UP_TO: Final = 12
_MANY_WORDS: Final = 64
_HEX_CASES: Final = {ord(c): (ord(c), ord(c.upper())) for c in "abcdef"}

Tree = dict[int, Any]
"""Bytes to a further tree, or to the node of the trie where the character ends."""


@frozen
class Base:
    """What a text does that leaves the trie: `row` in each of its nodes (0: it ends there), or one row for each node.

    `wide` is the row, or one for each node, whose masks those of the nodes build on.
    `inside(row, byte)` gives the base's row after a byte of a character, in the form that the trie's rows build on.
    """

    row: int = 0
    wide: int | Int32s = 0
    rows: Int32s | None = None
    inside: Callable[[int, int], int] | None = None

    def of(self, node: int) -> int:
        return self.row if self.rows is None else int(self.rows[node])


class WordRows:
    """The rows of a trie. `words` are sorted and distinct; the quote after `words[i]` has the value `closing[i]`.

    `reach` gives the reach of each node of `shape`, where keys are filtered. Making them lends the lock now and then:
    there may be hundreds of thousands of words.
    """

    def __init__(
        self,
        tables: Tables,
        spelling: Spelling,
        words: Sequence[str],
        closing: Sequence[int],
        base: Base | None = None,
        marks: Marks = COUNTED,
        shape: TrieShape | None = None,
        reach: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self.tables = tables
        self.spelling: Spelling = spelling
        breath = Breath(tables.pauses)
        self.shape = shape if shape is not None else trie_shape(words, breath)
        self.base = base if base is not None else Base()
        self.marks = marks
        self._closing = dict(zip(self.shape.ends, closing, strict=True))
        self._special: list[tuple[int, int]] = []
        self._first_special = 0
        self.first = tables.sparse(self.shape.size)
        own = slice(self.first, self.first + self.shape.size)
        tables.wide[own] = self.base.wide
        if reach is not None:
            tables.reach[own] = reach
        if base is None and len(words) > _MANY_WORDS:
            tables.need[own] = self.shape.ahead()  # it leads who looks for the nearest end
        if self.shape.plain and self.base.rows is None and spelling == "natural":
            self._lay_out_plain(breath)
        else:
            self._lay_out(breath)
        self.root = self._root()
        """The row before the first character; `node_row(0)`, unless that has many edges and is better dense."""

    def node_row(self, node: int) -> int:
        """The row of a node; node 0 is the row before the first character."""
        return self.first + node

    def _lay_out_plain(self, breath: Breath) -> None:
        """`_lay_out` where every character has one spelling, of one byte: nearly always, and in a third of the time."""
        shape, tables, first, flag = self.shape, self.tables, self.first, self.marks.first
        size = shape.size
        offset = tables.add_edges(size)
        stop = offset + size
        tables.edge_byte[offset : stop - 1] = shape.char[1:]
        numbers = np.arange(size, dtype=np.int32)
        np.add(numbers, first + 1 | flag, out=tables.edge_next[offset:stop])
        form = tables.form[first : first + size]
        form[:, 0] = self.base.row + 1
        np.add(numbers << EDGE_SHIFT, offset << EDGE_SHIFT | 1, out=form[:, 1])
        branches, closings = shape.branches, self._closing
        for node, closing in closings.items():
            if node not in branches:
                tables.put_edge(offset + node, QUOTE, closing)
        for node, children in branches.items():
            breath()
            ends = node in closings
            if node and not ends:
                children = [node + 1, *children]
            pairs = [(int(shape.char[child]), first + child | flag) for child in children]
            if ends:
                pairs.append((QUOTE, closings[node]))
            over(tables, first + node, self.base.row, pairs)

    def _lay_out(self, breath: Breath) -> None:
        shape, tables = self.shape, self.tables
        size = shape.size
        has_next = shape.has_next()
        following = np.empty(size, np.int32)
        following[:-1] = shape.char[1:]
        following[-1] = 0
        plain = (following >= 0x20) & (following < 0x7F) & (following != QUOTE) & (following != BACKSLASH)
        simple = has_next & plain
        ends = np.array(shape.ends, np.intp)
        simple[ends] = False
        simple[list(shape.branches)] = False
        lone = np.zeros(size, np.bool_)
        lone[ends] = True
        lone[[node for node in shape.branches if lone[node]]] = False
        in_bulk = simple | lone
        if self.base.rows is not None:
            in_bulk[:] = False
        spelled = np.flatnonzero(simple & in_bulk) if self.spelling == "any" else np.empty(0, np.intp)
        self._special = [(node, BACKSLASH) for node in spelled.tolist()]
        # one edge for each simple node and each end, beside that of an escape; the complex nodes get theirs below
        width = 2 if len(spelled) else 1
        offset = tables.add_edges(size * width)
        edges = slice(offset, offset + size * width, width)
        tables.edge_byte[edges] = np.where(lone, QUOTE, following)
        after = np.arange(self.first + 1, self.first + size + 1, dtype=np.int32) | self.marks.first
        after[ends] = [self._closing[node] for node in shape.ends]
        tables.edge_next[edges] = after
        form = tables.form[self.first : self.first + size]
        form[:, 0] = self.base.row + 1
        form[:, 1] = (np.arange(offset, offset + size * width, width) << EDGE_SHIFT) | 1
        plans = []
        for node in np.flatnonzero(~in_bulk).tolist():
            breath()
            plans.append((node, *self._edges(node)))
        if not self._special:
            first = 0
        else:
            self._first_special = first = tables.lazy_block(len(self._special), self._build_special)
        if len(spelled):
            form[spelled, 1] += 1
            tables.edge_byte[offset + 2 * spelled + 1] = BACKSLASH
            number = np.arange(first, first + len(spelled), dtype=np.int32)
            tables.edge_next[offset + 2 * spelled + 1] = number | self.marks.first
            # what may follow an escape here may follow the character it stands for
            tables.reach[number] = tables.reach[self.first + spelled + 1]
        for at in range(len(spelled), len(self._special)):
            self._annotate(first + at, *self._special[at])
        for node, pairs, specials in plans:
            breath()
            flagged = [(byte, first + at | self.marks.first) for byte, at in specials]
            over(tables, self.node_row(node), self.base.of(node), pairs + flagged)

    def _children(self, node: int) -> list[int]:
        branches = self.shape.branches.get(node, [])
        return [node + 1, *branches] if node and node not in self._closing else branches

    def _edges(self, node: int) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Edges of whole characters, and (byte, number of special) where a character of several bytes may begin."""
        pairs: list[tuple[int, int]] = []
        begins: dict[int, int] = {}
        for child in self._children(node):
            point = int(self.shape.char[child])
            if 0x20 <= point < 0x80 and point not in (QUOTE, BACKSLASH):
                pairs.append((point, self.node_row(child) | self.marks.first))
            elif point >= 0x80:
                begins.setdefault(chr(point).encode()[0], 0)
            if point in SHORT_ESCAPES or escapable(point, self.spelling):
                begins.setdefault(BACKSLASH, 0)
        if node in self._closing:
            pairs.append((QUOTE, self._closing[node]))
        specials = []
        for byte in begins:
            specials.append((byte, len(self._special)))
            self._special.append((node, byte))
        return pairs, specials

    def _annotate(self, row: int, node: int, byte: int) -> None:
        """Sets the reach of a row that is made later: of all characters that it may be the beginning of."""
        union = self.marks.union
        if union is None:
            return
        rows = [self.node_row(child) for child in self._children(node) if self._begins(child, byte)]
        base = self._inside(self.base.of(node), byte)
        self.tables.reach[row] = union([*rows, base] if base else rows)

    def _begins(self, child: int, byte: int) -> bool:
        return any(text[0] == byte for text in spellings(int(self.shape.char[child]), self.spelling))

    def _inside(self, base: int, byte: int) -> int:
        if not base:
            return 0
        if self.base.inside is not None:
            return self.base.inside(base, byte)
        value = self.tables.value(base, byte)
        return value & ROW_MASK if value > 0 else 0

    def _build_special(self, row: int) -> None:
        node, byte = self._special[row - self._first_special]
        tree: Tree = {}
        for child in self._children(node):
            for text in spellings(int(self.shape.char[child]), self.spelling):
                if text[0] == byte:
                    grow(tree, text[1:], child)
        self._make(row, tree, self._inside(self.base.of(node), byte), {})

    def _make(self, row: int, tree: Tree, base: int, made: dict[tuple[int, int], int]) -> None:
        tables = self.tables
        edges = []
        for byte, below in tree.items():
            if isinstance(below, int):
                target = self.node_row(below)
            else:
                after = self._inside(base, byte)
                key = (id(below), after)
                target = made.get(key, 0)
                if not target:
                    target = made[key] = tables.sparse()
                    self._make(target, below, after, made)
            edges.append((byte, target | self.marks.inside))
        over(tables, row, base, edges)
        tables.wide[row] = tables.wide[base]
        if self.marks.union is not None:
            rows = [value & ROW_MASK for _, value in edges]
            tables.reach[row] = self.marks.union([*rows, base] if base else rows)

    def _root(self) -> int:
        """The root's row, dense if it has many edges: most walks begin there."""
        tables = self.tables
        row = self.node_row(0)
        base, edges = tables.form[row].tolist()
        if base and edges & (1 << EDGE_SHIFT) - 1 == 0 and base - 1 != self.base.of(0):
            tables.wide[base - 1] = tables.wide[row]
            tables.reach[base - 1] = tables.reach[row]
            return int(base - 1)
        return row


def spellings(point: int, spelling: Spelling) -> list[bytes]:
    """The ways to write a code point inside a string, hexadecimal digits in lower case."""
    texts = []
    if point >= 0x20 and point not in (QUOTE, BACKSLASH):
        texts.append(chr(point).encode())
    if point in SHORT_ESCAPES:
        texts.append(bytes((BACKSLASH, SHORT_ESCAPES[point])))
    if point == 0x2F and spelling == "any":
        texts.append(b"\\/")
    if escapable(point, spelling):
        units = [point] if point < 0x10000 else [0xD7C0 + (point >> 10), 0xDC00 + (point & 0x3FF)]
        texts.append(b"".join(b"\\u%04x" % unit for unit in units))
    return texts


def grow(tree: Tree, text: bytes, end: int) -> None:
    """Adds a spelling to a tree; hexadecimal digits after `u` in either case lead to the same place."""
    digits = 0
    for index, byte in enumerate(text):
        last = index == len(text) - 1
        cases = _HEX_CASES.get(byte, (byte,)) if digits else (byte,)
        digits = 4 if byte == 0x75 and not digits else max(digits - 1, 0)
        below: Any = end if last else tree.get(byte)
        if below is None:
            below = {}
        for case in cases:
            tree[case] = below
        tree = below


def over(tables: Tables, row: int, base: int, edges: list[tuple[int, int]]) -> None:
    """Makes `row`, of sparse form, the row `base` (of any form) with the values of `edges` put over it."""
    if base:
        tables.build_row(base)
        below, packed = tables.form[base].tolist()
        if below:
            offset, count = packed >> EDGE_SHIFT, packed & (1 << EDGE_SHIFT) - 1
            own = zip(tables.edge_byte[offset : offset + count], tables.edge_next[offset : offset + count], strict=True)
            edges = list({**{int(b): int(v) for b, v in own}, **dict(edges)}.items())
            base = below - 1
    if len(edges) > _SPARSE_UP_TO:
        full = tables.dense()
        values: npt.NDArray[np.int32] = tables.rows[full]
        if base:
            values[:] = tables.rows[base]
        values[[byte for byte, _ in edges]] = [value for _, value in edges]
        base, edges = full, []
    tables.set_sparse(row, base, edges)
