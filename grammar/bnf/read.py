"""Grammar texts of all syntaxes to the one form."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, get_args

from ..errors import GrammarTextError
from .ir import Grammar
from .read_gbnf import read_gbnf
from .read_grammarbnf import read_grammarbnf
from .read_lark import read_lark

Syntax: TypeAlias = Literal["grammarbnf", "gbnf", "ebnf", "lark"]
SYNTAXES: Final[tuple[Syntax, ...]] = get_args(Syntax)


def read(text: str, syntax: Syntax = "grammarbnf", *, start: str | None = None) -> Grammar:
    """The grammar that `text` describes, as it is written.

    syntax  "grammarbnf" (the product's own), "gbnf" (llama.cpp), "ebnf" (xgrammar) or "lark" (Lark with llguidance's
            extensions)
    start   the rule to start with; None: `root`, or what `%start` names, or `start` in Lark

    Raises GrammarTextError with line and column, UnsupportedError for what is known and not done, BudgetError.
    """
    if not isinstance(text, str):
        raise GrammarTextError(f"a grammar is a text, not {type(text).__name__}")
    match syntax:
        case "grammarbnf":
            return read_grammarbnf(text, start=start)
        case "gbnf" | "ebnf":
            return read_gbnf(text, start=start or "root", syntax=syntax)
        case "lark":
            return read_lark(text, start=start or "start")
    raise GrammarTextError(f"unknown syntax {syntax!r}", remedy=f"one of {', '.join(SYNTAXES)}")
