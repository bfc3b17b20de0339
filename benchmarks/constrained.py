"""What constraints cost and save: the default model under different schemas, beside the same batch without any.

    python benchmarks/constrained.py [--sample ROUNDS] [--seconds S]

A round decodes a batch without constraints, then with a different schema for each request, with jump-forward and
without it, and takes output tokens per CPU-second while all requests of the batch run; ratios are medians over rounds.
JSON that repeats itself, a list whose first records are in the prompt, is decoded greedily with prompt look-up and
without any speculation. Then each schema is asked for whole values, in turn at temperature 0 and 1 and with tight and
ample budgets: they are checked by `jsonschema`. Writes `build/bench-constrained.json`:

rate_b<N>_ratio         rate with constraints over rate without, at batch N
rate_b<N>_plain_ratio   the same without jump-forward
lookup_b<N>_ratio       rate with prompt look-up over rate without, at batch N, for JSON that repeats itself
lookup_b1_free_ratio    the same without a grammar, where no text is forced
lookup_accepted_share   of the tokens that were guessed then, those that were right
unforced_b<N>_ratio     rate with jump-forward over rate without, at batch N, where a grammar forces nothing: the median
                        over pairs of neighbouring steps, one with and one without
unforced_b<N>_low, ..._high   where that median lies, with a confidence of 95%
steps_saved_share       of the tokens of whole values, those that were forced and took no step of the model
valid_share             of the values, those that are complete and valid
forced_close_share      of the values, those that were closed since their budget ended
forced_close_valid      of those, the share that is complete and valid
slow_...                what slow schemas do to others' tokens, see constrained_slow.py

With developers' schemas (MaskBench, `../shared/data`), one at a time, beside llama.cpp under the grammar that
node-llama-cpp makes of each, greedy, 200 tokens at most; left out where either is not here:

value_cpu_ratio         CPU-seconds for a value over llama.cpp's, compiling and the prompt among them: median
token_cpu_ratio         the same for each token of a value
maskbench_valid_share   of the schemas, those with a complete and valid value
llama_valid_share       the same of llama.cpp
llama_refused_share     of the schemas, those that node-llama-cpp makes no grammar of; not in its valid share either
"""

from __future__ import annotations

import argparse
import json
import lzma
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import jsonschema
from constrained_slow import SLOW, beside_all, slow_schema
from peers import LlamaGrammar, install_llama
from report import ROOT, write_report
from slipcast.engine.assembly import open_parts
from slipcast.engine.config import EngineConfig
from slipcast.engine.errors import EngineError
from slipcast.engine.request import Event, Failed, Finished, GenerationRequest, TextDelta
from slipcast.engine.runtime import DEFAULT_MODEL, resolve_model
from slipcast.engine.service import EngineService, Parts
from slipcast.grammar import GrammarError
from slipcast.samplers import SamplingParams

BATCHES = (1, 4, 16)
LOOKUP_BATCHES = (1, 4)
UNFORCED_BATCHES = (1, 4)
UNFORCED = {"type": "string", "minLength": 3000}
UNFORCED_STEPS = 400  # for each of the rounds
MEASURED = 24  # tokens of each request, at least, in a measurement
QUESTION = "<|im_start|>user\nDescribe somebody you know as JSON.<|im_end|>\n<|im_start|>assistant\n"
RECORDS = [{"id": i, "name": f"item {i}", "colour": ("red", "green")[i % 2], "in_stock": True} for i in range(6)]
REPEATED = f"<|im_start|>user\nGo on with this list: {json.dumps(RECORDS)}<|im_end|>\n<|im_start|>assistant\n"
LIST = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {
            "id": {"type": "integer"}, "name": {"type": "string"},
            "colour": {"enum": ["red", "green"]}, "in_stock": {"type": "boolean"},
        },
        "required": ["id", "name", "colour", "in_stock"],
        "additionalProperties": False,
    },
    "minItems": 20,
}  # fmt: skip
DATA = ROOT.parent / "shared" / "data" / "maskbench-dev.jsonl.xz"
PEER_SCHEMAS, PEER_LIMIT = 40, 200
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
    """Counts what the requests of a batch say while all of them run, until each has said `measured` tokens."""

    def __init__(self, requests: int, measured: int = MEASURED) -> None:
        self._measured = measured
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
            elif min(self._counts) >= self._measured and not self.over.is_set():
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


