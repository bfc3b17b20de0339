"""`GET /metrics` in Prometheus's text format: what the engines count and measure, a label `model` for each.

Beside what others export (queue, times to the first token and between tokens, KV pages, prefix cache, preemptions,
speculation): the time that grammars take to compile, what masks cost, hits of the grammar cache, tokens that were
forced and texts that were closed in time, and schemas refused by keyword.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.registry import Collector

from ..runs import Service
from ..timing import Observed, Timing

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
LABEL: Final = "model"

# Names of engine.stats.Stats with what they are; those in seconds are totals of wall clock.
COUNTERS: Final = {
    "requests": "Requests taken",
    "failed": "Requests that failed",
    "steps": "Steps of the model",
    "prefilled_tokens": "Tokens computed in chunks: prompts, and what a preemption made necessary again",
    "decoded_tokens": "Tokens computed one by one after a prompt",
    "forced_tokens": "Tokens taken without a step of their own, since the grammar allowed nothing else",
    "forced_closes": "Constrained texts that were completed because their budget was about to end",
    "drafted_tokens": "Tokens guessed by speculation",
    "accepted_tokens": "Guessed tokens that turned out right",
    "late_matches": "Steps that went on without a row whose mask took long",
    "preemptions": "Requests put back into the line because KV pages ran out",
    "mask_seconds": "Time that steps waited for masks",
    "model_seconds": "Time in the model's steps",
    "sample_seconds": "Time spent on choosing tokens",
    "draft_seconds": "Time spent on guessing tokens",
}
GAUGES: Final = {
    "running": "Choices in the batch",
    "waiting": "Choices in the line",
    "free_pages": "KV pages that nobody uses",
    "total_pages": "KV pages there are",
}
HISTOGRAMS: Final = {
    "first_token": ("time_to_first_token_seconds", "From submission to the first token of a request"),
    "per_token": ("time_per_output_token_seconds", "Between two tokens of a request after its first"),
    "whole": ("request_seconds", "From submission to the end of a choice"),
    "compile": ("grammar_compile_seconds", "To get a grammar, from the cache or by compiling it"),
}


class EngineMetrics(Collector):
    """Collects the numbers of engines, which are asked at each scrape."""

    def __init__(self, services: Iterable[tuple[str, Service]]) -> None:
        self._services = tuple(services)
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)

    def text(self) -> bytes:
        """All metrics as Prometheus scrapes them."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """All metric families."""
        stats = [(model, service.stats()) for model, service in self._services]
        for name, what in COUNTERS.items():
            # Prometheus wants the unit at the end: mask_seconds -> slipcast_mask_seconds_total.
            family = CounterMetricFamily(f"slipcast_{name}", what, labels=[LABEL])
            for model, numbers in stats:
                family.add_metric([model], getattr(numbers, name))
            yield family
        for name, what in GAUGES.items():
            gauge = GaugeMetricFamily(f"slipcast_{name}", what, labels=[LABEL])
            for model, numbers in stats:
                gauge.add_metric([model], getattr(numbers, name))
            yield gauge
        for name, (shown, what) in HISTOGRAMS.items():
            histogram = HistogramMetricFamily(f"slipcast_{shown}", what, labels=[LABEL])
            for model, service in self._services:
                observed: Observed = getattr(_timing(service), name).observed()
                buckets = [(str(bound), count) for bound, count in zip(observed.bounds, observed.counts, strict=True)]
                histogram.add_metric([model], [*buckets, ("+Inf", observed.count)], observed.total)
            yield histogram
        yield from self._labelled()
        yield from self._grammars()

    def _labelled(self) -> Iterator[Metric]:
        refused = CounterMetricFamily(
            "slipcast_refused_grammars", "Schemas and grammars refused, by keyword", labels=[LABEL, "keyword"]
        )
        finished = CounterMetricFamily("slipcast_finished", "Choices that ended, by reason", labels=[LABEL, "reason"])
        prompts = CounterMetricFamily("slipcast_prompt_tokens", "Tokens of prompts", labels=[LABEL])
        cached = CounterMetricFamily(
            "slipcast_prefix_cached_tokens", "Tokens of prompts found in the prefix cache", labels=[LABEL]
        )
        for model, service in self._services:
            timing = _timing(service)
            for keyword, count in dict(timing.refused).items():
                refused.add_metric([model, keyword], count)
            for reason, count in dict(timing.finished).items():
                finished.add_metric([model, reason], count)
            prompts.add_metric([model], timing.prompt_tokens)
            cached.add_metric([model], timing.cached_tokens)
        yield from (refused, finished, prompts, cached)

    def _grammars(self) -> Iterator[Metric]:
        hits = CounterMetricFamily("slipcast_grammar_cache_hits", "Grammars found in the cache", labels=[LABEL])
        misses = CounterMetricFamily("slipcast_grammar_cache_misses", "Grammars compiled", labels=[LABEL])
        for model, service in self._services:
            if service.compiler is not None:
                hits.add_metric([model], service.compiler.hits)
                misses.add_metric([model], service.compiler.misses)
        yield from (hits, misses)


def _timing(service: Service) -> Timing:
    """What the service measured; nothing where it does not measure."""
    found = getattr(service, "timing", None)
    return found if isinstance(found, Timing) else Timing()
