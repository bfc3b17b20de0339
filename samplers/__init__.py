"""Sampling: validated parameters, batch-level logits transforms, masks, seeded choice."""

from .aligned import Aligned
from .base import BaseFollower, BaseProcessor, BaseSampler
from .chain import BadAnswerError, BadLogitsError, EmptyMaskError, Fault, Outcome, SamplerChain
from .choice import SeededSampler
from .dry import Dry
from .errors import SamplingError
from .guard import Guard, LateError, QuarantineError
from .logprobs import FLOOR, RowLogprobs, logprobs
from .mirostat import Mirostat2
from .params import SamplingParams
from .protocols import ChoiceView, Logits, LogitsProcessor, MaskRows, Phase, Sampler
from .shipped import default_processors
from .transforms import Cut, LogitBias, MinP, Penalties, Temperature, TopK, TopNSigma, TopP, Typical, Xtc

__all__ = [
    "FLOOR",
    "Aligned",
    "BadAnswerError",
    "BadLogitsError",
    "BaseFollower",
    "BaseProcessor",
    "BaseSampler",
    "ChoiceView",
    "Cut",
    "Dry",
    "EmptyMaskError",
    "Fault",
    "Guard",
    "LateError",
    "LogitBias",
    "Logits",
    "LogitsProcessor",
    "MaskRows",
    "MinP",
    "Mirostat2",
    "Outcome",
    "Penalties",
    "Phase",
    "QuarantineError",
    "RowLogprobs",
    "Sampler",
    "SamplerChain",
    "SamplingError",
    "SamplingParams",
    "SeededSampler",
    "Temperature",
    "TopK",
    "TopNSigma",
    "TopP",
    "Typical",
    "Xtc",
    "default_processors",
    "logprobs",
]
