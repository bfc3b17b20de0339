"""Reading safetensors files: a JSON header and tensors as views of the mapped file.

Source: the format's description in the safetensors project's README. Nothing is trusted: offsets are checked against
shapes and the file's size.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import ModelFileError, UnsupportedModelError
from .checkpoint import AGAIN, StoredTensor
from .mapped import forget, map_file

# dtype: (GGUF's name, bytes of a value)
_TYPES: Mapping[str, tuple[str, int]] = MappingProxyType(
    {"F32": ("F32", 4), "F16": ("F16", 2), "BF16": ("BF16", 2), "F64": ("F64", 8)}
)
_MAX_HEADER = 100 << 20  # as in the reference implementation


def read_safetensors(path: Path) -> tuple[dict[str, StoredTensor], Callable[[], None]]:
    """The tensors of one file by name, and what gives back memory of the mapping.

    Raises ModelFileError for a file that is missing, truncated or damaged.
    """
    data = map_file(path)
    size = len(data)
    header_end = 8 + int.from_bytes(data[:8], "little") if size >= 8 else size + 1
    if header_end > min(size, 8 + _MAX_HEADER):
        raise _fail(path, f"its header ends at byte {header_end} of {size}: it is cut short, or no safetensors file")
    try:
        header = json.loads(data[8:header_end])
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise _fail(path, f"its header is not JSON: {error}") from error
    if not isinstance(header, dict):
        raise _fail(path, "its header is no object")
    tensors = {
        name: _tensor(path, data, header_end, name, entry) for name, entry in _entries(header) if _is_float(entry)
    }
    return tensors, lambda: forget(data)


def _entries(header: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    return ((name, entry) for name, entry in header.items() if name != "__metadata__")


def _is_float(entry: Any) -> bool:
    """Integers and booleans are buffers that no model here needs (position ids, masks)."""
    kind = entry.get("dtype") if isinstance(entry, dict) else None
    return not (isinstance(kind, str) and (kind.startswith(("I", "U")) or kind == "BOOL"))


def _tensor(path: Path, data: mmap.mmap, start: int, name: str, entry: Any) -> StoredTensor:
    try:
        kind, shape, (begin, end) = entry["dtype"], tuple(entry["shape"]), entry["data_offsets"]
        sound = all(isinstance(n, int) and n >= 0 for n in (*shape, begin, end))
    except (TypeError, KeyError, ValueError) as error:
        raise _fail(path, f"the entry of the tensor {name!r} is damaged") from error
    if kind not in _TYPES:
        raise UnsupportedModelError(
            f"{path}: the tensor {name!r} has the format {kind}, which is not supported",
            path=path,
            remedy="use weights in F32, F16 or BF16",
        )
    type_name, width = _TYPES[kind]
    if not sound or not shape or 0 in shape or end - begin != width * int(np.prod(shape, dtype=object)):
        raise _fail(path, f"the tensor {name!r} of shape {shape} has bytes {begin} to {end}")
    if start + end > len(data):
        raise _fail(path, f"the file ends early: {name!r} needs {start + end} bytes, the file has {len(data)}")
    raw = np.frombuffer(data, np.uint8, end - begin, start + begin)
    return StoredTensor(name, type_name, shape, raw.reshape(-1, shape[-1] * width))


def _fail(path: Path, what: str) -> ModelFileError:
    return ModelFileError(f"{path}: {what}", path=path, remedy=AGAIN)
