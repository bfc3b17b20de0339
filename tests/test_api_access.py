"""Who may ask, for how long, and what is counted: keys, request ids, time limits, CORS, metrics, logs."""

from __future__ import annotations

import json
import logging
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Queue
from typing import Any

import httpx
import pytest
from fakes import FakeService
from prometheus_client.parser import text_string_to_metric_families
from serving import served
from slipcast.engine import AsyncEngine
from slipcast.engine.api.access import AccessRules, JsonLines, current_request, read_keys
from slipcast.engine.api.server import create_app
from slipcast.engine.cli_serve import traced
from slipcast.engine.request import Event, Failed, Finished, TextDelta, Usage
from slipcast.engine.timing import Histogram, Timing
from slipcast.grammar.errors import SchemaError

HELLO: dict[str, Any] = {"messages": [{"role": "user", "content": "hello"}]}
KEYS = ("sk-one", "sk-zwei")


@pytest.fixture
def app_options() -> dict[str, Any]:
    return {"access": AccessRules(keys=KEYS, timeout=0.5), "cors_origins": ["https://a.example"]}


def ask(address: str, key: str | None = KEYS[0], body: dict[str, Any] | None = None, **headers: str) -> httpx.Response:
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    return httpx.post(f"{address}/v1/chat/completions", json=body or HELLO, headers=headers, timeout=10)


@pytest.mark.parametrize("key", KEYS)
def test_each_key_opens_the_door(address: str, key: str) -> None:
    assert ask(address, key).status_code == 200


@pytest.mark.parametrize(
    "authorization",
    [None, "", "Bearer", "Bearer x", "Bearer sk-on", "Bearer sk-one2", "Basic sk-one", "sk-one", "Bearer \u00e9"],
)
def test_others_are_told_that_a_key_is_missing(address: str, authorization: str | None) -> None:
    headers = {} if authorization is None else {"Authorization": authorization.encode("utf-8")}
    response = httpx.post(f"{address}/v1/chat/completions", json=HELLO, headers=headers, timeout=10)  # type: ignore[arg-type]
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == "Bearer"
    assert response.json()["error"]["code"] == "invalid_api_key"
    assert "sk-" not in response.text


def test_health_needs_no_key_and_all_else_does(address: str) -> None:
    assert httpx.get(f"{address}/health").status_code == 200
    for path in ("/v1/models", "/metrics", "/openapi.json", "/nowhere", "/v1/responses/x"):
        assert httpx.get(address + path).status_code == 401, path


def test_answers_carry_the_id_of_the_request(address: str) -> None:
    assert ask(address, **{"X-Request-Id": "mine-1"}).headers["x-request-id"] == "mine-1"
    made = ask(address, **{"X-Request-Id": "no spaces, please"}).headers["x-request-id"]
    assert made.startswith("req_")
    assert ask(address, key=None).headers["x-request-id"].startswith("req_")


def test_a_request_that_takes_too_long_is_ended(service: FakeService, address: str) -> None:
    service.script = lambda request: iter(())  # nothing ever comes
    response = ask(address)
    assert response.status_code == 503
    assert response.json()["error"]["code"] == "timeout"
    assert "retry-after" in response.headers
    assert service.cancelled


def test_a_stream_that_takes_too_long_ends_with_an_error_event(service: FakeService, address: str) -> None:
    service.script = lambda request: iter((TextDelta(0, "begun", token_ids=(1,)),))
    response = ask(address, body={**HELLO, "stream": True})
    assert response.status_code == 200
    last = [line for line in response.text.splitlines() if line.startswith("data: ")][-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "timeout"
    assert service.cancelled


def test_pages_of_the_allowed_origin_may_ask(address: str) -> None:
    asked = {"Origin": "https://a.example", "Access-Control-Request-Method": "POST"}
    assert httpx.options(f"{address}/v1/chat/completions", headers=asked).status_code == 200
    assert ask(address, Origin="https://a.example").headers["access-control-allow-origin"] == "https://a.example"
    assert "access-control-allow-origin" not in ask(address, Origin="https://b.example").headers
    # A browser hides from a page what comes without the header, errors too.
    assert "access-control-allow-origin" in ask(address, key=None, Origin="https://a.example").headers


def test_metrics_are_prometheus_text(address: str) -> None:
    ask(address)
    response = httpx.get(f"{address}/metrics", headers={"Authorization": f"Bearer {KEYS[0]}"})
    assert response.headers["content-type"].startswith("text/plain")
    families = {family.name: family for family in text_string_to_metric_families(response.text)}
    for name in ("requests", "preemptions", "forced_tokens", "waiting", "free_pages", "refused_grammars"):
        assert f"slipcast_{name}" in families
    sample = families["slipcast_requests"].samples[0]
    assert sample.labels == {"model": "fake"}


def test_timing_counts_what_comes_and_goes() -> None:
    timing = Timing()
    seen: list[Event] = []
    watch = timing.watched(seen.append)
    watch(TextDelta(0, "a", token_ids=(1,)))
    watch(TextDelta(0, "bc", token_ids=(2, 3)))
    watch(Finished(0, "stop", Usage(10, 3, 4)))
    assert len(seen) == 3
    assert timing.first_token.observed().count == 1
    assert timing.per_token.observed().count == 2
    assert (timing.prompt_tokens, timing.cached_tokens) == (10, 4)
    timing.watched(seen.append)(Failed(ValueError("x")))
    assert timing.finished == {"stop": 1, "error": 1}
    with pytest.raises(SchemaError), timing.compiling():
        raise SchemaError("no", keyword="type")
    assert timing.refused == {"type": 1}
    assert timing.compile.observed().count == 1


def test_histograms_count_by_size() -> None:
    histogram = Histogram((1.0, 2.0))
    for value in (0.5, 1.0, 1.5, 3.0):
        histogram.add(value)
    observed = histogram.observed()
    assert (observed.counts, observed.count, observed.total) == ((2, 3), 4, 6.0)


def test_log_lines_are_json_with_the_request() -> None:
    record = logging.LogRecord("slipcast.access", logging.INFO, "x", 1, "%s %s", ("GET", "/x\n"), None)
    record.status = 200
    token = current_request.set("req_1")
    try:
        line = JsonLines().format(record)
    finally:
        current_request.reset(token)
    assert "\n" not in line
    read = json.loads(line)
    assert (read["message"], read["request_id"], read["status"], read["level"]) == ("GET /x\n", "req_1", 200, "info")


def test_keys_from_a_file() -> None:
    assert read_keys(["# ours", "", " sk-a ", "sk-b\n"]) == ("sk-a", "sk-b")


# --------------------------------------------------------------------------------------------------------------- traces


def test_a_request_is_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    for part in ("exporter.otlp.proto.http", "instrumentation.asgi"):
        pytest.importorskip(f"opentelemetry.{part}", reason="the extra `otel` is not installed")
    received: Queue[tuple[str, bytes]] = Queue()

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.put((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Collector) as collector:
        threading.Thread(target=collector.serve_forever, daemon=True).start()
        for name, value in {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.server_port}",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }.items():
            monkeypatch.setenv(name, value)
        monkeypatch.delenv("OTEL_SERVICE_NAME", raising=False)
        with served(traced(create_app(AsyncEngine(service=FakeService())))) as at:
            assert httpx.post(f"{at}/v1/chat/completions", json=HELLO, timeout=20).status_code == 200
            path, spans = received.get(timeout=20)
        collector.shutdown()
    assert path == "/v1/traces"
    assert b"POST /v1/chat/completions" in spans
    assert b"slipcast" in spans
