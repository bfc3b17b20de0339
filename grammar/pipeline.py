"""The compiler on one screen: from the text of a schema to matchers.

    schema.read         keywords to expressions            grammar/schema
    Algebra             expressions to clauses             grammar/algebra
    JsonAutomaton       clauses to a byte automaton        grammar/automaton
    GrammarAutomaton    grammars of rules likewise         grammar/bnf
    TokenLevel          bytes to token masks               grammar/tokens

Everything after reading is lazy: compiling builds what the first mask needs, the rest is built where a text leads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, Literal

import referencing

from .automaton.automaton import JsonAutomaton
from .automaton.frames import FrameOptions, Order
from .automaton.lexemes import Lexemes
from .automaton.specs import Spelling, Whitespace
from .automaton.tables import Tables
from .automaton.text import TextAutomaton
from .bnf.automaton import GrammarAutomaton
from .bnf.checks import GrammarReport
from .bnf.compile import compile_grammar
from .bnf.ir import Grammar
from .bnf.lower import TokenNames
from .errors import BudgetError, UnsatisfiableError
from .frozen import frozen
from .regular import Language
from .schema import Schema, read
from .tokens import TokenLevel, Vocabulary

WhitespaceMode = Literal["bounded", "compact", "spaced", "pretty"]
Registry = referencing.Registry[Any]


@frozen
class JsonOptions:
    """How JSON is written and a schema is read; see `GrammarCompiler.json_schema`."""

    order: Order = "schema"
    whitespace: Whitespace = field(default_factory=Whitespace)
    spelling: Spelling = "natural"
    formats: bool = True
    dialect: str | None = None
    max_digits: int = 40

    def __post_init__(self) -> None:
        if self.order not in ("schema", "any"):
            raise ValueError(f"order {self.order!r} (schema or any)")
        if self.spelling not in ("natural", "any"):
            raise ValueError(f"spelling {self.spelling!r} (natural or any)")
        if not 1 <= self.max_digits <= 400:
            raise ValueError(f"max_digits {self.max_digits} (1 to 400)")


class Arena:
    """Tables, lexemes and masks that grammars share; append-only, given up as a whole when grown too large."""

    def __init__(self, vocabulary: Vocabulary, mask_bytes: int) -> None:
        self.tables = Tables()
        self.level = TokenLevel(vocabulary, self.tables, budget=mask_bytes)
        self._lexemes: dict[tuple[Spelling, Whitespace], Lexemes] = {}

    def json(self, source: Any, options: JsonOptions, registry: Registry | None) -> tuple[JsonAutomaton, Schema]:
        """The automaton of a JSON Schema, through all stages."""
        try:
            return self._json(source, options, registry)
        except RecursionError:
            raise BudgetError("the schema nests too deep for the stack that is left here") from None

    def _json(self, source: Any, options: JsonOptions, registry: Registry | None) -> tuple[JsonAutomaton, Schema]:
        schema = read(source, dialect=options.dialect, formats=options.formats, registry=registry)
        frames = FrameOptions(
            order=options.order,
            spelling=options.spelling,
            max_digits=options.max_digits,
            pretty=options.whitespace.mode == "pretty",
        )
        try:
            return JsonAutomaton(self.tables, self._lexeme(options), schema, frames), schema
        except UnsatisfiableError:
            # Equal parts are read as one node with the pointer of its first place: read again to say exactly where.
            schema = read(source, dialect=options.dialect, formats=options.formats, registry=registry, share=False)
            return JsonAutomaton(self.tables, self._lexeme(options), schema, frames), schema

    def grammar(self, grammar: Grammar) -> tuple[GrammarAutomaton, GrammarReport]:
        """The automaton of a grammar of rules, and what was found in them."""

        def embedded(schema: Any, options: Mapping[str, Any]) -> JsonAutomaton:
            for name in options.keys() - {known.name for known in fields(JsonOptions)}:
                raise TypeError(f"a schema has no option {name!r}")
            space = options.get("whitespace", "bounded")
            space = space if isinstance(space, Whitespace) else Whitespace(space)
            return self.json(schema, JsonOptions(**{**options, "whitespace": space}), None)[0]

        vocabulary = self.level.vocabulary
        names = TokenNames(vocabulary.special_ids, frozenset(vocabulary.eos_ids))
        return compile_grammar(self.tables, grammar, embedded, names, vocabulary.tokens)

    def text(self, language: Language, name: str) -> TextAutomaton:
        """The automaton of a regular language."""
        return TextAutomaton(self.tables, language, name)

    def _lexeme(self, options: JsonOptions) -> Lexemes:
        key = (options.spelling, options.whitespace)
        with self.tables.lock:
            found = self._lexemes.get(key)
            if found is None:
                found = Lexemes(self.tables, spelling=options.spelling, whitespace=options.whitespace)
                self._lexemes[key] = found
            return found
