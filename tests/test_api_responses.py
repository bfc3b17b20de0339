"""The Responses API over a real socket to a server without a model: input, events in OpenAI's order, what is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import httpx
import openai
import pytest
from fakes import FakeService, words
from pydantic import BaseModel, TypeAdapter
from slipcast.engine import GrammarFault
from slipcast.engine.api.errors import NotFoundError
from slipcast.engine.api.messages import Message
from slipcast.engine.api.response_types import InputItem, Response
from slipcast.engine.api.responses import ResponseStore, conversation_of
from slipcast.engine.request import Event, Failed, Finished, GenerationRequest, TextDelta, Usage
from slipcast.grammar.errors import SchemaError

PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}
WEATHER: dict[str, Any] = {"type": "function", "name": "weather", "description": "Tells it.", "parameters": PLACE}
NAMED = {"type": "function", "name": "weather"}
IMAGE = {"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}
CALL = '{"name": "weather", "arguments": {"place": "Rome"}}'


def test_a_text(client: openai.OpenAI, service: FakeService) -> None:
    answer = client.responses.create(model="fake", input="hi", instructions="Be brief.", metadata={"a": "b"})
    assert (answer.output_text, answer.status, answer.error) == ("Hello", "completed", None)
    assert answer.usage is not None and answer.usage.output_tokens == 2
    assert answer.usage.input_tokens_details.cached_tokens == 1
    assert service.prompt_text() == "<system>Be brief.<user>hi<assistant>"
    assert answer.metadata == {"a": "b"}


class City(BaseModel):
    name: str


def test_parsed_output(client: openai.OpenAI, service: FakeService) -> None:
    service.script = words('{"name": ', '"Rome"}')
    answer = client.responses.parse(model="fake", input="hi", text_format=City)
    assert answer.output_parsed == City(name="Rome")
    [(kind, schema, _)] = service.compiled
    assert kind == "json_schema" and schema["required"] == ["name"]
    assert client.responses.create(model="fake", input="hi", text={"format": {"type": "json_object"}}).output_text
    assert service.compiled[-1][0] == "json_object"


def test_canonical_is_a_format_s_option(client: openai.OpenAI, service: FakeService) -> None:
    for wanted in ({"type": "json_object"}, {"type": "json_schema", "name": "x", "schema": {"type": "integer"}}):
        text: Any = {"format": {**wanted, "canonical": True}}
        assert client.responses.create(model="fake", input="hi", text=text).output_text
        assert service.compiled[-1][2] == {"canonical": True}


def test_a_call_and_its_result(client: openai.OpenAI, service: FakeService) -> None:
    service.script = words(*CALL)
    answer = client.responses.create(model="fake", input="hi", tools=[WEATHER], tool_choice="required")
    [call] = answer.output
    assert call.type == "function_call" and (call.name, json.loads(call.arguments)) == ("weather", {"place": "Rome"})
    service.script = words("Sunny.")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sun"}
    again = client.responses.create(
        model="fake", input=[{"role": "user", "content": "hi"}, call.model_dump(), result], tools=[WEATHER]
    )
    assert again.output_text == "Sunny."
    stated = service.prompt_text()
    assert f"<assistant>{CALL}" in stated and "Result of weather:\nsun" in stated
    # The same by the id of the response.
    client.responses.create(model="fake", input=[result], previous_response_id=answer.id, tools=[WEATHER])
    assert service.prompt_text() == stated


@pytest.mark.parametrize(
    ("choice", "names"),
    [
        (NAMED, {"weather"}),
        (
            {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "weather"}]},
            {"weather"},
        ),
        ("required", {"weather", "time"}),
    ],
    ids=["named", "allowed", "required"],
)
def test_choices_of_tools(client: openai.OpenAI, service: FakeService, choice: Any, names: set[str]) -> None:
    client.responses.create(model="fake", input="hi", tools=[WEATHER, {**WEATHER, "name": "time"}], tool_choice=choice)
    text = json.dumps(service.compiled[-1][1])
    assert {name for name in ("weather", "time") if f'\\"{name}\\"' in text} == names


def test_the_order_of_events(client: openai.OpenAI, service: FakeService) -> None:
    service.script = words("Well: ", CALL)
    events = list(client.responses.create(model="fake", input="hi", tools=[WEATHER], stream=True))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
        "response.output_text.delta",
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.output_item.added",
        "response.function_call_arguments.delta",
        "response.function_call_arguments.done",
        "response.output_item.done",
        "response.completed",
    ]
    assert [event.output_index for event in events if hasattr(event, "output_index")] == [0] * 6 + [1] * 4
    final = events[-1].response
    assert [item.type for item in final.output] == ["message", "function_call"]
    items = {event.item_id for event in events if hasattr(event, "item_id")}
    assert items == {item.id for item in final.output}


def test_a_stream_through_the_clients_helper(client: openai.OpenAI, service: FakeService) -> None:
    service.script = words('{"name": ', '"Rome"}')
    with client.responses.stream(model="fake", input="hi", text_format=City) as stream:
        for _ in stream:
            pass
        assert stream.get_final_response().output_parsed == City(name="Rome")


def test_an_answer_that_was_cut_off(client: openai.OpenAI, service: FakeService) -> None:
    service.script = words("Hel", reason="length")
    answer = client.responses.create(model="fake", input="hi", max_output_tokens=1)
    assert answer.status == "incomplete" and answer.incomplete_details is not None
    assert answer.incomplete_details.reason == "max_output_tokens"
    *_, last = client.responses.create(model="fake", input="hi", max_output_tokens=1, stream=True)
    assert last.type == "response.incomplete"


def thinking(request: GenerationRequest) -> Iterator[Event]:
    yield TextDelta(0, "", reasoning="Hm")
    yield TextDelta(0, "", reasoning=", so.")
    yield TextDelta(0, "Hello")
    yield Finished(0, "stop", Usage(3, 5, reasoning_tokens=4))


def test_thinking_is_an_item_of_its_own(client: openai.OpenAI, service: FakeService) -> None:
    service.script = thinking
    answer = client.responses.create(model="fake", input="hi")
    thought, message = answer.output
    assert thought.type == "reasoning" and thought.content[0].text == "Hm, so."
    assert message.type == "message" and answer.output_text == "Hello"
    assert answer.usage.output_tokens_details.reasoning_tokens == 4
    kinds = [event.type for event in client.responses.create(model="fake", input="hi", stream=True)]
    assert kinds[2:7] == [
        "response.output_item.added",
        "response.reasoning_text.delta",
        "response.reasoning_text.delta",
        "response.reasoning_text.done",
        "response.output_item.done",
    ]
    client.responses.create(model="fake", input="two", previous_response_id=answer.id)
    assert service.prompt_text() == "<user>hi<assistant>Hello<user>two<assistant>"


def failing(request: GenerationRequest) -> Iterator[Event]:
    yield TextDelta(0, "Hel")
    yield Failed(GrammarFault("the matcher is stuck"))


def test_a_fault_in_a_stream(client: openai.OpenAI, service: FakeService) -> None:
    service.script = failing
    *_, error, last = client.responses.create(model="fake", input="hi", stream=True)
    assert (error.type, error.code, error.message) == ("error", "grammar_fault", "the matcher is stuck")
    assert last.type == "response.failed" and last.response.error.code == "grammar_fault"


def test_logprobs(client: openai.OpenAI) -> None:
    answer = client.responses.create(model="fake", input="hi", include=["message.output_text.logprobs"])
    assert [entry.token for entry in answer.output[0].content[0].logprobs] == ["Hel", "lo"]


def test_what_is_kept(client: openai.OpenAI, service: FakeService) -> None:
    first = client.responses.create(model="fake", input="one", instructions="Only now.")
    assert client.responses.retrieve(first.id).output_text == "Hello"
    second = client.responses.create(model="fake", input="two", previous_response_id=first.id)
    assert service.prompt_text() == "<user>one<assistant>Hello<user>two<assistant>"
    assert second.previous_response_id == first.id
    client.responses.delete(first.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(first.id)
    with pytest.raises(openai.BadRequestError, match="there is no response"):
        client.responses.create(model="fake", input="two", previous_response_id=first.id)
    unkept = client.responses.create(model="fake", input="one", store=False)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(unkept.id)


def test_what_is_kept_is_bounded(client: openai.OpenAI) -> None:
    response = client.responses.create(model="fake", input="one")
    kept = Response.model_validate(response.model_dump(exclude_unset=True), strict=False)
    message = Message(role="user", content="x" * 100)
    for limits in ({"count": 3}, {"characters": 700}):
        store = ResponseStore(**limits)
        for number in range(20):
            store.put(kept.model_copy(update={"id": str(number)}), [message])
        found = []
        for number in range(20):
            with suppress(NotFoundError):
                found.append(int(store.get(str(number)).response.id))
        assert found == list(range(20 - len(found), 20)) and 1 <= len(found) <= 4


@pytest.mark.parametrize(
    ("asked", "status", "param"),
    [
        ({}, 400, "input"),
        ({"input": ""}, 400, "input"),
        (
            {"input": [IMAGE]},
            400,
            "input.0.content.0.type",
        ),
        ({"input": [{"type": "item_reference", "id": "x"}]}, 400, "input.0"),
        ({"input": [{"type": "reasoning"}]}, 400, "input"),
        ({"input": "a", "tools": [{"type": "web_search"}]}, 400, "tools.0.type"),
        ({"input": "a", "tools": [{"type": "function", "name": "a b"}]}, 400, "tools.0.name"),
        ({"input": "a", "tool_choice": {"type": "function", "name": "x"}}, 400, "tool_choice"),
        ({"input": "a", "text": {"format": {"type": "xml"}}}, 400, "text.format"),
        ({"input": "a", "text": {"format": {"type": "json_schema", "shema": {}}}}, 400, "text.format.schema"),
        ({"input": "a", "response_format": {"type": "json_object"}}, 400, "response_format"),
        ({"input": "a", "background": True}, 422, "background"),
        ({"input": "a", "conversation": "c"}, 422, "conversation"),
        ({"input": "a", "previous_response_id": "x"}, 400, "previous_response_id"),
        ({"input": "a", "max_output_tokens": 0}, 400, "max_output_tokens"),
        ({"input": "a", "temperature": -1}, 400, "temperature"),
        ({"input": "a", "model": "b"}, 404, "model"),
        ({"input": "a" * 50_000}, 400, "input"),
    ],
    ids=range(18),
)
def test_refusals(address: str, asked: Any, status: int, param: str | None) -> None:
    response = httpx.post(f"{address}/v1/responses", json=asked, timeout=10)
    assert response.status_code == status, response.text[:500]
    assert response.json()["error"]["param"] == param


def test_a_bad_schema_of_a_tool_is_told_by_its_place_here(address: str, service: FakeService) -> None:
    service.grammar_refusal = SchemaError("unknown type", pointer="/type", keyword="type")
    response = httpx.post(f"{address}/v1/responses", json={"input": "a", "tools": [WEATHER]}, timeout=10)
    assert response.json()["error"]["param"] == "tools.0.parameters"
    wanted = {"format": {"type": "json_schema", "name": "x", "schema": {"type": "x"}}}
    response = httpx.post(f"{address}/v1/responses", json={"input": "a", "text": wanted}, timeout=10)
    assert response.json()["error"]["param"] == "text.format"


def test_numbers_of_a_schema_come_back_as_numbers(client: openai.OpenAI, service: FakeService) -> None:
    schema = {"type": "number", "multipleOf": 0.1}
    wanted: Any = {"format": {"type": "json_schema", "name": "x", "schema": schema}}
    answer = client.responses.create(model="fake", input="a", text=wanted, tools=[WEATHER])
    assert answer.text.format.schema_ == schema
    assert answer.tools[0].parameters == PLACE


def test_calls_of_one_turn_are_one_message() -> None:
    call = {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"}
    items = TypeAdapter(list[InputItem]).validate_python(
        [
            {"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]},
            {"type": "reasoning", "id": "r", "summary": []},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "c"}]},
            call,
            {**call, "call_id": "2"},
            {"type": "function_call_output", "call_id": "1", "output": [{"type": "input_text", "text": "d"}]},
            call,
        ]
    )
    told = [(m.role, m.text, [c.id for c in m.tool_calls or ()]) for m in conversation_of(items)]
    assert told == [("user", "ab", []), ("assistant", "c", ["1", "2"]), ("tool", "d", []), ("assistant", "", ["1"])]
