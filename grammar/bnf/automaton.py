"""The byte automaton of a general grammar: rows of local states over frames of contexts.

A configuration is a row, which says where in the rules' bodies the text may stand, and a frame, which says for each of
these places what is around it: the tuple of its contexts. Where rules begin or end, `fill` works out what follows,
once; the tables remember. A context-free language needs sets of stacks, and these frames are just that.

Where all that can go on began in one and the same place, the threads from before it wait on the stack (`_waiting`), and
the frame does not know of them: a rule's rows, frames and masks are then the same wherever it is called from. Where the
rule ends, or may have ended while something that begins alike goes on in it, they come back with all that is alive.
In grammars with schemas nothing waits: there the stack is the schemas'.
"""

from __future__ import annotations

from collections.abc import Container
from itertools import count
from typing import Final

from ..automaton.answers import Answer, Close, Depends, Exact, Open
from ..automaton.codes import BIG, VALUE_END
from ..automaton.stepper import ByteAutomaton, Configuration
from ..automaton.tables import Tables
from ..errors import BudgetError
from ..regular import CharSet
from .analysis import Analysis
from .captures import Parser
from .cells import Cells
from .contexts import ROOT, Closed, Contexts
from .embed import Embedder
from .lower import START, Lowered
from .rows import Rows
from .unions import Thread
from .ways import WayFinder
from .within import OUTSIDE, Outer

MAX_TEXT: Final = 32_768
_MOST_SPARE: Final = 512
_SPARE: Final = 64
"""Labels that a frame has room for beside those there are: beyond that the kernels ask again and again for the same."""
_NUMBERS: Final = count(1)

# What happens to a thread that is alone. _ENDED, rule: a rule ends and nothing else may happen. _BEGUN, row, whether
# it reads, 1 or -1 if what begins has its place after or before it: nothing ends. _COUNTED, row, how often at most.
_OTHER, _ENDED, _BEGUN, _COUNTED = range(4)

Places = tuple[int, ...]


