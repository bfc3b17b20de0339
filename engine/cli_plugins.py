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

from ..plugins import PluginError, create_manager
from .errors import EngineError

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
TIMEOUT = 10.0


def run(options: argparse.Namespace) -> int:
    """List plugins: of this environment, with those that are named activated; or of a running server."""
    rows = _of_server(options.url, options.api_key) if options.url else _of_environment(options.activate or ())
    if options.json:
        print(json.dumps({"object": "list", "data": rows}, indent=2))
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
    for path, text in files(name).items():
        place = folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
    print(f"made {folder}: edit it, then")
    print(f"    pip install -e {folder} pytest && pytest {folder}")
    print(f"    slipcast serve --plugins {name}")
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
    table = [("NAME", "VERSION", "API", "STATE", "SECONDS", "FAULTS", "HOOKS")]
    for row in rows:
        state = "quarantined" if row.get("quarantined") else "active" if row["active"] else "installed"
        hooks = ", ".join(hook.removeprefix("slipcast_") for hook in row["hooks"])
        table.append(
            (
                str(row["name"]), row["version"] or "-", row["api"] or "-", "broken" if row.get("error") else state,
                f"{row['seconds']:.3f}", str(row["faults"]), hooks or "-",
            )
        )  # fmt: skip
    widths = [max(len(line[column]) for line in table) for column in range(len(table[0]) - 1)]
    for line in table:
        print("  ".join([*(cell.ljust(width) for cell, width in zip(line, widths, strict=False)), line[-1]]))
    for row in rows:
        reason = row.get("error") or row.get("quarantined")
        if reason:
            print(f"{row['name']}: {reason}")
