"""Schemas that a grammar names by their files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from slipcast.engine.cli import main
from slipcast.grammar import GrammarCompiler, GrammarTextError, Vocabulary

GRAMMAR = """# json_schema("missing.json") in a comment names nothing
root ::= "json_schema(\\"missing.json\\")"? json_schema( "order.json" , order="any") [(] /[^"a-z]/
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A grammar and the schema that it names."""
    (tmp_path / "inner").mkdir()
    schema = {"type": "object", "properties": {"ü": {"type": "integer"}, "b": {"type": "null"}}, "required": ["ü", "b"]}
    (tmp_path / "inner" / "order.json").write_text(json.dumps(schema, indent=2, ensure_ascii=False), encoding="utf-8")
    (tmp_path / "inner" / "text.grammarbnf").write_text(GRAMMAR, encoding="utf-8")
    (tmp_path / "outer.json").write_text("{}")
    (tmp_path / "inner" / "broken.json").write_text("{")
    return tmp_path / "inner"


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    """Over single bytes."""
    return GrammarCompiler(Vocabulary([bytes([byte]) for byte in range(256)] + [b"</s>"], eos_ids=[256]))


def test_a_schema_is_read_from_the_folder(compiler: GrammarCompiler, folder: Path) -> None:
    grammar = compiler.grammar(GRAMMAR, folder=folder)
    assert grammar.accepts('{"b": null, "ü": 1}(!')
    assert grammar.accepts('json_schema("missing.json"){"ü": 1, "b": null}(!')
    assert not grammar.accepts('{"b": 1, "ü": 1}(!')


def test_a_file_that_has_changed_is_read_again(compiler: GrammarCompiler, folder: Path) -> None:
    text = 'root ::= json_schema("order.json")'
    before = compiler.grammar(text, folder=folder)
    (folder / "order.json").write_text('{"type": "boolean"}')
    assert compiler.grammar(text, folder=folder).accepts("true")
    assert not before.accepts("true")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("missing.json", "cannot be read"),
        ("broken.json", "cannot be read"),
        ("../outer.json", "outside the grammar's folder"),
        ("/etc/passwd", "outside the grammar's folder"),
        ("order.json\\u0000", "cannot be read"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(
    compiler: GrammarCompiler, folder: Path, name: str, message: str
) -> None:
    with pytest.raises(GrammarTextError, match=message) as error:
        compiler.grammar(f'root ::= "x"\n  json_schema("{name}")', folder=folder)
    assert (error.value.line, error.value.column) == (2, 15)


def test_without_a_folder_no_file_is_read(compiler: GrammarCompiler) -> None:
    with pytest.raises(GrammarTextError, match="name the folder"):
        compiler.grammar('root ::= json_schema("order.json")')


@pytest.mark.parametrize("arguments", [["check"], ["sample", "-n", "2"], ["convert", "--to", "grammarbnf"]])
def test_commands_read_files_beside_the_grammar(
    folder: Path, arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    assert main(["grammar", *arguments, str(folder / "text.grammarbnf")]) == 0
    assert "missing" not in capsys.readouterr().err
