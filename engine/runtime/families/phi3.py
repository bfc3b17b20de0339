"""Phi-3, Phi-3.5 and Phi-4-mini: Llama with fused projections, scaled rotary positions for long contexts, a window.

Which of the two sets of frequencies is used follows from the context that the model is loaded for, so that a sequence
never changes from one to the other.
"""

from __future__ import annotations

from dataclasses import replace

from ..checkpoint import Checkpoint
from ..config import ModelConfig
from ..rotary import divided
from ..values import Values
from .base import Family, factors

_SHORT, _LONG = "rope_factors_short.weight", "rope_factors_long.weight"


class Phi3(Family):
    name = "phi3"
    architecture = "phi3"
    architectures = ("phi3", "Phi3ForCausalLM")
    layer_names = {"self_attn.qkv_proj": "attn_qkv", "mlp.gate_up_proj": "ffn_up"}  # noqa: RUF012  (never changed)

    def config(self, checkpoint: Checkpoint) -> ModelConfig:
        config = replace(super().config(checkpoint), fused_qkv=True)
        if _LONG not in checkpoint.tensors:
            return config
        values = Values(checkpoint.path, checkpoint.metadata, self.architecture + ".")
        original = values.count("rope.scaling.original_context_length")
        (rotary,) = config.rotary
        turning = sum(frequency > 0 for frequency in rotary.frequencies)
        still = rotary.frequencies[turning:]
        short, long = (
            (*divided(rotary.frequencies[:turning], factors(checkpoint, name, turning)), *still)
            for name in (_SHORT, _LONG)
        )
        scaled = replace(
            rotary,
            frequencies=short,
            long_frequencies=long,
            original_context=original,
            magnitude=values.number("rope.scaling.attn_factor", 1.0),
        )
        return replace(config, rotary=(scaled,))
