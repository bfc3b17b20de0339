"""What loading takes: at most 1.5 times the packed weights, the KV cache, and 400 MB."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from family_cases import case, write_safetensors, write_tokenizer
from slipcast.engine.errors import DownloadError
from slipcast.engine.runtime import DEFAULT_MODEL, resolve_model
from slipcast.engine.runtime.load import open_checkpoint
from slipcast.engine.runtime.weights import parameter_bytes

MEGABYTE = 1 << 20
# TVM imports PyTorch where it is installed, which takes 500 MB more and is not what is measured here.
PROGRAM = """
import pathlib, re, sys
sys.modules["torch"] = None
from slipcast.engine.runtime import load_model
model = load_model(pathlib.Path(sys.argv[1]), max_batch=1, max_context=512, prefill_chunk=64, threads=1)
model.kv.add(0)
model.step([0], [[3] * 64])
print(int(re.search(r"VmHWM:\\s+(\\d+)", open("/proc/self/status").read())[1]) * 1024)
"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="peak memory is read from /proc")


def peak(path: Path, cache: Path | None = None) -> int:
    """Bytes of a fresh process that loads the model and takes a step; the second of two, so that nothing compiles."""
    environment = os.environ | ({} if cache is None else {"SLIPCAST_CACHE": str(cache)})
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, str(path)]
    for _ in range(2):
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd="/", check=False)
        assert done.returncode == 0, done.stderr
    return int(done.stdout)


def bound(path: Path) -> float:
    checkpoint, family = open_checkpoint(path)
    plan = family.plan(checkpoint)
    packed = sum(map(parameter_bytes, plan.parameters().values()))
    c = plan.config
    pages = 512 * c.layers * c.kv_heads * c.head_dim * 2 * 4
    return 1.5 * packed + pages + 400 * MEGABYTE


@pytest.mark.model
def test_the_default_model() -> None:
    try:
        path = resolve_model(DEFAULT_MODEL)
    except DownloadError as error:
        pytest.skip(f"the default model cannot be had here: {error}")
    assert peak(path) <= bound(path)


@pytest.mark.slow
def test_a_folder_of_600_megabytes(tmp_path: Path) -> None:
    """One that neither the mapped file nor copies on the way fit in beside the packed weights."""
    found, rows = case("llama2"), 600 * MEGABYTE // 4 // 64 // 2
    weights = found.weights()
    random = np.random.default_rng(0)
    for name in ("model.embed_tokens.weight", "lm_head.weight"):
        weights[name] = random.random((rows, 64), np.float32)
    (tmp_path / "config.json").write_text(json.dumps(found.config | {"vocab_size": rows}))
    write_safetensors(tmp_path / "model.safetensors", weights)
    write_tokenizer(tmp_path)
    del weights
    assert peak(tmp_path, tmp_path / "cache") <= bound(tmp_path)
