"""The front: takes HTTP requests, gives them to a replica, and to another if that one dies.

Nothing is lost that has not begun to be sent: a whole answer is asked for again, and comes out the same, since a
request without a seed is given one here. A stream that has begun ends with an error event.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from typing import Any, Final

from ray.exceptions import RayActorError, RayTaskError, TaskCancelledError
from ray.serve.exceptions import BackPressureError, RayServeException
from starlette.applications import Starlette
from starlette.datastructures import MutableHeaders
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...plugins import create_manager
from ..api.access import REQUEST_ID, AccessRules, current_request
from ..api.body import read_bytes
from ..api.errors import body_for
from ..api.http import error_response
from ..api.metrics import CONTENT_TYPE
from ..api.server import around
from ..cli_serve import configure_logs, traced
from ..errors import BusyError, ClosedError, EngineError, RequestFault
from ..settings import ServerSettings
from .calls import Call, Head
from .keys import seeded, warm_keys
from .merging import merge

_LOG = logging.getLogger(__name__)
ATTEMPTS: Final = 6
PAUSE_SECONDS: Final = 0.2
"""Before the second attempt, and more before each after it: Serve needs a moment to see that a replica is dead."""
METRICS_SECONDS: Final = 10.0
CUT: Final = "the replica died while it answered"


class Front:
    """The ingress of the Serve application, as `serve.ingress` takes it. `replicas`: a handle of their deployment."""

    def __init__(self, replicas: Any, settings: Mapping[str, Any], keys: tuple[str, ...]) -> None:
        self._replicas = replicas
        self._settings = ServerSettings.model_validate(settings)
        self._rules = rules(self._settings, keys)
        configure_logs(self._settings)

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Called by Serve once the object is made."""
        return front_app(self._replicas, self._settings, self._rules)


def rules(settings: ServerSettings, keys: tuple[str, ...]) -> AccessRules:
    """Who may ask, and for how long. Raises PluginError for a plugin that is not installed here."""
    access = AccessRules(keys=keys, timeout=settings.request_timeout)
    offered = create_manager(settings.plugins).routes()
    return replace(access, open_paths=access.open_paths | {route.path for route in offered if route.open})


def front_app(replicas: Any, settings: ServerSettings, access: AccessRules) -> ASGIApp:
    """The application that passes requests on, with all around it that `slipcast serve` has around its own."""

    async def metrics(request: Request) -> Response:
        asked = replicas.broadcast("metrics").results_async(timeout_s=METRICS_SECONDS, return_exceptions=True)
        shown = [answer for answer in await asked if not isinstance(answer, BaseException)]
        return Response(merge(dict(shown)), media_type=CONTENT_TYPE)

    app = Starlette(routes=[Route("/metrics", metrics)], middleware=around(access, settings.cors_origin))
    app.router.redirect_slashes = False
    app.router.default = Passage(replicas, settings.max_body_mb << 20)
    return _Numbered(traced(app) if settings.otel else app)


class _Numbered:
    """Leaves out the request's id in answers' heads: Serve's proxy adds it, the same that requests come here with."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def pass_on(message: Message) -> None:
            if message["type"] == "http.response.start":
                del MutableHeaders(scope=message)[REQUEST_ID]
            await send(message)

        await self._app(scope, receive, pass_on)


class Passage:
    """Passes each request to a replica, as an ASGI application."""

    def __init__(self, replicas: Any, max_body_bytes: int) -> None:
        self._replicas = replicas.options(stream=True)
        self._max_body_bytes = max_body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            body = await read_bytes(request, self._max_body_bytes)
        except ClientDisconnect:
            return
        except EngineError as error:
            response = error_response(error)
        else:
            response = await self._answer(_call(request, body))
        await response(scope, receive, send)

    async def _answer(self, call: Call) -> Response:
        lost: Exception | None = None
        for attempt in range(ATTEMPTS):
            await asyncio.sleep(PAUSE_SECONDS * attempt)
            pieces = self._replicas.answer.remote(call)
            streams = False
            try:
                head: Head = await anext(pieces)
                streams = head.more
                return _response(head, _pieces(call.path, head, pieces) if streams else head.body)
            except BackPressureError:
                return error_response(BusyError("the waiting line is full", remedy="try again later"))
            except TaskCancelledError:
                return error_response(RequestFault("the request was cancelled"))
            except (RayActorError, RayServeException) as error:
                _LOG.warning("a replica was lost, its request is asked again: %s", type(error).__name__)
                lost = error
            except RayTaskError as error:
                return error_response(RequestFault(f"the replica failed: {error.cause!r}"))
            finally:
                if not streams:
                    pieces.cancel()  # if the client has left; else it is over anyhow
        return error_response(ClosedError(f"no replica answers ({type(lost).__name__})", remedy="try again later"))


def _call(request: Request, body: bytes) -> Call:
    try:
        parsed = json.loads(body)
    except (ValueError, RecursionError):
        parsed = None  # the replica says what is wrong with it
    headers = MutableHeaders(raw=list(request.headers.raw))
    headers[REQUEST_ID] = current_request.get()
    path = request.url.path
    return Call(
        request.method,
        path,
        request.url.query.encode(),
        tuple(headers.raw),
        seeded(path, body, parsed),
        warm_keys(parsed),
    )


async def _pieces(path: str, head: Head, pieces: Any) -> AsyncIterator[bytes]:
    """The pieces of a stream. If the replica dies events end with one that says so, and anything else breaks off."""
    count = head.body.count(b"\n\n")
    try:
        yield head.body
        async for piece in pieces:
            count += piece.count(b"\n\n")
            yield piece
    except Exception as error:
        _LOG.warning("a stream was cut: %s", type(error).__name__)
        if not head.has_events:
            raise
        yield _last_event(path, count)
    finally:
        pieces.cancel()


def _last_event(path: str, number: int) -> bytes:
    """The event that says that a stream was cut, as the endpoint has it. `number`: of events before it."""
    body = body_for(RequestFault(CUT))
    if path != "/v1/responses":
        return f"data: {body.model_dump_json()}\n\n".encode()
    error = {"type": "error", **body.error.model_dump(include={"code", "message", "param"}), "sequence_number": number}
    return f"event: error\ndata: {json.dumps(error)}\n\n".encode()


def _response(head: Head, body: bytes | AsyncIterator[bytes]) -> Response:
    if isinstance(body, bytes):
        response = Response(body, status_code=head.status)
    else:
        response = StreamingResponse(body, status_code=head.status)
    response.raw_headers = list(head.headers)
    return response
