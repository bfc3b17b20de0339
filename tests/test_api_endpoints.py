"""The endpoints beside chat, spoken over a real socket to a server without a model."""

from __future__ import annotations

import json
from typing import Any

import httpx
import openai
import pytest
from fakes import FakeService, words
from serving import served
from slipcast.engine import AsyncEngine, ConfigError
from slipcast.engine.api.server import create_app
from slipcast.grammar.errors import SchemaError


def refused(address: str, path: str, body: Any, status: int = 400) -> dict[str, Any]:
    response = httpx.post(f"{address}{path}", json=body, timeout=10)
    assert response.status_code == status, response.text
    error: dict[str, Any] = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return error


# ---------------------------------------------------------------------------------------------------------- completions


def test_a_completion(client: openai.OpenAI, service: FakeService) -> None:
    answer = client.completions.create(model="fake", prompt="ab", stop="x", seed=1)
    assert (answer.object, answer.choices[0].text, answer.choices[0].finish_reason) == (
        "text_completion",
        "Hello",
        "stop",
    )
    assert answer.usage is not None and answer.usage.prompt_tokens == 2
    assert service.requests[0].params.max_tokens == 16
    assert service.requests[0].params.stop_strings == ("x",)


@pytest.mark.parametrize(
    ("prompt", "prompts"),
    [("ab", ["ab"]), (["ab", "c"], ["ab", "c"]), ([97, 98], ["ab"]), ([[97], [98, 99]], ["a", "bc"])],
)
def test_prompts(client: openai.OpenAI, service: FakeService, prompt: Any, prompts: list[str]) -> None:
    for stream in (False, True):
        service.requests.clear()
        got = client.completions.create(model="fake", prompt=prompt, n=2, echo=True, stream=stream)
        texts: dict[int, str] = {}
        for piece in got if stream else [got]:
            for choice in piece.choices:
                texts[choice.index] = texts.get(choice.index, "") + choice.text
        assert texts == {2 * i + k: f"{text}Hello" for i, text in enumerate(prompts) for k in range(2)}
        assert sorted(service.tokenizer.decode(request.prompt) for request in service.requests) == sorted(prompts)


def test_logprobs_of_a_completion(client: openai.OpenAI) -> None:
    found = client.completions.create(model="fake", prompt="ab", logprobs=1).choices[0].logprobs
    assert found is not None
    assert (found.tokens, found.token_logprobs, found.text_offset) == (["Hel", "lo"], [-0.5, -0.5], [0, 3])
    assert found.top_logprobs == [{"\ufffd": -1.5}] * 2


def test_a_stream_of_completions_with_usage(client: openai.OpenAI) -> None:
    *pieces, last = client.completions.create(
        model="fake", prompt=["a", "b"], stream=True, stream_options={"include_usage": True}
    )
    assert last.choices == [] and last.usage is not None and last.usage.total_tokens == 6
    assert all(piece.usage is None for piece in pieces)


@pytest.mark.parametrize(
    ("asked", "status", "param"),
    [
        ({}, 400, "prompt"),
        ({"prompt": []}, 400, "prompt"),
        ({"prompt": ["a", 1]}, 400, "prompt.1"),
        ({"prompt": "a", "suffix": "b"}, 422, "suffix"),
        ({"prompt": "a", "best_of": 3}, 422, "best_of"),
        ({"prompt": "a", "echo": True, "logprobs": 1}, 422, "logprobs"),
        ({"prompt": "a", "logprobs": 99}, 400, "logprobs"),
        ({"prompt": [5000], "echo": True}, 400, "prompt"),
        ({"prompt": "a", "model": "gpt-5"}, 404, "model"),
        ({"prompt": "a", "grammar": "x"}, 400, "grammar"),
        ({"prompt": "a" * 50_000}, 400, "prompt"),
    ],
    ids=range(11),
)
def test_completions_that_cannot_be_had(address: str, asked: Any, status: int, param: str | None) -> None:
    assert refused(address, "/v1/completions", asked, status)["param"] == param


def test_a_prompt_that_fails_ends_the_others(client: openai.OpenAI, service: FakeService) -> None:
    def script(request: Any) -> Any:
        if request.prompt == (98,):
            raise_later = words("x", reason="stop")
            yield from raise_later(request)
        else:
            from slipcast.engine import GrammarFault
            from slipcast.engine.request import Failed

            yield Failed(GrammarFault("stuck"))

    service.script = script
    with pytest.raises(openai.InternalServerError, match="stuck"):
        client.completions.create(model="fake", prompt=["a", "b"])
    assert set(service.cancelled) <= {request.id for request in service.requests}
    assert len(service.cancelled) == 2 or service.cancelled == []


# ------------------------------------------------------------------------------------------------------------ utilities


