"""`slipcast serve`."""

from __future__ import annotations

import argparse
import asyncio
import errno
import logging
import os
import signal
import socket
import time
from contextlib import suppress
from types import FrameType

import uvicorn

from .api.server import create_app
from .cli_terminal import ProgressBars, open_template
from .engine import AsyncEngine
from .errors import EngineError

# Supervisors kill after ten seconds what they asked to end.
GRACE_SECONDS = 5
GIVE_UP_SECONDS = 3


class Server(uvicorn.Server):
    """Ends in order: running answers have GRACE_SECONDS to finish, or none after a second signal; then the engine
    closes, and every stream that still runs ends with an event that says so.
    """

    def __init__(self, config: uvicorn.Config, engine: AsyncEngine) -> None:
        super().__init__(config)
        self._engine = engine
        self._hurry = False

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal asks to end, the second to end now; a third does not wait for anything."""
        if self.should_exit and not self._hurry:
            self._hurry = True
        else:
            super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """What uvicorn does, and the engine closed in time."""
        closing = asyncio.create_task(self._close_engine())
        try:
            await super().shutdown(sockets)
        finally:
            closing.cancel()

    async def _close_engine(self) -> None:
        deadline = time.monotonic() + GRACE_SECONDS
        while not self._hurry and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        await asyncio.to_thread(self._engine.close)


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted. The port is taken before the model is loaded, so that a taken one is told at once."""
    logging.basicConfig(level=options.log_level.upper(), format="%(levelname)s %(name)s: %(message)s")
    with listen(options.host, options.port) as listener:
        with ProgressBars() as progress:
            engine = AsyncEngine(
                options.model,
                mode=options.mode,
                chat_template=open_template(options.chat_template),
                progress=progress,
            )
        app = create_app(engine, max_body_bytes=options.max_body_mb << 20)
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        print(f"serving {engine.model} at http://{shown}:{port}/v1", flush=True)
        config = uvicorn.Config(
            app,
            log_level=options.log_level,
            access_log=options.log_level == "debug",
            timeout_graceful_shutdown=GRACE_SECONDS + GIVE_UP_SECONDS,
            ws="none",
            lifespan="on",
        )
        # Once all is shut down in order uvicorn raises again the signal that ended it; that is no failure.
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        with suppress(KeyboardInterrupt):
            Server(config, engine).run(sockets=[listener])
    return 0


def listen(host: str, port: int) -> socket.socket:
    """A listening socket. Raises EngineError if the address is taken or is none of this machine's."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except socket.gaierror as error:
        raise EngineError(f"the host {host!r} is unknown: {error.strerror}", remedy="give another --host") from error
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise EngineError(f"port {port} of {host} is in use", remedy="give another --port, 0 for any") from error
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise EngineError(f"cannot listen on {host}, port {port}: {reason}") from error
