"""Bodies of undeclared keys, the colon behind a key, and rows as the base of a trie of names."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..regular.charset import ALL, CharSet
from ..regular.dfa import Dfa
from .charrows import CharRows, Marks
from .codes import FIRST_LABEL, MAX_LABELS_NARROW, OTHER_KEY, REACH, ROW_MASK
from .keyclasses import KeyClasses, key_classes
from .keyreach import KeyReach
from .tables import Int32s, Tables
from .whitespace import COLON, SPACE, Spacing


class KeyBodies:
    """Rows of undeclared keys, shared by all objects that tell them apart alike."""

    def __init__(self, tables: Tables, chars: CharRows, spacing: Spacing) -> None:
        self.tables = tables
        self.chars = chars
        self.spacing = spacing
        self._free = 0
        self._colons: list[int] | None = None
        self._flagged: dict[tuple[int, int], int] = {}
        self._classes: dict[tuple[tuple[Dfa, ...], bool], KeyClasses] = {}
        self._bodies: dict[tuple[KeyClasses, int], KeyBody] = {}

    def classes(self, patterns: tuple[Dfa, ...], other: bool) -> KeyClasses:
        """The classes of undeclared keys."""
        key = (patterns, other)
        classes = self._classes.get(key)
        if classes is None:
            classes = self._classes[key] = key_classes(patterns, other)
        return classes

    def free(self) -> int:
        """The one row of keys that no name and no pattern claims."""
        if not self._free:
            tables = self.tables
            colon = int(self.colons([FIRST_LABEL], [OTHER_KEY])[0])
            row = self._free = tables.dense()
            tables.reach[row] = OTHER_KEY
            marks = Marks(0, 0, lambda _: OTHER_KEY)
            self.chars.write(row, (ALL,), (row,), colon, marks)
            tables.wide[row] = row
        return self._free

    def body(self, classes: KeyClasses, reach: KeyReach) -> KeyBody:
        """The rows of the classes, with reach sets in the form that `reach` has."""
        key = (classes, reach.words)
        body = self._bodies.get(key)
        if body is None:
            body = self._bodies[key] = KeyBody(self, classes, reach)
        return body

    def flagged(self, row: int, flag: int) -> int:
        """A dense row like `row` that checks the reach of wherever it leads: for those who come from among names.

        `flag` is REACH or REACH_WIDE; the free body, whose reach is the same in both forms, is checked with REACH.
        """
        known = self._flagged.get((row, flag))
        if known is None:
            tables = self.tables
            values = tables.values(row)
            forward = values > 0
            known = tables.dense()
            targets = values[forward] & ROW_MASK
            flags = np.where(tables.reach[targets] == OTHER_KEY, REACH, flag)
            tables.rows[known, forward] = targets | flags
            tables.reach[known], tables.wide[known] = tables.reach[row], tables.wide[row]
            self._flagged[row, flag] = known
        return known

    def closing(self, labels: Sequence[int], reach: KeyReach) -> list[int]:
        """The values of the quotes that end names; `labels` are theirs, less FIRST_LABEL."""
        if not reach.words:  # a reach of one word means the same in every lexeme, so the rows are the same, too
            if self._colons is None:
                narrow = range(MAX_LABELS_NARROW)
                rows = self.colons([FIRST_LABEL + i for i in narrow], [1 << i for i in narrow])
                self._colons = [int(row) | REACH for row in rows]
            colons = self._colons
            return [colons[label] for label in labels]
        rows = self.colons([FIRST_LABEL + label for label in labels], reach.singles(labels))
        values: list[int] = (rows | reach.flag).tolist()
        return values

    def colons(self, labels: Sequence[int], reaches: Sequence[int]) -> Int32s:
        """Rows between a key's closing quote and its label: white space, the colon, the space of the spaced modes."""
        spacing, tables = self.spacing, self.tables
        edges = np.empty((len(labels), 1, 2), np.int32)
        edges[:, 0, 0] = COLON
        edges[:, 0, 1] = -1 - np.array(labels, np.int32)
        if spacing.mode in ("spaced", "pretty"):
            edges[:, 0, 0] = SPACE
            edges[:, 0, 1] = spacing.run_block(edges)
            edges[:, 0, 0] = COLON
        rows = spacing.run_block(edges)
        tables.reach[rows] = np.array(reaches, np.int64)
        return rows


class KeyBody:
    """Undeclared keys of several classes: a row for each state of their automaton."""

    def __init__(self, bodies: KeyBodies, classes: KeyClasses, reach: KeyReach) -> None:
        self._bodies = bodies
        self._classes = classes
        self._reach = reach
        self._rows: dict[int, int] = {}
        self._state_of: dict[int, int] = {}
        labels = range(len(classes.signatures))
        self._colons = bodies.colons([FIRST_LABEL + i for i in labels], [reach.value(1 << i) for i in labels])

    def row(self, state: int) -> int:
        """The row of a state."""
        row = self._rows.get(state)
        if row is None:
            if state == self._classes.nothing and not self._reach.words:
                row = self._bodies.free()
            else:
                tables = self._bodies.tables
                row = tables.lazy(self._build)
                tables.reach[row] = self._reach.value(self._classes.live(state))
                tables.need[row] = self._classes.ahead(state)  # no byte checks it: it leads who looks for an end
                self._state_of[row] = state
            self._rows[state] = row
        return row

    def _build(self, row: int) -> None:
        state = self._state_of[row]
        classes, reach = self._classes, self._reach
        targets: dict[int, CharSet] = {}
        for chars, target in classes.steps(state):
            number = self.row(target)
            targets[number] = targets[number] | chars if number in targets else chars
        live = classes.live(state)
        # where only one class can still come it was checked on the way here: no flags, and a mask for all frames
        alone = live & (live - 1) == 0
        keep = alone or not reach.words  # else which classes a frame allows is not plain to see
        flag = 0 if alone else reach.flag
        ending = classes.ending(state)
        closing = 0 if ending is None else int(self._colons[ending]) | flag
        marks = Marks(flag, flag, reach.union)
        self._bodies.chars.write(row, tuple(targets.values()), tuple(targets), closing, marks, keep=keep)
