"""Other grammar engines behind the same seam: they constrain answers, and say what they are missing."""

from __future__ import annotations

import dataclasses
import importlib
import json
from importlib.util import find_spec
from typing import Any

import pytest
from engine_toys import EOS, PADDED, TEXT, ids, run, toy_parts, toy_service
from slipcast.engine import RequestError
from slipcast.engine.request import GenerationRequest
from slipcast.engine.service import EngineService
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.plugins import PluginError, backends, create_manager
from slipcast.samplers import SamplingParams

SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"enum": ["guilty", "not proven"]}, "count": {"type": "integer", "minimum": 1}},
    "required": ["verdict", "count"],
    "additionalProperties": False,
}
NAMES = [pytest.param(name, marks=pytest.mark.skipif(find_spec(name) is None, reason=f"{name} is not installed"))
         for name in ("llguidance", "xgrammar")]  # fmt: skip


def service(name: str) -> EngineService:
    manager = create_manager([f"{name}=slipcast.plugins.backends:{name.capitalize()}"])
    compiler = GrammarCompiler(Vocabulary(TEXT, (EOS,), size=PADDED))
    return toy_service(dataclasses.replace(toy_parts(pages=400, context=400, plugins=manager), compiler=compiler))


@pytest.mark.parametrize("name", NAMES)
def test_answers_are_of_the_grammar(name: str) -> None:
    with service(name) as engine:
        assert type(engine.compile("choice", ["a", "b"])).__module__.startswith("slipcast.grammar")
        for kind, source in (("json_schema", SCHEMA), ("regex", "(yes|no), [0-9]{2}"), ("json_object", None)):
            grammar = engine.compile(kind, source)
            assert type(grammar).__module__ == "slipcast.plugins.backends"
            for seed in range(3):
                params = SamplingParams(max_tokens=200, seed=seed)
                inbox = run(engine, GenerationRequest(ids("a question"), params, grammar))
                text = inbox.text()
                if inbox.finished().reason != "stop":
                    continue  # they know no way out
                if kind == "regex":
                    assert text[-2:].isdigit() and text[:-4] in ("yes", "no")
                    continue
                value = json.loads(text)
                assert isinstance(value, dict) and (kind == "json_object" or value["count"] >= 1)
        [status] = [one for one in engine.plugins.status() if one.name == name]
        assert status.seconds > 0 and status.hooks == ("slipcast_grammar_frontend",)


@pytest.mark.parametrize("name", NAMES)
def test_their_complaints_are_about_the_request(name: str) -> None:
    with service(name) as engine:
        for kind, source in (("regex", "(a"), ("json_schema", {"type": "no such type"})):
            with pytest.raises(RequestError, match=name) as caught:
                engine.compile(kind, source)
            assert "\n" not in str(caught.value)
        with pytest.raises(RequestError, match="order"):
            engine.compile("json_schema", SCHEMA, {"order": "any"})


def test_without_the_library_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise ImportError(name)

    monkeypatch.setattr(backends, "import_module", missing)
    manager = create_manager(["llguidance=slipcast.plugins.backends:Llguidance"])
    with pytest.raises(PluginError, match=r"slipcast\[llguidance\]"):
        manager.grammar_frontend("regex")
    assert manager.grammar_frontend("choice") is not None
    assert importlib.import_module("slipcast.plugins.backends").KINDS
