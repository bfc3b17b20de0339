"""Every sample of the documentation and the README: Python runs, each page from its top, with the real model; commands
are those of the parser; TOML is settings or a project.

What a page leaves out for brevity stands in a comment before the sample, `<!-- test` ... `-->`, and runs as well.
"""

from __future__ import annotations

import importlib
import json
import re
import shlex
import tomllib
import warnings
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import slipcast.engine
import tokenizers
from slipcast.engine import Engine
from slipcast.engine.api.types import ChatCompletionRequest
from slipcast.engine.cli import build_parser
from slipcast.engine.config import EngineConfig
from slipcast.engine.settings import ServerSettings

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"^(?:```python|<!-- test)\n(.*?)^(?:```|-->)", re.MULTILINE | re.DOTALL)
TEXTS = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]
PAGES = [page for page in TEXTS if BLOCK.search(page.read_text(encoding="utf-8"))]
COMMAND = re.compile(r"^(?:    |\$ |# )(slipcast .*?)(?:   +#.*)?$", re.MULTILINE)
NAME = re.compile(r"`([a-z_]+)[=`]")
NEEDS = {"scale.md": "ray"}


def page_id(page: Path) -> str:
    return str(page.relative_to(ROOT))


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    engine = Engine()
    yield engine
    engine.service.close()


@pytest.fixture
def surroundings(engine: Engine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A folder with a tokenizer.json, and one engine for all pages: opening it is not what they are about."""
    monkeypatch.chdir(tmp_path)
    trained = tokenizers.Tokenizer(tokenizers.models.BPE())
    trained.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel()
    letters = tokenizers.pre_tokenizers.ByteLevel.alphabet()
    trainer = tokenizers.trainers.BpeTrainer(initial_alphabet=letters, special_tokens=["<|endoftext|>"])
    trained.train_from_iterator(["[1, 2]", "yes"], trainer)
    trained.save(str(tmp_path / "tokenizer.json"))

    def opened(model: str = "smollm2-135m-instruct", **options: Any) -> Engine:
        EngineConfig.read({"model": model, **options})
        return engine

    monkeypatch.setattr(engine, "close", lambda: None)
    monkeypatch.setattr(slipcast.engine, "Engine", opened)


@pytest.mark.model
@pytest.mark.usefixtures("surroundings")
@pytest.mark.parametrize("page", PAGES, ids=page_id)
def test_python_runs(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if (needed := NEEDS.get(page.name)) is not None:
        if find_spec(needed) is None:
            pytest.skip(f"the page is about {needed}, which is not installed")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Ray's own modules, when they are first imported
            serve = importlib.import_module("ray.serve")
            importlib.import_module("slipcast.engine.scale.application")
        monkeypatch.setattr(serve, "run", lambda application, **options: None)
    names: dict[str, Any] = {"__name__": "sample"}
    for block in BLOCK.findall(page.read_text(encoding="utf-8")):
        exec(compile(block, str(page), "exec", dont_inherit=True), names)
    for name, value in list(names.items()):
        if name.startswith("test_"):
            value()


@pytest.mark.model
@pytest.mark.usefixtures("surroundings")
def test_the_notebook_runs() -> None:
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    cells = json.loads((ROOT / "examples" / "token_probabilities.ipynb").read_text(encoding="utf-8"))["cells"]
    names: dict[str, Any] = {"__name__": "notebook"}
    for cell in cells:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "notebook", "exec", dont_inherit=True), names)
    assert names["notes"]


@pytest.mark.parametrize("page", TEXTS, ids=page_id)
def test_commands_are_those_of_the_parser(page: Path) -> None:
    for command in COMMAND.findall(page.read_text(encoding="utf-8")):
        for spelled in alternatives(command):
            try:
                build_parser().parse_args(shlex.split(spelled, comments=True)[1:])
            except SystemExit as error:
                assert error.code == 0, spelled


def alternatives(command: str) -> list[str]:
    """`slipcast schema check | sample` as the commands that it stands for, of which only the names are given."""
    head, *others = command.split(" | ")
    words = head.split()
    if not others:
        return [command]
    return [" ".join([*words[:-1], word, "--help"]) for word in (words[-1], *others)]


def test_what_the_migration_page_calls_the_same_is_the_same() -> None:
    page = (ROOT / "docs" / "migration.md").read_text(encoding="utf-8")
    requests, _, engines = page.partition("## Engines")
    same = {name for row in re.findall(r"^\| (.*) \| the same", requests, re.MULTILINE) for name in NAME.findall(row)}
    assert len(same) > 20
    assert same <= set(ChatCompletionRequest.model_fields)
    for options in re.findall(r"\| ([^|]*) \|$", engines, re.MULTILINE):
        for option in NAME.findall(options):
            assert option in EngineConfig.__dataclass_fields__, option


@pytest.mark.parametrize("page", TEXTS, ids=page_id)
def test_files_that_the_text_names_are_there(page: Path) -> None:
    for name in re.findall(r"`((?:tests|examples|benchmarks|docs|engine|grammar)/[\w./-]+)`", page.read_text("utf-8")):
        assert (ROOT / name).exists(), name


@pytest.mark.parametrize("page", TEXTS, ids=page_id)
def test_verbs_that_the_text_names_are_there(page: Path) -> None:
    verbs = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"`make ([a-z-]+)", page.read_text("utf-8"))) <= verbs


def test_toml_is_settings_or_a_project() -> None:
    found = 0
    for page in TEXTS:
        for text in re.findall(r"^```toml\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL):
            read = tomllib.loads(text)
            if "project" not in read:
                ServerSettings.model_validate(read)
            found += 1
    assert found >= 2
