"""The real thing: `slipcast serve` with the default model in a process of its own, spoken to by OpenAI's client
over a socket.
"""

from __future__ import annotations

import asyncio
import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import httpx
import jsonschema
import openai
import pytest
from pydantic import BaseModel, Field
from slipcast.engine import AsyncEngine, DownloadError, cli

pytestmark = pytest.mark.model

MODEL = "smollm2-135m-instruct"
EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
EXAMPLE_NAMES = sorted(path.name for path in EXAMPLES.glob("*.py") if path.name != "openai_client.py")
QUESTION = [{"role": "user", "content": "Describe a cow."}]
ANIMAL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 20},
        "legs": {"type": "integer", "minimum": 0, "maximum": 8},
        "diet": {"enum": ["plants", "meat", "both"]},
        "parts": {"type": "array", "items": {"type": "string", "maxLength": 10}, "minItems": 1, "maxItems": 2},
    },
    "required": ["name", "legs", "diet", "parts"],
    "additionalProperties": False,
}


def schema_format(schema: Any) -> Any:
    return {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}}


@pytest.fixture(scope="module")
def model() -> None:
    """The default model in the user's cache."""
    from slipcast.engine.runtime import resolve_model

    try:
        resolve_model(MODEL, None)
    except DownloadError as error:
        pytest.skip(f"the default model cannot be had here: {error}")


@pytest.fixture(scope="module")
def address(model: None) -> Iterator[str]:
    program = "import sys; from slipcast.engine.cli import main; sys.exit(main())"
    command = [sys.executable, "-c", program, "serve", "--port", "0", "--mode", "local", "--log-level", "warning"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            line = process.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found, f"the server said {line!r}"
            yield found.group().removesuffix("/v1")
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(20) == 0


@pytest.fixture(scope="module")
def client(address: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=120) as client:
        yield client


def test_free_text_is_repeatable(client: openai.OpenAI) -> None:
    def ask(**options: Any) -> str:
        answer = client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=20, **options)
        assert answer.choices[0].finish_reason in ("stop", "length")
        return answer.choices[0].message.content or ""

    assert ask(temperature=0) == ask(temperature=0) != ""
    assert ask(temperature=1, seed=5) == ask(temperature=1, seed=5) != ask(temperature=1, seed=6)


def test_a_stream_is_the_same_text(client: openai.OpenAI) -> None:
    options: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "max_tokens": 20, "temperature": 0}
    whole = client.chat.completions.create(**options)
    chunks = list(client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True}))
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == whole.choices[0].message.content
    assert chunks[-1].usage is not None
    assert whole.usage is not None
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


def test_logprobs_spell_the_text(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=QUESTION, max_tokens=12, temperature=0, logprobs=True, top_logprobs=3
    )
    logprobs = answer.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    spelled = b"".join(bytes(token.bytes or []) for token in logprobs.content)
    assert spelled.decode("utf-8", "ignore").startswith(answer.choices[0].message.content or "?")
    for token in logprobs.content:
        assert len(token.top_logprobs) == 3
        assert token.top_logprobs[0].logprob >= token.logprob
        assert token.logprob <= 0


def test_stop_strings_end_the_text(client: openai.OpenAI) -> None:
    options: dict[str, Any] = {"model": MODEL, "messages": QUESTION, "max_tokens": 30, "temperature": 0}
    text = client.chat.completions.create(**options).choices[0].message.content or ""
    word = text.split()[2]
    stopped = client.chat.completions.create(**options, stop=[word]).choices[0]
    assert stopped.finish_reason == "stop"
    assert stopped.message.content == text[: text.index(word)]


def test_logit_bias_forbids(client: openai.OpenAI) -> None:
    options: dict[str, Any] = {
        "model": MODEL,
        "messages": QUESTION,
        "max_tokens": 1,
        "temperature": 0,
        "logprobs": True,
    }

    def first(**more: Any) -> str:
        logprobs = client.chat.completions.create(**options, **more).choices[0].logprobs
        assert logprobs is not None
        assert logprobs.content
        return logprobs.content[0].token

    assert first(logit_bias={"34": 100}) == first(logit_bias={"34": 100}) != first(logit_bias={"34": -100})


class Diet(Enum):
    plants = "plants"
    meat = "meat"


class Animal(BaseModel):
    name: str = Field(max_length=20)
    legs: int = Field(ge=0, le=8)
    diet: Diet
    nick: Annotated[str, Field(max_length=12)] | None


def test_typed_output_through_parse(client: openai.OpenAI) -> None:
    for seed in range(3):
        answer = client.chat.completions.parse(
            model=MODEL, messages=QUESTION, response_format=Animal, max_tokens=200, temperature=1, seed=seed
        )
        assert isinstance(answer.choices[0].message.parsed, Animal)


def test_json_object(client: openai.OpenAI) -> None:
    for seed in range(4):
        answer = client.chat.completions.create(
            model=MODEL, messages=QUESTION, response_format={"type": "json_object"}, max_tokens=400, seed=seed
        )
        if answer.choices[0].finish_reason == "stop":
            assert isinstance(json.loads(answer.choices[0].message.content or ""), dict)
        else:
            assert (answer.choices[0].message.content or "").lstrip().startswith("{")


def test_several_choices_of_a_schema(client: openai.OpenAI) -> None:
    answer = client.chat.completions.create(
        model=MODEL, messages=QUESTION, response_format=schema_format(ANIMAL), n=4, seed=1, max_tokens=200
    )
    texts = [choice.message.content or "" for choice in answer.choices]
    assert len(set(texts)) > 1
    for choice, text in zip(answer.choices, texts, strict=True):
        assert choice.finish_reason == "stop"
        jsonschema.validate(json.loads(text), ANIMAL)


