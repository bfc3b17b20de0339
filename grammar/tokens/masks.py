"""Masks of configurations: computed once, kept sparse at first and as a dense row from their second use on."""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..automaton.codes import BIG, CLOSED, DEAD, REACH_WIDE, ROW_MASK, TEXT_DEPENDENT
from ..automaton.memory import view
from ..automaton.stepper import Configuration, token_edges
from ..automaton.tables import Tables
from .parts import Part, Parts
from .plaintext import PlainText
from .rows import EMPTY, NONE, BaseRow, MaskRows
from .runs import Runs
from .spaces import SPACE, Place, Spaced, Spaces, placed
from .vocabulary import MAIN, Vocabulary
from .walkcodes import AFTER, BELOW, BELOW_OWN, ITEM
from .walker import NO_ITEMS, NO_WORDS, NOTHING, Changes, Indexes, Item, Walker

Int32s = npt.NDArray[np.int32]

NO_STACK: Final = 1 << 31
_MANY_EXITS: Final = 200
_EFFORT: Final = 8000
"""Nodes visited for a row in sum, beyond which its context-free part is kept: about what making that costs."""


class SparseMask(NamedTuple):
    """The row `row` of `base` with `words` replaced by `values`; stale once `base` lost that row."""

    base: BaseRow
    row: int
    words: Indexes
    values: Int32s


class Plan(NamedTuple):
    """What to walk for a mask: the base row, then exits that the configuration completes, then items.

    items   those that undo what the base row or exits allow are the last of them
    later   items for when all these are done
    lowest  the smallest stack that was looked at for it
    """

    base: BaseRow
    items: list[Item]
    exits: Int32s = NO_ITEMS
    later: tuple[Item, ...] = ()
    lowest: int = NO_STACK


class Position:
    """A configuration without its recorded text, and its mask.

    Most masks do not depend on what waits on the stack, or only on its topmost frames, those that a token can end the
    containers of. So a position begins as one for all stacks; when its walk comes down the stack, it is split by the
    frame on top, and so on.

    depth      how many frames of the stack the position is about
    split      the positions by the next frame of the stack; None: the mask is here
    table_row  dense row of the mask, or NONE
    sparse     the mask before it is dense; None: not computed, or its base row is gone
    dependent  tokens whose fate the recorded text decides; their bits are not set in the mask
    """

    __slots__ = ("count", "dependent", "depth", "frame", "row", "sparse", "split", "table_row")

    def __init__(self, row: int, frame: int, count: int, depth: int = 0) -> None:
        self.row, self.frame, self.count, self.depth = row, frame, count, depth
        self.split: dict[int, Position] | None = None
        self.table_row = NONE
        self.sparse: SparseMask | None = None
        self.dependent: tuple[int, ...] = ()

    def below(self, top: int) -> Position:
        """The position of the stacks that go on with the frame `top`."""
        if self.split is None:
            self.split = {}
        found = self.split.get(top)
        if found is None:
            found = self.split[top] = Position(self.row, self.frame, self.count, self.depth + 1)
        return found

    def in_use(self) -> bool:
        """Whether its mask, or one that it was split into, is a dense row; those that are not are forgotten."""
        if self.split is not None:
            self.split = {top: part for top, part in self.split.items() if part.in_use()}
            return bool(self.split)
        return self.table_row > EMPTY


