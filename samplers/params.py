"""What a request may ask of the sampler: one frozen record, validated once, in its constructor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from .checks import bias_pairs, flag, integer, number, strings
from .errors import SamplingError

MAX_TOP_LOGPROBS = 20
MAX_CHOICES = 128
SEED_LIMIT = 1 << 64


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How one request is sampled.

    The order of effect is: penalties, `logit_bias` and DRY on the raw logits, the grammar's mask, `grammar_aligned`,
    `temperature`, `top_n_sigma`, `top_k`, `typical_p`, `top_p`, `min_p`, XTC, mirostat, then the draw.
    `temperature=0` is greedy: the highest allowed logit, ties to the lower id, and what comes after the mask is left
    out. docs/plugins.md has the definitions and their papers.

    `repetition_penalty` counts prompt and output, or their last `repeat_last_n` tokens (-1: all); `presence_penalty`
    and `frequency_penalty` count the output only, as OpenAI's API documents them. Off are `top_k=0`, `top_p=1`,
    `min_p=0`, `typical_p=1`, `top_n_sigma=0` (or -1, as llama.cpp has it), `xtc_probability=0`, `dry_multiplier=0` and
    `mirostat=0`; `mirostat=2` is the only other value of that. `dry_penalty_last_n`: tokens of prompt and output in
    which DRY looks for repetitions (-1: all).
    `grammar_aligned`: under a grammar, what was drawn before for the same prompt and grammar corrects the draw towards
    the model's own distribution over the texts of the grammar; needs `temperature` 1 and no truncation to be that.

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
    repeat_last_n: int = -1
    typical_p: float = 1.0
    top_n_sigma: float = 0.0
    xtc_probability: float = 0.0
    xtc_threshold: float = 0.1
    dry_multiplier: float = 0.0
    dry_base: float = 1.75
    dry_allowed_length: int = 2
    dry_penalty_last_n: int = -1
    dry_sequence_breakers: str | Sequence[str] | None = ("\n", ":", '"', "*")
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    grammar_aligned: bool = False
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

        put("temperature", number("temperature", self.temperature, 0.0, 100.0))
        put("top_p", number("top_p", self.top_p, 0.0, 1.0, low_open=True))
        put("top_k", integer("top_k", self.top_k, 0))
        put("min_p", number("min_p", self.min_p, 0.0, 1.0))
        put("repetition_penalty", number("repetition_penalty", self.repetition_penalty, 0.0, 100.0, low_open=True))
        put("presence_penalty", number("presence_penalty", self.presence_penalty, -2.0, 2.0))
        put("frequency_penalty", number("frequency_penalty", self.frequency_penalty, -2.0, 2.0))
        put("repeat_last_n", integer("repeat_last_n", self.repeat_last_n, -1))
        put("typical_p", number("typical_p", self.typical_p, 0.0, 1.0, low_open=True))
        sigma = number("top_n_sigma", self.top_n_sigma, -1.0, 100.0)
        if -1.0 < sigma < 0.0:
            raise SamplingError("top_n_sigma", self.top_n_sigma, "a number from 0 to 100, or -1")
        put("top_n_sigma", max(sigma, 0.0))
        put("xtc_probability", number("xtc_probability", self.xtc_probability, 0.0, 1.0))
        put("xtc_threshold", number("xtc_threshold", self.xtc_threshold, 0.0, 1.0, low_open=True))
        put("dry_multiplier", number("dry_multiplier", self.dry_multiplier, 0.0, 100.0))
        put("dry_base", number("dry_base", self.dry_base, 1.0, 10.0))
        put("dry_allowed_length", integer("dry_allowed_length", self.dry_allowed_length, 1))
        put("dry_penalty_last_n", integer("dry_penalty_last_n", self.dry_penalty_last_n, -1))
        put("dry_sequence_breakers", strings("dry_sequence_breakers", self.dry_sequence_breakers))
        if integer("mirostat", self.mirostat, 0) not in (0, 2):
            raise SamplingError("mirostat", self.mirostat, "0 or 2")
        put("mirostat_tau", number("mirostat_tau", self.mirostat_tau, 0.0, 100.0, low_open=True))
        put("mirostat_eta", number("mirostat_eta", self.mirostat_eta, 0.0, 1.0, low_open=True))
        put("grammar_aligned", flag("grammar_aligned", self.grammar_aligned))
        pairs = bias_pairs(self.logit_bias)
        put("logit_bias", pairs)
        put("bias_pairs", pairs)
        stops = strings("stop", self.stop)
        put("stop", stops)
        put("stop_strings", stops)
        if self.seed is not None:
            # Any 64-bit integer, signed or not, names a stream: OpenAI's seeds are signed, others' are not.
            put("seed", integer("seed", self.seed, -(SEED_LIMIT // 2), SEED_LIMIT - 1))
        if self.max_tokens is not None:
            put("max_tokens", integer("max_tokens", self.max_tokens, 1))
        put("n", integer("n", self.n, 1, MAX_CHOICES))
        put("logprobs", flag("logprobs", self.logprobs))
        put("top_logprobs", integer("top_logprobs", self.top_logprobs, 0, MAX_TOP_LOGPROBS))
        if self.top_logprobs and not self.logprobs:
            raise SamplingError("top_logprobs", self.top_logprobs, "0 unless logprobs is true")
        put("ignore_eos", flag("ignore_eos", self.ignore_eos))
        put("stop_cuts_grammar", flag("stop_cuts_grammar", self.stop_cuts_grammar))

    @property
    def greedy(self) -> bool:
        """True where the draw is the highest logit."""
        return self.temperature == 0.0 or self.top_k == 1

    def check_vocabulary(self, size: int) -> None:
        """Raise SamplingError if a `logit_bias` id is not below `size`, the tokenizer's number of tokens."""
        for token, _ in self.bias_pairs:
            if token >= size:
                raise SamplingError("logit_bias", token, f"token ids below {size}")
