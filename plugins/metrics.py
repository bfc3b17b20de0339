"""Metrics sinks: who wants the engine's numbers, off the token path."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class MetricsSnapshot:
    """The engine's numbers at one moment. `time`: seconds since the epoch.

    `values`: by the names of slipcast.engine.stats.Stats (counters grow only, gauges are `running`, `waiting`,
    `free_pages` and `total_pages`). `plugin_seconds`: time spent in each active plugin, by its name.
    """

    time: float
    values: Mapping[str, float]
    plugin_seconds: Mapping[str, float] = field(default_factory=dict)


@runtime_checkable
class MetricsSink(Protocol):
    """Is told a snapshot every `interval` seconds and once at the end, from a thread of the engine's for sinks.

    A sink that blocks delays no request and no other sink's thread; one that raises is told of in the log, and after
    some more faults not called any more.
    """

    @property
    def name(self) -> str: ...

    @property
    def interval(self) -> float:
        """Seconds between two snapshots, at least 0.1."""
        ...

    def record(self, snapshot: MetricsSnapshot, /) -> None: ...

    def close(self) -> None:
        """The engine is closed; nothing follows."""
        ...
