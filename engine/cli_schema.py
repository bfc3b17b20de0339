"""`slipcast schema check`, `sample` and `to-gbnf`. Needs no model: a vocabulary of single bytes is enough."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import asdict

from rich.text import Text

from ..grammar import CompiledGrammar, GrammarCompiler, Vocabulary
from ..grammar.bnf.from_schema import from_schema
from ..grammar.bnf.write import write_gbnf
from .cli_terminal import print_json, print_table, read_text
from .errors import EngineError

COLOURS = {"enforced": "green", "annotation": "dim", "refused": "red"}


def check(options: argparse.Namespace) -> int:
    """Compile the schema and print, for every keyword that was read, what became of it."""
    report = compile_file(options).report
    if options.json:
        print_json(asdict(report))
        return 0
    rows = [(Text(entry.status, COLOURS[entry.status]), f"#{entry.pointer}", entry.why) for entry in report.entries]
    rows += [(Text("advice", "yellow"), f"#{advice.pointer}", advice.message) for advice in report.advice]
    print_table(("", "", ""), rows)
    enforced = sum(entry.status == "enforced" for entry in report.entries)
    total = len(report.entries)
    print(f"ok: {enforced} of {total} keywords enforced, the others are annotations (draft {report.dialect})")
    return 0


def sample(options: argparse.Namespace) -> int:
    """Print `-n` random texts of the schema, one a line, the same for the same seed."""
    return print_samples(options, compile_file)


def print_samples(options: argparse.Namespace, compile_file: Callable[[argparse.Namespace], CompiledGrammar]) -> int:
    """Print `-n` random texts of a grammar, one a line, from `--seed` on."""
    if options.n < 1:
        raise EngineError(f"-n is {options.n}", remedy="ask for at least one sample")
    grammar = compile_file(options)
    texts = (grammar.sample(seed) for seed in range(options.seed, options.seed + options.n))
    if options.json:
        print_json(list(texts))
        return 0
    for text in texts:
        print(text)
    return 0


def to_gbnf(options: argparse.Namespace) -> int:
    """Print the schema as a GBNF grammar; what that cannot say is told in comments above it."""
    found = from_schema(read_text(options.file), formats=not options.no_formats)
    text = write_gbnf(found.grammar)
    if options.json:
        print_json({"grammar": text, "syntax": "gbnf", "not_enforced": list(found.lost)})
        return 0
    for lost in found.lost:
        print(f"# not enforced: {lost}")
    print(text, end="")
    return 0


def compile_file(options: argparse.Namespace) -> CompiledGrammar:
    """The grammar of the schema in `options.file`. Raises GrammarError, or EngineError if the file is not text."""
    compiler = GrammarCompiler(byte_vocabulary())
    return compiler.json_schema(
        read_text(options.file), order=options.order, formats=not options.no_formats, whitespace="spaced"
    )


def byte_vocabulary() -> Vocabulary:
    """One token for each byte, and an end token."""
    return Vocabulary(tokens=[*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
