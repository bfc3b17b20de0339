"""The byte automaton as flat arrays, shared by every grammar of one compiler: what the kernels read.

A configuration is (row, frame, n, stack): a place inside a lexeme, what may come after it, the code points counted in a
bounded string, and the frames that wait below. Bytes move it from row to row; where a lexeme ends, `(frame, label)`
gives the next row and frame, and may put a frame on the stack or take one from it. Both halves are filled as they are
first needed: a lazy row by its builder, a transition by its frame's handler. The arrays only grow, in place, so that a
pointer handed to a kernel stays good.

    rows        int32 [dense, 256]  see `codes` for the meaning of a value; only rows of dense form use theirs
    form        int32 [rows, 2]   (0, 0) dense, (base + 1, offset << 6 | count) sparse; (-1, 0) lazy, (-2, 0) asked for
    edge_byte, edge_next  int32     a sparse row is its base row, which is dense, with `count` values replaced
    accept      int32 [rows]        label + 1 where the lexeme may end before the next byte, else 0
    need        int32 [rows]        least number of code points to a bounded string's quote, or a number's last digit
    reach       int64 [rows]        labels that can still come (keys): -1 all, a bit set or an offset in `reach_words`
    loops       int64 [rows, 2]     classes of bytes that lead back to the row (`codes.byte_class`), low word first
    white       int8 [rows]         how many white-space characters may come before what the row reads besides; each
                                    leads on in a chain of rows that follow each other and are alike but for that
    wide        int32 [rows]        a row that this one differs little from and whose mask is worth keeping, or 0
    base, capacity, low, high, scopes int32 [frames]; allow int64 [frames]
    next_row, next_frame int32      at `base[frame] + label`; a number below zero is minus a pair of `Stacks`: something
                                    is opened; see `codes.CLOSED` for the opposite

Rows below DENSE_ROWS may take any form, those above are sparse: a trie of 100,000 characters must not reserve 100 MB.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, cast

import numpy as np
import numpy.typing as npt

from ..errors import BudgetError, FullError
from .answers import Answer, Close, Handler, Open
from .codes import (
    BIG,
    CLOSED,
    DEAD,
    DENSE,
    EDGE_SHIFT,
    LAZY,
    LAZY_REQUESTED,
    LOOPS_COUNTED,
    LOOPS_SET,
    MAX_EDGES,
    REQUESTED,
    TEXT_DEPENDENT,
    UNKNOWN,
)
from .memory import reserve, touch, view
from .stacks import TEMPORARY, Stacks
from .tokencodes import TokenEdges
from .turns import Pauses

DENSE_ROWS: Final = 1 << 20
ROWS: Final = 1 << 22
EDGES: Final = 1 << 24
FRAMES: Final = 1 << 22
TRANSITIONS: Final = 1 << 24
WORDS: Final = 1 << 23
RESOLVED: Final = 1 << 14

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]


class Tables:
    """Rows, frames and transitions of all grammars of one compiler.

    Filling rows and transitions takes `lock`; readers need nothing, since what is not there yet is marked as such until
    all of it is written. `pauses` lend the lock to others during long work.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.pauses = Pauses(self.lock)
        self.rows: Int32s = reserve(DENSE_ROWS * 256, np.int32).reshape(DENSE_ROWS, 256)
        self.form: Int32s = reserve(ROWS * 2, np.int32).reshape(ROWS, 2)
        self.edge_byte: Int32s = reserve(EDGES, np.int32)
        self.edge_next: Int32s = reserve(EDGES, np.int32)
        self.accept: Int32s = reserve(ROWS, np.int32)
        self.need: Int32s = reserve(ROWS, np.int32)
        self.reach: Int64s = reserve(ROWS, np.int64)
        self.reach_words: Int64s = reserve(WORDS, np.int64)
        self.loops: Int64s = reserve(ROWS * 2, np.int64).reshape(ROWS, 2)
        self.wide: Int32s = reserve(ROWS, np.int32)
        self.white: npt.NDArray[np.int8] = reserve(ROWS, np.int8)
        self.base: Int32s = reserve(FRAMES, np.int32)
        self.capacity: Int32s = reserve(FRAMES, np.int32)
        self.allow: Int64s = reserve(FRAMES, np.int64)
        self.low: Int32s = reserve(FRAMES, np.int32)
        self.high: Int32s = reserve(FRAMES, np.int32)
        self.scopes: Int32s = reserve(FRAMES, np.int32)
        self.stacks = Stacks()
        self.outside = 0  # bytes that handlers keep, roughly
        self.apart: dict[int, Callable[[int], int]] = {}  # rows that read no byte after their ends: those
        self.takes_tokens = False  # whether some grammar takes tokens as such
        self.token_rows: dict[int, TokenEdges] = {}  # rows that take tokens as such, once they are built
        self.next_row: Int32s = reserve(TRANSITIONS, np.int32)
        self.next_frame: Int32s = reserve(TRANSITIONS, np.int32)
        self._rows = view(self.rows)
        self._form = view(self.form)
        self._edge_byte, self._edge_next = view(self.edge_byte), view(self.edge_next)
        self._next_row, self._next_frame = view(self.next_row), view(self.next_frame)
        self._loops, self._reach = view(self.loops), view(self.reach)
        self._base, self._capacity, self._scopes = view(self.base), view(self.capacity), view(self.scopes)
        self._allow, self._low, self._high = view(self.allow), view(self.low), view(self.high)
        self._dense_used, self._sparse_used, self._edges_used, self._words_used = 1, DENSE_ROWS, 0, 1
        self._frames_used, self._transitions_used = 1, 1
        self._dense_filled = 1
        self._builders: dict[int, Callable[[int], None]] = {}
        self._warmed: dict[str, int] = {}
        self._block_starts: list[int] = []
        self._block_builders: list[Callable[[int], None]] = []
        self._interned: dict[Hashable, int] = {}
        self._resolved: dict[tuple[int, int, tuple[bytes, ...]], tuple[int, int]] = {}
        self._keys: list[Hashable] = [None]
        self._handlers: list[Handler | None] = [None]
        self.reach[:2] = -1
        self.high[0], self.allow[0] = BIG, -1
        self.end_row: int = self.dense()
        self.end_frame: int = self.frame(("end",), _End(), labels=8)

    # ---- rows

    def dense(self, count: int = 1) -> int:
        """The first of `count` new rows without any edge."""
        first = self._reserve_dense(count)
        self._dense_filled += count
        return first

    def lazy(self, builder: Callable[[int], None], *, light: bool = False) -> int:
        """A new row that `builder(row)` fills (through `rows[row]` or `set_sparse`) when it is first needed.

        `light`: the builder promises a sparse row, which then takes no space for a dense one.
        """
        row = self.sparse() if light else self._reserve_dense(1)
        self._form[2 * row] = LAZY
        self._form[2 * row + 1] = 0
        self._builders[row] = builder
        return row

    def lazy_block(self, count: int, builder: Callable[[int], None]) -> int:
        """The first of `count` new lazy rows of sparse form that share one builder: no object is made for each."""
        first = self.sparse(count)
        self.form[first : first + count, 0] = LAZY
        self._block_starts.append(first)
        self._block_builders.append(builder)
        return first

    def sparse(self, count: int = 1) -> int:
        """The first of `count` new rows of sparse form: empty until `set_sparse`, or `form` is written in bulk."""
        first = self._sparse_used
        if first + count > ROWS:
            raise _full("sparse rows", ROWS - DENSE_ROWS)
        self._sparse_used += count
        if count == 1:
            self._form[2 * first] = 1
            self._reach[first] = -1
        else:
            self.form[first : first + count, 0] = 1
            self.reach[first : first + count] = -1
        return first

    def set_sparse(self, row: int, base: int, edges: Iterable[tuple[int, int]]) -> None:
        """Makes `row` the dense row `base` (0: no edge) with at most 63 `edges`, (byte, value), put over it."""
        pairs = list(edges)
        if len(pairs) > MAX_EDGES:
            raise ValueError(f"{len(pairs)} edges in a sparse row; make it dense above {MAX_EDGES}")
        offset = self.add_edges(len(pairs))
        for i, (byte, value) in enumerate(pairs, offset):
            self._edge_byte[i] = byte
            self._edge_next[i] = value
        self._form[2 * row + 1] = offset << EDGE_SHIFT | len(pairs)
        self._form[2 * row] = base + 1

    def add_edges(self, count: int) -> int:
        """The offset of `count` new places in `edge_byte` and `edge_next`, to be written in bulk."""
        offset = self._edges_used
        if offset + count > EDGES:
            raise _full("edges", EDGES)
        self._edges_used += count
        return offset

    def put_edge(self, offset: int, byte: int, value: int) -> None:
        """Writes one edge into places that `add_edges` gave."""
        self._edge_byte[offset] = byte
        self._edge_next[offset] = value

    def add_reach(self, words: npt.NDArray[np.int64]) -> int:
        """Stores words of reach sets and returns the first one's offset.

        Where a key's labels need several words, a row's `reach` is an offset, and a frame's `allow` is
        `offset | words << 32`, with the bit OTHER_KEY besides if such keys are allowed.
        """
        offset, count = self._words_used, words.size
        self.require_reach(count)
        self._words_used += count
        self.reach_words[offset : offset + count] = words.reshape(-1)
        return offset

    def require_reach(self, count: int) -> None:
        """Raises BudgetError where there is no room for so many words more."""
        if self._words_used + count > WORDS:
            raise _full("reach words", WORDS)

    def build_row(self, row: int) -> None:
        """Fills a lazy row; nothing to do for a row that is there. After an exception the row is lazy as before.

        The row counts as lazy until all of it is written, so that a kernel in another thread never sees half of it.
        """
        if self._form[2 * row] >= 0:
            return
        with self.lock:
            if self._form[2 * row] < 0:
                self._build(row)

    def _build(self, row: int) -> None:
        builder = self._builders.get(row)
        if builder is None:
            builder = self._block_builders[bisect_right(self._block_starts, row) - 1]
        light = row >= DENSE_ROWS
        try:
            builder(row)
        except BaseException:
            if not light:
                self.rows[row] = 0
            self._form[2 * row] = LAZY
            raise
        self._builders.pop(row, None)
        if self._form[2 * row] < 0:
            self._form[2 * row] = 1 if light else DENSE
        if self._form[2 * row] == DENSE:
            self._dense_filled += 1

    def values(self, row: int) -> Int32s:
        """The 256 values of a row, whatever its form; a lazy row is built. The array is read only by convention."""
        self.build_row(row)
        base = self._form[2 * row]
        if base == DENSE:
            own: Int32s = self.rows[row]
            return own
        merged: Int32s = self.rows[base - 1].copy()
        offset, count = self._edges(row)
        merged[self.edge_byte[offset : offset + count]] = self.edge_next[offset : offset + count]
        return merged

    def value(self, row: int, byte: int) -> int:
        """One value of a row, whatever its form; a lazy row is built."""
        base = self._form[2 * row]
        if base < 0:
            self.build_row(row)
            base = self._form[2 * row]
        if base == DENSE:
            return self._rows[row << 8 | byte]
        packed = self._form[2 * row + 1]
        offset, count = packed >> EDGE_SHIFT, packed & MAX_EDGES
        if count == 1:  # inside a name
            return self._edge_next[offset] if self._edge_byte[offset] == byte else self._rows[base - 1 << 8 | byte]
        edges = self._edge_byte[offset : offset + count].tolist()
        return self._edge_next[offset + edges.index(byte)] if byte in edges else self._rows[base - 1 << 8 | byte]

    def set_loops(self, row: int, classes: int, *, counted: bool = False) -> None:
        """Records the classes of bytes that lead from `row` back to it; `counted` if each code point counts."""
        summary = classes | LOOPS_SET | (LOOPS_COUNTED if counted else 0)
        low = summary & (1 << 64) - 1
        self._loops[2 * row] = low - (1 << 64) if low >> 63 else low
        self._loops[2 * row + 1] = summary >> 64

    def is_lazy(self, row: int) -> bool:
        """True while the row waits for its builder."""
        return self._form[2 * row] < 0

    # ---- frames

    def frame(
        self,
        key: Hashable,
        handler: Handler,
        *,
        labels: int,
        allow: int = -1,
        low: int = 0,
        high: int = BIG,
        scopes: int = 0,
    ) -> int:
        """The frame of `key`, made at the first call; later calls give the same one and look at nothing else.

        `labels` is how many transitions to reserve; more may be asked for later. `scopes`: how many texts it records.
        """
        known = self._interned.get(key)
        if known is not None:
            return known
        with self.lock:
            known = self._interned.get(key)
            if known is not None:
                return known
            frame = self._frames_used
            if frame >= FRAMES:
                raise _full("frames", FRAMES)
            self._base[frame] = self._block(labels)
            self._capacity[frame] = labels
            self._allow[frame], self._low[frame], self._high[frame] = allow, low, min(high, BIG)
            self._scopes[frame] = scopes
            self._keys.append(key)
            self._handlers.append(handler)
            self._frames_used += 1
            self._interned[key] = frame
            return frame

    def find(self, key: Hashable) -> int:
        """The frame that was made with `key`; 0 if there is none yet."""
        return self._interned.get(key, 0)

    def frame_key(self, frame: int) -> Hashable:
        """The key that a frame was made with."""
        return self._keys[frame]

    def handler(self, frame: int) -> Handler:
        """The handler that a frame was made with."""
        handler = self._handlers[frame]
        if handler is None:
            raise LookupError(f"frame {frame} does not exist")
        return handler

    def fill(self, frame: int, label: int) -> int:
        """Makes the transition of `(frame, label)` known and returns its `next_row`: a row, or why there is none.

        An exception of the handler leaves the transition unknown.
        """
        if label < self._capacity[frame]:
            state = self._next_row[self._base[frame] + label]
            if state not in (UNKNOWN, REQUESTED):
                return state
        with self.lock:
            return self._fill(frame, label)

    def _fill(self, frame: int, label: int) -> int:
        if label >= self._capacity[frame]:
            self._grow(frame, label + 1)
        state = self._next_row[self._base[frame] + label]
        if state not in (UNKNOWN, REQUESTED):
            return state
        try:
            answer = self.handler(frame).fill(frame, label)
        except BaseException as error:
            self._next_row[self._base[frame] + label] = UNKNOWN
            if isinstance(error, RecursionError):
                raise BudgetError("what follows here nests too deep for the stack that is left") from None
            raise
        at = self._base[frame] + label  # the handler may have moved the block
        state, self._next_frame[at] = self._encoded(answer)
        self._next_row[at] = state
        return state

    def resolve(self, frame: int, label: int, texts: tuple[bytes, ...]) -> tuple[int, int]:
        """As `next`, exact where `texts` decide: the handler's answer, remembered, since many tokens ask the same."""
        key = (frame, label, texts)
        known = self._resolved.get(key)
        if known is None:
            if len(self._resolved) >= RESOLVED:
                self._resolved.clear()
            with self.lock:
                known = self._resolved[key] = self._encoded(self.handler(frame).resolve(frame, label, texts))
        return known

    def _encoded(self, answer: Answer) -> tuple[int, int]:
        """`next_row` and `next_frame` of an answer."""
        if type(answer) is tuple:
            return answer
        if answer is None:
            return DEAD, 0
        if isinstance(answer, Open):
            return answer.row, -self.stacks.pair(answer.frame, answer.back)
        return (CLOSED, answer.label) if isinstance(answer, Close) else (TEXT_DEPENDENT, 0)

    def next(self, frame: int, label: int) -> tuple[int, int]:
        """`(next_row, next_frame)` of a transition, filled if need be."""
        row = self.fill(frame, label)
        return row, self._next_frame[self._base[frame] + label]

    def fill_requests(self, requests: Sequence[Sequence[int]], breath: Callable[[], None] = lambda: None) -> None:
        """Answers what a kernel asked for: (frame, label) transitions and (-1, row) lazy rows; `breath` after each.

        The marks of all are cleared first: a walk of another thread, in a pause or after an exception, must ask itself.
        """
        for first, second in requests:
            self._forget(first, second)
        for first, second in requests:
            breath()
            if first < 0:
                self.build_row(second)
            else:
                self.fill(first, second)

    def warm(self) -> None:
        """Makes the memory resident that the next few schemas will take: at the start, and after a compilation."""
        row_arrays = (self.form, self.accept, self.need, self.reach, self.loops, self.wide, self.white)
        frame_arrays = (self.base, self.capacity, self.allow, self.low, self.high, self.scopes)
        self._warm("dense", self._dense_used, 1 << 13, DENSE_ROWS, self.rows, *row_arrays)
        self._warm("sparse", self._sparse_used, 1 << 16, ROWS, *row_arrays)
        self._warm("edges", self._edges_used, 1 << 18, EDGES, self.edge_byte, self.edge_next)
        self._warm("words", self._words_used, 1 << 14, WORDS, self.reach_words)
        self._warm("frames", self._frames_used, 1 << 15, FRAMES, *frame_arrays)
        self._warm("transitions", self._transitions_used, 1 << 19, TRANSITIONS, self.next_row, self.next_frame)

    def _warm(self, what: str, used: int, ahead: int, limit: int, *arrays: npt.NDArray[Any]) -> None:
        done = max(self._warmed.get(what, 0), used)
        if done < min(used + ahead // 2, limit):
            self._warmed[what] = end = min(used + ahead, limit)
            for array in arrays:
                flat: npt.NDArray[Any] = array if array.ndim == 1 else cast("npt.NDArray[Any]", array.base)
                width = len(flat) // len(array)
                touch(flat, done * width, end * width)

    def nbytes(self) -> int:
        """Bytes in use: rows, edges, frames with what their handlers remember, and transitions written so far."""
        rows = self._dense_used + self._sparse_used - DENSE_ROWS
        per_row = 8 + 4 + 4 + 8 + 16 + 4 + 1
        fixed = self._dense_filled * 1024 + rows * per_row + self._frames_used * 1_500
        return fixed + self.outside + 8 * (self._edges_used + self._words_used + self._transitions_used)

    @property
    def crowded(self) -> bool:
        """Whether some array is more than half full: the next grammar had better begin with new tables."""
        rows = self._dense_used / DENSE_ROWS, (self._sparse_used - DENSE_ROWS) / (ROWS - DENSE_ROWS)
        pools = self._edges_used / EDGES, self._words_used / WORDS, self._transitions_used / TRANSITIONS
        return 2 * max(*rows, *pools, self._frames_used / FRAMES, len(self.stacks) / TEMPORARY) > 1

    @property
    def counts(self) -> dict[str, int]:
        """How many rows, edges, frames and transitions exist."""
        return {
            "dense": self._dense_filled,
            "lazy": len(self._builders),
            "sparse": self._sparse_used - DENSE_ROWS,
            "edges": self._edges_used,
            "frames": self._frames_used,
            "stacks": len(self.stacks),
            "transitions": self._transitions_used,
        }

    # ---- parts

    def _reserve_dense(self, count: int) -> int:
        first = self._dense_used
        if first + count > DENSE_ROWS:
            raise _full("rows", DENSE_ROWS)
        self._dense_used += count
        if count == 1:
            self._reach[first] = -1
        else:
            self.reach[first : first + count] = -1
        return first

    def _edges(self, row: int) -> tuple[int, int]:
        packed = self._form[2 * row + 1]
        return packed >> EDGE_SHIFT, packed & MAX_EDGES

    def _block(self, labels: int) -> int:
        first = self._transitions_used
        if first + labels > TRANSITIONS:
            raise _full("transitions", TRANSITIONS)
        self._transitions_used += labels
        return first

    def _grow(self, frame: int, labels: int) -> None:
        old, count = int(self.base[frame]), int(self.capacity[frame])
        new_count = max(labels, 2 * count)
        new = self._block(new_count)
        self.next_row[new : new + count] = self.next_row[old : old + count]
        self.next_frame[new : new + count] = self.next_frame[old : old + count]
        self.base[frame] = new
        self.capacity[frame] = new_count

    def _forget(self, first: int, second: int) -> None:
        if first < 0:
            if self._form[2 * second] == LAZY_REQUESTED:
                self._form[2 * second] = LAZY
        elif second < self._capacity[first]:
            at = self._base[first] + second
            if self._next_row[at] == REQUESTED:
                self._next_row[at] = UNKNOWN


class _End:
    """After the whole value nothing may follow but the end of the text."""

    def fill(self, frame: int, label: int) -> None:
        return None

    def resolve(self, frame: int, label: int, texts: tuple[bytes, ...]) -> None:
        return None


def _full(what: str, limit: int) -> FullError:
    return FullError(f"the automaton's tables are full: {limit} {what}", remedy="use a new GrammarCompiler")
