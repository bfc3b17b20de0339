"""The kernel's machine code: cached, made anew where the cache is no good, and made in memory without a compiler."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tvm
from slipcast.grammar.tokens import compiled


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SLIPCAST_CACHE", str(tmp_path))
    return tmp_path / "kernels"


def load() -> Any:
    return compiled.load_walk.__wrapped__()


def test_a_cached_kernel_is_not_compiled_again(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert callable(load())
    stored = list(cache.iterdir())
    if not stored:
        pytest.skip("no C compiler to link a library with")
    assert [path.suffix for path in stored] == [".so"]

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("compiled again")

    with monkeypatch.context() as patch:
        patch.setattr(tvm, "compile", refuse)
        assert callable(load())
    elsewhere = tmp_path / "elsewhere" / "kernels"
    elsewhere.mkdir(parents=True)
    (elsewhere / stored[0].name).write_bytes(b"damaged")
    monkeypatch.setenv("SLIPCAST_CACHE", str(elsewhere.parent))
    assert callable(load())
    assert (elsewhere / stored[0].name).stat().st_size > 10_000


def test_without_a_compiler_or_a_cache_the_kernel_is_made_in_memory(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CXX", raising=False)
    assert callable(load())
    assert not cache.exists() or not list(cache.iterdir())


def test_a_cached_kernel_needs_no_compiler_in_the_process(cache: Path) -> None:
    """TVM's compiler takes 150 MB and seconds to load: a process that only constrains text goes without."""
    load()
    if not list(cache.iterdir()):
        pytest.skip("no C compiler to link a library with")
    program = """
import sys
import numpy as np
from slipcast.grammar import GrammarCompiler, Vocabulary
vocabulary = Vocabulary([bytes((byte,)) for byte in range(256)] + [None], eos_ids=[256])
matcher = GrammarCompiler(vocabulary).json_schema({"const": 1}).matcher()
row = np.zeros(vocabulary.words, np.int32)
matcher.fill_mask(row)
print(row[ord("1") >> 5] >> (ord("1") & 31) & 1, "tvm" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "False"]
