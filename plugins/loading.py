"""From names to plugin objects that fit the hooks.

Installing a package that offers entry points in the group `slipcast.plugins` does not activate it: the configuration
does, by the entry point's name; by "module:attribute" for a plugin that is not packaged; or by "name=module:attribute"
to give that a name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import pluggy

from . import hookspecs
from .errors import PluginError
from .version import check_version

ENTRY_POINT_GROUP = "slipcast.plugins"
RESERVED = "slipcast."
PREFIX = "slipcast_"


@dataclass(frozen=True, slots=True)
class Loaded:
    """A plugin object with the name that it is active under. `version`: of its package, or its `__version__`."""

    name: str
    plugin: object
    version: str | None
    api: str | None
    source: str


def installed() -> dict[str, EntryPoint]:
    """Plugins that packages offer, by name; active or not."""
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def load(wanted: str) -> Loaded:
    """The plugin that the configuration calls `wanted`. Raises PluginError."""
    offered = installed()
    point = offered.get(wanted)
    if point is not None:
        plugin = _made(wanted, _tried(wanted, point.load))
        version = point.dist.version if point.dist is not None else None
        return Loaded(wanted, plugin, version, check_version(wanted, plugin, required=True), point.value)
    name, equals, place = wanted.partition("=")
    if not equals:
        name = place = wanted
    if not name or ":" not in place:
        known = ", ".join(sorted(offered)) or "none"
        raise PluginError(wanted, f"not installed; installed: {known} (or name it as module:attribute)")
    return given(name, _tried(name, lambda: _imported(place)), place)


def given(name: str, plugin: Any, source: str = "given") -> Loaded:
    """A plugin that is there already: an object or module with hooks, or a class to be called."""
    if name.startswith(RESERVED):
        raise PluginError(name, f"names that begin with {RESERVED!r} are the engine's own; choose another")
    plugin = _made(name, plugin)
    version = getattr(plugin, "__version__", None)
    return Loaded(name, plugin, str(version) if version else None, check_version(name, plugin, required=False), source)


def register(manager: pluggy.PluginManager, loaded: Loaded) -> None:
    """Raises PluginError for a hook or an argument that does not exist, a name given twice, no hook at all."""
    name, plugin = loaded.name, loaded.plugin
    try:
        manager.register(plugin, name)
        # A hook that does not exist is silent in pluggy until it is asked for.
        manager.check_pending()
    except (pluggy.PluginValidationError, ValueError) as error:
        raise PluginError(name, " ".join(str(error).split())) from error
    callers = manager.get_hookcallers(plugin) or []
    if not callers:
        raise PluginError(name, "it implements no hook; mark its functions with slipcast.plugins.hookimpl")
    wrappers = [
        caller.name
        for caller in callers
        for impl in caller.get_hookimpls()
        if impl.plugin is plugin and (impl.wrapper or impl.hookwrapper)
    ]
    if wrappers:
        raise PluginError(name, f"{wrappers[0]} is a hook wrapper; offer a part of your own instead")
    used = {caller.name for caller in callers}
    hooks = [hook for hook in vars(hookspecs) if hook.startswith(PREFIX)]
    unmarked = [hook for hook in hooks if hook not in used and callable(getattr(plugin, hook, None))]
    if unmarked:
        raise PluginError(name, f"{unmarked[0]} is not marked with slipcast.plugins.hookimpl, and would not be called")


def _imported(place: str) -> Any:
    module, _, attribute = place.partition(":")
    found: Any = import_module(module)
    for part in attribute.split(".") if attribute else ():
        found = getattr(found, part)
    return found


def _tried(name: str, importing: Callable[[], Any]) -> Any:
    try:
        return importing()
    except Exception as error:
        raise PluginError(name, f"it does not load: {told(error)}") from error


def _made(name: str, plugin: Any) -> Any:
    if not isinstance(plugin, type):
        return plugin
    try:
        return plugin()
    except Exception as error:
        raise PluginError(name, f"it cannot be made: {told(error)}") from error


def told(error: Exception) -> str:
    """Kind and text of an error, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())
