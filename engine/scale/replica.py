"""A replica: an engine behind the ASGI application that `slipcast serve` runs, asked by method calls."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

from starlette.types import Message

from ..api.server import create_app
from ..cli_serve import open_engines
from ..runtime.paths import cache_folder
from ..settings import ServerSettings
from .board import Board, board
from .calls import Call, Head

_LOG = logging.getLogger(__name__)
KEEP_SECONDS: Final = 5.0
"""How often a replica shows its metrics and keeps its grammars."""


class Replica:
    """One engine for each model. Ray makes it, in a process of its own."""

    def __init__(self, settings: dict[str, Any], name: str) -> None:
        self._settings = ServerSettings.model_validate(settings)
        self._engines = open_engines(self._settings)
        self._app = create_app(self._engines, max_body_bytes=self._settings.max_body_mb << 20, page=self._settings.page)
        self._name = f"{name}-{os.getpid()}"
        self._board: Board | None = None
        self._keeper: asyncio.Task[None] | None = None
        for engine in self._engines:
            path = _grammars(engine.model)
            if engine.compiler is not None and path.exists():
                with contextlib.suppress(OSError, ValueError):
                    _LOG.info("%d grammars are warm", engine.compiler.load(path))

    async def answer(self, call: Call) -> AsyncIterator[Head | bytes]:
        """The answer's head, then its body in pieces. Leaving the iterator cancels the request."""
        if self._keeper is None:
            self._keeper = asyncio.create_task(self._keep())
        out: asyncio.Queue[Message | None] = asyncio.Queue()
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
                await out.put(None)

        task = asyncio.create_task(run())
        try:
            while (message := await out.get()) is not None:
                if message["type"] == "http.response.start":
                    yield Head(message["status"], tuple((bytes(k), bytes(v)) for k, v in message["headers"]))
                elif body := message.get("body"):
                    yield body
            await task
        finally:
            gone.set()
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    def check_health(self) -> None:
        """Called by Serve: raises if an engine has ended, and the replica is replaced."""
        for engine in self._engines:
            if engine.service.closed:
                raise RuntimeError(f"the engine of {engine.model} has ended")

    def __del__(self) -> None:
        """Called by Serve when no request is left: what is worth keeping is kept."""
        for engine in getattr(self, "_engines", ()):
            engine.close()
        with contextlib.suppress(Exception):
            self._save()

    async def _keep(self) -> None:
        """Shows the metrics, keeps the grammars, again and again."""
        from ..api.metrics import EngineMetrics

        numbers = EngineMetrics((engine.model, engine.service) for engine in self._engines)
        self._board = board()
        while True:
            with contextlib.suppress(Exception):  # a board that is gone comes again
                await self._board.show.remote(self._name, await asyncio.to_thread(numbers.text))
                await asyncio.to_thread(self._save)
            await asyncio.sleep(KEEP_SECONDS)

    def _save(self) -> None:
        for engine in self._engines:
            if engine.compiler is None:
                continue
            path = _grammars(engine.model)
            path.parent.mkdir(parents=True, exist_ok=True)
            fresh = path.with_suffix(f".{os.getpid()}")
            engine.compiler.save(fresh)
            fresh.replace(path)


def _grammars(model: str) -> Path:
    """Where the grammars of a model's replicas are kept: in the cache folder, which replicas may share."""
    return cache_folder() / "grammars" / f"{''.join(c if c.isalnum() else '-' for c in model)}.jsonl"
