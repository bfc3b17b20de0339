"""The official JSON-Schema-Test-Suite: every required test of the five drafts, read and judged by the oracle."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import pytest
import referencing
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012
from schema_oracle import allowed
from slipcast.grammar.schema import read

SUITE = Path(__file__).resolve().parent.parent.parent / "shared" / "data" / "json-schema-test-suite"
SPECIFICATIONS = {
    "draft2020-12": DRAFT202012,
    "draft2019-09": DRAFT201909,
    "draft7": DRAFT7,
    "draft6": DRAFT6,
    "draft4": DRAFT4,
}
TOTALS = {"draft2020-12": 1299, "draft2019-09": 1259, "draft7": 927, "draft6": 839, "draft4": 618}

pytestmark = pytest.mark.skipif(not SUITE.exists(), reason="the official suite is not beside the repository")


@cache
def remotes(draft: str) -> referencing.Registry:
    """The suite's remote documents as `http://localhost:1234/...`, those without `$schema` read by `draft`."""
    folder, registry = SUITE / "remotes", referencing.Registry()
    for path in sorted(folder.rglob("*.json")):
        relative = path.relative_to(folder)
        if relative.parts[0] in SPECIFICATIONS and relative.parts[0] != draft and draft in ("draft4", "draft6"):
            continue
        specification = SPECIFICATIONS.get(relative.parts[0], SPECIFICATIONS[draft])
        contents = json.loads(path.read_text(encoding="utf-8"))
        resource = referencing.Resource.from_contents(contents, default_specification=specification)
        registry = registry.with_resource(f"http://localhost:1234/{relative.as_posix()}", resource)
    return registry


def cases(draft: str, folder: str = "") -> list:
    return [
        pytest.param(draft, group, id=f"{draft}/{folder}{path.stem}:{index}")
        for path in sorted((SUITE / "tests" / draft / folder).glob("*.json"))
        for index, group in enumerate(json.loads(path.read_text(encoding="utf-8")))
    ]


@pytest.mark.parametrize(("draft", "group"), [case for draft in SPECIFICATIONS for case in cases(draft)])
def test_required(draft: str, group: dict) -> None:
    schema = read(group["schema"], dialect=draft, formats=False, registry=remotes(draft))
    verdicts = [(test["description"], allowed(schema, test["data"])) for test in group["tests"]]
    assert verdicts == [(test["description"], test["valid"]) for test in group["tests"]]


# Optional behaviour that we do not have, by choice.
NOT_OURS = {
    "dependencies-compatibility",  # `dependencies` after draft 7 is no keyword; the report says so
    "content",  # an annotation
    "zeroTerminatedFloats",  # a matter of spelling, not of value
    "format-assertion",  # here the oracle judges no formats
}


@pytest.mark.parametrize(
    ("draft", "group"),
    [
        case
        for draft in SPECIFICATIONS
        for case in cases(draft, "optional/")
        if str(case.id).rpartition("/")[2].partition(":")[0] not in NOT_OURS
    ],
)
def test_optional(draft: str, group: dict) -> None:
    test_required(draft, group)


@pytest.mark.parametrize("draft", SPECIFICATIONS)
def test_nothing_is_left_out(draft: str) -> None:
    assert sum(len(case.values[1]["tests"]) for case in cases(draft)) == TOTALS[draft]
