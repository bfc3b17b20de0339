"""`slipcast plugins` and `slipcast plugins new`."""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.request import Request, urlopen

from rich.text import Text

from ..plugins import PluginError, create_manager
from .cli_terminal import print_json, print_panel, print_table
from .errors import EngineError

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
TIMEOUT = 10.0
COLOURS = {"active": "green", "installed": "", "broken": "red", "quarantined": "red"}


def run(options: argparse.Namespace) -> int:
    """List plugins: of this environment, with those that are named activated; or of a running server."""
    rows = _of_server(options.url, options.api_key) if options.url else _of_environment(options.activate or ())
    if options.json:
        print_json({"object": "list", "data": rows})
    else:
        _print(rows)
    return 1 if any(row.get("error") for row in rows) else 0


def new(options: argparse.Namespace) -> int:
    """Make a folder with a plugin package to start from."""
    from .cli_plugin_template import files

    name = str(options.name)
    if not NAME.fullmatch(name):
        raise EngineError(f"{name!r} is no name for a plugin", remedy="use small letters, digits and single hyphens")
    folder = Path(options.folder or name)
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise EngineError(f"{folder} exists", remedy="give another --folder")
    made = files(name)
    for path, text in made.items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    if options.json:
        print_json({"name": name, "folder": str(folder), "files": [str(folder / path) for path in made]})
        return 0
    install = f"pip install -e {folder} pytest && pytest {folder}"
    facts = [("edit", str(folder)), ("install and test", install), ("use", f"slipcast serve --plugins {name}")]
    print_panel(facts, f"made {name}")
    return 0


def _of_environment(active: Sequence[str]) -> list[dict[str, Any]]:
    """Installed plugins are loaded one by one, so that what is wrong with one is told beside it; none is activated but
    those in `active`.
    """
    rows = []
    for status in create_manager(active).status():
        started = time.perf_counter()
        row = asdict(status)
        if not status.active:
            try:
                loaded = next(one for one in create_manager([status.name]).status() if one.name == status.name)
                row = asdict(replace(loaded, active=False, seconds=time.perf_counter() - started))
            except PluginError as error:
                row["error"] = error.message
        rows.append(row)
    return rows


def _of_server(url: str, key: str | None) -> list[dict[str, Any]]:
    place = f"{url.rstrip('/').removesuffix('/v1')}/v1/plugins"
    if not place.startswith(("http://", "https://")):
        raise EngineError(f"{url!r} is no address of a server", remedy="give one as http://127.0.0.1:8000")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    try:
        with urlopen(Request(place, headers=headers), timeout=TIMEOUT) as answer:
            found: list[dict[str, Any]] = json.load(answer)["data"]
    except (URLError, OSError, ValueError, KeyError, TypeError) as error:
        raise EngineError(f"{place} does not answer: {error}", remedy="is `slipcast serve` running there?") from error
    return found


def _print(rows: Sequence[dict[str, Any]]) -> None:
    lines = []
    for row in rows:
        state = "quarantined" if row.get("quarantined") else "active" if row["active"] else "installed"
        state = "broken" if row.get("error") else state
        hooks = ", ".join(hook.removeprefix("slipcast_") for hook in row["hooks"])
        seconds, faults = f"{row['seconds']:.3f}", str(row["faults"])
        lines.append(
            (row["name"], row["version"] or "-", row["api"] or "-", Text(state, COLOURS[state]), seconds, faults, hooks)
        )
    print_table(("NAME", "VERSION", "API", "STATE", "SECONDS", "FAULTS", "HOOKS"), lines, numbers=(4, 5))
    for row in rows:
        reason = row.get("error") or row.get("quarantined")
        if reason:
            print(f"{row['name']}: {reason}")
