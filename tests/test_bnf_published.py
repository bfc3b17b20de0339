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
TEXTS = {
    "arithmetic.gbnf": (["(x-1)*2=y\n", "1+2= 3\na=b\n"], ["1+=2\n", "1+2=3"]),
    "c.gbnf": (["int main(){int x = 1;return x;}", "char f(int a){// c\n}"], ["int main(){", "main(){}"]),
    "chess.gbnf": (["1. e4 e5\n2. Nf3 Nc6\n", "1. e4 c5\n2. O-O Qxh7+\n"], ["e4 e5\n", "1. e9 e5\n"]),
    "english.gbnf": (["Where is it? Here."], ["na\u00efve", ""]),
    "japanese.gbnf": (["\u3053\u3093\u306b\u3061\u306f\u3002"], ["hello"]),
    "json.gbnf": (['{"a": [1, -2.5e3, "b\\u00e9", null, true]}'], ["[1]", "{'a': 1}", '{"a": 01}']),
    "json_arr.gbnf": (['[\n1,\n{"a": []}]', "[\n]"], ["[1]"]),
    "list.gbnf": (["- one\n- two\n"], ["one\n", "- one"]),
    "vllm-sql.gbnf": (["SELECTcol_1fromtable_2wherecol_2=1"], ["SELECT"]),
}
"""By the file's name: texts of the published grammar, and others, written for this project."""


@pytest.mark.skipif(not FILES, reason="SLIPCAST_GRAMMARS names no folder with grammars")
@pytest.mark.parametrize("path", FILES, ids=str)
def test_published_grammars_compile_and_accept_what_they_give(path: Path) -> None:
    grammar = COMPILER.grammar(path.read_text(encoding="utf-8"), syntax=SYNTAXES[path.suffix])  # type: ignore[arg-type]
    assert grammar.accepts(grammar.shortest)
    for seed in range(3):
        assert grammar.accepts(grammar.sample(seed))
    accepted, rejected = TEXTS.get(path.name, ([], []))
    accepted = accepted + [beside.read_text(encoding="utf-8") for beside in _samples(path)]
    assert [text for text in accepted if not grammar.accepts(text)] == []
    assert [text for text in rejected if grammar.accepts(text)] == []


def _samples(path: Path) -> list[Path]:
    """Files beside a grammar with its name and another ending, as `rfc.xml` beside `rfc.lark`."""
    return [beside for beside in path.parent.glob(f"{path.stem}.*") if beside.suffix not in (*SYNTAXES, ".json")]
