"""llama.cpp beside us: the npm package node-llama-cpp in `build/llama`, driven line by line in a node process."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any, Self

from report import ROOT

HERE = Path(__file__).resolve().parent
NODE_FOLDER = ROOT / "build" / "llama"
NODE_VERSION = "3.22.1"
ENTRY = NODE_FOLDER / "node_modules" / "node-llama-cpp" / "dist" / "index.js"


class NodeProcess:
    """A script that answers each line of JSON with another, after a first one that says it is ready."""

    def __init__(self, script: str, *arguments: object) -> None:
        command = ["node", str(HERE / script), str(ENTRY), *map(str, arguments)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer()

    def ask(self, task: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(task) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"llama.cpp's process ended with status {self._process.wait()}; its message is above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class LlamaGrammar(NodeProcess):
    """Values of schemas under llama.cpp's grammar, on one thread."""

    def __init__(self, model: Path) -> None:
        super().__init__("llama_grammar.mjs", model, 1)

    def value(self, schema: Any, prompt: Any, limit: int) -> dict[str, Any]:
        """A greedy value: {"text", "tokens", "cpu", "wall"}, or {"error"}."""
        return self.ask({"schema": schema, "prompt": list(prompt), "limit": limit, "seed": 0, "temperature": 0})


def install_llama() -> str:
    """Puts node-llama-cpp into build/llama unless it is there. Returns what is missing, "" if nothing."""
    if ENTRY.exists():
        return ""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            return f"there is no {program} on PATH"
    # The prebuilt library of this platform alone: the package's own choice brings a gigabyte for GPUs.
    machine = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    system = {"Linux": f"linux-{machine}", "Darwin": "mac-arm64-metal" if machine == "arm64" else "mac-x64"}
    if platform.system() not in system:
        return f"no prebuilt llama.cpp is known for {platform.system()}"
    print("installing node-llama-cpp into build/llama", flush=True)
    NODE_FOLDER.mkdir(parents=True, exist_ok=True)
    packages = [f"node-llama-cpp@{NODE_VERSION}", f"@node-llama-cpp/{system[platform.system()]}@{NODE_VERSION}"]
    options = ["--no-audit", "--no-fund", "--omit=optional", "--ignore-scripts", "--prefix", str(NODE_FOLDER)]
    done = subprocess.run(["npm", "install", *options, *packages], capture_output=True, text=True, check=False)
    if done.returncode:
        return "npm could not install node-llama-cpp: " + (done.stderr.strip().splitlines() or ["no message"])[-1]
    return ""
