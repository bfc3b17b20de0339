"""Replicas on a real Ray cluster, deployed as operators do it: options, deaths, rolling updates, autoscaling."""

from __future__ import annotations

import asyncio
import importlib.util
import os
import re
import shutil
import signal
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest
from scale_cluster import (
    Deploy,
    Outcome,
    certificate,
    cluster,
    deploy,
    eventually,
    free_port,
    load,
    replica_processes,
    texts_of,
    total,
)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.model,
    pytest.mark.skipif("SLIPCAST_TEST_RAY" not in os.environ, reason="`make test-scale` runs them"),
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="replicas need slipcast[ray]"),
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl makes the certificate"),
]
KEY = {"Authorization": "Bearer sk-1"}
ORIGIN = "https://app.example"
CHAT: dict[str, Any] = {"messages": [{"role": "user", "content": "Hello"}], "seed": 1}
TELEMETRY = all(importlib.util.find_spec(name) for name in ("opentelemetry", "opentelemetry.instrumentation"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("scale")


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[tuple[str, int]]:
    with cluster() as found:
        yield found


@pytest.fixture(scope="module")
def spans() -> Iterator[tuple[str, list[str]]]:
    """An OpenTelemetry collector: its address, and the paths that were posted."""
    posted: list[str] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            posted.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *arguments: Any) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}", posted
    server.shutdown()
    server.server_close()


class Site:
    """The deployment that the tests ask, and how: the latest of those that replaced each other."""

    def __init__(self, ray_cluster: tuple[str, int], folder: Path, collector: str) -> None:
        self.address, self.head = ray_cluster
        self.folder, self.port = folder, free_port()
        self.certificate, self.key = certificate(folder)
        (folder / "keys").write_text("sk-1\n")
        self.collector = collector
        self.deploys: list[Deploy] = []

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def replicas(self) -> list[int]:
        """Process ids."""
        return replica_processes(self.head)

    def deploy(self, *arguments: str) -> Deploy:
        config = (
            f'host = "127.0.0.1"\nport = {self.port}\ntls_certificate = "{self.certificate}"\ntls_key = "{self.key}"\n'
            f'api_key_file = "{self.folder / "keys"}"\nthreads = 1\notel = {str(TELEMETRY).lower()}\n'
        )
        (self.folder / "serve.toml").write_text(config)
        log = self.folder / f"deploy{len(self.deploys)}.log"
        environment = {"OTEL_EXPORTER_OTLP_ENDPOINT": self.collector, "OTEL_BSP_SCHEDULE_DELAY": "500"}
        started = deploy(
            self.address, log, "--config", str(self.folder / "serve.toml"), "--cpus", "0.5", *arguments, **environment
        )
        self.deploys.append(started)
        return started

    def get(self, path: str, **headers: str) -> httpx.Response:
        return httpx.get(self.url + path, headers=headers or KEY, verify=self.context(), timeout=60)

    def chat(self, **more: Any) -> httpx.Response:
        return httpx.post(
            f"{self.url}/v1/chat/completions", json={**CHAT, **more}, headers=KEY, verify=self.context(), timeout=120
        )

    def context(self) -> Any:
        import ssl

        return ssl.create_default_context(cafile=self.certificate)

    @asynccontextmanager
    async def client(self) -> AsyncIterator[httpx.AsyncClient]:
        limits = httpx.Limits(max_connections=100)
        async with httpx.AsyncClient(
            base_url=self.url, headers=KEY, verify=self.context(), timeout=300, limits=limits
        ) as client:
            yield client

    def load(self, requests: int, clients: int, tokens: int, meanwhile: Any = None) -> list[Outcome]:
        async def run() -> list[Outcome]:
            async with self.client() as client:
                return await load(client, requests, clients, tokens, meanwhile)

        return asyncio.run(run())


@pytest.fixture(scope="module")
def site(ray_cluster: tuple[str, int], folder: Path, spans: tuple[str, list[str]]) -> Iterator[Site]:
    site = Site(ray_cluster, folder, spans[0])
    first = site.deploy(
        "--replicas", "2", "--cors-origin", ORIGIN, "--max-body-mb", "1", "--request-timeout", "30", "--no-page",
        "--log-format", "json",
    )  # fmt: skip
    first.wait_for("serving ")
    yield site
    for started in site.deploys:
        started.process.kill()
        started.process.wait()


def test_options_are_obeyed(site: Site, spans: tuple[str, list[str]]) -> None:
    assert site.get("/health", Nothing="").status_code == 200
    refused = site.get("/v1/models", Authorization="Bearer sk-2")
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "invalid_api_key")
    assert site.get("/metrics", Authorization="Bearer sk-2").status_code == 401
    shared = site.get("/v1/models", Origin=ORIGIN, **KEY)
    assert shared.headers["access-control-allow-origin"] == ORIGIN
    assert "access-control-allow-origin" not in site.get("/v1/models", Origin="https://b.example", **KEY).headers
    assert site.get("/").status_code == 404
    large = site.chat(user="x" * (2 << 20))
    assert (large.status_code, large.json()["error"]["code"]) == (413, "body_too_large")
    numbered = site.get("/v1/models", **KEY, **{"X-Request-Id": "mine-1"})
    assert numbered.headers.get_list("x-request-id") == ["mine-1"]
    eventually(lambda: '"request_id": "mine-1"' in site.deploys[0].said(), 20)
    if TELEMETRY:
        assert eventually(lambda: spans[1], 20)[0] == "/v1/traces"


