"""The token level's two faces: `TokenLevel`, one for each compiler, and `Matcher`, one for each request."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import contextmanager
from operator import index
from typing import Any, Final, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from ..automaton.pointers import pointer
from ..automaton.stepper import Configuration
from ..automaton.tables import Tables
from ..automaton.turns import Entrance
from ..courtesy import COURTESY
from ..errors import FullError, GrammarError, MatcherError
from .masks import Masks
from .rows import NONE
from .states import State, States
from .vocabulary import Vocabulary
from .ways import Way, trace

DEFAULT_BUDGET: Final = 32 << 20
"""Bytes for dense mask rows, and as many for states with their sparse masks."""
FORCED_LIMIT: Final = 4096
MOST_TRIED: Final = 256

_INT32: Final = np.dtype(np.int32)
Answer = TypeVar("Answer")
Forked = TypeVar("Forked", bound="Matcher")
MaskRow = npt.NDArray[np.int32] | npt.NDArray[np.uint32]


class Automaton(Protocol):
    """A byte automaton over the compiler's tables, see `automaton.tables`."""

    @property
    def tables(self) -> Tables:
        """The arena that its rows and frames live in."""

    @property
    def start_row(self) -> int:
        """Where a text begins."""

    @property
    def start_frame(self) -> int:
        """The frame around a text."""

    def completion(self, at: Configuration, known: Container[Configuration] = ()) -> bytes:
        """A shortest text, or nearly, from this configuration to one where the text may end, or to a `known` one."""


class TokenLevel:
    """Masks and matchers for all grammars over one vocabulary and one arena of tables. Thread-safe.

    What is slow (fills, walks, table rows) happens under `tables.lock`; accepting a token that was accepted before in
    the same state takes no lock.
    """

    def __init__(self, vocabulary: Vocabulary, tables: Tables, *, budget: int = DEFAULT_BUDGET) -> None:
        """`budget`: bytes for dense mask rows (at least 64), and as many for states; those not in use make room."""
        self.vocabulary = vocabulary
        self.tables = tables
        self._masks = Masks(vocabulary, tables, budget)
        self._states = States(vocabulary, tables, self._masks, budget)
        self._lock = Entrance(tables.lock, tables.pauses)
        self._shape = (vocabulary.words,)
        self.canonical: object = None
        """What `canonical_matcher` keeps for the level."""

    def matcher(self, automaton: Automaton) -> Matcher:
        """A matcher at the automaton's start."""
        if automaton.tables is not self.tables:
            raise MatcherError("the automaton lives in other tables than this token level")
        with self._lock:
            scopes = int(self.tables.scopes[automaton.start_frame])
            state = self._states.at(Configuration(automaton.start_row, automaton.start_frame, 0, (b"",) * scopes))
        return Matcher(self, automaton, state, [])

    def fill_masks(self, matchers: Sequence[Matcher], rows: MaskRow) -> None:
        """Writes the mask of `matchers[i]` to `rows[i]`; rows is int32 or uint32 [>= len(matchers), ceil(size / 32)].

        Raises MatcherError if a matcher is of another level, or `rows` has another shape or dtype.
        """
        count = len(matchers)
        words = self.vocabulary.words
        if rows.ndim != 2 or rows.shape[0] < count or rows.shape[1] != words:
            raise MatcherError(f"mask rows have the shape {rows.shape}, not ({count} or more, {words})")
        out = _as_int32(rows)
        if {matcher.level for matcher in matchers} - {self}:
            raise MatcherError("a matcher of the batch belongs to another token level")
        masks = self._masks
        with self._lock:
            ids = [matcher._state.position.table_row for matcher in matchers]
            if NONE not in ids:
                chosen = np.array(ids, np.intp)
                masks.rows.table.take(chosen, axis=0, out=out[:count], mode="clip")
                masks.rows.used[chosen] = 1
                return
            late = [(matcher, row) for matcher, row in zip(matchers, out, strict=False) if not matcher._filled(row)]
        for matcher, row in late:
            matcher.fill_mask(row)

    def statistics(self) -> dict[str, int]:
        """Counts for reports: states, dense rows and their bytes, masks computed, nodes visited."""
        masks = self._masks
        return {
            "states": len(self._states),
            "dense_rows": masks.rows.count,
            "dense_bytes": masks.rows.nbytes,
            "masks_computed": masks.computed,
            "nodes_visited": masks.visited,
        }

    # ---- for matchers

    def _after(self, state: State, token: int) -> State | None:
        lock = self._lock
        if not lock.enter_if_free():
            lock.wait()
        try:
            return self._states.after(state, token)
        finally:
            lock.leave()


