"""Grammars that others publish, where somebody has them: llama.cpp's `grammars/`, llguidance's `sample_parser/data/`.

They are not copied here. Name folders with them in SLIPCAST_GRAMMARS (separated as in PATH).
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from slipcast.grammar import GrammarCompiler, Vocabulary

SYNTAXES = {".gbnf": "gbnf", ".ebnf": "ebnf", ".lark": "lark"}
FOLDERS = [Path(folder) for folder in os.environ.get("SLIPCAST_GRAMMARS", "").split(os.pathsep) if folder]
FILES = sorted(path for folder in FOLDERS for path in folder.rglob("*") if path.suffix in SYNTAXES)
COMPILER = GrammarCompiler(Vocabulary(tokens=[*(bytes([byte]) for byte in range(256)), None], eos_ids=[256]))


@pytest.mark.skipif(not FILES, reason="SLIPCAST_GRAMMARS names no folder with grammars")
@pytest.mark.parametrize("path", FILES, ids=str)
def test_published_grammars_compile_and_accept_what_they_give(path: Path) -> None:
    grammar = COMPILER.grammar(path.read_text(encoding="utf-8"), syntax=SYNTAXES[path.suffix])  # type: ignore[arg-type]
    assert grammar.accepts(grammar.shortest)
    for seed in range(3):
        assert grammar.accepts(grammar.sample(seed))
