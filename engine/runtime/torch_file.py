"""Reading PyTorch's weight files (`.bin`, `.pt`) without PyTorch, and without running what is in them.

Such a file is a ZIP archive of a pickle, `data.pkl`, and of the tensors' bytes, `data/0`, `data/1`, ... A pickle may
name any function to be called; here it can name nothing but the few constructors of tensors listed below, so a file
holds data or is refused. Source: the format of torch.save since version 1.6 (torch/serialization.py).
"""

from __future__ import annotations

import io
import pickle
import struct
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import ModelFileError, UnsupportedModelError
from .checkpoint import AGAIN, StoredTensor
from .mapped import forget, map_file

# storage class: (GGUF's name, bytes of a value); other storages are buffers that no model here needs
_STORAGES: Mapping[str, tuple[str, int]] = MappingProxyType({
    "FloatStorage": ("F32", 4), "HalfStorage": ("F16", 2), "BFloat16Storage": ("BF16", 2), "DoubleStorage": ("F64", 8),
})  # fmt: skip
_MAX_PICKLE = 64 << 20


@dataclass(frozen=True)
class _Storage:
    kind: str
    key: str


@dataclass(frozen=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def read_torch(path: Path) -> tuple[dict[str, StoredTensor], Callable[[], None]]:
    """The tensors of one file by name, and what gives back memory of the mapping.

    Raises ModelFileError for a file that is missing, truncated, damaged, in the format before 1.6, or that would run
    code; UnsupportedModelError for tensors that do not lie in rows.
    """
    data = map_file(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename: info for info in archive.infolist()}
            pickled = next((name for name in members if name.endswith("/data.pkl")), None)
            if pickled is None:
                raise _fail(path, "it has no data.pkl")
            if members[pickled].file_size > _MAX_PICKLE:
                raise _fail(path, "its data.pkl is too large for a list of tensors")
            found = _Unpickler(io.BytesIO(archive.read(pickled)), path).load()
    except zipfile.BadZipFile as error:
        raise _fail(path, f"it is no ZIP archive as torch.save writes since version 1.6: {error}") from error
    except ModelFileError:
        raise
    except Exception as error:  # whatever a damaged pickle makes of itself
        raise _fail(path, f"its data.pkl is damaged: {error}") from error
    if not isinstance(found, dict):
        raise _fail(path, "it holds no dictionary of tensors")
    root = pickled.removesuffix("data.pkl") + "data/"
    tensors = {}
    for name, tensor in found.items():
        if isinstance(tensor, _Tensor) and tensor.storage.kind in _STORAGES:
            info = members.get(root + tensor.storage.key)
            if info is None:
                raise _fail(path, f"the bytes of the tensor {name!r} are missing")
            tensors[str(name)] = _stored(path, str(name), tensor, data, info)
    return tensors, lambda: forget(data)


class _Unpickler(pickle.Unpickler):
    """Knows the constructors of tensors, and nothing else."""

    def __init__(self, file: io.BytesIO, path: Path) -> None:
        super().__init__(file)
        self._path = path

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("collections", "OrderedDict"):
            return OrderedDict
        if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
            return _rebuild
        if (module, name) == ("torch._utils", "_rebuild_parameter"):
            return lambda tensor, *_: tensor
        if module == "torch" and name.endswith("Storage"):
            return name
        raise ModelFileError(
            f"{self._path}: it names {module}.{name}, which weights have no need of",
            path=self._path,
            remedy="do not trust the file; use the model's safetensors files",
        )

    def persistent_load(self, pid: Any) -> _Storage:
        _, kind, key, *_ = pid  # "storage", its class, its key, its device, its length
        return _Storage(str(kind), str(key))


def _rebuild(storage: _Storage, offset: int, shape: Any, strides: Any, *_: Any) -> _Tensor:
    return _Tensor(storage, int(offset), tuple(map(int, shape)), tuple(map(int, strides)))


def _stored(path: Path, name: str, tensor: _Tensor, data: Any, info: zipfile.ZipInfo) -> StoredTensor:
    kind, width = _STORAGES[tensor.storage.kind]
    shape = tensor.shape
    expected = [int(np.prod(shape[i + 1 :], dtype=object)) for i in range(len(shape))]
    if any(n > 1 and have != want for n, have, want in zip(shape, tensor.strides, expected, strict=True)):
        raise UnsupportedModelError(f"{path}: the tensor {name!r} does not lie in rows", path=path)
    size = width * int(np.prod(shape, dtype=object))
    begin = tensor.offset * width
    if info.compress_type != zipfile.ZIP_STORED or not shape or 0 in shape or not 0 <= begin <= info.file_size - size:
        raise _fail(path, f"the tensor {name!r} of shape {shape} does not fit in its {info.file_size} bytes")
    # The local header's own lengths count: archives pad it, so that data is aligned.
    lengths = struct.unpack_from("<HH", data, info.header_offset + 26)
    start = info.header_offset + 30 + sum(lengths) + begin
    if start + size > len(data):
        raise _fail(path, f"the file ends early: {name!r} needs {start + size} bytes, the file has {len(data)}")
    raw = np.frombuffer(data, np.uint8, size, start)
    return StoredTensor(name, kind, shape, raw.reshape(-1, shape[-1] * width))


def _fail(path: Path, what: str) -> ModelFileError:
    return ModelFileError(f"{path}: {what}", path=path, remedy=AGAIN)