class Matcher:
    """Follows one text through a grammar, token by token. Not for two threads at once; fork it instead.

    `level` is the token level that it belongs to: matchers of one level can fill their masks at once. Where its tables
    are full, the matcher goes on in new ones, and another level.
    """

    __slots__ = ("_automaton", "_began", "_history", "_state", "_tokens", "afresh", "level")

    canonical = False
    """Whether only tokens are taken that the tokenizer itself would give."""

    def __init__(self, level: TokenLevel, automaton: Automaton, state: State, history: list[State]) -> None:
        self.level = level
        self._automaton = automaton
        self._state = state
        self._history = history
        self._tokens: list[int] = []
        self._began = -1  # after how many tokens it began again last
        self.afresh: Callable[[], Matcher] | None = None
        """A matcher of the same grammar at the beginning of a text, in tables with room; None: there is none."""

    def fill_mask(self, row: MaskRow) -> None:
        """Writes the tokens that `accept` would take: int32 or uint32 [ceil(size / 32)], bit = id, little end first.

        Padding beyond the vocabulary is never set, and nothing at all once the text has ended.
        Raises MatcherError if `row` has another shape or dtype.
        """
        level = self.level
        if row.shape != level._shape:
            raise MatcherError(f"a mask row has the shape {row.shape}, not {level._shape}")
        out = _as_int32(row)
        lock = level._lock
        if not lock.enter_if_free():
            lock.wait()
        try:
            self._fill(out)
        except FullError as full:
            error = full
        else:
            return
        finally:
            lock.leave()
        self._begin_again(error)
        self.fill_mask(row)

    def _filled(self, out: npt.NDArray[np.int32]) -> bool:
        """Writes the mask, unless there is no room; the caller holds the level's lock."""
        try:
            self._fill(out)
        except FullError:
            return False
        return True

    def _begin_again(self, full: FullError) -> None:
        """Goes on in new tables, where it reads the same tokens. Raises `full` if that was of no use a moment ago."""
        if self.afresh is None or self._began == len(self._tokens):
            raise full
        matcher = self.afresh()
        matcher.afresh = None  # one new beginning is enough
        for token in self._tokens:
            if not matcher.accept(token):
                raise full
        self._began = len(self._tokens)
        self._become(matcher)

    def _become(self, matcher: Matcher) -> None:
        """Goes on where another matcher stands, after the same tokens."""
        self._automaton, self.level = matcher._automaton, matcher.level
        self._state, self._history = matcher._state, matcher._history

    def _with_room(self, ask: Callable[[], Answer]) -> Answer:
        """The answer to a question, asked again in new tables where the old ones are full."""
        try:
            return ask()
        except FullError as full:
            error = full
        self._begin_again(error)
        return ask()

    def _fill(self, out: npt.NDArray[np.int32]) -> None:
        self.level._states.write_mask(self._state, out)

    def accept(self, token: int) -> bool:
        """Moves on by a token, an id of the end once the text is complete. A refusal changes nothing."""
        state = self._state
        token = index(token)  # numpy's integers would overflow
        if token >> 32:
            return False
        following = self.level._states.moves.get(state.number << 32 | token)
        if following is None:
            try:
                following = self.level._after(state, token)
            except FullError as full:
                self._begin_again(full)
                state = self._state
                following = self.level._after(state, token)
            if following is None:
                return False
        self._history.append(state)
        self._tokens.append(token)
        self._state = following
        return True

    def rollback(self, count: int = 1) -> None:
        """Takes back the last `count` accepted tokens, the end among them.

        Raises MatcherError if fewer were accepted.
        """
        history = self._history
        if not 0 <= count <= len(history):
            raise MatcherError(f"cannot take back {count} tokens, {len(history)} were accepted")
        if count:
            self._state = history[-count]
            del history[-count:], self._tokens[-count:]

    def fork(self) -> Matcher:
        """An independent matcher at the same place, with the same history."""
        return self._forked(Matcher(self.level, self._automaton, self._state, self._history.copy()))

    def _forked(self, fork: Forked) -> Forked:
        fork._tokens, fork._began, fork.afresh = self._tokens.copy(), self._began, self.afresh
        return fork

    def is_accepting(self) -> bool:
        """Whether the text may end here (a token of the end would be taken)."""
        known = self._state.accepting
        return self._with_room(self._accepting) if known is None else known

    def _accepting(self) -> bool:
        with self.level._lock:
            return self.level._states.accepting(self._state)

    def is_terminated(self) -> bool:
        """Whether the end was accepted."""
        return self._state is self.level._states.terminated

    def pointer(self) -> str | None:
        """The JSON pointer of the part of the schema that is in force here; None where there is none (`pointers`)."""
        if self.is_terminated():
            return None
        with self.level._lock:
            return pointer(self.level.tables, self._state.configuration)

    def forced(self) -> bytes:
        """The bytes that every continuation begins with; b"" where there is a choice, the end included."""
        return self._with_room(self._forced)

    def _forced(self) -> bytes:
        state = self._state
        if state.forced is None:
            if self.is_terminated():
                return b""
            with self.level._lock:
                state.forced = self.level._states.stepper.forced(state.configuration, FORCED_LIMIT)
        return state.forced

    def way_out(self) -> Way:
        """A shortest way, or nearly, to where the text may end; remembered for the state.

        Raises BudgetError where it is absurdly long, MatcherError if the vocabulary cannot spell it.
        """
        return self._with_room(self._way_out)

    def _way_out(self) -> Way:
        state = self._state
        if state.way is None:
            if self.is_terminated() or self.is_accepting():
                state.way = Way(b"", (state.configuration,), self.level.vocabulary, self.level.tables)
            else:
                with COURTESY.working():
                    state.way = self._new_way(state.configuration)
        return state.way

    def _new_way(self, at: Configuration) -> Way:
        """A way out that the vocabulary spells. The shortest text may hold bytes that are no tokens, as the last of a
        character of which the first is one; then it is sought beyond each of the next tokens.
        """
        level = self.level
        stepper, vocabulary = level._states.stepper, level.vocabulary
        with level._lock:
            data = self._automaton.completion(at)
            way = trace(at, data, level.tables, stepper, vocabulary)
        if way is not None and way.tokens is not None:
            return way
        row = np.zeros(vocabulary.words, np.int32)
        with level._lock:
            level._states.write_mask(level._states.at(at), row)
        for token in ids_of(row)[:MOST_TRIED]:
            first = vocabulary.tokens[token]
            with level._lock:
                end = None if first is None else stepper.run(at, first)
                if first is None or end is None:
                    continue
                way = trace(at, first + self._automaton.completion(end), level.tables, stepper, vocabulary)
                if way is not None and way.tokens is not None:
                    return way
        raise MatcherError(f"no tokens of the vocabulary spell the way out {data!r}")

    def way_home(self, way: Way, count: int) -> Way | None:
        """A way out of at most `count` tokens, None if none is known: from `way`, one from before the last tokens.

        What it says depends on the text and on `way` only, not on what other matchers have asked.
        """
        if self.is_accepting():
            return Way(b"", (self._state.configuration,), self.level.vocabulary, self.level.tables)
        try:
            joined = self._with_room(lambda: self._joined(way))
            if joined is not None and joined.fits(count):
                return joined
            fresh = self.way_out()
        except FullError:
            raise
        except (GrammarError, MatcherError):  # too long, too hard to find, or nothing spells it
            return None
        return fresh if fresh.fits(count) else None

    def _joined(self, way: Way) -> Way | None:
        """The shortest way from here onto another and on; None where there is none, or it is one of other tables."""
        at, level = self._state.configuration, self.level
        if way.tables is not level.tables:
            return None
        with level._lock:
            joined = way.joined(at, level.tables, level._states.stepper)
            if joined is not None:
                self._state.joined = way.data
                return joined
            data = self._automaton.completion(at, way)
            return way.rejoined(at, data, level._states.stepper)

    @contextmanager
    def at_once(self, token: int, way: Way, *, forced: bool) -> Iterator[bool]:
        """Whether to accept the token, find the way home from `way` and fill the mask there takes microseconds, since
        all of it was asked before and nobody works on the tables; nobody will while the context lasts.

        `forced`: and to ask what is forced there, which is nothing.
        """
        lock = self.level._lock
        if way.tables is not self.level.tables or not lock.enter_if_free():
            yield False
            return
        try:
            yield self.level._states.is_known(self._state, token, way, forced=forced)
        finally:
            lock.leave()

    def closing(self) -> tuple[int, ...]:
        """Tokens of a shortest way to where the text may end: accepted in this order they all are taken.

        Raises as `way_out`.
        """
        return self.way_out().tokens or ()

    def distance(self) -> int:
        """How many tokens suffice to reach a place where the text may end: the length of `closing()`.

        An upper bound: the fewest tokens for the way out with the fewest bytes. After a token of one's own choice it
        may be larger; following `closing()` to its end always takes as many tokens as it says.
        """
        return len(self.closing())


def _as_int32(rows: MaskRow) -> npt.NDArray[np.int32]:
    if rows.dtype is _INT32:
        return rows  # type: ignore[return-value]
    if rows.dtype == np.int32:
        return rows  # type: ignore[return-value]
    if rows.dtype == np.uint32:
        view: Any = rows.view(np.int32)
        return view  # type: ignore[no-any-return]
    raise MatcherError(f"mask rows are {rows.dtype}, not int32 or uint32")


def ids_of(row: npt.NDArray[np.int32]) -> list[int]:
    """The tokens of a mask row, int32 [words], in the order of their ids."""
    return np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little")).tolist()
