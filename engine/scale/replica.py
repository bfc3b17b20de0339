"""A replica: engines behind the ASGI application that `slipcast serve` runs, asked by method calls."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

from ray import serve
from starlette.types import Message

from ..api.metrics import EngineMetrics
from ..api.server import create_app
from ..cli_serve import configure_logs, open_engines
from ..settings import ServerSettings
from .calls import Call, Head
from .kept import load_grammars, save_grammars
from .shared import SharedResponses

PIECES_A_SECOND: Final = 100
"""Of all streams of a replica together. Each piece costs milliseconds on its way through Ray, wherever it passes; what
comes in between goes with the next one.
"""


class Replica:
    """One engine for each model. Ray makes it, in a process of its own. `template`: a chat template for all of them."""

    def __init__(self, settings: Mapping[str, Any], template: str | None) -> None:
        self._settings = ServerSettings.model_validate(settings)
        configure_logs(self._settings)
        self._engines = open_engines(self._settings, template)
        self._responses = SharedResponses()
        self._app = create_app(
            self._engines,
            max_body_bytes=self._settings.max_body_mb << 20,
            page=self._settings.page,
            store=self._responses,
        )
        self._metrics = EngineMetrics((engine.model, engine.service) for engine in self._engines)
        self._keeper: asyncio.Task[None] | None = None
        self._streams = 0
        for engine in self._engines:
            if engine.compiler is not None:
                load_grammars(engine.compiler, engine.model)

    async def answer(self, call: Call) -> AsyncIterator[Head | bytes]:
        """The answer's head with its body or the first piece of a stream, then the other pieces. Leaving the iterator
        cancels the request.
        """
        out: asyncio.Queue[Message] = asyncio.Queue()
        asked = False
        gone = asyncio.Event()

        async def receive() -> Message:
            nonlocal asked
            if not asked:
                asked = True
                return {"type": "http.request", "body": call.body, "more_body": False}
            await gone.wait()
            return {"type": "http.disconnect"}

        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": call.method,
            "path": call.path,
            "raw_path": call.path.encode(),
            "root_path": "",
            "scheme": "http",
            "query_string": call.query,
            "headers": list(call.headers),
            "client": None,
            "server": None,
        }

        async def run() -> None:
            try:
                await self._app(scope, receive, out.put)
            finally:
                await out.put({"type": "http.response.body"})  # the end, of what failed in the middle too

        task = asyncio.create_task(run())
        streams = False
        try:
            start = await out.get()
            if start["type"] != "http.response.start":
                await task  # raises why there is no answer
                raise RuntimeError("the application did not answer")
            headers = tuple((bytes(name), bytes(value)) for name, value in start["headers"])
            streams = all(name != b"content-length" for name, _ in headers)
            self._streams += streams
            body, more = await _piece(out, whole=not streams)
            await self._responses.settle()
            yield Head(start["status"], headers, body, more)
            while more:
                await asyncio.sleep(self._streams / PIECES_A_SECOND)
                body, more = await _piece(out, whole=False)
                await self._responses.settle()
                if body:
                    yield body
            await task
        finally:
            self._streams -= streams
            gone.set()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    def metrics(self) -> tuple[str, str]:
        """The replica's name and its numbers as Prometheus has them."""
        return serve.get_replica_context().replica_id.unique_id, self._metrics.text().decode()

    async def check_health(self) -> None:
        """Called by Serve, every few seconds: raises if an engine has ended, and the replica is replaced."""
        for engine in self._engines:
            if engine.service.closed:
                raise RuntimeError(f"the engine of {engine.model} has ended")
        if self._keeper is None or self._keeper.done():
            self._keeper = asyncio.create_task(asyncio.to_thread(self._save))

    def __del__(self) -> None:
        """Called by Serve when no request is left: what is worth keeping is kept."""
        for engine in getattr(self, "_engines", ()):
            engine.close()
        with contextlib.suppress(Exception):
            self._save()

    def _save(self) -> None:
        for engine in self._engines:
            if engine.compiler is not None:
                save_grammars(engine.compiler, engine.model)


async def _piece(out: asyncio.Queue[Message], *, whole: bool) -> tuple[bytes, bool]:
    """The body that is there, at least a byte of it or its end, and whether more may come; or all of it."""
    parts: list[bytes] = []
    while whole or not parts or not out.empty():
        message = await out.get()
        if part := message.get("body", b""):
            parts.append(part)
        if not message.get("more_body", False):
            return b"".join(parts), False
    return b"".join(parts), True
