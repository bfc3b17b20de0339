"""Numbers, `true`, `false` and `null`: ASCII lexemes outside strings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..regular.dfa import Dfa
from .products import Part, ProductState, begin, combined, shortest, tags_of
from .tables import Tables

KEYWORDS: Final = ("true", "false", "null")

STATE_BYTES: Final = 900
"""What a state of a number's automaton takes beside its row, roughly."""


class NumberTable:
    """Rows of number texts. Those of one automaton are shared by all positions that give it the same label."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self._single: dict[tuple[Dfa, int], NumberRows] = {}

    def single(self, dfa: Dfa, label: int) -> NumberRows:
        """The rows of one automaton."""
        rows = self._single.get((dfa, label))
        if rows is None:
            rows = self._single[dfa, label] = NumberRows(self, (Part(dfa, 1),), lambda _: label)
        return rows

    def start(self, parts: tuple[Part, ...], label_of: Callable[[int], int]) -> int:
        """The row before a number's first byte."""
        if len(parts) == 1:
            return self.single(parts[0].dfa, label_of(parts[0].tags)).row(begin(parts))
        return NumberRows(self, parts, label_of).row(begin(parts))


class NumberRows:
    """Automata of number texts in lockstep. A number ends where no byte goes on: its label is on the row (`accept`).

    `label_of` gives the label of a set of alternatives.
    """

    def __init__(self, numbers: NumberTable, parts: tuple[Part, ...], label_of: Callable[[int], int]) -> None:
        self._numbers = numbers
        self._parts = parts
        self._label_of = label_of
        self._rows: dict[ProductState, int] = {}
        self._state_of: dict[int, ProductState] = {}

    def row(self, state: ProductState) -> int:
        """The row of a state."""
        row = self._rows.get(state)
        if row is None:
            row = self._rows[state] = self._new_row(state)
        return row

    def _new_row(self, state: ProductState) -> int:
        if len(state) == 1 and len(self._parts) > 1:
            index, own = state[0]
            part = self._parts[index]
            return self._numbers.single(part.dfa, self._label_of(part.tags)).row(((0, own),))
        tables = self._numbers.tables
        row = tables.lazy(self._build, light=True)
        # Before the last digit, as others say it before a quote: it leads who looks for an end.
        tables.need[row] = max(shortest(self._parts, state, exact=False) - 1, 0)
        self._state_of[row] = state
        tables.outside += STATE_BYTES
        return row

    def _build(self, row: int) -> None:
        state = self._state_of[row]
        edges = []
        for chars, target in combined(self._parts, state):
            value = self.row(target)
            edges += [(byte, value) for first, last in chars.ranges() for byte in range(first, last + 1)]
        tables = self._numbers.tables
        tags = tags_of(self._parts, state)
        if tags:
            tables.accept[row] = self._label_of(tags) + 1
        tables.set_sparse(row, 0, edges)


def keyword_edges(tables: Tables, words: list[tuple[str, int]]) -> list[tuple[int, int]]:
    """Edges into rows that read literals; each ends, with its label, at its last byte. No literal begins another."""
    edges: dict[int, int] = {}
    branches: dict[str, list[tuple[str, int]]] = {}
    for word, label in words:
        branches.setdefault(word[0], []).append((word[1:], label))
    for first, rest in branches.items():
        if len(rest) == 1 and not rest[0][0]:
            edges[ord(first)] = -(rest[0][1] + 1)
        else:
            row = tables.sparse()
            tables.set_sparse(row, 0, keyword_edges(tables, rest))
            edges[ord(first)] = row
    return list(edges.items())
