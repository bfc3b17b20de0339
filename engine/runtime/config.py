"""What a model file says about its model: dimensions, and the tokenizer as stored."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

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


_T = TypeVar("_T")
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


def read_tokenizer(file: GgufFile, config: ModelConfig) -> TokenizerSpec:
    """The tokenizer's metadata. Raises ModelFileError if there is none, or one that does not fit the model."""
    values = _Values(file.path, file.metadata)
    tokens = values.list("tokenizer.ggml.tokens", str)
    if not 0 < len(tokens) <= config.vocab_size:
        raise values.fail(f"the tokenizer has {len(tokens)} tokens, the model {config.vocab_size}")
    model = values.optional("tokenizer.ggml.model", str) or "gpt2"
    spaced = model == "llama"
    return TokenizerSpec(
        model=model,
        pre=values.optional("tokenizer.ggml.pre", str),
        tokens=tokens,
        token_types=values.list("tokenizer.ggml.token_type", int),
        scores=values.list("tokenizer.ggml.scores", float),
        merges=values.list("tokenizer.ggml.merges", str),
        bos_id=values.token("bos", len(tokens)),
        eos_id=values.token("eos", len(tokens)),
        unknown_id=values.token("unknown", len(tokens)),
        padding_id=values.token("padding", len(tokens)),
        add_bos=values.flag("tokenizer.ggml.add_bos_token", default=spaced),
        add_space_prefix=values.flag("tokenizer.ggml.add_space_prefix", default=spaced),
        chat_template=values.optional("tokenizer.chat_template", str),
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

    def optional(self, key: str, kind: type[_T]) -> _T | None:
        value = self.metadata.get(key)
        if value is not None and not isinstance(value, kind):
            raise self.fail(f"the metadata's {key!r} is no {kind.__name__}")
        return value

    def list(self, key: str, kind: type[_T]) -> tuple[_T, ...]:
        """An array of one type, () where there is none. GGUF's arrays are homogeneous: the first item tells."""
        value = self.metadata.get(key, ())
        if not isinstance(value, tuple) or (value and not isinstance(value[0], kind)):
            raise self.fail(f"the metadata's {key!r} is no list of {kind.__name__}")
        return value

    def flag(self, key: str, *, default: bool) -> bool:
        value = self.optional(key, bool)
        return default if value is None else value

    def token(self, role: str, count: int) -> int | None:
        key = f"tokenizer.ggml.{role}_token_id"
        value = self.optional(key, int)
        if value is not None and not 0 <= value < count:
            raise self.fail(f"the metadata's {key!r} is {value}, outside the vocabulary of {count}")
        return value


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
