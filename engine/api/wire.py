"""What all endpoints have in common on the wire: how bodies are read and written, usage, logprobs, models, errors.

Requests ignore fields that they do not know, since clients send many, but what is known is checked strictly:
`"temperature": "hot"` and `"max_tokens": true` are errors that name the field. A part that says what the answer may be
ignores nothing. Responses hold exactly the fields that were set: `dump` leaves the others out, so that a chunk carries
`"usage": null` only where OpenAI's does.
"""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict
from pydantic_core import PydanticCustomError


def fault_in(field: str, message: str) -> PydanticCustomError:
    """For a validator of a whole part of a request: what is wrong, and the field of the part that is at fault."""
    return PydanticCustomError("fault", "{message}", {"message": message, "field": field})


class WireRequest(BaseModel):
    """A part of a request: unknown fields are ignored, known ones are checked without coercion, NaN is no number."""

    model_config = ConfigDict(extra="ignore", strict=True, frozen=True, allow_inf_nan=False, populate_by_name=True)


class WireConstraint(WireRequest):
    """A part of a request that says what the answer may be: a field that is not known would not be obeyed."""

    model_config = ConfigDict(extra="forbid")


class WireResponse(BaseModel):
    """A part of a response."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    def dump(self) -> str:
        """The JSON text that goes over the wire: the fields that were set, in order."""
        return self.model_dump_json(exclude_unset=True, by_alias=True)


class TokenNote(WireResponse):
    """What the grammar did where a token came. An extension of this engine, for requests with `explain`.

    `forced`: there was no choice, or the token completes the answer just in time. `allowed`: how many tokens could
    come, null without a grammar. `removed`: the model's probability of those that could not, null where the token took
    no step of the model. `pointer`: the JSON pointer of the part of the schema that was in force, or null.
    """

    token: str
    bytes: list[int]
    forced: bool
    allowed: int | None
    removed: float | None
    pointer: str | None


class StreamOptions(WireRequest):
    """`include_usage` asks for one more chunk at the end, with the token counts and no choices."""

    include_usage: bool | None = None


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


class CompletionTokensDetails(WireResponse):
    """How much of the completion was thinking before the answer."""

    reasoning_tokens: int


class Usage(WireResponse):
    """Token counts of a request, over all its choices."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails | None = None
    completion_tokens_details: CompletionTokensDetails | None = None


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


class Health(WireResponse):
    """The body of `GET /health`."""

    status: Literal["ok"]


class ErrorDetail(WireResponse):
    """`param` is the request's field at fault as a path (`messages.0.role`), `code` a stable name of the cause."""

    message: str
    type: str
    param: str | None
    code: str | None


class ErrorBody(WireResponse):
    """The body of every answer that is no success, and the last event of a stream that failed."""

    error: ErrorDetail
