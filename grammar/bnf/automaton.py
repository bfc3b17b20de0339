"""The byte automaton of a general grammar: rows of local states over frames of contexts.

A configuration is a row, which says where in the rules' bodies the text may stand, and a frame, which says for each of
these places what is around it: the tuple of its contexts. Where rules begin or end, `fill` works out what follows,
once; the tables remember. A context-free language needs sets of stacks, and these frames are just that.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from itertools import count
from typing import Final

from ..automaton.answers import Answer, Depends, Exact
from ..automaton.codes import BIG, VALUE_END
from ..automaton.stepper import ByteAutomaton, Configuration
from ..automaton.tables import Tables
from ..errors import BudgetError
from .analysis import Analysis
from .captures import Parser
from .cells import Cells
from .contexts import ROOT, Closed, Contexts, Thread
from .embed import Embedder
from .lower import START, Lowered
from .rows import Rows
from .ways import WayFinder

MAX_TEXT: Final = 32_768
_MOST_SPARE: Final = 512
_BYTES_PER_FRAME: Final = 1_500
MAX_TRANSITIONS: Final = 6_000_000
_SPARE: Final = 8
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
        self._entered: dict[tuple[tuple[Thread, ...], int], tuple[int, int] | None] = {}
        self._kinds: dict[int, tuple[int, int, int, int]] = {}
        self._live: dict[tuple[tuple[tuple[int, ...], ...], bool], int] = {}
        self._embedder = embedder
        self.parser: Parser | None = None
        """Tells what a text's captures are; None for grammars without."""
        self._ways = WayFinder(self)
        with tables.lock:
            embedder.bind(self)
            start = self.enter(((self.cells.start(START), ROOT),))
            assert start is not None, "a grammar without texts"
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
        return self.enter(tuple([(state, places[place]) for state, place in states]), still)

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

    def enter(self, threads: tuple[Thread, ...], still: int = -1) -> tuple[int, int] | None:
        """(row, frame) after events happen to these threads; None if no text goes on then.

        `still`: the bytes of which one is to be read now, as bits.
        """
        if still == -1:
            while len(threads) == 1:
                (state, context), = threads
                kind = self._kinds.get(state) or self._kind(state)
                if kind[0] == _ENDED:
                    threads = self.contexts.returns(context, kind[1])
                elif kind[0] == _BEGUN:
                    return self._begun(context, state, kind)
                elif kind[0] == _COUNTED:
                    return kind[1], self._frame((context,), kind[2])
                else:
                    break
        key = (threads, still)
        try:
            return self._entered[key]
        except KeyError:
            found = self._entered[key] = self._enter(threads, still)
            return found

    def _enter(self, threads: tuple[Thread, ...], still: int) -> tuple[int, int] | None:
        closed = self.contexts.close(threads)
        if still != -1:
            idle = {thread for thread in threads if not self.rows.read_bytes(thread[0]) & still}
            closed = replace(closed, live=tuple([thread for thread in closed.live if thread not in idle]))
        if closed.schemas:
            return self._embedder.enter(closed)
        if not closed.live:
            return (self.tables.end_row, self.tables.end_frame) if closed.ended else None
        return self.placed(closed)

    def placed(self, closed: Closed) -> tuple[int, int]:
        """The row and the frame of what may come next."""
        by_context: dict[int, list[int]] = {}
        for state, context in closed.live:
            if context in by_context:
                by_context[context].append(state)
            else:
                by_context[context] = [state]
        groups = sorted([(tuple(sorted(states)), context) for context, states in by_context.items()])
        key = (tuple([states for states, _ in groups]), closed.ended)
        row = self._live.get(key)
        if row is None:
            states = frozenset((state, place) for place, own in enumerate(key[0]) for state in own)
            row = self._live[key] = self.rows.live(states, closed.ended)
        return row, self._frame(tuple([context for _, context in groups]), BIG)

    def _kind(self, state: int) -> tuple[int, int, int, int]:
        """What happens to a thread that is alone, whatever its context: see `_ENDED` and those after it."""
        counted = self.rows.counted(state)
        rule = self.cells.ended(state)
        if counted is not None:
            chars, most, after = counted
            kind = (_COUNTED, self.rows.counting(chars, after), most, 0)
        elif rule > START:
            kind = (_ENDED, rule, 0, 0)
        else:
            kind = self._new_beginning(state) or (_OTHER, 0, 0, 0)
        self._kinds[state] = kind
        return kind

    def _begun(self, context: int, state: int, kind: tuple[int, int, int, int]) -> tuple[int, int]:
        """`placed` for one thread where nothing ends: the row is the same for every context."""
        _, row, reads, later = kind
        if not later:
            return row, self._frame((context,), BIG)
        new = self.contexts.begun((state, context))
        if not reads:
            return row, self._frame((new,), BIG)
        if new == context:  # both are one place then
            return self.placed(self.contexts.close(((state, context),)))
        return row, self._frame((context, new) if later > 0 else (new, context), BIG)

    def _new_beginning(self, state: int) -> tuple[int, int, int, int] | None:
        found = self.contexts.beginning(state)
        if found is None or found == (False, ()):
            return None
        reads, starts = found
        own, new = (state,), tuple(sorted(starts))
        groups = sorted(group for group in ((own,) if reads else ()) + ((new,) if new else ()))
        row = self.rows.live(frozenset((one, place) for place, group in enumerate(groups) for one in group), False)
        return _BEGUN, row, int(reads), 0 if not new else 1 if groups[-1] == new else -1

    def _frame(self, places: Places, most: int) -> int:
        key = (self.number, "grammar", places, most)
        frame = self.tables.find(key)
        if not frame:
            if len(self._frames) * self.rows.label_count > MAX_TRANSITIONS:
                raise BudgetError(
                    f"the grammar has more than {MAX_TRANSITIONS} transitions on this text",
                    remedy="use fewer rules that call each other",
                )
            frame = self.tables.frame(key, self, labels=min(self.rows.label_count + _SPARE, _MOST_SPARE), high=most)
            self._frames[frame] = places
            self.tables.outside += _BYTES_PER_FRAME
        return frame
