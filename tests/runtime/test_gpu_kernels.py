"""The kernels for GPUs, run here: each thread in turn, all else as it is compiled for a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from family_cases import TOKENS, case
from runtime_models import Shape, make, reference
from slipcast.engine.runtime import LoadedModel, load_model
from slipcast.engine.runtime.arena import as_tensor
from slipcast.engine.runtime.kernels import threads
from slipcast.engine.runtime.kernels.isa import INSTRUCTION_SETS
from tvm.tirx.script import builder as T
from tvm_ffi import Array


class Serial(threads.Threads):
    features = ()


@contextmanager
def one_after_another(count: Any) -> Iterator[Any]:
    with T.serial(count) as index:
        yield index


@pytest.fixture
def serial(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SLIPCAST_CACHE", str(tmp_path / "cache"))  # nobody else may find these libraries
    monkeypatch.setattr(threads, "_each", one_after_another)
    monkeypatch.setattr("slipcast.engine.runtime.load.instruction_set", lambda: "portable")
    monkeypatch.setitem(INSTRUCTION_SETS, "portable", Serial())


def load(path: Path) -> LoadedModel:
    model = load_model(path, max_batch=2, max_context=128, prefill_chunk=64, threads=1)
    arrays = map(np.from_dlpack, model._weights)
    model._weights = Array([as_tensor(a.view(np.uint32) if a.dtype == np.uint8 else a) for a in arrays])
    return model


@pytest.mark.parametrize("name", ["llama_bias", "gemma2", "qwen3", "phi3_partial"])
def test_families_on_gpu_kernels(name: str, serial: None, tmp_path: Path) -> None:
    """Biases, soft caps, windows, norms behind layers and of heads, partly rotated heads: in float32, in two chunks."""
    found = case(name)
    model = load(found.folder(tmp_path / "model", "F32"))
    model.kv.add(0)
    logits = [model.step([0], [part], [len(part)]) for part in (TOKENS[:21], TOKENS[21:])]
    assert np.abs(np.concatenate(logits) - found.logits).max() < 1e-3


@pytest.mark.parametrize("kind", ["F16", "BF16", "Q4_0", "Q4_1", "Q8_0"])
def test_formats_on_gpu_kernels(kind: str, serial: None, tmp_path: Path) -> None:
    tiny = make(tmp_path / "tiny.gguf", Shape(layers=1), kind)
    model = load(tiny.path)
    tokens = [5, 17, 101, 3]
    model.kv.add(0)
    expected = reference(tiny.weights, tiny.shape, tokens)
    assert np.abs(model.step([0], [tokens], [4]) - expected).max() < 1e-3 * np.abs(expected).max()
