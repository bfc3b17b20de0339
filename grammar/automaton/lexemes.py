"""Everything scalar in a JSON text, and the punctuation: where a value, a key or what follows an item begins.

Answers are cached by content: equal positions of different schemas share their rows, and with them every mask that was
ever computed there.
"""

from __future__ import annotations

from dataclasses import replace

from .bodies import Bodies
from .charrows import CharRows
from .codes import ARRAY_CLOSE, ARRAY_OPEN, BIG, FIRST_LABEL, OBJECT_OPEN, VALUE_END
from .keys import Keys
from .plain import KEYWORDS, NumberTable, keyword_edges
from .products import Part
from .specs import KeyLexeme, KeySpec, Spelling, ValueSpec, ValueStart, Whitespace
from .strings import StringRows
from .tables import Tables
from .whitespace import Spacing


class Labels:
    """Labels of sets of alternatives, given as the sets are first met."""

    def __init__(self, all_tags: int) -> None:
        self.all_tags = all_tags
        self.tags: list[int] = []
        self._known: dict[int, int] = {all_tags: VALUE_END}

    def of(self, tags: int) -> int:
        label = self._known.get(tags)
        if label is None:
            label = self._known[tags] = FIRST_LABEL + len(self.tags)
            self.tags.append(tags)
        return label


class Lexemes:
    """The rows of one compiler's lexemes, for one spelling and one whitespace mode."""

    def __init__(self, tables: Tables, *, spelling: Spelling = "natural", whitespace: Whitespace | None = None) -> None:
        tables.warm()
        self.tables = tables
        self.spelling: Spelling = spelling
        self.whitespace = whitespace if whitespace is not None else Whitespace()
        self.spacing = Spacing(tables, self.whitespace)
        self.chars = CharRows(tables, spelling)
        self.bodies = Bodies(StringRows(tables, self.chars))
        self.numbers = NumberTable(tables)
        self._keys = Keys(tables, self.chars, self.spacing)
        self._given: dict[ValueSpec, ValueStart] = {}
        self._values: dict[ValueSpec, ValueStart] = {}
        self._literals: dict[tuple[tuple[str, int], ...], list[tuple[int, int]]] = {}

    def after_item(self, may_continue: bool, may_close: bool, depth: int = 0) -> int:
        """The row after an array's item: see `Spacing.after_item`."""
        return self.spacing.after_item(may_continue, may_close, depth)

    def value(self, spec: ValueSpec) -> ValueStart:
        """Where a value of `spec` begins. Raises ValueError if the spec holds nothing that may come."""
        start = self._given.get(spec)
        if start is None:
            with self.tables.lock:
                general = self._normal(spec)
                start = self._values.get(general)
                if start is None:
                    start = self._values[general] = self._value(general)
                if general.all_tags != spec.all_tags:
                    start = replace(start, all_tags=spec.all_tags)
                self._given[spec] = start
        return start

    def keys(self, spec: KeySpec) -> KeyLexeme:
        """The lexeme that reads a key. Raises BudgetError if the patterns of keys are too large together."""
        with self.tables.lock:
            return self._keys.lexeme(spec)

    def extended(self, lexeme: KeyLexeme, name: str) -> KeyLexeme:
        """The lexeme after the undeclared key `name` was used: it may not come again. Cheap: it copies one path."""
        with self.tables.lock:
            return self._keys.extended(lexeme, name)

    def unread(self, depth: int, *, some: bool) -> KeyLexeme:
        """The lexeme between properties where it is not known which keys came (see `Keys.unread`)."""
        with self.tables.lock:
            return self._keys.unread(depth, some=some)

    def _normal(self, spec: ValueSpec) -> ValueSpec:
        """The same position without what makes no difference here, so that more schemas share it."""
        pretty = self.whitespace.mode == "pretty"
        first = pretty and (spec.first_item or spec.closable)
        parts = (*spec.strings, *spec.numbers, *spec.literals)
        alike = all(tags == spec.all_tags for _, tags in parts)
        return replace(
            spec,
            strings=tuple((part, 1 if alike else tags) for part, tags in spec.strings if part.dfa.start is not None),
            numbers=tuple((part, 1 if alike else tags) for part, tags in spec.numbers if part.start is not None),
            literals=tuple((text, 1 if alike else tags) for text, tags in spec.literals),
            all_tags=1 if alike else spec.all_tags,
            leading=spec.leading and self.whitespace.mode == "bounded",
            first_item=first,
            depth=spec.depth if first else 0,
        )

    def _value(self, spec: ValueSpec) -> ValueStart:
        labels = Labels(spec.all_tags)
        edges: list[tuple[int, int]] = []
        low, high = 0, BIG
        if spec.strings:
            body, low, high = self.bodies.start(spec.strings, labels.of)
            if body:
                edges.append((0x22, body))
        if spec.literals:
            edges += self._literal_edges(spec.literals, labels)
        if spec.object:
            edges.append((0x7B, -(OBJECT_OPEN + 1)))
        if spec.array:
            edges.append((0x5B, -(ARRAY_OPEN + 1)))
        close = (0x5D, -(ARRAY_CLOSE + 1))
        if spec.closable and not spec.first_item:
            edges.append(close)
        if not edges and not spec.numbers:
            raise ValueError("a value position at which nothing may come")
        row = self.tables.dense()
        values = self.tables.rows[row]
        if spec.numbers:
            number = self.numbers.start(tuple(Part(dfa, tags) for dfa, tags in spec.numbers), labels.of)
            values[:] = self.tables.values(number)
        for byte, value in edges:
            values[byte] = value
        if spec.leading:
            self.spacing.lead(row)
        if spec.first_item:
            line = self.spacing.edge(self.spacing.line(spec.depth), row)
            row = self.tables.sparse()
            self.tables.set_sparse(row, 0, [line, close] if spec.closable else [line])
        return ValueStart(row, low, high, spec.all_tags, labels.tags)

    def _literal_edges(self, literals: tuple[tuple[str, int], ...], labels: Labels) -> list[tuple[int, int]]:
        merged: dict[str, int] = {}
        for text, tags in literals:
            if text not in KEYWORDS:
                raise ValueError(f"literal {text!r} (true, false or null; numbers are languages)")
            merged[text] = merged.get(text, 0) | tags
        labelled = tuple((text, labels.of(tags)) for text, tags in merged.items())
        edges = self._literals.get(labelled)
        if edges is None:
            edges = self._literals[labelled] = keyword_edges(self.tables, list(labelled))
        return edges
