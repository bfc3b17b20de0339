"""OpenAI's own client for Node, from npm: a stream, a tool round trip, and `zodResponseFormat`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = pytest.mark.model
PROGRAM = Path(__file__).parent / "scripts" / "with_openai.mjs"
PACKAGES = ("openai@^6", "zod@^4")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the program and what it imports."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("node and npm are not installed")
    folder = tmp_path_factory.mktemp("node")
    done = subprocess.run(
        [npm, "install", "--no-audit", "--no-fund", "--silent", *PACKAGES],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        pytest.skip(f"the packages from npm cannot be had here: {done.stderr[-200:]}")
    shutil.copy(PROGRAM, folder)
    return folder


def test_node(server: str, folder: Path) -> None:
    done = subprocess.run(["node", PROGRAM.name, server], cwd=folder, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{done.stdout[-1000:]}\n{done.stderr[-3000:]}"
    assert done.stdout.splitlines()[-1] == "ok"
