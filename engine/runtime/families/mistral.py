"""Mistral: Llama with attention over a sliding window (Jiang et al., 2023); Mixtral: with experts (2024)."""

from __future__ import annotations

from typing import Any

from ..values import Values
from .base import common_metadata
from .llama import Llama


class Mistral(Llama):
    name = "mistral"
    architectures = ("mistral", "MistralForCausalLM")

    def metadata(self, values: Values) -> dict[str, Any]:
        return common_metadata(values, self.architecture)


class Mixtral(Mistral):
    """Each token goes through `num_experts_per_tok` of `num_local_experts` gated units, weighed by the softmax of
    their scores.
    """

    name = "mixtral"
    architectures = ("mixtral", "MixtralForCausalLM")
    layer_names = {"block_sparse_moe.gate": "ffn_gate_inp"}  # noqa: RUF012  (never changed)

    def metadata(self, values: Values) -> dict[str, Any]:
        return super().metadata(values) | {
            "llama.expert_count": values.count("num_local_experts"),
            "llama.expert_used_count": values.count("num_experts_per_tok"),
        }

    def tensor_name(self, name: str) -> str | None:
        """An expert's three matrices are called w1, w3 and w2: gate, up and down."""
        parts = name.removeprefix("model.").split(".")
        if len(parts) == 7 and parts[2:4] == ["block_sparse_moe", "experts"] and parts[5] in _MATRICES:
            return f"blk.{parts[1]}.{_MATRICES[parts[5]]}.{parts[4]}.{parts[6]}"
        return super().tensor_name(name)


_MATRICES = {"w1": "ffn_gate", "w3": "ffn_up", "w2": "ffn_down"}
