"""Qwen2 and Qwen2.5: Llama with biases on queries, keys and values. Qwen3: norms of query and key heads instead."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ..checkpoint import Checkpoint
from ..config import ModelConfig
from ..values import Values
from .base import Family


class Qwen2(Family):
    name = "qwen2"
    architecture = "qwen2"
    architectures = ("qwen2", "Qwen2ForCausalLM")

    def config(self, checkpoint: Checkpoint) -> ModelConfig:
        return replace(super().config(checkpoint), qkv_bias=True)

    def metadata(self, values: Values) -> dict[str, Any]:
        return _without_mixed_windows(values, super().metadata(values), self.architecture)


class Qwen3(Family):
    name = "qwen3"
    architecture = "qwen3"
    architectures = ("qwen3", "Qwen3ForCausalLM")

    def config(self, checkpoint: Checkpoint) -> ModelConfig:
        return replace(super().config(checkpoint), head_norms=True)

    def metadata(self, values: Values) -> dict[str, Any]:
        if values.flag("attention_bias", default=False):
            raise values.refuse("biases of queries, keys and values")
        return _without_mixed_windows(values, super().metadata(values), self.architecture)


def _without_mixed_windows(values: Values, found: dict[str, Any], architecture: str) -> dict[str, Any]:
    """A window that is off unless asked for, and then in the layers from `max_window_layers` on."""
    key = architecture + ".attention.sliding_window"
    if not values.flag("use_sliding_window", default=False):
        found.pop(key, None)
    first = values.get("max_window_layers") or 0
    if key in found and first >= values.count("num_hidden_layers"):
        found.pop(key)
    elif key in found and first:
        raise values.refuse("a window in some layers only", "set use_sliding_window to false in config.json")
    return found
