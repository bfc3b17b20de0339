"""Requests to and answers from the service, without a network: what is submitted, and what its events become."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from fakes import FakeService, words
from pydantic import BaseModel, ConfigDict
from slipcast.engine import AsyncEngine, ConfigError, Engine, GrammarFault
from slipcast.engine.api.errors import ModelNotFoundError
from slipcast.engine.chat import schema_of
from slipcast.engine.request import Event, Failed, Finished, GenerationRequest, TextDelta, Usage
from slipcast.samplers import SamplingError

HELLO = [{"role": "user", "content": "hello"}]


def test_the_prompt_is_the_rendered_template(engine: Engine, service: FakeService) -> None:
    engine.chat.completions.create(messages=HELLO)
    assert "".join(map(chr, service.requests[0].prompt)) == "<user>hello<assistant>"


def test_a_template_given_to_the_engine_replaces_the_models(service: FakeService) -> None:
    engine = Engine(service=service, chat_template="{{ messages[0].content }}")
    engine.chat.completions.create(messages=HELLO)
    assert "".join(map(chr, service.requests[0].prompt)) == "hello"


def test_a_model_without_a_template_is_refused(service: FakeService) -> None:
    service.tokenizer.chat_template = None
    with pytest.raises(ConfigError, match="chat template"):
        Engine(service=service)
    assert service.closed


def test_sampling_options_reach_the_service(engine: Engine, service: FakeService) -> None:
    engine.chat.completions.create(
        messages=HELLO,
        temperature=0.5,
        top_p=0.9,
        top_k=5,
        min_p=0.1,
        repetition_penalty=1.1,
        presence_penalty=0.2,
        frequency_penalty=0.3,
        logit_bias={"104": 5.0},
        seed=7,
        stop=["x", "y"],
        max_completion_tokens=9,
        n=2,
        logprobs=True,
        top_logprobs=1,
    )
    params = service.requests[0].params
    assert (params.temperature, params.top_p, params.top_k, params.min_p) == (0.5, 0.9, 5, 0.1)
    assert (params.repetition_penalty, params.presence_penalty, params.frequency_penalty) == (1.1, 0.2, 0.3)
    assert (params.bias_pairs, params.seed, params.stop_strings) == (((104, 5.0),), 7, ("x", "y"))
    assert (params.max_tokens, params.n, params.logprobs, params.top_logprobs) == (9, 2, True, 1)


def test_null_is_not_given(engine: Engine, service: FakeService) -> None:
    engine.chat.completions.create(messages=HELLO, temperature=None, n=None, stop=None, logit_bias=None, logprobs=None)
    assert service.requests[0].params.temperature == 1.0


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"temperature": -1.0}, "temperature"),
        ({"top_p": 0.0}, "top_p"),
        ({"n": 0}, "n"),
        ({"stop": ""}, "stop"),
        ({"logit_bias": {"x": 1.0}}, "logit_bias"),
        ({"logit_bias": {"999999": 1.0}}, "logit_bias"),
        ({"logit_bias": {1: 101.0}}, "logit_bias[1]"),
        ({"top_logprobs": 3}, "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs"),
    ],
)
def test_options_out_of_range_are_refused(
    engine: Engine, service: FakeService, options: dict[str, Any], name: str
) -> None:
    with pytest.raises(SamplingError) as caught:
        engine.chat.completions.create(messages=HELLO, **options)
    assert caught.value.option == name
    assert not service.requests


def test_an_unknown_argument_is_a_mistake(engine: Engine) -> None:
    with pytest.raises(TypeError, match="temprature"):
        engine.chat.completions.create(messages=HELLO, temprature=1.0)  # type: ignore[call-overload]


def test_an_unknown_model_is_refused(engine: Engine) -> None:
    with pytest.raises(ModelNotFoundError, match=r"'gpt-5'.*'fake'"):
        engine.chat.completions.create(messages=HELLO, model="gpt-5")


class City(BaseModel):
    name: str


@pytest.mark.parametrize(
    ("wanted", "compiled"),
    [
        (None, None),
        ({"type": "text"}, None),
        ({"type": "json_object"}, ("json_object", None, {})),
        ({"type": "json_object", "schema": {}}, ("json_schema", {}, {})),
        ({"type": "json_schema", "json_schema": {"schema": True}}, ("json_schema", True, {})),
        (
            {"type": "json_schema", "json_schema": {"name": "x", "strict": False, "schema": {"a": 1}, "order": "any"}},
            ("json_schema", {"a": 1}, {"order": "any"}),
        ),
        (City, ("json_schema", {**City.model_json_schema(), "additionalProperties": False}, {})),
    ],
)
def test_response_format_is_compiled(engine: Engine, service: FakeService, wanted: Any, compiled: Any) -> None:
    engine.chat.completions.create(messages=HELLO, response_format=wanted)
    assert service.compiled == ([] if compiled is None else [compiled])
    assert (service.requests[0].grammar is None) == (compiled is None)


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    city: City


def test_a_pydantic_model_is_closed_unless_it_says_otherwise() -> None:
    schema = schema_of(Open)
    assert schema["additionalProperties"] is True
    assert schema["$defs"]["City"]["additionalProperties"] is False


def test_an_answer(engine: Engine, service: FakeService) -> None:
    answer = engine.chat.completions.create(messages=HELLO, model="fake", n=2)
    assert json.loads(answer.dump()) == {
        "id": f"chatcmpl-{service.requests[0].id}",
        "object": "chat.completion",
        "created": answer.created,
        "model": "fake",
        "choices": [
            {
                "index": index,
                "message": {"role": "assistant", "content": "Hello", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            }
            for index in range(2)
        ],
        "usage": {
            "prompt_tokens": 22,
            "completion_tokens": 4,
            "total_tokens": 26,
            "prompt_tokens_details": {"cached_tokens": 1},
        },
    }


def test_a_stream(engine: Engine, service: FakeService) -> None:
    service.script = words("Hel", "", "lo", reason="length")
    with engine.chat.completions.create(messages=HELLO, stream=True) as stream:
        chunks = [json.loads(chunk.dump()) for chunk in stream]
    assert {chunk.pop("object") for chunk in chunks} == {"chat.completion.chunk"}
    assert len({(chunk.pop("id"), chunk.pop("created"), chunk.pop("model")) for chunk in chunks}) == 1
    choice = {"index": 0, "logprobs": None, "finish_reason": None}
    assert chunks == [
        {"choices": [{**choice, "delta": {"role": "assistant", "content": ""}}]},
        {"choices": [{**choice, "delta": {"content": "Hel"}}]},
        {"choices": [{**choice, "delta": {"content": "lo"}}]},
        {"choices": [{**choice, "delta": {}, "finish_reason": "length"}]},
    ]
    assert not service.cancelled


def test_usage_at_the_end_of_a_stream(engine: Engine) -> None:
    options = {"include_usage": True}
    chunks = list(engine.chat.completions.create(messages=HELLO, stream=True, stream_options=options, n=2))
    written = [json.loads(chunk.dump()) for chunk in chunks]
    assert all(chunk["usage"] is None and len(chunk["choices"]) == 1 for chunk in written[:-1])
    assert written[-1]["choices"] == []
    assert written[-1]["usage"]["completion_tokens"] == 4


def test_logprobs(engine: Engine, service: FakeService) -> None:
    service.script = words("é")
    answer = engine.chat.completions.create(messages=HELLO, logprobs=True, top_logprobs=1)
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert json.loads(logprobs.dump()) == {
        "content": [
            {
                "token": "é",
                "logprob": -0.5,
                "bytes": [0xC3, 0xA9],
                "top_logprobs": [{"token": "\ufffd", "logprob": -1.5, "bytes": [0xC3]}],
            }
        ],
        "refusal": None,
    }
    streamed = list(engine.chat.completions.create(messages=HELLO, logprobs=True, stream=True))
    assert streamed[1].choices[0].logprobs == logprobs


def failing(request: GenerationRequest) -> Iterator[Event]:
    yield Failed(GrammarFault("the matcher is stuck"))


def failing_late(request: GenerationRequest) -> Iterator[Event]:
    yield TextDelta(0, "Hel")
    yield Failed(GrammarFault("the matcher is stuck"))


def test_a_request_that_fails_raises(engine: Engine, service: FakeService) -> None:
    service.script = failing
    for stream in (False, True):
        with pytest.raises(GrammarFault):
            engine.chat.completions.create(messages=HELLO, stream=stream)
    service.script = failing_late
    with pytest.raises(GrammarFault):
        engine.chat.completions.create(messages=HELLO)
    late = engine.chat.completions.create(messages=HELLO, stream=True)
    assert [next(late).choices[0].delta.content for _ in range(2)] == ["", "Hel"]
    with pytest.raises(GrammarFault):
        next(late)
    assert list(late) == []
    assert not service.cancelled


def test_leaving_a_stream_cancels_its_request(engine: Engine, service: FakeService) -> None:
    service.script = words("a", "b", gate=threading.Event())
    with engine.chat.completions.create(messages=HELLO, stream=True) as stream:
        next(stream)
    assert service.cancelled == [service.requests[0].id]
    assert list(stream) == []

    dropped = engine.chat.completions.create(messages=HELLO, stream=True)
    del dropped
    assert service.cancelled[1:] == [service.requests[1].id]


def test_async_answers_and_streams(service: FakeService) -> None:
    async def run() -> None:
        async with AsyncEngine(service=service) as engine:
            answer = await engine.chat.completions.create(messages=HELLO)
            assert answer.choices[0].message.content == "Hello"
            stream = await engine.chat.completions.create(messages=HELLO, stream=True)
            assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "Hello"
            service.script = failing
            with pytest.raises(GrammarFault):
                await engine.chat.completions.create(messages=HELLO, stream=True)

    asyncio.run(run())
    assert service.closed
    assert not service.cancelled


def test_cancelling_a_task_cancels_its_request(service: FakeService) -> None:
    async def run() -> None:
        engine = AsyncEngine(service=service)
        service.script = words("a", "b", gate=threading.Event())
        task = asyncio.create_task(engine.chat.completions.create(messages=HELLO))
        while not service.requests:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert service.cancelled == [service.requests[0].id]


def test_cancelling_a_task_while_it_submits_cancels_its_request(service: FakeService) -> None:
    """The submission goes on in its thread, and nobody is left to read what it starts."""
    entered, gate = threading.Event(), threading.Event()
    submit = service.submit

    def slow(request: GenerationRequest, on_event: Any) -> None:
        entered.set()
        gate.wait(10)
        submit(request, on_event)

    service.submit = slow  # type: ignore[method-assign]
    service.script = words("a", "b", gate=threading.Event())

    async def run() -> None:
        engine = AsyncEngine(service=service)
        task = asyncio.create_task(engine.chat.completions.create(messages=HELLO))
        await asyncio.to_thread(entered.wait, 10)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        gate.set()

    asyncio.run(run())
    assert service.was_cancelled.wait(5)
    assert service.cancelled == [service.requests[0].id]


def test_many_requests_at_once_keep_their_answers_apart(service: FakeService) -> None:
    def echo(request: GenerationRequest) -> Iterator[Event]:
        return iter(words("".join(map(chr, request.prompt)))(request))

    service.script = echo

    async def run() -> list[str]:
        engine = AsyncEngine(service=service, chat_template="{{ messages[0].content }}")
        answers = await asyncio.gather(
            *(engine.chat.completions.create(messages=[{"role": "user", "content": str(i)}]) for i in range(50))
        )
        return [answer.choices[0].message.content or "" for answer in answers]

    assert asyncio.run(run()) == [str(i) for i in range(50)]


def test_a_forced_close_is_told_and_nothing_else(service: FakeService, engine: Engine) -> None:
    def script(request: GenerationRequest) -> Iterator[Event]:
        for index in range(2):
            yield TextDelta(index, "{}")
            yield Finished(index, "stop", Usage(1, 1), forced_close=index == 1)

    service.script = script
    answer = engine.chat.completions.create(messages=HELLO, n=2)
    assert [choice.forced_close for choice in answer.choices] == [None, True]
    assert answer.dump().count("forced_close") == 1 and answer.choices[1].finish_reason == "stop"
    chunks = list(engine.chat.completions.create(messages=HELLO, n=2, stream=True))
    assert [chunk.dump().count('"forced_close":true') for chunk in chunks] == [0] * (len(chunks) - 1) + [1]
