"""Compiling a model's library, and finding it again: a folder of the cache keyed by everything that shapes it."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import tvm

from ..errors import CompileError
from .kernels.isa import INSTRUCTION_SETS
from .llama import build_module
from .plan import ModelPlan

Progress = Callable[[str, float], None]

_LIBRARY = "model.so"
_PARAMETERS = "parameters.json"


@dataclass(frozen=True)
class Target:
    """What to compile for: a kernel family, LLVM's name of the CPU (None: its baseline)."""

    instruction_set: str
    cpu: str | None

    def description(self) -> dict[str, Any]:
        return {"kind": "llvm", "num-cores": 1} | ({"mcpu": self.cpu} if self.cpu else {})


@dataclass(frozen=True)
class Library:
    """A loaded library: its virtual machine, and the parameter names in the order that `step` takes them."""

    machine: Any
    parameters: tuple[str, ...]


def host_target(instruction_set: str) -> Target:
    cpu = str(tvm.target.codegen.llvm_get_system_cpu()) if instruction_set != "portable" else None
    return Target(instruction_set, cpu)


def open_library(plan: ModelPlan, target: Target, *, max_rows: int, max_batch: int, cache: Path, progress: Progress) -> Library:
    """Load the library of a plan, compiling it first if the cache has none. Raises CompileError."""
    folder = cache / _key(plan, target, max_rows, max_batch)
    if not (folder / _LIBRARY).exists():
        _compile(plan, target, max_rows, max_batch, folder, progress)
    progress("load library", 0.0)
    machine = tvm.relax.VirtualMachine(tvm.runtime.load_module(str(folder / _LIBRARY)), tvm.cpu())
    names = json.loads((folder / _PARAMETERS).read_text())
    progress("load library", 1.0)
    return Library(machine, tuple(names))


def _key(plan: ModelPlan, target: Target, max_rows: int, max_batch: int) -> str:
    facts = {
        "plan": asdict(plan), "target": asdict(target), "rows": max_rows, "batch": max_batch,
        "tvm": tvm.__version__, "sources": _sources_digest(),
    }  # fmt: skip
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def _sources_digest() -> str:
    """Of every source file that decides what is generated."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted([*folder.glob("*.py"), *folder.glob("kernels/*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _compile(plan: ModelPlan, target: Target, max_rows: int, max_batch: int, folder: Path, progress: Progress) -> None:
    progress("compile", 0.0)
    module, names = build_module(plan, INSTRUCTION_SETS[target.instruction_set], max_rows=max_rows, max_batch=max_batch)
    progress("compile", 0.1)
    executable = tvm.compile(module, target=tvm.target.Target(target.description()))
    progress("compile", 0.7)
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent) as temporary:
        made = Path(temporary) / "made"
        made.mkdir()
        executable.export_library(str(made / _LIBRARY), fcompile=_link)
        (made / _PARAMETERS).write_text(json.dumps(names))
        try:
            os.rename(made, folder)
        except OSError:  # another process was first; its result is the same
            if not (folder / _LIBRARY).exists():
                raise
    progress("compile", 1.0)


def _link(output: str, objects: list[str], **_: Any) -> None:
    linker = shutil.which("ld") or "/usr/bin/ld"
    done = subprocess.run([linker, "-shared", "-o", output, *objects], capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompileError(f"the linker failed: {done.stderr.strip().splitlines()[-1:]}")