def test_a_request_that_takes_too_long_is_ended_and_its_tokens_with_it(site: Site) -> None:
    late = site.chat(max_tokens=4000, ignore_eos=True, n=4)
    assert (late.status_code, late.json()["error"]["code"]) == (503, "timeout")
    eventually(lambda: sum(total(site.get("/metrics").text, "slipcast_running").values()) == 0, 10)


def test_a_client_that_leaves_ends_its_request(site: Site) -> None:
    body = {**CHAT, "max_tokens": 3000, "ignore_eos": True, "stream": True}
    with httpx.stream(
        "POST", f"{site.url}/v1/chat/completions", json=body, headers=KEY, verify=site.context(), timeout=60
    ) as stream:
        lines = stream.iter_lines()
        next(lines)
        eventually(lambda: sum(total(site.get("/metrics").text, "slipcast_running").values()) == 1, 10)
    eventually(lambda: sum(total(site.get("/metrics").text, "slipcast_running").values()) == 0, 10)


def test_all_replicas_are_in_the_metrics_and_know_each_others_responses(site: Site) -> None:
    url = f"{site.url}/v1/responses"
    options: dict[str, Any] = {"headers": KEY, "verify": site.context(), "timeout": 60}
    kept = httpx.post(url, json={"input": "Hello", "max_output_tokens": 4}, **options).json()["id"]
    for number in range(6):
        follow = {"input": f"{number}?", "previous_response_id": kept, "max_output_tokens": 2}
        assert httpx.post(url, json=follow, **options).status_code == 200
        assert httpx.get(f"{url}/{kept}", **options).json()["id"] == kept
    assert len(total(site.get("/metrics").text, "slipcast_requests_total")) == 2
    assert httpx.delete(f"{url}/{kept}", **options).status_code == 200
    assert httpx.get(f"{url}/{kept}", **options).status_code == 404


def test_an_update_has_the_new_options_and_starts_warm(site: Site) -> None:
    assert site.chat(guided_regex="[a-f]{4}", max_tokens=12).status_code == 200
    time.sleep(8)  # a health check, with which grammars are kept
    second = site.deploy("--replicas", "2", "--page")
    second.wait_for("serving ")
    assert site.get("/").status_code == 200
    assert re.search(r"[1-9]\d* grammars are warm", second.said())
    assert site.deploys[0].process.wait(60) == 0
    assert "another process has deployed it anew" in site.deploys[0].said()


def test_a_rolling_update_drops_no_stream(site: Site) -> None:
    async def update() -> None:
        await asyncio.sleep(1)
        third = site.deploy("--replicas", "2")
        await asyncio.to_thread(third.wait_for, "serving ")

    outcomes = site.load(120, 12, 64, update)
    assert [outcome for outcome in outcomes if outcome.kind != "done"] == []
    assert {number: len(texts) for number, texts in texts_of(outcomes).items()} == dict.fromkeys(range(5), 1)


def test_a_dead_replica_loses_no_request_that_had_not_begun(site: Site) -> None:
    victim = site.replicas()[0]

    async def die() -> None:
        await asyncio.sleep(3)
        os.kill(victim, signal.SIGKILL)

    outcomes = site.load(90, 30, 24, die)
    assert [outcome for outcome in outcomes if outcome.kind == "lost"] == []
    assert all(outcome.streamed for outcome in outcomes if outcome.kind == "cut")
    assert {number: len(texts) for number, texts in texts_of(outcomes).items()} == dict.fromkeys(range(5), 1)
    eventually(lambda: len([pid for pid in site.replicas() if pid != victim]) == 2, 90)


def test_an_update_that_cannot_start_leaves_what_runs(site: Site) -> None:
    failing = site.deploy("--replicas", "2", "--model", "/no/such/model.gguf")
    assert failing.process.wait(300) == 2
    assert "the replicas cannot start: /no/such/model.gguf: there is no such file" in failing.said()
    assert site.chat(max_tokens=4).status_code == 200
    eventually(lambda: len(total(site.get("/metrics").text, "slipcast_requests_total")) == 2, 120)


def test_options_that_serve_cannot_change_while_it_runs_are_refused(site: Site) -> None:
    other = site.deploy("--port", str(free_port()))
    assert other.process.wait(200) == 2
    assert "port is" in other.said()
    assert "serve shutdown" in other.said()


def test_a_replica_that_hangs_is_replaced_and_its_requests_are_answered(site: Site) -> None:
    victim = site.replicas()[0]

    async def hang() -> None:
        await asyncio.sleep(1)
        os.kill(victim, signal.SIGSTOP)

    outcomes = site.load(24, 12, 24, hang)
    assert [outcome for outcome in outcomes if outcome.kind == "lost"] == []
    eventually(lambda: victim not in site.replicas(), 60)


def test_the_number_of_replicas_follows_the_load(site: Site) -> None:
    # Autoscaling begins with as many as there are.
    for more in ((), ("--max-replicas", "2", "--target-requests", "2")):
        site.deploy("--replicas", "1", *more).wait_for("serving ")
        eventually(lambda: len(site.replicas()) == 1, 90)
    ended = time.monotonic() + 240

    async def grow() -> None:
        while len(site.replicas()) < 2:
            assert time.monotonic() < ended
            await asyncio.sleep(1)

    outcomes = site.load(400, 16, 48, grow)
    assert [outcome for outcome in outcomes if outcome.kind != "done"] == []


def test_a_signal_ends_it_in_order(site: Site) -> None:
    assert site.deploys[-1].end() == 0
    with pytest.raises(httpx.ConnectError):
        site.get("/health")
