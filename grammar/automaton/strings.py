"""String bodies: languages over code points as rows of bytes, from after the opening quote to the closing one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..regular.charset import ALL, EMPTY_SET, CharSet
from ..regular.dfa import Dfa
from .charrows import CharRows
from .codes import CHECK_LOW, LAZY, LAZY_REQUESTED
from .products import NONE_ALIVE, Part, ProductState, begin, combined, shortest, tags_of
from .tables import Tables

_TOTAL_SEARCH: Final = 48
_NEAR: Final = 24


def closing_value(label: int) -> int:
    """What the closing quote does where a string may end with `label`."""
    return -(label + 1 | CHECK_LOW)


class StringRows:
    """Rows of strings, shared by all strings that end with the same label."""

    def __init__(self, tables: Tables, chars: CharRows) -> None:
        self.tables = tables
        self.chars = chars
        self._bodies: dict[int, int] = {}
        self._languages: dict[tuple[Dfa, int, bool], DfaRows] = {}

    def body(self, label: int) -> int:
        """The row inside a string that may be any, and ends with `label`."""
        row = self._bodies.get(label)
        if row is None:
            row = self._bodies[label] = self.tables.dense()
            self.chars.write(row, (ALL,), (row,), closing_value(label), total=True)
        return row

    def language(self, dfa: Dfa, label: int, bounded: bool) -> DfaRows:
        """The rows of a language's states, ending with `label`; `bounded`: a frame counts what is still to come."""
        rows = self._languages.get((dfa, label, bounded))
        if rows is None:
            rows = self._languages[dfa, label, bounded] = DfaRows(self, dfa, label, bounded)
        return rows


class DfaRows:
    """One language: a row for each state of its automaton, made as it is first reached."""

    def __init__(self, strings: StringRows, dfa: Dfa, label: int, bounded: bool) -> None:
        self._strings = strings
        self._dfa = dfa
        self._ahead = dfa.shortest if bounded else dfa.near
        self._label = label
        self._rows: dict[int, int] = {}
        self._state_of: dict[int, int] = {}
        self._total: dict[int, bool] = {}

    def row(self, state: int) -> int:
        """The row of a state; those from which every word is accepted are the free body."""
        row = self._rows.get(state)
        if row is None:
            if self._dfa.universal(state):
                row = self._strings.body(self._label)
            else:
                tables = self._strings.tables
                row = tables.lazy(self._build)
                self._state_of[row] = state
                tables.need[row] = self._ahead(state)
            self._rows[state] = row
        return row

    def _build(self, row: int) -> None:
        state = self._state_of[row]
        dfa = self._dfa
        steps = dfa.step(state)
        closing = closing_value(self._label) if dfa.accepting(state) else 0
        targets = tuple([self.row(target) for _, target in steps])
        total = self._is_total(state)
        self._strings.chars.write(row, tuple([chars for chars, _ in steps]), targets, closing, total=total)
        start = self._rows.get(dfa.start if dfa.start is not None else -1, 0)
        _stay_near(self._strings.tables, row, start)

    def _is_total(self, state: int) -> bool:
        """Whether no character is refused in `state` nor in any state after it (searched among a few states)."""
        known = self._total.get(state)
        if known is not None:
            return known
        seen = {state}
        waiting = [state]
        while waiting:
            current = waiting.pop()
            if self._total.get(current) is False or not self._complete(current) or len(seen) > _TOTAL_SEARCH:
                self._total[current] = self._total[state] = False
                return False
            if self._dfa.universal(current) or self._total.get(current):
                continue
            for _, target in self._dfa.step(current):
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        self._total.update(dict.fromkeys(seen, True))
        return True

    def _complete(self, state: int) -> bool:
        found = EMPTY_SET
        for chars, _ in self._dfa.step(state):
            found = found | chars
        return found is ALL


def _stay_near(tables: Tables, row: int, start: int) -> None:
    """Marks a row that differs little from the start's, whose mask is likely known: unanchored search leads there."""
    if row == start or not tables.wide[row] or tables.form[start, 0] in (LAZY, LAZY_REQUESTED):
        return
    if tables.wide[start] == start and (tables.rows[row] != tables.rows[start]).sum() <= _NEAR:
        tables.wide[row] = start


class ProductRows:
    """Several languages at once; the closing quote's label says which of them accept.

    States in which the languages can no longer be told apart are those of one language, or of the free body: an
    ordinary position pays for its alternatives only where they differ.
    """

    def __init__(
        self, strings: StringRows, parts: tuple[Part, ...], label_of: Callable[[int], int], bounded: bool
    ) -> None:
        self._strings = strings
        self._parts = parts
        self._label_of = label_of
        self._bounded = bounded
        self._rows: dict[tuple[int, ProductState], int] = {}
        self._state_of: dict[int, tuple[int, ProductState]] = {}

    def start(self) -> int:
        """The row before the first character."""
        return self.row(0, begin(self._parts))

    def row(self, free: int, state: ProductState) -> int:
        """The row of a state; `free` are the tags of languages that accept whatever comes."""
        parts = self._parts
        universal = [parts[index] for index, current in state if parts[index].dfa.universal(current)]
        for part in universal:
            free |= part.tags
        if universal or free:
            state = tuple([(i, current) for i, current in state if parts[i].tags & ~free])
        row = self._rows.get((free, state))
        if row is None:
            row = self._rows[free, state] = self._new_row(free, state)
        return row

    def _new_row(self, free: int, state: ProductState) -> int:
        strings = self._strings
        if not state:
            return strings.body(self._label_of(free))
        if len(state) == 1 and not free:
            index, current = state[0]
            part = self._parts[index]
            return strings.language(part.dfa, self._label_of(part.tags), self._bounded).row(current)
        row = strings.tables.lazy(self._build)
        self._state_of[row] = (free, state)
        if not free:
            strings.tables.need[row] = shortest(self._parts, state, exact=self._bounded)
        return row

    def _build(self, row: int) -> None:
        strings = self._strings
        free, state = self._state_of[row]
        steps = combined(self._parts, state)
        if free:
            rest = ALL
            for chars, _ in steps:
                rest = rest - chars
            if rest:
                steps.append((rest, NONE_ALIVE))
        targets: dict[int, CharSet] = {}
        for chars, target in steps:
            number = self.row(free, target)
            targets[number] = targets[number] | chars if number in targets else chars
        tags = free | tags_of(self._parts, state)
        closing = closing_value(self._label_of(tags)) if tags else 0
        strings.chars.write(row, tuple(targets.values()), tuple(targets), closing, total=bool(free))
        if free:
            _stay_near(strings.tables, row, strings.body(self._label_of(free)))
