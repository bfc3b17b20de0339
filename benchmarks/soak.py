"""Many clients at once for a while: what the server answers, what it loses, and whether it keeps what it should not.

    python benchmarks/soak.py [--seconds 180] [--clients 200] [--mode server]

A server with the default model runs in a process of its own. Clients ask, in turns drawn at random, for answers of
schemas, calls of tools, plain text, streams, embeddings; and send what is malformed, oversized or hostile, read slowly,
or leave in the middle. Every answer is checked. After a fifth of the time the server is killed (SIGKILL) and started
again, and its KV pages are used once each: memory that the system gives as it is first written would otherwise count as
growth. Its memory is measured each second from the middle of the time that is left. At the end, when all others are
gone, hostile constraints are asked for beside two streams (company.py).

Figures: `requests`, `wrong` (answers that are not what was asked for, hostile requests not refused in form), `lost`
(asked in full and never answered, but for those in flight at the kill), `errors_5xx` (but 503 when ending), `busy`
(429, by design), `in_flight_at_kill`, `ttft_p50_s`, `ttft_p99_s`; of memory `rss_mb` (at the first measurement),
`rss_growth_share` (what a straight line through all measurements rises in their time, of its begin),
`rss_mb_per_1000_requests` (its slope), `rss_peak_share` (the highest above the first); `pages_left` (KV pages that
somebody holds when all is done and cached prefixes are given up); and company.py's.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import numpy as np
from company import company, requests
from report import write_report

MODEL = "smollm2-135m-instruct"
PATIENCE_SECONDS = 300.0
KILLED_AFTER = 0.2  # of the time
WARM_AFTER = 0.5  # of the time after the restart: memory is measured from then on
TOKENS = 24
KV_TOKENS = 8192
WARM_TOKENS = 1024
SHORT = {"type": "string", "maxLength": 8}
PERSON = {
    "type": "object",
    "properties": {
        "name": SHORT,
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"enum": [[], ["a"]]},
    },
    "required": ["name", "age"],
    "additionalProperties": False,
}
SCHEMAS: list[Any] = [
    PERSON,
    {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 4},
    {"enum": ["yes", "no", None, 17]},
    {"anyOf": [{"type": "number", "multipleOf": 0.25, "minimum": 0, "maximum": 2}, {"type": "boolean"}]},
    {"type": "string", "pattern": "^[a-c]{2,5}$"},
]
HOSTILE = list(requests().values())
MALFORMED: list[bytes] = [
    b"",
    b"{",
    b"[]",
    b'{"messages": []}',
    b'{"messages": [{"role": "user", "content": 7}]}',
    b'{"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}',
    b'{"messages": [{"role": "user", "content": "x"}], "logit_bias": {"999999999": 1}}',
    b"[" * 50_000,
]
TOOL = {"type": "function", "function": {"name": "note", "description": "Take a note.", "parameters": PERSON}}


@dataclass
class Tally:
    """What happened so far."""

    counts: Counter[str] = field(default_factory=Counter)
    first: list[float] = field(default_factory=list)
    examples: dict[str, str] = field(default_factory=dict)
    down: bool = False  # between the kill and the restart, when nothing can be answered
    over: bool = False

    def note(self, what: str, example: str = "") -> None:
        """Count it; the first of a kind is told at the end."""
        self.counts[what] += 1
        if example and what not in self.examples:
            self.examples[what] = example[:400]


class Client:
    """One client: asks, checks, asks again."""

    def __init__(self, address: str, tally: Tally, seed: int) -> None:
        self._address = address
        self._tally = tally
        self._random = random.Random(seed)
        self._http = httpx.AsyncClient(timeout=PATIENCE_SECONDS)

    async def run(self) -> None:
        """Until all is over."""
        kinds: list[tuple[int, Callable[[], Awaitable[None]]]] = [
            (6, self.schema),
            (3, self.tools),
            (3, self.text),
            (1, self.responses),
            (1, self.embeddings),
            (2, self.malformed),
            (2, self.hostile),
            (1, self.oversized),
            (1, self.slow),
            (2, self.leaving),
        ]
        weights, works = [weight for weight, _ in kinds], [work for _, work in kinds]
        async with self._http:
            while not self._tally.over:
                if self._tally.down:
                    await asyncio.sleep(0.2)
                    continue
                self._tally.note("requests")
                try:
                    await self._random.choices(works, weights)[0]()
                except (httpx.TransportError, httpx.StreamError) as error:
                    what = "in_flight_at_kill" if self._tally.down else "lost"
                    self._tally.note(what, f"{type(error).__name__}: {error}")
                    await asyncio.sleep(0.5)

    def _chat(self, **more: Any) -> dict[str, Any]:
        word = self._random.choice(["a cow", "the sea", "bread", "winter", "a train"])
        messages = [{"role": "user", "content": f"Say something about {word}."}]
        return {"model": MODEL, "messages": messages, "max_tokens": TOKENS, "seed": self._random.randrange(99), **more}

    async def _post(self, path: str, body: Any, expected: tuple[int, ...] = (200,)) -> Any:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        response = await self._http.post(f"{self._address}{path}", content=content)
        return self._judge(response.status_code, response.text, expected)

    def _judge(self, status: int, text: str, expected: tuple[int, ...]) -> Any:
        """The answer's body; None where there is none to look at."""
        if status == 429 or (status == 503 and self._tally.down):
            self._tally.note("busy")
        elif status >= 500:
            self._tally.note("errors_5xx", text)
        elif status not in expected:
            self._tally.note("wrong", f"{status}, expected {expected}: {text}")
        elif status >= 400:
            error = json.loads(text).get("error", {})
            if set(error) != {"message", "type", "param", "code"}:
                self._tally.note("wrong", f"no error body: {text}")
        else:
            return json.loads(text)
        return None

    async def _events(self, path: str, body: Any, pause: float = 0) -> AsyncIterator[str]:
        """The data of a stream's events. What is no stream is judged, and has none."""
        started = time.monotonic()
        async with self._http.stream("POST", f"{self._address}{path}", json=body) as response:
            if response.status_code != 200:
                self._judge(response.status_code, (await response.aread()).decode(), (200,))
                return
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    if started:
                        self._tally.first.append(time.monotonic() - started)
                        started = 0
                    yield line.removeprefix("data: ")
                    await asyncio.sleep(pause)

    async def _streamed(self, body: Any, pause: float = 0) -> str | None:
        """The content of a streamed chat; None if the stream did not end as one."""
        pieces, last = [], ""
        async for last in self._events("/v1/chat/completions", {**body, "stream": True}, pause):
            if last != "[DONE]" and (choices := json.loads(last).get("choices")):
                pieces.append(choices[0]["delta"].get("content") or "")
        if last == "[DONE]":
            return "".join(pieces)
        if last and not self._tally.down:
            self._tally.note("errors_5xx" if '"error"' in last else "lost", last)
        return None

    async def schema(self) -> None:
        """An answer of a schema, whole or streamed."""
        schema = self._random.choice(SCHEMAS)
        wanted = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        body = self._chat(response_format=wanted, max_tokens=60)
        if self._random.random() < 0.5:
            text = await self._streamed(body)
        else:
            answer = await self._post("/v1/chat/completions", body)
            text = answer and answer["choices"][0]["message"]["content"]
        if text is not None:
            self._check(text, schema)

    def _check(self, text: str, schema: Any) -> None:
        try:
            jsonschema.validate(json.loads(text), schema)
        except RecursionError:
            self._tally.note("unchecked")  # jsonschema goes as deep as the schema
        except (ValueError, jsonschema.ValidationError) as error:
            self._tally.note("wrong", f"{text!r} is not of {json.dumps(schema)}: {error}")

    async def tools(self) -> None:
        """A call that must be made, or may be."""
        choice = self._random.choice(["required", "auto"])
        answer = await self._post(
            "/v1/chat/completions",
            self._chat(tools=[TOOL], tool_choice=choice, parallel_tool_calls=False, max_tokens=60),
        )
        if answer is not None:
            calls = answer["choices"][0]["message"].get("tool_calls", [])
            if choice == "required" and len(calls) != 1:
                self._tally.note("wrong", f"{len(calls)} calls where one is required")
            for call in calls:
                self._check(call["function"]["arguments"], PERSON)

    async def text(self) -> None:
        """Plain text, streamed or of the plain endpoint."""
        if self._random.random() < 0.5:
            await self._streamed(self._chat())
        else:
            await self._post("/v1/completions", {"prompt": ["The sky is", "One, two,"], "max_tokens": 6, "n": 2})

    async def responses(self) -> None:
        """The Responses API, streamed; the last event is the response."""
        wanted = {"format": {"type": "json_schema", "name": "x", "schema": PERSON}}
        body = {"input": "Who?", "text": wanted, "max_output_tokens": 60, "stream": True}
        events = [data async for data in self._events("/v1/responses", body)]
        if events:
            event = json.loads(events[-1])
            if event["type"] == "response.completed":
                self._check(event["response"]["output"][0]["content"][0]["text"], PERSON)
            elif not self._tally.down:
                self._tally.note("errors_5xx" if event["type"] == "response.failed" else "lost", events[-1])

    async def embeddings(self) -> None:
        """Vectors."""
        answer = await self._post("/v1/embeddings", {"input": ["a cow", "the sea"]})
        if answer is not None and len(answer["data"]) != 2:
            self._tally.note("wrong", "two texts, and not two vectors")

    async def malformed(self) -> None:
        """What is no request."""
        await self._post("/v1/chat/completions", self._random.choice(MALFORMED), expected=(400,))

    async def hostile(self) -> None:
        """A schema that cannot be, or costs too much: refused, or answered rightly."""
        fields = self._random.choice(HOSTILE)
        answer = await self._post("/v1/chat/completions", self._chat(**fields), expected=(200, 400))
        wanted = fields.get("response_format", {}).get("json_schema")
        if answer is not None and wanted is not None and answer["choices"][0]["finish_reason"] == "stop":
            self._check(answer["choices"][0]["message"]["content"], wanted["schema"])

    async def oversized(self) -> None:
        """More than the server reads: told so, or cut off while still sending."""
        try:
            await self._post("/v1/chat/completions", b" " * (9 << 20), expected=(413,))
        except (httpx.WriteError, httpx.RemoteProtocolError, httpx.ReadError):
            self._tally.note("cut_off")

    async def slow(self) -> None:
        """A stream that is read slowly."""
        await self._streamed(self._chat(), pause=0.2)

    async def leaving(self) -> None:
        """Gone within a stream, or while waiting for an answer."""
        if self._random.random() < 0.5:
            async for _ in self._events("/v1/chat/completions", self._chat(stream=True, max_tokens=200)):
                break
        else:
            asked = asyncio.create_task(self._post("/v1/chat/completions", self._chat(max_tokens=200, n=2)))
            await asyncio.sleep(self._random.random())
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)
        self._tally.note("left")


