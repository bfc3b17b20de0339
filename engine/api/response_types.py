"""The Responses API on the wire, after OpenAI's API reference, "Responses": requests, and the response object."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Discriminator, Field, Tag, model_validator

from .messages import Role
from .tools import ToolName
from .types import FOREIGN_CONSTRAINTS, refuse_foreign
from .wire import TokenLogprob, WireConstraint, WireRequest, WireResponse, fault_in

# `format` and `json_schema` have their place in `text` here.
FOREIGN = tuple(name for name in FOREIGN_CONSTRAINTS if name != "tools")


class InputPart(WireRequest):
    """One part of an input's content. Only text can be read by a text model."""

    type: str
    text: str | None = None
    refusal: str | None = None

    @model_validator(mode="after")
    def _is_text(self) -> InputPart:
        if self.type in ("input_text", "output_text", "text") and self.text is not None:
            return self
        if self.type == "refusal" and self.refusal is not None:
            return self
        if self.type in ("input_text", "output_text", "text", "refusal"):
            raise fault_in("text", f"a content part of type {self.type!r} needs its text")
        raise fault_in("type", f"content parts of type {self.type!r} are not supported: this model reads text only")

    @property
    def words(self) -> str:
        """The part's text."""
        return (self.refusal if self.type == "refusal" else self.text) or ""


def words_of(content: str | list[InputPart]) -> str:
    """Content as one text."""
    return content if isinstance(content, str) else "".join(part.words for part in content)


class InputMessage(WireRequest):
    """A message; `type` may be missing."""

    type: Literal["message"] = "message"
    role: Role
    content: str | list[InputPart]


class InputCall(WireRequest):
    """A call that the model made earlier."""

    type: Literal["function_call"]
    call_id: str
    name: str = Field(min_length=1)
    arguments: str


class InputResult(WireRequest):
    """What a called function returned."""

    type: Literal["function_call_output"]
    call_id: str
    output: str | list[InputPart]


class InputReasoning(WireRequest):
    """What a model thought earlier; it is not told again."""

    type: Literal["reasoning"]


def _kind(item: Any) -> str:
    kind = item.get("type") if isinstance(item, dict) else getattr(item, "type", None)
    return "message" if kind is None else str(kind)


InputItem = Annotated[
    Annotated[InputMessage, Tag("message")]
    | Annotated[InputCall, Tag("function_call")]
    | Annotated[InputResult, Tag("function_call_output")]
    | Annotated[InputReasoning, Tag("reasoning")],
    Discriminator(_kind),
]


class PlainFormat(WireConstraint):
    """`text.format`: no constraint."""

    type: Literal["text"]


class ObjectFormat(WireConstraint):
    """`text.format`: any JSON object. `canonical` is this engine's, as in `response_format`."""

    type: Literal["json_object"]
    canonical: bool | None = None


class SchemaFormat(WireConstraint):
    """`text.format`: a value of this schema. `strict` is accepted and changes nothing; `canonical` is this engine's."""

    type: Literal["json_schema"]
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | bool = Field(alias="schema")
    strict: bool | None = None
    canonical: bool | None = None


class TextOptions(WireRequest):
    """How the text of the answer is to be."""

    format: Annotated[PlainFormat | ObjectFormat | SchemaFormat, Field(discriminator="type")] | None = None


class ResponseTool(WireRequest):
    """A function that the model may call; tools that OpenAI runs itself are not here."""

    type: Literal["function"]
    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None

    @model_validator(mode="before")
    @classmethod
    def _is_function(cls, value: Any) -> Any:
        if isinstance(value, dict) and value.get("type") not in ("function", None):
            raise fault_in("type", f"tools of type {value['type']!r} are not supported: give functions")
        return value


class ToolByName(WireRequest):
    """`tool_choice`: call this tool."""

    type: Literal["function"]
    name: str


