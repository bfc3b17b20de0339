"""`slipcast serve`."""

from __future__ import annotations

import argparse
import asyncio
import errno
import json
import logging
import os
import signal
import socket
import ssl
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from .api.access import AccessRules, JsonLines, read_keys
from .api.server import create_app
from .cli_terminal import ProgressBars, is_fancy, open_template, print_panel, read_text
from .engine import AsyncEngine
from .errors import ConfigError, EngineError
from .housekeeping import Housekeeping
from .settings import ServerSettings, read_settings

# Supervisors kill after ten seconds what they asked to end.
GRACE_SECONDS = 5
GIVE_UP_SECONDS = 3
HEAD_SECONDS = 20.0
"""That a client may take to send the head of a request."""


class Server(uvicorn.Server):
    """Ends in order: running answers have GRACE_SECONDS to finish, or none after a second signal; then the engines
    close, and every stream that still runs ends with an event that says so.
    """

    def __init__(self, config: uvicorn.Config, engines: Sequence[AsyncEngine]) -> None:
        super().__init__(config)
        self._engines = engines
        self._hurry = False
        self._silent: dict[Any, tuple[object, float]] = {}

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal asks to end, the second to end now; a third does not wait for anything."""
        if self.should_exit and not self._hurry:
            self._hurry = True
        else:
            super().handle_exit(sig, frame)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """What uvicorn does, and the engines closed in time."""
        closing = asyncio.create_task(self._close_engines())
        try:
            await super().shutdown(sockets)
        finally:
            closing.cancel()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second, by uvicorn."""
        if counter % 10 == 0:
            self._close_silent(time.monotonic())
        return await super().on_tick(counter)

    def _close_silent(self, now: float) -> None:
        """Close connections on which no request comes to an end of its head: thousands of them cost the server's files.
        uvicorn itself closes only those that say nothing after an answer.
        """
        silent: dict[Any, tuple[object, float]] = {}
        for connection in self.server_state.connections:
            cycle: Any = getattr(connection, "cycle", self)  # protocols of others have none: they see to it themselves
            if cycle is not self and (cycle is None or cycle.response_complete):
                known, since = self._silent.get(connection, (cycle, now))
                silent[connection] = (cycle, since if known is cycle else now)
        self._silent = silent
        for connection, (_, since) in silent.items():
            if now - since > HEAD_SECONDS:
                connection.transport.close()

    async def _close_engines(self) -> None:
        deadline = time.monotonic() + GRACE_SECONDS
        while not self._hurry and time.monotonic() < deadline:
            await asyncio.sleep(0.05)
        for engine in self._engines:
            await asyncio.to_thread(engine.close)


def run(options: argparse.Namespace) -> int:
    """Serve until interrupted. The port is taken before a model is loaded, so that a taken one is told at once."""
    settings = given_settings(options)
    configure_logs(settings)
    access = AccessRules(keys=given_keys(settings), timeout=settings.request_timeout)
    template = open_template(settings.chat_template)
    check_tls(settings)
    with listen(settings.host, settings.port) as listener:
        engines = open_engines(settings, template)
        try:
            app = create_app(
                engines,
                max_body_bytes=settings.max_body_mb << 20,
                access=access,
                cors_origins=settings.cors_origin,
                page=settings.page,
            )
            _serve(settings, traced(app) if settings.otel else app, engines, listener, as_json=options.json)
        finally:
            for engine in engines:
                engine.close()
    return 0


def _serve(
    settings: ServerSettings, app: ASGIApp, engines: Sequence[AsyncEngine], listener: socket.socket, *, as_json: bool
) -> None:
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=GRACE_SECONDS + GIVE_UP_SECONDS,
        ws="none",
        lifespan="on",
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
    )
    config.load()  # before the address is announced: a certificate may be wrong
    host, port = listener.getsockname()[:2]
    shown = f"[{host}]" if ":" in host else host
    scheme = "https" if settings.tls_certificate else "http"
    _announce(settings, [engine.model for engine in engines], f"{scheme}://{shown}:{port}", as_json=as_json)
    # Once all is shut down in order uvicorn raises again the signal that ended it; that is no failure.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    with suppress(KeyboardInterrupt), Housekeeping(lambda: any(map(is_busy, engines))):
        Server(config, engines).run(sockets=[listener])


