"""The decoder that families share, as a Relax module over the CPU kernels: one `step` for prefill and decode mixed.

Eight calls a layer in the plainest family: norm, fused projection, attention with its cache, conversion, output
projection with residual, norm, gated unit, down projection with residual. What else a family has (head norms, norms
behind attention and feed-forward, experts) is in its config and plan. Parameters have the names of
`ModelPlan.parameters`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm import relax
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import Tensor, spec

from .kernels.activations import Convert, Embed, Norm, NormAdd
from .kernels.attention import Attention, page_shape
from .kernels.builder import Kernel
from .kernels.cache import Append
from .kernels.experts import Combine, ExpertDown, ExpertUnit, Route
from .kernels.formats import FORMATS
from .kernels.isa import Isa
from .kernels.linear import GatedUnit, Linear
from .kernels.rows import Activation
from .kernels.threads import Threads
from .plan import LayerPlan, Matrix, ModelPlan, Vector

_PACKED_PARAMETERS = {"param_mode": "packed", "effect_mode": "none"}


@dataclass(frozen=True)
class StepInputs:
    """What a step is told beside its tokens; see `runtime/kv.py` for the meaning of each. `tables`: rotary angles."""

    positions: Tensor
    slots: Tensor
    sequences: Tensor
    block_bounds: Tensor
    block_rows: Tensor
    block_pages: Tensor
    page_bounds: Tensor
    page_ids: Tensor
    tables: Sequence[Tensor]


class Kernels:
    """Kernels of one instruction set, each built and added to the module once."""

    def __init__(self, isa: Isa | Threads) -> None:
        self.isa = isa
        self._variables: dict[str, Any] = {}

    def activation(self, matrix: Matrix) -> Activation:
        """The kind of rows that a matrix is multiplied with."""
        return self.isa.activation(FORMATS[matrix.format])

    def variable(self, kernel: Kernel) -> Any:
        """The module's global variable of a kernel."""
        if kernel.name not in self._variables:
            function = kernel.build(self.isa)
            self._variables[kernel.name] = relax.BlockBuilder.current().add_func(function, kernel.name)
        return self._variables[kernel.name]

    def call(self, kernel: Kernel, arguments: Sequence[Tensor], shape: Sequence[Any], dtype: str) -> Tensor:
        expressions = [argument._expr for argument in arguments]
        call = relax.call_tir(self.variable(kernel), expressions, out_ty=relax.TensorType(shape, dtype))
        return Tensor(_expr=relax.BlockBuilder.current().emit(call))

    def activations(
        self, kernel: Kernel, arguments: Sequence[Tensor], rows: Any, columns: int, kind: Activation
    ) -> Tensor:
        """A call that gives rows of activations."""
        return self.call(kernel, arguments, (rows, kind.row_width(columns)), kind.dtype)

    def route(self, kernel: Route, scores: Tensor) -> tuple[Tensor, Tensor]:
        """(weights, order) of the experts of each token."""
        pairs = scores.shape[0] * kernel.used
        types = [
            relax.TensorType((pairs,), "float32"),
            relax.TensorType((pairs + kernel.experts + 1,), "int32"),
            relax.TensorType((pairs,), "int32"),
        ]
        call = relax.call_tir(self.variable(kernel), [scores._expr], out_ty=types)
        weights, order, _ = self._items(call, 3)
        return weights, order

    def append(self, kernel: Append, arguments: Sequence[Tensor], pages: Tensor) -> tuple[Tensor, Tensor]:
        """Queries, and the same pages, changed in place: whatever reads them comes after."""
        rows = arguments[0].shape[0]
        expressions = [argument._expr for argument in (*arguments, pages)]
        queries = relax.TensorType((rows, kernel.heads, kernel.head_dim), pages.dtype)
        types = [relax.TensorType(pages.shape, pages.dtype), queries]
        call = relax.call_tir_inplace(self.variable(kernel), expressions, [len(arguments), -1], types)
        changed, made = self._items(call, 2)
        return made, changed

    def _items(self, call: Any, count: int) -> list[Tensor]:
        builder = relax.BlockBuilder.current()
        result = builder.emit(call)
        return [Tensor(_expr=builder.emit(relax.TupleGetItem(result, i))) for i in range(count)]


