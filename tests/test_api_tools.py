"""Tools through the API: what a request's tools amount to, and how answers with calls look, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from fakes import FakeService, words
from slipcast.engine import Engine, RequestError
from slipcast.engine.api.errors import BodyError, FieldError, answer_for
from slipcast.engine.request import Event, Finished, GenerationRequest, TextDelta, Usage
from slipcast.grammar.errors import SchemaError

HELLO = [{"role": "user", "content": "hello"}]
PLACE = {"type": "object", "properties": {"place": {"type": "string"}}, "required": ["place"]}


def tool(name: str, **more: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": PLACE, **more}}


WEATHER, TIME = tool("weather", description="Tells the weather."), tool("time")
CALL = '{"name": "weather", "arguments": {"place": "Rome"}}'
CALLS = f'{CALL}\n{{"name": "time", "arguments": {{"place": "Oslo"}}}}'
NAMED = {"type": "function", "function": {"name": "weather"}}


@pytest.fixture
def service() -> FakeService:
    return FakeService(words(*CALL))


def names(spec: Any) -> set[str]:
    """The tools that a structural tag has calls of."""
    text = json.dumps(spec)
    return {name for name in ("weather", "time") if f'\\"name\\": \\"{name}\\"' in text}


@pytest.mark.parametrize(
    ("asked", "kind", "callable"),
    [
        ({}, "triggered_tags", {"weather", "time"}),
        ({"tool_choice": "auto"}, "triggered_tags", {"weather", "time"}),
        ({"tool_choice": "required"}, "tags_with_separator", {"weather", "time"}),
        ({"tool_choice": NAMED}, "tag", {"weather"}),
        (
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [NAMED]}}},
            "tags_with_separator",
            {"weather"},
        ),
        ({"tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [NAMED]}}, "triggered_tags", {"weather"}),
        ({"response_format": {"type": "json_object"}}, "or", {"weather", "time"}),
        ({"response_format": {"type": "json_object"}, "tool_choice": "required"}, "tags_with_separator", None),
        ({"tool_choice": "none"}, None, None),
    ],
)
def test_what_may_be_answered(service: FakeService, engine: Engine, asked: Any, kind: Any, callable: Any) -> None:
    engine.chat.completions.create(messages=HELLO, tools=[WEATHER, TIME], **asked)
    if kind is None:
        assert not service.compiled
        assert "weather" not in service.prompt_text()
        return
    [(compiled, spec, _)] = service.compiled
    assert compiled == "structural_tag"
    assert spec["format"]["type"] == kind
    assert callable is None or names(spec) == callable
    # All tools are told, whichever may be called.
    assert "Tells the weather." in service.prompt_text() and '"time"' in service.prompt_text()


def test_one_call_at_most_where_asked(service: FakeService, engine: Engine) -> None:
    for parallel in (None, True, False):
        engine.chat.completions.create(
            messages=HELLO, tools=[WEATHER, TIME], tool_choice="required", parallel_tool_calls=parallel
        )
    stops = [spec["format"]["stop_after_first"] for _, spec, _ in service.compiled]
    assert stops == [False, False, True]


@pytest.mark.parametrize(
    ("level", "enforced"),
    [("always", [True] * 3), ("absent", [True, True, False]), ("asked", [True, False, False])],
)
def test_the_level_decides_what_strict_means(service: FakeService, level: Any, enforced: list[bool]) -> None:
    engine = Engine(service=service, tool_strict=level)
    for strict in (True, None, False):
        engine.chat.completions.create(messages=HELLO, tools=[tool("weather", strict=strict)], tool_choice=NAMED)
    schemas = [spec["format"]["content"]["json_schema"] for _, spec, _ in service.compiled]
    assert [schema == PLACE for schema in schemas] == enforced
    assert all(schema["type"] == "object" for schema in schemas)


@pytest.mark.parametrize(
    ("asked", "param"),
    [
        ({"tools": [WEATHER, TIME, WEATHER]}, "tools.2.function.name"),
        ({"tools": [tool("with space")]}, "tools.0.function.name"),
        ({"tools": [tool("a", parameters={"type": "array"})]}, "tools.0.function.parameters"),
        ({"tools": [tool("a", parameters=[])]}, "tools.0.function.parameters"),
        ({"tools": [{"type": "custom", "custom": {"name": "a"}}]}, "tools.0.type"),
        ({"tools": [TIME], "tool_choice": NAMED}, "tool_choice"),
        ({"tool_choice": NAMED}, "tool_choice"),
        ({"tools": [TIME], "tool_choice": "always"}, "tool_choice"),
        ({"tools": [TIME], "response_format": {"type": "regex", "pattern": "a"}}, "response_format"),
        ({"tools": [TIME], "guided_choice": ["a"]}, "response_format"),
        ({"tools": [TIME], "guided_json": "{"}, "response_format"),
    ],
)
def test_what_cannot_be_meant(engine: Engine, asked: Any, param: str) -> None:
    with pytest.raises((RequestError, BodyError)) as caught:
        engine.chat.completions.create(messages=HELLO, **asked)
    assert caught.value.param == param


def test_a_choice_of_tools_without_any_is_a_chat(service: FakeService, engine: Engine) -> None:
    for choice in ("required", "auto", "none"):
        engine.chat.completions.create(messages=HELLO, tool_choice=choice)
        engine.chat.completions.create(messages=HELLO, tools=[], tool_choice=choice)
    assert not service.compiled


def test_a_bad_schema_is_told_with_the_tool_that_has_it(service: FakeService, engine: Engine) -> None:
    bad = {"type": "object", "properties": {"a": {"type": "strin"}}}
    service.refuses = lambda kind, source: (
        SchemaError("unknown type 'strin'", pointer="/properties/a/type", keyword="type")
        if kind == "structural_tag" or source == bad
        else None
    )
    with pytest.raises(FieldError, match=r"unknown type.*#/properties/a/type") as caught:
        engine.chat.completions.create(messages=HELLO, tools=[WEATHER, tool("time", parameters=bad)])
    assert caught.value.param == "tools.1.function.parameters"
    assert answer_for(caught.value).code == "invalid_schema"


# -------------------------------------------------------------------------------------------------------------- answers


def test_a_call(engine: Engine) -> None:
    answer = engine.chat.completions.create(messages=HELLO, tools=[WEATHER], n=2)
    ids = set()
    for choice in answer.choices:
        assert (choice.finish_reason, choice.message.content) == ("tool_calls", None)
        [call] = choice.message.tool_calls or []
        assert (call.type, call.function.name) == ("function", "weather")
        assert json.loads(call.function.arguments) == {"place": "Rome"}
        ids.add(call.id)
    assert len(ids) == 2


@pytest.mark.parametrize(
    ("choice", "reason"), [("auto", "tool_calls"), ("required", "tool_calls"), (NAMED, "stop")], ids=str
)
def test_finish_reasons(engine: Engine, choice: Any, reason: str) -> None:
    asked: dict[str, Any] = {"messages": HELLO, "tools": [WEATHER], "tool_choice": choice}
    assert engine.chat.completions.create(**asked).choices[0].finish_reason == reason
    *_, last = engine.chat.completions.create(**asked, stream=True)
    assert last.choices[0].finish_reason == reason


@pytest.mark.parametrize("reason", ["length", "cancelled"])
def test_an_answer_that_was_cut_off_says_so(service: FakeService, engine: Engine, reason: str) -> None:
    service.script = words(CALL[:-3], reason=reason)
    choice = engine.chat.completions.create(messages=HELLO, tools=[WEATHER]).choices[0]
    assert choice.finish_reason == reason
    assert choice.message.tool_calls is not None
    assert choice.message.tool_calls[0].function.arguments == '{"place": "Rome'


def test_a_stream_of_calls(service: FakeService, engine: Engine) -> None:
    service.script = words("Well: ", *CALLS)
    chunks = list(engine.chat.completions.create(messages=HELLO, tools=[WEATHER, TIME], stream=True))
    deltas = [json.loads(chunk.choices[0].delta.dump()) for chunk in chunks]
    assert deltas[0] == {"role": "assistant", "content": ""}
    assert "".join(delta.get("content", "") for delta in deltas) == "Well: "
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    begun = [call for call in calls if "id" in call]
    assert [(call["index"], call["type"], call["function"]) for call in begun] == [
        (0, "function", {"name": "weather", "arguments": ""}),
        (1, "function", {"name": "time", "arguments": ""}),
    ]
    assert all(set(call) == {"index", "function"} for call in calls if "id" not in call)
    written = ["", ""]
    for call in calls:
        written[call["index"]] += call["function"]["arguments"]
    assert list(map(json.loads, written)) == [{"place": "Rome"}, {"place": "Oslo"}]
    assert (deltas[-1], chunks[-1].choices[0].finish_reason) == ({}, "tool_calls")
    service.script = words(CALL)
    first, second, *_ = engine.chat.completions.create(messages=HELLO, tools=[WEATHER], stream=True)
    assert json.loads(first.choices[0].delta.dump()) == {"role": "assistant", "content": None}
    assert second.choices[0].delta.tool_calls


def test_stop_strings_count_in_content_and_not_in_calls(service: FakeService, engine: Engine) -> None:
    asked: dict[str, Any] = {"messages": HELLO, "tools": [WEATHER], "stop": ["Rome", "END"]}
    assert engine.chat.completions.create(**asked).choices[0].message.tool_calls

    def script(request: GenerationRequest) -> Iterator[Event]:
        for piece in ("In Ro", "me they", " say"):
            yield TextDelta(0, piece, token_ids=(1,))
        yield Finished(0, "stop", Usage(len(request.prompt), 3))

    service.script = script
    answer = engine.chat.completions.create(**asked)
    assert (answer.choices[0].message.content, answer.choices[0].finish_reason) == ("In ", "stop")
    assert answer.usage.completion_tokens == 2
    chunks = list(engine.chat.completions.create(**asked, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "In "
    assert service.cancelled == [request.id for request in service.requests[1:]]


def test_the_history_of_calls_reaches_the_model(service: FakeService, engine: Engine) -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"place": "Rome"}'}}
    messages = [
        *HELLO,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "sunny"},
    ]
    for tools in ([WEATHER], None):
        engine.chat.completions.create(messages=messages, tools=tools)
        assert f"<assistant>{CALL}" in service.prompt_text()
        assert "Result of weather:\nsunny" in service.prompt_text()


def test_a_template_that_knows_tools_gets_them(service: FakeService) -> None:
    template = (
        "{% for t in tools %}[{{ t.function.name }}]{% endfor %}{% for m in messages %}<{{ m.role }}>{{ m.content }}"
        "{% for c in m.tool_calls %}{{ c.function.arguments | tojson }}+{{ 'A' + c.function.arguments + 'Z' }}"
        "{% endfor %}{% endfor %}"
    )
    call = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"place":"Rome"}'}}
    messages = [*HELLO, {"role": "assistant", "content": "", "tool_calls": [call]}]
    Engine(service=service, chat_template=template).chat.completions.create(messages=messages, tools=[WEATHER])
    arguments = '{"place": "Rome"}'
    assert service.prompt_text() == f"[weather]<user>hello<assistant>{arguments}+A{arguments}Z"
