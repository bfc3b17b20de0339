"""The llama architecture as a Relax module over the CPU kernels: one `step` for any mix of prefill and decode.

Eight calls a layer: norm, fused projection, attention, conversion, output projection with residual, norm, gated unit,
down projection with residual. Parameters have the names of `ModelPlan.parameters`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax
from tvm.relax.frontend import nn
from tvm.relax.frontend.nn import Tensor, spec

from .kernels.activations import Convert, Embed, Norm
from .kernels.attention import Attention, page_shape
from .kernels.cache import Append
from .kernels.formats import FORMATS, WeightFormat
from .kernels.isa import Isa
from .kernels.linear import GatedUnit, Linear
from .kernels.rows import Activation
from .plan import LayerPlan, Matrix, ModelPlan

Kernel = Norm | Convert | Embed | Linear | GatedUnit | Attention | Append

_PACKED_PARAMETERS = {"param_mode": "packed", "effect_mode": "none"}


@dataclass(frozen=True)
class StepInputs:
    """What a step is told beside its tokens; see `runtime/kv.py` for the meaning of each."""

    positions: Tensor
    slots: Tensor
    lengths: Tensor
    query_bounds: Tensor
    page_bounds: Tensor
    page_ids: Tensor
    table: Tensor


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

    def append(self, kernel: Append, arguments: Sequence[Tensor], pages: Tensor) -> tuple[Tensor, Tensor]:
        """Queries, and the same pages, changed in place: whatever reads them comes after."""
        rows = arguments[0].shape[0]
        expressions = [argument._expr for argument in (*arguments, pages)]
        queries = relax.TensorType((rows, kernel.heads, kernel.head_dim), pages.dtype)
        types = [relax.TensorType(pages.shape, pages.dtype), queries]
        call = relax.call_tir_inplace(self.variable(kernel), expressions, [len(arguments), -1], types)
        result = relax.BlockBuilder.current().emit(call)
        changed, made = (relax.BlockBuilder.current().emit(relax.TupleGetItem(result, i)) for i in range(2))
        return Tensor(_expr=made), Tensor(_expr=changed)


class LlamaLayer(nn.Module):  # type: ignore[misc]  # TVM has no type information
    def __init__(self, plan: ModelPlan, layer: LayerPlan, kernels: Kernels) -> None:
        self._plan, self._layer, self._kernels = plan, layer, kernels
        self.qkv, self.output = _weights(layer.qkv), _weights(layer.output)
        self.gate_up, self.down = _weights(layer.gate_up), _weights(layer.down)
        self.attention_norm = nn.Parameter((plan.config.hidden,), "float32")
        self.feed_forward_norm = nn.Parameter((plan.config.hidden,), "float32")

    def forward(self, x: Tensor, inputs: StepInputs, pages: Tensor) -> Tensor:
        c, layer, kernels = self._plan.config, self._layer, self._kernels
        rows = x.shape[0]
        form = FORMATS[layer.qkv.format]
        normed = _norm(kernels, self._plan, x, self.attention_norm, form.activation)
        project = Linear(form, layer.qkv.rows, layer.qkv.columns, head_dim=c.head_dim)
        shape = (rows, c.fused_heads, c.head_dim)
        qkv = kernels.call(project, [self.qkv, normed], shape, kernels.isa.page_dtype)
        attended = self._attend(qkv, inputs, pages)
        form = FORMATS[layer.output.format]
        convert = Convert(c.heads, c.head_dim, form.activation)
        converted = _activations(kernels, convert, [attended], rows, c.heads * c.head_dim, form.activation)
        x = _linear_residual(kernels, form, layer.output, self.output, converted, x)
        form, down = FORMATS[layer.gate_up.format], FORMATS[layer.down.format]
        normed = _norm(kernels, self._plan, x, self.feed_forward_norm, form.activation)
        unit = GatedUnit(form, c.feed_forward, c.hidden, down.activation)
        gated = _activations(kernels, unit, [self.gate_up, normed], rows, c.feed_forward, down.activation)
        return _linear_residual(kernels, down, layer.down, self.down, gated, x)

    def _attend(self, qkv: Tensor, inputs: StepInputs, pages: Tensor) -> Tensor:
        c, kernels = self._plan.config, self._kernels
        append = Append(c.heads, c.kv_heads, c.head_dim)
        queries, pages = kernels.append(append, [qkv, inputs.positions, inputs.slots, inputs.table], pages)
        where = [inputs.lengths, inputs.query_bounds, inputs.page_bounds, inputs.page_ids]
        shape = (qkv.shape[0], c.heads, c.head_dim)
        return kernels.call(Attention(c.heads, c.kv_heads, c.head_dim), [queries, pages, *where], shape, pages.dtype)


class LlamaModel(nn.Module):  # type: ignore[misc]  # TVM has no type information
    """`step(ids, last, ...)` gives the logits of the rows `last`."""

    def __init__(self, plan: ModelPlan, kernels: Kernels) -> None:
        self._plan, self._kernels = plan, kernels
        self.embedding = _weights(plan.embedding)
        self.layers = nn.ModuleList([LlamaLayer(plan, layer, kernels) for layer in plan.layers])
        self.norm = nn.Parameter((plan.config.hidden,), "float32")
        if plan.head is not None:
            self.head = _weights(plan.head)

    def step(
        self,
        ids: Tensor,
        last: Tensor,
        positions: Tensor,
        slots: Tensor,
        lengths: Tensor,
        query_bounds: Tensor,
        page_bounds: Tensor,
        page_ids: Tensor,
        table: Tensor,
        pages: Sequence[Tensor],
    ) -> Tensor:
        plan, kernels = self._plan, self._kernels
        words = plan.embedding
        embed = Embed(FORMATS[words.format], words.rows, words.columns)
        x = kernels.call(embed, [self.embedding, ids], (ids.shape[0], words.columns), "float32")
        inputs = StepInputs(positions, slots, lengths, query_bounds, page_bounds, page_ids, table)
        for layer, own in zip(self.layers, pages, strict=True):
            x = layer(x, inputs, own)
        form = FORMATS[plan.logits.format]
        norm = Norm(plan.config.hidden, plan.config.norm_epsilon, form.activation, select=True)
        normed = _activations(kernels, norm, [x, self.norm, last], last.shape[0], plan.config.hidden, form.activation)
        weights = self.embedding if plan.head is None else self.head
        project = Linear(form, plan.logits.rows, plan.logits.columns)
        return kernels.call(project, [weights, normed], (last.shape[0], plan.logits.rows), "float32")


def build_module(plan: ModelPlan, isa: Isa, *, max_rows: int, max_batch: int) -> tuple[Any, list[str]]:
    """The IRModule of a model, and the names of its parameters in order.

    `max_rows` bounds the tokens of a step, and so the rows of logits, and `max_batch` its sequences: with them memory
    is planned once.
    """
    kernels, c = Kernels(isa), plan.config
    sizes = {
        "ids": "rows", "last": "outputs", "positions": "rows", "slots": "rows", "lengths": "batch",
        "query_bounds": "ends", "page_bounds": "ends", "page_ids": "listed",
    }  # fmt: skip
    inputs: dict[str, Any] = {name: spec.Tensor([size], "int32") for name, size in sizes.items()}
    inputs["table"] = spec.Tensor(["context", c.head_dim], "float32")
    pages = spec.Tensor(list(page_shape("pages", c.kv_heads, c.head_dim)), isa.page_dtype)
    inputs["pages"] = [pages] * c.layers
    specs = {"step": {**inputs, "$": _PACKED_PARAMETERS}}
    module, parameters = LlamaModel(plan, kernels).export_tvm(spec=specs)
    bounds = {"rows": max_rows, "outputs": max_rows, "batch": max_batch}
    module["step"] = module["step"].with_attr("tir_var_upper_bound", bounds)
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
