"""`slipcast grammar check|sample|convert`: grammar texts. Needs no model: single bytes are vocabulary enough."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.text import Text

from ..grammar import CompiledGrammar, GrammarCompiler
from ..grammar.bnf.files import with_schemas
from ..grammar.bnf.read import SYNTAXES, Syntax, read
from ..grammar.bnf.write import write_gbnf, write_grammarbnf
from .cli_schema import byte_vocabulary, print_samples
from .cli_terminal import console, print_json, read_text
from .errors import EngineError


def check(options: argparse.Namespace) -> int:
    """Compile the grammar; print how many rules it has, and warnings."""
    grammar = compile_file(options)
    warnings = [advice.message for advice in grammar.report.advice]
    shortest = grammar.shortest.decode("utf-8", "replace")
    if options.json:
        print_json({"warnings": warnings, "shortest": shortest})
        return 0
    for warning in warnings:
        console().print(Text("warning", "yellow"), warning, sep=": ")
    console().print(Text("ok", "green"), f"a shortest text is {shortest!r}", sep=": ")
    return 0


def sample(options: argparse.Namespace) -> int:
    """Print `-n` random texts of the grammar, the same for the same seed."""
    return print_samples(options, compile_file)


def convert(options: argparse.Namespace) -> int:
    """Print the grammar in another syntax."""
    syntax = _syntax(options)
    grammar = read(with_schemas(read_text(options.file), syntax, Path(options.file).parent), syntax)
    write = write_gbnf if options.to == "gbnf" else write_grammarbnf
    text = write(grammar)
    if options.json:
        print_json({"grammar": text, "syntax": options.to})
    else:
        print(text, end="")
    return 0


def compile_file(options: argparse.Namespace) -> CompiledGrammar:
    """The grammar in `options.file`. Raises GrammarError, or EngineError if the file is not text."""
    folder = Path(options.file).parent
    return GrammarCompiler(byte_vocabulary()).grammar(read_text(options.file), syntax=_syntax(options), folder=folder)


def _syntax(options: argparse.Namespace) -> Syntax:
    """The syntax that `--from` names, or the file's suffix."""
    if options.syntax is not None:
        return _known(options.syntax)
    return syntax_of(options.file, remedy=f"--from {'|'.join(SYNTAXES)}")


def syntax_of(path: str, *, remedy: str) -> Syntax:
    """The syntax that a file's suffix names. Raises EngineError with the remedy where it is none."""
    suffix = Path(path).suffix.removeprefix(".")
    if suffix not in SYNTAXES:
        raise EngineError(f"the syntax of {path} cannot be told from its name", remedy=remedy)
    return _known(suffix)


def _known(name: str) -> Syntax:
    return next(syntax for syntax in SYNTAXES if syntax == name)
