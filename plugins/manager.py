"""Which plugins are active, and asking them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import pluggy

from ..samplers.guard import FAULT_LIMIT, Guard
from ..samplers.protocols import LogitsProcessor, Sampler
from . import hookspecs, options, shipped_grammars, shipped_kv, shipped_sampling, shipped_scheduling, shipped_tools
from .errors import PluginError
from .families import ModelFamily
from .fitting import check_part
from .loading import RESERVED, Loaded, given, installed, load, register, told
from .metrics import MetricsSink
from .nocache import NoCache
from .protocols import GrammarFrontend, KVCache, KVManager, Scheduler
from .routes import Route
from .tools import ToolFormat
from .version import API_VERSION
from .watched import WatchedFrontEnd, WatchedKV, WatchedScheduler

SHIPPED = (shipped_sampling, shipped_scheduling, shipped_kv, shipped_grammars, shipped_tools)
TIMEOUT = 2.0
"""Seconds that a plugin may hold the engine's thread with one call."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class PluginStatus:
    """An active plugin, or an installed one. `seconds`: spent in its calls so far; `faults`: requests that failed by
    it; `quarantined`: why it is not called any more.
    """

    name: str
    version: str | None
    api: str | None
    source: str
    active: bool
    hooks: tuple[str, ...] = ()
    parameters: Mapping[str, Any] | None = None
    calls: int = 0
    seconds: float = 0.0
    faults: int = 0
    quarantined: str | None = None


