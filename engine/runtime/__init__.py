"""The compiled runtime: a model file in, logits out.

`resolve_model` finds or fetches the file, `load_model` maps it and compiles or loads its library, `LoadedModel.step`
runs any mix of prefill chunks and decodes over the sequences of its `KVCache`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .config import ModelConfig, TokenizerSpec
from .download import DEFAULT_MODEL, known_template, resolve_model
from .load import load_model

if TYPE_CHECKING:
    from .kv import KVCache
    from .model import LoadedModel

__all__ = [
    "DEFAULT_MODEL", "KVCache", "LoadedModel", "ModelConfig", "TokenizerSpec", "known_template", "load_model",
    "resolve_model",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    # These two import TVM, which takes seconds and 200 MB: a command that runs no model must not pay for it.
    if name == "LoadedModel":
        from .model import LoadedModel

        return LoadedModel
    if name == "KVCache":
        from .kv import KVCache

        return KVCache
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