def lookup(parts: Parts, batch: int, grammar: Any = None) -> tuple[float, float]:
    """Rate with prompt look-up over rate without, and the share of guesses that were right."""
    prompt = parts.tokenizer.encode(REPEATED)
    rates, share = {}, 0.0
    for speculation in ("off", "prompt-lookup"):
        watch = Watch(batch, 120)
        config = EngineConfig.read({"max_batch": batch, "prefill_chunk": 256, "speculation": speculation})
        with EngineService(config, parts=parts) as service:
            for i in range(batch):
                params = SamplingParams(temperature=0.0, max_tokens=700, ignore_eos=True)
                service.submit(GenerationRequest(prompt, params, grammar), watch.listener(i))
            if not watch.over.wait(300):
                raise TimeoutError("a batch did not come to its end")
            stats = service.stats()
        rates[speculation] = watch.rate
        share = stats.accepted_tokens / max(1, stats.drafted_tokens)
    return rates["prompt-lookup"] / rates["off"], share


def unforced(parts: Parts, batch: int, grammar: Any, steps: int) -> list[float]:
    """Rate with jump-forward over rate without, of each pair of steps that follow one another: CPU time is taken where
    the first request's token comes, and jump-forward is on in every other step. So what else the machine does, and how
    long the texts are, concerns both alike.
    """
    prompt = parts.tokenizer.encode(QUESTION)
    with EngineService(EngineConfig(max_batch=batch, prefill_chunk=256), parts=parts) as service:
        matching = service._loop._matching
        jumps = matching._jumps
        times: dict[bool, list[float]] = {True: [], False: []}
        over = threading.Event()
        last: float | None = None

        def listen(event: Event) -> None:
            nonlocal last
            now = time.process_time()
            if not isinstance(event, TextDelta) or len(times[False]) >= steps // 2:
                over.set()
                return
            on = matching._jumps is not None
            if last is not None:
                times[on].append(now - last)
            last = now
            matching._jumps = None if on else jumps

        for i in range(batch):
            params = SamplingParams(seed=i, ignore_eos=True, max_tokens=800)
            service.submit(GenerationRequest(prompt, params, grammar), listen if i == 0 else lambda event: None)
        if not over.wait(300):
            raise TimeoutError("a batch did not come to its end")
    return [without / on for on, without in zip(times[True], times[False], strict=False)]


