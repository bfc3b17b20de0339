"""The cluster that replicas run on, joined or started, and the application on it."""

from __future__ import annotations

import logging
import os
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

import ray
from ray import serve
from ray.serve.config import HTTPOptions
from ray.serve.context import _get_global_client

from ..cli_serve import listen, traced
from ..errors import ConfigError, EngineError
from ..lines import one_line
from ..runtime.cpu import usable_cores
from ..settings import ServerSettings
from .application import QUIET, Scale, application
from .front import rules
from .responses import forget_responses

APPLICATION: Final = "slipcast"
ADDRESS_VARIABLE: Final = "RAY_ADDRESS"
# What is compared with a Serve that runs already: all that the settings decide.
HTTP_FIELDS: Final = {"host": "host", "port": "port", "ssl_certfile": "tls_certificate", "ssl_keyfile": "tls_key"}
POLL_SECONDS: Final = 2.0


class Deployment:
    """The application as this process deployed it. `address`: where it is served."""

    def __init__(self, http: HTTPOptions) -> None:
        scheme = "https" if http.ssl_certfile else "http"
        host = f"[{http.host}]" if ":" in (http.host or "") else http.host
        self.address = f"{scheme}://{host}:{http.port}/v1"
        self._deployed = _deployed_at()

    def wait(self, ended: threading.Event) -> None:
        """Until `ended` is set, or somebody has deployed it again, or taken it away."""
        while not ended.wait(POLL_SECONDS) and self.ours():
            pass

    def ours(self) -> bool:
        """Whether the application that runs is the one that this process deployed."""
        return _deployed_at() == self._deployed


@contextmanager
def deployed(
    settings: ServerSettings, scale: Scale, keys: tuple[str, ...], template: str | None
) -> Iterator[Deployment]:
    """The application, on the cluster that RAY_ADDRESS names or one of this machine, until the end of the block.

    Where it runs already it is replaced, replica by replica, and the process that deployed it before leaves it alone.
    Raises EngineError where the cluster, the port or the model cannot be had, ConfigError for what would not be obeyed,
    PluginError, and OSError for a certificate.
    """
    app = application(settings, scale, keys=keys, template=template)
    rules(settings, keys)  # names of plugins that are wrong are told before anything starts
    if settings.otel:
        traced(_nothing)
    http = http_options(settings)
    joined = bool(os.environ.get(ADDRESS_VARIABLE))
    if not joined:
        http = _on_free_port(http)
        _check_room(scale, settings)
    _connect(joined)
    try:
        _start_serve(http)
        deployment: Deployment | None = None
        try:
            _run(app)
            deployment = Deployment(http)
            yield deployment
        finally:
            if deployment is None or deployment.ours():
                _end()
    finally:
        ray.shutdown()


def http_options(settings: ServerSettings) -> HTTPOptions:
    """Serve's HTTP options. Raises OSError for a certificate or a key that cannot be used."""
    if settings.tls_certificate is not None:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(settings.tls_certificate, settings.tls_key)
    return HTTPOptions(**{field: getattr(settings, name) for field, name in HTTP_FIELDS.items()})


def _on_free_port(http: HTTPOptions) -> HTTPOptions:
    """The same options, and port 0 as a free one. Raises EngineError where the address cannot be had."""
    with listen(http.host or "127.0.0.1", http.port) as listener:
        return http.model_copy(update={"port": listener.getsockname()[1]})


def _check_room(scale: Scale, settings: ServerSettings) -> None:
    """A cluster of this machine does not grow. Raises ConfigError for replicas that would wait for ever."""
    most, cpus, cores = scale.ceiling, scale.cpus_for(settings), usable_cores()
    if most * cpus > cores:
        key = "max_replicas" if scale.least * cpus <= cores else "replicas"
        what = f"{most} replicas of {cpus:g} CPUs are more than the {cores} of this machine"
        remedy = f"give at most {int(cores // cpus)}, or --cpus below, or join a cluster ({ADDRESS_VARIABLE})"
        raise ConfigError(what, key=key, remedy=remedy)


def _connect(joined: bool) -> None:
    if not joined:
        # Supervisors end all processes at once: without its cluster this one need not wait for a minute.
        os.environ.setdefault("RAY_gcs_rpc_server_reconnect_timeout_s", "5")
        ray.init(num_cpus=usable_cores(), include_dashboard=False, logging_level="WARNING")
        return
    address = os.environ[ADDRESS_VARIABLE]
    try:
        ray.init(logging_level="WARNING")
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = one_line(str(error))[:200]
        remedy = f"`ray start --head` starts one; without {ADDRESS_VARIABLE} it is one of this machine"
        raise EngineError(f"no Ray cluster at {address}: {reason}", remedy=remedy) from error


def _start_serve(http: HTTPOptions) -> None:
    """Serve with these options. One that runs already keeps its own, so they must be the same."""
    logging.getLogger("ray.serve").setLevel("WARNING")
    serve.start(http_options=http, logging_config=QUIET)
    running = _get_global_client().http_config  # Serve itself only logs what it does not obey
    for field, name in HTTP_FIELDS.items():
        if getattr(running, field) != getattr(http, field):
            raise ConfigError(
                f"{name} is {getattr(http, field)!r}, and Serve runs on this cluster with {getattr(running, field)!r}",
                key=name,
                remedy="give the same, or end it first: `serve shutdown`",
            )


def _run(app: serve.Application) -> None:
    try:
        serve.run(app, name=APPLICATION, route_prefix="/")
    except RuntimeError as error:
        raise EngineError(_cause(str(error)), remedy="Ray's logs of the replica say more") from error


def _cause(report: str) -> str:
    """What a replica failed by, from Serve's report with its tracebacks: the last line that names an error."""
    lines = [line.strip() for line in report.splitlines()]
    named = [line for line in lines if ": " in line and line.split(": ", 1)[0].rsplit(".", 1)[-1].isidentifier()]
    raised = [line for line in named if line.split(": ", 1)[0].endswith(("Error", "Exception", "Fault", "Exit"))]
    return one_line(f"the replicas cannot start: {(raised or named or lines)[-1]}")


def _end() -> None:
    """Take the application away, and Serve if nothing else runs on it."""
    forget_responses()
    with suppress(Exception):
        others = [name for name in serve.status().applications if name != APPLICATION]
        if others:
            serve.delete(APPLICATION)
        else:
            serve.shutdown()


def _deployed_at() -> float | None:
    """When the application was deployed last, None where it is not."""
    found = serve.status().applications.get(APPLICATION)
    return None if found is None else float(found.last_deployed_time_s)


async def _nothing(scope: object, receive: object, send: object) -> None:
    """An application of which only the wrapping is tried."""
