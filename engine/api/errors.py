"""Errors as clients see them: one table from error class to status, type and code, and one place that writes the body.

    RequestError (engine/errors.py)
        BodyError                     the body is not JSON, or not of the shape that the endpoint takes
        ModelNotFoundError            the request names a model that is not served here
        NotFoundError                 ... or something else that is not here
        UnsupportedRequestError       what is asked is well formed, and nothing that this server does
        FieldError                    a part of the request is at fault, and this says which; answered as its cause
    BodyTooLargeError                 the body is longer than the server reads
    AccessError                       no API key that the server knows
    SlowBodyError                     the body did not come in time
    RequestTimeoutError               the request took longer than the server lets it

The body is OpenAI's: `{"error": {"message", "type", "param", "code"}}`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from ...grammar import errors as grammar
from ...plugins import PluginError
from ...samplers import SamplingError
from .. import errors as engine
from ..lines import one_line
from .wire import ErrorBody, ErrorDetail

INVALID = "invalid_request_error"
SERVER = "server_error"


class BodyError(engine.RequestError):
    """A request that cannot be read; `param` is the path of the field at fault."""


class ModelNotFoundError(engine.RequestError):
    """The request asks for a model that this engine does not serve."""


class NotFoundError(engine.RequestError):
    """The request asks for something that is not there, or not any more."""


class UnsupportedRequestError(engine.RequestError):
    """The request is well formed and asks for what this server does not do; `param` is the path of the field."""


class FieldError(engine.RequestError):
    """An error about one field of the request, `param`, where the error itself cannot know which it was."""

    def __init__(self, cause: Exception, param: str) -> None:
        self.cause = cause
        super().__init__(described(cause), param=param)


class BodyTooLargeError(engine.EngineError):
    """The body is longer than the limit."""


class SlowBodyError(engine.EngineError):
    """The body did not come in time."""


class AccessError(engine.EngineError):
    """The request carries no API key that this server knows."""


class RequestTimeoutError(engine.EngineError):
    """The request took longer than the server lets it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """How a class of errors is answered. `param` is the field at fault where the error itself does not say."""

    status: int
    type: str
    code: str | None
    param: str | None = None


# An error is answered by the nearest of its base classes that stands here; `unexpected` catches the rest.
ANSWERS: Mapping[type[BaseException], Answer] = {
    BodyError: Answer(400, INVALID, "invalid_body"),
    ModelNotFoundError: Answer(404, INVALID, "model_not_found", "model"),
    NotFoundError: Answer(404, INVALID, "not_found"),
    UnsupportedRequestError: Answer(422, INVALID, "unsupported"),
    BodyTooLargeError: Answer(413, INVALID, "body_too_large"),
    SlowBodyError: Answer(408, INVALID, "slow_body"),
    AccessError: Answer(401, "authentication_error", "invalid_api_key"),
    RequestTimeoutError: Answer(503, SERVER, "timeout"),
    SamplingError: Answer(400, INVALID, "invalid_value"),
    grammar.SchemaError: Answer(400, INVALID, "invalid_schema", "response_format"),
    grammar.UnsupportedError: Answer(400, INVALID, "unsupported_schema", "response_format"),
    grammar.UnsatisfiableError: Answer(400, INVALID, "unsatisfiable_schema", "response_format"),
    grammar.PatternError: Answer(400, INVALID, "invalid_pattern", "response_format"),
    grammar.BudgetError: Answer(400, INVALID, "schema_too_complex", "response_format"),
    grammar.GrammarError: Answer(400, INVALID, "invalid_grammar", "response_format"),
    engine.ContextLengthError: Answer(400, INVALID, "context_length_exceeded", "messages"),
    engine.RequestError: Answer(400, INVALID, "invalid_request"),
    PluginError: Answer(500, SERVER, "plugin_fault"),
    engine.BusyError: Answer(429, "rate_limit_error", "engine_busy"),
    engine.ClosedError: Answer(503, SERVER, "engine_closed"),
    engine.PluginFault: Answer(500, SERVER, "plugin_fault"),
    engine.GrammarFault: Answer(500, SERVER, "grammar_fault"),
    engine.RequestFault: Answer(500, SERVER, "request_fault"),
    engine.ModelFault: Answer(500, SERVER, "model_fault"),
    engine.EngineError: Answer(500, SERVER, "engine_error"),
}
Names = Callable[[str], str]
"""What an endpoint calls a field that the engine, or chat completions, call otherwise."""
UNEXPECTED = Answer(500, SERVER, "internal_error")


def answer_for(error: BaseException) -> Answer:
    """The row of the table for this error."""
    if isinstance(error, FieldError):
        return answer_for(error.cause)
    return next((ANSWERS[base] for base in type(error).__mro__ if base in ANSWERS), UNEXPECTED)


def chat_names(name: str) -> str:
    """The names of chat completions."""
    return "messages" if name == "prompt" else name


def own_names(name: str) -> str:
    """The engine's own names."""
    return name


def body_for(error: BaseException, names: Names = chat_names) -> ErrorBody:
    """The error as a body, with the endpoint's `names` of fields. What is not an error of this product says nothing of
    its inside: the log has it.
    """
    answer = answer_for(error)
    message = "an unexpected error ended this request" if answer is UNEXPECTED else described(error)
    param = getattr(error, "param", None) or getattr(error, "option", None) or answer.param
    if param is not None and not isinstance(error, BodyError | UnsupportedRequestError):  # those have the body's own
        param = names(param)
    return ErrorBody(error=ErrorDetail(message=message, type=answer.type, param=param, code=answer.code))


def described(error: BaseException) -> str:
    """The error's text on one line; a grammar error names its keyword even where its own text does not."""
    text = one_line(str(error))
    keyword = error.keyword if isinstance(error, grammar.GrammarError) else None
    return f"{keyword}: {text}" if keyword is not None and keyword not in text else text


def from_validation(error: ValidationError, body: object) -> BodyError:
    """The deepest complaint about a body as one line that begins with the path of the field, `messages.0.role`.

    A value that fits no member of a union is reported once per member; the deepest report is about the member that
    was meant.
    """
    details = error.errors(include_url=False)
    paths = [_path(one["loc"], body, missing=one["type"] == "missing") + _field(one) for one in details]
    located = list(zip(paths, details, strict=True))
    path, detail = max(located, key=lambda pair: len(pair[0]))
    message = detail["msg"].removeprefix("Value error, ")
    param = ".".join(map(str, path)) or None
    told = param is None or message.startswith(str(path[-1]))
    return BodyError(one_line(message if told else f"{param}: {message}"), param=param)


def _field(detail: Mapping[str, Any]) -> tuple[str, ...]:
    """Which field of a part a complaint about the whole part is about (wire.fault_in)."""
    return (detail["ctx"]["field"],) if detail["type"] == "fault" else ()


def _path(location: Sequence[int | str], body: object, *, missing: bool) -> tuple[int | str, ...]:
    """The parts of a location that are keys and indices of the body, and the key that is missing at its end. The names
    of union members, between them, are not; where such a name is a key as well, the reading that comes to the end wins.
    """
    if not location:
        return ()
    part, rest = location[0], location[1:]
    skipped = _path(rest, body, missing=missing)
    value: Any = body
    if isinstance(part, int) and isinstance(value, list) and part < len(value):
        inner = value[part]
    elif isinstance(part, str) and isinstance(value, dict) and (part in value or (missing and not rest)):
        inner = value.get(part)
    else:
        return skipped
    taken = (part, *_path(rest, inner, missing=missing))
    return max(taken, skipped, key=lambda path: (path[-1:] == tuple(location[-1:]), len(path)))
