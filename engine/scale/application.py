"""The Serve application, put together."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ray import serve
from ray.serve.config import RequestRouterConfig
from ray.serve.schema import LoggingConfig

from ..errors import ConfigError
from ..runtime.paths import CACHE_VARIABLE
from ..settings import ServerSettings
from .front import Front
from .replica import Replica
from .router import RandomRouter, WarmRouter

POWER_OF_TWO: Final = "ray.serve._private.request_router.pow_2_router:PowerOfTwoChoicesRequestRouter"
ROUTERS: Final[Mapping[str, Any]] = {"warm": WarmRouter, "shorter": POWER_OF_TWO, "random": RandomRouter}
# What parts of the product read from the environment, so that replicas on other machines read the same.
CARRIED: Final = (CACHE_VARIABLE, "OTEL_", "HF_")
STDERR_VARIABLE: Final = "RAY_SERVE_LOG_TO_STDERR"
"""With "0" Serve takes a process's stderr for its own log, and what we log with it."""
QUIET: Final = LoggingConfig(enable_access_log=False, log_level="WARNING")
"""Of Serve's own logs. Ours are as the settings say."""


@dataclass(frozen=True, slots=True)
class Scale:
    """How many replicas. With `most` above `least` their number follows the load: `target` requests for each. None: as
    `least`.

    `cpus`: of each replica, for Ray's placement, and threads of its engines where the settings name no number; None, as
    many as the settings' `threads`, or 1. `drain`: seconds that a replica which is replaced or taken away has to end
    the answers it has begun. `routing`: to the replica that has a request's prompt or grammar warm; Serve's own
    choice, the shorter queue of two; or any. `fronts`: processes that take requests, each of which learns for itself
    what is warm where.
    """

    least: int = 1
    most: int | None = None
    target: int = 8
    cpus: float | None = None
    drain: float = 120.0
    routing: Literal["warm", "shorter", "random"] = "warm"
    fronts: int = 1

    def __post_init__(self) -> None:
        if self.most is not None and self.most < self.least:
            what = f"max_replicas is {self.most}, below replicas, {self.least}"
            raise ConfigError(what, key="max_replicas", remedy="give as many at least, or leave it out")
        if self.cpus is not None and not 0 < self.cpus < math.inf:
            raise ConfigError(f"cpus is {self.cpus:g}", key="cpus", remedy="give a number above 0")

    @property
    def ceiling(self) -> int:
        """The most replicas there may be."""
        return self.least if self.most is None else self.most

    def cpus_for(self, settings: ServerSettings) -> float:
        """Of each replica."""
        return float(settings.threads or 1) if self.cpus is None else self.cpus


def application(
    settings: ServerSettings, scale: Scale | None = None, *, keys: tuple[str, ...] = (), template: str | None = None
) -> Any:
    """The application for `serve.run`. `keys`: API keys; `template`: a chat template instead of the models' own. Both
    are given here as they are, since files of the settings lie on this machine.

    Raises ConfigError where the engines' options are wrong.
    """
    scale = scale or Scale()
    cpus = scale.cpus_for(settings)
    settings = settings.model_copy(update={"threads": settings.threads or math.ceil(cpus)})
    config = settings.engine_config(settings.model[0])
    common: dict[str, Any] = {
        # What is replaced first ends what it has begun, streams too: the front as well, they pass through it.
        "graceful_shutdown_timeout_s": scale.drain,
        "graceful_shutdown_wait_loop_s": 0.2,
        "health_check_period_s": 5,
        "health_check_timeout_s": 10,
        # What cannot start will not start the next time either; a machine that is lost may be another.
        "max_constructor_retry_count": 3,
        "logging_config": QUIET,
    }
    carried = {name: value for name, value in os.environ.items() if name.startswith(CARRIED)}
    environment = {"env_vars": {**carried, STDERR_VARIABLE: "1"}}
    replicas = serve.deployment(
        name="Replica",
        max_ongoing_requests=4 * config.limits.max_batch,
        max_queued_requests=config.max_waiting,
        ray_actor_options={"num_cpus": cpus, "runtime_env": environment},
        request_router_config=RequestRouterConfig(request_router_class=ROUTERS[scale.routing]),
        **_count(scale),
        **common,
    )(Replica)
    front = serve.deployment(
        name="Front",
        num_replicas=scale.fronts,
        max_ongoing_requests=10_000,
        ray_actor_options={"num_cpus": 0, "runtime_env": environment},
        **common,
    )(serve.ingress()(Front))
    told = settings.model_dump()
    return front.bind(replicas.bind(told, template), told, keys)


def _count(scale: Scale) -> dict[str, Any]:
    if scale.ceiling == scale.least:
        return {"num_replicas": scale.least}
    limits = {"min_replicas": scale.least, "max_replicas": scale.ceiling, "target_ongoing_requests": scale.target}
    return {"autoscaling_config": limits}