class Server:
    """The server's process."""

    def __init__(self, mode: str, kv_tokens: int) -> None:
        self._mode = mode
        self._kv_tokens = kv_tokens
        self.port = 0
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, at the same port as before."""
        command = [sys.executable, __file__, "--serve", "--mode", self._mode, "--port", str(self.port)]
        command += ["--kv-tokens", str(self._kv_tokens)]
        # Its standard input ends with this program, however that ends.
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        found = re.search(r"port (\d+)", line)
        if found is None:
            raise SystemExit(f"the server said {line!r}")
        self.port = int(found.group(1))
        deadline = time.monotonic() + PATIENCE_SECONDS
        while time.monotonic() < deadline:
            with suppress(OSError):
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
                return
            time.sleep(0.1)

    def kill(self) -> None:
        """As by power failure."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def end(self) -> None:
        """As a supervisor ends it."""
        assert self._process is not None
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)

    @property
    def rss(self) -> int:
        """Its resident memory, in bytes; 0 where the system does not say."""
        assert self._process is not None
        try:
            pages = int(Path(f"/proc/{self._process.pid}/statm").read_text().split()[1])
        except (OSError, ValueError, IndexError):
            return 0
        return pages * 4096


async def soak(seconds: float, clients: int, mode: str, kv_tokens: int) -> dict[str, float]:
    """Run it; the figures."""
    server, tally = Server(mode, kv_tokens), Tally()
    await asyncio.to_thread(server.start)
    address = f"http://127.0.0.1:{server.port}"
    running = [asyncio.create_task(Client(address, tally, seed).run()) for seed in range(clients)]
    await asyncio.sleep(seconds * KILLED_AFTER)
    tally.down = True
    server.kill()
    await asyncio.to_thread(server.start)
    await use_all_pages(address, kv_tokens)
    tally.down = False
    left = seconds * (1 - KILLED_AFTER)
    await asyncio.sleep(left * WARM_AFTER)
    memory: list[tuple[float, float]] = []  # requests so far, MB
    ends = time.monotonic() + left * (1 - WARM_AFTER)
    while time.monotonic() < ends or len(memory) < 2:
        memory.append((tally.counts["requests"], server.rss / 1e6))
        await asyncio.sleep(1)
    tally.over = True
    await asyncio.gather(*running)
    beside = await company(address)
    async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as http:
        pages = (await http.get(f"{address}/soak/pages")).json()["pages_left"]
    server.end()
    for what, example in tally.examples.items():
        print(f"first of {what}: {example}", file=sys.stderr)
    first = np.array(tally.first or [np.nan])
    names = ("requests", "wrong", "lost", "errors_5xx", "busy", "left", "cut_off", "in_flight_at_kill")
    return {
        **{name: float(tally.counts[name]) for name in names},
        "ttft_p50_s": float(np.percentile(first, 50)),
        "ttft_p99_s": float(np.percentile(first, 99)),
        **growth(memory),
        "pages_left": float(pages),
        **beside,
    }