class GrammarAutomaton(ByteAutomaton):
    """What `grammar.tokens` runs for a grammar. All methods hold the tables' lock.

    Raises BudgetError where even the shortest text is absurdly long.
    """

    def __init__(self, tables: Tables, grammar: Lowered, analysis: Analysis, embedder: Embedder) -> None:
        self.tables = tables
        self.number = next(_NUMBERS)
        self.cells = Cells(grammar, analysis)
        self.contexts = Contexts(self.cells)
        self.rows = Rows(tables, self.cells, analysis)
        self._frames: dict[int, Places] = {}
        self._counted = 0  # bytes of contexts that the tables know of
        self._entered: dict[tuple[tuple[Thread, ...], int], Exact] = {}
        self._waiting: dict[int, Outer] = {}
        self._opens = not grammar.schemas
        self._kinds: dict[int, tuple[int, int, int, int]] = {}
        self._live: dict[tuple[tuple[tuple[int, ...], ...], int], int] = {}
        self._embedder = embedder
        self.parser: Parser | None = None
        """Tells what a text's captures are; None for grammars without."""
        self._ways = WayFinder(self)
        tables.takes_tokens |= grammar.pool.takes_tokens
        with tables.lock:
            embedder.bind(self)
            start = self.enter(((self.cells.start(START), ROOT),))
            assert isinstance(start, tuple), "a grammar without texts"
            self.start = Configuration(*start)
            scopes = int(tables.scopes[self.start.frame])
            self.start = self.start._replace(texts=(b"",) * scopes)
            if analysis.cost[grammar.bodies[START]] > MAX_TEXT:
                raise BudgetError(f"every text of the grammar is longer than {MAX_TEXT} characters")

    def completion(self, at: Configuration, known: Container[Configuration] = ()) -> bytes:
        """A shortest way, or nearly, to where the text may end. A known configuration on the way changes nothing."""
        with self.tables.lock:
            return self._ways.completion(at)

    # ---- for the tables

    def fill(self, frame: int, label: int) -> Answer:
        """What follows where the states of `label` were reached under `frame`."""
        if label == VALUE_END:
            return self.tables.end_row, self.tables.end_frame
        places = self._frames[frame]
        states, still = self.rows.meaning(label)
        threads = tuple([(state, places[place] if place >= 0 else -1 - place) for state, place in states])
        outer = self._waiting.get(frame)
        return self.enter(threads if outer is None else self.contexts.within.around(threads, outer), still)

    def resolve(self, frame: int, label: int, texts: tuple[bytes, ...]) -> Exact:
        """The same: nothing here depends on recorded text."""
        answer = self.fill(frame, label)
        assert not isinstance(answer, Depends)
        return answer

    # ---- for the parts

    def is_embedded(self, frame: int) -> bool:
        """Whether a frame is one of an embedded schema, or a mixed one."""
        return frame != self.tables.end_frame and frame not in self._frames

    def within(self, at: Configuration) -> tuple[bytes, Configuration | None] | None:
        """A way out of an embedded schema, see `Embedder.completion`."""
        return self._embedder.completion(at) if self.is_embedded(at.frame) else None

    def shortest_json(self, number: int) -> bytes:
        """A shortest text of an embedded schema."""
        return self._embedder.shortest(number)

    def places(self, frame: int) -> Places | None:
        """The contexts of a frame; None if it is not one of this grammar's."""
        return self._frames.get(frame)

    def resumed(self, frame: int, state: int) -> tuple[Thread, ...]:
        """The threads of a frame from the stack after what was called from there ended in a state."""
        return self.contexts.within.around(((state, OUTSIDE),), self._waiting[frame])

    def enter(self, threads: tuple[Thread, ...], still: int = -1) -> Exact:
        """What is next after events happen to these threads; None if no text goes on then.

        `still`: the bytes of which one is to be read now, as bits.
        """
        if still == -1:
            while len(threads) == 1:
                (state, context), = threads
                kind = self._kinds.get(state) or self._kind(state)
                if kind[0] == _ENDED and context != OUTSIDE:
                    threads = self.contexts.returns(context, kind[1])
                elif kind[0] == _BEGUN:
                    return self._begun(context, state, kind)
                elif kind[0] == _COUNTED:
                    return kind[1], self._frame((context,), kind[2])
                else:
                    break
            else:
                counted = self.rows.counted_alike([state for state, _ in threads]) if threads else None
                if counted is not None:
                    return self._counting(threads, *counted)
        key = (threads, still)
        if key not in self._entered:
            self._entered[key] = self._enter(threads, still)
        return self._entered[key]

    def _enter(self, threads: tuple[Thread, ...], still: int) -> Exact:
        closed = self.contexts.close(threads)
        if still != -1:
            idle = {thread for thread in threads if not self.rows.read_bytes(thread[0]) & still}
            closed = closed._replace(live=tuple([thread for thread in closed.live if thread not in idle]))
        if closed.schemas:
            return self._embedder.enter(closed)
        if closed.left:
            return self._left(threads, closed, still)
        if not closed.live:
            return (self.tables.end_row, self.tables.end_frame) if closed.ended else None
        if self._opens and not closed.ended:
            within = self.contexts.within.seen(frozenset([context for _, context in closed.live]))
            if within is not None:
                outer, inside = within
                live = tuple([(state, inside[context]) for state, context in closed.live])
                return Open(*self.placed(closed._replace(live=live)), self._waiting_frame(outer))
        return self.placed(closed)

    def _left(self, threads: tuple[Thread, ...], closed: Closed, still: int) -> Exact:
        """What is next where a rule that was called from outside may have ended: with it ends what the frame knows, but
        where a byte tells whether something still goes on in it.
        """
        ended = frozenset([(state, -1 - OUTSIDE) for state in closed.left])
        reads = follows = 0
        for state, _ in closed.live:
            reads |= self.rows.read_bytes(state)
        for state in closed.left:
            follows |= self.rows.next_bytes(state)
        if reads and not reads & follows:
            return self.placed(closed, self.rows.label(ended))
        alive = frozenset([(state, -1 - context) for state, context in threads]) if reads else ended
        return Close(self.rows.label(alive, still))

    def _waiting_frame(self, outer: Outer) -> int:
        frame = self._frame(tuple([context for _, context in outer]), BIG, tuple([state for state, _ in outer]))
        self._waiting[frame] = outer
        return frame

    def placed(self, closed: Closed, ending: int = -1) -> tuple[int, int]:
        """The row and the frame of what may come next. `ending`: the label with which all of it may have ended."""
        by_context: dict[int, list[int]] = {}
        for state, context in closed.live:
            if context in by_context:
                by_context[context].append(state)
            else:
                by_context[context] = [state]
        groups = sorted(
            [(tuple(sorted(own) if len(own) > 1 else own), context) for context, own in by_context.items()]
        )
        ending = VALUE_END if closed.ended else ending
        key = (tuple([states for states, _ in groups]), ending)
        row = self._live.get(key)
        if row is None:
            states = frozenset([(state, place) for place, own in enumerate(key[0]) for state in own])
            row = self._live[key] = self.rows.live(states, ending)
        return row, self._frame(tuple([context for _, context in groups]), BIG)

    def _kind(self, state: int) -> tuple[int, int, int, int]:
        """What happens to a thread that is alone, whatever its context: see `_ENDED` and those after it."""
        counted = self.rows.counted(state)
        rule = self.cells.ended(state)
        if counted is not None:
            chars, most, after = counted
            kind = (_COUNTED, self.rows.counting(chars, frozenset(((after, 0),))), most, 0)
        elif rule > START:
            kind = (_ENDED, rule, 0, 0)
        else:
            kind = self._new_beginning(state) or (_OTHER, 0, 0, 0)
        self._kinds[state] = kind
        return kind

    def _begun(self, context: int, state: int, kind: tuple[int, int, int, int]) -> Exact:
        """`placed` for one thread where nothing ends: the row is the same for every context."""
        _, row, reads, later = kind
        if not later:
            return row, self._frame((context,), BIG)
        new = self.contexts.begun((state, context))
        if new == context:  # both are one place then
            return self._enter(((state, context),), -1)
        around = frozenset((context, new) if reads else (new,))
        within = self.contexts.within.seen(around) if self._opens else None
        if within is not None:
            outer, inside = within
            context, new = inside.get(context, context), inside[new]
        places = (new,) if not reads else (context, new) if later > 0 else (new, context)
        frame = self._frame(places, BIG)
        return (row, frame) if within is None else Open(row, frame, self._waiting_frame(outer))

    def _counting(self, threads: tuple[Thread, ...], chars: CharSet, most: int) -> tuple[int, int]:
        """The row and the frame where all threads count the same characters."""
        places = tuple(sorted({context for _, context in threads}))
        after = []
        for state, context in threads:
            counted = self.rows.counted(state)
            assert counted is not None
            after.append((counted[2], places.index(context)))
        return self.rows.counting(chars, frozenset(after)), self._frame(places, most)

    def _new_beginning(self, state: int) -> tuple[int, int, int, int] | None:
        found = self.contexts.beginning(state)
        if found is None or found == (False, ()):
            return None
        reads, starts = found
        own, new = (state,), tuple(sorted(starts))
        groups = sorted(group for group in ((own,) if reads else ()) + ((new,) if new else ()))
        row = self.rows.live(frozenset((one, place) for place, group in enumerate(groups) for one in group), -1)
        return _BEGUN, row, int(reads), 0 if not new else 1 if groups[-1] == new else -1

    def _frame(self, places: Places, most: int, waiting: Places = ()) -> int:
        key = (self.number, "grammar", places, most, waiting)
        frame = self.tables.find(key)
        if not frame:
            frame = self.tables.frame(key, self, labels=min(self.rows.label_count + _SPARE, _MOST_SPARE), high=most)
            self._frames[frame] = places
            self.tables.outside += self.contexts.nbytes - self._counted
            self._counted = self.contexts.nbytes
        return frame
