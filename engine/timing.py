"""Times of requests as histograms: how long until the first token, between tokens, for a grammar.

Buckets are those that Prometheus keeps: each counts what took at most so long.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from ..grammar.errors import GrammarError
from .request import Event, Failed, Finished, OnEvent, TextDelta

SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
TOKEN_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0)
COMPILE_SECONDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 2.0)


@dataclass(frozen=True, slots=True)
class Observed:
    """A histogram at one moment: `counts[i]` values were at most `bounds[i]`, `count` there were, `total` their sum."""

    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    count: int
    total: float


class Histogram:
    """Counts values by size. Any thread may call any method."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = tuple(bounds)
        self._counts = [0] * (len(self._bounds) + 1)
        self._total = 0.0
        self._lock = threading.Lock()

    def add(self, value: float, times: int = 1) -> None:
        """One more value, or several alike."""
        with self._lock:
            self._counts[bisect_left(self._bounds, value)] += times
            self._total += value * times

    def observed(self) -> Observed:
        """What was counted so far."""
        with self._lock:
            counts, total = tuple(accumulate(self._counts)), self._total
        return Observed(self._bounds, counts[:-1], counts[-1], total)


class Timing:
    """What a service measures of its requests. Counts of grammars refused are by keyword, or by the kind of error."""

    def __init__(self) -> None:
        self.first_token = Histogram(SECONDS)
        self.per_token = Histogram(TOKEN_SECONDS)
        self.whole = Histogram(SECONDS)
        self.compile = Histogram(COMPILE_SECONDS)
        self.refused: Counter[str] = Counter()
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.finished: Counter[str] = Counter()

    @contextmanager
    def compiling(self) -> Iterator[None]:
        """Measures the compiling of a grammar, and counts what is refused."""
        begun = time.perf_counter()
        try:
            yield
        except GrammarError as error:
            self.refused[error.keyword or type(error).__name__] += 1
            raise
        finally:
            self.compile.add(time.perf_counter() - begun)

    def watched(self, on_event: OnEvent) -> OnEvent:
        """`on_event`, with the times of the request's events taken on the way. Events of one request come in turn."""
        submitted = time.perf_counter()
        tokens = 0
        first = last = submitted

        def watch(event: Event) -> None:
            nonlocal tokens, first, last
            now = time.perf_counter()
            if isinstance(event, TextDelta) and event.token_ids:
                if tokens == 0:
                    first = now
                    self.first_token.add(first - submitted)
                tokens += len(event.token_ids)
                last = now
            elif isinstance(event, Finished):
                usage = event.usage
                self.prompt_tokens += usage.prompt_tokens
                self.cached_tokens += usage.cached_tokens
                self.finished[event.reason] += 1
                self.whole.add(now - submitted)
                if tokens > 1 and last > first:
                    self.per_token.add((last - first) / (tokens - 1), tokens - 1)
            elif isinstance(event, Failed):
                self.finished["error"] += 1
            on_event(event)

        return watch
