"""Writing GGUF files (version 3), tensor by tensor, so that a model never has to fit in memory twice.

Source: the GGUF specification in the ggml project's docs/gguf.md.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from .blocks import Bytes
from .gguf import TENSOR_TYPES

_ALIGNMENT = 32
_NUMBERS = {name: (number, elements, size) for number, (name, elements, size) in TENSOR_TYPES.items()}
_BOOL, _STRING, _ARRAY = 7, 8, 9
# (code, type, least, above the most) of integers; floats are float32, as GGUF files have them
_INTEGERS = (
    ("<I", 4, 0, 1 << 32), ("<i", 5, -(1 << 31), 1 << 31), ("<Q", 10, 0, 1 << 64), ("<q", 11, -(1 << 63), 1 << 63),
)  # fmt: skip
_FLOAT = ("<f", 6)


@dataclass(frozen=True)
class TensorToWrite:
    """`pieces` gives the rows, some at a time, in GGUF type `type`; it is called once, when their turn has come."""

    name: str
    type: str
    shape: tuple[int, ...]
    pieces: Callable[[], Iterable[Bytes]]

    @property
    def size(self) -> int:
        _, elements, size = _NUMBERS[self.type]
        count = 1
        for dimension in self.shape:
            count *= dimension
        return count // elements * size


def write_gguf(file: IO[bytes], metadata: Mapping[str, Any], tensors: Sequence[TensorToWrite]) -> Iterator[int]:
    """Writes as it is iterated; yields the number of tensors written so far."""
    head = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)))
    for key, value in metadata.items():
        head += _text(key) + _value(value)
    offset = 0
    for tensor in tensors:
        head += _text(tensor.name) + struct.pack("<I", len(tensor.shape))
        head += struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape))
        head += struct.pack("<IQ", _NUMBERS[tensor.type][0], offset)
        offset += _padded(tensor.size)
    file.write(bytes(head) + bytes(_padded(len(head)) - len(head)))
    for done, tensor in enumerate(tensors, 1):
        written = 0
        for piece in tensor.pieces():
            file.write(piece.tobytes())
            written += piece.nbytes
        if written != tensor.size:
            raise ValueError(f"the tensor {tensor.name!r} has {written} bytes, not {tensor.size}")
        file.write(bytes(_padded(written) - written))
        yield done


def writable(value: Any) -> bool:
    """Whether metadata can hold the value: empty and mixed arrays have no type."""
    return not isinstance(value, tuple | list) or (len(value) > 0 and len({isinstance(v, str) for v in value}) == 1)


def _padded(size: int) -> int:
    return -(-size // _ALIGNMENT) * _ALIGNMENT


def _text(text: str) -> bytes:
    raw = text.encode("utf-8", "surrogatepass")
    return struct.pack("<Q", len(raw)) + raw


def _value(value: Any) -> bytes:
    if isinstance(value, tuple | list):
        return struct.pack("<I", _ARRAY) + _items(value)
    if isinstance(value, str):
        return struct.pack("<I", _STRING) + _text(value)
    code, kind = _kind([value])
    return struct.pack("<I", kind) + struct.pack(code, value)


def _items(values: Sequence[Any]) -> bytes:
    if isinstance(values[0], str):
        return struct.pack("<IQ", _STRING, len(values)) + b"".join(map(_text, values))
    code, kind = _kind(values)
    return struct.pack("<IQ", kind, len(values)) + struct.pack(f"<{len(values)}{code[1]}", *values)


def _kind(values: Sequence[Any]) -> tuple[str, int]:
    """The struct code and GGUF type that hold all the values."""
    if all(isinstance(value, bool) for value in values):
        return "<?", _BOOL
    if any(isinstance(value, float) for value in values):
        return _FLOAT
    low, high = min(values), max(values)
    for code, kind, least, most in _INTEGERS:
        if least <= low and high < most:
            return code, kind
    raise ValueError(f"metadata has an integer of more than 64 bits: {high}")
