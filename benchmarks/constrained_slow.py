"""Others' tokens while somebody's schema takes seconds: the times between tokens before it, beside it and after it.

Slow are a developers' schema (MaskBench), and what schemas are slow by: an enumeration, keys, combinations, items that
differ. Each takes about a second in a process that serves, from a compiler that has seen nothing of it; half of the
others are constrained. A step is the median time between two tokens without it.

slow_seconds                what the developers' schema took until its request was in the line
slow_step_ratio             the median time between two tokens of others meanwhile, in steps
slow_worst_steps            the longest of these times but for one in a hundred, in steps
slow_<kind>_step_ratio, slow_<kind>_worst_steps   the same beside each of the others
calm_worst_steps            the same when nobody asked for anything, on the same machine: what other programs do to it;
                            the highest before and after all of them
"""

from __future__ import annotations

import json
import lzma
import queue
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from slipcast.engine.config import EngineConfig
from slipcast.engine.housekeeping import Housekeeping
from slipcast.engine.request import Event, Failed, GenerationRequest, TextDelta, new_request_id
from slipcast.engine.service import EngineService, Parts
from slipcast.grammar import GrammarCompiler, GrammarError
from slipcast.samplers import SamplingParams

SLOW = "Github_ultra---o44208"
CALM = 2.0
"""Seconds of undisturbed decoding before, and again after."""


def slow_schemas() -> dict[str, Any]:
    """Schemas by what makes them slow."""
    words = [f"{a} {b} {c}" for a in ("alpha", "beta", "gamma", "delta") for b in "abcdefgh" for c in range(300)]
    keys = {
        f"property_{i}_{'x' * (i % 17)}": {"type": ["string", "null"], "maxLength": i % 50 + 1} for i in range(3000)
    }
    shapes = [
        {"properties": {f"a{j}": {"type": "string", "minLength": i} for j in range(6)}, "required": [f"a{i % 6}"]}
        for i in range(14)
    ]
    pair = {"properties": {"a": {"enum": list(range(12))}, "b": {"enum": ["x", "y"]}}, "required": ["a", "b"]}
    return {
        "enum": {"enum": words},
        "keys": {"type": "object", "properties": keys},
        "one_of": {"type": "object", "oneOf": shapes},
        "unique": {"type": "array", "uniqueItems": True, "minItems": 20, "items": {"type": "object", **pair}},
    }


def slow_schema(data: Path, name: str) -> Any:
    """A schema by its name."""
    with lzma.open(data, "rt", encoding="utf-8") as file:
        return next(record["schema"] for record in map(json.loads, file) if record["id"] == name)


class Stamps:
    """When tokens came of a request that is asked again whenever it ends, until closed."""

    def __init__(
        self, service: EngineService, request: GenerationRequest, later: Callable[[Callable[[], None]], None]
    ) -> None:
        """`later`: has something done by another thread, since the engine's must not wait."""
        self._later = later
        self._service = service
        self._request = request
        self._answers: list[list[float]] = []
        self._open = True
        self._ask()

    def _ask(self) -> None:
        self._answers.append([])
        self._service.submit(replace(self._request, id=new_request_id()), self._told)

    def _told(self, event: Event) -> None:
        if isinstance(event, TextDelta):
            self._answers[-1].append(time.perf_counter())
        elif isinstance(event, Failed):
            self._open = False
        elif self._open:
            self._later(self._ask)

    def close(self) -> None:
        """Ask no more. Raises RuntimeError if the request had failed."""
        if not self._open:
            raise RuntimeError("a request failed during the measurement")
        self._open = False

    @property
    def started(self) -> bool:
        """Whether tokens come."""
        return len(self._answers[0]) > 3

    def gaps(self, start: float, end: float) -> list[float]:
        """Seconds between tokens of one answer of which the second came after `start` and the first before `end`."""
        pairs = [pair for times in self._answers for pair in pairwise(times)]
        return [after - before for before, after in pairs if after > start and before < end]


def beside_slow(parts: Parts, schema: Any, others: list[Any], prompt: tuple[int, ...]) -> dict[str, float]:
    """`others`: their schemas, None for a request without one; each is asked again when it ends."""
    compiler = GrammarCompiler(parts.compiler.vocabulary)
    parts = replace(parts, compiler=compiler)
    grammars = [None if other is None else compiler.json_schema(other) for other in others]
    config = EngineConfig(max_batch=len(others) + 1, prefill_chunk=256)
    asks: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
    threading.Thread(target=_do_all, args=(asks,), daemon=True).start()
    with Housekeeping(lambda: True), EngineService(config, parts=parts) as service:
        stamps = [
            Stamps(
                service,
                GenerationRequest(prompt, SamplingParams(seed=i, max_tokens=800, ignore_eos=not grammar), grammar),
                asks.put,
            )
            for i, grammar in enumerate(grammars)
        ]
        while not all(stamp.started for stamp in stamps):
            time.sleep(0.01)
        begun = time.perf_counter()
        time.sleep(CALM)
        asked = time.perf_counter()
        with suppress(GrammarError):  # too many combinations: that takes a second as well
            service.compile("json_schema", schema).matcher().way_out()  # type: ignore[attr-defined]
        found = time.perf_counter()
        time.sleep(CALM)
        ended = time.perf_counter()
        for stamp in stamps:
            stamp.close()
        asks.put(_stop)
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


def _do_all(tasks: queue.SimpleQueue[Callable[[], None]]) -> None:
    while (task := tasks.get()) is not _stop:
        task()


def _stop() -> None:
    """The last task."""


def beside_all(parts: Parts, developers: Any, others: list[Any], prompt: tuple[int, ...]) -> dict[str, float]:
    """Beside each of the slow schemas; `developers`: the one from MaskBench, None where that is not here."""
    found, calm = {}, []
    for kind, schema in {"": developers, **slow_schemas()}.items():
        if schema is None:
            continue
        told = beside_slow(parts, schema, others, prompt)
        calm.append(told.pop("calm_worst_steps"))
        seconds = told.pop("slow_seconds")
        found |= {name.replace("slow_", f"slow_{kind}_" if kind else "slow_"): value for name, value in told.items()}
        if not kind:
            found["slow_seconds"] = seconds
    return found | {"calm_worst_steps": max(calm)}
