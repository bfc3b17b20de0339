"""Shipped plugin: the grammar kinds that the compiler reads itself."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .hookspecs import hookimpl
from .protocols import CompiledGrammar, Compiler, GrammarFrontend


def _json_schema(source: Any, options: Mapping[str, Any], compiler: Compiler, /) -> CompiledGrammar:
    grammar: CompiledGrammar = compiler.json_schema(source, **options)
    return grammar


def _json_object(source: Any, options: Mapping[str, Any], compiler: Compiler, /) -> CompiledGrammar:
    grammar: CompiledGrammar = compiler.json_object(**options)
    return grammar


def _regex(source: Any, options: Mapping[str, Any], compiler: Compiler, /) -> CompiledGrammar:
    grammar: CompiledGrammar = compiler.regex(source, **options)
    return grammar


def _choice(source: Any, options: Mapping[str, Any], compiler: Compiler, /) -> CompiledGrammar:
    grammar: CompiledGrammar = compiler.choice(source, **options)
    return grammar


def _grammar(source: Any, options: Mapping[str, Any], compiler: Compiler, /) -> CompiledGrammar:
    grammar: CompiledGrammar = compiler.grammar(source, **options)
    return grammar


def _structural_tag(source: Any, options: Mapping[str, Any], compiler: Compiler, /) -> CompiledGrammar:
    grammar: CompiledGrammar = compiler.structural_tag(source, **options)
    return grammar


_KINDS: Mapping[str, GrammarFrontend] = {
    "json_schema": _json_schema,
    "json_object": _json_object,
    "regex": _regex,
    "choice": _choice,
    "grammar": _grammar,
    "structural_tag": _structural_tag,
}


@hookimpl(trylast=True)
def slipcast_grammar_frontend(kind: str) -> GrammarFrontend | None:
    """json_schema, json_object, regex, choice, grammar and structural_tag."""
    return _KINDS.get(kind)