class Plugins:
    """The active plugins. Make one with `create_manager`; its methods are the only place where hooks are called."""

    def __init__(self, manager: pluggy.PluginManager, loaded: Sequence[Loaded], guards: Mapping[str, Guard]) -> None:
        self._manager = manager
        self._loaded = {one.name: one for one in loaded}
        self._guards = guards
        self._owners: dict[int, tuple[object, str]] = {}
        self._models = {
            name: options.closed(name, model) for name, model in self._answers("slipcast_request_parameters")
        }

    @property
    def names(self) -> tuple[str, ...]:
        """The active plugins, shipped ones first, in the order of registration."""
        return tuple(name for name, plugin in self._manager.list_name_plugin() if plugin is not None)

    @property
    def outside(self) -> tuple[str, ...]:
        """The active plugins that are not the engine's own, which requests may name."""
        return tuple(name for name in self.names if name in self._guards)

    def guard_of(self, part: object) -> Guard | None:
        """The guard of the plugin that returned `part` from a hook; None for the engine's own."""
        return self._guards.get(self.owner(part))

    def request_options(self, given: object) -> dict[str, Any]:
        """A request's `plugins`, checked: instances of the plugins' models by name. Raises PluginOptionError, and
        PluginError where the checking itself fails.
        """
        return options.check(given, self._models, self.outside, installed()) if given else {}

    def status(self) -> list[PluginStatus]:
        """Every active plugin in the order of registration, then those that are installed and not active."""
        active = [self._status(name) for name in self.names]
        others = [
            PluginStatus(name, point.dist.version if point.dist else None, None, point.value, False)
            for name, point in sorted(installed().items())
            if name not in self.names
        ]
        return [*active, *others]

    def close(self) -> None:
        """End the threads that plugins ran in."""
        for guard in self._guards.values():
            guard.close()

    # -------------------------------------------------------------------------------------------------- the hooks

    def logits_processors(
        self, vocabulary_size: int, tokens: Sequence[bytes | None] = ()
    ) -> tuple[LogitsProcessor, ...]:
        """Every active plugin's processors. Raises PluginError for a wrong or doubly named one."""
        found: dict[str, LogitsProcessor] = {}
        for processor in self._all(
            "slipcast_logits_processors", LogitsProcessor, vocabulary_size=vocabulary_size, tokens=tokens
        ):
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
        guard = self.guard_of(answer)
        return answer if guard is None else WatchedScheduler(answer, guard)

    def kv_manager(self, name: str, cache: KVCache) -> KVManager:
        """The KV manager of that name over `cache`. Raises PluginError if no active plugin has it."""
        answer: KVManager = self._first("slipcast_kv_manager", "KV manager", name, KVManager, name=name, cache=cache)
        guard = self.guard_of(answer)
        return answer if guard is None else WatchedKV(answer, guard, cache)

    def check(self, *, sampler: str, scheduler: str, kv_manager: str) -> None:
        """Raise PluginError if one of these is offered by no active plugin: before a model is loaded."""
        self.sampler(sampler)
        self.scheduler(scheduler, self.kv_manager(kv_manager, NoCache()))

    def grammar_frontend(self, kind: str) -> GrammarFrontend:
        """The front end for grammars of `kind`. Raises PluginError if no active plugin reads them."""
        answer: GrammarFrontend = self._first(
            "slipcast_grammar_frontend", "grammar kind", kind, GrammarFrontend, kind=kind
        )
        guard = self.guard_of(answer)
        return answer if guard is None else WatchedFrontEnd(answer, guard)

    def tool_format(self, name: str, template: str) -> ToolFormat | None:
        """The tool-call format of that name; for "auto", one that suits the chat template, or None.

        Raises PluginError if no active plugin has one of another name.
        """
        answer: ToolFormat | None = self._first(
            "slipcast_tool_format",
            "tool format",
            name,
            ToolFormat,
            may_lack=name == "auto",
            name=name,
            template=template,
        )
        return answer

    def model_families(self) -> tuple[ModelFamily, ...]:
        """Every active plugin's model families, those of outside plugins first."""
        return tuple(self._all("slipcast_model_families", ModelFamily))

    def routes(self) -> tuple[Route, ...]:
        """Every active plugin's routes. Raises PluginError if two have a path and a method in common."""
        routes: list[Route] = self._all("slipcast_routes", Route)
        taken: dict[tuple[str, str], str] = {}
        for route in routes:
            for method in route.methods:
                if (before := taken.setdefault((route.path, method), self.owner(route))) != self.owner(route):
                    raise PluginError(self.owner(route), f"{method} {route.path} is served by {before!r} already")
        return tuple(routes)

    def metrics_sinks(self) -> tuple[MetricsSink, ...]:
        """Every active plugin's metrics sinks."""
        return tuple(self._all("slipcast_metrics_sinks", MetricsSink))

    # ------------------------------------------------------------------------------------------------------ asking

    def _all(self, hook: str, protocol: type, **arguments: Any) -> list[Any]:
        """The parts that all active plugins offer together, checked."""
        parts: list[Any] = []
        for plugin, answer in self._answers(hook, **arguments):
            if not isinstance(answer, Iterable):
                raise PluginError(plugin, f"{hook} returned {type(answer).__name__}, not a sequence")
            try:
                offered = list(answer)
            except Exception as error:  # it may be a generator
                raise PluginError(plugin, f"{hook} raised {told(error)}") from error
            parts.extend(self._own(plugin, hook, part, protocol) for part in offered)
        return parts

    def _first(
        self, hook: str, what: str, wanted: str, protocol: type, *, may_lack: bool = False, **arguments: Any
    ) -> Any:
        """The first answer, those of outside plugins before the engine's own."""
        for plugin, answer in self._answers(hook, **arguments):
            if answer is not None:
                return self._own(plugin, hook, answer, protocol)
        if may_lack:
            return None
        raise PluginError(wanted, f"no active plugin offers this {what}; active: {', '.join(self.names)}")

    def _answers(self, hook: str, **arguments: Any) -> Iterator[tuple[str, Any]]:
        """Each active plugin's answer, those of outside plugins first, so that it is known whose it is.

        The order is pluggy's: of equals, the one registered last comes first.
        """
        caller: pluggy.HookCaller = getattr(self._manager.hook, hook)
        for impl in reversed(caller.get_hookimpls()):
            guard = self._guards.get(impl.plugin_name)
            started = time.perf_counter()
            try:
                answer = impl.function(*(arguments[name] for name in impl.argnames))
            except Exception as error:
                raise PluginError(impl.plugin_name, f"{hook} raised {told(error)}") from error
            finally:
                if guard is not None:
                    guard.calls += 1
                    guard.seconds += time.perf_counter() - started
            yield impl.plugin_name, answer

    def _own(self, plugin: str, hook: str, part: Any, protocol: type) -> Any:
        check_part(plugin, hook, part, protocol)
        if plugin in self._guards:
            self._owners[id(part)] = (part, plugin)
        return part

    def owner(self, part: object) -> str:
        """The plugin that returned `part` from a hook."""
        return self._owners.get(id(part), (None, RESERVED))[1]

    def _status(self, name: str) -> PluginStatus:
        plugin = self._manager.get_plugin(name)
        hooks = tuple(sorted(caller.name for caller in self._manager.get_hookcallers(plugin) or ()))
        loaded, guard, model = self._loaded[name], self._guards.get(name), self._models.get(name)
        schema = None if model is None else model.model_json_schema()
        status = PluginStatus(name, loaded.version, loaded.api, loaded.source, True, hooks, schema)
        if guard is None:
            return status
        return replace(
            status, calls=guard.calls, seconds=guard.seconds, faults=guard.faults, quarantined=guard.quarantined
        )


def create_manager(
    names: Iterable[str] = (),
    *,
    extra: Sequence[tuple[str, object]] = (),
    timeout: float | None = TIMEOUT,
    fault_limit: int = FAULT_LIMIT,
) -> Plugins:
    """The shipped plugins, those of `names`, and the given (name, object) pairs.

    `timeout`: seconds that a plugin may hold the engine's thread with one call; None, any number. `fault_limit`:
    requests in a row that fail by a plugin before it is not called any more. Raises PluginError naming the plugin: not
    installed, made for another version of the hooks, fails to import, a hook or an argument that does not exist.
    """
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    version = f"{API_VERSION[0]}.{API_VERSION[1]}"
    loaded = []
    for module in SHIPPED:
        name = RESERVED + module.__name__.rpartition(".")[2].removeprefix("shipped_")
        manager.register(module, name)
        loaded.append(Loaded(name, module, None, version, module.__name__))
    guards = {}
    outside = [*map(load, dict.fromkeys(names)), *(given(name, plugin) for name, plugin in extra)]
    for one in outside:
        register(manager, one)
        loaded.append(one)
        guards[one.name] = Guard(one.name, timeout=timeout, limit=fault_limit)
    return Plugins(manager, loaded, guards)
