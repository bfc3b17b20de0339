"""Sets of local states as rows of the tables: where no rule begins or ends, a grammar is a table walk.

A row is a set of (state, place of its context in the frame). Reading a character leads to another set. If rules begin
or end there (an *event*), the row's value is a label, and the frame says what follows. Where some bytes go on without
the event and can not come after it, the event waits for the next byte: the row reads those bytes alone, and accepts
with the label before all others, as numbers do. What can come after an event is known from the whole grammar, so it
may be more than under a given frame; then the frame is asked where it need not be.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise
from typing import Final

import numpy as np

from ..automaton.codes import COUNT, FIRST_LABEL, HIGH_BYTES, TOKEN_BYTE, VALUE_END
from ..automaton.tables import Int32s, Tables
from ..automaton.text import Bytes, Suffixes
from ..automaton.tokencodes import TokenEdges, spelled
from ..errors import BudgetError
from ..regular import ALL, CharSet
from .analysis import JSON_FIRST, Analysis, first_bytes
from .cells import SEVERAL, Cells
from .classes import Blocks, Ranges, States, bytes_of, classes_of, spellings, split, values_of_few
from .lower import START

MAX_STATES: Final = 10_000
_LEADS: Final = list(range(0xC2, 0xF5))
_WIDE_FROM: Final = 26
_ALPHABET: Final = 26


class Rows:
    """The rows of one grammar."""

    def __init__(self, tables: Tables, cells: Cells, analysis: Analysis) -> None:
        self._tables = tables
        self._cells = cells
        self._analysis = analysis
        self._rows: dict[tuple[States, int, bool], int] = {}
        self._content: dict[int, tuple[States, int, bool]] = {}
        self._counting: dict[tuple[CharSet, States], int] = {}
        self._labels: dict[tuple[States, int], int] = {}
        self._meanings: list[tuple[States, int]] = []
        self._values: dict[States, int] = {}
        self._inside: dict[Suffixes, int] = {}
        self._suffixes: dict[int, Suffixes] = {}
        self._wide: dict[tuple[tuple[Ranges, int], ...], Int32s] = {}
        """What bytes above ASCII lead to, by the sets of longer characters and what these lead to."""
        self._facts: dict[int, tuple[bool, int, int]] = {}

    def live(self, states: States, ending: int) -> int:
        """The row where all events have happened; `ending`: the label by which all of it may have ended, -1: none."""
        return self._row(states, ending, False)

    def counting(self, chars: CharSet, after: States) -> int:
        """The row that counts characters of a set until something else comes, which the states `after` read."""
        key = (chars, after)
        row = self._counting.get(key)
        if row is None:
            row = self._counting[key] = self._tables.dense()
            self._content[row] = (after, -1, True)
            self._tables.accept[row] = self.label(after) + 1
            self._tables.apart[row] = self.bytes_after
            values = self._tables.rows[row]
            blocks = [(chars.ascii, chars.wide, row)]
            self._fill(values, blocks)
            np.bitwise_or(values, COUNT, out=values, where=values > 0)
            self._note_loops(row, values, blocks, 0, counted=True)
        return row

    def states(self, row: int) -> tuple[States, int, bool] | None:
        """(states, `ending`, whether events are waiting) of a row; None for rows inside characters."""
        return self._content.get(row)

    def inside(self, row: int) -> Suffixes | None:
        """What may follow in a row inside a character, and the value that each spelling leads to."""
        return self._suffixes.get(row)

    def meaning(self, label: int) -> tuple[States, int]:
        """The states that a label stands for, and the bytes that are still to be read, as bits (-1: any).

        Where the events of a row waited for a byte, only what can read such a byte is of interest any more.
        """
        return self._meanings[label - FIRST_LABEL]

    def label(self, states: States, still: int = -1) -> int:
        """The label of states to which events happen; `still`: the bytes of which one is to be read after them."""
        key = (states, still)
        found = self._labels.get(key)
        if found is None:
            found = self._labels[key] = FIRST_LABEL + len(self._meanings)
            self._meanings.append(key)
        return found

    def read_bytes(self, state: int) -> int:
        """The bytes that a state reads by itself, as bits."""
        return self._of(state)[1]

    @property
    def label_count(self) -> int:
        """Labels in use, those of the tables' own among them."""
        return FIRST_LABEL + len(self._meanings)

    def next_bytes(self, state: int) -> int:
        """Bytes that may be read next from a state, by itself or after events, as bits; at worst more than these."""
        _, reads, follows = self._of(state)
        return reads | follows

    def counted(self, state: int) -> tuple[CharSet, int, int] | None:
        """`Cells.counted`, where a byte tells whether the run goes on: only then a counter beside the row is enough."""
        counted = self._cells.counted(state)
        if counted is None or self.next_bytes(counted[2]) & first_bytes(counted[0]):
            return None
        return counted

    def counted_alike(self, states: Iterable[int]) -> tuple[CharSet, int] | None:
        """(set, how often at most) if all these states are long counted runs of it that go on as often."""
        alike: tuple[CharSet, int] | None = None
        for state in states:
            counted = self.counted(state)
            if counted is None or (alike is not None and alike != counted[:2]):
                return None
            alike = counted[:2]
        return alike

    def bytes_after(self, label: int) -> int:
        """Bytes that may come after the end with a label, in any place, as bits; at worst more than these."""
        if label == VALUE_END:
            return 0
        states, bits = self.meaning(label)
        if bits == -1:
            bits = 0
            for state, _ in states:
                bits |= self.next_bytes(state)
        return bits

    # ---- parts

    def _row(self, states: States, ending: int, waiting: bool) -> int:
        key = (states, ending, waiting)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._tables.lazy(self._build)
            self._content[row] = key
            if waiting:
                ending = self._waiting_label(states)
            self._tables.accept[row] = ending + 1
            if ending > VALUE_END:
                self._tables.apart[row] = self.bytes_after
        return row

    def _waiting_label(self, states: States) -> int:
        """The label of a row whose events wait for a byte: without what no such byte goes on with, so that a word is
        one and the same whichever keyword it began like.
        """
        still = self._events_of(states)
        alive = []
        for each in states:
            happens, reads, _ = self._of(each[0])
            if happens or reads & still:
                alive.append(each)
        return self.label(states if len(alive) == len(states) else frozenset(alive), still)

    def _of(self, state: int) -> tuple[bool, int, int]:
        """(whether an event may happen in a state, the bytes it reads by itself, those after events), bytes as bits."""
        return self._facts.get(state) or self._find_facts(state)

    def _find_facts(self, state: int) -> tuple[bool, int, int]:
        info = self._cells.info(state)
        reads = 1 << TOKEN_BYTE if info.tokens else 0
        for chars, _ in info.edges:
            reads |= first_bytes(chars)
        follows = JSON_FIRST if info.schemas else 0
        for rule, _ in info.calls:
            follows |= self._analysis.first_of(rule)
        if info.final > START:
            follows |= self._analysis.follow[info.final % self._cells.rule_count]
        found = self._facts[state] = (info.final >= 0 or bool(info.calls or info.schemas), reads, follows)
        return found

    def _without_fewer(self, states: States) -> States:
        """The states without those that a text comes to from others without reading anything, and those that may only
        repeat less often than another that is the same otherwise.
        """
        if len(states) == 1:
            return states
        if len(states) >= SEVERAL:
            states = self._first_of(states)
        alike = {state: self._cells.shape(state)[0] for state, _ in states}
        if len(set(alike.values())) == len(alike) and len(states) <= MAX_STATES:
            return states
        best: dict[tuple[tuple[int, ...], int], tuple[int, int]] = {}
        for state, place in states:
            shape, often = self._cells.shape(state)
            known = best.get((shape, place))
            if known is None or known[0] < often:
                best[shape, place] = (often, state)
        if len(best) > MAX_STATES:
            raise BudgetError(
                f"the grammar is too ambiguous: more than {MAX_STATES} places in its rules are open at once",
                remedy="let the rules tell what they read apart, and repetitions end where their parts show it",
            )
        if len(best) == len(states):
            return states
        return frozenset((state, place) for (_, place), (_, state) in best.items())

    def _first_of(self, states: States) -> States:
        """The states without those that a text comes to from others: the first of parts that may be left out."""
        kept, beyond = [], dict[int, set[int]]()
        for state, place in sorted(states, reverse=True):  # younger ones first: states are made from the end of a rule
            there = beyond.setdefault(place, set())
            if state not in there:
                kept.append((state, place))
                there |= self._cells.beyond(state)
        return states if len(kept) == len(states) else frozenset(kept)

    def _events_of(self, states: States) -> int:
        bits = 0
        for state, _ in states:
            bits |= self._of(state)[2]
        return bits

    def _value(self, states: States) -> int:
        """What a character that leads to these states has for a value in its row."""
        value = self._values.get(states)
        if value is None:
            value = self._values[states] = self._new_value(states)
        return value

    def _new_value(self, states: States) -> int:
        if self.counted_alike([state for state, _ in states]) is not None:
            return -(self.label(states) + 1)
        happens, read, events = False, 0, 0
        for state, _ in states:
            one, reads, follows = self._of(state)
            happens = happens or one
            read |= reads
            events |= follows
        if not happens:
            return self._row(states, -1, False)
        if read & ~events:
            return self._row(states, -1, True)
        return -(self.label(states) + 1)

    def _build(self, row: int) -> None:
        states = self._content[row][0]
        if len(states) == 1 and self._build_letter(row, *next(iter(states))):
            return
        edges: dict[CharSet, set[tuple[int, int]]] = {}
        tokens: list[tuple[frozenset[int], bool, tuple[int, int]]] = []
        for state, place in states:
            info = self._cells.info(state)
            for chars, target in info.edges:
                if chars in edges:
                    edges[chars].add((target, place))
                else:
                    edges[chars] = {(target, place)}
            if info.tokens:
                tokens += [(ids, not_these, (to, place)) for (ids, not_these), to in info.tokens]
        events = self._events_of(states) if self._content[row][2] else 0
        blocks = [
            (bits, ranges, self._value(self._without_fewer(targets))) for bits, ranges, targets in split(edges)
        ]
        if tokens:
            self._tables.token_rows[row] = self._token_edges(tokens)
        few = values_of_few(blocks, events)
        if few is not None:
            self._tables.set_sparse(row, 0, few.items())
            if row not in few.values():
                return
        values = np.zeros(256, np.int32)
        self._fill(values, blocks)
        if events:
            values[bytes_of(events)] = 0
        if few is None:
            self._tables.rows[row] = values
        self._note_loops(row, values, blocks, events)

    def _build_letter(self, row: int, state: int, place: int) -> bool:
        """Makes the row of a state that reads one byte, as within a text; False where it is another.

        The rows of further letters of the same word are made with it.
        """
        letter = self._cells.letter(state)
        if letter is None or self._content[row][2]:
            return False
        while letter is not None:
            byte, target = letter
            states = frozenset(((target, place),))
            letter = self._cells.letter(target)
            key = (states, -1, False)
            if letter is not None and key not in self._rows:
                following = self._rows[key] = self._values[states] = self._tables.sparse()
                self._content[following] = key
            else:
                letter, following = None, self._value(states)
            self._tables.set_sparse(row, 0, ((byte, following),))
            row = following
        return True

    def _fill(self, values: Int32s, blocks: Blocks) -> None:
        """Writes what characters lead to."""
        wide = []
        for bits, ranges, value in blocks:
            if bits & bits - 1 == 0:
                if bits:
                    values[bits.bit_length() - 1] = value
            else:
                values[bytes_of(bits)] = value
            if ranges:
                wide.append((ranges, value))
        if wide:
            key = tuple(wide)
            known = self._wide.get(key)
            if known is None:
                longer = [(spelling, value) for ranges, value in wide for spelling in spellings(ranges)]
                self._spell(values, longer)
                self._wide[key] = values[0x80:].copy()
            else:
                values[0x80:] = known

    def _spell(self, values: Int32s, suffixes: Iterable[tuple[Bytes, int]]) -> None:
        longer: dict[tuple[int, int], list[tuple[Bytes, int]]] = {}
        for ((first, last), *rest), value in suffixes:
            if rest:
                longer.setdefault((first, last), []).append((tuple(rest), value))
            else:
                values[first : last + 1] = value
        leads = sorted(longer)
        if any(following[0] <= lead[1] for lead, following in pairwise(leads)):
            apart: dict[tuple[int, int], list[tuple[Bytes, int]]] = {}
            for (first, last), after in longer.items():
                for byte in range(first, last + 1):
                    apart.setdefault((byte, byte), []).extend(after)
            longer = apart
        for (first, last), after in longer.items():
            values[first : last + 1] = self._inner(tuple(after))

    def _inner(self, suffixes: Suffixes) -> int:
        row = self._inside.get(suffixes)
        if row is None:
            row = self._inside[suffixes] = self._tables.dense()
            self._suffixes[row] = suffixes
            self._spell(self._tables.rows[row], suffixes)
        return row

    def _note_loops(
        self, row: int, values: Int32s, blocks: Blocks, events: int, *, counted: bool = False
    ) -> None:
        """Tells which characters lead back to the row, so that whole parts of a vocabulary are passed over at once.

        `events`: the bytes that it does not read since events wait for them, as bits.
        """
        own: Ranges | None = None
        looping = 0
        for bits, ranges, value in blocks:
            if value == row:
                own = ranges if own is None else own
                looping |= bits
        if own is None:
            bits, _, value = max(blocks, key=lambda block: block[0].bit_count(), default=(0, (), 0))
            if value > 0 and bits.bit_count() >= _ALPHABET:  # most words go on there, whatever they began with
                self._tables.wide[row] = value
            return
        looping &= ~events
        classes = classes_of(looping)
        everything = own == ALL.wide and bool(values[_LEADS].all())
        if everything:
            classes |= 1 << HIGH_BYTES
        if not classes:
            return
        tables = self._tables
        tables.set_loops(row, classes, counted=counted)
        if everything:
            waiting = list(set(values[0xC2:0xF5].tolist()))
            seen: set[int] = set()
            while waiting:
                inner = waiting.pop() & ~COUNT
                if inner not in self._suffixes or inner in seen:
                    continue
                seen.add(inner)
                tables.loops[inner] = tables.loops[row]
                waiting += set(tables.rows[inner][0x80:0xC0].tolist())
        if looping.bit_count() >= _WIDE_FROM:
            tables.wide[row] = row

    def _token_edges(self, tokens: list[tuple[frozenset[int], bool, tuple[int, int]]]) -> TokenEdges:
        """Makes the rows that read three bytes with a token's id."""
        tables = self._tables
        named = frozenset[int]().union(*(ids for ids, _, _ in tokens))
        others = frozenset(target for _, negated, target in tokens if negated)
        usual = [0, 0, 0, self._value(others) if others else 0]  # by depth: what ids lead to that nobody names
        for depth in (2, 1, 0) if others else ():
            usual[depth] = tables.dense()
            tables.rows[usual[depth], :128] = usual[depth + 1]
        rows: dict[bytes, int] = {}
        for number in sorted(named):
            ids = spelled(number)[1:]
            for depth in range(3):
                prefix = ids[:depth]
                if prefix not in rows:
                    rows[prefix] = tables.dense()
                    tables.rows[rows[prefix], :128] = usual[depth + 1]
                    if depth:
                        tables.rows[rows[prefix[:-1]], prefix[-1]] = rows[prefix]
        taken = set()
        for number in named:
            ids = spelled(number)[1:]
            targets = frozenset(target for given, negated, target in tokens if (number in given) != negated)
            tables.rows[rows[ids[:2]], ids[2]] = self._value(targets) if targets else 0
            if targets:
                taken.add(number)
        return TokenEdges(rows.get(b"", usual[0]), frozenset(taken), named - taken if others else None)
