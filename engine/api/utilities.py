"""The endpoints beside generation: tokens of a text, text of tokens, and what a schema or grammar amounts to."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import Field, model_validator

from ..chat import ChatContext, check_model
from ..errors import RequestError
from ..prompt import encode_prompt, encode_text
from .constraints import ResponseFormat, StructuredOutputs, one_source
from .messages import Message
from .wire import WireConstraint, WireRequest, WireResponse, fault_in


class TokenizeRequest(WireRequest):
    """The body of `POST /tokenize`: a text, in which names of special tokens are those tokens; or a conversation."""

    prompt: str | None = None
    messages: list[Message] | None = Field(default=None, min_length=1)
    model: str | None = None
    add_special_tokens: bool | None = None
    return_token_strs: bool | None = None

    @model_validator(mode="after")
    def _has_one(self) -> TokenizeRequest:
        if (self.prompt is None) == (self.messages is None):
            raise fault_in("prompt", "give either prompt or messages")
        return self


class TokenizeResponse(WireResponse):
    """`tokens` are ids, `token_strs` (where asked for) their texts; `max_model_len` is the context in tokens."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeRequest(WireRequest):
    """The body of `POST /detokenize`."""

    tokens: list[int]
    model: str | None = None


class DetokenizeResponse(WireResponse):
    """The text of the tokens; special ones have none."""

    prompt: str


class GrammarCheckRequest(WireConstraint):
    """The body of `POST /v1/grammar/check`: one constraint, as a request for an answer gives it; or a bare `schema`.

    `text`: whether the grammar accepts it is asked as well.
    """

    model: str | None = None
    text: str | None = None
    schema_: dict[str, Any] | bool | None = Field(default=None, alias="schema")
    response_format: ResponseFormat | None = None
    guided_json: dict[str, Any] | bool | str | None = None
    guided_regex: str | None = None
    guided_choice: list[str] | None = Field(default=None, min_length=1)
    guided_grammar: str | None = None
    guided_canonical: bool | None = None
    structured_outputs: StructuredOutputs | None = None

    @model_validator(mode="after")
    def _has_one(self) -> GrammarCheckRequest:
        if self.schema_ is not None and one_source(self) is not None:
            raise fault_in("schema", "schema and another field both say what is to be checked")
        return self


class ReportEntry(WireResponse):
    """What became of one keyword."""

    pointer: str
    keyword: str
    status: str
    why: str = ""


class ReportAdvice(WireResponse):
    """Something right that is likely to surprise."""

    pointer: str
    keyword: str
    message: str


class GrammarCheckResponse(WireResponse):
    """The report of a grammar that can be served. `shortest`: its shortest text; `dialect`: the schema's draft;
    `accepts`: whether it accepts the text that was sent, null where none was.
    """

    object: str = "grammar.report"
    kind: str
    dialect: str | None
    entries: list[ReportEntry]
    advice: list[ReportAdvice]
    shortest: str | None
    accepts: bool | None


def tokenize(context: ChatContext, body: TokenizeRequest) -> TokenizeResponse:
    """Raises RequestError for a text that is none."""
    service = context.service
    check_model(body.model, context.model)
    limit = 1 << 62  # to count is what this is for
    if body.messages is not None:
        tokens = encode_prompt(service.tokenizer, context.template, body.messages, limit=limit)
    else:
        bos = body.add_special_tokens is not False
        tokens = encode_text(service.tokenizer, body.prompt or "", limit=limit, special=True, bos=bos)
    answer = TokenizeResponse(count=len(tokens), max_model_len=service.context_length, tokens=list(tokens))
    if not body.return_token_strs:
        return answer
    texts = [service.tokenizer.decode([token]) or service.tokenizer.name(token) for token in tokens]
    return answer.model_copy(update={"token_strs": texts})


def detokenize(context: ChatContext, body: DetokenizeRequest) -> DetokenizeResponse:
    """Raises RequestError for what is no token id."""
    check_model(body.model, context.model)
    size = context.service.tokenizer.size
    wrong = next((token for token in body.tokens if not 0 <= token < size), None)
    if wrong is not None:
        raise RequestError(f"{wrong} is not a token id below {size}", param="tokens")
    return DetokenizeResponse(prompt=context.service.tokenizer.decode(body.tokens))


def check_grammar(context: ChatContext, body: GrammarCheckRequest) -> GrammarCheckResponse:
    """Raises RequestError if there is nothing to check, and GrammarError for what cannot be served."""
    check_model(body.model, context.model)
    source = ("json_schema", body.schema_, {}) if body.schema_ is not None else one_source(body)
    if source is None:
        raise RequestError("there is nothing to check", param="schema", remedy="give schema or response_format")
    grammar = context.service.compile(*source)
    report = getattr(grammar, "report", None)
    shortest = getattr(grammar, "shortest", None)
    accepts = getattr(grammar, "accepts", None)
    return GrammarCheckResponse(
        object="grammar.report",
        kind=source[0],
        dialect=None if report is None or source[0] != "json_schema" else report.dialect,
        entries=[ReportEntry(**asdict(entry)) for entry in (report.entries if report else ())],
        advice=[ReportAdvice(**asdict(advice)) for advice in (report.advice if report else ())],
        shortest=shortest.decode("utf-8", "replace") if isinstance(shortest, bytes) else None,
        accepts=accepts(body.text) if accepts is not None and body.text is not None else None,
    )
