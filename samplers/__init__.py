"""Sampling: validated parameters, batch-level logits transforms, masks, seeded choice."""

from .chain import BadChoiceError, BadLogitsError, EmptyMaskError, Fault, Outcome, SamplerChain
from .choice import SeededSampler
from .errors import SamplingError
from .logprobs import FLOOR, RowLogprobs, logprobs
from .params import SamplingParams
from .protocols import Logits, LogitsProcessor, MaskRows, Phase, Row, Sampler
from .transforms import LogitBias, MinP, Penalties, Temperature, TopK, TopP, default_processors

__all__ = [
    "FLOOR",
    "BadChoiceError",
    "BadLogitsError",
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
    "Row",
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
