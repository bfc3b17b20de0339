"""What a model file says about its model: dimensions, and the tokenizer as stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ModelFileError, UnsupportedModelError
from .gguf import GgufFile


@dataclass(frozen=True)
class ModelConfig:
    """Dimensions of a llama-architecture model. `vocab_size` is the width of the logits."""

    architecture: str
    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
    norm_epsilon: float
    rope_theta: float
    rope_scale: float  # positions are divided by it (linear scaling); 1.0 for most models

    @property
    def fused_heads(self) -> int:
        """Heads of the fused query, key and value projection."""
        return self.heads + 2 * self.kv_heads


@dataclass(frozen=True)
class TokenizerSpec:
    """The tokenizer as the model file stores it; building one is not the runtime's business.

    `model` is GGUF's name of the algorithm ("gpt2": byte-level BPE, "llama": SentencePiece), `pre` that of the
    pre-tokenizer. `token_types` follow GGUF: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
    """

    model: str
    pre: str | None
    tokens: tuple[str, ...]
    token_types: tuple[int, ...]
    scores: tuple[float, ...]
    merges: tuple[str, ...]
    bos_id: int | None
    eos_id: int | None
    unknown_id: int | None
    padding_id: int | None
    add_bos: bool
    add_space_prefix: bool
    chat_template: str | None


_AGAIN = "download or convert the file again"


def read_config(file: GgufFile) -> ModelConfig:
    """Raises UnsupportedModelError for another architecture, ModelFileError for missing or impossible values."""
    values = _Values(file.path, file.metadata)
    architecture = values.text("general.architecture")
    if architecture != "llama":
        raise UnsupportedModelError(
            f"{file.path}: the architecture {architecture!r} is not supported",
            path=file.path,
            remedy="use a model of the llama architecture",
        )
    heads = values.count("llama.attention.head_count")
    hidden = values.count("llama.embedding_length")
    head_dim = values.count("llama.attention.key_length", hidden // heads)
    table = file.tensors.get("token_embd.weight")
    config = ModelConfig(
        architecture=architecture,
        layers=values.count("llama.block_count"),
        hidden=hidden,
        feed_forward=values.count("llama.feed_forward_length"),
        heads=heads,
        kv_heads=values.count("llama.attention.head_count_kv", heads),
        head_dim=head_dim,
        vocab_size=table.shape[0] if table is not None else values.count("llama.vocab_size"),
        context_length=values.count("llama.context_length"),
        norm_epsilon=values.number("llama.attention.layer_norm_rms_epsilon"),
        rope_theta=values.number("llama.rope.freq_base", 10000.0),
        rope_scale=_rope_scale(values),
    )
    _check(file.path, config, values)
    return config


def read_tokenizer(file: GgufFile) -> TokenizerSpec:
    """The tokenizer's metadata. Raises ModelFileError if the file has no vocabulary."""
    get = file.metadata.get
    tokens = get("tokenizer.ggml.tokens")
    if not isinstance(tokens, tuple):
        raise ModelFileError(f"{file.path}: the file holds no tokenizer", path=file.path, remedy=_AGAIN)
    model = str(get("tokenizer.ggml.model", "gpt2"))
    pre = get("tokenizer.ggml.pre")
    return TokenizerSpec(
        model=model,
        pre=None if pre is None else str(pre),
        tokens=tokens,
        token_types=tuple(get("tokenizer.ggml.token_type", ())),
        scores=tuple(get("tokenizer.ggml.scores", ())),
        merges=tuple(get("tokenizer.ggml.merges", ())),
        bos_id=get("tokenizer.ggml.bos_token_id"),
        eos_id=get("tokenizer.ggml.eos_token_id"),
        unknown_id=get("tokenizer.ggml.unknown_token_id"),
        padding_id=get("tokenizer.ggml.padding_token_id"),
        add_bos=bool(get("tokenizer.ggml.add_bos_token", model == "llama")),
        add_space_prefix=bool(get("tokenizer.ggml.add_space_prefix", model == "llama")),
        chat_template=get("tokenizer.chat_template"),
    )


@dataclass(frozen=True)
class _Values:
    path: Path
    metadata: Mapping[str, Any]

    def fail(self, what: str) -> ModelFileError:
        return ModelFileError(f"{self.path}: {what}", path=self.path, remedy=_AGAIN)

    def text(self, key: str) -> str:
        value = self.metadata.get(key)
        if not isinstance(value, str):
            raise self.fail(f"the metadata has no {key!r}")
        return value

    def count(self, key: str, default: int | None = None) -> int:
        value = self.metadata.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 31:
            raise self.fail(f"the metadata's {key!r} is {value!r}, not a positive integer")
        return value

    def number(self, key: str, default: float | None = None) -> float:
        value = self.metadata.get(key, default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < float("inf"):
            raise self.fail(f"the metadata's {key!r} is {value!r}, not a positive number")
        return float(value)


def _rope_scale(values: _Values) -> float:
    kind = values.metadata.get("llama.rope.scaling.type", "none")
    if kind == "none":
        return 1.0
    if kind == "linear":
        return values.number("llama.rope.scaling.factor")
    raise UnsupportedModelError(
        f"{values.path}: rope scaling {kind!r} is not supported", path=values.path, remedy="use a model without it"
    )


def _check(path: Path, config: ModelConfig, values: _Values) -> None:
    """What the kernels need of the dimensions; and that the metadata describes one kind of layer."""
    rotary = values.count("llama.rope.dimension_count", config.head_dim)
    problems = {
        "the query heads are no multiple of the key heads": config.heads % config.kv_heads,
        f"the head size {config.head_dim} is no multiple of 16": config.head_dim % 16,
        f"the hidden size {config.hidden} is no multiple of 32": config.hidden % 32,
        f"the feed-forward size {config.feed_forward} is no multiple of 32": config.feed_forward % 32,
        "the attention width is no multiple of 32": config.heads * config.head_dim % 32,
        f"only {rotary} of {config.head_dim} columns of a head are rotated": rotary != config.head_dim,
        "it is a mixture of experts": values.metadata.get("llama.expert_count", 0),
    }
    for problem, found in problems.items():
        if found:
            raise UnsupportedModelError(
                f"{path}: not supported: {problem}", path=path, remedy="use another model of the llama architecture"
            )
