"""The families of models that the runtime knows, and how one is found for a model.

To add one, write a class over `Family` (base.py) and list it here, or offer it from a plugin through the hook
`slipcast_model_families`; see docs/models.md.
"""

from __future__ import annotations

from collections.abc import Sequence

from ....plugins.families import ModelFamily
from ...errors import UnsupportedModelError
from ..checkpoint import Checkpoint
from ..values import Values
from .base import Family
from .gemma import Gemma, Gemma2, Gemma3
from .llama import Llama
from .mistral import Mistral, Mixtral
from .phi3 import Phi3
from .qwen import Qwen2, Qwen3

__all__ = ["FAMILIES", "FAMILY", "Family", "ModelFamily", "family_of"]

FAMILY: ModelFamily = Llama()  # the plainest
FAMILIES: tuple[ModelFamily, ...] = (
    FAMILY, Mistral(), Mixtral(), Phi3(), Qwen2(), Qwen3(), Gemma(), Gemma2(), Gemma3(),
)  # fmt: skip


def family_of(source: Checkpoint, extra: Sequence[ModelFamily] = ()) -> ModelFamily:
    """The family of an opened model; those of `extra`, which plugins offer, come first.

    Raises ModelFileError if the model does not say what it is, UnsupportedModelError if no family knows it.
    """
    values = Values(source.path, source.metadata)
    names = [values.text("general.architecture")] if "general.architecture" in source.metadata else []
    if not names:
        kind = values.optional("model_type", str)
        names = [*values.list("architectures", str), *([kind] if kind else [])]
    for name in names:
        for family in (*extra, *FAMILIES):
            if name in family.architectures:
                return family
    if not names:
        raise values.fail("the metadata has no 'general.architecture', and no 'model_type' either")
    raise UnsupportedModelError(
        f"{source.path}: the architecture {names[0]!r} is not supported",
        path=source.path,
        remedy=f"use a model of one of: {', '.join(family.name for family in (*extra, *FAMILIES))}",
    )