def median_within(values: Sequence[float]) -> tuple[float, float, float]:
    """The median, and where it lies with a confidence of 95% whatever the distribution: between two of the values."""
    ordered, count = sorted(values), len(values)
    away = int(0.98 * count**0.5) + 1
    return median(ordered), ordered[max(0, count // 2 - away)], ordered[min(count - 1, count // 2 + away)]


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
    valid = {i for i, source in enumerate(schemas) if is_valid("".join(texts[i]), source)}
    closed = [i for i, end in ends.items() if end is not None and end.forced_close]
    return {
        "steps_saved_share": forced / max(1, sum(end.usage.completion_tokens for end in finished)),
        "valid_share": len(valid) / len(schemas),
        "forced_close_share": len(closed) / len(schemas),
        "forced_close_valid": len(valid.intersection(closed)) / max(1, len(closed)),
    }


def beside_llama(parts: Parts, model: Path, count: int, until: float) -> dict[str, float]:
    """One value of each of `count` schemas from both engines, in turns."""
    missing = install_llama() or ("" if DATA.exists() else f"{DATA} is not here")
    if missing:
        print(f"llama.cpp is skipped: {missing}")
        return {}
    with lzma.open(DATA, "rt", encoding="utf-8") as file:
        records = [json.loads(line)["schema"] for line in file]
    random.Random(0).shuffle(records)
    told: list[tuple[bool, bool, bool]] = []  # ours valid, theirs valid, theirs refused
    values, tokens = [], []
    with LlamaGrammar(model) as peer, EngineService(EngineConfig(max_batch=1), parts=parts) as service:
        for source in records:
            if len(told) == count or time.monotonic() > until:
                break
            prompt = parts.tokenizer.encode(QUESTION)
            begun = time.process_time()
            try:
                grammar = parts.compiler.json_schema(source)
                params = SamplingParams(temperature=0.0, max_tokens=PEER_LIMIT)
                text, used = one_value(service, GenerationRequest(prompt, params, grammar))
            except (GrammarError, EngineError):
                continue  # no valid value, or none so short: nothing to compare
            spent = time.process_time() - begun
            theirs = peer.value(source, prompt, PEER_LIMIT)
            valid = "error" not in theirs and is_valid(theirs["text"], source)
            told.append((is_valid(text, source), valid, "error" in theirs))
            if "error" not in theirs:
                values.append(spent / theirs["cpu"])
                tokens.append(spent / used / (theirs["cpu"] / max(1, theirs["tokens"])))
    if not values:
        return {}
    return {
        "value_cpu_ratio": median(values),
        "token_cpu_ratio": median(tokens),
        "maskbench_valid_share": sum(ours for ours, _, _ in told) / len(told),
        "llama_valid_share": sum(theirs for _, theirs, _ in told) / len(told),
        "llama_refused_share": sum(refused for _, _, refused in told) / len(told),
    }


def one_value(service: EngineService, request: GenerationRequest) -> tuple[str, int]:
    """The answer to a request, and how many tokens it has."""
    events: queue.SimpleQueue[Event] = queue.SimpleQueue()
    service.submit(request, events.put)
    pieces = []
    while isinstance(event := events.get(), TextDelta):
        pieces.append(event.text)
    if isinstance(event, Failed):
        raise event.error
    return "".join(pieces), event.usage.completion_tokens


def is_valid(text: str, source: Any) -> bool:
    try:
        kind = jsonschema.validators.validator_for(source, jsonschema.Draft202012Validator)
        kind(source).validate(json.loads(text))
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
    listed = parts.compiler.json_schema(LIST)
    string = parts.compiler.json_schema(UNFORCED)
    ratios: dict[str, list[float]] = {}
    pairs: dict[int, list[float]] = {}
    for round_ in range(options.sample):
        if round_ and time.monotonic() - started > options.seconds / 2:
            break
        for batch in BATCHES:
            free = rate(parts, batch, ())
            ratios.setdefault(f"rate_b{batch}_ratio", []).append(rate(parts, batch, grammars) / free)
            plain = rate(parts, batch, grammars, jump_forward=False)
            ratios.setdefault(f"rate_b{batch}_plain_ratio", []).append(plain / free)
        for batch in LOOKUP_BATCHES:
            ratios.setdefault(f"lookup_b{batch}_ratio", []).append(lookup(parts, batch, listed)[0])
        for batch in UNFORCED_BATCHES:
            pairs.setdefault(batch, []).extend(unforced(parts, batch, string, UNFORCED_STEPS))
        ratio, share = lookup(parts, 1)
        ratios.setdefault("lookup_b1_free_ratio", []).append(ratio)
        ratios.setdefault("lookup_accepted_share", []).append(share)
    figures = {name: median(all_) for name, all_ in ratios.items()}
    for batch, each in pairs.items():
        names = (f"unforced_b{batch}_{name}" for name in ("ratio", "low", "high"))
        figures |= dict(zip(names, median_within(each), strict=True))
    figures |= values(parts, schemas * max(1, min(4, options.sample)))
    developers = slow_schema(DATA, SLOW) if DATA.exists() else None
    prompt = parts.tokenizer.encode(QUESTION)
    figures |= beside_all(parts, developers, [None, schemas[0], None, schemas[1]], prompt)
    until = started + options.seconds
    figures |= beside_llama(parts, resolve_model(DEFAULT_MODEL), min(PEER_SCHEMAS, 8 * options.sample), until)
    for name, value in figures.items():
        print(f"{name:24} {value:8.3f}")
    print(write_report("bench-constrained", figures))


if __name__ == "__main__":
    main()
