"""Around the whole application: request ids, API keys, a time limit, a line of log for each request.

An ASGI middleware and nothing but: it works for endpoints, streams and routes of plugins alike.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import re
import time
import uuid
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .errors import AccessError, RequestTimeoutError, body_for
from .http import error_response
from .page import FILES

_LOG = logging.getLogger("slipcast.access")
REQUEST_ID: Final = "x-request-id"
_ID: Final = re.compile(r"[A-Za-z0-9._:-]{1,128}")
OPEN_PATHS: Final = frozenset({"/health", *FILES})

current_request: ContextVar[str] = ContextVar("slipcast_request", default="")
"""The id of the request that is being answered; "" outside of one. Log lines carry it (see `logs`)."""


@dataclass(frozen=True, slots=True)
class AccessRules:
    """Who may ask, and for how long.

    `keys`: API keys, of which a request carries one as `Authorization: Bearer KEY`; none: all may ask. `open_paths`
    need no key. `timeout`: seconds that a request may take as a whole, None: any number.
    """

    keys: tuple[str, ...] = ()
    open_paths: frozenset[str] = OPEN_PATHS
    timeout: float | None = None


def allowed(rules: AccessRules, path: str, headers: Mapping[str, str]) -> bool:
    """Whether a request carries a key that opens this path."""
    if not rules.keys or path in rules.open_paths:
        return True
    scheme, _, key = headers.get("authorization", "").partition(" ")
    # Digests have one length, and all are compared, so that time does not tell which key was near.
    digest = _digest(key.strip())
    matches = [hmac.compare_digest(digest, _digest(known)) for known in rules.keys]
    return scheme.lower() == "bearer" and any(matches)


class Access:
    """The middleware. Every answer carries `X-Request-Id`: the client's own if it can be logged, else a new one."""

    def __init__(self, app: ASGIApp, rules: AccessRules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        given = headers.get(REQUEST_ID, "")
        request_id = given if _ID.fullmatch(given) else f"req_{uuid.uuid4().hex}"
        token = current_request.set(request_id)
        reply = _Reply(send, request_id)
        begun = time.perf_counter()
        try:
            if allowed(self._rules, scope["path"], headers):
                await self._answer(scope, receive, reply)
            else:
                error = AccessError("the API key is missing or wrong", remedy="send Authorization: Bearer KEY")
                response = error_response(error)
                response.headers["WWW-Authenticate"] = "Bearer"
                await response(scope, receive, reply)
        finally:
            _LOG.info(
                "%s %s %s",
                scope["method"],
                scope["path"][:200],
                reply.status or "left",
                extra={
                    "method": scope["method"],
                    "path": scope["path"][:200],
                    "status": reply.status,
                    "seconds": round(time.perf_counter() - begun, 4),
                    "client": (scope.get("client") or ("",))[0],
                },
            )
            current_request.reset(token)

    async def _answer(self, scope: Scope, receive: Receive, reply: _Reply) -> None:
        if self._rules.timeout is None:
            await self._app(scope, receive, reply)
            return
        try:
            async with asyncio.timeout(self._rules.timeout):
                await self._app(scope, receive, reply)
        except TimeoutError:
            error = RequestTimeoutError(
                f"the request took longer than {self._rules.timeout:g} seconds", remedy="ask for fewer tokens"
            )
            if reply.status is None:
                await error_response(error)(scope, receive, reply)
            elif not reply.ended:
                event = body_for(error).model_dump_json() if reply.streams else ""
                await reply.end(f"data: {event}\n\n".encode() if event else b"")


class _Reply:
    """`send`, with the request's id put into the head, and what was sent remembered."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._id = request_id
        self.status: int | None = None
        self.streams = False
        self.ended = False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            headers = MutableHeaders(scope=message)
            headers[REQUEST_ID] = self._id
            self.streams = headers.get("content-type", "").startswith("text/event-stream")
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self.ended = True
        await self._send(message)

    async def end(self, body: bytes) -> None:
        """The last piece of an answer that was begun."""
        await self({"type": "http.response.body", "body": body, "more_body": False})


class JsonLines(logging.Formatter):
    """Log records as JSON, one a line, with the id of the request they belong to."""

    FIELDS: Final = ("method", "path", "status", "seconds", "client")

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, object] = {
            "time": self.formatTime(record, "%Y-%m-%dT%H:%M:%S%z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if request_id := current_request.get():
            line["request_id"] = request_id
        line |= {name: record.__dict__[name] for name in self.FIELDS if name in record.__dict__}
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def _digest(key: str) -> bytes:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).digest()


def read_keys(lines: Iterable[str]) -> tuple[str, ...]:
    """API keys, one a line; empty lines and those that begin with # are none."""
    return tuple(key for line in lines if (key := line.strip()) and not key.startswith("#"))


__all__ = ["Access", "AccessRules", "JsonLines", "allowed", "current_request", "read_keys"]
