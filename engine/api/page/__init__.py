"""The chat page at `/`: plain HTML, CSS and JavaScript from the package, nothing from elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from importlib import resources
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

FILES: Final = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page/app.js": ("app.js", "text/javascript; charset=utf-8"),
    "/page/tokens.js": ("tokens.js", "text/javascript; charset=utf-8"),
    "/page/style.css": ("style.css", "text/css; charset=utf-8"),
}
# The page may load and ask nothing but this server, and nobody may frame it.
HEADERS: Final = {
    "Content-Security-Policy": "default-src 'self'; img-src 'self' data:; frame-ancestors 'none'; base-uri 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}


def page_routes() -> list[Route]:
    """The page's routes; its files are read once."""
    return [Route(path, _serve(name, kind)) for path, (name, kind) in FILES.items()]


def _serve(name: str, kind: str) -> Callable[[Request], Awaitable[Response]]:
    body = (resources.files(__name__) / name).read_bytes()

    async def answer(request: Request) -> Response:
        return Response(body, media_type=kind, headers=HEADERS)

    return answer
