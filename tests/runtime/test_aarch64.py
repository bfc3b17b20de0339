"""A library for aarch64 runs there: a step of a tiny model under qemu-user, beside the same step on this machine.

The machine is a folder: Debian's Python, and TVM's aarch64 wheels. It is made at the first run (half a minute), as
`build/aarch64`, by `mmdebstrap` and `pip download`.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tarfile
import zipfile
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runtime_models import Shape, make
from slipcast.engine.runtime import load_model
from slipcast.engine.runtime.targets import compile_for

FOLDER = Path(__file__).resolve().parents[2] / "build" / "aarch64"
LINKER = "aarch64-linux-gnu-ld"
PROGRAMS = {"qemu-aarch64": "qemu-user", LINKER: "binutils-aarch64-linux-gnu", "mmdebstrap": "mmdebstrap"}
PACKAGES = ("apache-tvm", "apache-tvm-ffi", "numpy", "ml_dtypes", "typing_extensions")
SHAPE = Shape(layers=2, hidden=64, feed_forward=96, heads=4, kv_heads=2, head_dim=16, vocab=96)

# Runs there: the steps of recorded.npz, one after the other on the same pages.
PROGRAM = """
import sys
import numpy as np
import tvm
from tvm_ffi import from_dlpack

def tensor(array):
    room = np.empty(array.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 128
    copy = room[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return from_dlpack(copy)

folder = sys.argv[1]
data = np.load(folder + "/recorded.npz")
step = tvm.relax.VirtualMachine(tvm.runtime.load_module(folder + "/model.so"), tvm.cpu())["step"]
kept = [[tensor(data[f"{kind}_{i}"]) for i in range(data[kind])] for kind in ("tables", "pages", "weights")]
found = {}
for number in range(data["steps"]):
    inputs = [tensor(data[f"step_{number}_{i}"]) for i in range(data["inputs"])]
    found[f"logits_{number}"] = np.from_dlpack(step(*inputs, *kept)[0]).copy()
np.savez(folder + "/found.npz", **found)
"""


@pytest.fixture(scope="module")
def machine() -> Path:
    for program, package in PROGRAMS.items():
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed: it comes with {package}")
    if not (FOLDER / "site" / "tvm").is_dir():
        root, wheels = FOLDER / "root", FOLDER / "wheels"
        shutil.rmtree(FOLDER, ignore_errors=True)
        FOLDER.mkdir(parents=True)
        include = "--include=python3.11,libstdc++6,zlib1g"
        run(["mmdebstrap", "--arch=arm64", "--variant=extract", include, "bookworm", str(root)])
        platforms = [f"--platform=manylinux_2_{minor}_aarch64" for minor in (28, 27, 26, 24, 17)]
        wanted = [f"{package}=={version(package)}" for package in PACKAGES]
        download = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", f"--dest={wheels}"]
        run([*download, "--python-version=3.11", *platforms, *wanted])
        for wheel in wheels.glob("*.whl"):
            zipfile.ZipFile(wheel).extractall(FOLDER / "unfinished")
        (FOLDER / "unfinished").rename(FOLDER / "site")
    return FOLDER


def run(command: list[str], **environment: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment, check=False)
    assert done.returncode == 0, f"{command[0]}: {done.stderr[-2000:]}"


def recorded(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[np.ndarray]:
    """Takes three steps here, with the generic kernels; what they were given, in `folder`; and their logits."""
    monkeypatch.setattr("slipcast.engine.runtime.load.instruction_set", lambda: "portable")
    model = load_model(path, max_batch=2, max_context=64, prefill_chunk=32, threads=1)
    data: dict[str, Any] = {}
    kept = {"tables": model._tables, "pages": model._pages, "weights": model._weights}
    for kind, tensors in kept.items():
        data[kind] = len(tensors)
        data |= {f"{kind}_{i}": np.from_dlpack(tensor).copy() for i, tensor in enumerate(tensors)}
    steps: list[Any] = []
    step = model._run

    def record(*arguments: Any) -> Any:
        steps.append([np.from_dlpack(tensor).copy() for tensor in arguments[: -len(kept)]])
        return step(*arguments)

    monkeypatch.setattr(model, "_run", record)
    model.kv.add(0)
    model.kv.add(1)
    chunks: list[tuple[list[int], list[list[int]]]]
    chunks = [([0], [list(range(3, 24))]), ([0, 1], [[5], [7, 8, 9]]), ([0, 1], [[6], [2]])]
    logits = [model.step(*each) for each in chunks]
    for number, arrays in enumerate(steps):
        data |= {f"step_{number}_{i}": array for i, array in enumerate(arrays)}
    np.savez(folder / "recorded.npz", **data, steps=len(steps), inputs=len(steps[0]))
    return logits


@pytest.mark.slow
@pytest.mark.skipif(platform.system() != "Linux", reason="qemu-user runs Linux programs on Linux")
def test_a_step_on_aarch64(machine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny = make(tmp_path / "tiny.gguf", SHAPE, "Q4_1", kinds={"token_embd": "Q8_0", "attn_v": "Q4_0", "output": "F16"})
    expected = recorded(tiny.path, tmp_path, monkeypatch)
    written = compile_for(tiny.path, "aarch64-linux", tmp_path)
    with tarfile.open(written.path) as archive:
        archive.extractall(tmp_path / "objects", filter="data")
    objects = [str(path) for path in (tmp_path / "objects").rglob("*.o")]
    run([LINKER, "-shared", "-o", str(tmp_path / "model.so"), *objects])
    (tmp_path / "program.py").write_text(PROGRAM)
    root = machine / "root"
    python = ["qemu-aarch64", "-L", str(root), str(root / "usr" / "bin" / "python3.11")]
    run(
        [*python, str(tmp_path / "program.py"), str(tmp_path)],
        PYTHONHOME=str(root / "usr"), PYTHONPATH=str(machine / "site"), TVM_NUM_THREADS="1",
    )  # fmt: skip
    found = np.load(tmp_path / "found.npz")
    for number, logits in enumerate(expected):
        there = found[f"logits_{number}"][:, : SHAPE.vocab]
        assert np.abs(there - logits).max() < 1e-3, f"step {number}"
        assert np.ptp(logits) > 1
