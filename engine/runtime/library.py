"""Compiling a model's library, and finding it again: a folder of the cache, keyed by everything that shapes it.

    plan, target, sizes -> IRModule (decoder.py) -> executable (TVM) -> object files -> shared library, by a linker

No C compiler is needed: TVM writes object files, and any linker joins them. Without a linker the executable runs as it
came from the compiler, in this process only.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import tvm

from ..errors import CompileError
from .families import FAMILY, ModelFamily
from .kernels.isa import INSTRUCTION_SETS
from .plan import ModelPlan, Parameter, Vector
from .progress import Progress

_LIBRARY = "model.so"
_PARAMETERS = "parameters.json"
_LINKERS = ("ld", "ld.lld", "lld", "ld.gold", "ld.bfd", "cc", "gcc", "clang")
_LINKER_FOLDERS = ("/usr/bin", "/usr/local/bin", "/bin")
_STAGE = "compile the model"


@dataclass(frozen=True)
class Target:
    """What to compile for: a kernel family, and LLVM's name of the CPU (None: the architecture's baseline)."""

    instruction_set: str
    cpu: str | None

    def description(self) -> dict[str, Any]:
        features = [f"+{name}" for name in INSTRUCTION_SETS[self.instruction_set].features]
        return {"kind": "llvm", **({"mcpu": self.cpu} if self.cpu else {}), **({"mattr": features} if features else {})}


@dataclass(frozen=True)
class Library:
    """A loaded library: its virtual machine, and the names of the parameters in the order that `step` takes them."""

    machine: Any
    parameters: tuple[str, ...]


def host_target(instruction_set: str) -> Target:
    """This machine. Generic kernels are compiled for the baseline, the same on every machine of the architecture."""
    cpu = None if instruction_set == "portable" else str(tvm.target.codegen.llvm_get_system_cpu())
    return Target(instruction_set, cpu)


def find_linker() -> str | None:
    """A linker's path: from PATH, or where systems keep it even if PATH is empty."""
    folders = os.pathsep.join((os.environ.get("PATH", ""), *_LINKER_FOLDERS))
    return next(filter(None, (shutil.which(name, path=folders) for name in _LINKERS)), None)


def open_library(
    plan: ModelPlan,
    target: Target,
    *,
    max_rows: int,
    max_batch: int,
    folder: Path,
    progress: Progress,
    family: ModelFamily = FAMILY,
) -> Library:
    """The library of a plan, from `folder` or compiled now and kept there. Raises CompileError."""
    place = folder / library_key(plan, target, max_rows, max_batch, family)
    found = _load(place)
    if found is not None:
        return found
    progress(_STAGE, 0.0)
    try:
        module, names = family.build(
            plan, INSTRUCTION_SETS[target.instruction_set], max_rows=max_rows, max_batch=max_batch
        )
        progress(_STAGE, 0.1)
        executable = tvm.compile(module, target=tvm.target.Target(target.description()))
    except Exception as error:  # TVM's errors have no common base
        where = target.cpu or "the baseline CPU"
        raise CompileError(f"the model could not be compiled for {where}: {last_line(error)}") from error
    progress(_STAGE, 0.7)
    path = find_linker()
    kept = path is not None and _keep(executable, names, place, path)
    progress(_STAGE, 1.0)
    return (_load(place) if kept else None) or Library(tvm.relax.VirtualMachine(executable, tvm.cpu()), tuple(names))


def library_key(
    plan: ModelPlan, target: Target, max_rows: int, max_batch: int, family: ModelFamily = FAMILY
) -> str:
    """A digest of all that shapes the library."""
    # Positions reach the kernels as tables, so models that differ in them only share a library.
    config = replace(plan.config, architecture="", context_length=0, rotary=())
    facts = {
        "config": asdict(config),
        "tables": len(plan.config.rotary),
        "parameters": {name: _shape(parameter) for name, parameter in plan.parameters().items()},
        "family": dict(family.shape_key(plan)),
        "target": asdict(target),
        "sizes": [max_rows, max_batch],
        "compiler": tvm.__version__,
        "sources": _sources_digest(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def _shape(parameter: Parameter) -> list[Any]:
    if isinstance(parameter, Vector):
        return [parameter.size]
    return [parameter.format, parameter.rows, parameter.columns]


def last_line(error: BaseException) -> str:
    """The message of one of TVM's errors, without its stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1] if lines else type(error).__name__


def _sources_digest() -> str:
    """Of every source file that decides what is generated."""
    folder = Path(__file__).parent
    digest = hashlib.sha256()
    for path in sorted([folder / "decoder.py", folder / "library.py", *folder.glob("kernels/*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _load(place: Path) -> Library | None:
    """None if there is no library in the folder, or none that loads (then it is removed, to be made again)."""
    if not place.is_dir():
        return None
    try:
        names = json.loads((place / _PARAMETERS).read_text())
        module = tvm.runtime.load_module(str(place / _LIBRARY))
        return Library(tvm.relax.VirtualMachine(module, tvm.cpu()), tuple(names))
    except Exception:  # a damaged cache entry: whatever is wrong with it, compiling again is the cure
        shutil.rmtree(place, ignore_errors=True)
        return None


def _keep(executable: Any, names: Sequence[str], place: Path, linker: str) -> bool:
    """Link into `place`, which appears complete or not at all; False if that is impossible here."""

    def link(output: str, objects: Sequence[str], **_: object) -> None:
        command = [linker, "-shared", "-o", output, *objects]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(done.stderr)

    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=place.parent, prefix="compile-") as temporary:
            made = Path(temporary, "made")
            made.mkdir()
            executable.export_library(str(made / _LIBRARY), fcompile=link, workspace_dir=temporary)
            (made / _PARAMETERS).write_text(json.dumps(list(names)))
            os.rename(made, place)
    except Exception:  # no space, no permission, a broken linker; or another process was first, then its result loads
        return place.is_dir()
    return True
