"""Prefill and decode speed of the runtime beside llama.cpp: same model file, same threads, in turns.

    python benchmarks/engine.py [--sample ROUNDS] [--seconds S] [--threads N] [--formats q4_1,q4_0,q8_0,q4_k]

llama.cpp comes as the npm package node-llama-cpp, installed into `build/llama`. Each round measures a task on one
engine, then on the other; the next round begins with the other. Rates are tokens per CPU-second, so that other jobs on
the machine matter little; ratios are medians over the rounds' ratios. Writes `build/bench-engine.json`.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from peers import NodeProcess, install_llama
from report import ROOT, write_report
from slipcast.engine.runtime import DEFAULT_MODEL, LoadedModel, load_model, resolve_model

MODELS = ROOT / "build" / "models"

FORMATS = ("q4_1", "q4_0", "q8_0", "q4_k")
BATCHES = (1, 4, 16)
PREFILL = 512
PROMPT = 16
DECODED = {1: 48, 4: 24, 16: 12}  # steps of a measurement, by batch
FIGURES = ("decode_b1", f"prefill{PREFILL}")  # tasks whose ratio is a figure; the others are printed
# What a process that starts anew does up to its first token.
FIRST_TOKEN = """
import sys
from slipcast.engine import Engine
with Engine(sys.argv[1]) as engine:
    question = [{"role": "user", "content": "Name a colour."}]
    stream = engine.chat.completions.create(messages=question, max_tokens=4, temperature=0, stream=True)
    next(chunk for chunk in stream if chunk.choices and chunk.choices[0].delta.content)
    print("first", flush=True)
    stream.close()
