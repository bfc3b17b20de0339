"""Whether what a hook returned fits its protocol: members, their kinds, and the arguments that the engine will give."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..samplers.protocols import LogitsProcessor
from .errors import PluginError
from .metrics import MetricsSink
from .routes import Route

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS")


def check_part(plugin: str, hook: str, answer: object, protocol: type) -> None:
    """Raises PluginError that names the plugin and says what does not fit."""
    if not isinstance(answer, protocol):
        missing = [member for member in dir(protocol) if not member.startswith("_") and not hasattr(answer, member)]
        lack = f"; missing: {', '.join(missing)}" if missing else ""
        raise PluginError(plugin, f"{hook} returned {type(answer).__name__}, not a {protocol.__name__}{lack}")
    if isinstance(answer, Route):
        _check_route(plugin, answer)
        return
    for name in dir(protocol):
        wanted = inspect.getattr_static(protocol, name)
        if inspect.isfunction(wanted) and (not name.startswith("_") or name == "__call__"):
            _check_call(plugin, answer, name, wanted)
    _check_values(plugin, answer)


def _check_call(plugin: str, part: object, name: str, wanted: Callable[..., Any]) -> None:
    method = part if name == "__call__" else getattr(part, name)
    what = type(part).__name__ if name == "__call__" else f"{type(part).__name__}.{name}"
    if not callable(method):
        raise PluginError(plugin, f"{what} is no method")
    parameters = list(inspect.signature(wanted).parameters.values())[1:]
    positional = [p for p in parameters if p.kind != p.KEYWORD_ONLY and p.default is p.empty]
    keywords = {p.name: None for p in parameters if p.kind == p.KEYWORD_ONLY and p.default is p.empty}
    try:
        inspect.signature(method).bind(*positional, **keywords)
    except TypeError as error:
        shown = ", ".join([*(p.name for p in positional), *(f"{name}=" for name in keywords)])
        raise PluginError(plugin, f"{what} is called with ({shown}), and does not take that: {error}") from error
    except ValueError:
        return  # a builtin without a signature


def _check_values(plugin: str, part: object) -> None:
    name = getattr(part, "name", "callable")
    if not isinstance(name, str) or not name:
        raise PluginError(plugin, f"{type(part).__name__}.name is {name!r}; give a text")
    if isinstance(part, LogitsProcessor):
        if part.phase not in ("edit", "shape"):
            raise PluginError(plugin, f"the phase of {name!r} is {part.phase!r}; allowed: 'edit', 'shape'")
        if isinstance(part.order, bool) or not isinstance(part.order, int | float):
            raise PluginError(plugin, f"the order of {name!r} is {part.order!r}; give a number")
        if not isinstance(part.argmax_invariant, bool):
            raise PluginError(plugin, f"argmax_invariant of {name!r} is {part.argmax_invariant!r}; give True or False")
    if isinstance(part, MetricsSink) and not (isinstance(part.interval, int | float) and part.interval >= 0.1):
        raise PluginError(plugin, f"the interval of {name!r} is {part.interval!r}; give seconds, at least 0.1")


def _check_route(plugin: str, route: Route) -> None:
    if not isinstance(route.path, str) or not route.path.startswith("/"):
        raise PluginError(plugin, f"a route's path is {route.path!r}; it must begin with '/'")
    wrong = [method for method in route.methods if method not in METHODS]
    if isinstance(route.methods, str) or not route.methods or wrong:
        raise PluginError(plugin, f"the methods of {route.path} are {route.methods!r}; allowed: {', '.join(METHODS)}")
    if not inspect.iscoroutinefunction(route.handler) and not inspect.iscoroutinefunction(
        getattr(route.handler, "__call__", None)  # noqa: B004  # the method itself is wanted
    ):
        raise PluginError(plugin, f"the handler of {route.path} is no coroutine function: write async def")
