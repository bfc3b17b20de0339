"""The front over replicas that die, are full or fail, without a cluster: what is asked again, what clients are told."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest

pytest.importorskip("ray.serve", reason="replicas need slipcast[ray]")

from ray.exceptions import ActorDiedError
from ray.serve.exceptions import BackPressureError
from serving import served
from slipcast.engine.api.access import AccessRules
from slipcast.engine.scale import front
from slipcast.engine.scale.calls import Call, Head
from slipcast.engine.settings import ServerSettings

EVENTS = ((b"content-type", b"text/event-stream; charset=utf-8"),)
BODY = {"messages": [{"role": "user", "content": "Hello"}]}
Script = Callable[[], AsyncIterator[Any]]


class Pieces:
    """What a handle gives for a call."""

    def __init__(self, pieces: AsyncIterator[Any]) -> None:
        self._pieces = pieces
        self.cancelled = False

    def __aiter__(self) -> Pieces:
        return self

    async def __anext__(self) -> Any:
        return await anext(self._pieces)

    def cancel(self) -> None:
        self.cancelled = True


class Replicas:
    """A handle of replicas that answer by these scripts, one after another."""

    def __init__(self, *scripts: Script) -> None:
        self._scripts = list(scripts)
        self.calls: list[Call] = []
        self.given: list[Pieces] = []
        self.answer = self

    def options(self, **options: Any) -> Replicas:
        return self

    def remote(self, call: Call) -> Pieces:
        self.calls.append(call)
        self.given.append(Pieces(self._scripts.pop(0)()))
        return self.given[-1]


async def dies() -> AsyncIterator[Any]:
    raise ActorDiedError
    yield


async def full() -> AsyncIterator[Any]:
    raise BackPressureError(num_queued_requests=1, max_queued_requests=1)
    yield


async def answers() -> AsyncIterator[Any]:
    yield Head(200, ((b"content-length", b"2"), (b"x-request-id", b"r")), b"{}", more=False)


async def streams() -> AsyncIterator[Any]:
    yield Head(200, EVENTS, b"data: 1\n\n", more=True)
    yield b"data: 2\n\ndata: 3\n\n"


async def streams_and_dies() -> AsyncIterator[Any]:
    async for piece in streams():
        yield piece
    raise ActorDiedError


async def sends_and_dies() -> AsyncIterator[Any]:
    yield Head(200, ((b"content-type", b"audio/wav"),), b"abc", more=True)
    raise ActorDiedError


@contextmanager
def door(replicas: Replicas) -> Iterator[httpx.Client]:
    app = front.front_app(replicas, ServerSettings(), AccessRules())
    with served(app) as address, httpx.Client(base_url=address, timeout=20) as client:  # type: ignore[arg-type]
        yield client


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "PAUSE_SECONDS", 0.0)


def test_a_request_that_had_not_begun_is_asked_again_with_its_seed() -> None:
    replicas = Replicas(dies, dies, answers)
    with door(replicas) as client:
        assert client.post("/v1/chat/completions", json=BODY).text == "{}"
    assert len(replicas.calls) == 3
    bodies = {call.body for call in replicas.calls}
    assert len(bodies) == 1
    assert isinstance(json.loads(bodies.pop())["seed"], int)


def test_a_stream_that_had_not_begun_is_asked_again() -> None:
    replicas = Replicas(dies, streams)
    with door(replicas) as client:
        assert client.post("/v1/chat/completions", json=BODY).text == "data: 1\n\ndata: 2\n\ndata: 3\n\n"
    assert all(pieces.cancelled for pieces in replicas.given)


def test_a_stream_that_had_begun_ends_with_an_error_event() -> None:
    replicas = Replicas(streams_and_dies)
    with door(replicas) as client:
        *_, last = client.post("/v1/chat/completions", json=BODY).text.split("\n\n")[:-1]
    assert json.loads(last.removeprefix("data: "))["error"]["code"] == "request_fault"
    assert len(replicas.calls) == 1


def test_events_of_responses_end_with_their_own_kind_of_error() -> None:
    with door(Replicas(streams_and_dies)) as client:
        *_, last = client.post("/v1/responses", json={"input": "Hello"}).text.split("\n\n")[:-1]
    name, data = last.split("\n")
    assert name == "event: error"
    told = json.loads(data.removeprefix("data: "))
    assert (told["type"], told["code"], told["sequence_number"]) == ("error", "request_fault", 3)


def test_what_is_no_stream_of_events_breaks_off() -> None:
    with door(Replicas(sends_and_dies)) as client, pytest.raises(httpx.RemoteProtocolError):
        client.get("/audio")


def test_a_full_line_is_429_and_no_replica_503() -> None:
    with door(Replicas(full)) as client:
        busy = client.post("/v1/chat/completions", json=BODY)
        assert (busy.status_code, busy.json()["error"]["code"]) == (429, "engine_busy")
        assert busy.headers["retry-after"]
    with door(Replicas(*[dies] * front.ATTEMPTS)) as client:
        gone = client.post("/v1/chat/completions", json=BODY)
        assert (gone.status_code, gone.json()["error"]["code"]) == (503, "engine_closed")


def test_replicas_get_the_id_of_the_request() -> None:
    replicas = Replicas(answers)
    with door(replicas) as client:
        client.post("/v1/chat/completions", json=BODY, headers={"X-Request-Id": "mine-7"})
    assert (b"x-request-id", b"mine-7") in replicas.calls[0].headers