def test_tokens_and_back(address: str) -> None:
    got = httpx.post(f"{address}/tokenize", json={"prompt": "hi", "return_token_strs": True}).json()
    assert got == {"count": 2, "max_model_len": 10_000, "tokens": [104, 105], "token_strs": ["h", "i"]}
    assert httpx.post(f"{address}/detokenize", json={"tokens": got["tokens"]}).json() == {"prompt": "hi"}
    chat = httpx.post(f"{address}/tokenize", json={"messages": [{"role": "user", "content": "hi"}]}).json()
    text = httpx.post(f"{address}/detokenize", json={"tokens": chat["tokens"]}).json()["prompt"]
    assert text == "<user>hi<assistant>"
    assert refused(address, "/tokenize", {})["code"] == "invalid_body"
    assert refused(address, "/tokenize", {"prompt": "a", "model": "b"}, 404)["param"] == "model"
    assert refused(address, "/detokenize", {"tokens": [-1]})["param"] == "tokens"
    assert refused(address, "/detokenize", {"tokens": [1 << 70]})["param"] == "tokens"


def test_a_grammar_is_checked(address: str, service: FakeService) -> None:
    asked = {"response_format": {"type": "regex", "pattern": "a"}}
    assert httpx.post(f"{address}/v1/grammar/check", json=asked).json()["kind"] == "regex"
    assert service.compiled[-1][:2] == ("regex", "a")
    assert httpx.post(f"{address}/v1/grammar/check", json={"schema": {"a": 1}}).status_code == 200
    assert service.compiled[-1][:2] == ("json_schema", {"a": 1})
    assert refused(address, "/v1/grammar/check", {})["param"] == "schema"
    assert refused(address, "/v1/grammar/check", {"shema": {}})["param"] == "shema"
    assert refused(address, "/v1/grammar/check", {"schema": {}, **asked})["code"] == "invalid_body"
    service.grammar_refusal = SchemaError("unknown type", pointer="/type", keyword="type")
    error = refused(address, "/v1/grammar/check", {"schema": {"type": "x"}})
    assert "#/type" in error["message"] and error["code"] == "invalid_schema" and error["param"] == "schema"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/completions", "/v1/grammar/check"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("guided_json", {"type": "x"}),
        ("guided_regex", "("),
        ("guided_grammar", "root ::= ("),
        ("structured_outputs", {"json": {"type": "x"}}),
        ("response_format", {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "x"}}}),
    ],
)
def test_a_constraint_that_cannot_be_is_told_by_its_field(
    address: str, service: FakeService, path: str, field: str, value: object
) -> None:
    service.grammar_refusal = SchemaError("unknown type", pointer="/type", keyword="type")
    messages = [{"role": "user", "content": "hi"}]
    least: dict[str, Any] = {"/v1/chat/completions": {"messages": messages}, "/v1/completions": {"prompt": "a"}}
    assert refused(address, path, {**least.get(path, {}), field: value})["param"] == field


# ------------------------------------------------------------------------------------------------------- several models


def test_several_models() -> None:
    first, second = FakeService(words("first")), FakeService(words("second"))
    engines = [AsyncEngine(service=first, name="a"), AsyncEngine(service=second, name="b")]
    with served(create_app(engines)) as address:
        client = openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0, timeout=10)
        assert [model.id for model in client.models.list()] == ["a", "b"]
        for name, said in (("a", "first"), ("b", "second"), ("", "first")):
            answer = client.chat.completions.create(model=name, messages=[{"role": "user", "content": "x"}])
            assert (answer.choices[0].message.content, answer.model) == (said, name or "a")
        assert client.completions.create(model="b", prompt="x").model == "b"
        with pytest.raises(openai.NotFoundError, match=r"use 'a' or 'b'"):
            client.models.retrieve("fake")
        second.closed = True
        assert httpx.get(f"{address}/health").status_code == 503
        client.close()
    assert first.closed and second.closed
    with pytest.raises(ConfigError, match="two models"):
        create_app([AsyncEngine(service=first, name="a"), AsyncEngine(service=second, name="a")])


def test_the_document_describes_what_is_served(address: str) -> None:
    document = httpx.get(f"{address}/openapi.json").json()
    assert document["openapi"].startswith("3.1")
    text = json.dumps(document)
    for reference in {part.split('"')[0] for part in text.split('"#/components/schemas/')[1:]}:
        assert reference in document["components"]["schemas"]
    for path, entry in document["paths"].items():
        method = next(iter(entry)).upper()
        response = httpx.request(method, f"{address}{path}", json={} if method == "POST" else None)
        assert response.status_code != 405, path


# ----------------------------------------------------------------------------------------------------------- embeddings


def test_embeddings(client: openai.OpenAI, address: str) -> None:
    """OpenAI's client asks for base64 where the caller does not say."""
    for encoding in ({}, {"encoding_format": "float"}):
        answer = client.embeddings.create(model="fake", input=["ab", "c"], **encoding)  # type: ignore[arg-type]
        assert [entry.embedding for entry in answer.data] == [[2.0, 97.0], [1.0, 99.0]]
        assert (answer.usage.prompt_tokens, [entry.index for entry in answer.data]) == (3, [0, 1])
    for given in ([97, 98], [[97, 98]]):
        assert client.embeddings.create(model="fake", input=given).data[0].embedding == [2.0, 97.0]
    assert refused(address, "/v1/embeddings", {})["param"] == "input"
    for empty in ("", [], [""], [[]]):
        assert refused(address, "/v1/embeddings", {"input": empty})["code"] == "invalid_body"
    assert refused(address, "/v1/embeddings", {"input": "a" * 50_000})["param"] == "input"
    assert refused(address, "/v1/embeddings", {"input": "a", "dimensions": 1}, 422)["param"] == "dimensions"
