"""JSON Schemas within grammars: the JSON automaton's frames on top of a grammar's.

Where nothing but one schema can go on, the text enters the frames of its automaton, and comes back to the grammar
where the value ends. Where other things can go on as well (another schema, plain text, a number that digits follow),
all of them are followed in lockstep: a *mixed* frame holds the configurations that are alive, and each byte moves each
of them. That is exact too, but it is Python for each byte that is tried, and a string or object that is read so stays
so to its end; where one alternative is left at the beginning of a lexeme, it goes on alone.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Final

from ..automaton.answers import Answer, Exact, Open
from ..automaton.automaton import JsonAutomaton
from ..automaton.codes import FIRST_LABEL, TOKEN_BYTE, VALUE_END
from ..automaton.completion import Completer
from ..automaton.frames import Texts
from ..automaton.stepper import Configuration, ends, follow, step, token_edges
from ..automaton.tables import Tables
from ..automaton.tokencodes import TokenEdges
from ..automaton.values import ValueHandler, value_frame
from ..errors import BudgetError
from .contexts import Closed

if TYPE_CHECKING:
    from .automaton import GrammarAutomaton
    from .unions import Thread

MAX_ALIVE: Final = 64
_IN_TOKENS: Final = 256
"""Labels of bytes from this one on are those of ids of tokens."""
_NUMBER_BYTES: Final = sum(1 << byte for byte in b"0123456789.eE+-")


Tokens = tuple[frozenset[int], frozenset[int] | None] | None


class Return:
    """What follows an embedded value: the grammar goes on with a thread."""

    scopes = 0
    depth = 0
    closing_tags = 0

    def __init__(self, automaton: GrammarAutomaton, thread: Thread, runs_on: bool) -> None:
        self._automaton = automaton
        self._thread = thread
        self.runs_on = runs_on
        """Whether the value may be a number that what follows could be more of."""
        self.key: Hashable = ("grammar", automaton.number, thread)

    def end(self, tags: int, texts: Texts | None) -> Answer:
        return self._automaton.enter((self._thread,))

    def close(self, texts: Texts | None) -> Answer:
        return None

    def endings(self, tags: int) -> Iterable[tuple[int, int]]:
        return ((0, 0),)


class Embedder:
    """The embedded schemas of one grammar, by number."""

    def __init__(self, tables: Tables, schemas: list[JsonAutomaton]) -> None:
        self._tables = tables
        self._schemas = schemas
        self._texts = [schema.completion(schema.start) for schema in schemas]
        self._completer = Completer(tables)
        self._mixed: dict[int, frozenset[Configuration]] = {}
        self._rows: dict[tuple[bool, Tokens], int] = {}
        self._automaton: GrammarAutomaton | None = None

    def bind(self, automaton: GrammarAutomaton) -> None:
        """Tells which automaton the schemas are part of."""
        self._automaton = automaton

    @property
    def automaton(self) -> GrammarAutomaton:
        """The grammar around."""
        assert self._automaton is not None
        return self._automaton

    @property
    def costs(self) -> list[int]:
        """The length of a shortest text of each schema, in bytes."""
        return [len(text) for text in self._texts]

    def shortest(self, number: int) -> bytes:
        """A shortest text of a schema."""
        return self._texts[number]

    def enter(self, closed: Closed) -> tuple[int, int] | None:
        """The row and frame where schemas may begin, and perhaps other things."""
        starts = [self._begin(number, thread) for number, thread in closed.schemas]
        if len(starts) == 1 and not closed.live and not closed.ended and not self._may_run_on(starts[0]):
            return starts[0].row, starts[0].frame
        alive = set(starts)
        if closed.live:
            row, frame = self.automaton.placed(closed)
            alive.add(Configuration(row, frame))
        return self._place(frozenset(alive), closed.ended)

    def completion(self, at: Configuration) -> tuple[bytes, Configuration | None] | None:
        """A way from within a schema to where the grammar goes on, and that place; None outside of schemas.

        In a mixed frame the way leads to the end of the text, without a place.
        """
        alive = self._mixed.get(at.frame)
        if alive is not None:
            return min((self.automaton.completion(each) for each in sorted(alive)), key=len), None
        if self.automaton.places(at.frame) is not None:
            return None
        outside = _Outside(self.automaton)
        data = self._completer.completion(at, outside)
        return data, outside.found

    # ---- for the tables

    def fill(self, frame: int, label: int) -> Exact:
        """After one more byte, which is the label, for everything that is alive in a mixed frame."""
        tables = self._tables
        if label == VALUE_END:
            return tables.end_row, tables.end_frame
        byte = label - FIRST_LABEL
        alive = set[Configuration]()
        for each in self._mixed[frame]:
            if byte >= _IN_TOKENS:
                edges = token_edges(tables, each)
                ready = [] if edges is None else [edges[0]]
            else:
                ready = self._ready(each)
            for one in ready:
                after = step(tables, one, byte % _IN_TOKENS)
                if after is not None:
                    alive.add(after)
        if not alive:
            return None
        if len(alive) == 1:
            only = next(iter(alive))
            stacks = tables.stacks
            if only.length == 0 and not any(only.texts) and not self._may_run_on(only) and not stacks.rest[only.stack]:
                if only.stack:
                    return Open(only.row, only.frame, int(stacks.top[only.stack]))
                return only.row, only.frame
        return self._place(frozenset(alive), any(ends(tables, each) for each in alive))

    def resolve(self, frame: int, label: int, texts: Texts) -> Exact:
        return self.fill(frame, label)

    # ---- parts

    def _begin(self, number: int, thread: Thread) -> Configuration:
        schema = self._schemas[number]
        position = schema.builder.position({schema.builder.algebra.root: 1})
        after = Return(self.automaton, thread, self._runs_on(number, thread))
        row, frame = value_frame(schema.builder, position, after)
        return Configuration(row, frame, 0, (b"",) * int(self._tables.scopes[frame]))

    def _may_run_on(self, at: Configuration) -> bool:
        handler = self._tables.handler(at.frame)
        return isinstance(handler, ValueHandler) and isinstance(handler.after, Return) and handler.after.runs_on

    def _runs_on(self, number: int, thread: Thread) -> bool:
        """Whether a number of the schema may be followed by what could be more of the number."""
        builder = self._schemas[number].builder
        if not builder.algebra.numbers(builder.algebra.root):
            return False
        return bool(self.automaton.rows.next_bytes(thread[0]) & _NUMBER_BYTES)

    def _ready(self, at: Configuration) -> list[Configuration]:
        """The configuration itself, and the one after the value if that may have ended already (a number)."""
        tables = self._tables
        tables.build_row(at.row)
        label = int(tables.accept[at.row]) - 1
        if label < 0 or self.automaton.places(at.frame) is not None or at.frame in self._mixed:
            return [at]
        after = follow(tables, at.frame, label, at.texts, at.stack)
        return [at] if after is None or after.row == tables.end_row else [at, after]

    def _place(self, alive: frozenset[Configuration], ended: bool) -> tuple[int, int]:
        if len(alive) > MAX_ALIVE:
            raise BudgetError(
                f"more than {MAX_ALIVE} readings of JSON beside other text are open at once",
                remedy="let a text before each schema tell them apart",
            )
        tables = self._tables
        key = (self.automaton.number, "mixed", alive)
        frame = tables.find(key)
        if not frame:
            frame = tables.frame(key, self, labels=FIRST_LABEL + 2 * _IN_TOKENS)
            self._mixed[frame] = alive
        return self._row(ended, self._tokens(alive)), frame

    def _tokens(self, alive: Iterable[Configuration]) -> Tokens:
        """The tokens that one of these may take as such: see `TokenEdges`; None if there are none."""
        ids = frozenset[int]()
        excluded: frozenset[int] | None = None
        for each in alive:
            found = token_edges(self._tables, each)
            if found is not None:
                _, here, others = found[1]
                ids |= here
                if others is not None:
                    excluded = others if excluded is None else excluded & others
        return (ids, excluded) if ids or excluded is not None else None

    def _row(self, ended: bool, tokens: Tokens) -> int:
        key = (ended, tokens)
        row = self._rows.get(key)
        if row is None:
            row = self._rows[key] = self._reading(FIRST_LABEL)
            if ended:
                self._tables.accept[row] = VALUE_END + 1
            if tokens is not None:
                ids, excluded = tokens
                others = None if excluded is None else excluded - ids
                self._tables.token_rows[row] = TokenEdges(self._reading(FIRST_LABEL + _IN_TOKENS), ids, others)
        return row

    def _reading(self, first: int) -> int:
        """A row that leads with each byte of a text or an id to a label of its own, from `first` on."""
        row = self._tables.dense()
        for byte in range(TOKEN_BYTE):
            self._tables.rows[row, byte] = -(first + byte + 1)
        return row


class _Outside:
    """The configurations outside of schemas, as a container that remembers what it was asked for last."""

    def __init__(self, automaton: GrammarAutomaton) -> None:
        self._automaton = automaton
        self.found: Configuration | None = None

    def __contains__(self, at: object) -> bool:
        assert isinstance(at, Configuration)
        inside = self._automaton.is_embedded(at.frame)
        self.found = None if inside else at
        return not inside
