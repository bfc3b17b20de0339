"""What begins after a space: most words of a vocabulary begin with one, and grammars put one between most words.

Where a space leads from a row into a word, the tokens of a space and such a word are all of the mask but a few. What
they are in the word's wide row is worked out once, as a part (see `parts`) that begins after the space; a mask is then
that part and what the row differs in.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..automaton.codes import BIG, CLOSED, LABEL_MASK, ROW_MASK, VALUE_END
from ..automaton.memory import view
from ..automaton.tables import Tables
from .parts import Part, Parts
from .vocabulary import MAIN, Vocabulary
from .walkcodes import ANY_FRAME, BELOW, BELOW_OWN, FRAME, STACK
from .walker import Item

SPACE: Final = 0x20


class Place(NamedTuple):
    """A row with the frame and the stack around it; `lowest`: the smallest stack on the way there."""

    row: int
    frame: int
    stack: int
    lowest: int


class Spaced(NamedTuple):
    """The tokens that a row allows which begin with a space, as a part that is gone through at `place`.

    `rest`: the walks for all other tokens of the row
    """

    part: Part
    place: Place
    rest: tuple[Item, ...]


class Spaces:
    """The parts after spaces of one arena. Callers hold the arena's lock."""

    def __init__(self, vocabulary: Vocabulary, tables: Tables, parts: Parts) -> None:
        self._tables, self._parts = tables, parts
        self.root = int(vocabulary.tries.roots[MAIN][SPACE])
        """The node of the space in the vocabulary's trie; 0 if no token begins with one."""
        self._wide, self._accept, self._scopes = view(tables.wide), view(tables.accept), view(tables.scopes)
        self._allow, self._high = view(tables.allow), view(tables.high)
        stacks = tables.stacks
        self._top, self._rest = view(stacks.top), view(stacks.rest)
        self._without: dict[int, int] = {}

    def of(self, at: Place, count: int) -> Spaced | None:
        """What begins with a space in a row; None if that is no word, or too intricate."""
        row, frame = at.row, at.frame
        if not self.root or self._accept[row] > VALUE_END + 1:
            return None
        value = self._tables.value(row, SPACE)
        if not value or value > ROW_MASK or -value > LABEL_MASK:
            return None
        after: Place | None = at._replace(row=value)
        if value < 0:
            after = self.follow(at, -value - 1)
        if after is None or not self._is_plain(after):
            return None
        rest: tuple[Item, ...] = ()
        label = self._accept[after.row] - 1
        if label > VALUE_END and not self._wide[after.row] and after.row in self._tables.apart:
            # What follows waits for a byte that tells: beside that the row reads what is no beginning of it.
            rest = ((self.root, BELOW_OWN, after.frame, after.row, 0, 0, after.stack),)
            after = self.follow(after, label)
            if after is None or not self._is_plain(after):
                return None
        wide = self._wide[after.row]
        if not wide or self._accept[after.row] or self._high[after.frame] != BIG:
            return None
        part = self._parts.get(wide, -1, bounded=False, root=self.root)
        others = self._without_space(row)
        if others:
            rest += ((MAIN, BELOW, frame, others, count, 0, at.stack),)
        return Spaced(part, after, rest)

    def _is_plain(self, at: Place) -> bool:
        """Whether nothing but the row, which is built then, tells what may come next in its frame."""
        if self._scopes[at.frame] or self._allow[at.frame] != -1:
            return False
        self._tables.build_row(at.row)
        return True

    def may_be_words(self, row: int) -> bool:
        """Whether a space may lead from a row into a word: mostly it is seen at once that none does."""
        value = self._tables.value(row, SPACE)
        if value <= 0:
            return value < 0
        return self._wide[value & ROW_MASK] != 0 or self._tables.is_lazy(value & ROW_MASK)

    def follow(self, at: Place, label: int) -> Place | None:
        """Where a lexeme's end leads; None if nowhere, or if the stack below or recorded text is to tell."""
        tables = self._tables
        _, frame, stack, lowest = at
        while True:
            row, following = tables.next(frame, label)
            if row != CLOSED:
                break
            if not stack:
                return None
            frame, label, stack = self._top[stack], following, self._rest[stack]
            lowest = min(lowest, stack)
        if row <= 0 or row == tables.end_row:
            return None
        if following < 0:
            back, following = int(tables.stacks.leaves[-following]), int(tables.stacks.enters[-following])
            stack = tables.stacks.push(stack, back, self._scopes[back])
        return Place(row, following, stack, lowest)

    def _without_space(self, row: int) -> int:
        """A row like another but for the space, which it does not read; 0 if that is all it reads."""
        known = self._without.get(row)
        if known is None:
            tables = self._tables
            values = tables.values(row).copy()
            values[SPACE] = 0
            known = 0
            if values.any():
                known = tables.dense()
                tables.rows[known] = values
            self._without[row] = known
        return known


def placed(exits: npt.NDArray[np.int32], at: Place) -> npt.NDArray[np.int32]:
    """Exits that any frame can finish as items of one frame and stack."""
    if not len(exits):
        return exits
    exits = exits.copy()
    anywhere = exits[:, FRAME] == ANY_FRAME
    exits[anywhere, FRAME], exits[anywhere, STACK] = at.frame, at.stack
    return exits
