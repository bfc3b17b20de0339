"""The ratchet: the byte automaton is right on every required test of the official suite and on every schema vector."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from official_suite import DATA, SPECIFICATIONS, files, groups, needs_suite, remotes
from slipcast.grammar import GrammarCompiler, GrammarError, UnsatisfiableError, Vocabulary

pytestmark = needs_suite
VECTORS_FILE = DATA / "schema-vectors.json"
VECTORS = json.loads(VECTORS_FILE.read_text(encoding="utf-8")) if VECTORS_FILE.exists() else []


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(Vocabulary(tokens=[bytes((i,)) for i in range(256)] + [None], eos_ids=[256]))


def wrong_tests(compiler: GrammarCompiler, draft: str, group: dict) -> list[str]:
    tests = group["tests"]
    try:
        grammar = compiler.json_schema(
            group["schema"], order="any", spelling="any", formats=False, dialect=draft, registry=remotes(draft)
        )
    except UnsatisfiableError as error:
        return [str(error)] if any(test["valid"] for test in tests) else []
    return [test["description"] for test in tests if grammar.accepts(json.dumps(test["data"])) is not test["valid"]]


@pytest.mark.parametrize(
    ("draft", "path"),
    [
        pytest.param(draft, path, id=f"{draft}-{path.stem}")
        for draft in SPECIFICATIONS
        for path in files(draft)
    ],
)  # fmt: skip
def test_required(draft: str, path: Path, compiler: GrammarCompiler) -> None:
    wrong = {group["description"]: wrong_tests(compiler, draft, group) for group in groups(path)}
    assert {group: tests for group, tests in wrong.items() if tests} == {}


@pytest.mark.parametrize("vector", [pytest.param(vector, id=vector["id"]) for vector in VECTORS])
def test_vector(vector: dict, compiler: GrammarCompiler) -> None:
    try:
        grammar = compiler.json_schema(vector["schema"], order="any", spelling="any")
    except GrammarError:
        assert vector["valid"] == [], "refused although some text is valid"
        return
    assert [text for text in vector["valid"] if not grammar.accepts(text)] == []
    assert [text for text in vector["invalid"] if grammar.accepts(text)] == []
