"""Libraries for other machines: objects of the right kind, and a word where there can be none."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from runtime_models import Shape, Tiny, make
from slipcast.engine.errors import ConfigError
from slipcast.engine.runtime.targets import GPUS, MACHINES, compile_for

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
    assert not written.linked
    found = objects(written.path)
    assert found
    assert all(data.startswith(ELF) and int.from_bytes(data[18:20], "little") == machine for data in found)


def test_a_library_for_this_kind_of_machine_is_linked(tiny: Tiny, tmp_path: Path) -> None:
    written = compile_for(tiny.path, "x86_64-linux", tmp_path)
    if written.linked:  # on an x86-64 machine with a linker
        assert written.path.read_bytes().startswith(ELF)
    assert written.bytes > 10_000


@pytest.mark.parametrize("target", [*GPUS, "amiga"])
def test_what_cannot_be_written_is_said(tiny: Tiny, tmp_path: Path, target: str) -> None:
    with pytest.raises(ConfigError, match="aarch64-linux"):
        compile_for(tiny.path, target, tmp_path)
    assert {"x86_64-linux-avx2", "wasm32"} <= set(MACHINES)
