"""Plugins over REST: parameters checked at the door, faults as answers that name the plugin, routes, and the list."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest
from engine_toys import ids, toy_parts, toy_service
from pydantic import BaseModel, Field
from serving import served
from slipcast.engine import AsyncEngine
from slipcast.engine.api.server import create_app
from slipcast.plugins import BaseProcessor, HttpRequest, HttpResponse, PluginError, Route, create_manager, hookimpl


class Options(BaseModel):
    token: int = Field(ge=0, lt=95)
    fail: bool = False


class Force(BaseProcessor):
    name = "force"

    def wants(self, row: Any) -> bool:
        return row.options(Options) is not None

    def apply(self, logits: Any, rows: Any) -> None:
        for x, row in zip(logits, rows, strict=True):
            if row.options(Options).fail:
                raise RuntimeError("as asked\nin two lines")
            x[row.options(Options).token] += 1000


async def hello(request: HttpRequest) -> HttpResponse:
    said = {"name": request.path_params["name"], "query": dict(request.query), "body": request.body.decode()}
    return HttpResponse(json.dumps(said).encode(), 201, headers={"x-plugin": request.method})


async def pieces(request: HttpRequest) -> HttpResponse:
    async def body() -> AsyncIterator[bytes]:
        for i in range(3):
            await asyncio.sleep(0)
            yield f"data: {i}\n\n".encode()

    return HttpResponse(body(), media_type="text/event-stream")


async def broken(request: HttpRequest) -> HttpResponse:
    raise ZeroDivisionError("mine")


async def nothing(request: HttpRequest) -> HttpResponse:
    return None  # type: ignore[return-value]


class Plugin:
    @hookimpl
    def slipcast_logits_processors(self) -> list[Force]:
        return [Force()]

    @hookimpl
    def slipcast_request_parameters(self) -> type[Options]:
        return Options

    @hookimpl
    def slipcast_routes(self) -> list[Route]:
        return [
            Route("/hello/{name}", hello, ("GET", "POST")), Route("/pieces", pieces), Route("/broken", broken),
            Route("/nothing", nothing), Route("/v1/models", broken),
        ]  # fmt: skip


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    parts = toy_parts(plugins=create_manager(extra=[("mine", Plugin()), ("bare", _bare())]))
    engine = AsyncEngine(service=toy_service(parts), chat_template="{{ messages }}")
    app = create_app(engine, max_body_bytes=2000)
    with served(app) as address, httpx.Client(base_url=address, timeout=30) as client:
        yield client


def _bare() -> object:
    class Bare:
        @hookimpl
        def slipcast_sampler(self, name: str) -> None:
            return None

    return Bare()


def complete(client: httpx.Client, **more: Any) -> httpx.Response:
    body = {"prompt": ids("abc"), "max_tokens": 4, "temperature": 0, "ignore_eos": True, **more}
    return client.post("/v1/completions", json=body)


def test_parameters_reach_the_plugin(client: httpx.Client) -> None:
    answer = complete(client, plugins={"mine": {"token": ids("z")[0]}})
    assert answer.json()["choices"][0]["text"] == "zzzz"
    free = complete(client)
    assert free.json()["choices"][0]["text"] != "zzzz"
    assert complete(client, plugins={}).json()["choices"] == free.json()["choices"]
    assert complete(client, plugins={"bare": {}}).json()["choices"] == free.json()["choices"]


@pytest.mark.parametrize(
    ("plugins", "param"),
    [
        ({"mine": {"token": 95}}, "plugins.mine.token"),
        ({"mine": {"token": "x"}}, "plugins.mine.token"),
        ({"mine": {}}, "plugins.mine.token"),
        ({"mine": None}, "plugins.mine.token"),
        ({"mine": [1]}, "plugins.mine"),
        ({"mine": {"token": 1, "tokens": 2}}, "plugins.mine.tokens"),
        ({"bare": {"anything": 1}}, "plugins.bare"),
        ({"other": {}}, "plugins.other"),
        ({"slipcast.sampling": {}}, "plugins.slipcast.sampling"),
        ("mine", "plugins"),
        (["mine"], "plugins"),
    ],
)
def test_wrong_parameters_are_answered_with_400(client: httpx.Client, plugins: Any, param: str) -> None:
    answer = complete(client, plugins=plugins)
    error = answer.json()["error"]
    assert answer.status_code == 400 and error["type"] == "invalid_request_error" and error["param"] == param
    assert "\n" not in error["message"]


def test_a_fault_names_the_plugin_and_only_the_plugin(client: httpx.Client) -> None:
    answer = complete(client, plugins={"mine": {"token": 1, "fail": True}})
    error = answer.json()["error"]
    assert answer.status_code == 500 and error["code"] == "plugin_fault" and "'mine'" in error["message"]
    assert "Traceback" not in answer.text and complete(client).status_code == 200


def test_all_sampling_options_reach_the_sampler(client: httpx.Client) -> None:
    options = {
        "temperature": 0.8, "top_k": 5, "min_p": 0.01, "typical_p": 0.9, "top_n_sigma": 2.5, "xtc_probability": 0.5,
        "xtc_threshold": 0.1, "dry_multiplier": 0.8, "dry_base": 1.5, "dry_allowed_length": 1, "dry_penalty_last_n": 20,
        "dry_sequence_breakers": ["\n"], "mirostat": 2, "mirostat_tau": 3.0, "mirostat_eta": 0.2, "repeat_penalty": 1.1,
        "repeat_last_n": 8, "presence_penalty": 0.1, "seed": 7, "user": "me", "priority": -3, "grammar_aligned": True,
    }  # fmt: skip
    first, second = complete(client, **options), complete(client, **options)
    assert first.status_code == 200 and first.json()["choices"] == second.json()["choices"]
    wrong = {
        "typical_p": 0, "top_n_sigma": -2, "xtc_probability": 2, "xtc_threshold": 0, "dry_multiplier": -1,
        "dry_base": 0.5, "dry_allowed_length": 0, "dry_penalty_last_n": -2, "mirostat": 1, "mirostat_tau": 0,
        "mirostat_eta": 2, "repeat_last_n": -2, "repeat_penalty": 0, "priority": 1 << 40, "user": 3,
        "dry_sequence_breakers": "x", "grammar_aligned": "yes",
    }  # fmt: skip
    for name, value in wrong.items():
        answer = complete(client, **{**options, name: value})
        known = name.replace("repeat_pen", "repetition_pen")
        assert answer.status_code == 400 and known in answer.text, (name, answer.text)
    both = complete(client, repeat_penalty=1.1, repetition_penalty=1.2)
    assert both.status_code == 400 and "two names" in both.text


def test_routes(client: httpx.Client) -> None:
    answer = client.post("/hello/you?a=1&a=2", content=b"body")
    assert answer.status_code == 201 and answer.headers["x-plugin"] == "POST"
    assert answer.json() == {"name": "you", "query": {"a": "2"}, "body": "body"} or answer.json()["query"] == {"a": "1"}
    assert client.get("/pieces").text == "data: 0\n\ndata: 1\n\ndata: 2\n\n"
    assert client.delete("/hello/you").status_code == 405
    assert client.post("/hello/you", content=bytes(3000)).status_code == 413
    for path in ("/broken", "/nothing"):
        answer = client.get(path)
        assert answer.status_code == 500 and "'mine'" in answer.json()["error"]["message"]
    assert client.get("/v1/models").status_code == 200  # the server's own come first


def test_the_list_of_plugins(client: httpx.Client) -> None:
    complete(client, plugins={"mine": {"token": 3}})
    found = {one["name"]: one for one in client.get("/v1/plugins").json()["data"]}
    assert found["mine"]["active"] and found["mine"]["seconds"] > 0 and found["mine"]["calls"] > 2
    assert "slipcast_routes" in found["mine"]["hooks"] and "token" in found["mine"]["parameters"]["properties"]
    assert found["slipcast.sampling"]["active"] and found["bare"]["faults"] == 0


@pytest.mark.parametrize(
    ("route", "said"),
    [
        (Route("hello", hello), "begin with '/'"),
        (Route("/x", hello, ("get",)), "methods"),
        (Route("/x", hello, "GET"), "methods"),
        (Route("/x", lambda request: None), "async def"),  # type: ignore[arg-type, return-value]
        ("/x", "not a Route"),
    ],
)
def test_wrong_routes(route: Any, said: str) -> None:
    class Theirs:
        @hookimpl
        def slipcast_routes(self) -> list[Any]:
            return [route]

    with pytest.raises(PluginError, match=said) as caught:
        create_manager(extra=[("theirs", Theirs())]).routes()
    assert caught.value.plugin == "theirs"


def test_two_plugins_with_one_route() -> None:
    class Theirs:
        @hookimpl
        def slipcast_routes(self) -> list[Route]:
            return [Route("/x", hello)]

    with pytest.raises(PluginError, match="served by"):
        create_manager(extra=[("one", Theirs()), ("two", Theirs())]).routes()
