"""Sampling: validated parameters, batch-level logits transforms, masks, seeded choice."""

from .base import BaseFollower, BaseProcessor, BaseSampler
from .chain import BadChoiceError, BadLogitsError, EmptyMaskError, Fault, Outcome, SamplerChain
from .choice import SeededSampler
from .errors import SamplingError
from .logprobs import FLOOR, RowLogprobs, logprobs
from .params import SamplingParams
from .protocols import ChoiceView, Logits, LogitsProcessor, MaskRows, Phase, Sampler
from .transforms import LogitBias, MinP, Penalties, Temperature, TopK, TopP, default_processors

__all__ = [
    "FLOOR",
    "BadChoiceError",
    "BadLogitsError",
    "BaseFollower",
    "BaseProcessor",
    "BaseSampler",
    "ChoiceView",
    "EmptyMaskError",
    "Fault",
    "LogitBias",
    "Logits",
    "LogitsProcessor",
    "MaskRows",
    "MinP",
    "Outcome",
    "Penalties",
    "Phase",
    "RowLogprobs",
    "Sampler",
    "SamplerChain",
    "SamplingError",
    "SamplingParams",
    "SeededSampler",
    "Temperature",
    "TopK",
    "TopP",
    "default_processors",
    "logprobs",
]
