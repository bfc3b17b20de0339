"""All ways to say what an answer may be end in the same call of the grammar compiler."""

from __future__ import annotations

from typing import Any

import pytest
from fakes import FakeService
from slipcast.engine import Engine, RequestError
from slipcast.engine.api.errors import BodyError

HELLO = [{"role": "user", "content": "hello"}]
SCHEMA = {"type": "integer"}
TAG = {"type": "structural_tag", "format": {"type": "json_schema", "json_schema": SCHEMA}}


@pytest.mark.parametrize(
    ("asked", "compiled"),
    [
        ({"response_format": {"type": "regex", "pattern": "a+"}}, ("regex", "a+", {})),
        ({"response_format": {"type": "choice", "choices": ["a", "b"]}}, ("choice", ("a", "b"), {})),
        ({"guided_json": SCHEMA}, ("json_schema", SCHEMA, {})),
        ({"guided_json": '{"type": "integer"}'}, ("json_schema", '{"type": "integer"}', {})),
        ({"guided_json": True}, ("json_schema", True, {})),
        ({"guided_regex": "a+"}, ("regex", "a+", {})),
        ({"guided_choice": ["a", "b"]}, ("choice", ["a", "b"], {})),
        ({"structured_outputs": {"json": SCHEMA}}, ("json_schema", SCHEMA, {})),
        ({"structured_outputs": {"regex": "a+"}}, ("regex", "a+", {})),
        ({"structured_outputs": {"choice": ["a"]}}, ("choice", ["a"], {})),
        ({"structured_outputs": {"json_object": True}}, ("json_object", None, {})),
        ({"guided_regex": "a+", "response_format": {"type": "text"}}, ("regex", "a+", {})),
        ({"guided_grammar": 'root ::= "a"'}, ("grammar", 'root ::= "a"', {"syntax": "ebnf"})),
        ({"guided_grammar": 'start: "a"'}, ("grammar", 'start: "a"', {"syntax": "lark"})),
        ({"guided_regex": "a+", "guided_canonical": True}, ("regex", "a+", {"canonical": True})),
        (
            {"guided_grammar": 'start: "a"', "guided_canonical": False},
            ("grammar", 'start: "a"', {"syntax": "lark", "canonical": False}),
        ),
        (
            {"structured_outputs": {"choice": ["a"], "canonical": True}},
            ("choice", ["a"], {"canonical": True}),
        ),
        ({"structured_outputs": {"grammar": 'start: "a"'}}, ("grammar", 'start: "a"', {"syntax": "lark"})),
        (
            {"response_format": {"type": "grammar", "grammar": 'x ::= "a"', "syntax": "gbnf", "start": "x"}},
            ("grammar", 'x ::= "a"', {"syntax": "gbnf", "start": "x"}),
        ),
        ({"response_format": TAG}, ("structural_tag", TAG, {})),
        ({"response_format": {**TAG, "canonical": True}}, ("structural_tag", TAG, {"canonical": True})),
        (
            {"response_format": {"type": "regex", "pattern": "a", "canonical": True}},
            ("regex", "a", {"canonical": True}),
        ),
        ({"response_format": {"type": "json_object", "canonical": False}}, ("json_object", None, {"canonical": False})),
        ({"structured_outputs": {"structural_tag": TAG}}, ("structural_tag", TAG, {})),
    ],
)
def test_kinds(asked: dict[str, Any], compiled: tuple[str, Any, dict[str, Any]]) -> None:
    service = FakeService()
    Engine(service=service).chat.completions.create(messages=HELLO, **asked)
    assert service.compiled == [compiled]
    assert service.requests[0].grammar is not None


@pytest.mark.parametrize("asked", [{}, {"structured_outputs": {}}, {"structured_outputs": {"json_object": False}}])
def test_none(asked: dict[str, Any]) -> None:
    service = FakeService()
    Engine(service=service).chat.completions.create(messages=HELLO, **asked)
    assert service.compiled == [] and service.requests[0].grammar is None


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"guided_regex": "a", "guided_choice": ["b"]}, RequestError, "guided_regex and guided_choice both"),
        (
            {"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "b"}},
            RequestError,
            "response_format and structured_outputs.regex both",
        ),
        ({"guided_choice": []}, BodyError, "guided_choice"),
        ({"guided_canonical": True}, RequestError, "guided_canonical is about nothing"),
        ({"structured_outputs": {"canonical": True}}, RequestError, "structured_outputs.canonical is about nothing"),
        (
            {"guided_canonical": True, "structured_outputs": {"regex": "a"}},
            RequestError,
            "guided_canonical is about nothing",
        ),
        ({"guided_choice": [1]}, BodyError, "guided_choice"),
        ({"guided_regex": 1}, BodyError, "guided_regex"),
        ({"response_format": {"type": "grammar", "grammar": "a", "syntax": "abnf"}}, BodyError, "or 'lark'"),
        ({"guided_grammar": "start: x", "guided_regex": "b"}, RequestError, "guided_regex and guided_grammar both"),
        ({"response_format": {"type": "choice", "choices": []}}, BodyError, "choices"),
        ({"response_format": {"type": "regex"}}, BodyError, "pattern"),
    ],
)
def test_refusals(asked: dict[str, Any], error: type[Exception], said: str) -> None:
    service = FakeService()
    with pytest.raises(error, match=said):
        Engine(service=service).chat.completions.create(messages=HELLO, **asked)
    assert not service.requests
