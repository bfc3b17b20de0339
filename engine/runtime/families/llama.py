"""Llama 2, 3 and 3.1, and what is built like them: SmolLM, SmolLM2, TinyLlama, Yi and others.

RMS norms, grouped-query attention with rotary positions, a gated unit with SiLU, no biases. GGUF gives the name to all
of them, to Mistral (sliding window) and to Mixtral (experts), so reading GGUF's metadata is here for all.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..checkpoint import Checkpoint
from ..config import ModelConfig
from ..values import Values
from .base import Family


class Llama(Family):
    name = "llama"
    architecture = "llama"
    architectures = ("llama", "LlamaForCausalLM")
    paired_heads = True

    def config(self, checkpoint: Checkpoint) -> ModelConfig:
        config = super().config(checkpoint)
        values = Values(checkpoint.path, checkpoint.metadata, self.architecture + ".")
        experts = int(values.maybe("expert_count"))
        return replace(
            config,
            qkv_bias="blk.0.attn_q.bias" in checkpoint.tensors,
            output_bias="blk.0.attn_output.bias" in checkpoint.tensors,
            experts=experts,
            experts_used=values.count("expert_used_count") if experts else 0,
        )

    def metadata(self, values: Values) -> dict[str, Any]:
        if values.flag("mlp_bias", default=False):
            raise values.refuse("biases of the feed-forward part")
        if int(values.get("pretraining_tp") or 1) < 1:
            raise values.fail("the metadata's 'pretraining_tp' is below 1")
        found = super().metadata(values)
        found.pop("llama.attention.sliding_window", None)  # Llama has none, whatever a derived config.json says
        return found
