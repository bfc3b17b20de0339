"""White space before a token of JSON: a run of up to k characters, of which a vocabulary has hundreds of spellings.

Rows with a run come in chains: each is the next one but for white space, which leads on, and the last has none
(`Tables.white`). Walking the vocabulary's runs node by node would be most of the work for such a row, and the same work
for each. So such a row is walked over tokens stripped of their white space: those with at most one character of it in
the vocabulary's own stripped trie, those with more in a small trie for each k.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..automaton.memory import view
from ..automaton.tables import Tables
from .rows import NONE, BaseRow, MaskRows, set_bits
from .vocabulary import MAIN, WHITE, Vocabulary, split_white
from .walkcodes import AFTER, BELOW
from .walker import Item


class Run(NamedTuple):
    """A row's place in a chain.

    row     a row that reads what is not white space, the one of the chain that is walked fastest
    length  how many white-space characters may still come
    """

    row: int
    length: int


class Runs:
    """The chains of one arena. Not thread-safe: callers hold the arena's lock."""

    def __init__(self, vocabulary: Vocabulary, tables: Tables, rows: MaskRows) -> None:
        self._mask_rows = rows
        self._form, self._left = view(tables.form), view(tables.white)
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
        """The run that `row`, which is built, begins with, None if there is none."""
        length = self._left[row]
        if not length:
            return None
        base = self._form[2 * row] - 1
        # Fastest is a dense row, where the chain lies over one, else the last.
        return Run(row if base < 0 else base or row + length, length)

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
