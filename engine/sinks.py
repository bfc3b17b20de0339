"""Metrics sinks, each in a thread of its own, so that none delays a request or another sink."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence

from ..plugins.metrics import MetricsSink, MetricsSnapshot
from .lines import one_line

_LOG = logging.getLogger(__name__)
FAULTS = 3
"""Faults in a row after which a sink is not called any more."""
CLOSE_SECONDS = 2.0


class Sinks:
    """Calls each sink every `interval` seconds, and once at the end. `snapshot` may be called from any thread."""

    def __init__(self, sinks: Sequence[MetricsSink], snapshot: Callable[[], MetricsSnapshot]) -> None:
        self._snapshot = snapshot
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=self._serve, args=(sink,), name=f"slipcast-metrics-{sink.name}", daemon=True)
            for sink in sinks
        ]
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """The last snapshot, then the sinks' own close; a sink that takes longer than two seconds is left behind."""
        self._closing.set()
        deadline = time.monotonic() + CLOSE_SECONDS
        for thread in self._threads:
            thread.join(max(0.0, deadline - time.monotonic()))

    def _serve(self, sink: MetricsSink) -> None:
        faults = 0
        while faults < FAULTS:
            last = self._closing.wait(sink.interval)
            faults = 0 if self._told(sink, lambda: sink.record(self._snapshot())) else faults + 1
            if last:
                break
        else:
            _LOG.error("the metrics sink %r failed %d times in a row and is not called any more", sink.name, FAULTS)
        self._told(sink, sink.close)

    def _told(self, sink: MetricsSink, telling: Callable[[], None]) -> bool:
        try:
            telling()
        except Exception as error:
            _LOG.warning("the metrics sink %r raised %s", sink.name, one_line(f"{type(error).__name__}: {error}"))
            return False
        return True
