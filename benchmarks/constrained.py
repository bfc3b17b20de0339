"""What constraints cost and save: the default model under different schemas, beside the same batch without any.

    python benchmarks/constrained.py [--sample ROUNDS] [--seconds S]

A round decodes a batch without constraints, then with a different schema for each request, with jump-forward and
without it, and takes output tokens per CPU-second while all requests of the batch run; ratios are medians over rounds.
Then each schema is asked for whole values, in turn at temperature 0 and 1 and with tight and ample budgets: they are
checked by `jsonschema`. Writes `build/bench-constrained.json`:

rate_b<N>_ratio         rate with constraints over rate without, at batch N
rate_b<N>_plain_ratio   the same without jump-forward
steps_saved_share       of the tokens of whole values, those that were forced and took no step of the model
valid_share             of the values, those that are complete and valid
forced_close_share      of the values, those that were closed since their budget ended
"""

from __future__ import annotations

import argparse
import json
import threading
import time
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import jsonschema
from report import write_report
from slipcast.engine.assembly import open_parts
from slipcast.engine.config import EngineConfig
from slipcast.engine.request import Event, Finished, GenerationRequest, TextDelta
from slipcast.engine.service import EngineService, Parts
from slipcast.samplers import SamplingParams

BATCHES = (1, 4, 16)
MEASURED = 24  # tokens of each request, at least, in a measurement
QUESTION = "<|im_start|>user\nDescribe somebody you know as JSON.<|im_end|>\n<|im_start|>assistant\n"
WORDS = ("name", "street", "colour", "reason", "verdict", "title", "origin", "summary", "maker", "country", "note")


def schema(number: int) -> dict[str, Any]:
    """One of many: records with keys and bounds of their own, too long to end during a measurement."""
    keys = [f"{WORDS[(number + i) % len(WORDS)]}_{number}" for i in range(len(WORDS))]
    kinds: list[dict[str, Any]] = [
        {"type": "string", "minLength": 8, "maxLength": 60 + number},
        {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": number}, "minItems": 3, "maxItems": 9},
        {"enum": [f"first of {number}", f"second of {number}", None]},
        {"type": "object", "properties": {"id": {"type": "integer"}, "text": {"type": "string", "maxLength": 30}},
         "required": ["id", "text"], "additionalProperties": False},
    ]  # fmt: skip
    properties = {key: kinds[(number + i) % len(kinds)] for i, key in enumerate(keys)}
    return {"type": "object", "properties": properties, "required": keys, "additionalProperties": False}


class Watch:
    """Counts what the requests of a batch say while all of them run."""

    def __init__(self, requests: int) -> None:
        self._counts = [0] * requests
        self._begun: tuple[float, int] | None = None
        self.rate = 0.0
        self.over = threading.Event()

    def listener(self, index: int) -> Callable[[Event], None]:
        def listen(event: Event) -> None:
            if not isinstance(event, TextDelta):
                self.over.set()
                return
            self._counts[index] += len(event.token_ids)
            if self._begun is None:
                if min(self._counts) > 0:
                    self._begun = time.process_time(), sum(self._counts)
                    self._counts = [0] * len(self._counts)
            elif min(self._counts) >= MEASURED and not self.over.is_set():
                self.rate = sum(self._counts) / (time.process_time() - self._begun[0])
                self.over.set()

        return listen


def rate(parts: Parts, batch: int, grammars: Sequence[Any], *, jump_forward: bool = True) -> float:
    """Tokens per CPU-second of a batch; `grammars` empty: without constraints."""
    prompt = parts.tokenizer.encode(QUESTION)
    watch = Watch(batch)
    config = EngineConfig(max_batch=batch, prefill_chunk=256, jump_forward=jump_forward)
    with EngineService(config, parts=parts) as service:
        for i in range(batch):
            params = SamplingParams(seed=i, ignore_eos=True, max_tokens=700)
            grammar = grammars[i] if grammars else None
            service.submit(GenerationRequest(prompt, params, grammar), watch.listener(i))
        if not watch.over.wait(300):
            raise TimeoutError("a batch did not come to its end")
    if not watch.rate:
        raise RuntimeError("a request ended during the measurement")
    return watch.rate


def values(parts: Parts, schemas: Sequence[Any]) -> dict[str, float]:
    """Whole values: how many are valid, and how many tokens took no step."""
    prompt = parts.tokenizer.encode(QUESTION)
    texts: dict[int, list[str]] = {i: [] for i in range(len(schemas))}
    ends: dict[int, Finished | None] = {}
    over = threading.Event()

    def listener(index: int) -> Callable[[Event], None]:
        def listen(event: Event) -> None:
            if isinstance(event, TextDelta):
                texts[index].append(event.text)
                return
            ends[index] = event if isinstance(event, Finished) else None
            if len(ends) == len(schemas):
                over.set()

        return listen

    with EngineService(EngineConfig(max_batch=16, prefill_chunk=256), parts=parts) as service:
        for i, source in enumerate(schemas):
            grammar = parts.compiler.json_schema(source)
            limit = grammar.matcher().distance() + (4, 40, 400)[i % 3]
            params = SamplingParams(temperature=float(i % 2), seed=i, max_tokens=limit)
            service.submit(GenerationRequest(prompt, params, grammar), listener(i))
        if not over.wait(900):
            raise TimeoutError("the values did not come to their end")
        forced = service.stats().forced_tokens
    finished = [end for end in ends.values() if end is not None]
    valid = sum(is_valid("".join(texts[i]), source) for i, source in enumerate(schemas))
    return {
        "steps_saved_share": forced / max(1, sum(end.usage.completion_tokens for end in finished)),
        "valid_share": valid / len(schemas),
        "forced_close_share": sum(end.forced_close for end in finished) / len(schemas),
    }


def is_valid(text: str, source: Any) -> bool:
    try:
        jsonschema.validate(json.loads(text), source)
    except (ValueError, jsonschema.ValidationError):
        return False
    return True


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sample", type=int, default=5, metavar="ROUNDS")
    parser.add_argument("--seconds", type=float, default=600.0, metavar="S")
    options = parser.parse_args()
    started = time.monotonic()
    parts = open_parts(EngineConfig(max_batch=16, max_context=1024, kv_tokens=16384, prefill_chunk=256))
    schemas = [schema(i) for i in range(16)]
    grammars = [parts.compiler.json_schema(source) for source in schemas]
    rate(parts, 1, [parts.compiler.json_schema(schema(99))])  # what only the first request of a process pays for
    ratios: dict[str, list[float]] = {}
    for round_ in range(options.sample):
        if round_ and time.monotonic() - started > options.seconds / 2:
            break
        for batch in BATCHES:
            free = rate(parts, batch, ())
            ratios.setdefault(f"rate_b{batch}_ratio", []).append(rate(parts, batch, grammars) / free)
            plain = rate(parts, batch, grammars, jump_forward=False)
            ratios.setdefault(f"rate_b{batch}_plain_ratio", []).append(plain / free)
    figures = {name: median(all_) for name, all_ in ratios.items()}
    figures |= values(parts, schemas * max(1, min(4, options.sample)))
    for name, value in figures.items():
        print(f"{name:24} {value:8.3f}")
    print(write_report("bench-constrained", figures))


if __name__ == "__main__":
    main()
