"""Gemma 1, 2 and 3.

Gemma: the table scaled by the root of the hidden size and used as output projection too, gains stored less one by
Hugging Face (GGUF stores them whole), a gated unit with GELU. Gemma 2: norms behind attention and feed-forward, soft
caps on scores and logits, every other layer local. Gemma 3: norms of query and key heads for the caps on scores, five
local layers to a global one, and other rotary frequencies in local layers.
Source: the technical reports of the Gemma team (2024, 2024, 2025).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

from ..checkpoint import Checkpoint
from ..config import LayerAttention, ModelConfig
from ..rotary import Rotary, plain
from ..values import Values
from .base import Family, common_metadata


class Gemma(Family):
    name = "gemma"
    architecture = "gemma"
    architectures: ClassVar[Sequence[str]] = ("gemma", "GemmaForCausalLM")
    norm_shift = 1.0
    _tied = True

    def config(self, checkpoint: Checkpoint) -> ModelConfig:
        config = super().config(checkpoint)
        return replace(config, activation="gelu", embedding_scale=config.hidden**0.5)


class Gemma2(Gemma):
    name = "gemma2"
    architecture = "gemma2"
    architectures: ClassVar[Sequence[str]] = ("gemma2", "Gemma2ForCausalLM")
    layer_names = {  # noqa: RUF012  (never changed)
        "post_attention_layernorm": "post_attention_norm",
        "pre_feedforward_layernorm": "ffn_norm",
        "post_feedforward_layernorm": "post_ffw_norm",
    }
    period = 2  # every so many layers one is global, the last of each run

    def config(self, checkpoint: Checkpoint) -> ModelConfig:
        config = super().config(checkpoint)
        values = Values(checkpoint.path, checkpoint.metadata, self.architecture + ".")
        wide = self._wide(values, config)
        window = values.count("attention.sliding_window")
        local = LayerAttention(window, rotary=len(config.rotary) - 1)
        attention = tuple(
            LayerAttention() if (i + 1) % self.period == 0 else local for i in range(config.layers)
        )
        scale = values.maybe("attention.scale") or wide**-0.5
        return replace(config, attention=attention, attention_scale=scale, post_norms=True)

    def _wide(self, values: Values, config: ModelConfig) -> int:
        """What scores are divided by the root of: the head's size, but in the largest model."""
        return config.hidden // config.heads if config.layers == 46 else config.head_dim

    def metadata(self, values: Values) -> dict[str, Any]:
        at = self.architecture + "."
        found = common_metadata(values, self.architecture)
        found[at + "attention.sliding_window"] = values.count("sliding_window")
        found[at + "attention.scale"] = values.number("query_pre_attn_scalar", 256.0) ** -0.5
        for key in ("attn_logit_softcapping", "final_logit_softcapping"):
            if values.get(key):
                found[at + key] = values.number(key)
        self._check_layers(values)
        return found

    def _check_layers(self, values: Values) -> None:
        kinds = values.list("layer_types", str)
        expected = tuple(
            "full_attention" if (i + 1) % self.period == 0 else "sliding_attention" for i in range(len(kinds))
        )
        if kinds != expected or int(values.maybe("sliding_window_pattern")) not in (0, self.period):
            raise values.refuse(f"layers in another order than {self.period - 1} local to one global")


class Gemma3(Gemma2):
    name = "gemma3"
    architecture = "gemma3"
    architectures = (
        "gemma3", "gemma3_text", "Gemma3ForCausalLM", "Gemma3ForConditionalGeneration",
    )  # fmt: skip
    period = 6

    def config(self, checkpoint: Checkpoint) -> ModelConfig:
        values = Values(checkpoint.path, checkpoint.metadata, self.architecture + ".")
        config = replace(super().config(checkpoint), head_norms=True)
        theta = values.number("rope.freq_base_swa", 10000.0)
        # The scaling of positions, which makes global layers reach further, is none of the local ones' business.
        rotary = (*config.rotary, Rotary(plain(theta, config.head_dim)))
        attention = tuple(replace(each, rotary=1 if each.window else 0) for each in config.attention)
        return replace(config, rotary=rotary, attention=attention)

    def _wide(self, values: Values, config: ModelConfig) -> int:
        return config.hidden // config.heads if config.layers == 62 else config.head_dim

    def metadata(self, values: Values) -> dict[str, Any]:
        both = values.get("rope_parameters")
        local = values.number("rope_local_base_freq", 10000.0)
        if isinstance(both, dict) and "full_attention" in both:  # one entry for each kind of layer
            local = Values(values.path, both.get("sliding_attention") or {}).number("rope_theta", local)
            values = replace(values, metadata={**values.metadata, "rope_parameters": both["full_attention"]})
        elif values.get("rope_theta") is None:
            values = replace(values, metadata={**values.metadata, "rope_theta": 1e6})
        return super().metadata(values) | {"gemma3.rope.freq_base_swa": local}
