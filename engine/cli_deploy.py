"""`slipcast deploy`: replicas on Ray Serve."""

from __future__ import annotations

import argparse
import signal
import threading

from .cli_serve import configure_logs, given_keys, given_settings
from .cli_terminal import open_template
from .errors import ConfigError


def run(options: argparse.Namespace) -> int:
    """Start a local cluster, or join the one that RAY_ADDRESS names, and serve until interrupted or replaced."""
    settings = given_settings(options)
    configure_logs(settings)
    keys, template = given_keys(settings), open_template(settings.chat_template)
    try:
        from .scale.application import Scale
        from .scale.cluster import deployed
    except ImportError as error:
        raise ConfigError(
            f"replicas need Ray Serve, and {error.name} is not installed",
            key="replicas",
            remedy="pip install 'slipcast[ray]'",
        ) from None
    scale = Scale(
        least=options.replicas,
        most=options.max_replicas,
        target=options.target_requests,
        cpus=options.cpus,
        drain=options.drain,
        fronts=options.fronts,
    )
    ended = threading.Event()
    with deployed(settings, scale, keys, template) as deployment:
        # Set only now: a signal before ends what is being started, in the usual way.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, lambda *_: ended.set())
        by = f"{scale.least} replica{'s' if scale.least > 1 else ''}"
        print(f"serving {', '.join(settings.model)} by {by} at {deployment.address}", flush=True)
        deployment.wait(ended)
        if not ended.is_set():
            print("another process has deployed it anew, or ended it", flush=True)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.default_int_handler)  # a second one does not wait for running answers
    return 0