"""


@dataclass(frozen=True)
class Task:
    """Work that both engines do: the prefill of one prompt, or greedy decoding after several."""

    name: str
    prompts: tuple[tuple[int, ...], ...]
    steps: int = 0

    @classmethod
    def prefill(cls) -> Task:
        return cls(f"prefill{PREFILL}", (tokens(PREFILL, 0),))

    @classmethod
    def decode(cls, batch: int) -> Task:
        return cls(f"decode_b{batch}", tuple(tokens(PROMPT, i) for i in range(batch)), DECODED[batch])


@dataclass(frozen=True)
class Measured:
    """Tokens done, and the seconds of CPU and of the wall clock that they took."""

    tokens: int
    cpu: float
    wall: float

    @property
    def rate(self) -> float:
        return self.tokens / self.cpu


def tokens(count: int, seed: int) -> tuple[int, ...]:
    """Some ordinary tokens; which ones does not matter for speed."""
    return tuple(100 + (i * 37 + seed * 113) % 4000 for i in range(count))


class Slipcast:
    """Our side, in this process."""

    def __init__(self, model: LoadedModel) -> None:
        self._model = model

    def run(self, task: Task) -> Measured:
        sequences = range(len(task.prompts))
        for sequence in sequences:
            self._model.kv.add(sequence)
        try:
            return self._decode(task, sequences) if task.steps else self._prefill(task)
        finally:
            for sequence in sequences:
                self._model.kv.remove(sequence)

    def _prefill(self, task: Task) -> Measured:
        cpu, wall = time.process_time(), time.perf_counter()
        self._model.step([0], task.prompts)
        return Measured(len(task.prompts[0]), time.process_time() - cpu, time.perf_counter() - wall)

    def _decode(self, task: Task, sequences: Sequence[int]) -> Measured:
        for sequence, prompt in zip(sequences, task.prompts, strict=True):
            self._model.step([sequence], [prompt[:-1]])
        last = [[prompt[-1]] for prompt in task.prompts]
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(task.steps):
            chosen = self._model.step(sequences, last).argmax(-1)
            last = [[int(token)] for token in chosen]
        return Measured(task.steps * len(last), time.process_time() - cpu, time.perf_counter() - wall)

    def close(self) -> None:
        """Nothing outside this process."""


class LlamaCpp(NodeProcess):
    """llama.cpp in a node process, which `llama.mjs` drives."""

    def __init__(self, model: Path, threads: int) -> None:
        super().__init__("llama.mjs", model, threads, max(BATCHES))

    def run(self, task: Task) -> Measured:
        request: dict[str, Any] = {"prefill": task.prompts[0]}
        if task.steps:
            request = {"prompts": task.prompts, "decode": task.steps}
        return Measured(**self.ask(request))


def open_model(path: Path, threads: int) -> LoadedModel:
    """Ours; compiling the library for a new format takes a while, so it says so."""
    shown: set[str] = set()

    def progress(stage: str, share: float) -> None:
        if stage not in shown:
            shown.add(stage)
            print(f"  {stage}", file=sys.stderr, flush=True)

    return load_model(
        path, max_batch=max(BATCHES), max_context=1024, prefill_chunk=PREFILL, threads=threads, progress=progress
    )


def race(
    path: Path, tasks: Sequence[Task], *, threads: int, rounds: int, until: float, peer: bool
) -> list[list[Measured]]:
    """The rounds' measurements of each task: ours, then (with `peer`) llama.cpp's. No round begins after `until`."""
    engines: list[Slipcast | LlamaCpp] = [Slipcast(open_model(path, threads))]
    if peer:
        engines.append(LlamaCpp(path, threads))
    done: list[list[Measured]] = [[] for _ in tasks for _ in engines]
    try:
        for engine in engines:  # the first of everything is slower: pages, caches, threads
            engine.run(tasks[0])
            engine.run(Task.decode(1))
        for number in range(rounds):
            for i, task in enumerate(tasks):
                order = range(len(engines)) if number % 2 == 0 else reversed(range(len(engines)))
                for j in order:
                    done[i * len(engines) + j].append(engines[j].run(task))
            if time.monotonic() > until:
                break
    finally:
        for engine in engines:
            engine.close()
    return done


def first_token_seconds(model: Path, rounds: int) -> float:
    """Wall time from starting Python to the first token of a chat; the compiled library is in the cache."""
    spent = []
    for _ in range(rounds):
        started = time.perf_counter()
        process = subprocess.Popen([sys.executable, "-c", FIRST_TOKEN, str(model)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        said = process.stdout.readline()
        spent.append(time.perf_counter() - started)
        if process.wait() or not said:
            raise SystemExit("the engine gave no first token; its message is above")
    return median(spent)


def report_format(name: str, tasks: Sequence[Task], found: list[list[Measured]], peer: bool) -> dict[str, float]:
    """A line for each task, and its figures."""
    figures: dict[str, float] = {}
    width = 2 if peer else 1
    for i, task in enumerate(tasks):
        ours = found[i * width]
        line = f"{name:6}{task.name:14}{median(m.rate for m in ours):10.1f}"
        if peer:
            theirs = found[i * width + 1]
            ratio = median(a.rate / b.rate for a, b in zip(ours, theirs, strict=True))
            line += f"{median(m.rate for m in theirs):12.1f}{ratio:8.2f}"
            if task.name in FIGURES:
                figures[f"{task.name}_{name}_ratio"] = ratio
        line += f"{median(m.tokens / m.wall for m in ours):14.1f}"
        print(line + (f"{median(m.tokens / m.wall for m in theirs):12.1f}" if peer else ""), flush=True)
    return figures


def files_of(names: Sequence[str], default: Path) -> dict[str, Path]:
    """The model file of each format that can be had."""
    files = {"q4_1": default} if "q4_1" in names else {}
    others = [name for name in names if name != "q4_1"]
    if others and importlib.util.find_spec("gguf") is None:
        print(f"{', '.join(others)} are left out: the package gguf is not installed (the extra `bench` has it)")
        return files
    for name in others:
        from model_files import model_file

        files[name] = model_file(name, default, MODELS)
    return files


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=7, help="rounds")
    parser.add_argument("--seconds", type=float, default=0, help="start no further round after this time (0: all)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--formats", default=",".join(FORMATS))
    options = parser.parse_args()
    names = options.formats.split(",")
    if unknown := set(names) - set(FORMATS):
        parser.error(f"unknown format {min(unknown)!r}: choose among {', '.join(FORMATS)}")
    rounds = options.sample or 7
    missing = install_llama()
    if missing:
        print(f"llama.cpp is skipped: {missing}")
    default = resolve_model(DEFAULT_MODEL)
    files = files_of(names, default)
    started = time.monotonic()
    print(f"tokens per CPU-second, {options.threads} thread(s), medians; at most {rounds} rounds")
    peer_heads = f"{'llama.cpp':>12}{'ratio':>8}" if not missing else ""
    wall_heads = f"{'wall: ours':>14}" + (f"{'llama.cpp':>12}" if not missing else "")
    print(f"{'':20}{'slipcast':>10}{peer_heads}{wall_heads}")
    figures: dict[str, float] = {}
    for number, (name, path) in enumerate(files.items()):
        tasks = [Task.prefill(), *(Task.decode(batch) for batch in (BATCHES if name == "q4_1" else BATCHES[:1]))]
        share = (number + 1) / (len(files) + 1)
        until = started + options.seconds * share if options.seconds else float("inf")
        found = race(path, tasks, threads=options.threads, rounds=rounds, until=until, peer=not missing)
        figures |= report_format(name, tasks, found, not missing)
        if name == "q4_1":
            ours = found[:: 1 if missing else 2]
            rates = {task.name: median(m.rate for m in found) for task, found in zip(tasks, ours, strict=True)}
            figures["batch16_over_batch1"] = rates["decode_b16"] / rates["decode_b1"]
    figures["first_token_s"] = first_token_seconds(default, 3)
    print("\nfigures (rates over llama.cpp's: above 1 is better)")
    for name, value in figures.items():
        print(f"  {name:24}{value:10.3f}")
    print(f"written to {write_report('bench-engine', figures).relative_to(ROOT)}")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
