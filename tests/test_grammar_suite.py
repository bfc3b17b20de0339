"""The ratchet: every required test of the official suite and every schema vector is judged right by the byte automaton."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import referencing
import referencing.jsonschema
from slipcast.grammar import GrammarCompiler, GrammarError, UnsatisfiableError, Vocabulary

DATA = Path(__file__).parents[1] / ".." / "shared" / "data"
SUITE = DATA / "json-schema-test-suite"
DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft4": "http://json-schema.org/draft-04/schema#",
}
if not SUITE.exists():
    pytest.skip("the official JSON-Schema-Test-Suite is not beside this checkout", allow_module_level=True)


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(Vocabulary(tokens=[bytes((i,)) for i in range(256)] + [None], eos_ids=[256]))


def remotes(dialect: str) -> referencing.Registry[Any]:
    specification = referencing.jsonschema.specification_with(dialect)
    out: referencing.Registry[Any] = referencing.Registry()
    for path in (SUITE / "remotes").rglob("*.json"):
        uri = f"http://localhost:1234/{path.relative_to(SUITE / 'remotes').as_posix()}"
        contents = json.loads(path.read_text(encoding="utf-8"))
        out = out.with_resource(uri, referencing.Resource.from_contents(contents, default_specification=specification))
    return out


CASES = [
    pytest.param(draft, path, id=f"{draft}-{path.stem}")
    for draft in DRAFTS
    for path in sorted((SUITE / "tests" / draft).glob("*.json"))
]


@pytest.fixture(scope="module")
def registries() -> dict[str, referencing.Registry[Any]]:
    return {draft: remotes(dialect) for draft, dialect in DRAFTS.items()}


@pytest.mark.parametrize(("draft", "path"), CASES)
def test_required(
    draft: str, path: Path, compiler: GrammarCompiler, registries: dict[str, referencing.Registry[Any]]
) -> None:
    wrong = []
    for group in json.loads(path.read_text(encoding="utf-8")):
        tests = group["tests"]
        try:
            grammar = compiler.json_schema(
                group["schema"],
                order="any",
                spelling="any",
                formats=False,
                dialect=DRAFTS[draft],
                registry=registries[draft],
            )
        except UnsatisfiableError as error:
            if any(test["valid"] for test in tests):
                wrong.append(f"{group['description']}: {error}")
            continue
        for test in tests:
            if grammar.accepts(json.dumps(test["data"])) is not test["valid"]:
                wrong.append(f"{group['description']}: {test['description']}")
    assert wrong == []


VECTORS = json.loads((DATA / "schema-vectors.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("vector", [pytest.param(vector, id=vector["id"]) for vector in VECTORS])
def test_vector(vector: dict[str, Any], compiler: GrammarCompiler) -> None:
    try:
        grammar = compiler.json_schema(vector["schema"], order="any", spelling="any")
    except GrammarError:
        assert vector["valid"] == [], "refused although some text is valid"
        return
    assert [text for text in vector["valid"] if not grammar.accepts(text)] == []
    assert [text for text in vector["invalid"] if grammar.accepts(text)] == []
