"""The Serve application, put together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from ray import serve
from ray.serve.config import RequestRouterConfig

from ..api.access import AccessRules
from ..settings import ServerSettings
from .front import Front
from .replica import Replica
from .router import WarmRouter

DRAIN_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Scale:
    """How many replicas. With `most` above `least` their number follows the load: `target` requests for each.

    `cpus`: of each replica, for Ray's placement; its engine's threads are the settings' `threads`. `warm`: False routes
    by the length of queues alone.
    """

    least: int = 1
    most: int = 1
    target: int = 8
    cpus: float = 1.0
    warm: bool = True


def application(settings: ServerSettings, scale: Scale | None = None, keys: tuple[str, ...] = ()) -> Any:
    """The application for `serve.run`. `keys`: API keys, as `AccessRules` has them."""
    scale = scale or Scale()
    limits = settings.engine_config(settings.model[0]).limits
    replicas: dict[str, Any]
    if scale.most > scale.least:
        replicas = {
            "autoscaling_config": {
                "min_replicas": scale.least,
                "max_replicas": scale.most,
                "target_ongoing_requests": scale.target,
            }
        }
    else:
        replicas = {"num_replicas": scale.least}
    deployed = serve.deployment(
        name="Replica",
        max_ongoing_requests=4 * limits.max_batch,
        ray_actor_options={"num_cpus": scale.cpus},
        request_router_config=RequestRouterConfig(
            request_router_class=WarmRouter, request_router_kwargs={"warm": scale.warm}
        ),
        # A replica that is replaced first ends what it has begun, streams too.
        graceful_shutdown_timeout_s=DRAIN_SECONDS,
        graceful_shutdown_wait_loop_s=0.5,
        health_check_period_s=5,
        health_check_timeout_s=30,
        **replicas,
    )(Replica)
    front = serve.deployment(name="Front", max_ongoing_requests=10_000, ray_actor_options={"num_cpus": 0})(Front)
    bound = deployed.bind(settings.model_dump(), "replica")
    return front.bind(bound, AccessRules(keys=keys), settings.max_body_mb << 20)
