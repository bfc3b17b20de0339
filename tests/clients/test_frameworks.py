"""Agent frameworks, unchanged, against the server: each gets typed output of a nested schema, and has a tool called.

Each is a program of its own in `scripts/`, as its users write it, since frameworks leave open what they opened. They
are in the extra `clients`; those that are not installed are skipped.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.model
SCRIPTS = Path(__file__).parent / "scripts"


@pytest.mark.parametrize("framework", ["pydantic_ai", "instructor", "agents", "smolagents"])
def test_framework(server: str, framework: str) -> None:
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed: pip install 'slipcast[clients]'")
    paths = os.pathsep.join([str(SCRIPTS.parent.parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, SCRIPTS / f"with_{framework}.py", server],
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
