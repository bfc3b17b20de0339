"""White space before a token of JSON: a run of up to k characters, of which a vocabulary has hundreds of spellings.

Rows with a run come in chains: each is the next one but for white space, which leads on, and the last has none.
Walking the vocabulary's runs node by node would be most of the work for such a row, and the same work for each. So
such a row is walked over tokens stripped of their white space: those with at most one
character of it in the vocabulary's own stripped trie, those with more in a small trie for each k.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..automaton.codes import DENSE, EDGE_SHIFT, MAX_EDGES, ROW_MASK
from ..automaton.tables import Tables
from .rows import NONE, BaseRow, MaskRows, set_bits
from .vocabulary import MAIN, WHITE, Vocabulary, split_white
from .walkcodes import AFTER, BELOW
from .walker import Item, view

_LONGEST: Final = 100


@dataclass(frozen=True, slots=True)
class Run:
    """A row's place in a chain.

    row     a row that reads what is not white space, the one of the chain that is walked fastest
    length  how many white-space characters may still come
    """

    row: int
    length: int


class Runs:
    """The chains of one arena. Not thread-safe: callers hold the arena's lock."""

    def __init__(self, vocabulary: Vocabulary, tables: Tables, rows: MaskRows) -> None:
        self._tables, self._mask_rows = tables, rows
        self._rows, self._form, self._accept = view(tables.rows), view(tables.form), view(tables.accept)
        self._edge_byte, self._edge_next = view(tables.edge_byte), view(tables.edge_next)
        self._known: dict[int, Run | None] = {}
        self._roots: dict[int, int | None] = {}
        self._bases: dict[int, BaseRow] = {}
        self._vocabulary = vocabulary
        self._several: list[tuple[int, bytes, int]] = []  # white-space characters, the rest, id
        self._white: list[tuple[int, int]] = []  # tokens of nothing else: length, id
        for number, token in enumerate(vocabulary.tokens):
            if token and token[0] in WHITE:
                length, rest = split_white(token)
                if not rest:
                    self._white.append((length, number))
                elif length > 1:
                    self._several.append((length, rest, number))

    def of(self, row: int) -> Run | None:
        """The run that `row` begins with, None if there is none."""
        try:
            return self._known[row]
        except KeyError:
            chain = self._chain(row)
            dense = [member for member in chain if self._form[2 * member] == DENSE]
            for place, member in enumerate(chain):
                run = Run(dense[0] if dense else chain[-1], len(chain) - 1 - place)
                self._known[member] = run if run.length else None
            return self._known.setdefault(row, None)

    def base(self, run: Run) -> BaseRow:
        """The row of the tokens that are white space only, as much of it as the run has."""
        known = self._bases.get(run.length)
        if known is None or known.table_row == NONE:
            known = self._bases[run.length] = BaseRow()
            row = self._mask_rows.table[self._mask_rows.claim(known)]
            row[:] = 0
            set_bits(row, np.array([number for length, number in self._white if length <= run.length], np.int32))
        self._mask_rows.used[known.table_row] = 1
        return known

    def items(self, run: Run, frame: int, count: int) -> list[Item] | None:
        """The walks that, over `base`, make the mask of a row with this run; None if there is no trie for it."""
        items: list[Item] = [(self._vocabulary.stripped, BELOW, frame, run.row, count, 0)]
        if run.length > 1:
            root = self._root(run.length)
            if root is None:
                return None
            items.append((root, BELOW, frame, run.row, count, 0))
        return items

    def items_after(self, row: int, frame: int, before: int, label: int) -> list[Item]:
        """The walks for what may follow a lexeme of the frame `before` that ends with `label`, in `row` and `frame`."""
        run = self.of(row)
        root = None if run is None else self._root(run.length)
        if run is None or root is None:
            return [(MAIN, BELOW, frame, row, 0, 0)]
        # White space alone is what remains nothing of: the tokens of the trie's root, allowed with the label.
        return [(self._vocabulary.stripped, BELOW, frame, run.row, 0, 0), (root, AFTER, before, label, 0, 0)]

    def _root(self, length: int) -> int | None:
        """The root of the trie of tokens with at most `length` white-space characters, but not just one before text."""
        if length not in self._roots:
            fitting = [(rest, number) for spaces, rest, number in self._several if spaces <= length]
            fitting += [(b"", number) for spaces, number in self._white if spaces <= length]
            rests, ids = [rest for rest, _ in fitting], [number for _, number in fitting]
            self._roots[length] = self._vocabulary.tries.get(("after white space", length), rests, ids)
        return self._roots[length]

    def _chain(self, row: int) -> list[int]:
        chain = [row]
        while len(chain) < _LONGEST:
            last = chain[-1]
            if self._accept[last]:
                return []
            following = self._after_white(last)
            if following == 0:
                return chain
            if following < 0 or not self._alike(last, following):
                return []
            chain.append(following)
        return []

    def _after_white(self, row: int) -> int:
        """The row after any white-space character, 0 where none may come, -1 where it matters which."""
        base = self._form[2 * row]
        if base < 0:
            return -1
        values = {self._rows[(base - 1 if base else row) << 8 | byte] for byte in WHITE}
        if base != DENSE:
            replaced = [next_ for byte, next_ in self._edges(row) if byte in WHITE]
            if len(replaced) == len(WHITE):
                values = set(replaced)
            elif replaced:
                return -1
        value = values.pop()
        return value if not values and 0 <= value <= ROW_MASK else -1

    def _alike(self, row: int, following: int) -> bool:
        """Whether two rows differ in nothing but white space."""
        base, under = self._form[2 * row], self._form[2 * following]
        if under <= 0:
            return False
        own = [edge for edge in self._edges(following) if edge[0] not in WHITE]
        if base == DENSE and under - 1 == row:
            return not own
        if base == under:
            return own == [edge for edge in self._edges(row) if edge[0] not in WHITE]
        differs = np.flatnonzero(self._tables.values(row) != self._tables.values(following))
        return set(differs.tolist()) <= set(WHITE)

    def _edges(self, row: int) -> list[tuple[int, int]]:
        packed = self._form[2 * row + 1]
        first = packed >> EDGE_SHIFT
        last = first + (packed & MAX_EDGES)
        return list(zip(self._edge_byte[first:last].tolist(), self._edge_next[first:last].tolist(), strict=True))
