"""What families have in common: dimensions from GGUF's metadata, and Hugging Face's folders in GGUF's terms.

A family is a class over `Family` that says what is different about it. All else (planning, loading, compiling) reads
the `ModelConfig` that it gives.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np

from ...errors import UnsupportedModelError
from ..blocks import decode
from ..checkpoint import Checkpoint, StoredTensor
from ..config import LayerAttention, ModelConfig
from ..plan import ModelPlan, plan_decoder
from ..rotary import Rotary, divided, llama3_factors, plain, yarn, yarn_magnitude
from ..values import Values

# Hugging Face's names inside a layer, and GGUF's.
LAYER_NAMES: Mapping[str, str] = MappingProxyType({
    "input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm",
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down",
})  # fmt: skip
_OUTER_NAMES: Mapping[str, str] = MappingProxyType(
    {"embed_tokens.weight": "token_embd.weight", "norm.weight": "output_norm.weight", "lm_head.weight": "output.weight"}
)
_FACTORS = "rope_freqs.weight"


class Family:
    """A family of the common kind; see `plugins/families.py` for who calls what.

    `architecture`: GGUF's name of it. `architectures`: that, and the `model_type` and `architectures` of its
    `config.json`. `layer_names`: what its tensors are called beside LAYER_NAMES. `norm_shift`: what Hugging Face's norm
    gains lack. `paired_heads`: GGUF orders query and key rows for rotating neighbouring columns.
    """

    name: ClassVar[str]
    architecture: ClassVar[str]
    architectures: ClassVar[Sequence[str]]
    layer_names: ClassVar[Mapping[str, str]] = {}
    norm_shift: ClassVar[float] = 0.0
    paired_heads: ClassVar[bool] = False

    def config(self, checkpoint: Checkpoint) -> ModelConfig:
        """From GGUF's metadata. Raises ModelFileError for missing or impossible values, UnsupportedModelError."""
        return common_config(checkpoint, paired_heads=self.paired_heads)

    def metadata(self, values: Values) -> dict[str, Any]:
        """GGUF's metadata from a `config.json`, and vectors of factors of frequencies by the tensors' names."""
        return common_metadata(values, self.architecture)

    def translate(self, source: Checkpoint) -> Checkpoint:
        """A folder's checkpoint in GGUF's terms; one that has them already as it is."""
        if "general.architecture" in source.metadata:
            return source
        values = Values(source.path, source.metadata)
        found = self.metadata(values)
        tensors = {}
        for key in [key for key, value in found.items() if isinstance(value, np.ndarray)]:
            tensors[key] = _vector(key, found.pop(key))
        for old, tensor in source.tensors.items():
            name = self.tensor_name(old)
            if name == old and _short(old).startswith("layers."):  # ignored, it would make the answers wrong
                raise values.refuse(f"the tensor {old!r} in the architecture {self.name!r}")
            if name is not None:
                tensors[name] = self._shifted(replace(tensor, name=name))
        if values.flag("tie_word_embeddings", default=self._tied):
            tensors.pop("output.weight", None)
        elif "output.weight" not in tensors:
            raise values.fail("the tensor 'lm_head.weight' is missing, and config.json does not tie it to the table")
        kept = {key: value for key, value in source.metadata.items() if key.startswith("tokenizer.")}
        return replace(source, metadata={**found, **kept}, tensors=tensors, paired_heads=False)

    _tied: ClassVar[bool] = False  # without a word about it in config.json

    def tensor_name(self, name: str) -> str | None:
        """GGUF's name of a tensor of a folder; None for one that no model needs. Unknown names stay as they are."""
        short = _short(name)
        if short.endswith(("rotary_emb.inv_freq", "masked_bias")):
            return None
        if short in _OUTER_NAMES:
            return _OUTER_NAMES[short]
        head, _, rest = short.partition(".")
        number, _, inner = rest.partition(".")
        module, _, kind = inner.rpartition(".")
        known = self.layer_names.get(module) or LAYER_NAMES.get(module)
        return f"blk.{number}.{known}.{kind}" if head == "layers" and known else name

    def _shifted(self, tensor: StoredTensor) -> StoredTensor:
        if not self.norm_shift or "norm" not in tensor.name or len(tensor.shape) != 1:
            return tensor
        return _vector(tensor.name, decode(tensor.data, tensor.type)[0] + np.float32(self.norm_shift))

    def plan(self, source: Checkpoint, /) -> ModelPlan:
        config = self.config(source)
        _check(source, config)
        return plan_decoder(source, config)

    def build(self, plan: ModelPlan, isa: Any, /, *, max_rows: int, max_batch: int) -> tuple[Any, Sequence[str]]:
        from ..decoder import build_module  # brings in TVM

        return build_module(plan, isa, max_rows=max_rows, max_batch=max_batch)

    def shape_key(self, plan: ModelPlan, /) -> Mapping[str, Any]:
        return {}


