"""A Ray cluster of its own, `slipcast deploy` on it as an operator runs it, and load. For tests of replicas."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

HEAD = """
import ray, sys
ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""
START_SECONDS = 240
REPLICA = "ray::ServeReplica:slipcast:Replica"


@contextmanager
def cluster() -> Iterator[tuple[str, int]]:
    """The address of a new cluster of this machine, and the id of the process that holds it."""
    # Where somebody's token lies about, a new cluster would ask for it, and who joins would not have been told.
    environment = {**os.environ, "RAY_USAGE_STATS_ENABLED": "0", "RAY_AUTH_MODE": "disabled"}
    environment.pop("RAY_ADDRESS", None)
    with subprocess.Popen(
        [sys.executable, "-c", HEAD], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    ) as head:
        assert head.stdin is not None
        assert head.stdout is not None
        try:
            yield head.stdout.readline().strip(), head.pid
        finally:
            head.stdin.close()
            head.wait(60)


@dataclass(frozen=True)
class Deploy:
    """A running `slipcast deploy`."""

    process: subprocess.Popen[bytes]
    log: Path

    def said(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_for(self, text: str, seconds: float = START_SECONDS) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.said():
            assert time.monotonic() < deadline, self.said()
            assert self.process.poll() is None or text in self.said(), self.said()
            time.sleep(0.2)

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(120)


def deploy(address: str, log: Path, *arguments: str, **environment: str) -> Deploy:
    """Start it. Its output goes into the file."""
    script = "import sys; from slipcast.engine.cli import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", script, "deploy", *arguments]
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent,
            env={**os.environ, "RAY_ADDRESS": address, **environment},
        )  # fmt: skip
    return Deploy(process, log)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
        return port


def replica_processes(head: int) -> list[int]:
    """Process ids of the replicas on the cluster that the process `head` started."""
    return [pid for pid in _children(_children([head])) if _file(pid, "cmdline").startswith(REPLICA)]


def _children(parents: Sequence[int]) -> list[int]:
    """Process ids of those whose parent is among these."""
    pids = sorted(int(path.name) for path in Path("/proc").glob("[0-9]*"))
    return [pid for pid in pids if int(_file(pid, "stat").rpartition(")")[2].split()[1]) in parents]


def _file(pid: int, name: str) -> str:
    """What /proc says of a process; of one that has ended, that it has no parent."""
    try:
        return Path(f"/proc/{pid}/{name}").read_text(errors="replace")
    except OSError:
        return ") Z 0"


@dataclass(frozen=True)
class Outcome:
    """Of one request. `kind`: "done"; "cut", which a stream may be after it began; or "lost". `text`: what was said."""

    kind: str
    streamed: bool
    number: int
    text: str
    detail: str = ""


async def ask(client: httpx.AsyncClient, number: int, tokens: int, streamed: bool) -> Outcome:
    """One of five conversations; the same one always has the same seed."""
    kind = number % 5
    body = {
        "messages": [{"role": "user", "content": f"Tell me a story about the number {kind}."}],
        "max_tokens": tokens, "ignore_eos": True, "seed": kind, "stream": streamed,
    }  # fmt: skip
    try:
        if not streamed:
            whole = await client.post("/v1/chat/completions", json=body)
            if whole.status_code != 200:
                return Outcome("lost", streamed, kind, "", whole.text)
            return Outcome("done", streamed, kind, whole.json()["choices"][0]["message"]["content"])
        async with client.stream("POST", "/v1/chat/completions", json=body) as response:
            lines = [line.removeprefix("data: ") async for line in response.aiter_lines() if line]
        chunks = [json.loads(line) for line in lines if line != "[DONE]"]
        text = "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks if "choices" in chunk)
        if lines[-1] == "[DONE]":
            return Outcome("done", streamed, kind, text)
        return Outcome("cut" if len(chunks) > 1 and "error" in chunks[-1] else "lost", streamed, kind, text, lines[-1])
    except Exception as error:
        return Outcome("lost", streamed, kind, "", repr(error))


async def load(
    client: httpx.AsyncClient, requests: int, clients: int, tokens: int,
    meanwhile: Callable[[], Awaitable[None]] | None = None,
) -> list[Outcome]:  # fmt: skip
    """What became of so many requests, every other one streamed, of so many clients; something happens meanwhile."""
    numbers = iter(range(requests))

    async def work() -> list[Outcome]:
        return [await ask(client, number, tokens, number % 2 == 0) for number in numbers]

    doing = [asyncio.create_task(work()) for _ in range(clients)]
    if meanwhile is not None:
        await meanwhile()
    return [outcome for outcomes in await asyncio.gather(*doing) for outcome in outcomes]


def texts_of(outcomes: Sequence[Outcome]) -> dict[int, set[str]]:
    """What whole answers said, by conversation: one text each, whichever replica said it."""
    said: dict[int, set[str]] = {}
    for outcome in outcomes:
        if outcome.kind == "done":
            said.setdefault(outcome.number, set()).add(outcome.text)
    return said


def total(metrics: str, name: str) -> dict[str, float]:
    """A metric by replica."""
    found: dict[str, float] = {}
    for labels, value in re.findall(rf"^{name}\{{([^}}]*)\}} (\S+)$", metrics, re.MULTILINE):
        replica = re.findall(r'replica="([^"]*)"', labels)[0]
        found[replica] = found.get(replica, 0.0) + float(value)
    return found


def certificate(folder: Path) -> tuple[str, str]:
    """Paths of a certificate for 127.0.0.1 and of its key."""
    paths = str(folder / "certificate.pem"), str(folder / "key.pem")
    command = (
        "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run([*command.split(), "-out", paths[0], "-keyout", paths[1]], check=True, capture_output=True)
    return paths


def eventually(check: Callable[[], Any], seconds: float) -> Any:
    """What the check gives once it is true."""
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline
        time.sleep(0.5)
    return found
