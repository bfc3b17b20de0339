"""The cluster that replicas run on, joined or started, and the application on it."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Final

import ray
from ray import serve
from ray.exceptions import RayError
from ray.serve.config import HTTPOptions
from ray.serve.context import _get_global_client
from ray.serve.exceptions import RayServeException

from ..cli_serve import check_tls, listen, traced
from ..errors import ConfigError, EngineError
from ..lines import one_line
from ..runtime.cpu import usable_cores
from ..settings import ServerSettings
from .application import QUIET, STDERR_VARIABLE, Scale, application
from .front import rules
from .shared import end_shared, shared

_LOG = logging.getLogger(__name__)
APPLICATION: Final = "slipcast"
ADDRESS_VARIABLE: Final = "RAY_ADDRESS"
# What is compared with a Serve that runs already: all that the settings decide.
HTTP_FIELDS: Final = {"host": "host", "port": "port", "ssl_certfile": "tls_certificate", "ssl_keyfile": "tls_key"}
POLL_SECONDS: Final = 2.0
# Serve's controller writes pages of tracebacks where a replica fails; they stay in its log. And it takes a proxy for
# dead that a busy machine has not started after five seconds.
JOB_ENVIRONMENT: Final = {STDERR_VARIABLE: "0", "RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S": "60"}
# A cluster of one machine shares its cores with the replicas: what watches it for others is turned off, and what it
# does ten times a second it does twice. Supervisors end all processes at once: ours need not wait for its cluster then.
LOCAL_ENVIRONMENT: Final = {
    "RAY_enable_metrics_collection": "0",
    "RAY_task_events_report_interval_ms": "0",
    "RAY_SERVE_CONTROL_LOOP_INTERVAL_S": "0.5",
    "RAY_gcs_rpc_server_reconnect_timeout_s": "5",
}


class Deployment:
    """The application as this process deploys it. `address`: where it is served."""

    def __init__(self, app: serve.Application, http: HTTPOptions) -> None:
        scheme = "https" if http.ssl_certfile else "http"
        host = f"[{http.host}]" if ":" in (http.host or "") else http.host
        self.address = f"{scheme}://{host}:{http.port}/v1"
        self._app = app
        self._name = uuid.uuid4().hex
        if not self._deploy():
            what = "another process deploys on this cluster right now"
            raise EngineError(what, remedy="try again when it is done")

    def _deploy(self) -> bool:
        """Deploy, and own what is deployed; False where another process does so right now. Raises as `_run` does."""
        if not ray.get(shared().claim.remote(self._name)):
            return False
        deployed = False
        try:
            _run(self._app)
            deployed = True
        finally:
            ray.get(shared().settle.remote(self._name, deployed))
        return True

    def wait(self, ended: threading.Event) -> None:
        """Until `ended` is set, or another process has deployed it anew, or taken it away. Where another tried to and
        failed, this one is put back.
        """
        while not ended.wait(POLL_SECONDS) and self.ours():
            status = _status()
            if status is None:
                return
            # Whoever failed is let know it first: putting back makes a failure look like a success.
            if status == "DEPLOY_FAILED" and not ray.get(shared().claimed.remote()) and self._deploy():
                _LOG.warning("another process deployed what cannot start; what this one deployed is put back")

    def ours(self) -> bool:
        """Whether this process was the last to deploy."""
        return ray.get(shared().owner.remote()) in (self._name, "")


@contextmanager
def deployed(
    settings: ServerSettings, scale: Scale, keys: tuple[str, ...], template: str | None
) -> Iterator[Deployment]:
    """The application, on the cluster that RAY_ADDRESS names or one of this machine, until the end of the block.

    Where it runs already it is replaced, replica by replica, and the process that deployed it before leaves it alone.
    Raises EngineError where the cluster, the port or the model cannot be had, ConfigError for what would not be obeyed,
    PluginError, and OSError for a certificate's file that cannot be read.
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
        replaced = _status() is not None
        deployment: Deployment | None = None
        try:
            deployment = Deployment(app, http)
            yield deployment
        finally:
            # What was there before, and failed to be replaced, is the other process's; so is what is being replaced.
            if not replaced if deployment is None else deployment.ours() and not ray.get(shared().claimed.remote()):
                _end()
    finally:
        ray.shutdown()


def http_options(settings: ServerSettings) -> HTTPOptions:
    """Serve's HTTP options. Raises as `check_tls`."""
    check_tls(settings)
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


def start_here(cpus: int, **options: Any) -> None:
    """A cluster of this machine, for this process alone. `options`: of `ray.init`."""
    for name, value in LOCAL_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    logging.getLogger("ray.serve").setLevel("WARNING")
    ray.init(
        address="local",
        num_cpus=cpus,
        include_dashboard=False,
        logging_level="WARNING",
        runtime_env={"env_vars": JOB_ENVIRONMENT},
        **options,
    )


def _connect(joined: bool) -> None:
    if not joined:
        start_here(usable_cores())
        return
    logging.getLogger("ray.serve").setLevel("WARNING")
    address = os.environ[ADDRESS_VARIABLE]
    host, _, port = address.rpartition(":")
    try:
        if port.isdecimal() and "/" not in host:
            socket.create_connection((host, int(port)), 5).close()  # Ray itself tries for minutes
        ray.init(logging_level="WARNING", runtime_env={"env_vars": JOB_ENVIRONMENT})
    except (OSError, OverflowError, RuntimeError, ValueError) as error:
        reason = one_line(str(error))[:200]
        remedy = f"`ray start --head` starts one; without {ADDRESS_VARIABLE} it is one of this machine"
        raise EngineError(f"no Ray cluster at {address}: {reason}", remedy=remedy) from error


def _start_serve(http: HTTPOptions) -> None:
    """Serve with these options. One that runs already keeps its own, so they must be the same."""
    try:
        serve.start(http_options=http, logging_config=QUIET)
    except (RayError, TimeoutError) as error:
        raise EngineError(f"Serve cannot start: {one_line(str(error))[:200]}", remedy="try again") from error
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
        found = serve.status().applications.get(APPLICATION)
        reports = [] if found is None else [deployment.message for deployment in found.deployments.values()]
        what = f"the replicas cannot start: {_cause([str(error), *reports])}"
        raise EngineError(what, remedy="the logs of the replicas say more, in Ray's folder") from error


def _cause(reports: Sequence[str]) -> str:
    """What a replica failed by, from Serve's reports with their tracebacks: the last line that is an error's."""
    lines = [line.strip() for report in reports for line in report.splitlines() if line.strip()]
    raised = [line for line in lines if line.split(": ", 1)[0].endswith(("Error", "Exception", "Fault"))]
    last = (raised or lines)[-1]
    kind, _, message = last.partition(": ")
    return one_line(message if kind.startswith("slipcast.") else last)


def _end() -> None:
    """Take the application away, and Serve if nothing else runs on it."""
    end_shared()
    with suppress(Exception):
        others = [name for name in serve.status().applications if name != APPLICATION]
        if others:
            serve.delete(APPLICATION)
        else:
            serve.shutdown()


def _status() -> str | None:
    """Of the application as Serve has it, None where it or Serve does not run."""
    try:
        found = serve.status().applications.get(APPLICATION)
    except (RayError, RayServeException):
        return None
    return None if found is None else str(found.status.value)


async def _nothing(scope: object, receive: object, send: object) -> None:
    """An application of which only the wrapping is tried."""
