"""Libraries for other machines: what the stock compiler can write, and what to do with it.

A library for a machine of this kind is linked here. For others object files are written, as a tar archive, which the
target's own linker turns into a library: `cc -shared -o model.so *.o`. For GPUs the source of every kernel is written,
for the GPU's own compiler (`kernels/threads.py`). Beside each stands what the model's `step` takes as weights.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import tvm

from ..errors import CompileError, ConfigError
from .kernels.formats import FORMATS
from .kernels.isa import INSTRUCTION_SETS
from .kernels.threads import Threads
from .library import find_linker, last_line
from .load import open_checkpoint
from .plan import Parameter, Vector
from .progress import Progress, silent

# GPUs, and how the source files of kernels for them end. The stock compiler has no more than these: for Vulkan it has
# no code generator, and for ROCm it calls that system's linker.
SOURCES: Final = {"cuda": "cu", "metal": "metal", "opencl": "cl", "webgpu": "wgsl"}
GPUS: Final = (*SOURCES, "rocm", "vulkan")


_ARCHITECTURES: Final = {"cuda": {"arch": "sm_75"}}  # the oldest that CUDA's compiler still takes without a word


@dataclass(frozen=True)
class Machine:
    """A kind of machine: LLVM's triple, the kernels it runs, LLVM's features beside theirs."""

    triple: str
    instruction_set: str
    features: tuple[str, ...] = ()


MACHINES: Final = {
    "x86_64-linux-avx512vnni": Machine("x86_64-unknown-linux-gnu", "avx512vnni"),
    "x86_64-linux-avxvnni": Machine("x86_64-unknown-linux-gnu", "avxvnni"),
    "x86_64-linux-avx2": Machine("x86_64-unknown-linux-gnu", "avx2"),
    "x86_64-linux": Machine("x86_64-unknown-linux-gnu", "portable"),
    "x86_64-macos": Machine("x86_64-apple-macosx11", "portable"),
    "x86_64-windows": Machine("x86_64-pc-windows-msvc", "portable"),
    "aarch64-linux": Machine("aarch64-unknown-linux-gnu", "portable", ("neon",)),
    "aarch64-android": Machine("aarch64-linux-android29", "portable", ("neon",)),
    "arm64-macos": Machine("arm64-apple-macosx11", "portable", ("neon",)),
    "arm64-ios": Machine("arm64-apple-ios15", "portable", ("neon",)),
    "riscv64-linux": Machine("riscv64-unknown-linux-gnu", "portable", ("m", "a", "f", "d")),
    "wasm32": Machine("wasm32-unknown-unknown-wasm", "portable"),
}


@dataclass(frozen=True)
class Written:
    """What was written: a shared "library", the "objects" for one, or the "source" of a GPU's kernels. `parameters` is
    JSON: the weights that `step` takes, in its order, and the sizes that it was compiled for.
    """

    path: Path
    bytes: int
    kind: str
    parameters: Path


def compile_for(
    model: Path,
    target: str,
    folder: Path,
    *,
    max_rows: int = 2048,
    max_batch: int = 256,
    progress: Progress | None = None,
) -> Written:
    """Compile a model for a kind of machine, into `folder`, named by model and target.

    Raises ConfigError for a target that is unknown or that the compiler has no generator for, CompileError, and the
    errors of model files.
    """
    every = ", ".join((*MACHINES, *SOURCES))
    if target not in MACHINES and target not in SOURCES:
        problem = f"the compiler has no generator for {target} here" if target in GPUS else f"unknown target {target!r}"
        raise ConfigError(problem, key="target", remedy=f"one of {every}")
    report = progress or silent
    stage = f"compile for {target}"
    report(stage, 0.0)
    checkpoint, family = open_checkpoint(model)
    plan = family.plan(checkpoint)
    machine = MACHINES.get(target)
    instructions = Threads() if machine is None else INSTRUCTION_SETS[machine.instruction_set]
    try:
        module, names = family.build(plan, instructions, max_rows=max_rows, max_batch=max_batch)
        report(stage, 0.2)
        folder.mkdir(parents=True, exist_ok=True)
        stem = folder / f"{model.stem}-{target}"
        if machine is None:
            path, kind = _write_source(module, target, stem)
        else:
            path, kind = _write_code(module, machine, stem, lambda: report(stage, 0.8))
        parameters = stem.with_name(stem.name + ".json")
        facts = {
            "target": target,
            "max_rows": max_rows,
            "max_batch": max_batch,
            "parameters": [_described(name, plan.parameters()[name], instructions.weight_dtype) for name in names],
        }
        parameters.write_text(json.dumps(facts, indent=1) + "\n")
    except Exception as error:  # TVM's errors have no common base
        raise CompileError(f"the model could not be compiled for {target}: {last_line(error)}") from error
    report(stage, 1.0)
    return Written(path, path.stat().st_size, kind, parameters)


def _write_code(module: Any, machine: Machine, stem: Path, compiled: Callable[[], None]) -> tuple[Path, str]:
    """A library, or object files."""
    features = [f"+{name}" for name in (*INSTRUCTION_SETS[machine.instruction_set].features, *machine.features)]
    description = {"kind": "llvm", "mtriple": machine.triple, **({"mattr": features} if features else {})}
    executable = tvm.compile(module, target=tvm.target.Target(description))
    compiled()
    linked = _is_here(machine) and find_linker() is not None
    path = stem.with_name(stem.name + (".so" if linked else ".tar"))
    executable.export_library(str(path))
    return path, "library" if linked else "objects"


def _write_source(module: Any, target: str, stem: Path) -> tuple[Path, str]:
    """The kernels in the GPU's language. The program that calls them in turn is the host's, and not written."""
    kernels = {name.name_hint: f for name, f in module.functions.items() if isinstance(f, tvm.tirx.PrimFunc)}
    goal = tvm.target.Target({"kind": target, **_ARCHITECTURES.get(target, {})}, host={"kind": "llvm"})
    built = tvm.compile(tvm.IRModule(kernels), target=goal)
    path = stem.with_name(f"{stem.name}.{SOURCES[target]}")
    path.write_text("\n".join(part.inspect_source() for part in built.mod.imports))
    return path, "source"


def _described(name: str, parameter: Parameter, dtype: str) -> dict[str, Any]:
    """One of the weights. Matrices are packed: see `kernels/formats.py` for the layout of each format."""
    if isinstance(parameter, Vector):
        return {"name": name, "dtype": "float32", "shape": [parameter.size]}
    count = FORMATS[parameter.format].packed_bytes(parameter.rows, parameter.columns) // np.dtype(dtype).itemsize
    matrix = {"format": parameter.format, "rows": parameter.rows, "columns": parameter.columns}
    return {"name": name, "dtype": dtype, "shape": [count], **matrix}


def _is_here(machine: Machine) -> bool:
    """Whether this machine is of that kind."""
    return platform.system() == "Linux" and machine.triple == f"{platform.machine()}-unknown-linux-gnu"
