"""Files that save work between processes: in SLIPCAST_CACHE, or the user's cache folder.

A cache never fails a caller: a file that cannot be read is as good as absent, one that cannot be written is skipped.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import platformdirs


def cache_folder(*parts: str) -> Path:
    """The folder for cached files, which need not exist yet."""
    root = os.environ.get("SLIPCAST_CACHE")
    base = Path(root).expanduser() if root else platformdirs.user_cache_path("slipcast")
    return base.joinpath(*parts)


def load_arrays(path: Path) -> dict[str, npt.NDArray[Any]] | None:
    """The arrays of an .npz file; None where it is missing or damaged. Pickled content is refused."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except (OSError, ValueError, KeyError, EOFError, AttributeError, TypeError, zipfile.BadZipFile):
        return None


def save_arrays(path: Path, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Writes an .npz file whole or not at all."""
    with contextlib.suppress(OSError), replacing(path) as temporary, temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)


@contextlib.contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path beside `path` that takes its place when the block ends well, and is removed when it does not."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=path.stem, suffix=path.suffix)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
