"""Which plugins are active, and asking them.

Installing a package that offers entry points in the group `slipcast.plugins` does not activate it: the configuration
does, by the entry point's name, or by "module:attribute" for a plugin that is not packaged.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from types import TracebackType
from typing import Any

import pluggy

from ..samplers.protocols import LogitsProcessor, Sampler
from . import hookspecs, shipped_grammars, shipped_kv, shipped_sampling, shipped_scheduling, shipped_tools
from .errors import PluginError
from .families import ModelFamily
from .metrics import MetricsSink
from .nocache import NoCache
from .protocols import GrammarFrontend, KVCache, KVManager, Scheduler
from .routes import Route
from .tools import ToolFormat

ENTRY_POINT_GROUP = "slipcast.plugins"
PREFIX = "slipcast."
SHIPPED = (shipped_sampling, shipped_scheduling, shipped_kv, shipped_grammars, shipped_tools)


class Plugins:
    """The active plugins. Make one with `create_manager`; its methods are the only place where hooks are called."""

    def __init__(self, manager: pluggy.PluginManager) -> None:
        self._manager = manager

    @property
    def names(self) -> tuple[str, ...]:
        """The active plugins, shipped ones first, in the order of registration."""
        return tuple(name for name, plugin in self._manager.list_name_plugin() if plugin is not None)

    def logits_processors(
        self, vocabulary_size: int, tokens: Sequence[bytes | None] = ()
    ) -> tuple[LogitsProcessor, ...]:
        """Every active plugin's processors. Raises PluginError for a wrong or doubly named one."""
        found: dict[str, LogitsProcessor] = {}
        for processor in self._all(
            "slipcast_logits_processors", LogitsProcessor, vocabulary_size=vocabulary_size, tokens=tokens
        ):
            if processor.phase not in ("edit", "shape"):
                raise PluginError(processor.name, f"its phase is {processor.phase!r}; allowed: 'edit', 'shape'")
            if processor.name in found:
                raise PluginError(processor.name, "two logits processors have this name; rename one")
            found[processor.name] = processor
        return tuple(found.values())

    def sampler(self, name: str) -> Sampler:
        """The sampler of that name. Raises PluginError if no active plugin has it."""
        answer: Sampler = self._first("slipcast_sampler", "sampler", name, Sampler, name=name)
        return answer

    def scheduler(self, name: str, kv: KVManager) -> Scheduler:
        """The scheduling policy of that name. Raises PluginError if no active plugin has it."""
        answer: Scheduler = self._first("slipcast_scheduler", "scheduler", name, Scheduler, name=name, kv=kv)
        return answer

    def kv_manager(self, name: str, cache: KVCache) -> KVManager:
        """The KV manager of that name over `cache`. Raises PluginError if no active plugin has it."""
        answer: KVManager = self._first("slipcast_kv_manager", "KV manager", name, KVManager, name=name, cache=cache)
        return answer

    def check(self, *, sampler: str, scheduler: str, kv_manager: str) -> None:
        """Raise PluginError if one of these is offered by no active plugin: before a model is loaded."""
        cache = NoCache()
        self.sampler(sampler)
        self.scheduler(scheduler, self.kv_manager(kv_manager, cache))

    def grammar_frontend(self, kind: str) -> GrammarFrontend:
        """The front end for grammars of `kind`. Raises PluginError if no active plugin reads them."""
        answer: GrammarFrontend = self._first(
            "slipcast_grammar_frontend", "grammar kind", kind, GrammarFrontend, kind=kind
        )
        return answer

    def tool_format(self, name: str, template: str) -> ToolFormat | None:
        """The tool-call format of that name; for "auto", one that suits the chat template, or None.

        Raises PluginError if no active plugin has one of another name.
        """
        if name == "auto":
            answer = self._call("slipcast_tool_format", name=name, template=template)
            if answer is not None:
                _check(name, "slipcast_tool_format", answer, ToolFormat)
            found: ToolFormat | None = answer
            return found
        chosen: ToolFormat = self._first(
            "slipcast_tool_format", "tool format", name, ToolFormat, name=name, template=template
        )
        return chosen

    def model_families(self) -> tuple[ModelFamily, ...]:
        """Every active plugin's model families, those of outside plugins first."""
        return tuple(self._all("slipcast_model_families", ModelFamily))

    def routes(self) -> tuple[Route, ...]:
        """Every active plugin's routes."""
        return tuple(self._all("slipcast_routes", Route))

    def metrics_sinks(self) -> tuple[MetricsSink, ...]:
        """Every active plugin's metrics sinks."""
        return tuple(self._all("slipcast_metrics_sinks", MetricsSink))

    def _all(self, hook: str, protocol: type, **arguments: Any) -> list[Any]:
        """The parts that all active plugins offer together, checked."""
        parts: list[Any] = []
        for answer in self._call(hook, **arguments):
            if not isinstance(answer, Iterable):
                kind = type(answer).__name__
                raise PluginError(kind, f"{hook} returned {kind}, not a sequence")
            for part in answer:
                _check(str(getattr(part, "name", type(part).__name__)), hook, part, protocol)
                parts.append(part)
        return parts

    def _first(self, hook: str, what: str, wanted: str, protocol: type, **arguments: Any) -> Any:
        answer = self._call(hook, **arguments)
        if answer is None:
            raise PluginError(wanted, f"no active plugin offers this {what}; active: {', '.join(self.names)}")
        _check(wanted, hook, answer, protocol)
        return answer

    def _call(self, hook: str, **arguments: Any) -> Any:
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook)
        try:
            return caller(**arguments)
        except Exception as error:
            raise PluginError(_culprit(caller, error), f"{hook} raised {_told(error)}") from error


