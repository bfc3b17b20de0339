"""Plugins: every hook with a consumer, activation by name, errors that name the culprit, outside before shipped."""

from __future__ import annotations

import inspect
import sys
import types
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import pytest
from engine_toys import ToyCache
from slipcast.engine.service import EngineService
from slipcast.plugins import (
    ENTRY_POINT_GROUP,
    PluginError,
    create_manager,
    hookimpl,
    hookspecs,
    installed,
    loading,
    manager,
)
from slipcast.plugins.protocols import GrammarFrontend, KVManager, LogitsProcessor, Sampler, Scheduler
from slipcast.plugins.shipped_kv import PlainKV
from slipcast.samplers import BaseProcessor, SeededSampler


class Processor(BaseProcessor):
    name, order = "mine", 10

    def wants(self, row):
        return False

    def apply(self, logits, rows):
        pass


def with_hooks(**hooks) -> SimpleNamespace:
    return SimpleNamespace(**{f"slipcast_{name}": hookimpl(function) for name, function in hooks.items()})


def test_shipped_plugins_fill_the_hooks():
    plugins = create_manager()
    assert plugins.names == (
        "slipcast.sampling", "slipcast.scheduling", "slipcast.kv", "slipcast.grammars", "slipcast.tools",
    )  # fmt: skip
    assert isinstance(plugins.sampler("seeded"), Sampler)
    cache = ToyCache(10)
    assert isinstance(plugins.scheduler("fcfs", plugins.kv_manager("plain", cache)), Scheduler)
    assert all(isinstance(plugins.kv_manager(name, cache), KVManager) for name in ("prefix", "plain"))
    assert all(isinstance(processor, LogitsProcessor) for processor in plugins.logits_processors(100))
    kinds = ("json_schema", "json_object", "regex", "choice")
    assert all(isinstance(plugins.grammar_frontend(kind), GrammarFrontend) for kind in kinds)
    hooks = {name for name, _ in inspect.getmembers(hookspecs, inspect.isfunction) if name.startswith("slipcast_")}
    shipped = {name for module in manager.SHIPPED for name in vars(module) if name.startswith("slipcast_")}
    for_others = {"model_families", "routes", "metrics_sinks", "request_parameters"}
    assert hooks - {f"slipcast_{name}" for name in for_others} <= shipped <= hooks


def test_every_hook_is_documented_and_called_somewhere():
    source = inspect.getsource(manager)
    for name, function in inspect.getmembers(hookspecs, inspect.isfunction):
        if name.startswith("slipcast_"):
            assert f'"{name}"' in source and len(inspect.getdoc(function) or "") > 40, name


def test_shipped_objects_are_fresh_for_each_engine():
    plugins = create_manager()
    first, second = plugins.logits_processors(9), plugins.logits_processors(9)
    assert not {id(processor) for processor in first} & {id(processor) for processor in second}


def test_outside_plugins_are_asked_first():
    class Mine(SeededSampler):
        pass

    plugins = create_manager(extra=[("mine", with_hooks(sampler=lambda name: Mine() if name == "seeded" else None))])
    assert type(plugins.sampler("seeded")) is Mine


def test_a_hook_may_take_fewer_arguments():
    plugins = create_manager(extra=[("mine", with_hooks(logits_processors=lambda: [Processor()]))])
    assert [p.name for p in plugins.logits_processors(5)].count("mine") == 1


def test_entry_points_activate_by_name_only(monkeypatch):
    module = types.ModuleType("outside_plugin")
    module.slipcast_api = "1.0"
    module.slipcast_logits_processors = hookimpl(lambda: [Processor()])
    module.slipcast_logits_processors.__name__ = "slipcast_logits_processors"
    monkeypatch.setitem(sys.modules, "outside_plugin", module)
    point = EntryPoint("outside", "outside_plugin", ENTRY_POINT_GROUP)
    monkeypatch.setattr(loading, "entry_points", lambda group: [point] if group == "slipcast.plugins" else [])
    assert installed() == {"outside": point}
    assert "outside" not in create_manager().names
    active = create_manager(["outside", "outside"])
    assert active.names[-1] == "outside" and len(active.names) == 6
    with pytest.raises(PluginError, match="not installed; installed: outside"):
        create_manager(["outsider"])


