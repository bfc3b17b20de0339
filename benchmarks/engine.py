"""Prefill and decode speed of the runtime beside llama.cpp: same model file, same threads, in turns.

    python benchmarks/engine.py [--sample ROUNDS] [--seconds S] [--threads N] [--formats q4_1,q4_0,q8_0,q4_k,large]

llama.cpp comes as the npm package node-llama-cpp, installed into `build/llama`. Each round measures a task on one
engine, then on the other; the next round begins with the other. Rates are tokens per CPU-second, so that other jobs on
the machine matter little; ratios are medians over the rounds' ratios. A second process measures the wall clock with two
threads. Writes `build/bench-engine.json`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

from engine_race import Result, Slipcast, Task, race
from peers import install_llama
from report import ROOT, write_report
from slipcast.engine.runtime import DEFAULT_MODEL, resolve_model
from slipcast.engine.runtime.cpu import LoadSample, free_threads, usable_cores
from slipcast.engine.runtime.load import open_checkpoint
from slipcast.engine.runtime.weights import parameter_bytes

MODELS = ROOT / "build" / "models"
LARGE = "large"
FORMATS = ("q4_1", "q4_0", "q8_0", "q4_k", LARGE)
# What each model file is measured at; decoding at a long context is the default model's.
MOST = (
    Task.prefill(128), Task.prefill(512), Task.decode(1), Task.decode(4), Task.decode(16), Task.decode(64),
    Task.prefill(2048),
)  # fmt: skip
TASKS = {"q4_1": (*MOST, Task.decode_far()), LARGE: (Task.decode(1),)}
WALL_THREADS = 2
WALL = (Task.prefill(512), Task.decode(1), Task.decode(16))
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


def first_token_seconds(model: Path, rounds: int, cache: str | None = None) -> float:
    """Wall time from starting Python to the first token of a chat, with the compiled library in the cache or not."""
    spent = []
    environment = os.environ | ({"SLIPCAST_CACHE": cache} if cache else {})
    for _ in range(rounds):
        started = time.perf_counter()
        command = [sys.executable, "-c", FIRST_TOKEN, str(model)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert process.stdout is not None
        said = process.stdout.readline()
        spent.append(time.perf_counter() - started)
        if process.wait() or not said:
            raise SystemExit("the engine gave no first token; its message is above")
    return median(spent)


def report_format(name: str, results: Sequence[Result]) -> dict[str, float]:
    """A line for each task, and its figures."""
    figures: dict[str, float] = {}
    for result in results:
        task, ours, theirs = result.task, result.ours, result.theirs
        line = f"{name:6}{task.name:14}{result.rate:10.1f}"
        if theirs:
            line += f"{median(m.rate for m in theirs):12.1f}{result.ratio:8.2f}"
            figures[f"{task.name}_{name}_ratio"] = result.ratio
        line += f"{median(m.wall_rate for m in ours):14.1f}"
        print(line + (f"{median(m.wall_rate for m in theirs):12.1f}" if theirs else ""), flush=True)
    return figures


def batch_figures(results: Sequence[Result]) -> dict[str, float]:
    """What a batch gives over one sequence."""
    rates = {result.task.name: result.rate for result in results}
    return {f"batch{batch}_over_batch1": rates[f"decode_b{batch}"] / rates["decode_b1"] for batch in (4, 16, 64)}


def bandwidth_figures(path: Path, engine: Slipcast, rounds: int) -> dict[str, float]:
    """How fast decoding reads the weights, beside how fast memory can be read, in turns."""
    from memory_speed import MemorySpeed

    checkpoint, family = open_checkpoint(path)
    # The table is tied to the output projection, so every byte is read for every token.
    size = sum(map(parameter_bytes, family.plan(checkpoint).parameters().values()))
    memory, task = MemorySpeed(), Task.decode(1)
    speeds, reads = [], []
    for _ in range(max(3, rounds)):
        speeds.append(memory.gigabytes_per_cpu_second())
        reads.append(size * engine.run(task).rate / 1e9)
        speeds.append(memory.gigabytes_per_cpu_second())
    # Of three neighbours in time, the memory's speed is the mean of the outer two.
    shares = [read / ((speeds[2 * i] + speeds[2 * i + 1]) / 2) for i, read in enumerate(reads)]
    figures = {"memory_gb_s": median(speeds), "large_read_gb_s": median(reads), "large_bandwidth_share": median(shares)}
    print(f"{size / 1e6:.0f} MB of weights are read at {figures['large_read_gb_s']:.1f} GB a CPU-second, of "
          f"{figures['memory_gb_s']:.1f} that a plain read takes: {figures['large_bandwidth_share']:.0%}")  # fmt: skip
    return figures


def wall_figures(rounds: int, seconds: float) -> dict[str, float]:
    """Ratios of wall-clock rates with two threads, from a process of its own: TVM fixes their number once.

    On a busy machine there is no such ratio: threads then wait for one another, llama.cpp's for minutes.
    """
    since = LoadSample.take()
    time.sleep(2.0)
    free = free_threads(since)
    if free < WALL_THREADS:
        print(f"\nthe machine is busy: {free} of {usable_cores()} cores are free, so the wall clock is left out")
        return {"wall_free_cores": float(free)}
    command = [sys.executable, __file__, "--wall", "--sample", str(rounds), "--seconds", str(seconds)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    lines = done.stdout.splitlines()
    print("\n".join(lines[:-1]))
    if done.returncode or not lines:
        raise SystemExit("the measurement with two threads failed; its message is above")
    figures: dict[str, float] = json.loads(lines[-1])
    return {"wall_free_cores": float(free), **figures}


def measure_wall(path: Path, rounds: int, until: float) -> None:
    """The other process's part: a table, and its figures in a last line of JSON."""
    print(f"\ntokens per second of the wall clock, {WALL_THREADS} threads")
    _, results = race(path, WALL, threads=WALL_THREADS, rounds=rounds, until=until, peer=True)
    figures = {}
    for result in results:
        ours, theirs = (median(m.wall_rate for m in side) for side in (result.ours, result.theirs))
        print(f"q4_1  {result.task.name:14}{ours:10.1f}{theirs:12.1f}{result.wall_ratio:8.2f}")
        figures[f"wall{WALL_THREADS}_{result.task.name}_q4_1_ratio"] = result.wall_ratio
    print(json.dumps(figures))


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
    parser.add_argument("--sample", type=int, default=5, help="rounds; the slowest tasks have fewer")
    parser.add_argument("--seconds", type=float, default=0, help="after this time a task has no second round (0: all)")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--wall", action="store_true", help="only the wall clock of the default model")
    options = parser.parse_args()
    names = options.formats.split(",")
    if unknown := set(names) - set(FORMATS):
        parser.error(f"unknown format {min(unknown)!r}: choose among {', '.join(FORMATS)}")
    rounds = options.sample or 5
    missing = install_llama()
    default = resolve_model(DEFAULT_MODEL)
    started = time.monotonic()
    end = started + options.seconds if options.seconds else float("inf")
    if options.wall:
        measure_wall(default, rounds, end)
        return
    if missing:
        print(f"llama.cpp is skipped: {missing}")
    files = files_of(names, default)
    print(f"tokens per CPU-second, {options.threads} thread(s), medians; at most {rounds} rounds")
    peer_heads = f"{'llama.cpp':>12}{'ratio':>8}" if not missing else ""
    wall_heads = f"{'wall: ours':>14}" + (f"{'llama.cpp':>12}" if not missing else "")
    print(f"{'':20}{'slipcast':>10}{peer_heads}{wall_heads}")
    figures: dict[str, float] = {}
    for number, (name, path) in enumerate(files.items()):
        tasks = TASKS.get(name, MOST)
        until = started + options.seconds * (number + 1) / (len(files) + 1) if options.seconds else end
        model, results = race(path, tasks, threads=options.threads, rounds=rounds, until=until, peer=not missing)
        figures |= report_format(name, results)
        if name == "q4_1":
            figures |= batch_figures(results)
        if name == LARGE:
            figures |= bandwidth_figures(path, Slipcast(model), rounds)
        del model
    if not missing and "q4_1" in files:
        figures |= wall_figures(rounds, max(1.0, end - time.monotonic()) if options.seconds else 0)
    figures["first_token_s"] = first_token_seconds(default, 3)
    with tempfile.TemporaryDirectory() as cache:
        figures["first_token_compiling_s"] = first_token_seconds(default, 1, cache)
    print("\nfigures (rates over llama.cpp's: above 1 is better)")
    for name, value in figures.items():
        print(f"  {name:28}{value:10.3f}")
    print(f"written to {write_report('bench-engine', figures).relative_to(ROOT)}")


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
