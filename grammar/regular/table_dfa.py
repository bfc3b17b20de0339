"""Automata that are known whole: a table of states and classes of characters, and how it is made from any other.

`minimal` walks an automaton to its end and joins the states that no text tells apart, so that what was slow to build
is a few arrays that can be kept in a file. `TableDfa` is the automaton that such arrays are.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..frozen import frozen
from .charset import CharSet
from .dfa import INFINITE, Dfa, Step, lazy

Int32s = npt.NDArray[np.int32]
DEAD = -1
_NOWHERE = -(1 << 30)
_MAX_STATES = 100_000


@frozen(eq=False)
class Table:
    """A minimal automaton; states are numbered in the order in which a walk in breadth from the start, 0, meets them.

    ranges     int32 [ranges, 3]: first and last code point and class; those in none are refused everywhere
    moves      int32 [states, classes]: the next state, or `DEAD`
    accepting  bool [states]
    shortest   int32 [states]: the least number of code points to acceptance
    longest    int32 [states]: the largest, or INFINITE
    countable  whether each state accepts words of every length from its shortest up
    """

    ranges: Int32s
    moves: Int32s
    accepting: npt.NDArray[np.bool_]
    shortest: Int32s
    longest: Int32s
    countable: bool

    def packed(self) -> Int32s:
        """All arrays as one, for a file. Moves are told as distances, by class: so they repeat, and pack well."""
        own = np.arange(len(self.moves))[:, None]
        jumps = np.where(self.moves == DEAD, _NOWHERE, self.moves - own).T
        parts = (self.ranges, jumps, self.accepting, self.shortest, self.longest)
        head = (len(self.ranges), *self.moves.shape, self.countable)
        return np.concatenate([head, *(part.reshape(-1) for part in parts)], dtype=np.int32, casting="unsafe")

    @staticmethod
    def unpacked(packed: Int32s) -> Table:
        """The table that gave `packed`."""
        ranges, states, classes, countable = packed[:4].tolist()
        ends = np.cumsum([4, 3 * ranges, classes * states, states, states, states])
        parts = [packed[start:end] for start, end in pairwise(ends.tolist())]
        jumps = parts[1].reshape(classes, states)
        moves = np.where(jumps == _NOWHERE, DEAD, jumps + np.arange(states, dtype=np.int32)).T
        return Table(parts[0].reshape(-1, 3), moves, parts[2] != 0, parts[3], parts[4], bool(countable))


class TableDfa(Dfa):
    """The automaton of a table."""

    def __init__(self, key: Hashable, name: str, table: Table) -> None:
        self.key = key
        self.name = name
        self._table = table
        self._steps: dict[int, Step] = {}
        self._accepting: list[bool] = table.accepting.tolist()
        self._shortest: list[int] = table.shortest.tolist()
        self._longest: list[int] = table.longest.tolist()

    @property
    def start(self) -> int:
        return 0

    @lazy
    def _classes(self) -> list[CharSet]:
        classes: list[list[tuple[int, int]]] = [[] for _ in range(self._table.moves.shape[1])]
        for first, last, number in self._table.ranges.tolist():
            classes[number].append((first, last))
        return [CharSet.of(*ranges) for ranges in classes]

    def step(self, state: int) -> Step:
        found = self._steps.get(state)
        if found is None:
            merged: dict[int, CharSet] = {}
            for chars, target in zip(self._classes, self._table.moves[state].tolist(), strict=True):
                if target != DEAD:
                    merged[target] = merged[target] | chars if target in merged else chars
            found = self._steps[state] = tuple((chars, target) for target, chars in merged.items())
        return found

    def accepting(self, state: int) -> bool:
        return self._accepting[state]

    def shortest(self, state: int) -> int:
        return self._shortest[state]

    def longest(self, state: int) -> int:
        return self._longest[state]

    @lazy
    def alphabet(self) -> CharSet:
        return CharSet.of(*((first, last) for first, last, _ in self._table.ranges.tolist()))

    @property
    def countable(self) -> bool:
        return self._table.countable


def minimal(dfa: Dfa) -> Table:
    """The table of an automaton with at least one word. Raises ValueError if it is too large to be walked to its end.

    Partition refinement (Moore 1956): states are told apart by what they accept, then by the states their moves lead
    to, until nothing changes; characters likewise, by where they lead.
    """
    steps, accepting = _walked(dfa)
    starts, block_of, holds = _blocks(list(dict.fromkeys(chars for step in steps for chars, _ in step)))
    moves = np.full((len(steps) + 1, int(block_of.max()) + 1), len(steps))  # the last state is dead
    for state, step in enumerate(steps):
        for chars, target in step:
            moves[state, holds[chars]] = target
    final = np.array([*accepting, False])
    group_of = _groups(moves, final)
    _, members = np.unique(group_of, return_index=True)
    moves, final, dead = group_of[moves[members]], final[members], int(group_of[-1])
    # Columns in the order of their first characters, states in that of the walk: equal automata have equal tables.
    column_of: dict[bytes, int] = {}
    class_of = []
    for block in range(moves.shape[1]):
        column = np.ascontiguousarray(moves[:, block])
        class_of.append(column_of.setdefault(column.tobytes(), len(column_of)) if (column != dead).any() else DEAD)
    moves = moves[:, [class_of.index(number) for number in range(len(column_of))]]
    order = _breadth_first(moves, int(group_of[0]), dead)
    number = np.full(len(moves), DEAD)
    number[order] = np.arange(len(order))
    moves, final = number[moves[order]], final[order]
    ranges: list[list[int]] = []
    for first, after, block in zip(starts.tolist(), starts[1:].tolist(), block_of.tolist(), strict=False):
        found = class_of[block] if block >= 0 else DEAD
        if ranges and ranges[-1][1:] == [first - 1, found]:
            ranges[-1][1] = after - 1
        elif found != DEAD:
            ranges.append([first, after - 1, found])
    shortest = _shortest(moves, final)
    return Table(
        np.array(ranges, np.int32), moves.astype(np.int32), final, shortest, _longest(moves),
        _countable(moves, final, shortest),
    )  # fmt: skip


def _walked(dfa: Dfa) -> tuple[list[list[tuple[CharSet, int]]], list[bool]]:
    """Moves and acceptance of all states, numbered as they are met."""
    if dfa.start is None:
        raise ValueError("the empty language has no table")
    numbers = {dfa.start: 0}
    states = [dfa.start]
    steps = []
    for state in states:
        step = []
        for chars, target in dfa.step(state):
            if target not in numbers:
                numbers[target] = len(states)
                states.append(target)
            step.append((chars, numbers[target]))
        steps.append(step)
        if len(states) > _MAX_STATES:
            raise ValueError(f"{dfa.name} has more than {_MAX_STATES} states")
    return steps, [dfa.accepting(state) for state in states]


def _blocks(sets: list[CharSet]) -> tuple[Int32s, Int32s, dict[CharSet, Int32s]]:
    """The coarsest blocks of which each set is a union, in the order of their first characters.

    Returns where ranges start, the last start past the end; the block of each range (-1: of none); the blocks of sets.
    """
    cuts = {0} | {cut for chars in sets for first, last in chars.ranges() for cut in (first, last + 1)}
    starts = np.array(sorted(cuts), np.int32)
    member = np.zeros((len(starts) - 1, len(sets)), bool)
    for column, chars in enumerate(sets):
        for first, last in chars.ranges():
            member[np.searchsorted(starts, first) : np.searchsorted(starts, last + 1), column] = True
    blocks: dict[bytes, int] = {}
    block_of = [blocks.setdefault(row.tobytes(), len(blocks)) if row.any() else -1 for row in member]
    kept = np.array([np.frombuffer(row, bool) for row in blocks])
    holds = {chars: np.flatnonzero(kept[:, column]).astype(np.int32) for column, chars in enumerate(sets)}
    return starts, np.array(block_of, np.int32), holds


def _groups(moves: npt.NDArray[np.int64], accepting: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """The group of each state; states of one group accept the same words."""
    group_of = accepting.astype(np.int64)
    while True:
        told: dict[bytes, int] = {}
        rows = np.column_stack([group_of, group_of[moves]])
        finer = np.array([told.setdefault(row.tobytes(), len(told)) for row in rows])
        if len(told) == len(np.unique(group_of)):
            return finer
        group_of = finer


def _breadth_first(moves: npt.NDArray[np.int64], start: int, dead: int) -> list[int]:
    order = [start]
    seen = {start, dead}
    for state in order:
        for target in moves[state].tolist():
            if target not in seen:
                seen.add(target)
                order.append(target)
    return order


def _shortest(moves: npt.NDArray[np.int64], accepting: npt.NDArray[np.bool_]) -> Int32s:
    """The states that accept are at distance 0, those with a move to one are at 1, and so on."""
    found = np.where(accepting, 0, INFINITE)
    for distance in range(1, len(moves) + 1):
        reached = (np.append(found, INFINITE)[moves] == distance - 1).any(1) & (found == INFINITE)
        if not reached.any():
            break
        found[reached] = distance
    return found.astype(np.int32)


def _longest(moves: npt.NDArray[np.int64]) -> Int32s:
    """States without a move have no way on; then those whose moves lead to such; those on or before a loop remain."""
    found = np.full(len(moves) + 1, INFINITE)
    found[DEAD] = -1
    while True:
        known = np.where(found[:-1] == INFINITE, found[moves].max(1) + 1, found[:-1])
        known = np.minimum(known, INFINITE)
        if (known == found[:-1]).all():
            return known.astype(np.int32)
        found[:-1] = known


def _countable(moves: npt.NDArray[np.int64], accepting: npt.NDArray[np.bool_], shortest: Int32s) -> bool:
    """Whether each state accepts at all lengths from its shortest up.

    A state at distance 0 does if it has a move to another such at 0, forever: the greatest set of accepting states in
    which each has a successor. One at distance d > 0 does if it has a move to one that does at d - 1.
    """
    good = np.append(accepting, False)
    while True:
        kept = good[:-1] & good[moves].any(1)
        if (kept == good[:-1]).all():
            break
        good[:-1] = kept
    for distance in range(1, int(shortest.max()) + 1):
        here = shortest == distance
        before = good & np.append(shortest == distance - 1, False)
        good[:-1] |= here & before[moves].any(1)
    return bool(good[:-1].all())
