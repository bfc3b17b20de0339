"""The REST door: OpenAI's chat completions over HTTP, as a Starlette application.

    POST /v1/chat/completions    answers, or streams server-sent events where the body says `"stream": true`
    GET  /v1/models              the model served here
    GET  /health                 200 while the engine takes requests, else 503

Every error is OpenAI's body with the status of api/errors.py's table. A request whose client goes away is
cancelled, streaming or not. Once a stream has begun its status is sent, so an error there becomes the stream's last
event.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from .. import chat
from ..engine import AsyncEngine, AsyncStream
from ..errors import ClosedError, EngineError
from ..lines import one_line
from .body import parse_body, read_bytes
from .errors import answer_for, body_for
from .types import ChatCompletionChunk, ChatCompletionRequest
from .wire import ErrorBody, ErrorDetail, Model, ModelList

MAX_BODY_BYTES = 8 << 20
LONG_BODY_BYTES = 64 << 10
JSON_TYPE = "application/json"
EVENT_STREAM_HEADERS = {"Cache-Control": "no-cache", "X-Accel-Buffering": "no"}

logger = logging.getLogger("slipcast.server")


def create_app(engine: AsyncEngine, *, max_body_bytes: int = MAX_BODY_BYTES) -> Starlette:
    """The application over a running engine, which it closes at shutdown. Bodies are read up to `max_body_bytes`."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(engine.close)

    started = int(time.time())

    async def health(request: Request) -> Response:
        if engine.service.closed:
            raise ClosedError("the engine was closed", remedy="start the server again")
        return JSONResponse({"status": "ok"})

    async def models(request: Request) -> Response:
        served = Model(id=engine.model, object="model", created=started, owned_by="slipcast")
        return Response(ModelList(object="list", data=[served]).dump(), media_type=JSON_TYPE)

    async def model(request: Request) -> Response:
        name = request.path_params["model"]
        if name != engine.model:
            raise chat.model_not_found(name, [engine.model])
        return Response(
            Model(id=name, object="model", created=started, owned_by="slipcast").dump(), media_type=JSON_TYPE
        )

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/v1/models", models),
            Route("/v1/models/{model:path}", model),
            Route("/v1/chat/completions", _ChatEndpoint(engine, max_body_bytes), methods=["POST"]),
        ],
        lifespan=lifespan,
        exception_handlers={HTTPException: _answer_http_error, EngineError: _answer_error, Exception: _answer_error},
    )


class _ChatEndpoint:
    """`POST /v1/chat/completions` as an ASGI application, since it watches the connection while it works."""

    def __init__(self, engine: AsyncEngine, max_body_bytes: int) -> None:
        self._engine = engine
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            data = await read_bytes(request, self._max_body_bytes)
            # Parsing a long body takes longer than the streams of others should wait.
            body = _read(data) if len(data) <= LONG_BODY_BYTES else await asyncio.to_thread(_read, data)
        except ClientDisconnect:
            return
        except Exception as error:
            await _error_response(error)(scope, receive, send)
            return

        async def respond() -> None:
            response: Response | _EventStream
            try:
                answer = await self._engine.chat.completions.answer(body)
            except Exception as error:
                response = _error_response(error)
            else:
                if isinstance(answer, AsyncStream):
                    response = _EventStream(answer)
                else:
                    response = Response(answer.dump(), media_type=JSON_TYPE)
            await response(scope, receive, send)

        await _until_disconnect(respond(), receive)


class _EventStream:
    """A stream of chunks as server-sent events (WHATWG HTML, "Server-sent events"), closed by OpenAI's `[DONE]`."""

    def __init__(self, chunks: AsyncStream[ChatCompletionChunk]) -> None:
        self._chunks = chunks

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with self._chunks as chunks:
            head = Response(headers=EVENT_STREAM_HEADERS, media_type="text/event-stream")
            headers = [pair for pair in head.raw_headers if pair[0] != b"content-length"]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            try:
                async for chunk in chunks:
                    await _send_event(send, chunk.dump())
                last = "[DONE]"
            except Exception as error:
                _log(error)
                last = body_for(error).model_dump_json()
            await _send_event(send, last)
            await send({"type": "http.response.body", "body": b"", "more_body": False})


def _read(data: bytes) -> ChatCompletionRequest:
    return chat.read(parse_body(data))


async def _send_event(send: Send, data: str) -> None:
    await send({"type": "http.response.body", "body": f"data: {data}\n\n".encode(), "more_body": True})


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


def _error_response(error: Exception) -> Response:
    _log(error)
    return Response(body_for(error).model_dump_json(), status_code=answer_for(error).status, media_type=JSON_TYPE)


def _log(error: Exception) -> None:
    """A client's mistake is a line for those who look for it; the server's own fault comes with its traceback, but
    to be busy or about to end is none.
    """
    if answer_for(error).status < 500:
        logger.info("refused: %s", one_line(str(error)))
    elif answer_for(error).status == 503:
        logger.warning("refused: %s", one_line(str(error)))
    else:
        logger.error("failed: %s", one_line(str(error)), exc_info=error)


async def _answer_error(request: Request, error: Exception) -> Response:
    return _error_response(error)


async def _answer_http_error(request: Request, error: Exception) -> Response:
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
