"""Sampling: validated parameters, batch-level logits transforms, masks, seeded choice."""

from .errors import SamplingError
from .params import SamplingParams

__all__ = ["SamplingError", "SamplingParams"]
