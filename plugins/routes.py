"""HTTP routes of plugins: plain requests in, plain answers out, so that a plugin needs no server's classes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What came in. `path_params` are the parts of the path in braces, `query` the first value of each key; names of
    `headers` are in lower case. `body` is read whole, within the server's limit. `engine` is the running AsyncEngine.
    """

    method: str
    path: str
    path_params: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    engine: Any = None


@dataclass(frozen=True, slots=True)
class HttpResponse:
    """What goes out. `body` may be an asynchronous iterator of pieces: it is sent as it comes, and closed if the client
    leaves.
    """

    body: bytes | AsyncIterator[bytes] = b""
    status: int = 200
    media_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Route:
    """One path, as "/v1/embed" or "/v1/things/{name}", with its methods, and who answers.

    `handler` runs on the server's event loop and must not block it. What it raises becomes an error answer in OpenAI's
    form that names the plugin. `open` routes are served without an API key where the server wants one.
    """

    path: str
    handler: Callable[[HttpRequest], Awaitable[HttpResponse]]
    methods: Sequence[str] = ("GET",)
    open: bool = False