class Masks:
    """The masks of one arena. Not thread-safe: callers hold the arena's lock."""

    def __init__(self, vocabulary: Vocabulary, tables: Tables, budget: int) -> None:
        """`budget`: bytes for dense rows."""
        self._tables = tables
        self.rows = MaskRows(vocabulary.words, budget)
        self._used = view(self.rows.used)
        self._walker = Walker(vocabulary, tables, self.rows)
        self.plain = PlainText(vocabulary, tables)
        self._parts = Parts(vocabulary, tables, self.rows, self._walker, self.plain)
        self._runs = Runs(vocabulary, tables, self.rows)
        self._spaces = Spaces(vocabulary, tables, self._parts)
        self._fixed = BaseRow()
        self._fixed.table_row = EMPTY
        self._eos = vocabulary.eos_ids
        self._size = vocabulary.size
        self._form, self._wide = view(tables.form), view(tables.wide)
        self._reach, self._allow = view(tables.reach), view(tables.allow)
        self._low, self._high = view(tables.low), view(tables.high)
        self._accept, self._scopes = view(tables.accept), view(tables.scopes)
        self._top, self._rest = view(tables.stacks.top), view(tables.stacks.rest)
        self._sharing: dict[tuple[int, int, int], Position] = {}
        self._copies: dict[tuple[int, int], bool] = {}
        self._effort: dict[int, int] = {}
        self._learned: set[int] = set()
        self._widely: dict[int, bool] = {}
        self._disjoint: dict[tuple[int, int], bool] = {}
        words = dict.fromkeys([end >> 5 for end in vocabulary.eos_ids], 0)
        for end in vocabulary.eos_ids:
            words[end >> 5] |= 1 << (end & 31)
        self._eos_words = [(word, np.uint32(bits).astype(np.int32)) for word, bits in words.items()]
        self.computed = 0
        self.visited = 0

    def settle(self, position: Position, stack: int) -> Position:
        """The position that `position` was split into for this stack."""
        if position.split is not None:
            for _ in range(position.depth):
                stack = self._rest[stack]
            while position.split is not None:
                position = position.below(self._top[stack])
                stack = self._rest[stack]
        return position

    def has(self, position: Position, stack: int) -> bool:
        """Whether the mask is kept, so that to write it is no work."""
        position = self.settle(position, stack)
        sparse = position.sparse
        return position.table_row != NONE or (sparse is not None and sparse.base.table_row == sparse.row)

    def write(self, position: Position, stack: int, out: Int32s) -> Position:
        """Writes the mask, but for its dependent tokens, to `out`, int32 [words]. Returns where the mask is kept."""
        row = position.table_row
        if row != NONE:
            self._used[row] = 1
            out[...] = self.rows.table[row]
            return position
        position = self.settle(position, stack)
        sparse = position.sparse
        if position.table_row != NONE:
            return self.write(position, stack, out)
        if sparse is None or sparse.base.table_row != sparse.row:
            shared = self._shared(position)
            if shared is not position:
                return self.write(shared, stack, out)
            position = self._compute(position, stack)
            sparse = position.sparse
            assert sparse is not None
            self.rows.used[sparse.row] = 1
            out[:] = self.rows.table[sparse.row]
            out[sparse.words] = sparse.values
            return position
        if position.dependent:
            out[:] = self.rows.table[sparse.row]
            out[sparse.words] = sparse.values
            return position
        self.rows.used[sparse.row] = 1
        row = self.rows.claim(position)
        dense = self.rows.table[row]
        dense[:] = self.rows.table[sparse.row]
        dense[sparse.words] = sparse.values
        position.sparse = None
        out[:] = dense
        return position

    def forget(self) -> None:
        """Forgets which positions share their masks."""
        self._sharing.clear()

    # ---- parts of a computation

    def _shared(self, position: Position) -> Position:
        """The position that has the mask of this one, whose count is another in the same string: perhaps itself.

        Counts make no difference as long as tokens of the same costs are within the bound.
        """
        row, frame, count = position.row, position.frame, position.count
        high = self._high[frame]
        if high == BIG or position.depth or self._wide[row] != row or self._accept[row]:
            return position
        part = self._part(row, frame)
        if part is None or not part.free(self._low[frame], high, count):
            return position
        return self._sharing.setdefault((row, frame, part.affordable(high - count)), position)

    def _compute(self, position: Position, stack: int) -> Position:
        """Makes the mask of a position, or of what this one has to be split into for it."""
        while True:
            lent, sweeps = self._tables.pauses.count, self.rows.sweeps
            made = self._try_compute(position, stack)
            # Where the lock was lent meanwhile, a row that was built upon may be another's now.
            if self._tables.pauses.count == lent or self.rows.sweeps == sweeps:
                return made

    def _try_compute(self, position: Position, stack: int) -> Position:
        tables, walker = self._tables, self._walker
        row, frame, count = position.row, position.frame, position.count
        if row == tables.end_row:
            position.sparse = SparseMask(self._fixed, EMPTY, *self._with_eos(EMPTY, NO_WORDS, NOTHING))
            return position
        if self._form[2 * row] < 0:
            tables.build_row(row)
        plan = self._plan(row, frame, count, stack)
        if plan.base.table_row == NONE:  # it had to make room for another part of the plan
            plan = Plan(self._fixed, [(MAIN, BELOW, frame, row, count, 0)])
        base = plan.base.table_row
        changes = Changes()
        depth = 0
        _, items, exits, later, lowest = plan
        if items or later or len(exits):
            changes = walker.walk(items, base=base, exits=exits, later=later, frame=frame, count=count, stack=stack)
            self._learn(row, frame, walker.visited)
            lowest = min(walker.lowest, lowest)
        while stack > lowest:  # what waited there, or that nothing did, has had a say
            top, stack = self._top[stack], self._rest[stack] if stack else -1
            depth += 1
            if depth > position.depth:
                position = position.below(top)
        self.computed += 1
        words, values, dependent = changes
        label = self._accept[row] - 1
        if label >= 0:
            ends = self._ends(frame, label)
            if ends:
                words, values = self._with_eos(base, words, values)
            elif ends is None or self._scopes[frame]:
                dependent += self._eos
        if tables.takes_tokens:
            words, values = self._with_tokens(base, words, values, row, frame)
        position.dependent = dependent  # at once: another thread may look at it
        position.sparse = SparseMask(plan.base, base, words, values)
        return position

    def _ends(self, frame: int, label: int) -> bool | None:
        """Whether the text may end where a lexeme of `frame` ends with `label`, and perhaps others with it; None where
        the stack decides.
        """
        while label >= 0:
            row, frame = self._tables.next(frame, label)
            if row == CLOSED or frame < 0:
                return None
            if row <= 0 or row == self._tables.end_row:
                return row == self._tables.end_row
            self._tables.build_row(row)
            label = self._accept[row] - 1
        return False

    def _plan(self, row: int, frame: int, count: int, stack: int) -> Plan:
        """What to walk for the mask of a configuration."""
        label = self._accept[row] - 1
        if label >= 0:
            return self._plan_ending(row, frame, count, label, stack)
        wide = self._wide[row]
        part = self._part(wide, frame) if wide else None
        if part is not None:
            return self._plan_part(part, row, frame, count)
        run = self._runs.of(row)
        items = None if run is None else self._runs.items(run, frame, count)
        if run is not None and items is not None:
            return Plan(self._runs.base(run), items)
        spaced = self._spaces.of(Place(row, frame, stack, stack), count)
        if spaced is not None:
            return self._with_space(Plan(self._fixed, []), spaced)
        return Plan(self._fixed, [(MAIN, BELOW, frame, row, count, 0)])

    def _with_space(self, plan: Plan, spaced: Spaced) -> Plan:
        """A plan and what begins with a space."""
        at = spaced.place
        inside = self._placed(self._plan_part(spaced.part, at.row, at.frame, 0, self._spaces.root), at)
        exits = np.concatenate((plan.exits, inside.exits)) if len(plan.exits) else inside.exits
        base = inside.base if plan.base is self._fixed else self._parts.union(plan.base, inside.base)
        later = plan.later + spaced.rest
        return Plan(base, inside.items + plan.items, exits, later, min(plan.lowest, at.lowest))

    def _placed(self, plan: Plan, at: Place) -> Plan:
        """The plan of a row that a text comes to before it has read anything of the mask."""
        items: list[Item] = [item if len(item) == ITEM else (*item, at.stack) for item in plan.items]
        return plan._replace(items=items, exits=placed(plan.exits, at))

    def _plan_ending(self, row: int, frame: int, count: int, label: int, stack: int) -> Plan:
        """The plan of a row whose lexeme may have ended: what it reads itself, and what may come after the end."""
        after, after_frame = self._tables.next(frame, label)
        apart = row in self._tables.apart
        if (after <= 0 and after != DEAD and not (apart and after == CLOSED)) or (
            after > 0 and not apart and (after_frame < 0 or not self._apart(row, after))
        ):
            return Plan(self._fixed, [(MAIN, BELOW, frame, row, count, 0)])
        wide = self._wide[row]
        itself = (MAIN, BELOW_OWN, frame, row, count, 0)
        if after > 0 and after_frame > 0 and self._begins_words(after) and (not wide or wide in self._learned):
            plan = self._placed(self._plan(after, after_frame, 0, stack), Place(after, after_frame, stack, stack))
            return plan._replace(later=(*plan.later, itself))
        spaced = None
        words = after <= 0 or self._spaces.may_be_words(after)
        if words and not self._scopes[frame] and not self._tables.value(row, SPACE):
            ended = self._spaces.follow(Place(row, frame, stack, stack), label)
            if ended is not None:
                self._tables.build_row(ended.row)
                spaced = self._spaces.of(ended, 0)
        following: tuple[Item, ...] = ()
        if spaced is None and after != DEAD:
            if after > 0 and after_frame > 0:
                following = tuple(self._runs.items_after(after, after_frame, frame, label))
            else:
                following = ((MAIN, AFTER, frame, label, count, 0),)
        # To undo what only the wide row reads would undo what begins with a space as well.
        part = self._part(wide, frame) if wide and (spaced is None or not self._tables.value(wide, SPACE)) else None
        if part is None:
            plan = Plan(self._fixed, [], later=(*following, itself))
        else:
            plan = self._plan_part(part, row, frame, count)._replace(later=following)
        return plan if spaced is None else self._with_space(plan, spaced)

    def _plan_part(self, part: Part, row: int, frame: int, count: int, begin: int = MAIN) -> Plan:
        """Exits of the wide row first, then the difference between it and `row`: it undoes what they set.

        `begin`: the node that the part begins at.
        """
        low, high = self._low[frame], self._high[frame]
        base = part.base if high == BIG else self._parts.within(part, high - count)
        items: list[Item] = []
        exits = NO_ITEMS
        remains = self._parts.remains(part)
        if remains is None or not part.free(low, high, count):
            exits = self._living(part, frame)
        elif len(remains) == 1 and high == BIG:
            label, root = remains[0]
            following, next_frame = self._tables.next(frame, label)
            if following > 0 and next_frame > 0:
                base = self._parts.folded(part)
                items.append((root, BELOW, next_frame, following, 0, 0))
            elif following != DEAD:
                items.append((root, AFTER, frame, label, 0, 0))
        else:
            items += [(root, AFTER, frame, label, 0, 0) for label, root in remains]
        wide = self._wide[row]
        if wide != row:
            items.append((begin, BELOW_OWN, frame, row, count, self._stand_in(row, wide)))
        return Plan(base, items, exits)

    def _living(self, part: Part, frame: int) -> Int32s:
        """The exits of a part but for those whose lexeme ended before a byte that cannot come then, under a frame."""
        if len(part.exits) < _MANY_EXITS:
            return part.exits
        living = np.ones(len(part.exits), np.bool_)
        for label, chosen in part.early:
            following = self._following(frame, label)
            if following is not None:
                living[chosen] = following[part.bytes[chosen]]
        return part.exits[living]

    def _following(self, frame: int, label: int) -> npt.NDArray[np.bool_] | None:
        """bool [256], the bytes that may come where a lexeme ended with `label`; None where more than that decides."""
        bytes_ = np.zeros(256, np.bool_)
        while label >= 0:
            row, frame = self._tables.next(frame, label)
            if frame < 0 or row in (CLOSED, TEXT_DEPENDENT):
                return None
            if row <= 0 or row == self._tables.end_row:
                return bytes_
            bytes_ |= self._tables.values(row) != 0
            label = self._accept[row] - 1
        return bytes_

    def _begins_words(self, row: int) -> bool:
        """Whether most of what a row allows is in a part."""
        self._tables.build_row(row)
        wide = self._wide[row]
        return bool(wide) and not self._accept[row] and self._reach[wide] == -1

    def _apart(self, row: int, after: int) -> bool:
        """Whether no byte can be read both by `row`, whose lexeme may end, and by the row after that end."""
        known = self._disjoint.get((row, after))
        if known is None:
            both = (self._tables.values(row) != 0) & (self._tables.values(after) != 0)
            known = self._disjoint[row, after] = not self._accept[after] and not both.any()
        return known

    def _part(self, wide: int, frame: int) -> Part | None:
        """The part of a wide row under a frame; None where the frame allows no key that the row is about."""
        reach, allow = self._reach[wide], self._allow[frame]
        if reach != -1 and not self._is_filtered_widely(wide):
            allow &= reach  # what is left of the filter in this row and all after it
            if not allow:
                return None
        return self._parts.get(wide, allow, bounded=self._high[frame] != BIG)

    def _is_filtered_widely(self, row: int) -> bool:
        """Whether the row's lexeme checks keys by several words (see `Tables.add_reach`)."""
        known = self._widely.get(row)
        if known is None:
            values = self._tables.values(row)
            known = self._widely[row] = bool((values[values > 0] & REACH_WIDE).any())
        return known

    def _stand_in(self, row: int, wide: int) -> int:
        """The row that a sparse `row` is laid over, if it leads where `wide` leads: then only its edges differ."""
        under = self._form[2 * row] - 1
        if under <= 0 or under == wide or self._wide[under] != wide or self._form[2 * wide] != 0:
            return wide
        known = self._copies.get((under, wide))
        if known is None:
            rows = self._tables.rows
            known = self._copies[under, wide] = not ((rows[under] ^ rows[wide]) & ROW_MASK).any()
        return under if known else wide

    def _learn(self, row: int, frame: int, visited: int) -> None:
        """A row that was much work, at once or in sum, gets a context-free part of its own.

        Not one of keys: it would need a part for each set of keys that may still come.
        """
        self.visited += visited
        if self._wide[row] == row or self._reach[row] != -1 or self._allow[frame] != -1:
            return
        effort = self._effort[row] = self._effort.get(row, 0) + visited
        if effort > _EFFORT:
            self._wide[row] = row
            self._learned.add(row)
            del self._effort[row]

    def _with_tokens(self, base: int, words: Indexes, values: Int32s, row: int, frame: int) -> tuple[Indexes, Int32s]:
        """The changes with the tokens that may come as such, not as text."""
        found = token_edges(self._tables, Configuration(row, frame))
        if found is None:
            return words, values
        _, ids, excluded = found[1]
        chosen = np.zeros(self.rows.words * 32, np.bool_)
        if excluded is not None:
            chosen[: self._size] = True
            chosen[[number for number in excluded if number < self._size]] = False
        chosen[[number for number in ids if number < self._size]] = True
        under = self.rows.table[base]
        mask = under.copy()
        mask[words] = values
        mask |= np.packbits(chosen, bitorder="little").view(np.int32)
        changed = np.flatnonzero(mask != under)
        return changed, mask[changed]

    def _with_eos(self, base: int, words: Indexes, values: Int32s) -> tuple[Indexes, Int32s]:
        for word, bits in self._eos_words:
            at = np.flatnonzero(words == word)
            if len(at):
                values[at] |= bits
            else:
                words = np.append(words, word)
                values = np.append(values, self.rows.table[base, word] | bits)
        return words, values
