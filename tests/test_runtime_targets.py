"""Libraries for other machines: objects of the right kind, and a word where there can be none."""

from __future__ import annotations

import io
import json
import re
import tarfile
from pathlib import Path

import numpy as np
import pytest
import tvm
from runtime_models import Shape, Tiny, make
from slipcast.engine.errors import CompileError, ConfigError
from slipcast.engine.runtime.kernels.builder import function
from slipcast.engine.runtime.kernels.experts import Route
from slipcast.engine.runtime.kernels.linear import Linear
from slipcast.engine.runtime.kernels.threads import _EMITTERS, Threads
from slipcast.engine.runtime.load import open_checkpoint
from slipcast.engine.runtime.progress import silent
from slipcast.engine.runtime.targets import GPUS, MACHINES, SOURCES, compile_for
from slipcast.engine.runtime.weights import load_weights

SHAPE = Shape(layers=1, hidden=32, feed_forward=32, heads=2, kv_heads=2, head_dim=16, vocab=64)
ELF, AARCH64, RISCV = b"\x7fELF", 183, 243


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("models") / "tiny.gguf", SHAPE, "F32")


def objects(path: Path) -> list[bytes]:
    with tarfile.open(path) as archive:
        files = [archive.extractfile(member) for member in archive.getmembers() if member.name.endswith(".o")]
        return [file.read() for file in files if isinstance(file, io.BufferedReader)]


@pytest.mark.parametrize(("target", "machine"), [("aarch64-linux", AARCH64), ("riscv64-linux", RISCV)])
def test_objects_are_of_the_targets_kind(tiny: Tiny, tmp_path: Path, target: str, machine: int) -> None:
    written = compile_for(tiny.path, target, tmp_path)
    assert written.kind == "objects"
    found = objects(written.path)
    assert found
    assert all(data.startswith(ELF) and int.from_bytes(data[18:20], "little") == machine for data in found)


def test_a_library_for_this_kind_of_machine_is_linked(tiny: Tiny, tmp_path: Path) -> None:
    written = compile_for(tiny.path, "x86_64-linux", tmp_path)
    if written.kind == "library":  # on an x86-64 machine with a linker
        assert written.path.read_bytes().startswith(ELF)
    assert written.bytes > 10_000


@pytest.mark.parametrize("target", ["rocm", "vulkan", "amiga"])
def test_what_cannot_be_written_is_said(tiny: Tiny, tmp_path: Path, target: str) -> None:
    with pytest.raises(ConfigError, match="aarch64-linux"):
        compile_for(tiny.path, target, tmp_path)
    assert not list(tmp_path.iterdir())
    assert {"x86_64-linux-avx2", "wasm32"} <= set(MACHINES) and set(SOURCES) < set(GPUS)


def test_mixtures_of_experts_have_no_gpu_kernels(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotImplementedError, match="no GPU kernel does 'route'"), function("route") as f:
        Threads().emit(Route(4, 2, 8), f)
    monkeypatch.delitem(_EMITTERS, Linear)
    with pytest.raises(CompileError, match="compiled for opencl: no GPU kernel does 'linear"):
        compile_for(tiny.path, "opencl", tmp_path)


def test_the_parameters_stand_beside_the_library_in_the_order_of_step(tiny: Tiny, tmp_path: Path) -> None:
    written = compile_for(tiny.path, "opencl", tmp_path, max_rows=64, max_batch=8)
    facts = json.loads(written.parameters.read_text())
    assert written.parameters.parent == tmp_path
    assert (facts["target"], facts["max_rows"], facts["max_batch"]) == ("opencl", 64, 8)
    checkpoint, family = open_checkpoint(tiny.path)
    plan = family.plan(checkpoint)
    _, names = family.build(plan, Threads(), max_rows=64, max_batch=8)
    assert [each["name"] for each in facts["parameters"]] == names
    weights = load_weights(checkpoint, plan, names, silent)
    for each, weight in zip(facts["parameters"], weights, strict=True):
        array = np.from_dlpack(weight)
        assert np.prod(each["shape"]) * np.dtype(each["dtype"]).itemsize == array.nbytes
        assert array.dtype == np.uint8 or each["dtype"] == array.dtype.name


@pytest.mark.parametrize("target", list(SOURCES))
def test_sources_for_gpus_have_every_kernel(tiny: Tiny, tmp_path: Path, target: str) -> None:
    written = compile_for(tiny.path, target, tmp_path)
    text = written.path.read_text()
    assert written.kind == "source" and written.path.suffix == "." + SOURCES[target]
    checkpoint, family = open_checkpoint(tiny.path)
    module, _ = family.build(family.plan(checkpoint), Threads(), max_rows=2048, max_batch=256)
    kernels = [name.name_hint for name, f in module.functions.items() if isinstance(f, tvm.tirx.PrimFunc)]
    assert len(kernels) > 8
    for name in kernels:
        assert re.search(_DEFINITION[target].format(name + "_kernel"), text), name


_DEFINITION = {
    "cuda": r"__global__ [^;{{}}]*\b{}\(", "opencl": r"__kernel void {}\(",
    "metal": r"kernel void {}\(", "webgpu": r"fn {}\(",
}  # fmt: skip
