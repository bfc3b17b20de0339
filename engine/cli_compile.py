"""`slipcast compile`: libraries of a model for this kind of machine and for others."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from .cli_terminal import ProgressBars, print_json, print_table
from .errors import CompileError, ConfigError
from .runtime import resolve_model

_KINDS = {
    "library": "library",
    "objects": "object files, to be linked there",
    "source": "source of the GPU's kernels, not run by anyone yet",
}


def run(options: argparse.Namespace) -> int:
    """Compile for every target that is named; exit code 1 if one of them could not be."""
    with ProgressBars() as progress:
        model = resolve_model(options.model, progress)
        from .runtime.targets import GPUS, MACHINES, compile_for

        wanted = [*MACHINES, *GPUS] if options.target == ["all"] else options.target
        rows: list[dict[str, Any]] = []
        for target in wanted:
            try:
                written = compile_for(model, target, Path(options.output), progress=progress)
                row = {"target": target, "file": str(written.path), "bytes": written.bytes, "kind": written.kind}
                row["parameters"] = str(written.parameters)
                rows.append(row)
            except (CompileError, ConfigError) as error:
                rows.append({"target": target, "error": str(error)})
    if options.json:
        print_json(rows)
    else:
        print_table(("target", "size", "what"), map(_shown, rows), numbers=(1,))
    return 1 if any("error" in row for row in rows) and options.target != ["all"] else 0


def _shown(row: dict[str, Any]) -> tuple[str, str, str]:
    if "error" in row:
        return row["target"], "", row["error"]
    return row["target"], f"{row['bytes'] / 2**20:.1f} MiB", f"{row['file']}, {_KINDS[row['kind']]}"
