"""Constrained decoding for long: every answer complete and valid, whatever runs beside it; nothing left behind.

    python benchmarks/soak_constrained.py [--sample COMPLETIONS] [--seconds S] [--seed N]

First completions over developers' schemas (MaskBench, `../shared/data`): temperatures 0, 1 and 2, `max_tokens` drawn
from the shortest valid value to 256, 16 at once, with and without speculation, in a cache so small that requests are
put back all the time; `jsonschema` judges each. Then chaos: all kinds of requests at once, cancelled, refused, failing
callbacks among them. At the end no page, matcher or thread may be left. Writes `build/soak-constrained.json`:

completions, valid_share, forced_close_share, preemptions, drafts_accepted   of the first part
requests, cancelled, refused, wrong, lost                                    of the chaos
pages_left, matchers_left                                                    after both
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import lzma
import random
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import jsonschema
from report import ROOT, write_report
from slipcast.engine.assembly import open_parts
from slipcast.engine.config import EngineConfig
from slipcast.engine.errors import EngineError
from slipcast.engine.request import Event, Failed, Finished, GenerationRequest, Reasoning, TextDelta
from slipcast.engine.service import EngineService, Parts
from slipcast.grammar import GrammarError
from slipcast.samplers import SamplingParams

DATA = ROOT.parent / "shared" / "data" / "maskbench-dev.jsonl.xz"
SCHEMAS = 100
BATCH = 16
LONGEST = 256
PAGES = 120  # of 16 tokens; 16 requests may want up to 16 * 20
CHAOS_SHARE = 0.25
QUESTION = "<|im_start|>user\nAnswer with JSON: {}<|im_end|>\n<|im_start|>assistant\n"


@dataclass
class Answer:
    """What came of a request."""

    request: GenerationRequest
    texts: dict[int, list[str]] = field(default_factory=dict)
    ends: dict[int, Finished] = field(default_factory=dict)
    error: Exception | None = None
    over: threading.Event = field(default_factory=threading.Event)

    def __call__(self, event: Event) -> None:
        if isinstance(event, Failed):
            self.error = event.error
        elif isinstance(event, Finished):
            self.ends[event.index] = event
        elif isinstance(event, TextDelta):
            self.texts.setdefault(event.index, []).append(event.text)
        if self.error is not None or len(self.ends) == self.request.params.n:
            self.over.set()

    def text(self, index: int) -> str:
        return "".join(self.texts.get(index, []))


class FewPages:
    """The real cache, with only some of its pages."""

    def __init__(self, cache: Any, pages: int) -> None:
        self._cache = cache
        self.total_pages = pages

    @property
    def free_pages(self) -> int:
        return int(self._cache.free_pages - self._cache.total_pages + self.total_pages)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cache, name)


def load_schemas(parts: Parts, count: int, seed: int) -> list[tuple[Any, Any, int]]:
    """(schema, grammar, tokens of the shortest value), for schemas that compile and have a value of at most LONGEST."""
    with lzma.open(DATA, "rt", encoding="utf-8") as file:
        records = [json.loads(line) for line in file]
    random.Random(seed).shuffle(records)
    found: list[tuple[Any, Any, int]] = []
    for record in records:
        try:
            grammar = parts.compiler.json_schema(record["schema"])
            shortest = max(1, grammar.matcher().distance())
        except GrammarError:
            continue
        if shortest <= LONGEST:
            found.append((record["schema"], grammar, shortest))
            if len(found) == count:
                break
    return found


def is_valid(text: str, schema: Any) -> bool:
    try:
        kind = jsonschema.validators.validator_for(schema, jsonschema.Draft202012Validator)
        kind(schema).validate(json.loads(text))
    except (ValueError, jsonschema.ValidationError) as error:
        print("not valid:", str(error).splitlines()[0][:200], "in", text[:300], file=sys.stderr)
        return False
    return True


def serve(parts: Parts, speculation: str) -> EngineService:
    few = dataclasses.replace(parts, cache=FewPages(parts.cache, PAGES))
    config = EngineConfig(max_batch=BATCH, prefill_chunk=256, speculation=speculation)  # type: ignore[arg-type]
    return EngineService(config, parts=few)


def completions(
    parts: Parts, schemas: list[tuple[Any, Any, int]], count: int, seconds: float, rng: random.Random
) -> dict[str, float]:
    """The first part."""
    done = valid = closed = preemptions = accepted = 0
    begun = time.monotonic()
    part = 0
    while done < count and time.monotonic() - begun < seconds:
        part += 1
        with serve(parts, ("off", "prompt-lookup")[part % 2]) as service:
            jobs = []
            for number in range(min(4 * BATCH, count - done)):
                schema, grammar, shortest = schemas[(done + number) % len(schemas)]
                params = SamplingParams(
                    temperature=float((done + number) // len(schemas) % 3),
                    seed=rng.randrange(1 << 32),
                    max_tokens=rng.randint(shortest, LONGEST),
                )
                prompt = parts.tokenizer.encode(QUESTION.format(json.dumps(schema)[: rng.randrange(20, 300)]))
                answer = Answer(GenerationRequest(prompt, params, grammar))
                service.submit(answer.request, answer)
                jobs.append((schema, answer))
            for schema, answer in jobs:
                answer.over.wait(1200)
                end = answer.ends.get(0)
                complete = end is not None and end.reason == "stop"
                if not complete:
                    print("not complete:", answer.error or end, file=sys.stderr)
                valid += complete and is_valid(answer.text(0), schema)
                closed += end is not None and end.forced_close
            done += len(jobs)
            stats = service.stats()
            preemptions += stats.preemptions
            accepted += stats.accepted_tokens
        print(f"{done} completions, {valid} valid, {preemptions} put back", flush=True)
    return {
        "completions": done,
        "valid_share": valid / max(1, done),
        "forced_close_share": closed / max(1, done),
        "preemptions": preemptions,
        "drafts_accepted": accepted,
    }


def chaos_request(parts: Parts, service: EngineService, schemas: Any, rng: random.Random) -> tuple[Any, Any]:
    """A request of any kind, and what judges a text of it (None: any text is right)."""
    kind = rng.choice(["schema", "schema", "schema", "regex", "choice", "grammar", "free", "free"])
    check: Callable[[str], bool] | None = None
    grammar, shortest = None, 1
    if kind == "schema":
        schema, grammar, shortest = rng.choice(schemas)
        check = lambda text: is_valid(text, schema)  # noqa: E731
    elif kind != "free":
        source, options = {
            "regex": ("(ab|c){2,9}", {}),
            "choice": (["red", "green", "reddish green"], {}),
            "grammar": ('start: "(" item* ")"\nitem: "[" item* "]" | /[a-z]+/', {"syntax": "lark"}),
        }[kind]
        grammar = service.compile(kind, source, options)
        shortest, check = max(1, grammar.matcher().distance()), grammar.accepts
    reasoning = Reasoning(budget=rng.choice([None, 0, 9])) if rng.random() < 0.3 else None
    params = SamplingParams(
        temperature=rng.choice([0.0, 1.0, 2.0]), seed=rng.randrange(1000), n=rng.choice([1, 1, 1, 3]),
        max_tokens=shortest + (8 if reasoning else 0) + rng.choice([0, 1, 5, 40]),
        logprobs=rng.random() < 0.3, stop=rng.choice([(), '"', "e"]), top_k=rng.choice([0, 5]),
        frequency_penalty=rng.choice([0.0, 2.0]),
        logit_bias={rng.randrange(1000): rng.choice([-100.0, 100.0])} if rng.random() < 0.3 else None,
    )  # fmt: skip
    prompt = parts.tokenizer.encode(QUESTION.format("x" * rng.randrange(200)))
    return GenerationRequest(prompt, params, grammar, reasoning=reasoning, explain=rng.random() < 0.3), check


def chaos(parts: Parts, schemas: Any, seconds: float, rng: random.Random) -> dict[str, float]:
    """The second part."""
    told = dict.fromkeys(("requests", "cancelled", "refused", "wrong", "lost"), 0)
    left = 0
    begun = time.monotonic()
    for speculation in ("prompt-lookup", "off"):
        until = begun + seconds * (0.5 if speculation == "prompt-lookup" else 1.0)
        with serve(parts, speculation) as service:
            running: list[tuple[Answer, Any, bool]] = []
            while time.monotonic() < until or running:
                while len(running) < 2 * BATCH and time.monotonic() < until:
                    request, check = chaos_request(parts, service, schemas, rng)
                    told["requests"] += 1
                    if rng.random() < 0.1:
                        bad = rng.choice(["prompt", "limit"])
                        params = dataclasses.replace(request.params, max_tokens=10**6)
                        request = dataclasses.replace(
                            request, **({"prompt": (10**9,)} if bad == "prompt" else {"params": params})
                        )
                    answer = Answer(request)
                    faulty = rng.random() < 0.05
                    try:
                        service.submit(request, _raising if faulty else answer)
                    except EngineError:
                        told["refused"] += 1
                        continue
                    if not faulty:
                        running.append((answer, check, False))
                position = rng.randrange(len(running)) if running else 0
                if running and rng.random() < 0.03 and not running[position][2]:
                    service.cancel(running[position][0].request.id)
                    running[position] = (*running[position][:2], True)
                    told["cancelled"] += 1
                time.sleep(0.01)
                for entry in [entry for entry in running if entry[0].over.is_set()]:
                    running.remove(entry)
                    told["wrong"] += _is_wrong(*entry)
                if time.monotonic() > until + 600:
                    told["lost"] += len(running)
                    break
        left += len(service._loop._matching._courses)
    return {**told, "matchers_left": left}


def _raising(event: Event) -> None:
    raise ZeroDivisionError("a callback's fault")


def _is_wrong(answer: Answer, check: Any, cancelled: bool) -> bool:
    if answer.error is not None:
        print("failed:", answer.error, file=sys.stderr)
        return True
    for index, end in answer.ends.items():
        if end.reason == "cancelled" and cancelled:
            continue
        if check is not None and (end.reason != "stop" or not check(answer.text(index))):
            print("wrong:", end, answer.text(index)[:200], file=sys.stderr)
            return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--sample", type=int, default=1000, metavar="COMPLETIONS")
    parser.add_argument("--seconds", type=float, default=3600.0, metavar="S")
    parser.add_argument("--seed", type=int, default=0, metavar="N")
    options = parser.parse_args()
    if not DATA.exists():
        raise SystemExit(print(f"soak-constrained is skipped: {DATA} is not here") or 0)
    rng = random.Random(options.seed)
    parts = open_parts(EngineConfig(max_batch=BATCH, max_context=1024, kv_tokens=16384, prefill_chunk=256))
    schemas = load_schemas(parts, min(SCHEMAS, options.sample), options.seed)
    figures = completions(parts, schemas, options.sample, options.seconds * (1 - CHAOS_SHARE), rng)
    figures |= chaos(parts, schemas, min(options.seconds * CHAOS_SHARE, options.sample), rng)
    figures["pages_left"] = parts.cache.total_pages - parts.cache.free_pages
    for name, value in figures.items():
        print(f"{name:24} {value:10.3f}")
    print(write_report("soak-constrained", figures))
    if figures["valid_share"] < 1 or figures["wrong"] or figures["lost"] or figures["pages_left"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
