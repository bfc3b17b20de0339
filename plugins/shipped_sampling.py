"""Shipped plugin: the engine's own sampling chain, and the sampler "seeded"."""

from __future__ import annotations

from collections.abc import Sequence

from ..samplers.choice import SeededSampler
from ..samplers.protocols import LogitsProcessor, Sampler
from ..samplers.shipped import default_processors
from .hookspecs import hookimpl


@hookimpl(trylast=True)
def slipcast_logits_processors(tokens: Sequence[bytes | None]) -> Sequence[LogitsProcessor]:
    """All transforms that a request can ask for with its sampling options."""
    return default_processors(tokens)


@hookimpl(trylast=True)
def slipcast_sampler(name: str) -> Sampler | None:
    """The seeded draw."""
    return SeededSampler() if name == SeededSampler.name else None
