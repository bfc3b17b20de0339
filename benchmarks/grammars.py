"""Mask and compile times for grammars, beside llguidance and xgrammar, with Llama 3's vocabulary.

    python benchmarks/grammars.py [--sample N] [--rounds N]

Each engine lives in a process of its own, and they take every grammar in turn; all is done again in `--rounds`
processes, and a time is the least of them. llguidance is given its own translation of GBNF to Lark. Writes
`build/bench-grammars.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from statistics import mean
from typing import Any

import masks
import numpy as np
from grammar_set import CASES, Case
from report import ROOT, write_report
from tokenizers import Tokenizer

HERE = Path(__file__).resolve().parent
OURS = "slipcast"


class Worker:
    """An engine in its process."""

    def __init__(self, name: str, python: Path) -> None:
        self.name = name
        command = [str(python), str(HERE / "grammar_worker.py"), name, str(masks.DATA / "tokenizers" / masks.TOKENIZER)]
        environment = {**os.environ, "TVM_NUM_THREADS": "1"}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment
        )
        self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        while line and not line.startswith("{"):
            line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} has gone")
        found: dict[str, Any] = json.loads(line)
        return found

    def run(self, job: dict[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        return self._read()

    def close(self) -> None:
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._process.wait()


def measure(cases: list[Case], engines: dict[str, Path], rounds: int) -> dict[str, dict[str, dict[str, Any]]]:
    """By engine and grammar: the answers of the workers, each time the least of all rounds."""
    tokenizer = Tokenizer.from_file(str(masks.DATA / "tokenizers" / masks.TOKENIZER / "tokenizer.json"))
    found: dict[str, dict[str, dict[str, Any]]] = {name: {} for name in engines}
    for _ in range(rounds):
        workers = [Worker(name, python) for name, python in engines.items()]
        for case in cases:
            ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in case.texts]
            for worker in workers:
                answer = worker.run({"grammar": case.grammar, "texts": ids})
                before = found[worker.name].get(case.name)
                found[worker.name][case.name] = answer if before is None else least(before, answer)
        for worker in workers:
            worker.close()
    return found


def least(before: dict[str, Any], answer: dict[str, Any]) -> dict[str, Any]:
    if "error" in before or "error" in answer:
        return before
    times = {kind: np.minimum(before[kind], answer[kind]).tolist() for kind in ("cold", "warm")}
    return {**before, **times, "first": min(before["first"], answer["first"])}


def summary(answers: list[dict[str, Any]]) -> dict[str, float]:
    """Microseconds over all tokens, and over grammars for the first mask."""
    cold = np.concatenate([answer["cold"] for answer in answers]) / 1e3
    warm = np.concatenate([answer["warm"] for answer in answers]) / 1e3
    first = np.array([answer["first"] for answer in answers]) / 1e3
    return {
        "cold_avg": float(cold.mean()),
        "cold_p50": float(np.percentile(cold, 50)),
        "cold_p99": float(np.percentile(cold, 99)),
        "warm_avg": float(warm.mean()),
        "first_mask_p50": float(np.percentile(first, 50)),
        "first_mask_p99": float(np.percentile(first, 99)),
    }


def clean(answer: dict[str, Any]) -> bool:
    return "error" not in answer and all(place < 0 for place in answer["refused"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=len(CASES), help="grammars, from the first")
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    masks.prepare()
    peers = [peer for peer in (masks.LLGUIDANCE, masks.XGRAMMAR) if masks.installed(peer)]
    engines = {OURS: Path(sys.executable), **{peer.label: peer.python for peer in peers}}
    cases = list(CASES[: options.sample or None])
    found = measure(cases, engines, options.rounds)
    print(f"\n{'us a token, cold / warm, and to the first mask':50}" + "".join(f"{name:>28}" for name in engines))
    for case in cases:
        cells = []
        for name in engines:
            answer = found[name][case.name]
            if "error" in answer:
                cells.append("refused")
            elif not clean(answer):
                cells.append(f"wrong at token {next(place for place in answer['refused'] if place >= 0)}")
            else:
                cold, warm = mean(answer["cold"]) / 1e3, mean(answer["warm"]) / 1e3
                cells.append(f"{cold:.1f} / {warm:.1f}, {answer['first'] / 1e3:.0f}")
        print(f"{case.name:50}" + "".join(f"{cell:>28}" for cell in cells))
    figures: dict[str, float] = {"grammars_passing": sum(clean(answer) for answer in found[OURS].values())}
    for name in engines:
        for case in cases:
            if "error" in found[name][case.name]:
                print(f"  {name}, {case.name}: {found[name][case.name]['error'].splitlines()[0]}")
    for peer in peers:
        both = [case.name for case in cases if clean(found[OURS][case.name]) and clean(found[peer.label][case.name])]
        if not both:
            continue
        ours = summary([found[OURS][name] for name in both])
        theirs = summary([found[peer.label][name] for name in both])
        print(f"\nbeside {peer.label}, {len(both)} grammars both take whole")
        for key, value in ours.items():
            print(f"  {key:16}{value:10.1f}{theirs[key]:10.1f}{value / theirs[key]:8.2f}x")
            figures[f"{peer.label}_{key}_ratio"] = value / theirs[key]
    print(f"written to {write_report('bench-grammars', figures).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
