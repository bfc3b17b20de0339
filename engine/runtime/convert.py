"""Converting a model: from full precision to a GGUF file in one of the named quantisations, with the error of each.

Names are as in MLC LLM: bits of the weights, what is around them, and the layout's number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import ConfigError, ModelError, ModelFileError, UnsupportedModelError
from .blocks import Bytes, decode
from .checkpoint import AGAIN, Checkpoint, StoredTensor
from .config import ModelConfig
from .encode import TooLargeError, encode
from .gguf_writer import TensorToWrite, writable, write_gguf
from .load import open_checkpoint
from .packing import head_order, pieces
from .progress import Progress, silent
from .stored_tokenizer import read_tokenizer

_FLOATS = ("F32", "F16", "BF16", "F64")


@dataclass(frozen=True)
class Quantization:
    """GGUF types of the matrices, and of the table and the output projection, which suffer most."""

    matrices: str
    table: str
    about: str


QUANTIZATIONS: Mapping[str, Quantization] = MappingProxyType({
    "q0f32": Quantization("F32", "F32", "32-bit floats"),
    "q0f16": Quantization("F16", "F16", "16-bit floats (IEEE)"),
    "q0bf16": Quantization("BF16", "BF16", "16-bit floats with the range of 32-bit ones"),
    "q8f16_1": Quantization("Q8_0", "Q8_0", "8 bits, a scale for 32 weights"),
    "q4f16_0": Quantization("Q4_0", "Q8_0", "4 bits, a scale for 32 weights; table in 8 bits"),
    "q4f16_1": Quantization("Q4_1", "Q8_0", "4 bits, a scale and a minimum for 32 weights; table in 8 bits"),
})  # fmt: skip


@dataclass(frozen=True)
class TensorError:
    """What a kind of tensor ("attn_q", ...) lost: `largest` absolute difference, `relative`: the root of the mean
    square of differences over that of the values. `bits`: per weight, scales included.
    """

    kind: str
    format: str
    tensors: int
    bits: float
    largest: float
    relative: float


@dataclass(frozen=True)
class Conversion:
    path: Path
    quantization: str
    bytes_before: int
    bytes_after: int
    errors: tuple[TensorError, ...]


def convert(
    source: Path, out: Path, quantization: str, *, requantize: bool = False, progress: Progress | None = None
) -> Conversion:
    """Write `out`, a GGUF file, from a GGUF file or a Hugging Face folder. It appears whole or not at all.

    `requantize` takes matrices that are quantised already; the errors are then against what they say. Raises
    ConfigError for an unknown name, ModelError for files that cannot be read or written, or that are quantised already.
    """
    scheme = QUANTIZATIONS.get(quantization)
    if scheme is None:
        raise ConfigError(
            f"quantization is {quantization!r}", key="quantization", remedy=f"use one of {', '.join(QUANTIZATIONS)}"
        )
    checkpoint, family = open_checkpoint(source)
    config = family.plan(checkpoint).config
    read_tokenizer(checkpoint, config)  # a file without one could not be used
    work = _Work(checkpoint, config, scheme)
    if not requantize:
        work.refuse_quantised()
    tensors = work.tensors()
    metadata = {key: value for key, value in checkpoint.metadata.items() if writable(value)}
    report = progress or silent
    temporary = out.with_name(out.name + ".partial")
    try:
        with temporary.open("wb") as file:
            for done in write_gguf(file, metadata, tensors):
                report(f"convert to {quantization}", done / len(tensors))
                checkpoint.forget()
        after = temporary.stat().st_size
        temporary.replace(out)
    except OSError as error:
        raise ModelError(f"{out}: cannot be written: {error.strerror or error}", path=out) from error
    finally:
        temporary.unlink(missing_ok=True)
    before = sum(tensor.data.nbytes for tensor in checkpoint.tensors.values())
    return Conversion(out, quantization, before, after, work.errors())


class _Work:
    """The tensors to write, and the sums of errors, which grow as they are written."""

    def __init__(self, checkpoint: Checkpoint, config: ModelConfig, scheme: Quantization) -> None:
        self._checkpoint, self._config, self._scheme = checkpoint, config, scheme
        self._sums: dict[tuple[str, str], _Sums] = {}

    def refuse_quantised(self) -> None:
        for tensor in self._checkpoint.tensors.values():
            if tensor.type not in _FLOATS:
                raise UnsupportedModelError(
                    f"{self._checkpoint.path}: the tensor {tensor.name!r} is quantised already, as {tensor.type}",
                    path=self._checkpoint.path,
                    remedy="convert from full precision, or allow it with --allow-requantize",
                )

    def tensors(self) -> list[TensorToWrite]:
        found: list[TensorToWrite] = []
        experts: dict[str, list[StoredTensor]] = {}
        for name, tensor in self._checkpoint.tensors.items():
            match = re.fullmatch(r"(blk\.\d+\.ffn_(?:gate|up|down))\.(\d+)(\.weight)", name)
            if match is None:
                found.append(self._whole(tensor))
            else:
                experts.setdefault(f"{match[1]}_exps{match[3]}", []).append(tensor)
        for name, each in experts.items():
            each.sort(key=lambda tensor: int(tensor.name.split(".")[3]))
            found.append(self._stacked(name, each))
        return found

    def _whole(self, tensor: StoredTensor) -> TensorToWrite:
        kind = self._type(tensor.name, tensor.shape)
        return TensorToWrite(tensor.name, kind, tensor.shape, lambda: self._pieces(tensor, kind))

    def _stacked(self, name: str, each: list[StoredTensor]) -> TensorToWrite:
        """GGUF has the experts' matrices in one tensor."""
        kind = self._type(name, (len(each), *each[0].shape))
        shape = (len(each), *each[0].shape)
        return TensorToWrite(name, kind, shape, lambda: (p for tensor in each for p in self._pieces(tensor, kind)))

    def _type(self, name: str, shape: tuple[int, ...]) -> str:
        if len(shape) == 1 or "ffn_gate_inp" in name:  # norms and biases; and what chooses experts: small, and decisive
            return "F32"
        return self._scheme.table if name in ("token_embd.weight", "output.weight") else self._scheme.matrices

    def _pieces(self, tensor: StoredTensor, kind: str) -> Iterator[Bytes]:
        sums = self._sums.setdefault((_kind_of(tensor.name), kind), _Sums())
        sums.tensors += 1
        order, head_dim = self._order(tensor)
        for start, end in pieces(len(tensor.data), tensor.shape[-1] * 4, head_dim):
            values = decode(tensor.data[start:end], tensor.type)
            if order is not None:
                vector = len(tensor.shape) == 1
                values = values[:, order(values.shape[1])] if vector else values[order(end - start)]
            if not np.isfinite(values).all():
                raise self._fail(tensor, "has values that are no numbers", AGAIN)
            try:
                raw = encode(values, kind)
            except TooLargeError as error:
                raise self._fail(tensor, "has values beyond float16's range", "use q0bf16 or q0f32") from error
            sums.add(values, decode(raw, kind), raw.nbytes)
            yield raw

    def _order(self, tensor: StoredTensor) -> tuple[Callable[[int], npt.NDArray[np.intp]] | None, int]:
        """Rows of query and key heads go into GGUF's order, where the family has one of its own."""
        c = self._config
        differs = c.paired_heads and not self._checkpoint.paired_heads
        if not differs or not re.search(r"attn_[qk]\.(weight|bias)$", tensor.name):
            return None, 1
        rotated = 2 * sum(frequency > 0 for frequency in c.rotary[0].frequencies)

        def order(rows: int) -> npt.NDArray[np.intp]:
            kernels = head_order(rows, c.head_dim, rotated, paired=False)
            return kernels[np.argsort(head_order(rows, c.head_dim, rotated, paired=True))]

        return order, c.head_dim

    def _fail(self, tensor: StoredTensor, what: str, remedy: str) -> ModelFileError:
        path = self._checkpoint.path
        return ModelFileError(f"{path}: the tensor {tensor.name!r} {what}", path=path, remedy=remedy)

    def errors(self) -> tuple[TensorError, ...]:
        return tuple(
            TensorError(
                kind, form, s.tensors, 8 * s.bytes / s.count, s.largest, float(np.sqrt(s.squares / max(s.total, 1e-30)))
            )
            for (kind, form), s in sorted(self._sums.items())
        )


@dataclass
class _Sums:
    tensors: int = 0
    count: int = 0
    bytes: int = 0
    largest: float = 0.0
    squares: float = 0.0
    total: float = 0.0

    def add(self, before: npt.NDArray[Any], after: npt.NDArray[Any], size: int) -> None:
        difference = before - after
        self.count += before.size
        self.bytes += size
        self.largest = max(self.largest, float(np.abs(difference).max(initial=0)))
        self.squares += float(np.square(difference, dtype=np.float64).sum())
        self.total += float(np.square(before, dtype=np.float64).sum())


def _kind_of(name: str) -> str:
    """Without the layer's, and an expert's, number."""
    return re.sub(r"^blk\.\d+\.|\.\d+(?=\.)|\.weight$", "", name)
