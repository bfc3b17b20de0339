"""HTTP around every endpoint: bodies read within a limit, disconnects watched, answers and streams sent, errors told.

An endpoint is a pair of functions: one makes a request of a body, the other answers it, with a WireResponse or with an
EventStream. Everything that the endpoints have in common is here, so that none of them can forget it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from ...grammar import GrammarError
from ..engine import AsyncStream
from ..lines import one_line
from .body import parse_body, read_bytes
from .constraints import constraint_field
from .errors import FieldError, Names, answer_for, body_for, chat_names, from_validation
from .response_answers import ResponseAssembler
from .wire import ErrorBody, ErrorDetail, WireRequest, WireResponse

LONG_BODY_BYTES = 64 << 10
JSON_TYPE = "application/json"
EVENT_STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}
RETRY_SECONDS = 1

logger = logging.getLogger("slipcast.server")


@dataclass(frozen=True, slots=True)
class Event:
    """One server-sent event: its data, and its name where the API gives events names."""

    data: str
    name: str | None = None

    def encode(self) -> bytes:
        """The event on the wire (WHATWG HTML, "Server-sent events")."""
        head = f"event: {self.name}\n" if self.name else ""
        return f"{head}data: {self.data}\n\n".encode()


@dataclass(frozen=True, slots=True)
class EventStream:
    """An answer in events. `close` is called when the client has left or all is said."""

    events: AsyncIterator[Event]
    close: Callable[[], Awaitable[None]]


Answer = WireResponse | EventStream


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`POST path`. `body` is the type of requests, `answer` makes the answer, which is of the type `returns`.

    `names`: what its fields are called in errors. `summary` and `streams` (whether it answers in events where the body
    says so) are for the OpenAPI document.
    """

    path: str
    body: type[WireRequest]
    answer: Callable[[Any], Awaitable[Answer]]
    returns: type[WireResponse]
    summary: str
    streams: bool = False
    names: Names = chat_names


@dataclass(frozen=True, slots=True)
class JsonEndpoint:
    """An Endpoint as an ASGI application, since it watches the connection while it works."""

    endpoint: Endpoint
    max_body_bytes: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            data = await read_bytes(request, self.max_body_bytes)
            # Parsing a long body takes longer than the streams of others should wait.
            body = self._read(data) if len(data) <= LONG_BODY_BYTES else await asyncio.to_thread(self._read, data)
        except ClientDisconnect:
            return
        except Exception as error:
            await self._failed(error)(scope, receive, send)
            return

        async def respond() -> None:
            try:
                answer = await self.endpoint.answer(body)
            except Exception as error:
                field = constraint_field(body) if isinstance(error, GrammarError) else None
                await self._failed(error if field is None else FieldError(error, field))(scope, receive, send)
                return
            if isinstance(answer, EventStream):
                await _send_events(answer, send)
            else:
                await Response(answer.dump(), media_type=JSON_TYPE)(scope, receive, send)

        await _until_disconnect(respond(), receive)

    def _failed(self, error: Exception) -> Response:
        return error_response(error, self.endpoint.names)

    def _read(self, data: bytes) -> WireRequest:
        return read_body(self.endpoint.body, parse_body(data))


def read_body(kind: type[WireRequest], body: Mapping[str, Any]) -> WireRequest:
    """A request from a parsed body. Raises BodyError, which names the field."""
    try:
        return kind.model_validate(body)
    except ValidationError as error:
        raise from_validation(error, body) from error


def openai_stream(pieces: AsyncStream[Any], names: Names = chat_names) -> EventStream:
    """Pieces as OpenAI streams chunks: data only, `[DONE]` at the end, an error as the last event."""

    async def events() -> AsyncIterator[Event]:
        try:
            async for piece in pieces:
                yield Event(piece.dump())
        except Exception as error:
            log_error(error)
            yield Event(body_for(error, names).model_dump_json())
        else:
            yield Event("[DONE]")

    return EventStream(events(), pieces.close)


def response_stream(pieces: AsyncStream[Any], assembler: ResponseAssembler, names: Names) -> EventStream:
    """The Responses API's events, which have names; after a fault, `error` and `response.failed`."""

    async def events() -> AsyncIterator[Event]:
        try:
            async for piece in pieces:
                yield Event(piece.dump(), piece.type)
        except Exception as error:
            log_error(error)
            for piece in assembler.failed(body_for(error, names)):
                yield Event(piece.dump(), piece.type)

    return EventStream(events(), pieces.close)


async def _send_events(stream: EventStream, send: Send) -> None:
    try:
        head = Response(headers=EVENT_STREAM_HEADERS, media_type="text/event-stream")
        headers = [pair for pair in head.raw_headers if pair[0] != b"content-length"]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for event in stream.events:
            await send({"type": "http.response.body", "body": event.encode(), "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})
    finally:
        await stream.close()


async def _until_disconnect(work: Coroutine[Any, Any, None], receive: Receive) -> None:
    """Do the work, but cancel it when the client goes away. Nothing else may call `receive` meanwhile."""

    async def gone() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    task, watch = asyncio.create_task(work), asyncio.create_task(gone())
    try:
        await asyncio.wait((task, watch), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for unfinished in (task, watch):
            unfinished.cancel()
        await asyncio.gather(task, watch, return_exceptions=True)
    if not task.cancelled() and (error := task.exception()) is not None:
        raise error


# --------------------------------------------------------------------------------------------------------------- errors


def error_response(error: Exception, names: Names = chat_names) -> Response:
    """The answer to a request that failed, logged."""
    log_error(error)
    status = answer_for(error).status
    headers = {"Retry-After": str(RETRY_SECONDS)} if status in (429, 503) else None
    return Response(body_for(error, names).model_dump_json(), status_code=status, headers=headers, media_type=JSON_TYPE)


def log_error(error: Exception) -> None:
    """A client's mistake is a line for those who look for it; the server's own fault comes with its traceback, but
    to be busy or about to end is none.
    """
    status = answer_for(error).status
    if status in (429, 503):
        logger.warning("refused: %s", one_line(str(error)))
    elif status < 500:
        logger.info("refused: %s", one_line(str(error)))
    else:
        logger.error("failed: %s", one_line(str(error)), exc_info=error)


async def answer_error(request: Request, error: Exception) -> Response:
    """An error outside the endpoints."""
    return error_response(error)


async def answer_http_error(request: Request, error: Exception) -> Response:
    """Unknown paths and methods, with OpenAI's body."""
    assert isinstance(error, HTTPException)
    message = one_line(f"{error.detail}: {request.method} {request.url.path}")
    detail = ErrorDetail(message=message, type="invalid_request_error", param=None, code=None)
    return Response(
        ErrorBody(error=detail).model_dump_json(),
        status_code=error.status_code,
        headers=dict(error.headers or {}),
        media_type=JSON_TYPE,
    )
