"""The wire: OpenAI's chat completion types, as the server reads and writes them and as the Python API returns them.

Requests ignore fields that they do not know, since clients send many (`store`, `metadata`, `user`, ...), but what
is known is checked strictly: `"temperature": "hot"` and `"max_tokens": true` are errors that name the field. Nothing
that constrains the answer is ignored: other engines' fields for that are refused, and so is what `response_format`
does not know.
Responses hold exactly the fields that were set: `dump` leaves the others out, so that a chunk carries `"usage":
null` only where OpenAI's does.

The shapes follow OpenAI's API reference, "Chat" (create, object, chunk object), plus the sampling extras of local
engines: `top_k`, `min_p` and `repetition_penalty`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from .constraints import ChoiceFormat, RegexFormat, StructuredOutputs

# How other engines, and OpenAI before `tools`, are asked for what `response_format` and `tools` ask for.
FOREIGN_CONSTRAINTS = (
    "ebnf",
    "format",
    "function_call",
    "functions",
    "grammar",
    "guided_grammar",
    "json_schema",
    "regex",
    "structural_tag",
)
Role = Literal["system", "developer", "user", "assistant", "tool"]
FinishReason = Literal["stop", "length", "cancelled"]


class WireRequest(BaseModel):
    """A part of a request: unknown fields are ignored, known ones are checked without coercion, NaN is no number."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False, populate_by_name=True)


class WireConstraint(WireRequest):
    """A part of a request that says what the answer may be: a field that is not known is an error."""

    model_config = ConfigDict(extra="forbid")


class WireResponse(BaseModel):
    """A part of a response."""

    model_config = ConfigDict(frozen=True)

    def dump(self) -> str:
        """The JSON text that goes over the wire: the fields that were set, in order."""
        return self.model_dump_json(exclude_unset=True)


# ----------------------------------------------------------------------------------------------------------- requests


class ContentPart(WireRequest):
    """One part of a message's content. Only text can be read by a text model."""

    type: str
    text: str | None = None
    refusal: str | None = None

    @model_validator(mode="after")
    def _is_text(self) -> ContentPart:
        if self.type == "text" and self.text is not None:
            return self
        if self.type == "refusal" and self.refusal is not None:
            return self
        if self.type in ("text", "refusal"):
            raise ValueError(f"a content part of type {self.type!r} needs the field {self.type!r}")
        raise ValueError(f"content parts of type {self.type!r} are not supported: this model reads text only")

    @property
    def words(self) -> str:
        """The part's text."""
        return (self.text if self.type == "text" else self.refusal) or ""


class FunctionCall(WireRequest):
    """The call inside a message of the history: `arguments` is a JSON text."""

    name: str
    arguments: str


class ToolCall(WireRequest):
    """A call that the assistant made earlier in the conversation."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class Message(WireRequest):
    """One message of the conversation. `content` may be null only for the assistant, as OpenAI sends its own calls
    back.
    """

    role: Role
    content: str | list[ContentPart] | None = None
    name: str | None = None
    refusal: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None

    @model_validator(mode="after")
    def _has_content(self) -> Message:
        if self.content is None and self.role != "assistant":
            raise ValueError(f"a message with the role {self.role!r} needs content, a text or a list of text parts")
        return self

    @property
    def text(self) -> str:
        """The content as one text: parts are joined, null is empty."""
        if isinstance(self.content, list):
            return "".join(part.words for part in self.content)
        return self.content or ""


class JsonSchemaFormat(WireConstraint):
    """`response_format.json_schema`. `strict` is accepted and changes nothing: a schema is always enforced exactly.

    `order`, `whitespace` and `spelling` are this engine's extras: how the answer may be written
    (see `slipcast.grammar.GrammarCompiler.json_schema`).
    """

    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | bool = Field(alias="schema")
    strict: bool | None = None
    order: Literal["schema", "any"] | None = None
    whitespace: Literal["bounded", "compact", "spaced", "pretty"] | None = None
    spelling: Literal["natural", "any"] | None = None


class TextFormat(WireConstraint):
    """No constraint."""

    type: Literal["text"]


class JsonObjectFormat(WireConstraint):
    """Any JSON object; with `schema`, as some clients send it, the same as `json_schema`."""

    type: Literal["json_object"]
    schema_: dict[str, Any] | bool | None = Field(default=None, alias="schema")


class JsonSchemaResponseFormat(WireConstraint):
    """A value of this schema and nothing else."""

    type: Literal["json_schema"]
    json_schema: JsonSchemaFormat


ResponseFormat = Annotated[
    TextFormat | JsonObjectFormat | JsonSchemaResponseFormat | RegexFormat | ChoiceFormat, Field(discriminator="type")
]


class StreamOptions(WireRequest):
    """`include_usage` asks for one more chunk at the end, with the token counts and no choices."""

    include_usage: bool | None = None


class ChatCompletionRequest(WireRequest):
    """The body of `POST /v1/chat/completions`. A field that is null counts as not given.

    Only types are checked here; what range an option may have is said once, by `slipcast.samplers.SamplingParams`.
    """

    messages: list[Message] = Field(min_length=1)
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    response_format: ResponseFormat | None = None
    n: int | None = None
    max_tokens: int | None = Field(default=None, ge=1)
    max_completion_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    repetition_penalty: float | None = None
    logit_bias: dict[str, float] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    tools: list[dict[str, JsonValue]] | None = None
    tool_choice: Literal["none", "auto", "required"] | dict[str, JsonValue] | None = None
    guided_json: dict[str, Any] | bool | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = Field(default=None, min_length=1)
    structured_outputs: StructuredOutputs | None = None

    @field_validator("logit_bias", mode="before")
    @classmethod
    def _integer_keys(cls, value: Any) -> Any:
        """JSON keys are strings and Python callers write integers: both name a token id."""
        return {str(key): bias for key, bias in value.items()} if isinstance(value, dict) else value

    @model_validator(mode="before")
    @classmethod
    def _no_foreign_constraints(cls, body: Any) -> Any:
        if isinstance(body, dict):
            for name in FOREIGN_CONSTRAINTS:
                if body.get(name) not in (None, [], "none", "auto"):
                    raise ValueError(f"{name} is not supported, and would not be obeyed: use response_format")
        return body

    @model_validator(mode="after")
    def _stream_options_need_a_stream(self) -> ChatCompletionRequest:
        if self.stream_options is not None and not self.stream:
            raise ValueError("stream_options needs stream: true beside it")
        return self

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with a chunk of token counts."""
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def token_limit(self) -> int | None:
        """The most tokens an answer may have; the newer of OpenAI's two names wins."""
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens


