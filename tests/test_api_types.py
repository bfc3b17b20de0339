"""Requests as clients write them: what is read, what is refused, and how a refusal names the field."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any, get_type_hints

import pytest
from slipcast.engine import RequestError
from slipcast.engine.api.body import parse_body
from slipcast.engine.api.errors import BodyError
from slipcast.engine.api.types import ChatCompletionParams, ChatCompletionRequest, Delta
from slipcast.engine.chat import read

HELLO = [{"role": "user", "content": "hello"}]
CAPTURED = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "framework-requests.json"


def schema_format(json_schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "json_schema", "json_schema": json_schema}


def refusal(**fields: Any) -> RequestError:
    with pytest.raises(BodyError) as caught:
        read({"messages": HELLO, **fields})
    return caught.value


def test_unknown_fields_are_ignored() -> None:
    body = read(
        {"messages": [{**HELLO[0], "weight": 1}], "store": True, "metadata": {"a": "b"}, "reasoning_effort": "low"}
    )
    assert body.messages[0].text == "hello"


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"temperature": "hot"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_completion_tokens": -1}, "max_completion_tokens"),
        ({"n": "2"}, "n"),
        ({"stream": "yes"}, "stream"),
        ({"stop": 7}, "stop"),
        ({"stop": ["a", 7]}, "stop.1"),
        ({"logit_bias": [1]}, "logit_bias"),
        ({"logit_bias": {"1": "much"}}, "logit_bias.1"),
        ({"messages": []}, "messages"),
        ({"messages": "hello"}, "messages"),
        ({"messages": [{"content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role"),
        ({"messages": [{"role": "user"}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": None}]}, "messages.0.content"),
        ({"messages": [{"role": "user", "content": [{"type": "text"}]}]}, "messages.0.content.0.text"),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": 3}]}]}, "messages.0.content.0.text"),
        ({"response_format": {"type": "xml"}}, "response_format"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema"),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "response_format.json_schema.schema",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"schema": 3}}},
            "response_format.json_schema.schema",
        ),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
    ],
)
def test_a_refusal_names_the_field(fields: dict[str, Any], param: str | None) -> None:
    error = refusal(**fields)
    assert error.param == param
    assert "\n" not in str(error)
    assert str(error).startswith(param or "stream_options")


def test_images_are_refused_by_name() -> None:
    part = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
    assert "image_url" in str(refusal(messages=[{"role": "user", "content": [part]}]))


def test_content_parts_are_joined() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert read({"messages": [{"role": "user", "content": parts}]}).messages[0].text == "ab"


def test_the_history_of_tool_calls_is_read() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    history = [
        *HELLO,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "4"},
    ]
    body = read({"messages": history})
    assert [message.text for message in body.messages] == ["hello", "", "4"]


def test_the_newer_name_of_the_token_limit_wins() -> None:
    assert read({"messages": HELLO, "max_tokens": 5}).token_limit == 5
    assert read({"messages": HELLO, "max_tokens": 5, "max_completion_tokens": 7}).token_limit == 7
    assert read({"messages": HELLO, "max_tokens": None}).token_limit is None


def test_usage_is_sent_only_when_asked_for() -> None:
    def asked(options: Any) -> bool:
        return read({"messages": HELLO, "stream": True, "stream_options": options}).includes_usage

    assert [asked(None), asked({}), asked({"include_usage": False}), asked({"include_usage": True})] == [False] * 3 + [
        True
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b'{"messages": NaN}',
        b'{"temperature": Infinity}',
        b'{"a": "\xff"}',
        b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"a": ' + b"9" * 5000 + b"}",
    ],
    ids=["empty", "cut", "array", "string", "nan", "infinity", "not utf-8", "deep", "long number"],
)
def test_what_is_not_a_json_object_is_refused_in_one_line(data: bytes) -> None:
    with pytest.raises(BodyError) as caught:
        parse_body(data)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_numbers_of_a_schema_stay_exact() -> None:
    text = b'{"temperature": 0.5, "response_format": {"type": "json_object", "schema": {"multipleOf": 0.1}}}'
    body = parse_body(text)
    assert body["response_format"]["schema"]["multipleOf"] == Decimal("0.1")
    assert isinstance(body["temperature"], float)


def test_the_python_arguments_are_the_fields_of_the_wire() -> None:
    ignored = {"user", "metadata", "store"}
    assert set(get_type_hints(ChatCompletionParams)) | {"stream"} == set(ChatCompletionRequest.model_fields) | ignored


def test_a_response_holds_what_was_set() -> None:
    assert json.loads(Delta(role="assistant", content="").dump()) == {"role": "assistant", "content": ""}
    assert json.loads(Delta().dump()) == {}


@pytest.mark.skipif(not CAPTURED.exists(), reason="the captured requests of frameworks are not beside the repository")
def test_what_frameworks_send_is_read() -> None:
    captured = [entry for entry in json.loads(CAPTURED.read_text()) if entry["path"] == "/v1/chat/completions"]
    assert len(captured) > 10
    for entry in captured:
        body = read(entry["body"])
        assert body.messages, entry["framework"]
