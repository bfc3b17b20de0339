"""The file that every benchmark leaves: `build/<verb>.json` with the machine, the commit and the figures."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def machine() -> dict[str, str | int]:
    """What figures depend on."""
    model = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    except OSError:
        pass
    return {"cpu": model, "cores": os.cpu_count() or 1, "python": platform.python_version()}


def commit() -> str:
    """The commit that is checked out, "" outside a checkout."""
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip()


def write_report(verb: str, figures: dict[str, float]) -> Path:
    """Writes `build/<verb>.json` and returns its path."""
    path = ROOT / "build" / f"{verb}.json"
    path.parent.mkdir(exist_ok=True)
    report = {"machine": machine(), "commit": commit(), "figures": figures}
    path.write_text(json.dumps(report, indent=2) + "\n", encoding="utf-8")
    return path
