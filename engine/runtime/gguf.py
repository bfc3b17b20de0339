"""Reading GGUF files (versions 2 and 3): metadata into Python values, tensors as views of the mapped file.

Source: the GGUF specification in the ggml project's docs/gguf.md. Nothing is trusted: every length is checked against
the file's size before it is used, so a damaged file gives a `ModelFileError` that says what is wrong, never a crash.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np

from ..errors import ModelFileError
from .checkpoint import AGAIN, Checkpoint, StoredTensor
from .mapped import forget, map_file

_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_ALIGNMENT = "general.alignment"
_MAX_DIMENSIONS = 4

# type number: (name, elements in a block, bytes of a block)
TENSOR_TYPES: Mapping[int, tuple[str, int, int]] = MappingProxyType({
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 30: ("BF16", 1, 2), 28: ("F64", 1, 8),
    2: ("Q4_0", 32, 18), 3: ("Q4_1", 32, 20), 6: ("Q5_0", 32, 22), 7: ("Q5_1", 32, 24), 8: ("Q8_0", 32, 34),
    10: ("Q2_K", 256, 84), 11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144), 13: ("Q5_K", 256, 176), 14: ("Q6_K", 256, 210),
})  # fmt: skip


def open_gguf(path: Path) -> Checkpoint:
    """Map the file and read its header; the tensors are views that keep the mapping alive.

    Raises ModelFileError if the file cannot be read, is no GGUF, or ends too early.
    """
    reader = _Reader(path)
    if reader.bytes(4) != b"GGUF":
        reader.fail("it is not a GGUF file", "give a file in GGUF format")
    version = reader.scalar("I")
    if version not in (2, 3):
        reader.fail(f"it has GGUF version {version}, not 2 or 3", "convert it again with a current tool")
    tensor_count, pair_count = reader.scalar("Q"), reader.scalar("Q")
    metadata = {}
    for _ in range(pair_count):
        key = reader.string()
        metadata[key] = reader.value(reader.scalar("I"))
    entries = [reader.tensor_entry() for _ in range(tensor_count)]
    alignment = metadata.get(_ALIGNMENT, 32)
    if not isinstance(alignment, int) or alignment <= 0 or alignment % 8:
        reader.fail(f"its {_ALIGNMENT} is {alignment!r}, which is no multiple of 8")
    start = -(-reader.position // alignment) * alignment
    tensors = {name: reader.tensor(name, shape, kind, start + offset) for name, shape, kind, offset in entries}
    return Checkpoint(path, MappingProxyType(metadata), MappingProxyType(tensors), forget=reader.forget)


class _Reader:
    """A cursor over the mapped file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._map = map_file(path)
        self._size = len(self._map)
        self.position = 0

    def forget(self) -> None:
        forget(self._map)

    def fail(self, what: str, remedy: str | None = AGAIN) -> NoReturn:
        raise ModelFileError(f"{self._path}: {what}", path=self._path, remedy=remedy)

    def _need(self, count: int) -> int:
        """Move over `count` bytes; returns where they start."""
        start = self.position
        if count > self._size - start:
            self.fail(f"the file ends early, at byte {self._size} of at least {start + count}")
        self.position = start + count
        return start

    def bytes(self, count: int) -> bytes:
        start = self._need(count)
        return self._map[start : start + count]

    def scalar(self, code: str) -> Any:
        code = "<" + code
        return struct.unpack_from(code, self._map, self._need(struct.calcsize(code)))[0]

    def string(self) -> str:
        raw = self.bytes(self.scalar("Q"))
        try:
            return raw.decode()
        except UnicodeDecodeError:
            return self.fail(f"the text at byte {self.position - len(raw)} is not UTF-8")

    def value(self, kind: int) -> Any:
        if kind in _SCALARS:
            return self.scalar(_SCALARS[kind])
        if kind == _STRING:
            return self.string()
        if kind == _ARRAY:
            return self._array()
        return self.fail(f"byte {self.position} has the unknown metadata type {kind}")

    def _array(self) -> tuple[Any, ...]:
        kind, count = self.scalar("I"), self.scalar("Q")
        if kind in _SCALARS:
            code = "<" + _SCALARS[kind]
            size = struct.calcsize(code)
            start = self._need(size * count)
            return tuple(np.frombuffer(self._map, np.dtype(code), count, start).tolist())
        if kind == _STRING:
            return self._strings(count)
        return self.fail(f"byte {self.position} has an array of the unknown type {kind}")

    def _strings(self, count: int) -> tuple[str, ...]:
        """A vocabulary is 100,000 strings: one tight loop."""
        unpack, data, position, limit = struct.Struct("<Q").unpack_from, self._map, self.position, self._size
        texts = []
        try:
            for _ in range(count):
                end = position + 8 + unpack(data, position)[0]
                if end > limit:
                    raise struct.error
                texts.append(data[position + 8 : end].decode())
                position = end
        except struct.error:
            self.fail(f"the file ends early, in a list of {count} texts")
        except UnicodeDecodeError:
            self.fail(f"the text at byte {position} is not UTF-8")
        self.position = position
        return tuple(texts)

    def tensor_entry(self) -> tuple[str, tuple[int, ...], int, int]:
        """(name, shape with the slowest dimension first, type number, offset in the data part)."""
        name = self.string()
        dimensions = self.scalar("I")
        if not 1 <= dimensions <= _MAX_DIMENSIONS:
            self.fail(f"the tensor {name!r} has {dimensions} dimensions")
        shape = tuple(self.scalar("Q") for _ in range(dimensions))
        return name, shape[::-1], self.scalar("I"), self.scalar("Q")

    def tensor(self, name: str, shape: tuple[int, ...], kind: int, start: int) -> StoredTensor:
        if kind not in TENSOR_TYPES:
            self.fail(f"the tensor {name!r} has the unknown type {kind}", "use a Q4_0, Q4_1, Q8_0 or F16 file")
        type_name, elements, size = TENSOR_TYPES[kind]
        rows, columns = int(np.prod(shape[:-1], dtype=object)), shape[-1]
        if columns % elements:
            self.fail(f"the tensor {name!r} has rows of {columns}, no multiple of the block of {elements}")
        width = columns // elements * size
        if start + rows * width > self._size:
            self.fail(f"the file ends early: {name!r} needs {start + rows * width} bytes, the file has {self._size}")
        data = np.frombuffer(self._map, np.uint8, rows * width, start).reshape(rows, width)
        return StoredTensor(name, type_name, shape, data)
