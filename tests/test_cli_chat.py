"""`slipcast chat` with input from a pipe, over a service without a model."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from pathlib import Path

import pytest
from fakes import FakeService, words
from slipcast.engine import Engine, cli, cli_chat
from slipcast.engine.request import Event, Failed, GenerationRequest
from slipcast.grammar.errors import SchemaError

Talk = Callable[..., tuple[int, str, str]]


@pytest.fixture
def talk(service: FakeService, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Talk:
    """Run `slipcast chat` with these lines as input; its exit code, output and complaints."""

    def run(*lines: str, arguments: tuple[str, ...] = ()) -> tuple[int, str, str]:
        monkeypatch.setattr(cli_chat, "Engine", lambda *_, **__: Engine(service=service))
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))
        code = cli.main(["chat", *arguments])
        said = capsys.readouterr()
        return code, said.out, said.err

    return run


def prompt(request: GenerationRequest) -> str:
    return "".join(map(chr, request.prompt))


def test_answers_and_remembers(talk: Talk, service: FakeService) -> None:
    assert talk("one", "", "two") == (0, "Hello\nHello\n", "")
    assert [prompt(request) for request in service.requests] == [
        "<user>one<assistant>",
        "<user>one<assistant>Hello<user>two<assistant>",
    ]
    assert service.closed


def test_reset_quit_and_system(talk: Talk, service: FakeService) -> None:
    talk("one", "/reset", "two", "/quit", "three", arguments=("--system", "brief"))
    assert [prompt(request) for request in service.requests] == [
        "<system>brief<user>one<assistant>",
        "<system>brief<user>two<assistant>",
    ]


def test_options_reach_the_sampler(talk: Talk, service: FakeService) -> None:
    talk("one", arguments=("--temperature", "0", "--max-tokens", "9", "--seed", "3"))
    params = service.requests[0].params
    assert (params.temperature, params.max_tokens, params.seed) == (0, 9, 3)


def test_a_schema_constrains_until_it_is_switched_off(talk: Talk, service: FakeService, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"multipleOf": 0.1}')
    code, _, complaints = talk(f"/schema {path}", "one", "/schema off", "two")
    assert (code, complaints) == (0, "")
    assert service.compiled == [
        ("json_schema", '{"multipleOf": 0.1}', {}),
        ("json_schema", {"multipleOf": Decimal("0.1")}, {"whitespace": "spaced"}),
    ]
    assert [request.grammar is None for request in service.requests] == [False, True]


def test_a_schema_from_the_start(talk: Talk, service: FakeService, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text("{}")
    talk("one", arguments=("--schema", str(path)))
    assert service.requests[0].grammar is not None


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("/schema /no/such/file", "/no/such/file: No such file"),
        ("/schema", "needs a file"),
        ("/regex", "needs a pattern"),
        ("/choice", "needs texts"),
        ("/dance", "/help"),
    ],
)
def test_a_bad_command_is_told_and_the_chat_goes_on(talk: Talk, line: str, said: str) -> None:
    code, out, complaints = talk(line, "one")
    assert (code, out) == (0, "Hello\n")
    assert said in complaints
    assert complaints.count("\n") == 1


def test_a_bad_schema_is_told_and_the_old_one_stays(talk: Talk, service: FakeService, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text('{"type": "strin"}')
    service.grammar_refusal = SchemaError("unknown type 'strin'", pointer="/type", keyword="type")
    code, out, complaints = talk(f"/schema {path}", "one")
    assert (code, out) == (0, "Hello\n")
    assert complaints == "slipcast: unknown type 'strin' at #/type\n"
    assert service.requests[0].grammar is None


def test_a_bad_schema_at_the_start_ends_it(talk: Talk, service: FakeService, tmp_path: Path) -> None:
    path = tmp_path / "schema.json"
    path.write_text("{}")
    service.grammar_refusal = SchemaError("unknown type 'strin'", pointer="/type", keyword="type")
    code, out, complaints = talk("one", arguments=("--schema", str(path)))
    assert (code, out) == (2, "")
    assert complaints.count("\n") == 1
    assert service.closed


def test_a_request_that_fails_is_told(talk: Talk, service: FakeService) -> None:
    def script(request: GenerationRequest) -> Iterator[Event]:
        if len(service.requests) == 1:
            return iter([Failed(cli.EngineError("the matcher is stuck"))])
        return iter(words("fine")(request))

    service.script = script
    assert talk("one", "two") == (0, "fine\n", "slipcast: the matcher is stuck\n")


def test_help_lists_every_command(talk: Talk) -> None:
    _, out, _ = talk("/help")
    commands = ("/schema FILE", "/regex P", "/choice A|B", "/schema off", "/reset", "/help", "/quit")
    assert all(command in out for command in commands)
    assert json.dumps(out).count("  /") == 8


def test_patterns_and_choices_constrain_until_they_are_switched_off(talk: Talk, service: FakeService) -> None:
    code, _, complaints = talk("/regex a+ b", "one", "/choice yes | no", "two", "/choice off", "three")
    assert (code, complaints) == (0, "")
    assert service.compiled[1::2] == [("regex", "a+ b", {}), ("choice", ("yes", "no"), {})]
    assert [request.grammar is None for request in service.requests] == [False, False, True]


@pytest.mark.parametrize(
    ("arguments", "compiled"),
    [
        (("--regex", "a+"), ("regex", "a+", {})),
        (("--choice", "a|b", "--choice", "c"), ("choice", ("a|b", "c"), {})),
        (("--regex", "a+", "--canonical"), ("regex", "a+", {"canonical": True})),
    ],
)
def test_patterns_and_choices_from_the_start(
    talk: Talk, service: FakeService, arguments: tuple[str, ...], compiled: object
) -> None:
    assert talk("one", arguments=arguments)[0] == 0
    assert service.compiled[-1] == compiled
