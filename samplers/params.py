"""What a request may ask of the sampler: one frozen record, validated once, in its constructor."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from .errors import SamplingError

MAX_STOP_STRINGS = 64
MAX_TOP_LOGPROBS = 20
MAX_CHOICES = 128
SEED_LIMIT = 1 << 64
MAX_ID_DIGITS = 18


def _number(option: str, value: object, low: float, high: float, *, low_open: bool = False) -> float:
    """`value` as a finite float within [low, high] (or (low, high]), or SamplingError."""
    bound = f"a number {'above' if low_open else 'from'} {low:g} to {high:g}"
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise SamplingError(option, value, bound)
    if value < low or value > high or (low_open and value == low):
        raise SamplingError(option, value, bound)
    return float(value)


def _integer(option: str, value: object, low: int, high: int | None = None) -> int:
    bound = f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
    if isinstance(value, bool) or not isinstance(value, int) or value < low or (high is not None and value > high):
        raise SamplingError(option, value, bound)
    return value


def _flag(option: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise SamplingError(option, value, "true or false")
    return value


def _stop_strings(value: object) -> tuple[str, ...]:
    allowed = f"a string or at most {MAX_STOP_STRINGS} of them, none empty"
    if value is None:
        return ()
    if isinstance(value, str):
        value = (value,)
    if not isinstance(value, Iterable) or isinstance(value, bytes):
        raise SamplingError("stop", value, allowed)
    strings = tuple(value)
    if len(strings) > MAX_STOP_STRINGS or not all(isinstance(s, str) and s for s in strings):
        raise SamplingError("stop", value, allowed)
    return tuple(dict.fromkeys(strings))


def _bias_pairs(value: object) -> tuple[tuple[int, float], ...]:
    """Pairs sorted by token id. JSON object keys are strings, so ids written as decimal strings are taken too."""
    allowed = "a mapping of token ids to numbers from -100 to 100"
    if value is None:
        return ()
    pairs: Iterable[object] = value.items() if isinstance(value, Mapping) else ()
    if not isinstance(value, Mapping):
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            raise SamplingError("logit_bias", value, allowed)
        pairs = value
    found: dict[int, float] = {}
    for pair in pairs:
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise SamplingError("logit_bias", value, allowed)
        token, bias = pair
        if isinstance(token, str) and token.isascii() and token.isdecimal() and len(token) <= MAX_ID_DIGITS:
            token = int(token)
        if isinstance(token, bool) or not isinstance(token, int) or token < 0:
            raise SamplingError("logit_bias", token, "token ids, integers of at least 0, as keys")
        if token in found:
            raise SamplingError("logit_bias", token, "each token id once")
        found[token] = _number(f"logit_bias[{token}]", bias, -100.0, 100.0)
    return tuple(sorted(found.items()))


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one request is sampled.

    The order of effect is: penalties and `logit_bias` on the raw logits, the grammar's mask, `temperature`, `top_k`,
    `top_p`, `min_p`, then the draw. `temperature=0` is greedy: the highest allowed logit, ties to the lower id.

    `repetition_penalty` counts prompt and output (Keskar et al. 2019, CTRL); `presence_penalty` and
    `frequency_penalty` count the output only, as OpenAI's API documents them. `top_p`: Holtzman et al. 2020.
    `min_p`: Nguyen et al. 2024. `top_k=0`, `top_p=1` and `min_p=0` are off.

    `seed=None` draws one from the system. With equal seed, prompt and options the output is the same, whatever else is
    in the batch; choice i of `n` has its own stream.
    `max_tokens=None` means up to the context's end. `logprobs` are natural logarithms under the model's raw
    distribution, before penalties, mask and temperature. `stop` strings end the output and are not part of it.
    `ignore_eos` goes on past the end token (for measurements; without effect under a grammar).
    `stop_cuts_grammar`: stop strings end the output under a grammar too, where it may be incomplete then; else they
    count for free text only.

    Raises SamplingError, which names option, value and range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    logit_bias: Mapping[int, float] | Sequence[tuple[int, float]] | None = ()
    seed: int | None = None
    stop: str | Sequence[str] | None = ()
    max_tokens: int | None = None
    n: int = 1
    logprobs: bool = False
    top_logprobs: int = 0
    ignore_eos: bool = False
    stop_cuts_grammar: bool = False
    bias_pairs: tuple[tuple[int, float], ...] = field(init=False, repr=False, default=())
    stop_strings: tuple[str, ...] = field(init=False, repr=False, default=())

    def __post_init__(self) -> None:
        def put(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        put("temperature", _number("temperature", self.temperature, 0.0, 100.0))
        put("top_p", _number("top_p", self.top_p, 0.0, 1.0, low_open=True))
        put("top_k", _integer("top_k", self.top_k, 0))
        put("min_p", _number("min_p", self.min_p, 0.0, 1.0))
        put("repetition_penalty", _number("repetition_penalty", self.repetition_penalty, 0.0, 100.0, low_open=True))
        put("presence_penalty", _number("presence_penalty", self.presence_penalty, -2.0, 2.0))
        put("frequency_penalty", _number("frequency_penalty", self.frequency_penalty, -2.0, 2.0))
        pairs = _bias_pairs(self.logit_bias)
        put("logit_bias", pairs)
        put("bias_pairs", pairs)
        stops = _stop_strings(self.stop)
        put("stop", stops)
        put("stop_strings", stops)
        if self.seed is not None:
            # Any 64-bit integer, signed or not, names a stream: OpenAI's seeds are signed, others' are not.
            put("seed", _integer("seed", self.seed, -(SEED_LIMIT // 2), SEED_LIMIT - 1))
        if self.max_tokens is not None:
            put("max_tokens", _integer("max_tokens", self.max_tokens, 1))
        put("n", _integer("n", self.n, 1, MAX_CHOICES))
        put("logprobs", _flag("logprobs", self.logprobs))
        put("top_logprobs", _integer("top_logprobs", self.top_logprobs, 0, MAX_TOP_LOGPROBS))
        if self.top_logprobs and not self.logprobs:
            raise SamplingError("top_logprobs", self.top_logprobs, "0 unless logprobs is true")
        put("ignore_eos", _flag("ignore_eos", self.ignore_eos))
        put("stop_cuts_grammar", _flag("stop_cuts_grammar", self.stop_cuts_grammar))

    @property
    def greedy(self) -> bool:
        """True where the draw is the highest logit."""
        return self.temperature == 0.0 or self.top_k == 1

    def check_vocabulary(self, size: int) -> None:
        """Raise SamplingError if a `logit_bias` id is not below `size`, the tokenizer's number of tokens."""
        for token, _ in self.bias_pairs:
            if token >= size:
                raise SamplingError("logit_bias", token, f"token ids below {size}")