class ChatCompletionParams(TypedDict, total=False):
    """The keyword arguments of `chat.completions.create`, for the type checker; `stream` is spelled out there.

    The values are those of `ChatCompletionRequest`; `response_format` may also be a pydantic model class. The last
    three are OpenAI's, accepted and without effect.
    """

    messages: Any
    model: str | None
    stream_options: Any
    response_format: Any
    n: int | None
    max_tokens: int | None
    max_completion_tokens: int | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    repetition_penalty: float | None
    logit_bias: dict[str, float] | dict[int, float] | None
    logprobs: bool | None
    top_logprobs: int | None
    seed: int | None
    stop: str | list[str] | None
    tools: Any
    tool_choice: Any
    guided_json: Any
    guided_regex: str | None
    guided_choice: list[str] | None
    structured_outputs: Any
    user: str | None
    metadata: Any
    store: bool | None


# ---------------------------------------------------------------------------------------------------------- responses


class TopLogprob(WireResponse):
    """One of the most likely tokens at a place. `logprob` is natural, at most 0; `bytes` are the token's UTF-8
    bytes.
    """

    token: str
    logprob: float
    bytes: list[int] | None


class TokenLogprob(TopLogprob):
    """The token that was chosen, with the likeliest ones there."""

    top_logprobs: list[TopLogprob]


class ChoiceLogprobs(WireResponse):
    """The log probabilities of a choice or of a chunk of it."""

    content: list[TokenLogprob] | None
    refusal: None = None


class PromptTokensDetails(WireResponse):
    """How much of the prompt was not computed again."""

    cached_tokens: int


class Usage(WireResponse):
    """Token counts of a request, over all its choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails | None = None


class AssistantMessage(WireResponse):
    """The answer."""

    role: Literal["assistant"]
    content: str | None
    refusal: str | None = None


class Choice(WireResponse):
    """One of the `n` answers. `forced_close`, true or not there: the answer was about to reach its token limit, and was
    completed in time; it would have gone on. An extension of this engine.
    """

    index: int
    message: AssistantMessage
    logprobs: ChoiceLogprobs | None
    finish_reason: FinishReason
    forced_close: bool | None = None


class ChatCompletion(WireResponse):
    """The answer to a request without `stream`. `created` is in seconds since the epoch."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    choices: list[Choice]
    usage: Usage
    system_fingerprint: str | None = None


class Delta(WireResponse):
    """What a chunk adds to a choice: the role once at its beginning, then pieces of content, nothing at its end."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    refusal: str | None = None


class ChunkChoice(WireResponse):
    """The part of a chunk that belongs to one of the `n` answers. `forced_close` as in `Choice`, in the last chunk."""

    index: int
    delta: Delta
    logprobs: ChoiceLogprobs | None
    finish_reason: FinishReason | None
    forced_close: bool | None = None


class ChatCompletionChunk(WireResponse):
    """One event of a stream. With `include_usage` every chunk has `usage`, null but in the last one."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | None = None
    system_fingerprint: str | None = None


class Model(WireResponse):
    """A model that this server answers for."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str


class ModelList(WireResponse):
    """The body of `GET /v1/models`."""

    object: Literal["list"]
    data: list[Model]


class ErrorDetail(WireResponse):
    """`param` is the request's field at fault as a path (`messages.0.role`), `code` a stable name of the cause."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(WireResponse):
    """The body of every answer that is no success, and the last event of a stream that failed."""

    error: ErrorDetail
