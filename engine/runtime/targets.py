"""Libraries for other machines: what the stock compiler can write, and what to do with it.

A library for a machine of this kind is linked here. For others object files are written, as a tar archive, which the
target's own linker turns into a library: `cc -shared -o model.so *.o`. Kernels are written for CPUs; for GPUs there
are none, so nothing is written for them, and `compile_for` says so.
"""

from __future__ import annotations

import platform
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import tvm

from ..errors import CompileError, ConfigError
from .kernels.isa import INSTRUCTION_SETS
from .library import find_linker, last_line
from .load import open_checkpoint
from .progress import Progress, silent

GPUS: Final = ("cuda", "rocm", "vulkan", "metal", "opencl", "webgpu")


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
    """What was written. `linked`: a shared library, and not the object files for one."""

    path: Path
    bytes: int
    linked: bool


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

    Raises ConfigError for a target that is unknown or has no kernels, CompileError, and the errors of model files.
    """
    if target in GPUS:
        raise ConfigError(
            f"there are no kernels for {target} yet", key="target", remedy=f"one of {', '.join(MACHINES)}"
        )
    machine = MACHINES.get(target)
    if machine is None:
        raise ConfigError(f"unknown target {target!r}", key="target", remedy=f"one of {', '.join(MACHINES)}")
    report = progress or silent
    stage = f"compile for {target}"
    report(stage, 0.0)
    checkpoint, family = open_checkpoint(model)
    plan = family.plan(checkpoint)
    instructions = INSTRUCTION_SETS[machine.instruction_set]
    features = [f"+{name}" for name in (*instructions.features, *machine.features)]
    description: dict[str, Any] = {"kind": "llvm", "mtriple": machine.triple}
    if features:
        description["mattr"] = features
    try:
        module, _ = family.build(plan, instructions, max_rows=max_rows, max_batch=max_batch)
        report(stage, 0.2)
        executable = tvm.compile(module, target=tvm.target.Target(description))
        report(stage, 0.8)
        linked = _is_here(machine) and find_linker() is not None
        path = folder / f"{model.stem}-{target}{'.so' if linked else '.tar'}"
        folder.mkdir(parents=True, exist_ok=True)
        executable.export_library(str(path))
    except Exception as error:  # TVM's errors have no common base
        raise CompileError(f"the model could not be compiled for {target}: {last_line(error)}") from error
    report(stage, 1.0)
    return Written(path, path.stat().st_size, linked)


def _is_here(machine: Machine) -> bool:
    """Whether this machine is of that kind."""
    return platform.system() == "Linux" and machine.triple == f"{platform.machine()}-unknown-linux-gnu"
