"""How text is drawn, on the wire: OpenAI's options, those of local engines by the names that vLLM and llama.cpp have
for them, parameters for plugins, and what scheduling policies want to know.

Only types are checked here; what range an option may have is said once, by `slipcast.samplers.SamplingParams`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from pydantic import Field, field_validator, model_validator

from ...plugins import PluginOptionError, Plugins
from ..errors import RequestError
from .wire import WireRequest, fault_in

# Other names of the same options: the first is llama.cpp's.
SYNONYMS = {"repeat_penalty": "repetition_penalty"}
PRIORITIES = 1 << 31


class SamplingFields(WireRequest):
    """The options that all endpoints share. `priority`: lower comes first, where the scheduling policy heeds it."""

    n: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    typical_p: float | None = None
    top_n_sigma: float | None = None
    xtc_probability: float | None = None
    xtc_threshold: float | None = None
    mirostat: int | None = None
    mirostat_tau: float | None = None
    mirostat_eta: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    repeat_last_n: int | None = None
    dry_multiplier: float | None = None
    dry_base: float | None = None
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: list[str] | None = None
    grammar_aligned: bool | None = None
    logit_bias: dict[str, float] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    ignore_eos: bool | None = None
    plugins: dict[str, Any] | None = None
    user: str | None = None
    priority: int | None = Field(default=None, ge=-PRIORITIES, lt=PRIORITIES)

    @model_validator(mode="before")
    @classmethod
    def _one_name_each(cls, body: Any) -> Any:
        if not isinstance(body, Mapping):
            return body
        for name, known in SYNONYMS.items():
            if body.get(name) is not None:
                if body.get(known) is not None:
                    raise fault_in(name, f"{name} and {known} are two names of one option: give one of them")
                body = {**body, known: body[name]}
        return body

    @field_validator("logit_bias", mode="before")
    @classmethod
    def _integer_keys(cls, value: Any) -> Any:
        """JSON keys are strings and Python callers write integers: both name a token id."""
        return {str(key): bias for key, bias in value.items()} if isinstance(value, dict) else value


class SamplingKeywords(TypedDict, total=False):
    """`SamplingFields` as keyword arguments, for the type checker."""

    n: int | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    typical_p: float | None
    top_n_sigma: float | None
    xtc_probability: float | None
    xtc_threshold: float | None
    mirostat: int | None
    mirostat_tau: float | None
    mirostat_eta: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    repetition_penalty: float | None
    repeat_last_n: int | None
    dry_multiplier: float | None
    dry_base: float | None
    dry_allowed_length: int | None
    dry_penalty_last_n: int | None
    dry_sequence_breakers: Sequence[str] | None
    grammar_aligned: bool | None
    logit_bias: dict[str, float] | dict[int, float] | None
    seed: int | None
    stop: str | list[str] | None
    ignore_eos: bool | None
    plugins: Mapping[str, Any] | None
    user: str | None
    priority: int | None


# What the wire and the sampler call the same.
SHARED_OPTIONS = tuple(name for name in SamplingFields.model_fields if name not in ("plugins", "user", "priority"))


def sampling_options(body: SamplingFields) -> dict[str, Any]:
    """The options of a request for SamplingParams; what it leaves out, or gives as null, has the sampler's default."""
    return {name: value for name in SHARED_OPTIONS if (value := getattr(body, name)) is not None}


def plugin_options(plugins: Plugins, body: SamplingFields) -> dict[str, Any]:
    """The fields of GenerationRequest that are for plugins. Raises RequestError naming the field at fault."""
    try:
        options = plugins.request_options(body.plugins)
    except PluginOptionError as error:
        raise RequestError(error.message, param=error.param) from error
    return {"plugins": options, "user": body.user, "priority": body.priority or 0}
