"""Plugins by authors who are still learning: each fault is one line that names the plugin."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from engine_toys import toy_parts, toy_service
from slipcast.engine import PluginFault, RequestError
from slipcast.grammar import SchemaError
from slipcast.plugins import PluginError, create_manager, hookimpl


class NoSequence:
    @hookimpl
    def slipcast_logits_processors(self) -> Any:
        return 5


def test_processors_that_are_no_sequence() -> None:
    manager = create_manager(extra=[("five", NoSequence())])
    with pytest.raises(PluginError, match="returned int, not a sequence"):
        manager.logits_processors(10)


class Unmade:
    def __init__(self) -> None:
        raise KeyError("a\nb")

    @hookimpl
    def slipcast_sampler(self, name: str) -> Any:
        return None


def test_a_plugin_that_cannot_be_made() -> None:
    with pytest.raises(PluginError, match=r"unmade.*cannot be made: KeyError") as caught:
        create_manager(extra=[("unmade", Unmade)])
    assert "\n" not in str(caught.value)


class FrontEnds:
    """Front ends that raise what the kind is named after."""

    @hookimpl
    def slipcast_grammar_frontend(self, kind: str) -> Callable[..., Any] | None:
        def read(source: Any, options: Mapping[str, Any], compiler: Any) -> Any:
            raise {"value": ValueError, "schema": SchemaError, "key": KeyError}[kind](source)

        return read if kind in ("value", "schema", "key") else None


@pytest.mark.parametrize(
    ("kind", "error"), [("value", RequestError), ("schema", SchemaError), ("key", PluginFault), ("other", PluginError)]
)
def test_what_a_front_end_raises(kind: str, error: type[Exception]) -> None:
    parts = toy_parts(plugins=create_manager(extra=[("front ends", FrontEnds())]))
    with toy_service(parts) as service, pytest.raises(error) as caught:
        service.compile(kind, "no such thing")
    assert kind == "other" or "no such thing" in str(caught.value)