def _short(name: str) -> str:
    """Without what a folder puts in front of the decoder's names."""
    return name.removeprefix("model.").removeprefix("language_model.").removeprefix("model.")


def common_config(checkpoint: Checkpoint, *, paired_heads: bool = False) -> ModelConfig:
    """What nearly all architectures write alike."""
    plain_values = Values(checkpoint.path, checkpoint.metadata)
    architecture = plain_values.text("general.architecture")
    values = plain_values.under(architecture + ".")
    heads, hidden = values.count("attention.head_count"), values.count("embedding_length")
    head_dim = values.count("attention.key_length", hidden // heads)
    if values.count("attention.value_length", head_dim) != head_dim:
        raise values.refuse("values are of another size than keys")
    table = checkpoint.tensors.get("token_embd.weight")
    window = int(values.maybe("attention.sliding_window"))
    return ModelConfig(
        architecture=architecture,
        hidden=hidden,
        feed_forward=values.count("feed_forward_length"),
        heads=heads,
        kv_heads=values.count("attention.head_count_kv", heads),
        head_dim=head_dim,
        vocab_size=table.shape[0] if table is not None else values.count("vocab_size"),
        context_length=values.count("context_length"),
        norm_epsilon=values.number("attention.layer_norm_rms_epsilon"),
        attention=(LayerAttention(window),) * values.count("block_count"),
        rotary=(_rotary(values, checkpoint, head_dim),),
        attention_scale=values.maybe("attention.scale") or head_dim**-0.5,
        attention_cap=values.maybe("attn_logit_softcapping"),
        logit_cap=values.maybe("final_logit_softcapping"),
        paired_heads=paired_heads,
    )


def _rotary(values: Values, checkpoint: Checkpoint, head_dim: int) -> Rotary:
    theta = values.number("rope.freq_base", 10000.0)
    rotated = values.count("rope.dimension_count", head_dim)
    if rotated > head_dim or rotated % 4:
        raise values.refuse(f"{rotated} of {head_dim} columns of a head are rotated")
    kind = values.optional("rope.scaling.type", str) or "none"
    frequencies, magnitude = plain(theta, rotated, head_dim), 1.0
    if kind == "linear":
        frequencies = divided(frequencies, values.number("rope.scaling.factor"))
    elif kind == "yarn":
        factor = values.number("rope.scaling.factor")
        original = values.number("rope.scaling.original_context_length")
        scaled = yarn(
            theta, rotated, factor=factor, original=original,
            fast=values.number("rope.scaling.yarn_beta_fast", 32.0),
            slow=values.number("rope.scaling.yarn_beta_slow", 1.0),
        )  # fmt: skip
        frequencies = (*scaled, *frequencies[len(scaled) :])
        magnitude = values.number("rope.scaling.attn_factor", yarn_magnitude(factor))
    elif kind not in ("none", "longrope"):
        raise values.refuse(f"rope scaling {kind!r}", "use a model without it")
    if _FACTORS in checkpoint.tensors:
        frequencies = divided(frequencies, factors(checkpoint, _FACTORS, len(frequencies)))
    return Rotary(frequencies, magnitude)


def factors(checkpoint: Checkpoint, name: str, count: int) -> list[float]:
    """A stored vector of divisors of frequencies."""
    tensor = checkpoint.tensor(name, (count,))
    found = decode(tensor.data, tensor.type)[0]
    if not (np.isfinite(found).all() and (found > 0).all()):
        raise Values(checkpoint.path, {}).fail(f"the tensor {name!r} has values that are no positive numbers")
    return [float(value) for value in found]


def common_metadata(values: Values, architecture: str) -> dict[str, Any]:
    """What nearly all `config.json` call alike, under GGUF's keys."""
    heads, hidden = values.count("num_attention_heads"), values.count("hidden_size")
    head_dim = values.count("head_dim", hidden // heads)
    activation = values.get("hidden_activation") or values.get("hidden_act") or "silu"
    if activation not in ("silu", "gelu", "gelu_pytorch_tanh"):
        raise values.refuse(f"the activation {activation!r}")
    at = architecture + "."
    window = values.optional("sliding_window", int) if values.flag("use_sliding_window", default=True) else None
    return {
        "general.architecture": architecture,
        at + "block_count": values.count("num_hidden_layers"),
        at + "embedding_length": hidden,
        at + "feed_forward_length": values.count("intermediate_size"),
        at + "attention.head_count": heads,
        at + "attention.head_count_kv": values.count("num_key_value_heads", heads),
        at + "attention.key_length": head_dim,
        at + "attention.value_length": head_dim,
        at + "attention.layer_norm_rms_epsilon": values.number("rms_norm_eps"),
        at + "context_length": values.count("max_position_embeddings"),
        at + "rope.dimension_count": int(head_dim * _partial(values)),
        **({at + "attention.sliding_window": window} if window else {}),
        **rope_metadata(values, at, int(head_dim * _partial(values))),
    }


def _partial(values: Values) -> float:
    parameters = values.get("rope_parameters")
    inner = parameters.get("partial_rotary_factor") if isinstance(parameters, dict) else None
    return float(inner or values.number("partial_rotary_factor", 1.0))


def rope_metadata(values: Values, at: str, rotated: int) -> dict[str, Any]:
    """Of `rope_theta` and `rope_scaling`, or of `rope_parameters`, which has both. Arrays are vectors for tensors."""
    scaling = values.get("rope_parameters") or values.get("rope_scaling") or {}
    if not isinstance(scaling, dict):
        raise values.fail(f"the metadata's 'rope_scaling' is {scaling!r}, no object")
    inner = Values(values.path, scaling)
    theta = inner.number("rope_theta", values.number("rope_theta", 10000.0))
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    found: dict[str, Any] = {at + "rope.freq_base": theta}
    if kind in ("default", None):
        return found
    if kind == "llama3":
        divisors = llama3_factors(
            theta, rotated, factor=inner.number("factor"), low=inner.number("low_freq_factor"),
            high=inner.number("high_freq_factor"), original=inner.number("original_max_position_embeddings"),
        )  # fmt: skip
        return found | {_FACTORS: np.array(divisors, np.float32)}
    if kind in ("linear", "yarn"):
        found |= {at + "rope.scaling.type": kind, at + "rope.scaling.factor": inner.number("factor")}
        if kind == "yarn":
            _refuse_mscale(inner)
            original = inner.count("original_max_position_embeddings", values.count("max_position_embeddings"))
            found[at + "rope.scaling.original_context_length"] = original
            for key, name in (("beta_fast", "yarn_beta_fast"), ("beta_slow", "yarn_beta_slow")):
                if inner.get(key) is not None:
                    found[at + "rope.scaling." + name] = inner.number(key)
            if inner.get("attention_factor") is not None:
                found[at + "rope.scaling.attn_factor"] = inner.number("attention_factor")
        return found
    if kind in ("longrope", "su"):
        return found | _longrope(values, inner, at, rotated)
    raise values.refuse(f"rope scaling {kind!r}", "use a model without it")


def _refuse_mscale(inner: Values) -> None:
    if inner.get("mscale") or inner.get("mscale_all_dim"):
        raise inner.refuse("rope scaling 'yarn' with mscale")


def _longrope(values: Values, inner: Values, at: str, rotated: int) -> dict[str, Any]:
    """Two vectors of factors, for contexts within the original one and beyond (Ding et al., LongRoPE, 2024)."""
    longest = values.count("max_position_embeddings")
    original = values.get("original_max_position_embeddings") or inner.get("original_max_position_embeddings")
    original = longest if original is None else int(original)
    ratio = longest / original
    magnitude = math.sqrt(1 + math.log(ratio) / math.log(original)) if ratio > 1 else 1.0
    return {
        at + "rope.scaling.type": "longrope",
        at + "rope.scaling.original_context_length": original,
        at + "rope.scaling.attn_factor": inner.number("attention_factor", magnitude),
        "rope_factors_long.weight": np.array(inner.numbers("long_factor", rotated // 2), np.float32),
        "rope_factors_short.weight": np.array(inner.numbers("short_factor", rotated // 2), np.float32),
    }


def _vector(name: str, values: np.ndarray[Any, np.dtype[np.float32]]) -> StoredTensor:
    return StoredTensor(name, "F32", values.shape, values.astype(np.float32).view(np.uint8).reshape(1, -1))


def _check(source: Checkpoint, config: ModelConfig) -> None:
    """What the kernels need of the dimensions."""
    c = config
    problems = {
        "the query heads are no multiple of the key heads": c.heads % c.kv_heads,
        f"the head size {c.head_dim} is no multiple of 16": c.head_dim % 16,
        f"the hidden size {c.hidden} is no multiple of 32": c.hidden % 32,
        f"the feed-forward size {c.feed_forward} is no multiple of 32": c.feed_forward % 32,
        "the attention width is no multiple of 32": c.heads * c.head_dim % 32,
        f"a token takes {c.experts_used} of {c.experts} experts": c.experts and not 0 < c.experts_used <= c.experts,
    }
    for problem, found in problems.items():
        if found:
            raise UnsupportedModelError(
                f"{source.path}: not supported: {problem}", path=source.path, remedy="use another model"
            )
