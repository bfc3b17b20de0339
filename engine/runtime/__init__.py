"""The compiled runtime: a model file in, logits out.

`resolve_model` finds or fetches the file, `load_model` maps it and compiles or loads its library, `LoadedModel.step` runs
any mix of prefill chunks and decodes over the sequences of its `KVCache`.
"""

from .config import ModelConfig, TokenizerSpec
from .download import DEFAULT_MODEL, resolve_model
from .model import LoadedModel, load_model

__all__ = ["DEFAULT_MODEL", "LoadedModel", "ModelConfig", "TokenizerSpec", "load_model", "resolve_model"]