def is_busy(engine: AsyncEngine) -> bool:
    """Whether a request runs or waits."""
    stats = engine.stats()
    return bool(stats.running or stats.waiting)


def _announce(settings: ServerSettings, models: Sequence[str], address: str, *, as_json: bool) -> None:
    """Where it serves what: in a frame to people, in one line to a log, as JSON to a script."""
    if as_json:
        print(json.dumps({"address": address, "models": models}), flush=True)
    elif not is_fancy():
        print(f"serving {', '.join(models)} at {address}/v1", flush=True)
    else:
        facts = [("API", f"{address}/v1"), ("models", ", ".join(models)), ("mode", settings.mode)]
        facts += [("page", f"{address}/")] if settings.page else []
        facts += [("metrics", f"{address}/metrics"), ("keys", "needed" if given_keys(settings) else "none needed")]
        print_panel([*facts, ("end", "Ctrl-C")], "slipcast serve")


def open_engines(settings: ServerSettings, template: str | None) -> list[AsyncEngine]:
    """An engine for each model, with the text of a chat template instead of its own if there is one. Those that were
    opened are closed again if another cannot be.
    """
    engines: list[AsyncEngine] = []
    try:
        for given in settings.model:
            name, equals, model = given.rpartition("=")
            with ProgressBars() as progress:
                engine = AsyncEngine(
                    model,
                    name=name if equals else None,
                    chat_template=template,
                    tool_strict=settings.tool_strict,
                    progress=progress,
                    **settings.engine_options(),
                )
            engines.append(engine)
    except BaseException:
        for engine in engines:
            engine.close()
        raise
    return engines


def given_settings(options: argparse.Namespace) -> ServerSettings:
    """The settings from flags, the environment and the file that the flags name. Raises ConfigError, OSError."""
    flags = {key: value for key, value in vars(options).items() if key in ServerSettings.model_fields}
    file = getattr(options, "config", None)
    settings = read_settings(flags, os.environ, None if file is None else Path(file))
    if (settings.tls_key is None) != (settings.tls_certificate is None):
        raise ConfigError("tls_certificate and tls_key go together", key="tls_key", remedy="give both or neither")
    return settings


def check_tls(settings: ServerSettings) -> None:
    """Raises ConfigError, OSError with the file's name, if certificate and key are not what HTTPS needs."""
    certificate, key = settings.tls_certificate, settings.tls_key
    if certificate is None or key is None:
        return
    for path in (certificate, key):
        read_text(path)
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(certificate, key)
    except ssl.SSLError as error:
        raise ConfigError(
            f"{certificate} and {key} are no certificate and its key: {error.reason or 'not in PEM form'}",
            key="tls_certificate",
            remedy="give two files in PEM form that belong together",
        ) from None


def traced(app: ASGIApp) -> ASGIApp:
    """The application with a trace for each request. Raises ConfigError where OpenTelemetry is not installed."""
    try:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.instrumentation.asgi import OpenTelemetryMiddleware
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise ConfigError(
            f"traces need OpenTelemetry, and {error.name} is not installed",
            key="otel",
            remedy="pip install 'slipcast[otel]'",
        ) from None
    named = "OTEL_SERVICE_NAME" in os.environ or "service.name" in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    provider = TracerProvider(resource=Resource.create({} if named else {"service.name": "slipcast"}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)
    wrapped: Any = OpenTelemetryMiddleware(app, exclude_spans=["receive", "send"], tracer_provider=provider)
    asgi: ASGIApp = wrapped
    return asgi


def given_keys(settings: ServerSettings) -> tuple[str, ...]:
    """The API keys of the settings and of their file."""
    if settings.api_key_file is None:
        return settings.api_key
    return settings.api_key + read_keys(read_text(settings.api_key_file).splitlines())


def configure_logs(settings: ServerSettings) -> None:
    """Log to stderr. What is answered is told a line a request, at info in JSON and at debug as text."""
    handler = logging.StreamHandler(sys.stderr)
    if settings.log_format == "json":
        handler.setFormatter(JsonLines())
    else:
        handler.setFormatter(logging.Formatter("%(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=settings.log_level.upper(), handlers=[handler], force=True)
    quiet = settings.log_format == "text" and settings.log_level != "debug"
    logging.getLogger("slipcast.access").setLevel("WARNING" if quiet else "INFO")


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
