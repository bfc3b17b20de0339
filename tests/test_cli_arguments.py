"""The command line's manners: bad input is one line that says what, where and what to do, with exit code 2."""

from __future__ import annotations

import argparse
import io
import json
import shlex
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import jsonschema
import pytest
from slipcast.engine import cli, cli_arguments
from slipcast.engine.settings import ServerSettings

Command = Callable[..., tuple[int, str, str]]
Refused = Callable[..., str]


@pytest.fixture
def slipcast(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Runs a command; its exit code, what it wrote, and what it complained of."""

    def run(*arguments: str, stdin: str = "") -> tuple[int, str, str]:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = cli.main(arguments)
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


@pytest.fixture
def refused(slipcast: Command) -> Refused:
    """The one line that a refused command says."""

    def run(*arguments: str, stdin: str = "") -> str:
        code, out, complaint = slipcast(*arguments, stdin=stdin)
        assert (code, out) == (2, ""), complaint
        assert complaint.startswith("slipcast: ")
        assert complaint.count("\n") == 1
        return complaint

    return run


def test_a_command_as_users_run_it(tmp_path: Path) -> None:
    program = "import sys; from slipcast.engine.cli import main; sys.exit(main())"
    missing = str(tmp_path / "missing")
    command = [sys.executable, "-c", program, "schema", "check", missing]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"slipcast: {missing}: No such file or directory\n"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "COMMAND"),
        (("dance",), "dance"),
        (("schema",), "ACTION"),
        (("schema", "check"), "FILE"),
        (("schema", "sample", "x.json", "-n", "many"), "many"),
        (("schema", "check", "x.json", "--order", "random"), "random"),
        (("serve", "--port", "99999"), "99999"),
        (("serve", "--mode", "fast"), "fast"),
        (("chat", "--temperature", "hot"), "hot"),
    ],
)
def test_bad_arguments(arguments: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert left.value.code == 2
    line = capsys.readouterr().err
    assert said in line
    assert line.count("\n") == 1
    assert "--help" in line


def test_help_does_not_wait_for_the_runtime() -> None:
    program = "import sys; from slipcast.engine.cli import build_parser; build_parser(); sys.exit('tvm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def every_parser(parser: cli_arguments.Parser) -> Iterator[cli_arguments.Parser]:
    """The parser and those of its commands, and of theirs."""
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from every_parser(child)


PARSERS = {parser.prog: parser for parser in every_parser(cli_arguments.build_parser())}


def arguments_of(example: str) -> list[str]:
    """What a shell gives to slipcast in a command line, behind a pipe perhaps and with its output sent to a file."""
    words = shlex.split(example)
    words = words[words.index("slipcast") + 1 :]
    return words[: words.index(">")] if ">" in words else words


@pytest.mark.parametrize("name", PARSERS)
def test_every_command_has_examples_that_are_right(name: str) -> None:
    parser = PARSERS[name]
    assert parser.examples
    assert all(example in parser.format_help() for example in parser.examples)
    for example in parser.examples:
        assert name in example
        assert callable(cli_arguments.build_parser().parse_args(arguments_of(example)).run)


@pytest.mark.parametrize("name", PARSERS)
def test_every_command_says_what_it_is_for(name: str) -> None:
    assert PARSERS[name].description
    for action in PARSERS[name]._actions:
        assert action.help or isinstance(action, argparse._SubParsersAction), action.dest


def test_every_command_whose_output_is_data_can_print_json() -> None:
    groups = {"slipcast", "slipcast schema", "slipcast grammar"}
    without = {name for name, parser in PARSERS.items() if "--json" not in parser._option_string_actions}
    assert without - groups == {"slipcast deploy"}


def test_the_examples_of_compile_name_real_targets() -> None:
    from slipcast.engine.runtime.targets import MACHINES

    for example in PARSERS["slipcast compile"].examples:
        targets = cli_arguments.build_parser().parse_args(arguments_of(example)).target
        assert set(targets) <= {*MACHINES, "all"}


def test_every_setting_of_a_server_has_a_flag() -> None:
    flags = {action.dest for action in PARSERS["slipcast serve"]._actions}
    assert set(ServerSettings.model_fields) <= flags


def test_missing_files(refused: Refused, tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert missing in refused("schema", "check", missing)
    assert missing in refused("chat", "--model", missing + ".gguf")
    assert missing in refused("serve", "--port", "0", "--model", missing + ".gguf")
    assert missing in refused("chat", "--chat-template", missing)


def test_a_file_that_is_no_model(refused: Refused, tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF\x03\x00\x00\x00")
    assert str(path) in refused("chat", "--model", str(path))


def test_a_taken_port(refused: Refused) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        line = refused("serve", "--port", port)
    assert port in line
    assert "in use" in line
    assert "--port" in line


def test_an_unknown_host(refused: Refused) -> None:
    assert "no.such.host.invalid" in refused("serve", "--host", "no.such.host.invalid")


def test_an_unexpected_error_has_no_traceback_unless_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    def fail() -> int:
        raise ZeroDivisionError("division\nby zero")

    assert cli.main_guard(fail) == 1
    assert (
        capsys.readouterr().err
        == "slipcast: unexpected ZeroDivisionError: division by zero (--traceback shows where)\n"
    )
    with pytest.raises(ZeroDivisionError):
        cli.main_guard(fail, traceback=True)


BAD_SCHEMAS = [
    ("{", "line 1"),
    ("", "line 1"),
    ('{"type": "strin"}', "#/type"),
    ('{"type": "object", "properties": {"a": {"minLength": "x"}}}', "#/properties/a/minLength"),
    ('{"$ref": "#/$defs/missing"}', "$ref"),
    ('{"pattern": "("}', "pattern"),
    ('{"enum": []}', "enum"),
    ("7", "schema"),
]


@pytest.mark.parametrize(("schema", "said"), BAD_SCHEMAS)
def test_a_bad_schema_is_one_line(refused: Refused, schema: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text(schema)
    assert said in refused("schema", "check", str(path))
    assert said in refused("schema", "sample", "-", stdin=schema)


SCHEMA = {
    "type": "object",
    "title": "Point",
    "properties": {"x": {"type": "integer", "minimum": 0, "maximum": 9}, "tag": {"enum": ["a", "b"]}},
    "required": ["x"],
    "additionalProperties": False,
}


def test_check_says_what_is_enforced(slipcast: Command) -> None:
    code, out, complaint = slipcast("schema", "check", "-", stdin=json.dumps(SCHEMA))
    assert (code, complaint) == (0, "")
    lines = [line.split() for line in out.splitlines()]
    assert ["enforced", "#/properties/x/maximum"] in [line[:2] for line in lines]
    assert ["annotation", "#/title"] in [line[:2] for line in lines]
    assert lines[-1][0] == "ok:"
    assert all(line == line.rstrip() for line in out.splitlines())


def test_check_as_json(slipcast: Command) -> None:
    _, out, _ = slipcast("schema", "check", "--json", "-", stdin=json.dumps(SCHEMA))
    report = json.loads(out)
    assert report["dialect"] == "2020-12"
    assert {"/title", "/required"} <= {entry["pointer"] for entry in report["entries"]}


def test_samples_are_valid_and_repeatable(slipcast: Command) -> None:
    runs = [slipcast("schema", "sample", "-", "-n", "8", "--seed", "3", stdin=json.dumps(SCHEMA)) for _ in range(2)]
    assert [run[0] for run in runs] == [0, 0]
    assert runs[0][1] == runs[1][1]
    values = [json.loads(line) for line in runs[0][1].splitlines()]
    assert len(values) == 8
    for value in values:
        jsonschema.validate(value, SCHEMA)


@pytest.mark.parametrize(
    ("arguments", "keys"),
    [
        (("schema", "check"), {"entries", "advice", "dialect"}),
        (("schema", "to-gbnf"), {"grammar", "syntax", "not_enforced"}),
        (("grammar", "check", "--from", "gbnf"), {"warnings", "shortest"}),
        (("grammar", "convert", "--from", "gbnf"), {"grammar", "syntax"}),
    ],
)
def test_json_for_scripts(slipcast: Command, arguments: tuple[str, ...], keys: set[str]) -> None:
    text = json.dumps(SCHEMA) if arguments[0] == "schema" else 'root ::= "a" | "b"'
    code, out, complaint = slipcast(*arguments, "-", "--json", stdin=text)
    assert (code, complaint) == (0, "")
    assert set(json.loads(out)) >= keys


def test_samples_as_json(slipcast: Command) -> None:
    _, out, _ = slipcast("schema", "sample", "-", "-n", "3", "--json", stdin=json.dumps(SCHEMA))
    assert [json.loads(text)["x"] for text in json.loads(out)]
    _, out, _ = slipcast("grammar", "sample", "-", "-n", "3", "--from", "gbnf", "--json", stdin='root ::= "a" | "b"')
    assert len(json.loads(out)) == 3
    assert set(json.loads(out)) <= {"a", "b"}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("plain", [True, False])
def test_colours_are_for_terminals_and_for_those_who_want_them(plain: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Terminal()
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1" if plain else "")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(json.dumps(SCHEMA).encode())))
    monkeypatch.setattr("sys.stdout", screen)
    assert cli.main(["schema", "check", "-"]) == 0
    told = screen.getvalue()
    assert ("\x1b[" in told) is not plain
    assert ("\u2500" in told) is not plain
    assert "#/properties/x/maximum" in told


def test_what_looks_like_markup_is_text(slipcast: Command) -> None:
    schema = {"type": "object", "properties": {"[bold]": {"type": "string", "pattern": "^[red]$"}}}
    _, out, _ = slipcast("schema", "check", "-", stdin=json.dumps(schema))
    assert "#/properties/[bold]/pattern" in out
