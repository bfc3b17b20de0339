"""What the benchmarks make of raw results: the figures that other programs read, and the files they are run on."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

BENCHMARKS = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def masks(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    yield load("masks")
    for name in ("bench_masks", "report"):
        sys.modules.pop(name, None)


def load(name: str) -> ModuleType:
    """A benchmark as a module, under a name that is no other's."""
    spec = importlib.util.spec_from_file_location(f"bench_{name}", BENCHMARKS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def instance(accepted: bool, valid: bool, times: list[int]) -> dict[str, Any]:
    return {"i": 0, "n": 3, "accepted": accepted, "valid": valid, "mask_ns": times, "commit_ns": [1000] * len(times)}


HARNESS = SimpleNamespace(
    CALIB_REF=100.0,
    pct=lambda values, p: values[min(int(len(values) * p / 100), len(values) - 1)],
    outcome=lambda result: "compile error" if "compile_error" in result else "passing",
)
# Ours ran where the calibration took twice as long: its times count half.
OURS = {
    "a": {"calib_us": 200.0, "ttfm_ns": 8_000_000, "tests": [instance(True, True, [3000, 5000])]},
    "b": {"calib_us": 200.0, "ttfm_ns": 2_000_000, "tests": [instance(True, False, [9000]), instance(False, True, [])]},
    "c": {"calib_us": 200.0, "compile_error": "too large", "tests": []},
}
THEIRS = {
    "a": {"calib_us": 100.0, "ttfm_ns": 2_000_000, "tests": [instance(True, True, [5000, 9000])]},
    "b": {"calib_us": 100.0, "compile_error": "not supported", "tests": []},
    "c": {"calib_us": 100.0, "ttfm_ns": 1_000_000, "tests": []},
}


def test_ratios_are_over_what_both_compile(masks: ModuleType) -> None:
    race = SimpleNamespace(results={"slipcast": OURS, "llguidance": THEIRS})
    times = masks.compare(HARNESS, race, [masks.SLIPCAST, masks.LLGUIDANCE])
    assert times["slipcast"].tokens == [2.0, 3.0]
    assert times["llguidance"].tokens == [6.0, 10.0]
    figures = masks.ratios(times, "cold")
    assert figures == {
        "cold_avg_ratio": 2.5 / 8, "cold_p50_ratio": 0.3, "cold_p99_ratio": 0.3, "cold_p999_ratio": 0.3,
        "first_mask_p50_ratio": 2.0, "first_mask_p99_ratio": 2.0,
    }  # fmt: skip
    assert masks.ratios(times, "warm") == {"warm_avg_ratio": 2.5 / 8}
    assert masks.ratios({"slipcast": times["slipcast"]}, "cold") == {}


def test_verdicts_count_instances(masks: ModuleType) -> None:
    assert masks.verdicts(HARNESS, OURS) == {"passing": 2, "refused": 1, "accepted_invalid": 1, "rejected_valid": 1}
    assert [kind for kind, _ in masks.problems(HARNESS, OURS)] == ["accepted invalid", "rejected valid", "refused"]


def test_random_weights_are_centred() -> None:
    pytest.importorskip("gguf")
    from slipcast.engine.runtime.blocks import decode

    files = load("model_files")
    random = np.random.default_rng(1)
    for blocks, kind in ((files._random_q4_k(random, 64, 512), "Q4_K"), (files._random_q8_0(random, 64, 512), "Q8_0")):
        values = decode(blocks, kind)
        assert values.shape == (64, 512)
        assert abs(values.mean()) < 0.002
        assert 0.01 < values.std() < 0.04


def test_engines_take_turns_and_slow_tasks_have_fewer_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    race = load("engine_race")
    log: list[str] = []

    def engine(name: str) -> SimpleNamespace:
        def run(task: Any) -> Any:
            log.append(f"{name} {task.name}")
            return race.Measured(10, 1.0, 2.0)

        return SimpleNamespace(run=run, clear=lambda: None)

    quick, slow = race.Task("quick", ((1,),)), race.Task("slow", ((1,),), rounds=1)
    far = race.Task("far", ((1,),), steps=1, rounds=2, going_on=True)
    tasks = [quick, slow, far]
    done: dict[str, Any] = {task.name: ([], []) for task in tasks}
    race._rounds(engine("ours"), engine("theirs"), tasks, done, 3, float("inf"))
    assert log[:4] == ["ours far", "theirs far", "theirs far", "ours far"]
    quicks = [entry.split()[0] for entry in log if "quick" in entry]
    assert sorted(quicks) == ["ours"] * 3 + ["theirs"] * 3
    assert quicks[0] == quicks[3] != quicks[1] == quicks[2]  # who begins takes turns
    assert (log.count("ours slow"), log.count("theirs slow")) == (1, 1)
    result = race.Result(quick, *map(tuple, done["quick"]))
    assert (result.rate, result.ratio, result.wall_ratio) == (10.0, 1.0, 1.0)
    done = {quick.name: ([], [])}
    race._rounds(engine("ours"), None, [quick], done, 3, 0.0)  # time is up: what has none yet is measured once
    assert [len(side) for side in done["quick"]] == [1, 0]


def test_memory_is_read_as_fast_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The measure beside which decoding's reads are put works with the runtime's arenas and kernels as they are."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    speed = load("memory_speed")
    monkeypatch.setattr(speed, "BYTES", 8 << 20)
    assert 0 < speed.MemorySpeed().gigabytes_per_cpu_second() < 10_000
