"""Which parameters a model consists of: the packed form of each, and the tensors it is put together from.

The plan is what shapes the compiled library (with target and kernel sources), and it is what loading follows. Making it
checks every tensor's presence, shape and format, so that neither can fail on the file later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields

from ..errors import UnsupportedModelError
from .blocks import decodable
from .checkpoint import Checkpoint
from .config import ModelConfig
from .packing import GROUP, block_columns, packed_format

_FLOATS = ("F32", "F16", "BF16")


@dataclass(frozen=True)
class HeadOrder:
    """How the rows of a head are put in order: the first `rotated` columns turn in pairs, neighbours if `paired`, else
    column i with i + rotated / 2; our kernels turn column i with i + head_dim / 2.
    """

    head_dim: int
    rotated: int
    paired: bool


@dataclass(frozen=True)
class Part:
    """Rows `first` to `first + rows` of a stored tensor, its leading dimensions taken as one."""

    tensor: str
    rows: int
    first: int = 0
    order: HeadOrder | None = None


@dataclass(frozen=True)
class Matrix:
    """A packed matrix [rows, columns]; `rows` is a multiple of 8. Its blocks lie one under the other; the parts of a
    block take turns of 32 rows.
    """

    format: str
    rows: int
    columns: int
    blocks: tuple[tuple[Part, ...], ...]


@dataclass(frozen=True)
class Vector:
    """float32 [size]: parts one after the other."""

    size: int
    parts: tuple[Part, ...]


@dataclass(frozen=True)
class LayerPlan:
    """`qkv`: matrices that give query, key and value heads in turn: one, or more where their formats differ. What a
    family does not have is None.
    """

    attention_norm: Vector
    qkv: tuple[Matrix, ...]
    output: Matrix
    feed_forward_norm: Vector
    gate_up: Matrix  # with experts: those of all, one under the other
    down: Matrix
    qkv_bias: tuple[Vector, ...] = ()
    output_bias: Vector | None = None
    query_norm: Vector | None = None
    key_norm: Vector | None = None
    attention_post_norm: Vector | None = None
    feed_forward_post_norm: Vector | None = None
    router: Matrix | None = None


Parameter = Matrix | Vector


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

    def parameters(self) -> Mapping[str, Parameter]:
        """By the names that the Relax module gives its parameters."""
        return dict(self._parameters())

    def _parameters(self) -> Iterator[tuple[str, Parameter]]:
        yield "embedding", self.embedding
        for i, layer in enumerate(self.layers):
            for name in (field.name for field in fields(layer)):
                found = getattr(layer, name)
                if isinstance(found, tuple):
                    yield from ((f"layers.{i}.{name}.{j}", each) for j, each in enumerate(found))
                elif found is not None:
                    yield f"layers.{i}.{name}", found
        yield "norm", self.norm
        if self.head is not None:
            yield "head", self.head


def plan_decoder(checkpoint: Checkpoint, config: ModelConfig) -> ModelPlan:
    """The plan of a decoder of the common kind. Raises ModelFileError or UnsupportedModelError."""
    c, planner = config, _Planner(checkpoint, config)
    planner.refuse_unknown(c)
    table = (c.vocab_size, c.hidden)
    return ModelPlan(
        config=c,
        embedding=planner.matrix([("token_embd.weight", table)]),
        layers=tuple(planner.layer(f"blk.{i}.") for i in range(c.layers)),
        norm=planner.vector("output_norm.weight", c.hidden),
        head=planner.matrix([("output.weight", table)]) if "output.weight" in checkpoint.tensors else None,
    )


class _Planner:
    def __init__(self, checkpoint: Checkpoint, config: ModelConfig) -> None:
        self.checkpoint = checkpoint
        self.config = config
        c = config
        rotated = 2 * sum(frequency > 0 for frequency in c.rotary[0].frequencies)
        paired = c.paired_heads and checkpoint.paired_heads
        order = HeadOrder(c.head_dim, rotated, paired)
        self.order = order if paired or rotated < c.head_dim else None

    def layer(self, at: str) -> LayerPlan:
        c = self.config
        self._refuse_unknown(at)
        wide = c.heads * c.head_dim
        return LayerPlan(
            attention_norm=self.vector(at + "attn_norm.weight", c.hidden),
            qkv=self._qkv(at),
            output=self.matrix([(at + "attn_output.weight", (c.hidden, wide))]),
            feed_forward_norm=self.vector(at + "ffn_norm.weight", c.hidden),
            gate_up=self._gate_up(at),
            down=self._down(at),
            qkv_bias=self._qkv_bias(at) if c.qkv_bias else (),
            output_bias=self.vector(at + "attn_output.bias", c.hidden) if c.output_bias else None,
            query_norm=self.vector(at + "attn_q_norm.weight", c.head_dim, self.order) if c.head_norms else None,
            key_norm=self.vector(at + "attn_k_norm.weight", c.head_dim, self.order) if c.head_norms else None,
            attention_post_norm=self.vector(at + "post_attention_norm.weight", c.hidden) if c.post_norms else None,
            feed_forward_post_norm=self.vector(at + "post_ffw_norm.weight", c.hidden) if c.post_norms else None,
            router=self.matrix([(at + "ffn_gate_inp.weight", (c.experts, c.hidden))]) if c.experts else None,
        )

    def _heads(self, at: str, kind: str) -> list[Part]:
        """Queries, keys and values, of one tensor or of three; values are not rotated."""
        c = self.config
        counts = (c.heads * c.head_dim, c.kv_heads * c.head_dim, c.kv_heads * c.head_dim)
        orders = (self.order, self.order, None)
        if c.fused_qkv:
            firsts = (0, counts[0], counts[0] + counts[1])
            named = [(f"{at}attn_qkv.{kind}", first) for first in firsts]
        else:
            named = [(f"{at}attn_{name}.{kind}", 0) for name in "qkv"]
        return [Part(name, n, first, o) for (name, first), n, o in zip(named, counts, orders, strict=True)]

    def _qkv(self, at: str) -> tuple[Matrix, ...]:
        """Neighbours of one format make one matrix."""
        c = self.config
        groups: list[list[Part]] = []
        total = c.fused_heads * c.head_dim
        for part in self._heads(at, "weight"):
            self._stored(part.tensor, (total if c.fused_qkv else part.rows, c.hidden))
            if groups and self._format(groups[-1]) == self._format([part]):
                groups[-1].append(part)
            else:
                groups.append([part])
        return tuple(self._matrix([(part,) for part in group], c.hidden) for group in groups)

    def _qkv_bias(self, at: str) -> tuple[Vector, ...]:
        """As many as there are matrices, each of a size with its own."""
        c = self.config
        parts = self._heads(at, "bias")
        total = c.fused_heads * c.head_dim
        for part in parts:
            self._small(part.tensor, (total if c.fused_qkv else part.rows,))
        found = []
        for matrix in self._qkv(at):
            own, parts = parts[: len(matrix.blocks)], parts[len(matrix.blocks) :]
            found.append(Vector(matrix.rows, tuple(own)))
        return tuple(found)

    def _gate_up(self, at: str) -> Matrix:
        c, f = self.config, self.config.feed_forward
        if not c.experts and c.fused_qkv:
            name = self._stored(at + "ffn_up.weight", (2 * f, c.hidden))
            return self._matrix([(Part(name, f), Part(name, f, f))], c.hidden)
        if not c.experts:
            names = [self._stored(f"{at}ffn_{name}.weight", (f, c.hidden)) for name in ("gate", "up")]
            return self._matrix([tuple(Part(name, f) for name in names)], c.hidden)
        both = [self._experts(at, name, (f, c.hidden)) for name in ("gate", "up")]
        return self._matrix(list(zip(*both, strict=True)), c.hidden)

    def _down(self, at: str) -> Matrix:
        c, shape = self.config, (self.config.hidden, self.config.feed_forward)
        if not c.experts:
            return self.matrix([(at + "ffn_down.weight", shape)])
        return self._matrix([(part,) for part in self._experts(at, "down", shape)], c.feed_forward)

    def _experts(self, at: str, name: str, shape: tuple[int, int]) -> list[Part]:
        """A matrix of each expert: of one tensor for all, or of one for each."""
        count, together = self.config.experts, f"{at}ffn_{name}_exps.weight"
        if together in self.checkpoint.tensors:
            self._stored(together, (count, *shape))
            return [Part(together, shape[0], i * shape[0]) for i in range(count)]
        return [Part(self._stored(f"{at}ffn_{name}.{i}.weight", shape), shape[0]) for i in range(count)]

    def matrix(self, shapes: Iterable[tuple[str, tuple[int, int]]]) -> Matrix:
        """Whole tensors, one under the other."""
        parts = [Part(self._stored(name, shape), shape[0]) for name, shape in shapes]
        return self._matrix([(part,) for part in parts], self.checkpoint.tensors[parts[0].tensor].shape[-1])

    def _matrix(self, blocks: list[tuple[Part, ...]], columns: int) -> Matrix:
        parts = [part for block in blocks for part in block]
        form = self._format(parts)
        if columns % block_columns(form):
            raise UnsupportedModelError(
                f"{self.checkpoint.path}: not supported: {parts[0].tensor!r} has rows of {columns}, no multiple of "
                f"{block_columns(form)}",
                path=self.checkpoint.path,
            )
        rows = sum(part.rows for part in parts)
        return Matrix(form, -(-rows // GROUP) * GROUP, columns, tuple(blocks))

    def _format(self, parts: Iterable[Part]) -> str:
        return packed_format({self.checkpoint.tensors[part.tensor].type for part in parts})

    def _stored(self, name: str, shape: tuple[int, ...]) -> str:
        """The name, of a tensor that is there, of that shape and in a format that can be read."""
        tensor = self.checkpoint.tensor(name, shape)
        if not decodable(tensor.type):
            raise UnsupportedModelError(
                f"{self.checkpoint.path}: the tensor {name!r} has the format {tensor.type}, which is not supported",
                path=self.checkpoint.path,
                remedy="use a file in F16, BF16, F32, Q4_0, Q4_1, Q4_K, Q5_0, Q5_1, Q5_K, Q6_K or Q8_0",
            )
        return name

    def _small(self, name: str, shape: tuple[int, ...]) -> None:
        tensor = self.checkpoint.tensor(name, shape)
        if tensor.type not in _FLOATS:
            raise UnsupportedModelError(
                f"{self.checkpoint.path}: the vector {name!r} has the format {tensor.type}, which is not supported",
                path=self.checkpoint.path,
            )

    def vector(self, name: str, size: int, order: HeadOrder | None = None) -> Vector:
        self._small(name, (size,))
        return Vector(size, (Part(name, size, order=order),))

    def refuse_unknown(self, c: ModelConfig) -> None:
        """The same for tensors outside the layers; those of other parts, as of images, have other names."""
        known = {"token_embd.weight", "output_norm.weight", "output.weight", "rope_freqs.weight"}
        known |= {f"rope_factors_{kind}.weight" for kind in ("long", "short") if c.rotary[0].long_frequencies}
        for name in self.checkpoint.tensors:
            if name.startswith(("token_", "position_", "output", "rope_")) and name not in known:
                raise self._unknown(name)

    def _unknown(self, name: str) -> UnsupportedModelError:
        return UnsupportedModelError(
            f"{self.checkpoint.path}: the tensor {name!r} is not supported in the architecture "
            f"{self.config.architecture!r}",
            path=self.checkpoint.path,
            remedy="use another model",
        )

    def _refuse_unknown(self, at: str) -> None:
        """A tensor of a layer that the family does not use would be ignored, and the answers be wrong."""
        c = self.config
        known = {"attn_norm.weight", "attn_output.weight", "ffn_norm.weight", "attn_rot_embd.weight"}
        known |= {"attn_qkv.weight"} if c.fused_qkv else {"attn_q.weight", "attn_k.weight", "attn_v.weight"}
        known |= {f"ffn_{name}.weight" for name in ("gate", "up", "down")} if not c.experts else {"ffn_gate_inp.weight"}
        if c.qkv_bias:
            known |= {"attn_qkv.bias"} if c.fused_qkv else {"attn_q.bias", "attn_k.bias", "attn_v.bias"}
        known |= {"attn_output.bias"} if c.output_bias else set()
        known |= {"attn_q_norm.weight", "attn_k_norm.weight"} if c.head_norms else set()
        known |= {"post_attention_norm.weight", "post_ffw_norm.weight"} if c.post_norms else set()
        for name in self.checkpoint.tensors:
            if name.startswith(at) and (short := name[len(at) :]) not in known:
                expert = c.experts and short.startswith(("ffn_gate", "ffn_up", "ffn_down"))
                if not expert:
                    raise self._unknown(name)
