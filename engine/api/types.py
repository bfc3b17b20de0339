"""Chat completions on the wire, as the server reads and writes them and as the Python API returns them.

The shapes follow OpenAI's API reference, "Chat" (create, object, chunk object), plus the sampling options of local
engines (sampling.py). Nothing that constrains the answer is ignored: other engines' fields
for that are refused where they are not understood, and so is what `response_format` does not know.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, model_validator

from .constraints import ResponseFormat, StructuredOutputs
from .messages import Message
from .sampling import SamplingFields, SamplingKeywords
from .tools import ToolChoiceField, ToolDefinition
from .wire import ChoiceLogprobs, StreamOptions, TokenNote, Usage, WireConstraint, WireResponse, fault_in

# How other engines, and OpenAI before `tools`, are asked for what `response_format` and `tools` ask for.
FOREIGN_CONSTRAINTS = (
    "ebnf",
    "format",
    "function_call",
    "functions",
    "grammar",
    "json_schema",
    "regex",
    "structural_tag",
)
FinishReason = Literal["stop", "length", "tool_calls", "cancelled"]


def refuse_foreign(body: Any, names: Sequence[str], *, use: str = "response_format") -> Any:
    """The body of a request, if none of these fields asks for anything. For validators: raises what they do."""
    if isinstance(body, dict):
        for name in names:
            if body.get(name) not in (None, [], "none", "auto"):
                raise fault_in(name, f"{name} is not supported, and would not be obeyed: use {use}")
    return body


class ReasoningOptions(WireConstraint):
    """How the model thinks before it answers: the markers around that, and the most tokens of it.

    `end` and `start` are `</think>` and `<think>` unless given. An extension of this engine.
    """

    end: str | None = Field(default=None, min_length=1)
    start: str | None = None
    budget: int | None = Field(default=None, ge=0)


class ChatCompletionRequest(SamplingFields):
    """The body of `POST /v1/chat/completions`. A field that is null counts as not given.

    Only types are checked here; what range an option may have is said once, by `slipcast.samplers.SamplingParams`.
    """

    messages: list[Message] = Field(min_length=1)
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    logprobs: bool | None = None
    top_logprobs: int | None = None
    tools: list[ToolDefinition] | None = None
    tool_choice: ToolChoiceField | None = None
    parallel_tool_calls: bool | None = None
    guided_json: dict[str, Any] | bool | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = Field(default=None, min_length=1)
    guided_grammar: str | None = None
    guided_canonical: bool | None = None
    structured_outputs: StructuredOutputs | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning: ReasoningOptions | bool | None = None
    explain: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _no_foreign_constraints(cls, body: Any) -> Any:
        return refuse_foreign(body, FOREIGN_CONSTRAINTS)

    @model_validator(mode="after")
    def _stream_options_need_a_stream(self) -> ChatCompletionRequest:
        if self.stream_options is not None and not self.stream:
            raise fault_in("stream_options", "stream_options needs stream: true beside it")
        return self

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with a chunk of token counts."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def token_limit(self) -> int | None:
        """The most tokens an answer may have; the newer of OpenAI's two names wins."""
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens


class ChatCompletionParams(SamplingKeywords, total=False):
    """The keyword arguments of `chat.completions.create`, for the type checker; `stream` is spelled out there.

    The values are those of `ChatCompletionRequest`; `response_format` may also be a pydantic model class. The last
    two are OpenAI's, accepted and without effect.
    """

    messages: Any
    model: str | None
    stream_options: Any
    response_format: Any
    max_tokens: int | None
    max_completion_tokens: int | None
    logprobs: bool | None
    top_logprobs: int | None
    tools: Any
    tool_choice: Any
    parallel_tool_calls: bool | None
    guided_json: Any
    guided_regex: str | None
    guided_choice: list[str] | None
    guided_grammar: str | None
    guided_canonical: bool | None
    structured_outputs: Any
    chat_template_kwargs: dict[str, Any] | None
    reasoning: Any
    explain: bool | None
    metadata: Any
    store: bool | None


class CalledFunction(WireResponse):
    """The call of a function; `arguments` is a JSON text."""

    name: str
    arguments: str


class MessageToolCall(WireResponse):
    """A call that the assistant wants made."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class AssistantMessage(WireResponse):
    """The answer. `content` is null where it consists of calls. `reasoning_content`: what was thought before it."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[MessageToolCall] | None = None


class CapturedPart(WireResponse):
    """What a named part of a grammar matched, and where it begins and ends in the content, in characters."""

    name: str
    text: str
    start: int
    end: int


class Choice(WireResponse):
    """One of the `n` answers. `forced_close`, true or not there: the answer was about to reach its token limit, and was
    completed in time; it would have gone on. `explain`: for requests with that, see `TokenNote`. `captures`: for
    grammars with named parts. Extensions of this engine.
    """

    index: int
    message: AssistantMessage
    logprobs: ChoiceLogprobs | None
    finish_reason: FinishReason
    forced_close: bool | None = None
    explain: list[TokenNote] | None = None
    captures: list[CapturedPart] | None = None


class ChatCompletion(WireResponse):
    """The answer to a request without `stream`. `created` is in seconds since the epoch."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    system_fingerprint: str | None = None


class FunctionDelta(WireResponse):
    """The name with a call's first delta, pieces of the arguments with the others."""

    name: str | None = None
    arguments: str | None = None


class ToolCallDelta(WireResponse):
    """More of one call: first its `index`, `id`, `type`, name and empty arguments, later `index` and arguments."""

    index: int
    id: str | None = None
    type: Literal["function"] | None = None
    function: FunctionDelta


class Delta(WireResponse):
    """What a chunk adds to a choice: the role once at its beginning, then pieces of content or calls, nothing at its
    end.
    """

    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCallDelta] | None = None


class ChunkChoice(WireResponse):
    """The part of a chunk that belongs to one of the `n` answers. `forced_close`, `captures` and `explain` as in
    `Choice`, the first two in the last chunk, the other for the chunk's tokens.
    """

    index: int
    delta: Delta
    logprobs: ChoiceLogprobs | None
    finish_reason: FinishReason | None
    forced_close: bool | None = None
    explain: list[TokenNote] | None = None
    captures: list[CapturedPart] | None = None


class ChatCompletionChunk(WireResponse):
    """One event of a stream. With `include_usage` every chunk has `usage`, null but in the last one."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | None = None
    system_fingerprint: str | None = None