BAD_SCHEMAS: list[Any] = [
    {"type": "strin"},
    {"type": ["string", "strin"]},
    {"properties": {"foo": "bar"}},
    {"properties": []},
    {"required": "a"},
    {"required": [1]},
    {"enum": "a"},
    {"minLength": "x"},
    {"minLength": -1},
    {"minimum": "1"},
    {"items": 3},
    {"pattern": "("},
    {"pattern": "[z-a]"},
    {"pattern": "(a)\\1"},
    {"$ref": "#/$defs/missing"},
    {"$ref": "#"},
    {"$defs": {"A": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"},
    {"enum": []},
    {"type": "object", "properties": {"a": {"allOf": [{"type": "string"}, {"type": "number"}]}}, "required": ["a"]},
    False,
]


def test_bad_schemas_are_refused_while_another_request_streams(address: str, client: openai.OpenAI) -> None:
    options: dict[str, Any] = {
        "model": MODEL,
        "messages": QUESTION,
        "response_format": schema_format({"type": "array", "items": ANIMAL, "minItems": 4, "maxItems": 4}),
        "temperature": 1,
        "seed": 11,
        "max_tokens": 600,
    }
    alone = client.chat.completions.create(**options).choices[0].message.content or ""
    jsonschema.validate(json.loads(alone), {"type": "array", "items": ANIMAL, "minItems": 4, "maxItems": 4})

    pieces: list[str] = []
    started = threading.Event()

    def stream() -> None:
        for chunk in client.chat.completions.create(**options, stream=True):
            pieces.append(chunk.choices[0].delta.content or "")
            started.set()

    with ThreadPoolExecutor() as threads:
        running = threads.submit(stream)
        assert started.wait(60)
        for schema in BAD_SCHEMAS:
            body = {"messages": QUESTION, "response_format": schema_format(schema)}
            response = httpx.post(f"{address}/v1/chat/completions", json=body, timeout=30)
            assert response.status_code == 400, (schema, response.text)
            error = response.json()["error"]
            assert set(error) == {"message", "type", "param", "code"}
            assert error["type"] == "invalid_request_error"
            assert "\n" not in error["message"]
        running.result(120)
    assert "".join(pieces) == alone
    assert httpx.get(f"{address}/health").status_code == 200


@pytest.mark.parametrize(
    ("schema", "keyword", "pointer"),
    [
        ({"type": "strin"}, "type", "#/type"),
        ({"properties": {"a": {"items": {"minLength": "x"}}}}, "minLength", "#/properties/a/items/minLength"),
    ],
)
def test_a_refusal_names_keyword_and_pointer(address: str, schema: Any, keyword: str, pointer: str) -> None:
    body = {"messages": QUESTION, "response_format": schema_format(schema)}
    message = httpx.post(f"{address}/v1/chat/completions", json=body, timeout=30).json()["error"]["message"]
    assert keyword in message
    assert pointer in message


@pytest.mark.parametrize("kept", [100, 1 << 20, -1])
def test_a_truncated_model_file_is_one_line(
    model: None, kept: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from slipcast.engine.runtime import resolve_model

    path = tmp_path / "cut.gguf"
    with resolve_model(MODEL, None).open("rb") as whole:
        path.write_bytes(whole.read()[:kept])
    assert cli.main(["chat", "--model", str(path)]) == 2
    complaint = capsys.readouterr().err.splitlines()[-1]
    assert complaint.startswith("slipcast: ")
    assert str(path) in complaint


def test_too_long_a_conversation(client: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(model=MODEL, messages=[{"role": "user", "content": "cow " * 20_000}])
    assert caught.value.code == "context_length_exceeded"
    assert caught.value.param == "messages"


def test_a_client_that_leaves_frees_its_place(address: str, client: openai.OpenAI) -> None:
    body = {"messages": QUESTION, "max_tokens": 2000, "stream": True, "temperature": 1, "logit_bias": {"2": -100}}
    for _ in range(10):
        with httpx.stream("POST", f"{address}/v1/chat/completions", json=body, timeout=30) as response:
            assert next(response.iter_lines()).startswith("data: ")
    began = time.perf_counter()
    client.chat.completions.create(model=MODEL, messages=QUESTION, max_tokens=5)
    assert time.perf_counter() - began < 10


def test_eight_at_once_each_with_its_own_schema(model: None) -> None:
    schemas = [
        {"type": "object", "properties": {f"k{i}": {"enum": list(range(i, i + 3))}}, "required": [f"k{i}"]}
        for i in range(7)
    ]
    formats: list[Any] = [*map(schema_format, schemas), None]

    async def run() -> list[str]:
        async with AsyncEngine() as engine:
            answers = await asyncio.gather(
                *(
                    engine.chat.completions.create(messages=QUESTION, response_format=wanted, max_tokens=100, seed=i)
                    for i, wanted in enumerate(formats)
                )
            )
        return [
            answer.choices[0].message.content or "" for answer in answers if answer.choices[0].finish_reason == "stop"
        ]

    texts = asyncio.run(run())
    assert len(texts) >= 4
    for text in texts:
        if text.lstrip().startswith("{"):
            value = json.loads(text)
            index = next(int(key[1:]) for key in value if re.fullmatch(r"k\d", key))
            jsonschema.validate(value, schemas[index])


@pytest.mark.parametrize("name", EXAMPLE_NAMES)
def test_the_examples_run(model: None, name: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name)], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr


def test_the_openai_example_runs(address: str) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "openai_client.py"), f"{address}/v1"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "title=" in done.stdout
