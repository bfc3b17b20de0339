"""The official JSON-Schema-Test-Suite: every required test of the five drafts, read and judged by the oracle."""

from __future__ import annotations

import pytest
from official_suite import SPECIFICATIONS, files, groups, needs_suite, remotes
from schema_oracle import allowed
from slipcast.grammar.schema import read

TOTALS = {"draft2020-12": 1299, "draft2019-09": 1259, "draft7": 927, "draft6": 839, "draft4": 618}

pytestmark = needs_suite


def cases(draft: str, folder: str = "") -> list:
    return [
        pytest.param(draft, group, id=f"{draft}/{folder}{path.stem}:{index}")
        for path in files(draft, folder)
        for index, group in enumerate(groups(path))
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
