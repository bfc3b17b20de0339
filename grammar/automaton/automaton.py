"""The byte automaton of one JSON Schema: frames over lexemes, ready to start."""

from __future__ import annotations

from collections.abc import Container
from itertools import count
from typing import Final

from ..algebra import Algebra
from ..schema.expr import Schema
from .arrays import ArrayHandler
from .completion import Completer
from .frames import Builder, Containers, FrameOptions, spelled
from .lexemes import Lexemes
from .objects import ObjectHandler
from .stepper import ByteAutomaton, Configuration
from .tables import Tables
from .values import End, value_frame

_NUMBERS: Final = count(1)  # builders are told apart by number in frame keys: an id would be used again


class JsonAutomaton(ByteAutomaton):
    """What `grammar.tokens` and `grammar.pipeline` run. All methods hold the tables' lock.

    Raises UnsatisfiableError where no value satisfies the schema, BudgetError where its construction is too large.
    """

    def __init__(self, tables: Tables, lexemes: Lexemes, schema: Schema, options: FrameOptions) -> None:
        self.tables = tables
        self._completer = Completer(tables)
        # What may take long needs no lock: other threads go on matching, and so do compilations of other schemas.
        algebra = Algebra(schema, lambda spec: spelled(spec, options))
        algebra.require_satisfiable()
        containers = Containers(ObjectHandler.open, ArrayHandler.open)
        self.builder = Builder(next(_NUMBERS), tables, lexemes, algebra, options, containers)
        position = self.builder.position({algebra.root: 1})
        self.builder.prepare(position)
        with tables.lock:
            row, frame = value_frame(self.builder, position, End(self.builder))
            self.start = Configuration(row, frame)
            self._completer.require_short(self.start)

    def completion(self, at: Configuration, known: Container[Configuration] = ()) -> bytes:
        """A shortest way (or nearly) to where the text may end, or to one of the `known` configurations."""
        with self.tables.lock:
            return self._completer.completion(at, known)
