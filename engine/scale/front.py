"""The front: takes HTTP requests, gives them to a replica, and to another if that one dies.

Nothing is lost that has not begun to be sent: a whole answer is asked for again, and comes out the same, since a
request without a seed is given one here. A stream that has begun ends with an error event.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from typing import Any, Final

from ray.exceptions import RayActorError, RayTaskError
from ray.serve.exceptions import RayServeException
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse

from ..api.access import AccessRules, allowed
from ..api.errors import AccessError, BodyTooLargeError, body_for
from ..api.http import error_response
from ..errors import ClosedError, EngineError, RequestFault
from .board import board
from .calls import Call, Head
from .keys import seeded, warm_keys

_LOG = logging.getLogger(__name__)
ATTEMPTS: Final = 4
LOST: Final = (RayActorError, RayServeException)


class Front:
    """The ingress of the Serve application. `replicas`: a handle of the Replica deployment."""

    def __init__(self, replicas: Any, rules: AccessRules, max_body_bytes: int) -> None:
        self._replicas = replicas.options(stream=True)
        self._rules = rules
        self._max_body_bytes = max_body_bytes

    async def __call__(self, request: Request) -> Response:
        """Answer one request."""
        if not allowed(self._rules, request.url.path, request.headers):
            wrong = AccessError("the API key is missing or wrong", remedy="send Authorization: Bearer KEY")
            return error_response(wrong)
        if request.url.path == "/metrics":
            return Response(await board().merged.remote(), media_type="text/plain; version=0.0.4")
        body = await request.body()
        if len(body) > self._max_body_bytes:
            return error_response(BodyTooLargeError(f"the body is larger than {self._max_body_bytes} bytes"))
        parsed = _parsed(body)
        call = Call(
            request.method,
            request.url.path,
            request.url.query.encode(),
            tuple(request.headers.raw),
            seeded(request.url.path, body, parsed),
            warm_keys(parsed),
        )
        return await self._answer(call)

    async def _answer(self, call: Call) -> Response:
        lost: Exception | None = None
        for attempt in range(ATTEMPTS):
            if attempt:
                await asyncio.sleep(0.2 * attempt)
            pieces = self._replicas.answer.remote(call)
            try:
                head: Head = await anext(pieces)
                if head.streams:
                    return _response(head, _events(pieces))
                whole = b"".join([piece async for piece in pieces])
                return _response(head, whole)
            except LOST as error:
                _LOG.warning("a replica was lost, its request is asked again: %s", type(error).__name__)
                lost = error
            except RayTaskError as error:
                return error_response(RequestFault(f"the replica failed: {error.cause!r}"))
        return error_response(_unavailable(lost))


async def _events(pieces: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    """The pieces of a stream; if the replica dies, an error event as the last."""
    try:
        async for piece in pieces:
            yield piece
    except Exception as error:
        _LOG.warning("a stream was cut: %s", type(error).__name__)
        yield f"data: {body_for(RequestFault('the replica died while it answered')).model_dump_json()}\n\n".encode()


def _response(head: Head, body: bytes | AsyncIterator[bytes]) -> Response:
    response: Response
    kept = [(name, value) for name, value in head.headers if name != b"content-length"]
    if isinstance(body, bytes):
        response = Response(body, status_code=head.status)
        kept.append((b"content-length", str(len(body)).encode()))
    else:
        response = StreamingResponse(body, status_code=head.status)
    response.raw_headers = kept
    return response


def _parsed(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None  # the replica says what is wrong with it


def _unavailable(lost: Exception | None) -> EngineError:
    return ClosedError(f"no replica answers ({type(lost).__name__})", remedy="try again later")

