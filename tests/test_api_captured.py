"""What frameworks send, word for word: every captured body is answered, and the answer is what was asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import jsonschema
import pytest
from serving import served
from slipcast.engine import AsyncEngine, DownloadError
from slipcast.engine.api.server import create_app

CAPTURED = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "framework-requests.json"
pytestmark = [
    pytest.mark.model,
    pytest.mark.skipif(not CAPTURED.exists(), reason="the captured requests are not beside the repository"),
]
ENTRIES = json.loads(CAPTURED.read_text()) if CAPTURED.exists() else []
LIMIT = 120


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server for the model by the name that the captured bodies have."""
    try:
        engine = AsyncEngine(name="m")
    except DownloadError as error:
        pytest.skip(f"the default model cannot be had here: {error}")
    with served(create_app(engine)) as address:
        yield address


@pytest.mark.parametrize("number", range(len(ENTRIES)), ids=[entry["framework"] for entry in ENTRIES])
def test_a_captured_body(address: str, number: int) -> None:
    """Every other one as a stream; most frameworks are there in two versions."""
    entry, stream = ENTRIES[number], bool(number % 2)
    responses = entry["path"] == "/v1/responses"
    limit = "max_output_tokens" if responses else "max_tokens"
    body = {**entry["body"], limit: LIMIT, "temperature": 0, "stream": stream}
    if responses:
        body.setdefault("input", "hi")
    answer = httpx.post(f"{address}{entry['path']}", json=body, timeout=120)
    assert answer.status_code == 200, answer.text
    content, calls, finish = read_response(answer, stream) if responses else read_chat(answer, stream)
    tools = {
        tool.get("function", tool)["name"]: tool.get("function", tool).get("parameters", {})
        for tool in body.get("tools", ())
    }
    for name, arguments in calls:
        jsonschema.validate(json.loads(arguments), tools[name])
    schema = schema_of(body)
    if body.get("tool_choice") == "required" or isinstance(body.get("tool_choice"), dict):
        assert calls and not content
    elif not calls and schema is not None:
        jsonschema.validate(json.loads(content), schema)
    else:
        assert content or calls or finish == "length"
    if calls:
        named = isinstance(body.get("tool_choice"), dict)
        assert finish == ("completed" if responses else "stop" if named else "tool_calls")


def schema_of(body: dict[str, Any]) -> Any:
    """The schema of the content that the body asks for, if it does."""
    wanted = body.get("response_format") or body.get("text", {}).get("format") or {}
    if wanted.get("type") == "json_object":
        return wanted.get("schema", {"type": "object"})
    return wanted.get("schema") or wanted.get("json_schema", {}).get("schema")


Read = tuple[str, list[tuple[str, str]], str]


def events(answer: httpx.Response) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def read_chat(answer: httpx.Response, stream: bool) -> Read:
    if not stream:
        choice = answer.json()["choices"][0]
        calls = [call["function"] for call in choice["message"].get("tool_calls", ())]
        content = choice["message"]["content"] or ""
        return content, [(call["name"], call["arguments"]) for call in calls], choice["finish_reason"]
    content, finish = "", ""
    made: list[tuple[str, str]] = []
    for chunk in events(answer):
        choice = chunk["choices"][0]
        content += choice["delta"].get("content") or ""
        finish = choice["finish_reason"] or finish
        for call in choice["delta"].get("tool_calls", ()):
            if "id" in call:
                made.append((call["function"]["name"], ""))
            made[call["index"]] = (made[call["index"]][0], made[call["index"]][1] + call["function"]["arguments"])
    return content, made, finish


def read_response(answer: httpx.Response, stream: bool) -> Read:
    response = events(answer)[-1]["response"] if stream else answer.json()
    parts = [part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"]]
    calls = [item for item in response["output"] if item["type"] == "function_call"]
    return "".join(parts), [(call["name"], call["arguments"]) for call in calls], response["status"]
