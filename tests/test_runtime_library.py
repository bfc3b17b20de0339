"""Compiled libraries: made once, found again, made without a C compiler, and replaced if they are damaged."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from runtime_models import Shape, Tiny, divergence, make, reference
from slipcast.engine.errors import CompileError
from slipcast.engine.runtime import LoadedModel, cpu, load_model
from slipcast.engine.runtime.library import Target, find_linker, host_target, library_key, open_library
from slipcast.engine.runtime.load import open_checkpoint
from slipcast.engine.runtime.plan import ModelPlan
from slipcast.engine.runtime.rotary import Rotary

# The smallest that the kernels take: compiling it is most of these tests' time.
SHAPE = Shape(layers=1, hidden=32, feed_forward=32, heads=2, kv_heads=2, head_dim=16, vocab=64)
TOKENS = [3, 1, 4, 1, 5]


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("models") / "tiny.gguf", SHAPE, "F32")


def planned(tiny: Tiny) -> ModelPlan:
    checkpoint, family = open_checkpoint(tiny.path)
    return family.plan(checkpoint)


def opened(tiny: Tiny, progress: list[tuple[str, float]] | None = None) -> LoadedModel:
    def report(stage: str, share: float) -> None:
        if progress is not None:
            progress.append((stage, share))

    return load_model(tiny.path, max_batch=2, prefill_chunk=16, threads=1, progress=report)


def check(tiny: Tiny, model: LoadedModel) -> None:
    model.kv.add(0)
    found = model.step([0], [TOKENS])
    assert divergence(reference(tiny.weights, SHAPE, TOKENS)[-1:], found)[0] < 1e-4


def test_a_library_is_compiled_once_and_without_a_compiler(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPCAST_CACHE", str(tmp_path))
    monkeypatch.setenv("PATH", "")
    first: list[tuple[str, float]] = []
    check(tiny, opened(tiny, first))
    assert {stage for stage, _ in first} == {"compile the model", "load weights"}
    shares = [share for stage, share in first if stage == "compile the model"]
    assert shares == sorted(shares)
    assert (shares[0], shares[-1]) == (0.0, 1.0)
    (folder,) = (tmp_path / "libraries").iterdir()
    made = (folder / "model.so").stat().st_mtime_ns
    second: list[tuple[str, float]] = []
    check(tiny, opened(tiny, second))
    assert {stage for stage, _ in second} == {"load weights"}
    assert (folder / "model.so").stat().st_mtime_ns == made
    # A damaged entry is made again, not reported. (Elsewhere: this one is mapped into the process.)
    damaged = tmp_path / "other" / "libraries" / folder.name
    damaged.mkdir(parents=True)
    (damaged / "parameters.json").write_text("[]")
    (damaged / "model.so").write_bytes(b"\x7fELF nonsense")
    monkeypatch.setenv("SLIPCAST_CACHE", str(tmp_path / "other"))
    check(tiny, opened(tiny))
    assert (damaged / "model.so").stat().st_size > 10_000


def test_without_a_linker_the_model_runs_in_this_process(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPCAST_CACHE", str(tmp_path))
    monkeypatch.setattr("slipcast.engine.runtime.library.find_linker", lambda: None)
    check(tiny, opened(tiny))
    assert not list(tmp_path.glob("libraries/*"))


def test_a_cache_that_cannot_be_written_is_no_obstacle(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("not a folder")
    monkeypatch.setenv("SLIPCAST_CACHE", str(blocker))
    check(tiny, opened(tiny))


def test_a_linker_is_found_with_an_empty_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    linker = find_linker()
    if linker is None:
        pytest.skip("no linker in the system's folders")
    assert Path(linker).is_file()


def test_the_key_follows_everything_that_shapes_the_library(tiny: Tiny) -> None:
    plan = planned(tiny)
    target = host_target("portable")
    keys = {
        library_key(plan, target, 64, 8),
        library_key(plan, target, 128, 8),
        library_key(plan, target, 64, 16),
        library_key(plan, Target("avx2", "znver3"), 64, 8),
        library_key(plan, Target("avx2", "haswell"), 64, 8),
        library_key(replace(plan, config=replace(plan.config, norm_epsilon=1e-6)), target, 64, 8),
        library_key(replace(plan, embedding=replace(plan.embedding, format="q8_0")), target, 64, 8),
    }
    assert len(keys) == 7
    same = replace(plan, config=replace(plan.config, rotary=(Rotary((1.0,) * 8),), context_length=99))
    assert library_key(same, target, 64, 8) == library_key(plan, target, 64, 8)


def test_a_failed_compilation_is_one_line(tiny: Tiny, tmp_path: Path) -> None:
    plan = planned(tiny)
    wrong = replace(plan, embedding=replace(plan.embedding, format="q3_x"))
    with pytest.raises(CompileError, match="could not be compiled") as caught:
        open_library(
            wrong, host_target("portable"), max_rows=16, max_batch=2, folder=tmp_path, progress=lambda *_: None
        )
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_two_processes_compile_at_once(tiny: Tiny, tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from slipcast.engine.runtime import load_model\n"
        "m = load_model(pathlib.Path(sys.argv[1]), max_batch=2, prefill_chunk=16, threads=1)\n"
        f"m.kv.add(0); print(int(m.step([0], [{TOKENS}])[0].argmax()))\n"
    )
    command = [sys.executable, "-W", "ignore", "-c", program, str(tiny.path)]
    environment = {**os.environ, "SLIPCAST_CACHE": str(tmp_path)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    both = [subprocess.Popen(command, env=environment, cwd=tmp_path, **pipes) for _ in range(2)]
    expected = str(int(np.argmax(reference(tiny.weights, SHAPE, TOKENS)[-1])))
    for process in both:
        out, errors = process.communicate(timeout=120)
        assert out.strip() == expected, errors
    assert len(list((tmp_path / "libraries").iterdir())) == 1


@pytest.mark.slow
def test_the_number_of_threads_changes_no_bit(tiny: Tiny, tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from slipcast.engine.runtime import load_model\n"
        "m = load_model(pathlib.Path(sys.argv[1]), max_batch=2, prefill_chunk=64, threads=int(sys.argv[2]))\n"
        "m.kv.add(0); m.kv.add(1)\n"
        "rows = [m.step([0, 1], [list(range(40)), [3]]), m.step([1, 0], [[5], [6]])]\n"
        "import numpy; print(numpy.concatenate(rows).tobytes().hex())\n"
    )
    environment = {**os.environ, "SLIPCAST_CACHE": str(tmp_path)}
    outputs = []
    for threads in ("1", "3"):
        command = [sys.executable, "-W", "ignore", "-c", program, str(tiny.path), threads]
        done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=True)
        outputs.append(done.stdout)
    assert len(outputs[0]) > 1000
    assert outputs[0] == outputs[1]


def test_the_runtime_is_imported_without_the_compiler() -> None:
    program = "import sys, slipcast.engine.runtime as r; r.resolve_model, r.load_model; print('tvm' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd="/", check=True)
    assert done.stdout.strip() == "False"


class TestCpu:
    def test_flags_choose_the_instruction_set(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        info = tmp_path / "cpuinfo"
        monkeypatch.setattr(cpu, "_CPU_INFO", info)
        assert cpu.instruction_set() == "portable"
        info.write_text("model name : x\nflags : fpu avx avx2 fma\n")
        assert cpu.instruction_set() == "portable"
        info.write_text("model name : x\nflags : fpu f16c avx avx2 fma\n")
        assert cpu.instruction_set() == "avx2"
        info.write_text("flags : fpu f16c avx2 fma avx_vnni\n")
        assert cpu.instruction_set() == "avxvnni"
        info.write_text("flags : fpu f16c avx2 fma avx_vnni avx512f avx512bw avx512vl avx512_vnni\n")
        assert cpu.instruction_set() == "avx512vnni"
        info.write_text("flags : fpu f16c avx2 fma avx512f avx512bw avx512vl\n")
        assert cpu.instruction_set() == "avx2"

    def test_quota_cuts_the_cores(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(cpu.os, "sched_getaffinity", lambda _: set(range(8)))
        quota = tmp_path / "cpu.max"
        monkeypatch.setattr(cpu, "_CGROUP_QUOTA", quota)
        for text, cores in (("max 100000", 8), ("250000 100000", 2), ("20000 100000", 1)):
            quota.write_text(text)
            assert cpu.usable_cores() == cores

    @pytest.mark.parametrize(("others", "threads"), [(0.0, 4), (0.3, 4), (0.9, 3), (2.0, 2), (9.0, 1)])
    def test_threads_leave_busy_cores_alone(
        self, others: float, threads: int, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(cpu, "usable_cores", lambda: 4)
        samples = [cpu.LoadSample(0.0, 100.0, 5.0), cpu.LoadSample(10.0, 100.0 + 8.0 + 10 * others, 13.0)]
        monkeypatch.setattr(cpu.LoadSample, "take", lambda: samples[1])
        assert cpu.free_threads(samples[0]) == threads
