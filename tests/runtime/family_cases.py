"""Tiny models of every family: their config.json, their weights (from a seed), and what `transformers` says of them.

`golden/cases.json` and `golden/*.npz` are written by `golden.py`, which needs PyTorch and transformers; tests need
neither: weights follow from the names and shapes, and logits lie in the files.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float32]
GOLDEN = Path(__file__).with_name("golden")
VOCAB = 96
TOKENS = [int(i) for i in np.random.default_rng(11).integers(3, VOCAB, 56)]

_SMALL: dict[str, Any] = {
    "vocab_size": VOCAB, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
    "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0,
}  # fmt: skip
_LLAMA3 = {
    "rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32,
}  # fmt: skip
_LONG = {
    "type": "longrope", "short_factor": [1.0 + 0.05 * i for i in range(8)],
    "long_factor": [1.5 + 0.5 * i for i in range(8)],
}  # fmt: skip
_PHI = {"rope_scaling": _LONG, "original_max_position_embeddings": 32}
_GEMMA = {"head_dim": 32, "tie_word_embeddings": True, "rms_norm_eps": 1e-6}
_LOCAL = {"sliding_window": 20, "query_pre_attn_scalar": 24}

# case: (configuration class, settings)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama2": ("LlamaConfig", {"num_key_value_heads": 4}),
    "llama3": ("LlamaConfig", {"rope_theta": 500000.0, "rope_scaling": _LLAMA3}),
    "llama_linear": ("LlamaConfig", {"rope_scaling": {"rope_type": "linear", "factor": 2.5}}),
    "llama_yarn": (
        "LlamaConfig",
        {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}},
    ),
    "llama_bias": ("LlamaConfig", {"attention_bias": True, "head_dim": 32}),
    "smollm": ("LlamaConfig", {"tie_word_embeddings": True, "num_attention_heads": 6, "hidden_size": 96}),
    "mistral": ("MistralConfig", {"sliding_window": 20, "head_dim": 32}),
    "mixtral": ("MixtralConfig", {"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None}),
    "phi3": ("Phi3Config", {"sliding_window": 40}),
    "phi3_long": ("Phi3Config", _PHI | {"sliding_window": None}),
    "phi3_partial": (
        "Phi3Config",
        {"hidden_size": 128, "partial_rotary_factor": 0.75, "sliding_window": None, "tie_word_embeddings": True},
    ),
    "qwen2": ("Qwen2Config", {"use_sliding_window": False, "rope_theta": 1e6}),
    "qwen3": ("Qwen3Config", {"head_dim": 32, "rope_theta": 1e6, "tie_word_embeddings": True}),
    "gemma": ("GemmaConfig", _GEMMA | {"num_key_value_heads": 1}),
    "gemma2": (
        "Gemma2Config",
        _GEMMA | _LOCAL | {"num_hidden_layers": 3, "attn_logit_softcapping": 5.0, "final_logit_softcapping": 8.0},
    ),
    "gemma3": (
        "Gemma3TextConfig",
        _GEMMA | _LOCAL
        | {"num_hidden_layers": 7, "rope_theta": 1e6, "rope_scaling": {"rope_type": "linear", "factor": 4.0}},
    ),
}  # fmt: skip


def settings(case: str) -> tuple[str, dict[str, Any]]:
    """The configuration class of transformers, and its arguments."""
    name, own = CASES[case]
    return name, {**_SMALL, **own}


@dataclass(frozen=True)
class Case:
    """`logits` [tokens, vocabulary] of TOKENS with float32 weights; `rounded`: with weights rounded to 8 bits."""

    name: str
    config: dict[str, Any]
    shapes: dict[str, tuple[int, ...]]
    logits: Floats
    rounded: Floats

    def weights(self) -> dict[str, Floats]:
        return {name: weight(name, shape, self.config["model_type"]) for name, shape in self.shapes.items()}

    def folder(self, path: Path, dtype: str = "F32") -> Path:
        """A Hugging Face folder with the model."""
        path.mkdir(parents=True, exist_ok=True)
        (path / "config.json").write_text(json.dumps(self.config))
        write_safetensors(path / "model.safetensors", self.weights(), dtype)
        write_tokenizer(path)
        return path


def weight(name: str, shape: tuple[int, ...], model_type: str) -> Floats:
    """From the name alone: large enough that every part of a layer tells in the logits."""
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    values = rng.standard_normal(shape)
    if len(shape) == 1:
        centre = 0.0 if name.endswith("bias") or model_type.startswith("gemma") else 1.0
        return (centre + 0.2 * values).astype(np.float32)
    spread = 1.0 if "embed_tokens" in name else 1.7 / np.sqrt(shape[-1])
    return (values * spread).astype(np.float32)


@cache
def case(name: str) -> Case:
    facts = json.loads((GOLDEN / "cases.json").read_text())[name]
    with np.load(GOLDEN / f"{name}.npz") as stored:
        shapes = {key: tuple(shape) for key, shape in facts["shapes"].items()}
        return Case(name, facts["config"], shapes, stored["logits"], stored["rounded"])


def write_safetensors(path: Path, tensors: dict[str, Floats], dtype: str = "F32") -> None:
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    data = bytearray()
    for name, values in tensors.items():
        raw = encoded(values, dtype)
        header[name] = {"dtype": dtype, "shape": list(values.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + bytes(data))


def encoded(values: Floats, dtype: str) -> bytes:
    if dtype == "BF16":
        return (values.view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return values.astype({"F32": np.float32, "F16": np.float16}[dtype]).tobytes()


def write_tokenizer(path: Path) -> None:
    """Words t3 to t95, and three special tokens."""
    vocabulary = {"<pad>": 0, "<s>": 1, "</s>": 2} | {f"t{i}": i for i in range(3, VOCAB)}
    special = [
        {"id": i, "content": text, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
         "normalized": False}
        for text, i in list(vocabulary.items())[:3]
    ]  # fmt: skip
    model = {"type": "WordLevel", "vocab": vocabulary, "unk_token": "<pad>"}
    tokenizer = {
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": special, "normalizer": None,
        "pre_tokenizer": {"type": "Whitespace"}, "post_processor": None, "decoder": None, "model": model,
    }  # fmt: skip
    (path / "tokenizer.json").write_text(json.dumps(tokenizer))
    (path / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
