"""`slipcast bench`: how fast a model runs here, free and constrained, through the engine as programs use it.

For comparisons with other engines there are the benchmarks of the repository (`make bench-engine` and its siblings).
"""

from __future__ import annotations

import argparse
import threading
import time
from dataclasses import asdict, dataclass
from typing import Any

from .cli_terminal import ProgressBars, print_json, print_table
from .engine import Engine
from .errors import EngineError

PROMPT = "Write one sentence about each of the planets. "
SCHEMA = {
    "type": "object",
    "properties": {
        "planets": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string", "maxLength": 20}, "moons": {"type": "integer"}},
                "required": ["name", "moons"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["planets"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class Measured:
    """One kind of work. `seconds` of wall clock; `rate` in tokens a second over all requests."""

    what: str
    requests: int
    tokens: int
    seconds: float
    rate: float


def run(options: argparse.Namespace) -> int:
    """Measure and print."""
    if options.tokens < 8 or options.batch < 1:
        raise EngineError("--tokens is at least 8, --batch at least 1")
    with ProgressBars() as progress:
        engine = Engine(options.model, max_batch=max(options.batch, 8), progress=progress)
    with engine:
        shape = {"type": "json_schema", "json_schema": {"name": "planets", "schema": SCHEMA}}
        _ask(engine, 8, None)  # the first request pays for much that is only done once
        rows = [
            _prefill(engine),
            _together(engine, "decode", 1, options.tokens, None),
            _together(engine, "decode, constrained", 1, options.tokens, shape),
            _together(engine, "decode", options.batch, options.tokens, None),
            _together(engine, "decode, constrained", options.batch, options.tokens, shape),
        ]
        if options.json:
            print_json({"model": engine.model, "results": [asdict(row) for row in rows]})
            return 0
        figures = [(row.what, row.requests, row.tokens, f"{row.seconds:.2f}", f"{row.rate:.0f}") for row in rows]
        columns = ("", "requests", "tokens", "seconds", "tokens/s")
        print_table(columns, figures, numbers=(1, 2, 3, 4), title=engine.model)
    return 0


def _ask(engine: Engine, tokens: int, shape: dict[str, Any] | None, prompt: str = PROMPT) -> tuple[int, int]:
    """Tokens of the prompt that were computed, and of the answer."""
    answer = engine.chat.completions.create(
        messages=[{"role": "user", "content": prompt}],
        max_tokens=tokens,
        temperature=0.8,
        response_format=shape,
        ignore_eos=shape is None,
    )
    details = answer.usage.prompt_tokens_details
    cached = 0 if details is None else details.cached_tokens
    return answer.usage.prompt_tokens - cached, answer.usage.completion_tokens


def _prefill(engine: Engine) -> Measured:
    begun = time.perf_counter()
    prompt, _ = _ask(engine, 1, None, f"{begun}: " + PROMPT * 40)
    seconds = time.perf_counter() - begun
    return Measured("prefill", 1, prompt, seconds, prompt / seconds)


def _together(engine: Engine, what: str, requests: int, tokens: int, shape: dict[str, Any] | None) -> Measured:
    """Requests at once, each from a thread of its own."""
    counts: list[int] = []
    threads = [threading.Thread(target=lambda: counts.append(_ask(engine, tokens, shape)[1])) for _ in range(requests)]
    begun = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    seconds = time.perf_counter() - begun
    return Measured(what, requests, sum(counts), seconds, sum(counts) / seconds)
