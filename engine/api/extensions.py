"""Routes of plugins beside the server's own, and what the server says of its plugins.

    GET /v1/plugins    every plugin that is active or installed: hooks, version, time spent, faults
"""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from dataclasses import asdict

from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route

from ...plugins import HttpRequest, HttpResponse
from ...plugins import Route as PluginRoute
from ..engine import AsyncEngine
from ..errors import EngineError, PluginFault
from ..lines import one_line
from .body import read_bytes
from .http import error_response
from .registry import Registry

_LOG = logging.getLogger(__name__)


def extension_routes(registry: Registry, max_body_bytes: int) -> tuple[list[BaseRoute], frozenset[str]]:
    """The routes, each once however many engines offer it, and the paths of those that need no API key."""
    found: dict[tuple[str, tuple[str, ...]], BaseRoute] = {}
    open_paths: set[str] = set()
    for engine in registry:
        for route in engine.service.plugins.routes():
            place = (route.path, tuple(route.methods))
            if place not in found:
                found[place] = Route(route.path, _endpoint(route, engine, max_body_bytes), methods=list(route.methods))
                if route.open:
                    open_paths.add(route.path)

    async def plugins(request: Request) -> Response:
        data = [
            {**asdict(status), "model": engine.model}
            for engine in registry
            for status in engine.service.plugins.status()
        ]
        return JSONResponse({"object": "list", "data": data})

    return [Route("/v1/plugins", plugins), *found.values()], frozenset(open_paths)


def _endpoint(
    route: PluginRoute, engine: AsyncEngine, max_body_bytes: int
) -> Callable[[Request], Awaitable[Response]]:
    plugin = engine.service.plugins.owner(route)

    async def endpoint(request: Request) -> Response:
        try:
            asked = HttpRequest(
                method=request.method,
                path=request.url.path,
                path_params=dict(request.path_params),
                query=dict(request.query_params),
                headers=dict(request.headers),
                body=await read_bytes(request, max_body_bytes),
                engine=engine,
            )
        except EngineError as error:
            return error_response(error)
        try:
            answer = await route.handler(asked)
            if not isinstance(answer, HttpResponse):
                raise TypeError(f"it returned {type(answer).__name__}, not an HttpResponse")
            return _response(answer, plugin)
        except (EngineError, ClientDisconnect):
            raise
        except Exception as error:
            _LOG.exception("the route %s of the plugin %r failed", route.path, plugin)
            reason = one_line(f"{type(error).__name__}: {error}")
            return error_response(PluginFault(f"the plugin {plugin!r} failed: {reason}", plugin=plugin))

    return endpoint


def _response(answer: HttpResponse, plugin: str) -> Response:
    headers = dict(answer.headers)
    if isinstance(answer.body, bytes):
        return Response(answer.body, answer.status, headers, answer.media_type)
    return StreamingResponse(_pieces(answer.body, plugin), answer.status, headers, answer.media_type)


async def _pieces(body: AsyncIterator[bytes], plugin: str) -> AsyncIterator[bytes]:
    """The body as it comes. What fails in it ends the answer where it is, since its status is sent."""
    try:
        async for piece in body:
            yield piece
    except Exception:
        _LOG.exception("a streamed answer of the plugin %r failed", plugin)
        raise
    finally:
        # A client that leaves ends this generator, and what it reads from must hear of that.
        if isinstance(body, AsyncGenerator):
            await body.aclose()
