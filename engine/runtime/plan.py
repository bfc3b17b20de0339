"""Which packed matrices a model consists of: the format of each, and the tensors it is put together from.

The plan is what shapes the compiled library (with target and kernel sources), and it is what loading follows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..errors import ModelFileError, UnsupportedModelError
from .blocks import decodable, decode
from .config import ModelConfig, read_config
from .gguf import GgufFile, GgufTensor
from .packing import GROUP, NATIVE, interleaved_heads, pack, packed_format

_GATE_ROWS = 32  # rows of the gate, then of the up projection, in turn


@dataclass(frozen=True)
class Matrix:
    """A packed matrix [rows, columns]; `rows` is a multiple of 8."""

    format: str
    rows: int
    columns: int


@dataclass(frozen=True)
class LayerPlan:
    qkv: Matrix
    output: Matrix
    gate_up: Matrix
    down: Matrix


@dataclass(frozen=True)
class ModelPlan:
    """`head` is None where the embedding table serves as output projection too."""

    config: ModelConfig
    embedding: Matrix
    head: Matrix | None
    layers: tuple[LayerPlan, ...]

    @property
    def logits(self) -> Matrix:
        return self.head or self.embedding


def plan_model(file: GgufFile) -> ModelPlan:
    """Read the plan off the file. Raises ModelFileError or UnsupportedModelError; afterwards loading cannot fail."""
    config = read_config(file)
    c = config
    embedding = file.tensor("token_embd.weight", (c.vocab_size, c.hidden))
    _vector(file, "output_norm.weight", c.hidden)
    head = None
    if "output.weight" in file.tensors:
        head = _matrix(file, [file.tensor("output.weight", (c.vocab_size, c.hidden))])
    layers = []
    for i in range(c.layers):
        _refuse_biases(file, i)
        _vector(file, f"blk.{i}.attn_norm.weight", c.hidden)
        _vector(file, f"blk.{i}.ffn_norm.weight", c.hidden)
        layers.append(
            LayerPlan(
                qkv=_matrix(file, qkv_tensors(file, c, i)),
                output=_matrix(file, [file.tensor(f"blk.{i}.attn_output.weight", (c.hidden, c.heads * c.head_dim))]),
                gate_up=_matrix(file, gate_up_tensors(file, c, i)),
                down=_matrix(file, [file.tensor(f"blk.{i}.ffn_down.weight", (c.hidden, c.feed_forward))]),
            )
        )
    return ModelPlan(config=c, embedding=_matrix(file, [embedding]), head=head, layers=tuple(layers))


def qkv_tensors(file: GgufFile, config: ModelConfig, layer: int) -> list[GgufTensor]:
    query, key = config.heads * config.head_dim, config.kv_heads * config.head_dim
    sizes = {"attn_q": query, "attn_k": key, "attn_v": key}
    return [file.tensor(f"blk.{layer}.{name}.weight", (rows, config.hidden)) for name, rows in sizes.items()]


def gate_up_tensors(file: GgufFile, config: ModelConfig, layer: int) -> list[GgufTensor]:
    shape = (config.feed_forward, config.hidden)
    return [file.tensor(f"blk.{layer}.{name}.weight", shape) for name in ("ffn_gate", "ffn_up")]


def pack_rows(tensors: Sequence[GgufTensor], form: str, out: npt.NDArray[np.uint8]) -> None:
    """Tensors one under the other; each has a multiple of eight rows, or it is the last."""
    start = 0
    for tensor in tensors:
        groups = -(-len(tensor.data) // GROUP)
        pack(tensor.data, tensor.type, form, out[start : start + groups])
        start += groups


def pack_qkv(file: GgufFile, config: ModelConfig, layer: int, form: str, out: npt.NDArray[np.uint8]) -> None:
    """The fused projection, query and key rows in the order that rotation by halves wants."""
    tensors = qkv_tensors(file, config, layer)
    start = 0
    for tensor, heads, rotated in zip(tensors, (config.heads, config.kv_heads, config.kv_heads), (True, True, False), strict=True):
        data = tensor.data[interleaved_heads(heads, config.head_dim)] if rotated else tensor.data
        groups = len(data) // GROUP
        pack(data, tensor.type, form, out[start : start + groups])
        start += groups


def pack_gate_up(tensors: Sequence[GgufTensor], form: str, out: npt.NDArray[np.uint8]) -> None:
    groups = _GATE_ROWS // GROUP
    turns = out.reshape(-1, len(tensors), groups, *out.shape[1:])
    for i, tensor in enumerate(tensors):
        pack(tensor.data, tensor.type, form, turns[:, i])


def vector(file: GgufFile, name: str) -> npt.NDArray[np.float32]:
    tensor = file.tensors[name]
    return np.array(decode(tensor.data, tensor.type)[0])


def _matrix(file: GgufFile, tensors: Sequence[GgufTensor]) -> Matrix:
    for tensor in tensors:
        if tensor.type not in NATIVE and not decodable(tensor.type):
            raise UnsupportedModelError(
                f"{file.path}: the tensor {tensor.name!r} has the format {tensor.type}, which is not supported",
                path=file.path,
                remedy="use a file in F16, BF16, F32, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K or Q8_0",
            )
    rows = sum(tensor.shape[0] for tensor in tensors)
    form = packed_format({tensor.type for tensor in tensors})
    return Matrix(form, -(-rows // GROUP) * GROUP, tensors[0].shape[-1])


def _vector(file: GgufFile, name: str, size: int) -> None:
    tensor = file.tensor(name, (size,))
    if tensor.type not in ("F32", "F16", "BF16"):
        raise UnsupportedModelError(f"{file.path}: the vector {name!r} has the format {tensor.type}", path=file.path)


def _refuse_biases(file: GgufFile, layer: int) -> None:
    names = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    for name in (f"blk.{layer}.{part}.bias" for part in names):
        if name in file.tensors:
            raise UnsupportedModelError(f"{file.path}: the bias {name!r} is not supported", path=file.path)


__all__ = [
    "LayerPlan",
    "Matrix",
    "ModelFileError",
    "ModelPlan",
    "gate_up_tensors",
    "pack_gate_up",
    "pack_qkv",
    "pack_rows",
    "plan_model",
    "qkv_tensors",
    "vector",
]
