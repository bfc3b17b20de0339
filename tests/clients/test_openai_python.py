"""OpenAI's own client for Python: typed output, streams, tools, the Responses API, sync and async."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from client_models import QUESTION, WEATHER_QUESTION, Toy, weather
from pydantic import BaseModel, Field

pytestmark = pytest.mark.model
MODEL = "smollm2-135m-instruct"
MESSAGES: Any = [{"role": "user", "content": QUESTION}]


class GetWeather(BaseModel):
    """Get the weather of a place."""

    place: str = Field(max_length=20)


TOOL: Any = openai.pydantic_function_tool(GetWeather, name="weather")


@pytest.fixture
def client(server: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=server, api_key="none", max_retries=0, timeout=120) as client:
        yield client


def test_chat_parse(client: openai.OpenAI) -> None:
    answer = client.chat.completions.parse(model=MODEL, messages=MESSAGES, response_format=Toy, temperature=0)
    assert isinstance(answer.choices[0].message.parsed, Toy)


def test_chat_stream_of_a_type(client: openai.OpenAI) -> None:
    with client.chat.completions.stream(
        model=MODEL, messages=MESSAGES, response_format=Toy, temperature=0, stream_options={"include_usage": True}
    ) as stream:
        kinds = [event.type for event in stream]
        final = stream.get_final_completion()
    assert isinstance(final.choices[0].message.parsed, Toy)
    assert final.usage is not None and final.usage.completion_tokens > 10
    assert kinds.count("content.delta") > 5 and "content.done" in kinds


@pytest.mark.parametrize("stream", [False, True])
def test_a_tool_round_trip(client: openai.OpenAI, stream: bool) -> None:
    messages: list[Any] = [{"role": "user", "content": WEATHER_QUESTION}]
    asked: dict[str, Any] = {"model": MODEL, "tools": [TOOL], "temperature": 0, "max_tokens": 60}
    if stream:
        with client.chat.completions.stream(messages=messages, tool_choice="required", **asked) as events:
            kinds = {event.type for event in events}
            choice = events.get_final_completion().choices[0]
        assert {"tool_calls.function.arguments.delta", "tool_calls.function.arguments.done"} <= kinds
    else:
        choice = client.chat.completions.parse(messages=messages, tool_choice="required", **asked).choices[0]
    assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
    calls = choice.message.tool_calls or []
    assert calls and all(isinstance(call.function.parsed_arguments, GetWeather) for call in calls)
    messages.append(choice.message.model_dump(exclude_none=True, exclude={"parsed": True}))
    for call in calls:
        result = weather(json.loads(call.function.arguments)["place"])
        messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    answer = client.chat.completions.create(messages=messages, tool_choice="none", **asked)
    assert answer.choices[0].message.content


def test_auto_is_a_text_or_a_whole_call(client: openai.OpenAI) -> None:
    """Whatever the model decides, at a temperature where it decides anything."""
    for seed in range(4):
        answer = client.chat.completions.create(
            model=MODEL,
            messages=[{"role": "user", "content": WEATHER_QUESTION}],
            tools=[TOOL],
            seed=seed,
            temperature=1.2,
            max_tokens=50,
        )
        choice = answer.choices[0]
        assert choice.message.content or choice.message.tool_calls
        for call in choice.message.tool_calls or []:
            GetWeather.model_validate_json(call.function.arguments)
            assert choice.finish_reason == "tool_calls"


def test_responses_parse(client: openai.OpenAI) -> None:
    answer = client.responses.parse(model=MODEL, input=QUESTION, text_format=Toy, temperature=0)
    assert isinstance(answer.output_parsed, Toy)


def test_responses_stream(client: openai.OpenAI) -> None:
    with client.responses.stream(model=MODEL, input=QUESTION, text_format=Toy, temperature=0) as stream:
        kinds = [event.type for event in stream]
        assert isinstance(stream.get_final_response().output_parsed, Toy)
    assert kinds[0] == "response.created" and kinds[-1] == "response.completed"


def test_responses_tools(client: openai.OpenAI) -> None:
    parameters = {**GetWeather.model_json_schema(), "additionalProperties": False}
    tool: Any = {"type": "function", "name": "weather", "parameters": parameters, "strict": True}
    first = client.responses.create(
        model=MODEL, input=WEATHER_QUESTION, tools=[tool], tool_choice="required", parallel_tool_calls=False
    )
    [call] = first.output
    assert call.type == "function_call"
    result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": weather("Paris")}
    again = client.responses.create(
        model=MODEL, input=[result], previous_response_id=first.id, tools=[tool], tool_choice="none", temperature=0
    )
    assert again.output_text


def test_everything_at_once_without_waiting(server: str) -> None:
    async def run() -> None:
        async with openai.AsyncOpenAI(base_url=server, api_key="none", max_retries=0, timeout=120) as client:

            async def streamed() -> str:
                stream = await client.chat.completions.create(
                    model=MODEL, messages=MESSAGES, max_tokens=20, stream=True
                )
                return "".join([chunk.choices[0].delta.content or "" async for chunk in stream])

            parsed, text, answer = await asyncio.gather(
                client.chat.completions.parse(model=MODEL, messages=MESSAGES, response_format=Toy),
                streamed(),
                client.completions.create(model=MODEL, prompt="The sky is", max_tokens=5, logprobs=2),
            )
            assert isinstance(parsed.choices[0].message.parsed, Toy)
            assert text
            assert answer.choices[0].logprobs is not None and len(answer.choices[0].logprobs.tokens or []) <= 5

    asyncio.run(run())
