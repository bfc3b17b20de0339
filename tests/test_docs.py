"""Every Python sample of the documentation and the README runs, each page from its top, with the real model."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import slipcast.engine
from slipcast.engine import Engine

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
SKIP = "# test: skip"  # the first line of a sample that shows, and cannot run alone
PAGES = sorted(page for page in (ROOT / "docs").rglob("*.md") if BLOCK.search(page.read_text(encoding="utf-8")))
RUN = [page for page in PAGES if page.parent.name == "guides" or page.name in ("index.md", "scale.md")]


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.service.close()


@pytest.mark.model
@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_samples_run(page: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    # One engine for all pages: opening it is not what they are about.
    monkeypatch.setattr(engine, "close", lambda: None)
    monkeypatch.setattr(slipcast.engine, "Engine", lambda *args, **options: engine)
    names: dict[str, Any] = {"__name__": "sample"}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if not block.startswith(SKIP):
            exec(compile(block, str(page), "exec", dont_inherit=True), names)


@pytest.mark.model
def test_the_first_sample_of_the_readme_runs(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "close", lambda: None)
    monkeypatch.setattr(slipcast.engine, "Engine", lambda *args, **options: engine)
    first = BLOCK.findall((ROOT / "README.md").read_text(encoding="utf-8"))[0]
    names: dict[str, Any] = {"__name__": "readme"}
    exec(compile(first, "README.md", "exec", dont_inherit=True), names)
    assert names["animal"].legs <= 8


@pytest.mark.model
def test_the_notebook_runs(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    monkeypatch.setattr(engine, "close", lambda: None)
    monkeypatch.setattr(slipcast.engine, "Engine", lambda *args, **options: engine)
    cells = json.loads((ROOT / "examples" / "token_probabilities.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"__name__": "notebook"}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "notebook", "exec", dont_inherit=True), names)
    assert names["notes"]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_samples_are_python(page: Path) -> None:
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        compile(block, str(page), "exec")
