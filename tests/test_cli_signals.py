"""`slipcast serve` and signals: a server in a process of its own, over a service without a model."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

PROGRAM = """
import sys
import time
from fakes import FakeService
from slipcast.engine import AsyncEngine, ClosedError, cli, cli_serve
from slipcast.engine.request import Failed, Finished, TextDelta, Usage

LASTS = float(sys.argv.pop(1))
cli_serve.HEAD_SECONDS = float(sys.argv.pop(1))

def talk(request):
    end = time.monotonic() + LASTS
    while not service.closed and time.monotonic() < end:
        yield TextDelta(0, "word ")
        time.sleep(0.02)
    yield Failed(ClosedError("the engine was closed")) if service.closed else Finished(0, "stop", Usage(1, 1))

service = FakeService(talk)
cli_serve.AsyncEngine = lambda *_, **__: AsyncEngine(service=service)
sys.exit(cli.main())
"""


@contextmanager
def serving(lasts: float, complaints: Path, patience: float = 60.0) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A server whose answers go on for so many seconds, and its address; it must end by itself."""
    options = ["serve", "--port", "0", "--log-level", "warning"]
    command = [sys.executable, "-c", PROGRAM, str(lasts), str(patience), *options]
    here = Path(__file__).parent
    with (
        complaints.open("w") as errors,
        subprocess.Popen(command, cwd=here, stdout=subprocess.PIPE, stderr=errors, text=True) as server,
    ):
        assert server.stdout is not None
        try:
            found = re.search(r"http://\S+", server.stdout.readline())
            assert found, complaints.read_text()
            yield server, found.group()
        finally:
            if server.poll() is None:
                server.kill()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_running_answer_is_completed(number: signal.Signals, tmp_path: Path) -> None:
    with serving(1.0, tmp_path / "log") as (server, address):
        body = {"messages": [{"role": "user", "content": "a"}], "stream": True}
        with httpx.stream("POST", f"{address}/chat/completions", json=body, timeout=20) as response:
            lines = response.iter_lines()
            next(lines)
            server.send_signal(number)
            assert [line for line in lines if line][-1] == "data: [DONE]"
        assert server.wait(10) == 0
    assert (tmp_path / "log").read_text() == ""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_streams_with_an_error_event(number: signal.Signals, tmp_path: Path) -> None:
    with serving(60.0, tmp_path / "log") as (server, address):
        body = {"messages": [{"role": "user", "content": "a"}], "stream": True}
        with httpx.stream("POST", f"{address}/chat/completions", json=body, timeout=20) as response:
            lines = response.iter_lines()
            next(lines)
            began = time.monotonic()
            server.send_signal(number)
            time.sleep(0.3)
            server.send_signal(number)
            last = [line for line in lines if line][-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "engine_closed"
        assert server.wait(10) == 0
        assert time.monotonic() - began < 4
    assert "Traceback" not in (tmp_path / "log").read_text()


def test_a_head_that_never_ends_keeps_no_connection(tmp_path: Path) -> None:
    with serving(1.0, tmp_path / "log", patience=1.0) as (server, address):
        place = urlsplit(address)
        assert place.hostname is not None and place.port is not None
        with socket.create_connection((place.hostname, place.port), timeout=20) as slow:
            slow.sendall(b"POST /v1/chat/completions HTTP/1.1\r\n")
            deadline = time.monotonic() + 20
            with suppress(ConnectionError):  # it was closed while something was sent
                while time.monotonic() < deadline:
                    slow.sendall(b"X-Slow: 1\r\n")
                    slow.settimeout(0.2)
                    with suppress(TimeoutError):
                        if slow.recv(100) == b"":
                            break
            assert time.monotonic() < deadline
        assert httpx.get(f"{address.removesuffix('/v1')}/health", timeout=20).status_code == 200
        server.send_signal(signal.SIGTERM)
        assert server.wait(10) == 0


def test_an_endless_stream_is_ended_before_a_supervisor_kills(tmp_path: Path) -> None:
    with serving(60.0, tmp_path / "log") as (server, address):
        body = {"messages": [{"role": "user", "content": "a"}], "stream": True}
        with httpx.stream("POST", f"{address}/chat/completions", json=body, timeout=20) as response:
            lines = response.iter_lines()
            next(lines)
            server.send_signal(signal.SIGTERM)
            last = [line for line in lines if line][-1]
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "engine_closed"
        assert server.wait(9) == 0