def growth(memory: list[tuple[float, float]]) -> dict[str, float]:
    """What became of the memory, of measurements as (requests so far, MB), one a second."""
    asked, used = np.array(memory).T
    seconds = np.arange(len(used))
    rise, begin = np.polyfit(seconds, used, 1)
    span = max(asked[-1] - asked[0], 1)
    total = rise * seconds[-1]
    return {
        "rss_mb": float(used[0]),
        "rss_growth_share": float(total / begin) if begin else 0.0,
        "rss_mb_per_1000_requests": float(total / span * 1000),
        "rss_peak_share": float(used.max() / used[0] - 1) if used[0] else 0.0,
    }


async def use_all_pages(address: str, kv_tokens: int) -> None:
    """Prompts that have nothing in common, so that each takes pages that were free, as many as there are."""
    async with httpx.AsyncClient(timeout=PATIENCE_SECONDS) as http:
        for i in range(-(-kv_tokens // WARM_TOKENS) + 1):
            tokens = [1000 + (7919 * (i * WARM_TOKENS + j)) % 40_000 for j in range(WARM_TOKENS)]
            await http.post(f"{address}/v1/completions", json={"prompt": tokens, "max_tokens": 1})


def serve(mode: Any, port: int, kv_tokens: int) -> None:
    """The server, with a route that tells which pages are held."""
    import uvicorn
    from slipcast.engine import AsyncEngine
    from slipcast.engine.api.server import create_app
    from slipcast.engine.cli_serve import is_busy
    from slipcast.engine.housekeeping import Housekeeping
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    engine = AsyncEngine(mode=mode, kv_tokens=kv_tokens)

    async def pages(request: Request) -> JSONResponse:
        while engine.stats().running or engine.stats().waiting:
            await asyncio.sleep(0.1)
        return JSONResponse({"pages_left": await asyncio.to_thread(engine.service.release_cache)})

    app = create_app(engine, routes=[Route("/soak/pages", pages)])
    config = uvicorn.Config(app, port=port, log_level="error", timeout_graceful_shutdown=5)
    listener = config.bind_socket()
    print(f"port {listener.getsockname()[1]}", flush=True)
    with Housekeeping(lambda: is_busy(engine)):  # as `slipcast serve` does
        uvicorn.Server(config).run(sockets=[listener])


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--mode", default="server")
    parser.add_argument("--kv-tokens", type=int, default=KV_TOKENS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--port", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.mode, options.port, options.kv_tokens)
        return
    figures = asyncio.run(soak(options.seconds, options.clients, options.mode, options.kv_tokens))
    for name, value in figures.items():
        print(f"{name:<20}{value:>12.4g}")
    write_report("soak", figures)


if __name__ == "__main__":
    main()
