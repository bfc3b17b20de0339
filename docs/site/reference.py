"""Reference pages made from the code when the site is built: nothing in them is written twice.

A hook of MkDocs (`hooks:` in mkdocs.yml): `on_files` adds the pages.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

from mkdocs.structure.files import File, Files

PYTHON = {
    "slipcast.engine": ("Engine", "AsyncEngine", "EngineConfig"),
    "slipcast.grammar": ("GrammarCompiler", "CompiledGrammar", "Matcher", "Vocabulary"),
    "slipcast.samplers": ("SamplingParams",),
}
ERRORS = ("slipcast.engine.errors", "slipcast.engine.api.errors", "slipcast.grammar.errors", "slipcast.plugins.errors")


def on_files(files: Files, config: Any) -> Files:
    """Add the generated pages."""
    pages = {"python": python, "cli": commands, "configuration": configuration, "errors": errors, "hooks": hooks}
    for name, make in pages.items():
        content = "\n".join(make()) + "\n"
        files.append(File.generated(config, f"reference/{name}.md", content=content))
    return files


def python() -> Iterator[str]:
    """Public classes with the signatures and docstrings of their methods."""
    yield "# Python\n"
    for module, names in PYTHON.items():
        for name in names:
            found = getattr(importlib.import_module(module), name)
            yield f"## {name}\n\n    from {module} import {name}\n\n{_doc(found)}\n"
            for method, member in inspect.getmembers(found):
                if method.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property)):
                    continue
                function = member.fget if isinstance(member, property) else member
                if function is None or not inspect.getdoc(function):
                    continue
                mark = "" if isinstance(member, property) else _signature(function)
                yield f"### `{name}.{method}{mark}`\n\n{_doc(function)}\n"


def commands() -> Iterator[str]:
    """Every command with its options."""
    from slipcast.engine.cli_arguments import build_parser

    yield "# Command line\n"
    yield from _command(build_parser(), "slipcast")


def _command(parser: argparse.ArgumentParser, name: str) -> Iterator[str]:
    yield f"## {name}\n"
    if parser.description:
        yield f"{parser.description}\n"
    rows = []
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for choice, child in action.choices.items():
                yield from _command(child, f"{name} {choice}")
        elif not isinstance(action, argparse._HelpAction):
            shown = ", ".join(f"`{option}`" for option in action.option_strings) or f"`{action.metavar or action.dest}`"
            text = (action.help or "").replace("%(default)s", str(action.default)).replace("|", "\\|")
            choices = f" ({', '.join(map(str, action.choices))})" if action.choices else ""
            rows.append(f"| {shown} | {text}{choices} |")
    if rows:
        yield "\n".join(["| option | |", "|---|---|", *rows]) + "\n"


def configuration() -> Iterator[str]:
    """The engine's configuration, and the server's settings."""
    from slipcast.engine.config import EngineConfig
    from slipcast.engine.settings import ServerSettings

    yield "# Configuration\n\n## EngineConfig\n"
    yield f"{_doc(EngineConfig)}\n"
    rows = [f"| `{field.name}` | `{field.default!r}` |" for field in dataclasses.fields(EngineConfig)]
    yield "\n".join(["| key | default |", "|---|---|", *rows]) + "\n"
    yield "## ServerSettings\n\nSee [serving](../operations.md) for what each means.\n"
    rows = [f"| `{name}` | `{field.default!r}` |" for name, field in ServerSettings.model_fields.items()]
    yield "\n".join(["| key | default |", "|---|---|", *rows]) + "\n"


def errors() -> Iterator[str]:
    """Every error with what it means, and how it is answered over REST."""
    from slipcast.engine.api.errors import ANSWERS

    yield "# Errors\n\nEach says what is wrong, where, and what to do; over REST it is OpenAI's body.\n"
    for module in ERRORS:
        rows = []
        for name, found in vars(importlib.import_module(module)).items():
            if inspect.isclass(found) and issubclass(found, Exception) and found.__module__ == module:
                answer = ANSWERS.get(found)
                status = f"{answer.status} `{answer.code}`" if answer is not None else ""
                first = (inspect.getdoc(found) or "").splitlines()[0]
                rows.append(f"| `{name}` | {first} | {status} |")
        yield f"## {module}\n\n" + "\n".join(["| error | | over REST |", "|---|---|---|", *rows]) + "\n"


def hooks() -> Iterator[str]:
    """Every hook of plugins."""
    from slipcast.plugins import hookspecs

    yield f"# Hooks\n\n{_doc(hookspecs)}\n"
    for name, found in vars(hookspecs).items():
        if name.startswith("slipcast_") and inspect.isfunction(found):
            yield f"## `{name}`\n\n    {name}{_signature(found)}\n\n{_doc(found)}\n"


def _doc(found: Any) -> str:
    return (inspect.getdoc(found) or "").replace("<", "&lt;")


def _signature(function: Any) -> str:
    try:
        return str(inspect.signature(function)).replace("self, ", "").replace("(self)", "()")
    except (TypeError, ValueError):
        return "()"
