"""The algebra against the official suite: a value is valid exactly if the schema and `const` of it exclude each other not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import referencing
import referencing.jsonschema
from slipcast.grammar.algebra import Algebra
from slipcast.grammar.errors import GrammarError
from slipcast.grammar.schema import read
from slipcast.grammar.schema.expr import Const
from slipcast.grammar.schema.values import canonical

SUITE = Path(__file__).parents[1] / ".." / "shared" / "data" / "json-schema-test-suite"
DRAFTS = {
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
    "draft2019-09": "https://json-schema.org/draft/2019-09/schema",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft6": "http://json-schema.org/draft-06/schema#",
    "draft4": "http://json-schema.org/draft-04/schema#",
}
if not SUITE.exists():
    pytest.skip("the official JSON-Schema-Test-Suite is not beside this checkout", allow_module_level=True)


def groups(draft: str) -> Iterator[tuple[str, Any]]:
    for path in sorted((SUITE / "tests" / draft).glob("*.json")):
        for group in json.loads(path.read_text()):
            yield path.stem, group


def registry(draft: str) -> referencing.Registry[Any]:
    out: referencing.Registry[Any] = referencing.Registry()
    specification = referencing.jsonschema.specification_with(DRAFTS[draft])
    for path in (SUITE / "remotes").rglob("*.json"):
        uri = f"http://localhost:1234/{path.relative_to(SUITE / 'remotes').as_posix()}"
        contents = json.loads(path.read_text())
        out = out.with_resource(uri, referencing.Resource.from_contents(contents, default_specification=specification))
    return out


@pytest.mark.parametrize("draft", DRAFTS)
def test_every_required_test_is_right(draft: str) -> None:
    remotes = registry(draft)
    wrong = []
    for file, group in groups(draft):
        where = f"{file}: {group['description']}"
        try:
            schema = read(group["schema"], dialect=DRAFTS[draft], formats=False, registry=remotes)
            algebra = Algebra(schema)
            for test in group["tests"]:
                value = Const(canonical(test["data"]))
                valid = algebra.nonempty(algebra.goals.of([*algebra.root.literals, (value, True)]))
                if algebra.root.impossible:
                    valid = False
                if valid is not test["valid"]:
                    wrong.append(f"{where}: {test['description']} ({'wrongly accepted' if valid else 'wrongly rejected'})")
        except GrammarError as error:
            wrong.append(f"{where}: {error}")
    assert wrong == []
