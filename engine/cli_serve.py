"""`slipcast serve`."""

from __future__ import annotations

import argparse
import errno
import logging
import signal
import socket
from contextlib import suppress

import uvicorn

from .api.server import create_app
from .cli_terminal import ProgressBars, open_template
from .engine import AsyncEngine
from .errors import EngineError

SHUTDOWN_SECONDS = 10


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
            timeout_graceful_shutdown=SHUTDOWN_SECONDS,
            lifespan="on",
        )
        # Once all is shut down in order uvicorn raises again the signal that ended it; that is no failure.
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])
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
        raise EngineError(f"cannot listen on {host}, port {port}: {error.strerror}") from error