class AllowedByName(WireRequest):
    """`tool_choice`: the model knows all tools, and may call these."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: list[ToolByName] = Field(min_length=1)


class ResponseStreamOptions(WireRequest):
    """Accepted; nothing of it applies here."""


class ResponseRequest(WireRequest):
    """The body of `POST /v1/responses`. A field that is null counts as not given."""

    input: str | list[InputItem]
    model: str | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream: bool | None = None
    stream_options: ResponseStreamOptions | None = None
    text: TextOptions | None = None
    tools: list[ResponseTool] | None = None
    tool_choice: (
        Literal["none", "auto", "required"] | Annotated[ToolByName | AllowedByName, Field(discriminator="type")] | None
    ) = None
    parallel_tool_calls: bool | None = None
    max_output_tokens: int | None = Field(default=None, ge=1)
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    min_p: float | None = None
    seed: int | None = None
    top_logprobs: int | None = None
    include: list[str] | None = None
    metadata: dict[str, Any] | None = None
    user: str | None = None
    background: bool | None = None
    conversation: Any = None
    prompt: Any = None

    @model_validator(mode="before")
    @classmethod
    def _no_foreign_constraints(cls, body: Any) -> Any:
        return refuse_foreign(body, ("response_format", *FOREIGN), use="text.format")

    @model_validator(mode="after")
    def _has_input(self) -> ResponseRequest:
        if not self.input:
            raise fault_in("input", "input is empty: give a text or at least one item")
        return self


# ----------------------------------------------------------------------------------------------------------- responses


class OutputText(WireResponse):
    """The text of a message."""

    type: Literal["output_text"] = "output_text"
    text: str
    annotations: list[Any]
    logprobs: list[TokenLogprob]


Status = Literal["in_progress", "completed", "incomplete", "failed", "cancelled"]


class OutputMessage(WireResponse):
    """A message of the answer."""

    type: Literal["message"]
    id: str
    status: Status
    role: Literal["assistant"]
    content: list[OutputText]


class OutputCall(WireResponse):
    """A call that the model wants made; `call_id` is what its result is sent back with."""

    type: Literal["function_call"]
    id: str
    call_id: str
    name: str
    arguments: str
    status: Status


class ReasoningText(WireResponse):
    """What the model thought."""

    type: Literal["reasoning_text"] = "reasoning_text"
    text: str


class OutputReasoning(WireResponse):
    """Thinking before the answer, in the model's own words."""

    type: Literal["reasoning"]
    id: str
    status: Status
    summary: list[Any]
    content: list[ReasoningText]


OutputItem = OutputMessage | OutputCall | OutputReasoning


class InputDetails(WireResponse):
    """How much of the input was not computed again."""

    cached_tokens: int


class OutputDetails(WireResponse):
    """How much of the output were thoughts."""

    reasoning_tokens: int


class ResponseUsage(WireResponse):
    """Token counts."""

    input_tokens: int
    input_tokens_details: InputDetails
    output_tokens: int
    output_tokens_details: OutputDetails
    total_tokens: int


class ResponseFault(WireResponse):
    """Why a response failed."""

    code: str
    message: str


class IncompleteDetails(WireResponse):
    """Why a response is incomplete."""

    reason: Literal["max_output_tokens", "cancelled"]


class Response(WireResponse):
    """The response object, complete or as far as it has come. What the request asked for is repeated in it."""

    model_config = ConfigDict(frozen=True)

    id: str
    object: Literal["response"]
    created_at: int
    status: Status
    background: bool
    error: ResponseFault | None
    incomplete_details: IncompleteDetails | None
    instructions: str | None
    max_output_tokens: int | None
    metadata: dict[str, Any]
    model: str
    output: list[OutputItem]
    parallel_tool_calls: bool
    previous_response_id: str | None
    reasoning: dict[str, None]
    store: bool
    temperature: float
    text: dict[str, Any]
    tool_choice: Any
    tools: list[Any]
    top_p: float
    truncation: Literal["disabled"]
    usage: ResponseUsage | None
    user: str | None


class DeletedResponse(WireResponse):
    """The answer to `DELETE /v1/responses/{id}`."""

    id: str
    object: Literal["response"]
    deleted: bool
