"""Others' tokens while somebody's schema takes seconds: the times between tokens before it, beside it and after it.

`SLOW` is a developers' schema (MaskBench) that takes a second or two in a process that serves, from a compiler that has
seen nothing of it; half of the others are constrained. A step is the median time between two tokens without it.

slow_seconds        what the schema took until its request was in the line
slow_step_ratio     the median time between two tokens of others meanwhile, in steps
slow_worst_steps    the longest of these times but for one in a hundred, in steps
calm_worst_steps    the same when nobody asked for anything, on the same machine: what other programs do to it
"""

from __future__ import annotations

import json
import lzma
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from slipcast.engine.config import EngineConfig
from slipcast.engine.housekeeping import Housekeeping
from slipcast.engine.request import Event, GenerationRequest, TextDelta
from slipcast.engine.service import EngineService, Parts
from slipcast.grammar import GrammarCompiler
from slipcast.samplers import SamplingParams

SLOW = "Github_ultra---o44208"
CALM = 3.0
"""Seconds of undisturbed decoding before, and again after."""


def slow_schema(data: Path, name: str) -> Any:
    """A schema by its name."""
    with lzma.open(data, "rt", encoding="utf-8") as file:
        return next(record["schema"] for record in map(json.loads, file) if record["id"] == name)


class Stamps:
    """When tokens of a request came."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.over = threading.Event()

    def __call__(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self.times.append(time.perf_counter())
        else:
            self.over.set()

    def gaps(self, start: float, end: float) -> list[float]:
        """Seconds between tokens of which the second came after `start` and the first before `end`."""
        pairs = zip(self.times, self.times[1:], strict=False)
        return [after - before for before, after in pairs if after > start and before < end]


def beside_slow(parts: Parts, schema: Any, others: list[Any], prompt: tuple[int, ...]) -> dict[str, float]:
    """`others`: their schemas, None for a request without one; each should go on for a thousand tokens."""
    compiler = GrammarCompiler(parts.compiler.vocabulary)
    parts = replace(parts, compiler=compiler)
    grammars = [None if other is None else compiler.json_schema(other) for other in others]
    config = EngineConfig(max_batch=len(others) + 1, prefill_chunk=256)
    with Housekeeping(lambda: True), EngineService(config, parts=parts) as service:
        stamps = [Stamps() for _ in others]
        for i, (grammar, stamp) in enumerate(zip(grammars, stamps, strict=True)):
            params = SamplingParams(seed=i, max_tokens=800, ignore_eos=grammar is None)
            service.submit(GenerationRequest(prompt, params, grammar), stamp)
        while not all(len(stamp.times) > 3 for stamp in stamps):
            time.sleep(0.01)
        begun = time.perf_counter()
        time.sleep(CALM)
        asked = time.perf_counter()
        service.compile("json_schema", schema).matcher().way_out()  # type: ignore[attr-defined]
        found = time.perf_counter()
        time.sleep(CALM)
        ended = time.perf_counter()
        if any(stamp.over.is_set() for stamp in stamps):
            raise RuntimeError("a request ended during the measurement")
    before = [gap for stamp in stamps for gap in stamp.gaps(begun, asked)]
    beside = [gap for stamp in stamps for gap in stamp.gaps(asked, found)]
    after = [gap for stamp in stamps for gap in stamp.gaps(found, ended)]
    step = float(np.median(before + after))
    return {
        "slow_seconds": found - asked,
        "slow_step_ratio": float(np.median(beside)) / step,
        "slow_worst_steps": float(np.percentile(beside, 99)) / step,
        "calm_worst_steps": float(np.percentile(before + after, 99)) / step,
    }
