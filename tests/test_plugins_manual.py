"""docs/plugins.md against the hooks, the protocols, the options, and what it says in code."""

from __future__ import annotations

import dataclasses
import inspect
import re
from pathlib import Path

import pytest
from slipcast import plugins
from slipcast.plugins import API_VERSION, hookspecs, manager, testing
from slipcast.plugins.testing import check_plugin
from slipcast.samplers import SamplingParams, default_processors, guard

MANUAL = (Path(__file__).parents[1] / "docs" / "plugins.md").read_text("utf-8")


def hooks() -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(function)
        for name, function in inspect.getmembers(hookspecs, inspect.isfunction)
        if name.startswith("slipcast_")
    }


def test_every_hook_stands_in_the_table_with_its_arguments_and_how_it_is_asked() -> None:
    rows = re.findall(r"^\| `(slipcast_\w+)\(([\w, ]*)\)` \| [^|]+ \| ([^|]+) \|$", MANUAL, re.MULTILINE)
    told = {name: (arguments.split(", ") if arguments else [], used) for name, arguments, used in rows}
    assert told.keys() == hooks().keys()
    for name, signature in hooks().items():
        arguments, used = told[name]
        assert arguments == list(signature.parameters), name
        first = getattr(getattr(hookspecs, name), "slipcast_spec")["firstresult"]  # noqa: B009  # pluggy's mark
        assert (used == "the first") == first, name


def test_hooks_that_the_text_names_exist() -> None:
    assert set(re.findall(r"\bslipcast_(?!api)\w+", MANUAL)) - {"slipcast_something"} <= hooks().keys()


def test_every_protocol_is_explained() -> None:
    for name in ("ChoiceView", "LogitsProcessor", "Sampler", "Scheduler", "KVManager", "GrammarFrontend", "ToolFormat",
                 "ModelFamily", "Route", "MetricsSink"):  # fmt: skip
        assert f"**{name}**" in MANUAL and hasattr(plugins, name)
    for name in set(re.findall(r"`(check_\w+|Fake\w+)`", MANUAL)):
        assert hasattr(testing, name), name


def test_orders_and_numbers_are_those_of_the_code() -> None:
    for processor in default_processors():
        if processor.order < 10_000:
            assert re.search(rf"\b{processor.order} [a-zA-Z]", MANUAL), processor.name
    assert f"{API_VERSION[0]}.{API_VERSION[1]}" in MANUAL
    assert f"`plugin_timeout` ({manager.TIMEOUT:g} s)" in MANUAL
    assert f"in a row ({guard.FAULT_LIMIT})" in MANUAL and guard.MAX_HUNG == 4


def test_every_sampling_option_is_explained() -> None:
    elsewhere = {"stop", "max_tokens", "n", "logprobs", "top_logprobs", "ignore_eos", "stop_cuts_grammar"}
    options = {field.name for field in dataclasses.fields(SamplingParams) if field.init} - elsewhere
    assert not [name for name in options if f"`{name}`" not in MANUAL]


@pytest.mark.parametrize("number", range(1))
def test_the_smallest_plugin_works(number: int) -> None:
    blocks = [block for block in re.findall(r"```python\n(.*?)```", MANUAL, re.DOTALL) if "class NoNewlines" in block]
    space: dict[str, object] = {}
    exec(blocks[number], space)
    check_plugin(space["Plugin"])