class DecoderLayer(nn.Module):  # type: ignore[misc]  # TVM has no type information
    def __init__(self, plan: ModelPlan, index: int, kernels: Kernels) -> None:
        layer: LayerPlan = plan.layers[index]
        self._config, self._layer, self._kernels = plan.config, layer, kernels
        self._attention = plan.config.attention[index]
        self.attention_norm = _vector(layer.attention_norm)
        self.qkv = nn.ParameterList([_weights(matrix, kernels) for matrix in layer.qkv])
        self.qkv_bias = nn.ParameterList([_vector(bias) for bias in layer.qkv_bias])
        self.output = _weights(layer.output, kernels)
        self.feed_forward_norm = _vector(layer.feed_forward_norm)
        self.gate_up, self.down = _weights(layer.gate_up, kernels), _weights(layer.down, kernels)
        for name in ("output_bias", "query_norm", "key_norm", "attention_post_norm", "feed_forward_post_norm"):
            vector = getattr(layer, name)
            setattr(self, name, None if vector is None else _vector(vector))
        self.router = None if layer.router is None else _weights(layer.router, kernels)

    def forward(self, x: Tensor, inputs: StepInputs, pages: Tensor) -> Tensor:
        attended = self._attend(self._project(x), inputs, pages)
        c, matrix = self._config, self._layer.output
        kind = self._kernels.activation(matrix)
        wide = c.heads * c.head_dim
        converted = self._kernels.activations(Convert(c.heads, c.head_dim, kind), [attended], x.shape[0], wide, kind)
        x = self._add(matrix, self.output, converted, x, self.attention_post_norm, self.output_bias)
        return self._experts(x) if c.experts else self._feed_forward(x)

    def _norm(self, x: Tensor, gain: Tensor, kind: Activation) -> Tensor:
        c = self._config
        return self._kernels.activations(Norm(c.hidden, c.norm_epsilon, kind), [x, gain], x.shape[0], c.hidden, kind)

    def _project(self, x: Tensor) -> list[Tensor]:
        """Query, key and value heads, by one matrix or several."""
        c, found, normed = self._config, [], {}
        for i, matrix in enumerate(self._layer.qkv):
            form, kind = FORMATS[matrix.format], self._kernels.activation(matrix)
            if kind not in normed:
                normed[kind] = self._norm(x, self.attention_norm, kind)
            bias = [self.qkv_bias[i]] if c.qkv_bias else []
            kernel = Linear(form, matrix.rows, matrix.columns, bias=c.qkv_bias, head_dim=c.head_dim)
            shape = (x.shape[0], matrix.rows // c.head_dim, c.head_dim)
            arguments = [self.qkv[i], normed[kind], *bias]
            found.append(self._kernels.call(kernel, arguments, shape, self._kernels.isa.page_dtype))
        return found

    def _attend(self, heads: list[Tensor], inputs: StepInputs, pages: Tensor) -> Tensor:
        c, kernels, own = self._config, self._kernels, self._attention
        parts = tuple(matrix.rows // c.head_dim for matrix in self._layer.qkv)
        epsilon = c.norm_epsilon if c.head_norms else None
        append = Append(c.heads, c.kv_heads, c.head_dim, parts, epsilon)
        gains = [self.query_norm, self.key_norm] if c.head_norms else []
        table = inputs.tables[own.rotary]
        queries, pages = kernels.append(append, [*heads, *gains, inputs.positions, inputs.slots, table], pages)
        where = [
            inputs.positions, inputs.sequences, inputs.block_bounds, inputs.block_rows, inputs.block_pages,
            inputs.page_bounds, inputs.page_ids,
        ]  # fmt: skip
        shape = (heads[0].shape[0], c.heads, c.head_dim)
        attention = Attention(
            c.heads, c.kv_heads, c.head_dim, scale=c.attention_scale, window=own.window, cap=c.attention_cap
        )
        return kernels.call(attention, [queries, pages, *where], shape, pages.dtype)

    def _feed_forward(self, x: Tensor) -> Tensor:
        c, layer = self._config, self._layer
        form, kind = FORMATS[layer.gate_up.format], self._kernels.activation(layer.down)
        normed = self._norm(x, self.feed_forward_norm, self._kernels.activation(layer.gate_up))
        unit = GatedUnit(form, c.feed_forward, c.hidden, kind, c.activation)
        gated = self._kernels.activations(unit, [self.gate_up, normed], x.shape[0], c.feed_forward, kind)
        return self._add(layer.down, self.down, gated, x, self.feed_forward_post_norm)

    def _experts(self, x: Tensor) -> Tensor:
        c, layer, kernels, rows = self._config, self._layer, self._kernels, x.shape[0]
        assert layer.router is not None
        form, down = FORMATS[layer.gate_up.format], FORMATS[layer.down.format]
        routing = FORMATS[layer.router.format]
        normed = self._norm(x, self.feed_forward_norm, routing.activation)
        scores = Linear(routing, layer.router.rows, layer.router.columns)
        scored = kernels.call(scores, [self.router, normed], (rows, layer.router.rows), "float32")
        weights, order = kernels.route(Route(c.experts, c.experts_used, layer.router.rows), scored)
        if form.activation != routing.activation:
            normed = self._norm(x, self.feed_forward_norm, form.activation)
        pairs = rows * c.experts_used
        unit = GatedUnit(form, c.feed_forward, c.hidden, down.activation, c.activation)
        each = ExpertUnit(unit, c.experts, c.experts_used)
        gated = kernels.activations(each, [self.gate_up, normed, order], pairs, c.feed_forward, down.activation)
        project = ExpertDown(down, c.hidden, c.feed_forward, c.experts)
        found = kernels.call(project, [self.down, gated, order], (pairs, c.hidden), "float32")
        return kernels.call(Combine(c.hidden, c.experts_used), [found, weights, x], (rows, c.hidden), "float32")

    def _add(
        self, matrix: Matrix, weights: Tensor, x: Tensor, residual: Tensor, gain: Tensor | None,
        bias: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """The residual and the product of x, which goes through a norm first if there is a gain."""
        c, kernels = self._config, self._kernels
        kernel = Linear(
            FORMATS[matrix.format], matrix.rows, matrix.columns, bias=bias is not None, residual=gain is None
        )
        arguments = [weights, x] + ([] if bias is None else [bias]) + ([residual] if gain is None else [])
        shape = (x.shape[0], matrix.rows)
        product = kernels.call(kernel, arguments, shape, "float32")
        if gain is None:
            return product
        return kernels.call(NormAdd(c.hidden, c.norm_epsilon), [product, gain, residual], shape, "float32")


class Decoder(nn.Module):  # type: ignore[misc]  # TVM has no type information
    """`step(ids, last, ...)` gives the logits of the rows `last`, and what the layers made of every row."""

    def __init__(self, plan: ModelPlan, kernels: Kernels) -> None:
        self._plan, self._kernels = plan, kernels
        self.embedding = _weights(plan.embedding, kernels)
        self.layers = nn.ModuleList([DecoderLayer(plan, i, kernels) for i in range(plan.config.layers)])
        self.norm = _vector(plan.norm)
        if plan.head is not None:
            self.head = _weights(plan.head, kernels)

    def step(
        self,
        ids: Tensor,
        last: Tensor,
        positions: Tensor,
        slots: Tensor,
        sequences: Tensor,
        block_bounds: Tensor,
        block_rows: Tensor,
        block_pages: Tensor,
        page_bounds: Tensor,
        page_ids: Tensor,
        tables: Sequence[Tensor],
        pages: Sequence[Tensor],
    ) -> tuple[Tensor, Tensor]:
        plan, kernels, c = self._plan, self._kernels, self._plan.config
        words = plan.embedding
        embed = Embed(FORMATS[words.format], words.rows, words.columns, c.embedding_scale)
        x = kernels.call(embed, [self.embedding, ids], (ids.shape[0], words.columns), "float32")
        inputs = StepInputs(
            positions, slots, sequences, block_bounds, block_rows, block_pages, page_bounds, page_ids, tables
        )
        for layer, own in zip(self.layers, pages, strict=True):
            x = layer(x, inputs, own)
        form = FORMATS[plan.logits.format]
        kind = kernels.activation(plan.logits)
        norm = Norm(c.hidden, c.norm_epsilon, kind, select=True)
        normed = kernels.activations(norm, [x, self.norm, last], last.shape[0], c.hidden, kind)
        weights = self.embedding if plan.head is None else self.head
        project = Linear(form, plan.logits.rows, plan.logits.columns, cap=c.logit_cap)
        return kernels.call(project, [weights, normed], (last.shape[0], plan.logits.rows), "float32"), x


def build_module(plan: ModelPlan, isa: Isa | Threads, *, max_rows: int, max_batch: int) -> tuple[Any, list[str]]:
    """The IRModule of a model, and the names of its parameters in order.

    `max_rows` bounds the tokens of a step, and so the rows of logits, and `max_batch` its sequences: with them memory
    is planned once.
    """
    kernels, c = Kernels(isa), plan.config
    sizes = {
        "ids": "rows", "last": "outputs", "positions": "rows", "slots": "rows", "sequences": "rows",
        "block_bounds": "block_ends", "block_rows": "rows", "block_pages": "blocks",
        "page_bounds": "ends", "page_ids": "listed",
    }  # fmt: skip
    inputs: dict[str, Any] = {name: spec.Tensor([size], "int32") for name, size in sizes.items()}
    inputs["tables"] = [spec.Tensor(["context", c.head_dim], "float32")] * len(c.rotary)
    pages = spec.Tensor(list(page_shape("pages", c.kv_heads, c.head_dim)), isa.page_dtype)
    inputs["pages"] = [pages] * c.layers
    specs = {"step": {**inputs, "$": _PACKED_PARAMETERS}}
    module, parameters = Decoder(plan, kernels).export_tvm(spec=specs)
    bounds = {"rows": max_rows, "outputs": max_rows, "blocks": max_rows // 8 + max_batch}
    module["step"] = module["step"].with_attr("tir_var_upper_bound", bounds)
    return module, [name for name, _ in parameters]


def _weights(matrix: Matrix, kernels: Kernels) -> nn.Parameter:
    dtype = kernels.isa.weight_dtype
    size = FORMATS[matrix.format].packed_bytes(matrix.rows, matrix.columns)
    return nn.Parameter((size // np.dtype(dtype).itemsize,), dtype)


def _vector(vector: Vector) -> nn.Parameter:
    return nn.Parameter((vector.size,), "float32")
