"""Plain completions on the wire, after OpenAI's API reference, "Completions (legacy)"."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field, model_validator

from .constraints import ResponseFormat, StructuredOutputs
from .sampling import SamplingFields
from .types import FOREIGN_CONSTRAINTS, refuse_foreign
from .wire import StreamOptions, Usage, WireResponse, fault_in

MAX_PROMPTS = 256
DEFAULT_MAX_TOKENS = 16


class CompletionRequest(SamplingFields):
    """The body of `POST /v1/completions`. Prompts are texts or token ids; each gets `n` answers."""

    prompt: str | list[str] | list[int] | list[list[int]]
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    best_of: int | None = None
    echo: bool | None = None
    suffix: str | None = None
    max_tokens: int | None = Field(default=None, ge=0)
    logprobs: int | None = Field(default=None, ge=0)
    response_format: ResponseFormat | None = None
    guided_json: dict[str, Any] | bool | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = Field(default=None, min_length=1)
    guided_grammar: str | None = None
    guided_canonical: bool | None = None
    structured_outputs: StructuredOutputs | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_foreign_constraints(cls, body: Any) -> Any:
        return refuse_foreign(body, FOREIGN_CONSTRAINTS)

    @model_validator(mode="after")
    def _is_possible(self) -> CompletionRequest:
        if self.stream_options is not None and not self.stream:
            raise fault_in("stream_options", "stream_options needs stream: true beside it")
        if not self.prompt:
            raise fault_in("prompt", "prompt is empty: give at least one text or token")
        if isinstance(self.prompt, list) and not isinstance(self.prompt[0], int) and len(self.prompt) > MAX_PROMPTS:
            raise fault_in("prompt", f"prompt holds {len(self.prompt)} prompts, more than {MAX_PROMPTS}")
        return self

    @property
    def prompts(self) -> list[str] | list[list[int]]:
        """The prompts, one or more."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if isinstance(self.prompt[0], int):
            return [self.prompt]
        return self.prompt

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with a chunk of token counts."""
        return bool(self.stream_options and self.stream_options.include_usage)


class CompletionLogprobs(WireResponse):
    """Parallel lists, one entry for each token; `text_offset` counts characters from the beginning of `text`."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float]] | None
    text_offset: list[int]


class CompletionChoice(WireResponse):
    """One answer. `index` counts through all prompts: `n` answers of the first, then those of the next."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None
    finish_reason: Literal["stop", "length", "cancelled"] | None
    forced_close: bool | None = None


class Completion(WireResponse):
    """The answer, or a piece of it where the request streams."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
