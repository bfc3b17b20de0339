"""What is on the wire, spoken over a real socket to a server without a model: bodies, statuses, streams,
disconnects.
"""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import httpx
import openai
import pytest
from fakes import FakeService, words
from slipcast.engine import BusyError, ClosedError, ContextLengthError, EngineError, GrammarFault, errors
from slipcast.engine.api.errors import ANSWERS, UNEXPECTED, answer_for
from slipcast.engine.request import Event, Failed, GenerationRequest, TextDelta
from slipcast.grammar.errors import GrammarError, SchemaError, UnsatisfiableError, UnsupportedError
from slipcast.samplers import SamplingError

HELLO = [{"role": "user", "content": "hello"}]
SCHEMA = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
LIMIT = 20_000


@pytest.fixture
def app_options() -> dict[str, Any]:
    return {"max_body_bytes": LIMIT}


def post(address: str, body: Any) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    return httpx.post(f"{address}/v1/chat/completions", content=content, timeout=10)


def refused(response: httpx.Response, status: int) -> dict[str, Any]:
    """The error of a refusal, whose body must be OpenAI's."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/json"
    body = response.json()
    assert set(body) == {"error"}
    assert set(body["error"]) == {"message", "type", "param", "code"}
    assert body["error"]["message"]
    assert "\n" not in body["error"]["message"]
    error: dict[str, Any] = body["error"]
    return error


def test_health_and_models(address: str, client: openai.OpenAI) -> None:
    assert httpx.get(f"{address}/health").json() == {"status": "ok"}
    assert [model.id for model in client.models.list()] == ["fake"]
    assert client.models.retrieve("fake").owned_by == "slipcast"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-5")


def test_health_tells_when_the_engine_is_gone(address: str, service: FakeService) -> None:
    service.closed = True
    assert refused(httpx.get(f"{address}/health"), 503)["code"] == "engine_closed"


def test_an_answer_through_the_openai_client(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(model="fake", messages=HELLO, n=2, user="someone", store=True)
    assert [choice.message.content for choice in answer.choices] == ["Hello", "Hello"]
    assert answer.choices[0].finish_reason == "stop"
    assert answer.usage is not None
    assert answer.usage.total_tokens == answer.usage.prompt_tokens + answer.usage.completion_tokens
    assert "system_fingerprint" not in answer.model_fields_set


def test_a_stream_through_the_openai_client(client: openai.OpenAI) -> None:
    stream = client.chat.completions.create(
        model="fake", messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    assert "".join(choice.delta.content or "" for chunk in chunks for choice in chunk.choices) == "Hello"
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [chunk.usage is None for chunk in chunks] == [True] * (len(chunks) - 1) + [False]


def test_the_bytes_of_a_stream(address: str) -> None:
    response = post(address, {"messages": HELLO, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert "content-length" not in response.headers
    events = response.text.split("\n\n")
    assert events[-2:] == ["data: [DONE]", ""]
    assert all(event.startswith("data: {") for event in events[:-2])
    assert "usage" not in json.loads(events[0].removeprefix("data: "))


@pytest.mark.parametrize(
    ("body", "status", "param", "code"),
    [
        (b"", 400, None, "invalid_body"),
        (b"{", 400, None, "invalid_body"),
        (b"[1]", 400, None, "invalid_body"),
        (b'{"messages": NaN}', 400, None, "invalid_body"),
        (b"[" * 9_000, 400, None, "invalid_body"),
        (b" " * (LIMIT + 1), 413, None, "body_too_large"),
        ({}, 400, "messages", "invalid_body"),
        ({"messages": HELLO, "temperature": "hot"}, 400, "temperature", "invalid_body"),
        ({"messages": HELLO, "temperature": -1}, 400, "temperature", "invalid_value"),
        ({"messages": HELLO, "logit_bias": {"999999": 1}}, 400, "logit_bias", "invalid_value"),
        ({"messages": HELLO, "model": "gpt-5"}, 404, "model", "model_not_found"),
        ({"messages": HELLO, "tools": [{"type": "function"}]}, 400, "tools.0.function", "invalid_body"),
        ({"messages": HELLO, "response_format": {"type": "xml"}}, 400, "response_format", "invalid_body"),
    ],
    ids=str,
)
def test_bad_requests(address: str, body: Any, status: int, param: str | None, code: str) -> None:
    error = refused(post(address, body), status)
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", param, code)


def test_a_body_of_unknown_length_is_cut_off_at_the_limit(address: str) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    response = httpx.post(f"{address}/v1/chat/completions", content=endless(), timeout=10)
    assert refused(response, 413)["code"] == "body_too_large"


def test_unknown_paths_and_methods(address: str) -> None:
    assert "GET /v1/nothing" in refused(httpx.get(f"{address}/v1/nothing"), 404)["message"]
    refused(httpx.get(f"{address}/v1/chat/completions"), 405)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SchemaError("unknown type 'strin'", pointer="/properties/a/type", keyword="type"), "invalid_schema"),
        (UnsupportedError("cannot be enforced", pointer="/not", keyword="not"), "unsupported_schema"),
        (UnsatisfiableError("nothing is valid", pointer="/required"), "unsatisfiable_schema"),
    ],
)
def test_a_bad_schema_is_told_with_keyword_and_pointer(
    address: str, service: FakeService, error: GrammarError, code: str
) -> None:
    service.grammar_refusal = error
    for stream in (False, True):
        told = refused(post(address, {"messages": HELLO, "response_format": SCHEMA, "stream": stream}), 400)
        assert (told["code"], told["param"]) == (code, "response_format")
        assert f"#{error.pointer}" in told["message"]
        assert error.keyword is None or error.keyword in told["message"]


def test_a_long_message_keeps_its_two_ends(address: str, service: FakeService) -> None:
    service.grammar_refusal = SchemaError(f"malformed: {'(' * 60_000}", pointer="/pattern", keyword="pattern")
    message = refused(post(address, {"messages": HELLO, "response_format": SCHEMA}), 400)["message"]
    assert len(message) < 1000
    assert message.startswith("malformed: ((")
    assert message.endswith("at #/pattern")


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (BusyError("too many requests wait"), 429, "engine_busy"),
        (ClosedError("the engine was closed"), 503, "engine_closed"),
        (ContextLengthError("too long", limit=5), 400, "context_length_exceeded"),
        (EngineError("something"), 500, "engine_error"),
        (ZeroDivisionError("secret"), 500, "internal_error"),
    ],
)
def test_what_the_service_raises(address: str, service: FakeService, error: Exception, status: int, code: str) -> None:
    service.refusal = error
    told = refused(post(address, {"messages": HELLO}), status)
    assert told["code"] == code
    assert "secret" not in told["message"]
    assert httpx.get(f"{address}/health").status_code == 200


def failing_at_once(request: GenerationRequest) -> Iterator[Event]:
    yield Failed(GrammarFault("the matcher is stuck"))


def failing_late(request: GenerationRequest) -> Iterator[Event]:
    yield TextDelta(0, "Hel")
    yield Failed(GrammarFault("the matcher is stuck"))


@pytest.mark.parametrize("stream", [False, True])
def test_a_fault_before_the_first_event_is_a_status(address: str, service: FakeService, stream: bool) -> None:
    service.script = failing_at_once
    assert refused(post(address, {"messages": HELLO, "stream": stream}), 500)["code"] == "grammar_fault"


def test_a_fault_in_a_stream_is_its_last_event(address: str, service: FakeService, client: openai.OpenAI) -> None:
    service.script = failing_late
    response = post(address, {"messages": HELLO, "stream": True})
    assert response.status_code == 200
    *_, last, empty = response.text.split("\n\n")
    assert empty == ""
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "grammar_fault"

    stream = client.chat.completions.create(model="fake", messages=HELLO, stream=True)
    with pytest.raises(openai.APIError, match="the matcher is stuck"):
        list(stream)


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_cancels_its_request(address: str, service: FakeService, stream: bool) -> None:
    gate = threading.Event()
    service.script = words("a", "b", gate=gate)
    connection = http.client.HTTPConnection(urlsplit(address).netloc, timeout=10)
    connection.request("POST", "/v1/chat/completions", json.dumps({"messages": HELLO, "stream": stream}))
    if stream:
        response = connection.getresponse()
        assert b"data:" in response.readline()
        response.close()
    else:
        while not service.requests:
            threading.Event().wait(0.01)
    connection.close()
    assert service.was_cancelled.wait(5)
    assert service.cancelled == [service.requests[0].id]
    gate.set()


def test_bad_requests_leave_a_running_stream_alone(address: str, service: FakeService, client: openai.OpenAI) -> None:
    gate = threading.Event()
    service.script = words("Hel", "lo", gate=gate)
    stream = client.chat.completions.create(model="fake", messages=HELLO, stream=True)
    assert next(stream).choices[0].delta.role == "assistant"
    service.grammar_refusal = SchemaError("unknown type 'strin'", pointer="/type", keyword="type")
    for _ in range(20):
        refused(post(address, {"messages": HELLO, "response_format": SCHEMA}), 400)
    gate.set()
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == "Hello"


def test_every_error_of_the_product_has_its_answer() -> None:
    """A class added to one of the error trees has a row of its own or stands under one that fits."""

    def family(base: type[Exception]) -> set[type[Exception]]:
        return {base}.union(*(family(child) for child in base.__subclasses__()))

    product = family(errors.EngineError) | family(GrammarError) | {SamplingError}
    unanswered = [error.__name__ for error in product if not any(base in ANSWERS for base in error.__mro__)]
    assert not unanswered
    assert answer_for(ValueError("x")) is UNEXPECTED
    for error in family(errors.RequestError) | family(GrammarError) | {SamplingError}:
        row = next(ANSWERS[base] for base in error.__mro__ if base in ANSWERS)
        assert 400 <= row.status < 500, error