def test_module_and_attribute(monkeypatch):
    module = types.ModuleType("local_plugins")
    module.Mine = type("Mine", (), {"slipcast_sampler": hookimpl(lambda self, name: None)})
    module.Mine.slipcast_sampler.__name__ = "slipcast_sampler"
    monkeypatch.setitem(sys.modules, "local_plugins", module)
    assert create_manager(["local_plugins:Mine"]).names[-1] == "local_plugins:Mine"
    with pytest.raises(PluginError, match="Other"):
        create_manager(["local_plugins:Other"])
    with pytest.raises(PluginError, match="no_such_module"):
        create_manager(["no_such_module:x"])


@pytest.mark.parametrize(
    ("plugin", "said"),
    [
        (with_hooks(logits_procesors=lambda: ()), "slipcast_logits_procesors"),
        (with_hooks(sampler=lambda nmae: None), "nmae"),
        (SimpleNamespace(), "no hook"),
    ],
)
def test_wrong_plugins_are_refused_when_loaded(plugin, said):
    with pytest.raises(PluginError, match=said) as caught:
        create_manager(extra=[("culprit", plugin)])
    assert caught.value.plugin == "culprit" and "culprit" in str(caught.value) and "\n" not in str(caught.value)


def test_one_name_twice():
    good = with_hooks(sampler=lambda name: None)
    with pytest.raises(PluginError, match="twin"):
        create_manager(extra=[("twin", good), ("twin", with_hooks(sampler=lambda name: None))])


def named(name: str, **more) -> Processor:
    processor = Processor()
    processor.name = name
    for key, value in more.items():
        setattr(processor, key, value)
    return processor


@pytest.mark.parametrize(
    ("processors", "said"),
    [
        ([object()], "missing: apply"),
        ([named("temperature")], "temperature"),
        ([named("a"), named("a")], "rename"),
        ([named("a", phase="late")], "late"),
    ],
)
def test_wrong_processors(processors, said):
    plugins = create_manager(extra=[("culprit", with_hooks(logits_processors=lambda: processors))])
    with pytest.raises(PluginError, match=said):
        plugins.logits_processors(10)


def test_a_raising_hook_names_its_plugin():
    def broken(name):
        raise KeyError("oh")

    other = with_hooks(sampler=lambda name: None)
    plugins = create_manager(extra=[("other", other), ("culprit", with_hooks(sampler=broken))])
    with pytest.raises(PluginError, match="KeyError") as caught:
        plugins.sampler("seeded")
    assert caught.value.plugin == "culprit"


@pytest.mark.parametrize("ask", ["sampler", "scheduler", "kv_manager", "grammar_frontend", "tool_format"])
def test_unknown_names(ask):
    more = {"scheduler": (PlainKV(ToyCache(3)),), "kv_manager": (ToyCache(3),), "tool_format": ("",)}
    with pytest.raises(PluginError, match="no active plugin offers"):
        getattr(create_manager(), ask)("unheard-of", *more.get(ask, ()))


def test_a_wrong_answer_names_what_is_missing():
    plugins = create_manager(extra=[("p", with_hooks(scheduler=lambda name: 3 if name == "three" else None))])
    with pytest.raises(PluginError, match="int, not a Scheduler; missing: admit, leave, name, preempt"):
        plugins.scheduler("three", PlainKV(ToyCache(3)))


def test_hooks_are_documented_where_they_are_consumed():
    # The service asks once, at its start; nothing of the loop may call a hook.
    import slipcast.engine.loop as loop

    assert "hook" not in inspect.getsource(loop) and "plugins." not in inspect.getsource(EngineService.submit)
