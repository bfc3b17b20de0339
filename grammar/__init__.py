"""Grammars for structured generation: JSON Schema, patterns and choices as token-level automata.

compiler = GrammarCompiler(Vocabulary.from_tokenizer("tokenizer.json"))
matcher = compiler.json_schema({"type": "object"}).matcher()
"""

from .automaton.specs import Whitespace
from .compiler import CompiledGrammar, GrammarCompiler
from .errors import (
    BudgetError,
    GrammarError,
    GrammarTextError,
    MatcherError,
    PatternError,
    SchemaError,
    UnsatisfiableError,
    UnsupportedError,
    VocabularyError,
)
from .tokens import Matcher, Vocabulary

__all__ = [
    "BudgetError",
    "CompiledGrammar",
    "GrammarCompiler",
    "GrammarError",
    "GrammarTextError",
    "Matcher",
    "MatcherError",
    "PatternError",
    "SchemaError",
    "UnsatisfiableError",
    "UnsupportedError",
    "Vocabulary",
    "VocabularyError",
    "Whitespace",
]
