"""Odd input for the commands: bytes that are no text, readers that leave, options out of range."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from fakes import FakeService, words
from slipcast.engine import Engine, cli, cli_arguments, cli_chat

PROGRAM = """
import sys
from fakes import FakeService, words
from slipcast.engine import Engine, cli, cli_arguments, cli_chat
service = FakeService(words("caf\\u00e9 ", "\\u4e2d"))
cli_chat.Engine = lambda *_, **__: Engine(service=service)
sys.exit(cli.main())
"""
Chat = Callable[..., "subprocess.CompletedProcess[bytes]"]


@pytest.fixture
def chat() -> Chat:
    """Run `slipcast chat` in a process of its own, over a service without a model."""

    def run(given: bytes, encoding: str = "utf-8:strict") -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, "chat"],
            cwd=Path(__file__).parent,
            env={**os.environ, "PYTHONIOENCODING": encoding},
            input=given,
            capture_output=True,
            timeout=60,
            check=False,
        )

    return run


def test_bytes_that_are_no_text_are_shown_as_such(chat: Chat) -> None:
    done = chat(b"\xff\xfe\n\xc3\nlast")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.decode().splitlines() == ["caf\u00e9 \u4e2d"] * 3


def test_a_narrow_encoding_does_not_end_an_answer(chat: Chat) -> None:
    done = chat(b"hi\n", encoding="ascii")
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout.strip() == b"caf\\xe9 \\u4e2d"


def test_a_reader_that_leaves_ends_the_chat(monkeypatch: pytest.MonkeyPatch) -> None:
    service = FakeService(words("a", "b"))

    class Gone(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError(32, "Broken pipe")

    monkeypatch.setattr(cli_chat, "Engine", lambda *_, **__: Engine(service=service))
    monkeypatch.setattr("sys.stdin", io.StringIO("one\ntwo\n"))
    monkeypatch.setattr("sys.stdout", Gone())
    options = cli_arguments.build_parser().parse_args(["chat"])
    with pytest.raises(BrokenPipeError):
        cli_chat.run(options)
    assert len(service.requests) == 1
    assert service.closed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["chat", "--max-tokens", "0"], "max_tokens is 0"),
        (["chat", "--temperature", "-1"], "temperature is -1.0"),
        (["chat", "--temperature", "nan"], "temperature is nan"),
        (["chat", "--seed", str(1 << 70)], "seed is"),
    ],
)
def test_options_are_checked_before_a_model_is_loaded(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli_chat, "Engine", None)
    assert cli.main(arguments) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("size", ["0", "-1", "x", "1" * 5000])
def test_a_size_of_nothing_is_refused(size: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["serve", "--max-body-mb", size])
    assert ended.value.code == 2
    assert "--max-body-mb" in capsys.readouterr().err
