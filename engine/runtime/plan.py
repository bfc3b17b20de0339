"""Which parameters a model consists of: the packed form of each, and the tensors it is put together from.

The plan is what shapes the compiled library (with target and kernel sources), and it is what loading follows. Making it
checks every tensor's presence, shape and format, so that neither can fail on the file later.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from ..errors import UnsupportedModelError
from .blocks import decodable
from .config import ModelConfig, read_config
from .gguf import GgufFile
from .packing import GROUP, NATIVE, packed_format

# How the tensors of a matrix are arranged: one under the other; the same with query and key heads reordered; or in
# turns of 32 rows each.
Arrangement = Literal["stacked", "heads", "turns"]


@dataclass(frozen=True)
class Matrix:
    """A packed matrix [rows, columns]; `rows` is a multiple of 8."""

    format: str
    rows: int
    columns: int
    tensors: tuple[str, ...]
    arrangement: Arrangement = "stacked"


@dataclass(frozen=True)
class Vector:
    """float32 [size]."""

    size: int
    tensor: str


@dataclass(frozen=True)
class LayerPlan:
    attention_norm: Vector
    qkv: Matrix
    output: Matrix
    feed_forward_norm: Vector
    gate_up: Matrix
    down: Matrix


@dataclass(frozen=True)
class ModelPlan:
    """`head` is None where the embedding table serves as output projection too."""

    config: ModelConfig
    embedding: Matrix
    layers: tuple[LayerPlan, ...]
    norm: Vector
    head: Matrix | None

    @property
    def logits(self) -> Matrix:
        return self.head or self.embedding

    def parameters(self) -> Mapping[str, Matrix | Vector]:
        """By the names that the Relax module gives its parameters."""
        return dict(self._parameters())

    def _parameters(self) -> Iterator[tuple[str, Matrix | Vector]]:
        yield "embedding", self.embedding
        for i, layer in enumerate(self.layers):
            for name in ("attention_norm", "qkv", "output", "feed_forward_norm", "gate_up", "down"):
                yield f"layers.{i}.{name}", getattr(layer, name)
        yield "norm", self.norm
        if self.head is not None:
            yield "head", self.head


def plan_model(file: GgufFile) -> ModelPlan:
    """Read the plan off the file. Raises ModelFileError or UnsupportedModelError."""
    c = read_config(file)
    table = (c.vocab_size, c.hidden)
    return ModelPlan(
        config=c,
        embedding=_matrix(file, {"token_embd.weight": table}),
        layers=tuple(_plan_layer(file, c, f"blk.{i}.") for i in range(c.layers)),
        norm=_vector(file, "output_norm.weight", c.hidden),
        head=_matrix(file, {"output.weight": table}) if "output.weight" in file.tensors else None,
    )


def _plan_layer(file: GgufFile, c: ModelConfig, at: str) -> LayerPlan:
    _refuse_biases(file, at)
    queries, keys = c.heads * c.head_dim, c.kv_heads * c.head_dim
    qkv = {"attn_q": queries, "attn_k": keys, "attn_v": keys}
    wide = (c.feed_forward, c.hidden)
    return LayerPlan(
        attention_norm=_vector(file, at + "attn_norm.weight", c.hidden),
        qkv=_matrix(file, {f"{at}{name}.weight": (rows, c.hidden) for name, rows in qkv.items()}, "heads"),
        output=_matrix(file, {at + "attn_output.weight": (c.hidden, queries)}),
        feed_forward_norm=_vector(file, at + "ffn_norm.weight", c.hidden),
        gate_up=_matrix(file, {at + "ffn_gate.weight": wide, at + "ffn_up.weight": wide}, "turns"),
        down=_matrix(file, {at + "ffn_down.weight": (c.hidden, c.feed_forward)}),
    )


def _matrix(file: GgufFile, shapes: Mapping[str, tuple[int, int]], arrangement: Arrangement = "stacked") -> Matrix:
    tensors = [file.tensor(name, shape) for name, shape in shapes.items()]
    for tensor in tensors:
        if tensor.type not in NATIVE and not decodable(tensor.type):
            raise UnsupportedModelError(
                f"{file.path}: the tensor {tensor.name!r} has the format {tensor.type}, which is not supported",
                path=file.path,
                remedy="use a file in F16, BF16, F32, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K or Q8_0",
            )
    rows = sum(tensor.shape[0] for tensor in tensors)
    form = packed_format({tensor.type for tensor in tensors})
    return Matrix(form, -(-rows // GROUP) * GROUP, tensors[0].shape[-1], tuple(shapes), arrangement)


def _vector(file: GgufFile, name: str, size: int) -> Vector:
    tensor = file.tensor(name, (size,))
    if tensor.type not in ("F32", "F16", "BF16"):
        raise UnsupportedModelError(
            f"{file.path}: the vector {name!r} has the format {tensor.type}, which is not supported", path=file.path
        )
    return Vector(size, name)


def _refuse_biases(file: GgufFile, at: str) -> None:
    names: Sequence[str] = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")
    for name in (f"{at}{part}.bias" for part in names):
        if name in file.tensors:
            raise UnsupportedModelError(f"{file.path}: the bias {name!r} is not supported", path=file.path)
