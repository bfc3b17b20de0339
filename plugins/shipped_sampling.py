"""Shipped plugin: the engine's own sampling chain, and the sampler "seeded"."""

from __future__ import annotations

from collections.abc import Sequence

from ..samplers.choice import SeededSampler
from ..samplers.protocols import LogitsProcessor, Sampler
from ..samplers.transforms import default_processors
from .hookspecs import hookimpl


@hookimpl(trylast=True)
def slipcast_logits_processors() -> Sequence[LogitsProcessor]:
    """Penalties, logit bias, temperature, top-k, top-p, min-p."""
    return default_processors()


@hookimpl(trylast=True)
def slipcast_sampler(name: str) -> Sampler | None:
    """The seeded draw."""
    return SeededSampler() if name == SeededSampler.name else None
