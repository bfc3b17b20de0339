"""Mapping model files into memory, and giving the memory back."""

from __future__ import annotations

import mmap
from contextlib import suppress
from pathlib import Path

from ..errors import ModelFileError
from .checkpoint import AGAIN


def map_file(path: Path) -> mmap.mmap:
    """The whole file, read only. Raises ModelFileError."""
    try:
        with path.open("rb") as file:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    except FileNotFoundError as error:
        raise ModelFileError(f"{path}: no such model file", path=path, remedy="check the path") from error
    except ValueError as error:  # what mmap says of an empty file
        raise ModelFileError(f"{path}: the file is empty", path=path, remedy=AGAIN) from error
    except OSError as error:
        raise ModelFileError(f"{path}: cannot be read: {error.strerror or error}", path=path) from error


def forget(data: mmap.mmap) -> None:
    """Pages of a file that were read count as this process's memory until the system takes them: give them back."""
    with suppress(OSError, AttributeError, ValueError):  # not every system can
        data.madvise(mmap.MADV_DONTNEED)
