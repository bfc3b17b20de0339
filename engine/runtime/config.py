"""What a model is: its dimensions, and what its family's layers do beside the common; and its tokenizer as stored."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .rotary import Rotary


@dataclass(frozen=True)
class LayerAttention:
    """How one layer looks back: over the last `window` tokens, its own included (0: all), rotated by table `rotary`."""

    window: int = 0
    rotary: int = 0


@dataclass(frozen=True)
class ModelConfig:
    """A decoder of the common kind: dimensions, and what a family adds. `vocab_size` is the width of the logits.

    `attention`: one entry a layer. `attention_scale`: queries are multiplied by it. Caps (0: none) bound a score or
    logit x to cap * tanh(x / cap). `paired_heads`: GGUF orders query and key rows for rotating neighbouring columns.
    `experts`: 0, or the number of feed-forward parts of which each token takes `experts_used`.
    """

    architecture: str
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    context_length: int
    norm_epsilon: float
    attention: tuple[LayerAttention, ...]
    rotary: tuple[Rotary, ...]
    attention_scale: float
    attention_cap: float = 0.0
    logit_cap: float = 0.0
    embedding_scale: float = 1.0
    activation: Literal["silu", "gelu"] = "silu"
    paired_heads: bool = False
    fused_qkv: bool = False  # one tensor in the file, and so are gate and up
    qkv_bias: bool = False
    output_bias: bool = False
    head_norms: bool = False  # RMS norms of each query and key head before they are rotated
    post_norms: bool = False  # norms of what attention and feed-forward give, before it is added
    experts: int = 0
    experts_used: int = 0

    @property
    def layers(self) -> int:
        return len(self.attention)

    @property
    def fused_heads(self) -> int:
        """Heads of the fused query, key and value projection."""
        return self.heads + 2 * self.kv_heads


@dataclass(frozen=True)
class TokenizerSpec:
    """The tokenizer as the model file stores it; building one is not the runtime's business.

    `model` is GGUF's name of the algorithm ("gpt2": byte-level BPE, "llama": SentencePiece), `pre` that of the
    pre-tokenizer. `token_types` follow GGUF: 1 normal, 2 unknown, 3 control, 4 user defined, 5 unused, 6 byte.
    `json`: the text of a tokenizer.json, which then is all there is to know of tokens and merges. `end_ids`: further
    ids that end an output.
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
    json: str | None = None
    end_ids: tuple[int, ...] = ()
