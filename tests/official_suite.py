"""The official JSON-Schema-Test-Suite beside the repository: where it lies, its groups, the schemas it refers to."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import referencing
from referencing.jsonschema import DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SUITE = DATA / "json-schema-test-suite"
SPECIFICATIONS = {
    "draft2020-12": DRAFT202012,
    "draft2019-09": DRAFT201909,
    "draft7": DRAFT7,
    "draft6": DRAFT6,
    "draft4": DRAFT4,
}
needs_suite = pytest.mark.skipif(not SUITE.exists(), reason="the official suite is not beside the repository")


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


def groups(path: Path) -> list[dict[str, Any]]:
    """The groups of tests in one file."""
    loaded: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def files(draft: str, folder: str = "") -> list[Path]:
    """The files of a draft, in order."""
    return sorted((SUITE / "tests" / draft / folder).glob("*.json"))
