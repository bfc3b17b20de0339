"""The tokenizer's part of a checkpoint's metadata."""

from __future__ import annotations

from .checkpoint import Checkpoint
from .config import ModelConfig, TokenizerSpec
from .values import Values

JSON_KEY = "tokenizer.huggingface.json"  # GGUF's key for the whole text of a tokenizer.json
END_KEY = "tokenizer.ggml.eos_token_ids"  # ours: every id that ends an output, where there are several


def read_tokenizer(checkpoint: Checkpoint, config: ModelConfig) -> TokenizerSpec:
    """The tokenizer's metadata. Raises ModelFileError if there is none, or one that does not fit the model."""
    plain = Values(checkpoint.path, checkpoint.metadata)
    values = plain.under("tokenizer.ggml.")
    tokens = values.list("tokens", str)
    json = plain.optional(JSON_KEY, str)
    if not 0 < len(tokens) <= config.vocab_size:
        raise values.fail(f"the tokenizer has {len(tokens)} tokens, the model {config.vocab_size}")
    model = values.optional("model", str) or "gpt2"
    spaced = model == "llama"
    return TokenizerSpec(
        model=model,
        pre=values.optional("pre", str),
        tokens=tokens,
        token_types=values.list("token_type", int),
        scores=values.list("scores", float),
        merges=values.list("merges", str),
        bos_id=values.token("bos_token_id", len(tokens)),
        eos_id=values.token("eos_token_id", len(tokens)),
        unknown_id=values.token("unknown_token_id", len(tokens)),
        padding_id=values.token("padding_token_id", len(tokens)),
        add_bos=values.flag("add_bos_token", default=spaced),
        add_space_prefix=values.flag("add_space_prefix", default=spaced),
        chat_template=plain.optional("tokenizer.chat_template", str),
        json=json,
        end_ids=tuple(id_ for id_ in plain.list(END_KEY, int) if 0 <= id_ < len(tokens)),
    )
