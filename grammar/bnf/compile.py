"""From the one form of grammars to the automaton, through all stages.

    lower       to numbered nodes; `&`, `~` and shortest matches to languages (terminals), direct recursion to loops
    analysis    shortest texts, first and following bytes, what is put where it is called
    checks      rules that derive nothing, unused ones
    automaton   rows and frames, lazily
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..automaton.automaton import JsonAutomaton
from ..automaton.tables import Tables
from ..errors import BudgetError, GrammarError, GrammarTextError
from .analysis import Analysis
from .automaton import GrammarAutomaton
from .captures import OrderedPool, Parser
from .checks import GrammarReport, check_productive, report
from .embed import Embedder
from .ir import Grammar, JsonSchema
from .lower import TokenNames, lowered
from .terminals import Terminals

EmbeddedJson = Callable[[Any, Mapping[str, Any]], JsonAutomaton]
"""Makes the automaton of an embedded schema, from the schema and its options."""


def compile_grammar(
    tables: Tables,
    grammar: Grammar,
    json: EmbeddedJson,
    vocabulary: TokenNames,
    tokens: Sequence[bytes | None] = (),
) -> tuple[GrammarAutomaton, GrammarReport]:
    """The automaton of a grammar, and what was found in it. `tokens`: what each id spells, for captures.

    Raises GrammarTextError for wrong rules, with their place; what schemas raise; BudgetError for what is too large.
    """
    try:
        terminals = Terminals(grammar.rules)
        plain = lowered(grammar, vocabulary, terminals)
        found = report(grammar, plain)
        schemas = [_schema(schema, json) for schema in plain.schemas]
        embedder = Embedder(tables, schemas)
        analysis = Analysis(plain, embedder.costs)
        check_productive(grammar, plain, analysis, found.used)
        automaton = GrammarAutomaton(tables, plain, analysis, embedder)
        if found.captures:
            ordered = lowered(grammar, vocabulary, terminals, OrderedPool())
            automaton.parser = Parser(ordered, schemas, tokens)
        return automaton, found
    except RecursionError:
        raise BudgetError("the grammar nests too deep for the stack that is left here") from None


def _schema(schema: JsonSchema, json: EmbeddedJson) -> JsonAutomaton:
    try:
        return json(schema.schema, schema.options)
    except GrammarError as error:  # its pointer leads into the schema, its place there
        if schema.place.line:
            error.message = f"line {schema.place.line}, column {schema.place.column}: {error.message}"
        raise
    except (TypeError, ValueError) as error:  # options that json_schema does not have, or not so
        raise GrammarTextError(str(error), line=schema.place.line, column=schema.place.column) from None
