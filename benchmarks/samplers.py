"""The sampling chain on a batch of 16 rows of 49,152 logits, on one core, beside transformers' processors on torch.

    python benchmarks/samplers.py [--sample ROUNDS]

Each case is a step for the whole batch: penalties, mask, cuts and draw. Ours and theirs take turns on the same logits,
which fall off as a language model's do; a time is the median over the rounds, in CPU time of the process. Every row has
options of its own with us; transformers' processors take one set of options for the batch, and are given it. They are
left out where torch or transformers is not installed. Writes `build/bench-samplers.json`.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

os.environ.update(dict.fromkeys(("OMP_NUM_THREADS", "MKL_NUM_THREADS", "TVM_NUM_THREADS"), "1"))

import numpy as np
from report import write_report
from slipcast.engine.runtime.draw import Draw
from slipcast.samplers import SamplerChain, SamplingParams, SeededSampler, default_processors

ROWS, VOCABULARY, ROUNDS = 16, 49_152, 41
KERNEL = Draw()
CASES: dict[str, dict[str, Any]] = {
    "greedy": {"temperature": 0.0},
    "plain": {},
    "temperature": {"temperature": 0.7},
    "top_k": {"temperature": 0.7, "top_k": 40},
    "top_p": {"temperature": 0.7, "top_p": 0.95},
    "min_p": {"temperature": 0.7, "min_p": 0.05},
    "chain": {"temperature": 0.7, "top_k": 40, "top_p": 0.95, "min_p": 0.05},
    "chain_penalties": {
        "temperature": 0.7, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repetition_penalty": 1.1,
        "presence_penalty": 0.2, "frequency_penalty": 0.1, "logit_bias": {11: 2.0, 12: -2.0},
    },
    "typical": {"temperature": 0.7, "typical_p": 0.9},
    "top_n_sigma": {"temperature": 0.7, "top_n_sigma": 1.5},
    "xtc": {"temperature": 0.7, "top_k": 40, "xtc_probability": 0.5, "xtc_threshold": 0.1},
    "dry": {"temperature": 0.7, "top_k": 40, "dry_multiplier": 0.8},
    "mirostat": {"temperature": 0.7, "top_k": 100, "mirostat": 2},
}  # fmt: skip


@dataclass(eq=False)
class Row:
    """A choice in the middle of its output."""

    params: SamplingParams
    prompt: list[int]
    output: list[int]
    stream: int
    request_id: str = "bench"
    index: int = 0
    grammar: object = None
    plugins: dict[str, object] = field(default_factory=dict)


def logits_like_a_models(rng: np.random.Generator) -> np.ndarray:
    """float32 [ROWS, VOCABULARY]: a few likely tokens above a broad middle, as next-token logits are."""
    logits = rng.normal(0.0, 2.2, (ROWS, VOCABULARY))
    for row in logits:
        row[rng.integers(0, VOCABULARY, 40)] += rng.gamma(2.0, 4.0, 40)
    return logits.astype(np.float32)


def ours(options: dict[str, Any], logits: np.ndarray, rng: np.random.Generator) -> Callable[[], None]:
    chain = SamplerChain(default_processors(), SeededSampler(), quick=KERNEL)
    rows = [
        Row(SamplingParams(seed=i, **options), rng.integers(0, VOCABULARY, 200).tolist(),
            rng.integers(0, VOCABULARY, 100).tolist(), i) for i in range(ROWS)
    ]  # fmt: skip
    for row in rows:
        chain.start(row)
    scratch = np.empty_like(logits)

    def step() -> None:
        np.copyto(scratch, logits)  # the model's output is the chain's to overwrite
        chain.run(scratch, rows, None)

    return step


def theirs(options: dict[str, Any], logits: np.ndarray, rng: np.random.Generator) -> Callable[[], None] | None:
    """transformers' processors in the same order, and torch's draw; None where it has no such option."""
    try:
        import torch
        from transformers.generation import logits_process as t
    except ImportError:
        return None
    if options.keys() - {"temperature", "top_k", "typical_p", "top_p", "min_p"}:
        return None
    torch.set_num_threads(1)
    chain: list[Any] = []
    if options.get("temperature", 1.0) not in (0.0, 1.0):
        chain.append(t.TemperatureLogitsWarper(options["temperature"]))
    warpers = {
        "top_k": t.TopKLogitsWarper, "typical_p": t.TypicalLogitsWarper, "top_p": t.TopPLogitsWarper,
        "min_p": t.MinPLogitsWarper,
    }  # fmt: skip
    chain += [made(options[name]) for name, made in warpers.items() if name in options]
    scores = torch.from_numpy(logits.copy())
    ids = torch.from_numpy(rng.integers(0, VOCABULARY, (ROWS, 300)))

    def step() -> None:
        with torch.no_grad():
            x = scores.clone()
            for processor in chain:
                x = processor(ids, x)
            if options.get("temperature") == 0.0:
                x.argmax(dim=-1)
            else:
                torch.multinomial(torch.softmax(x, dim=-1), 1)

    return step


def cpu_ms(step: Callable[[], None]) -> float:
    started = time.process_time()
    step()
    return (time.process_time() - started) * 1e3


def measure(steps: Sequence[Callable[[], None] | None], rounds: int) -> list[list[float]]:
    times: list[list[float]] = [[] for _ in steps]
    for number in range(rounds + 3):
        for step, taken in zip(steps, times, strict=True):
            if step is not None:
                spent = cpu_ms(step)
                if number >= 3:
                    taken.append(spent)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=ROUNDS, metavar="ROUNDS", help="rounds (default: %(default)s)")
    rounds = parser.parse_args().sample
    figures: dict[str, float] = {}
    print(f"{ROWS} rows x {VOCABULARY} logits, one core, CPU time of a step")
    print(f"{'case':16} {'ours ms':>9} {'best ms':>9} {'theirs ms':>10} {'ratio':>7}")
    for name, options in CASES.items():
        logits = logits_like_a_models(np.random.default_rng(1))
        mine, other = measure(
            [ours(options, logits, np.random.default_rng(2)), theirs(options, logits, np.random.default_rng(2))], rounds
        )
        figures[f"{name}_ms"] = statistics.median(mine)
        figures[f"{name}_best_ms"] = min(mine)
        shown, ratio = "-", "-"
        if other:
            # Pairs of one round met the same company on the machine.
            figures[f"{name}_ratio"] = statistics.median(a / b for a, b in zip(mine, other, strict=True) if b)
            shown, ratio = f"{statistics.median(other):.2f}", f"{figures[f'{name}_ratio']:.3f}"
        print(f"{name:16} {figures[f'{name}_ms']:9.2f} {figures[f'{name}_best_ms']:9.2f} {shown:>10} {ratio:>7}")
    print(f"written to {write_report('bench-samplers', figures)}", file=sys.stderr)


if __name__ == "__main__":
    main()
