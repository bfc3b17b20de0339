"""The public names: each package's `__all__` is what it offers, and the names that programs rely on exist as
documented.
"""

from __future__ import annotations

import importlib
import inspect
from types import ModuleType

import pytest

PACKAGES = ("slipcast.engine", "slipcast.grammar", "slipcast.plugins", "slipcast.samplers")


@pytest.fixture(params=PACKAGES)
def package(request: pytest.FixtureRequest) -> ModuleType:
    return importlib.import_module(request.param)


def test_all_names_exist_once(package: ModuleType) -> None:
    names = package.__all__
    assert len(set(names)) == len(names)
    assert not [name for name in names if not hasattr(package, name)]


def test_nothing_public_is_left_out(package: ModuleType) -> None:
    """What a package's module defines or imports without an underscore is listed, submodules and typing helpers
    aside.
    """
    for name in package.__all__:
        getattr(package, name)
    helpers = {"annotations", "Any", "TYPE_CHECKING", "import_module"}
    exposed = {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and name not in helpers and not isinstance(value, ModuleType)
    }
    assert exposed == set(package.__all__)


def test_public_classes_and_functions_are_documented(package: ModuleType) -> None:
    undocumented = [
        name
        for name in package.__all__
        if (inspect.isclass(value := getattr(package, name)) or inspect.isfunction(value)) and not value.__doc__
    ]
    assert not undocumented


GRAMMAR_MEMBERS = {
    "Vocabulary": ("from_tokenizer",),
    "GrammarCompiler": ("json_schema", "json_object", "fill_masks"),
    "CompiledGrammar": ("accepts", "report", "sample", "matcher"),
    "Matcher": (
        "fill_mask",
        "accept",
        "rollback",
        "fork",
        "is_accepting",
        "forced",
        "distance",
    ),
}


@pytest.mark.parametrize("name", GRAMMAR_MEMBERS)
def test_the_grammar_offers_what_is_promised(name: str) -> None:
    grammar = importlib.import_module("slipcast.grammar")
    offered = getattr(grammar, name)
    assert [member for member in GRAMMAR_MEMBERS[name] if not hasattr(offered, member)] == []


def test_json_schema_takes_the_promised_options() -> None:
    from slipcast.grammar import GrammarCompiler

    parameters = inspect.signature(GrammarCompiler.json_schema).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items() if name not in ("self", "schema")}
    assert {name: defaults[name] for name in ("order", "whitespace", "spelling", "formats", "dialect", "registry")} == {
        "order": "schema",
        "whitespace": "bounded",
        "spelling": "natural",
        "formats": True,
        "dialect": None,
        "registry": None,
    }


def test_both_engines_take_a_model_and_a_mode() -> None:
    from slipcast.engine import AsyncEngine, Engine

    for engine in (Engine, AsyncEngine):
        parameters = inspect.signature(engine).parameters
        assert parameters["model"].default == "smollm2-135m-instruct"
        assert parameters["mode"].default == "local"
        assert hasattr(engine, "chat")


def test_errors_can_be_caught_without_the_runtime() -> None:
    """Importing the package must not load the compiled runtime: that takes over a second."""
    import subprocess
    import sys

    program = "import sys, slipcast.engine as e; e.EngineError; sys.exit('tvm' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
