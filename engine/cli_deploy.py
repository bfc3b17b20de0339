"""`slipcast deploy`: replicas on Ray Serve."""

from __future__ import annotations

import argparse
import os
import signal
import threading
from pathlib import Path

from .cli_serve import configure_logs, given_keys
from .errors import ConfigError
from .settings import ServerSettings, read_settings


def run(options: argparse.Namespace) -> int:
    """Start a local cluster, or join the one that RAY_ADDRESS names, and serve until interrupted."""
    flags = {key: value for key, value in vars(options).items() if key in ServerSettings.model_fields}
    file = getattr(options, "config", None)
    settings = read_settings(flags, os.environ, None if file is None else Path(file))
    configure_logs(settings)
    try:
        from ray import serve

        from .scale.application import Scale, application
    except ImportError as error:
        raise ConfigError(
            f"replicas need Ray Serve, and {error.name} is not installed",
            key="replicas",
            remedy="pip install 'slipcast[ray]'",
        ) from None
    most = max(options.replicas, options.max_replicas or 0)
    scale = Scale(least=options.replicas, most=most, target=options.target_requests, cpus=options.cpus)
    http = {"host": settings.host, "port": settings.port, "request_timeout_s": settings.request_timeout}
    serve.start(http_options=http)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    try:
        serve.run(application(settings, scale, given_keys(settings)), name="slipcast", route_prefix="/")
        by = f"{options.replicas} replica{'s' if options.replicas > 1 else ''}"
        address = f"http://{settings.host}:{settings.port}/v1"
        print(f"serving {', '.join(settings.model)} by {by} at {address}", flush=True)
        ended.wait()
    finally:
        serve.shutdown()
    return 0
