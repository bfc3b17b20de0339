"""The llama architecture as a Relax module over the CPU kernels: one `step` for any mix of prefill and decode.

Eight calls a layer: norm, fused projection, attention, conversion, output projection with residual, norm, gated unit,
down projection with residual. Parameters are named by `parameter_names`, in the order in which the library takes them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import relax, tirx
from tvm.ir import StringImm
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import Tensor, spec
from tvm.relax.frontend.nn.llm.kv_cache import PagedKVCache

from .kernels.activations import Convert, Embed, Norm
from .kernels.attention import Attention
from .kernels.cache import Append, Compact, CopyPage, Merge, ReadBack, SplitRotary
from .kernels.formats import FORMATS, WeightFormat
from .kernels.isa import Isa
from .kernels.linear import GatedUnit, Linear
from .kernels.rows import Activation
from .plan import LayerPlan, Matrix, ModelPlan

Kernel = (
    Norm
    | Convert
    | Embed
    | Linear
    | GatedUnit
    | Attention
    | SplitRotary
    | Append
    | Merge
    | CopyPage
    | Compact
    | ReadBack
)

_NO_PARAMETERS = {"param_mode": "none", "effect_mode": "none"}
_PACKED_PARAMETERS = {"param_mode": "packed", "effect_mode": "none"}
_CACHE_ARGUMENTS = ("max_batch", "max_tokens", "max_chunk", "page_size", "sliding")


class Kernels:
    """Kernels of one instruction set, each built and added to the module once."""

    def __init__(self, isa: Isa) -> None:
        self.isa = isa
        self._variables: dict[str, Any] = {}

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


class LlamaLayer(nn.Module):  # type: ignore[misc]  # TVM has no type information
    def __init__(self, plan: ModelPlan, layer: LayerPlan, index: int, kernels: Kernels) -> None:
        self._plan, self._layer, self._index, self._kernels = plan, layer, index, kernels
        self.qkv, self.output = _weights(layer.qkv), _weights(layer.output)
        self.gate_up, self.down = _weights(layer.gate_up), _weights(layer.down)
        self.attention_norm = nn.Parameter((plan.config.hidden,), "float32")
        self.feed_forward_norm = nn.Parameter((plan.config.hidden,), "float32")

    def forward(self, x: Tensor, cache: PagedKVCache) -> Tensor:
        c, layer, kernels = self._plan.config, self._layer, self._kernels
        rows = x.shape[0]
        form = FORMATS[layer.qkv.format]
        normed = _norm(kernels, self._plan, x, self.attention_norm, form.activation)
        project = Linear(form, layer.qkv.rows, layer.qkv.columns, head_dim=c.head_dim)
        shape = (rows, c.fused_heads, c.head_dim)
        qkv = kernels.call(project, [self.qkv, normed], shape, kernels.isa.page_dtype)
        attended = self._attend(qkv, cache)
        form = FORMATS[layer.output.format]
        convert = Convert(c.heads, c.head_dim, form.activation)
        converted = _activations(kernels, convert, [attended], rows, c.heads * c.head_dim, form.activation)
        x = _linear_residual(kernels, form, layer.output, self.output, converted, x)
        form, down = FORMATS[layer.gate_up.format], FORMATS[layer.down.format]
        normed = _norm(kernels, self._plan, x, self.feed_forward_norm, form.activation)
        unit = GatedUnit(form, c.feed_forward, c.hidden, down.activation)
        gated = _activations(kernels, unit, [self.gate_up, normed], rows, c.feed_forward, down.activation)
        return _linear_residual(kernels, down, layer.down, self.down, gated, x)

    def _attend(self, qkv: Tensor, cache: PagedKVCache) -> Tensor:
        # The cache's own method reshapes its argument and result, at two calls a layer.
        c = self._plan.config
        arguments = [cache._expr, relax.prim_value(self._index), relax.prim_value(c.head_dim**-0.5), qkv._expr]
        result = relax.TensorType((qkv.shape[0], c.heads, c.head_dim), qkv.dtype)
        name = "vm.builtin.attention_kv_cache_attention_with_fused_qkv"
        call = relax.call_dps_packed(name, arguments, out_ty=result)
        return Tensor(_expr=relax.BlockBuilder.current().emit(call))


class LlamaModel(nn.Module):  # type: ignore[misc]  # TVM has no type information
    """`step(ids, last, cache)` gives the logits of the rows `last`; `create_cache(...)` makes the KV cache."""

    def __init__(self, plan: ModelPlan, kernels: Kernels) -> None:
        self._plan, self._kernels = plan, kernels
        self.embedding = _weights(plan.embedding)
        self.layers = nn.ModuleList([LlamaLayer(plan, layer, i, kernels) for i, layer in enumerate(plan.layers)])
        self.norm = nn.Parameter((plan.config.hidden,), "float32")
        if plan.head is not None:
            self.head = _weights(plan.head)

    def step(self, ids: Tensor, last: Tensor, cache: PagedKVCache) -> Any:
        plan, kernels = self._plan, self._kernels
        table = plan.embedding
        embed = Embed(FORMATS[table.format], table.rows, table.columns)
        x = kernels.call(embed, [self.embedding, ids], (ids.shape[0], table.columns), "float32")
        for layer in self.layers:
            x = layer(x, cache)
        form = FORMATS[plan.logits.format]
        norm = Norm(plan.config.hidden, plan.config.norm_epsilon, form.activation, select=True)
        normed = _activations(kernels, norm, [x, self.norm, last], last.shape[0], plan.config.hidden, form.activation)
        weights = self.embedding if plan.head is None else self.head
        project = Linear(form, plan.logits.rows, plan.logits.columns)
        return kernels.call(project, [weights, normed], (last.shape[0], plan.logits.rows), "float32"), cache

    def create_cache(
        self,
        max_batch: tirx.Var,
        max_tokens: tirx.Var,
        max_chunk: tirx.Var,
        page_size: tirx.Var,
        sliding: tirx.Var,
        table: Tensor,
    ) -> PagedKVCache:
        sizes = [max_batch, max_tokens, max_chunk, page_size, sliding]
        return PagedKVCache(_expr=_create_cache(self._plan, self._kernels, sizes, table), _name="cache")


def build_module(plan: ModelPlan, isa: Isa, *, max_rows: int, max_batch: int) -> tuple[Any, list[str]]:
    """The IRModule of a model, and the names of its parameters in order.

    `max_rows` bounds the tokens and `max_batch` the sequences of a step: with them memory is planned once.
    """
    kernels = Kernels(isa)
    cache = spec.Object(object_type=PagedKVCache)
    table = spec.Tensor(["positions", plan.config.head_dim], "float32")
    ids, last = spec.Tensor(["rows"], "int32"), spec.Tensor(["batch"], "int32")
    specs = {
        "step": {"ids": ids, "last": last, "cache": cache, "$": _PACKED_PARAMETERS},
        "create_cache": {**dict.fromkeys(_CACHE_ARGUMENTS, int), "table": table, "$": _NO_PARAMETERS},
    }
    module, parameters = LlamaModel(plan, kernels).export_tvm(spec=specs)
    module["step"] = module["step"].with_attr("tir_var_upper_bound", {"rows": max_rows, "batch": max_batch})
    return module, [name for name, _ in parameters]


def _weights(matrix: Matrix) -> nn.Parameter:
    return nn.Parameter((FORMATS[matrix.format].packed_bytes(matrix.rows, matrix.columns),), "uint8")


def _activations(
    kernels: Kernels, kernel: Kernel, arguments: Sequence[Tensor], rows: Any, columns: int, kind: Activation
) -> Tensor:
    return kernels.call(kernel, arguments, (rows, kind.row_width(columns)), kind.dtype)


def _norm(kernels: Kernels, plan: ModelPlan, x: Tensor, gain: Tensor, kind: Activation) -> Tensor:
    kernel = Norm(plan.config.hidden, plan.config.norm_epsilon, kind)
    return _activations(kernels, kernel, [x, gain], x.shape[0], plan.config.hidden, kind)


def _linear_residual(
    kernels: Kernels, form: WeightFormat, matrix: Matrix, weights: Tensor, x: Tensor, residual: Tensor
) -> Tensor:
    kernel = Linear(form, matrix.rows, matrix.columns, residual=True)
    return kernels.call(kernel, [weights, x, residual], (x.shape[0], matrix.rows), "float32")


def _create_cache(plan: ModelPlan, kernels: Kernels, sizes: Sequence[tirx.Var], table: Tensor) -> Any:
    """A call of the C++ cache's constructor: 28 arguments in its order, our kernels for all it needs on a CPU."""
    c = plan.config
    none = relax.Tuple([])
    attention = {
        kind: relax.Tuple([StringImm("tirx"), kernels.variable(Attention(kind, c.heads, c.kv_heads, c.head_dim))])
        for kind in ("ragged", "paged", "decode")
    }
    configuration = [
        relax.ShapeExpr(list(sizes)),
        relax.ShapeExpr([0, c.layers]),
        relax.prim_value(c.heads),
        relax.prim_value(c.kv_heads),
        relax.prim_value(c.head_dim),
        relax.prim_value(c.head_dim),
        relax.ShapeExpr([0] * c.layers),  # multi-head attention in every layer
        relax.prim_value(False),  # no disaggregation
        relax.prim_value(1),  # rotate when the projection is split, once
        relax.prim_value(1),
        relax.prim_value(10000),
        table._expr,  # passed on to split_rotary, which ignores scale and theta
        relax.op.zeros((), kernels.isa.page_dtype),
    ]
    functions = [
        kernels.variable(Append(c.kv_heads, c.head_dim)),
        relax.prim_value(0),  # append for latent attention
        attention["ragged"],
        attention["paged"],
        attention["decode"],
        none,  # sliding windows: paged, decode
        none,
        none,  # trees: paged, ragged
        none,
        none,  # latent attention
        relax.Tuple([kernels.variable(Merge(c.heads, c.head_dim))]),
        kernels.variable(SplitRotary(c.heads, c.kv_heads, c.head_dim)),
        kernels.variable(CopyPage(c.kv_heads, c.head_dim)),
        kernels.variable(ReadBack(c.layers, c.kv_heads, c.head_dim)),
        kernels.variable(Compact(c.kv_heads, c.head_dim)),
    ]
    name = "vm.builtin.paged_attention_kv_cache_create"
    return relax.call_pure_packed(name, *configuration, *functions, ty_args=relax.AnyType())