def create_manager(names: Iterable[str] = (), *, extra: Sequence[tuple[str, object]] = ()) -> Plugins:
    """The shipped plugins, those of `names`, and the given (name, object) pairs.

    Raises PluginError naming the plugin: not installed, fails to import, a hook or an argument that does not exist.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    for module in SHIPPED:
        manager.register(module, PREFIX + module.__name__.rpartition(".")[2].removeprefix("shipped_"))
    for name in dict.fromkeys(names):
        _register(manager, name, _load(name))
    for name, plugin in extra:
        _register(manager, name, plugin)
    return Plugins(manager)


def installed() -> dict[str, EntryPoint]:
    """Plugins that packages offer, by name; active or not."""
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def _load(name: str) -> object:
    module, colon, attribute = name.partition(":")
    offered = installed()
    point = offered.get(name)
    try:
        if point is not None:
            return point.load()
        if colon:
            return getattr(import_module(module), attribute)
    except Exception as error:
        raise PluginError(name, f"it does not load: {_told(error)}") from error
    known = ", ".join(sorted(offered)) or "none"
    raise PluginError(name, f"not installed; installed: {known} (or name it as module:attribute)")


def _register(manager: pluggy.PluginManager, name: str, plugin: object) -> None:
    if isinstance(plugin, type):
        try:
            plugin = plugin()
        except Exception as error:
            raise PluginError(name, f"it cannot be made: {_told(error)}") from error
    try:
        manager.register(plugin, name)
        # A hook that does not exist is silent in pluggy until it is asked for.
        manager.check_pending()
    except (pluggy.PluginValidationError, ValueError) as error:
        raise PluginError(name, " ".join(str(error).split())) from error
    callers = manager.get_hookcallers(plugin)
    if not callers:
        raise PluginError(name, "it implements no hook; mark its functions with slipcast.plugins.hookimpl")


def _told(error: Exception) -> str:
    """Kind and text of an error, on one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def _check(name: str, hook: str, answer: object, protocol: type) -> None:
    if not isinstance(answer, protocol):
        missing = [member for member in dir(protocol) if not member.startswith("_") and not hasattr(answer, member)]
        lack = f"; missing: {', '.join(missing)}" if missing else ""
        raise PluginError(name, f"{hook} returned {type(answer).__name__}, not a {protocol.__name__}{lack}")


def _culprit(caller: pluggy.HookCaller, error: Exception) -> str:
    """The plugin whose implementation is on the error's traceback."""
    by_code = {getattr(impl.function, "__code__", None): impl.plugin_name for impl in caller.get_hookimpls()}
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        name = by_code.get(trace.tb_frame.f_code)
        if name is not None:
            return name
        trace = trace.tb_next
    return "unknown"
