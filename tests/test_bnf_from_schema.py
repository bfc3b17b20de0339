"""Schemas as grammars of rules: the same texts as the schema's own automaton, but for what is told to be lost."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from slipcast.engine.cli import main
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.grammar.bnf.from_schema import from_schema
from slipcast.grammar.bnf.read import read
from slipcast.grammar.bnf.write import write_gbnf
from slipcast.grammar.errors import UnsatisfiableError

COMPILER = GrammarCompiler(Vocabulary(tokens=[*(bytes([byte]) for byte in range(256)), None], eos_ids=[256]))
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 8},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["a", "b\n", None]}, "maxItems": 3},
    },
    "required": ["age"],
    "additionalProperties": False,
}
TREE = {"type": "object", "properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}, "additionalProperties": False}
SCHEMAS: list[Any] = [
    PERSON,
    TREE,
    {"anyOf": [{"type": "string", "pattern": '^[a-c"]+$'}, {"const": {"k": [1, True]}}, {"multipleOf": 0.5}]},
    {"type": "object", "patternProperties": {"^x": {"type": "integer"}}, "minProperties": 1, "maxProperties": 2},
    {"type": "array", "prefixItems": [{"type": "null"}], "items": {"type": "boolean"}, "contains": {"const": True}},
    {"type": "string", "minLength": 2, "format": "date"},
]  # fmt: skip
TEXTS = [
    "{}", '{"age": 1}', '{"name": "x","age": 120}', '{"age": 121}', '{"age": 1, "tags": ["a", "b\\n", null]}',
    '{"age": 1, "tags": ["a", "b\\n", null, "a"]}', '{"age": 1, "name": "x"}', '{"name": "123456789", "age": 1}',
    '{"left": {"right": {}}}', '{"left": {"right": 1}}', '"a\\"b"', '"d"', '{"k": [1, true]}', "2.5", "2.25", "-7",
    '{"x": 1}', '{"x": "a"}', '{"y": "a", "xx": 2}', '{"a": 1, "b": 2, "c": 3}', "[null]", "[null, true]",
    "[null, false]", "[null, false, true]", "[true]", '"2024-02-29"', '"2024-02-30"', "null", "",
]  # fmt: skip


@pytest.mark.parametrize("schema", SCHEMAS, ids=str)
def test_the_grammar_takes_the_schemas_texts(schema: Any) -> None:
    own = COMPILER.json_schema(schema, whitespace="spaced")
    converted = from_schema(schema)
    rules = COMPILER.grammar(write_gbnf(converted.grammar), syntax="gbnf")
    for text in TEXTS:
        assert rules.accepts(text) == COMPILER.json_schema(schema).accepts(text), text
    for seed in range(10):
        assert rules.accepts(json.dumps(json.loads(own.sample(seed)), ensure_ascii=False))  # escapes by need alone
        value = json.dumps(json.loads(rules.sample(seed)), ensure_ascii=False)
        assert COMPILER.json_schema(schema, order="any").accepts(value) or converted.lost


def test_what_is_lost_is_told() -> None:
    assert from_schema(PERSON).lost == ()
    assert from_schema({"type": "array", "uniqueItems": True}).lost == (
        "items are not kept unique (uniqueItems)",
        "undeclared keys are not kept from repeating",
    )
    with pytest.raises(UnsatisfiableError):
        from_schema({"enum": []})


def test_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "s.json"
    path.write_text(json.dumps({"type": "array", "items": {"type": "object"}, "uniqueItems": True}))
    assert main(["schema", "to-gbnf", str(path)]) == 0
    printed = capsys.readouterr().out
    assert "# not enforced: items are not kept unique" in printed
    assert read(printed, "gbnf").start == "root"


def test_grammars_from_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "g.lark"
    path.write_text('start: "a" X?\nX: /b+/ & ~"bb"\n')
    assert main(["grammar", "check", str(path)]) == 0
    assert "ok" in capsys.readouterr().out
    assert main(["grammar", "sample", str(path), "-n", "3"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 3
    assert main(["grammar", "convert", "--to", "gbnf", str(path)]) == 0
    rules = COMPILER.grammar(capsys.readouterr().out, syntax="gbnf")
    assert [text for text in ("a", "ab", "abb", "abbb") if rules.accepts(text)] == ["a", "ab", "abbb"]
    path.write_text("start: (")
    assert main(["grammar", "check", str(path)]) == 2
    assert "line 1, column 9" in capsys.readouterr().err
