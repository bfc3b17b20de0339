"""Reference pages made from the code when the site is built: nothing in them is written twice.

A hook of MkDocs (`hooks:` in mkdocs.yml): `on_files` adds the pages.
"""

from __future__ import annotations

import argparse
import ast
import dataclasses
import importlib
import inspect
from collections.abc import Iterator
from pathlib import Path
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
    from slipcast.engine.cli import build_parser
    from slipcast.engine.config import EngineConfig
    from slipcast.engine.settings import ServerSettings

    yield "# Configuration\n\n## EngineConfig\n"
    yield f"{_doc(EngineConfig)}\n"
    rows = [f"| `{field.name}` | `{field.default!r}` |" for field in dataclasses.fields(EngineConfig)]
    yield "\n".join(["| key | default |", "|---|---|", *rows]) + "\n"
    yield "## ServerSettings\n\nSee [running a server](../operations.md).\n"
    said = {action.dest: action.help or "" for action in _child(build_parser(), "serve")._actions}
    rows = [
        f"| `{name}` | `{field.default!r}` | {said.get(name, '').partition(' (default')[0].replace('|', '/')} |"
        for name, field in ServerSettings.model_fields.items()
    ]
    yield "\n".join(["| key | default | |", "|---|---|---|", *rows]) + "\n"


def _child(parser: argparse.ArgumentParser, name: str) -> argparse.ArgumentParser:
    """The parser of one command."""
    (commands,) = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    child: argparse.ArgumentParser = commands.choices[name]
    return child


def errors() -> Iterator[str]:
    """Every error with what it means, its remedies, and how it is answered over REST."""
    from slipcast.engine.api.errors import ANSWERS

    yield "# Errors\n\nEach says what is wrong, where, and what to do; over REST it is OpenAI's body.\n"
    remedies = _remedies()
    for module in ERRORS:
        rows = []
        for name, found in vars(importlib.import_module(module)).items():
            if inspect.isclass(found) and issubclass(found, Exception) and found.__module__ == module:
                answer = ANSWERS.get(found)
                status = f"{answer.status} `{answer.code}`" if answer is not None else ""
                first = (inspect.getdoc(found) or "").splitlines()[0]
                told = "<br>".join(f"{remedy}" for remedy in remedies.get(name, ()))
                rows.append(f"| `{name}` | {first} | {told} | {status} |")
        head = ["| error | | messages and *remedies* | over REST |", "|---|---|---|---|"]
        yield f"## {module}\n\n" + "\n".join([*head, *rows]) + "\n"


def _remedies() -> dict[str, list[str]]:
    """What errors say, and in italics what is to be done, by their class, wherever the product raises them. Values are
    shown as `...`.
    """
    found: dict[str, set[str]] = {}
    for package in ("slipcast.engine", "slipcast.grammar", "slipcast.plugins", "slipcast.samplers"):
        folder = Path(inspect.getfile(importlib.import_module(package))).parent
        for path in folder.rglob("*.py"):
            for call in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name | ast.Attribute):
                    continue
                name = call.func.id if isinstance(call.func, ast.Name) else call.func.attr
                what = _text(call.args[0]) if call.args else ""
                for keyword in call.keywords:
                    if keyword.arg == "remedy" and (text := _text(keyword.value)):
                        found.setdefault(name, set()).add(f"{what} (*{text}*)" if what else f"*{text}*")
    return {name: sorted(texts) for name, texts in found.items()}


def _text(value: ast.expr) -> str:
    """A text of the source, "" where it is none."""
    if isinstance(value, ast.JoinedStr):
        parts = (part.value if isinstance(part, ast.Constant) else "..." for part in value.values)
        return _cell("".join(map(str, parts)))
    return _cell(value.value) if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")


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
