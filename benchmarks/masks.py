"""Mask and compile times beside llguidance and xgrammar, on real schemas with Llama 3's vocabulary.

    python benchmarks/masks.py [--sample N] [--seconds S] [--seed N]

Drives the mask benchmark of `../shared/bench`: each engine lives in a worker process of its own, and the workers take
every schema in turn, so that all see the same machine. Three parts: cold (each schema is new), warm (each grammar was
seen before: the third pass), and the masks of a batch of 64. Times are CPU time of one thread, scaled by a calibration
measured beside each schema. Writes `build/bench-masks.json`; the workers' raw results stay in `build/bench-masks/`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

from report import ROOT, write_report

HERE = Path(__file__).resolve().parent
SHARED = ROOT.parent / "shared" / "bench"
DATA = Path(os.environ.get("SLIPCAST_BENCH") or "~/.cache/slipcast-bench").expanduser()
PEERS = DATA / "peers" / "bin" / "python"
RAW = ROOT / "build" / "bench-masks"

TOKENIZER = "llama3"
BATCH = 64
BATCH_ROUNDS = 3
SHOWN = 12  # problems of each kind that are printed
SLOWEST = 8
ORDER_SECONDS = 60.0
TOKEN_PERCENTILES, FIRST_PERCENTILES = (50, 90, 99, 99.9), (50, 90, 99)
RATIOS = {"p50": 50.0, "p99": 99.0, "p999": 99.9}
# Shares of --seconds, after which a part starts no further schema.
SHARES = {"cold": 0.6, "warm": 0.4}
# xgrammar may take minutes for a schema: it gets the first schemas only, less time for each, and no more of either part
# than so many seconds or such a share of --seconds.
XGRAMMAR_PART, XGRAMMAR_LEAST, XGRAMMAR_TIMEOUT, XGRAMMAR_SECONDS = 20, 8, 6.0, 60.0
XGRAMMAR_SHARE = 0.1


@dataclass(frozen=True)
class Contestant:
    """An engine of the benchmark: what the harness calls it, and the Python that has it."""

    label: str
    spec: str
    python: Path
    batch_spec: str
    options: tuple[str, ...] = ()
    module: str = ""
    version: str = ""


SLIPCAST = Contestant("slipcast", "mask_adapter:Slipcast", Path(sys.executable), "mask_adapter:Slipcast")
LLGUIDANCE = Contestant("llguidance", "llg", PEERS, "llg-par", module="llguidance", version="1.9.1")
XGRAMMAR = Contestant("xgrammar", "xgr-compliant", PEERS, "xgr-compliant-batch", module="xgrammar", version="0.2.8")


def skip(reason: str) -> SystemExit:
    """Ends the benchmark without failing: what it compares with is not here."""
    print(f"bench-masks is skipped: {reason}")
    return SystemExit(0)


def prepare() -> None:
    """Peers, tokenizers and schemas; made by the harness's own script where they are missing."""
    if not (SHARED / "maskbench_lite.py").exists():
        raise skip(f"there is no mask benchmark at {SHARED}")
    if PEERS.exists() and (DATA / "maskbench" / ".done").exists() and (DATA / "tokenizers" / TOKENIZER).exists():
        return
    print(f"preparing the peers and the data in {DATA} (once; a few minutes)", flush=True)
    environment = {**os.environ, "SLIPCAST_BENCH": str(DATA)}
    if subprocess.run(["bash", str(SHARED / "setup.sh")], env=environment, check=False).returncode:
        raise skip(f"{SHARED / 'setup.sh'} failed; its output above says why")


def installed(peer: Contestant) -> bool:
    """True if the peers' environment has the peer. Another version than the named one is said."""
    code = f"import importlib.metadata as m; print(m.version({peer.module!r}))"
    done = subprocess.run([str(peer.python), "-c", code], capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{peer.label} is left out: {peer.python} does not have it")
        return False
    if done.stdout.strip() != peer.version:
        print(f"note: {peer.label} is {done.stdout.strip()} here; the figures are meant beside {peer.version}")
    return True


def harness_mb() -> float:
    """Memory of a worker before it loads its engine: Python, the harness, its tokenizer."""
    code = f"""
import sys
sys.path.insert(0, {str(SHARED)!r})
import adapters, maskbench_lite
tokenizer = adapters.TokInfo({str(DATA / "tokenizers" / TOKENIZER)!r})
tokenizer.token_bytes
print(maskbench_lite.rss("self") / 2**20)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    return float(done.stdout) if done.returncode == 0 else 0.0


def load_harness() -> ModuleType:
    """`maskbench_lite` as a module. It reads its data folder from the environment when it is imported."""
    os.environ["SLIPCAST_BENCH"] = str(DATA)
    sys.path.insert(0, str(SHARED))
    return importlib.import_module("maskbench_lite")


class Race:
    """Engines taking schemas in turn, each in a worker of its own."""

    def __init__(self, harness: ModuleType, part: str, *, warm: bool) -> None:
        self._harness = harness
        self._part = part
        self._warm = warm
        self._workers: dict[str, Any] = {}
        self._resident: list[float] = []

    def add(self, engine: Contestant, *, timeout: float = 30.0, options: Sequence[str] = ()) -> None:
        """Enter an engine; `timeout` in CPU seconds for a schema."""
        settings = Namespace(
            python=str(engine.python), path=[str(HERE)], tokenizer=TOKENIZER, clock="cpu", cpu=None, mem_limit=8.0,
            warm=self._warm, passes=3, timeout=timeout, no_samples=False,
        )  # fmt: skip
        RAW.mkdir(parents=True, exist_ok=True)
        path = RAW / f"{self._part}.{engine.label}.json"
        worker = self._harness.Proc(settings, engine.spec, [*engine.options, *options], str(path))
        self._workers[engine.label] = worker

    def run(self, files: Sequence[str], *, seconds: float, few: int = 0, patience: float = 0.0) -> None:
        """All files, or those begun within so many seconds of when the engines are ready.

        xgrammar runs the first `few` only, and no further one after `patience` seconds of its own.
        """
        load = os.getloadavg()
        started = shown = time.monotonic()
        done = 0
        try:
            for worker in self._workers.values():
                worker.ensure()
            self._watch_memory()
            started = time.monotonic()
            for done, file in enumerate(files):
                if time.monotonic() > started + seconds:
                    break
                for label in self._turn(done, few, patience):
                    self._workers[label].run_one(file)
                self._watch_memory()
                if time.monotonic() - shown > 20:
                    shown = time.monotonic()
                    print(f"  {self._part}: {done} of {len(files)} schemas", file=sys.stderr, flush=True)
            else:
                done = len(files)
        finally:
            for worker in self._workers.values():
                worker.close()
                worker.save({
                    "wall_s": round(time.monotonic() - started, 1), "load_before": load,
                    "load_after": os.getloadavg(), "not_run": len(files) - done,
                })  # fmt: skip

    def _turn(self, number: int, few: int, patience: float) -> list[str]:
        labels = list(self._workers) if number % 2 == 0 else list(self._workers)[::-1]
        if XGRAMMAR.label in labels:
            spent = sum(result["wall_s"] for result in self._workers[XGRAMMAR.label].results.values())
            if number >= few or spent > patience:
                labels.remove(XGRAMMAR.label)
        return labels

    def _watch_memory(self) -> None:
        worker = self._workers.get(SLIPCAST.label)
        if worker is not None and worker.p is not None:
            self._resident.append(self._harness.rss(worker.p.pid) / 2**20)

    def resident_mb(self) -> tuple[float, float]:
        """Memory of Slipcast's worker: ready for the first schema, and after the last one."""
        return (self._resident[0], self._resident[-1]) if self._resident else (0.0, 0.0)

    @property
    def results(self) -> dict[str, dict[str, Any]]:
        """By engine and file, as the harness records them."""
        return {label: worker.results for label, worker in self._workers.items()}

    def startup_seconds(self, engine: Contestant) -> float:
        """CPU time to make the engine: for Slipcast, its vocabulary."""
        return float(self._workers[engine.label].meta.get("init_ns", 0)) / 1e9


class Times:
    """Sorted times of one engine over some schemas, in us: of tokens (mask, bit test, accept) and of first masks."""

    def __init__(self, harness: ModuleType, results: dict[str, Any], files: Sequence[str]) -> None:
        self._percentile = harness.pct
        tokens: list[float] = []
        self.first_masks: list[float] = []
        for file in files:
            result = results[file]
            scale = calibrated(harness, result)
            for test in result["tests"]:
                pairs = zip(test.get("mask_ns", ()), test.get("commit_ns", ()), strict=True)
                tokens += [(mask + commit) * scale for mask, commit in pairs]
            self.first_masks.append(result["ttfm_ns"] * scale)
        self.tokens = sorted(tokens)
        self.first_masks.sort()

    def average(self) -> float:
        return sum(self.tokens) / len(self.tokens)

    def token(self, percentile: float) -> float:
        return float(self._percentile(self.tokens, percentile))

    def first_mask(self, percentile: float) -> float:
        return float(self._percentile(self.first_masks, percentile))


def calibrated(harness: ModuleType, result: dict[str, Any]) -> float:
    """us for a measured ns, on the harness's reference machine at rest."""
    return float(1e-3 * harness.CALIB_REF / result.get("calib_us", harness.CALIB_REF))


def compare(harness: ModuleType, race: Race, engines: Sequence[Contestant]) -> dict[str, Times]:
    """Times over the schemas that all the engines compiled; empty if there is nothing to compare."""
    results = {engine.label: race.results.get(engine.label, {}) for engine in engines}
    first, *others = results.values()
    files = [file for file in first if all("ttfm_ns" in found.get(file, {}) for found in (first, *others))]
    times = {label: Times(harness, found, files) for label, found in results.items()}
    return times if all(found.tokens for found in times.values()) else {}


def print_times(part: str, times: dict[str, Times]) -> None:
    if not times:
        print(f"\n{part}: no schema that all of them compile")
        return
    count = len(next(iter(times.values())).first_masks)
    print(f"\n{part}: us over the {count} schemas that all of {', '.join(times)} compile")
    print(f"{'':12}{'tokens':>9}{'average':>9}" + "".join(f"{f'p{p:g}':>9}" for p in TOKEN_PERCENTILES), end="")
    print("   first mask" + "".join(f"{f'p{p:g}':>12}" for p in FIRST_PERCENTILES))
    for label, found in times.items():
        row = f"{label:12}{len(found.tokens):9}{found.average():9.1f}"
        row += "".join(f"{found.token(p):9.1f}" for p in TOKEN_PERCENTILES) + " " * 13
        print(row + "".join(f"{found.first_mask(p):12,.0f}" for p in FIRST_PERCENTILES))


def print_verdicts(harness: ModuleType, race: Race) -> None:
    heads = ("schemas", "passing", "refused", "timeout", "crash", "accepted invalid", "rejected valid")
    print(f"\n{'':12}" + "".join(f"{head:>{len(head) + 3}}" for head in heads))
    for label, results in race.results.items():
        outcomes = Counter(harness.outcome(result) for result in results.values())
        found = {**verdicts(harness, results), "timeout": outcomes["timeout"], "crash": outcomes["crash"]}
        values = (len(results), *(found[head.replace(" ", "_")] for head in heads[1:]))
        print(f"{label:12}" + "".join(f"{value:{len(head) + 3}}" for head, value in zip(heads, values, strict=True)))


def print_slowest(harness: ModuleType, race: Race) -> None:
    """Where time is to be won: the schemas whose tokens, and whose first masks, cost us most beyond llguidance."""
    ours, theirs = (race.results.get(engine.label, {}) for engine in (SLIPCAST, LLGUIDANCE))

    def cost(result: dict[str, Any], first: bool) -> float:
        tests = [] if first else result["tests"]
        spent = sum(sum(test.get("mask_ns", ())) + sum(test.get("commit_ns", ())) for test in tests)
        return (result.get("ttfm_ns", 0) if first else spent) * calibrated(harness, result) / 1e3

    for first, what in ((False, "all tokens"), (True, "first mask")):
        costs = [(cost(ours[file], first), cost(theirs.get(file, {"tests": []}), first), file) for file in ours]
        costs.sort(key=lambda pair: pair[1] - pair[0])
        print(f"\nslowest beside llguidance, {what}, ms (0: refused)")
        for mine, other, file in costs[:SLOWEST]:
            tokens = sum(len(test.get("mask_ns", ())) for test in ours[file]["tests"])
            print(f"  {mine:9.2f} {other:9.2f}   {file} ({tokens} tokens)")


def ratios(times: dict[str, Times], part: str) -> dict[str, float]:
    """Ours over llguidance's; below 1 is better."""
    if not {SLIPCAST.label, LLGUIDANCE.label} <= set(times):
        return {}
    ours, theirs = times[SLIPCAST.label], times[LLGUIDANCE.label]
    average = {f"{part}_avg_ratio": ours.average() / theirs.average()}
    if part == "warm":
        return average
    tokens = {f"cold_{name}_ratio": ours.token(p) / theirs.token(p) for name, p in RATIOS.items()}
    first = {f"first_mask_{name}_ratio": ours.first_mask(RATIOS[name]) / theirs.first_mask(RATIOS[name])
             for name in ("p50", "p99")}  # fmt: skip
    return average | tokens | first


def verdicts(harness: ModuleType, results: dict[str, Any]) -> dict[str, int]:
    """Schemas that pass and that are refused; instances on which the engine is wrong."""
    outcomes = Counter(harness.outcome(result) for result in results.values())
    tests = [test for result in results.values() for test in result["tests"]]
    return {
        "passing": outcomes["passing"],
        "refused": outcomes["compile error"],
        "accepted_invalid": sum(test["accepted"] and not test["valid"] for test in tests),
        "rejected_valid": sum(test["valid"] and not test["accepted"] for test in tests),
    }


def problems(harness: ModuleType, results: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """What went wrong in Slipcast, as (kind, place)."""
    for file, result in results.items():
        outcome = harness.outcome(result)
        if outcome == "compile error":
            yield "refused", f"{file}: {result['compile_error']}"
        elif outcome in ("timeout", "crash"):
            yield outcome, f"{file}: in {result.get('phase')}"
        for test in result["tests"]:
            instance = f"{file}: instance {test['i']}"
            if test["accepted"] and not test["valid"]:
                yield "accepted invalid", instance
            elif test["valid"] and not test["accepted"]:
                place = f"token {test['rej']} of {test['n']}" if "rej" in test else "the end"
                yield "rejected valid", f"{instance}, {test.get('exn') or f'at {place}'}"
            if "mismatch" in test:
                yield "mask and accept disagree", f"{instance}: {test['mismatch']}"
            if test.get("warm_verdict_differs"):
                yield "cold and warm disagree", instance


def print_problems(harness: ModuleType, results: dict[str, Any]) -> None:
    kinds: dict[str, list[str]] = {}
    for kind, place in problems(harness, results):
        kinds.setdefault(kind, []).append(place)
    for kind, places in kinds.items():
        print(f"\n{kind}: {len(places)}" + (f", the first {SHOWN} are" if len(places) > SHOWN else ""))
        for place in places[:SHOWN]:
            print(f"  {place[:200]}")


def check_order(harness: ModuleType, results: dict[str, Any]) -> None:
    """Valid instances that schema order rejects: only their order may be wrong, so that any order takes them all."""
    files = [file for file, found in results.items() if verdicts(harness, {file: found})["rejected_valid"]]
    if not files:
        return
    race = Race(harness, "any-order", warm=False)
    race.add(SLIPCAST, options=["order=any"])
    race.run(files, seconds=ORDER_SECONDS)
    found = race.results[SLIPCAST.label]
    rejected = verdicts(harness, found)["rejected_valid"]
    print(f"\nin any order, of the {len(found)} schemas with wrongly rejected instances: {rejected} still rejected")
    print_problems(harness, found)


def batch_us(engine: Contestant, number: int) -> float | None:
    """us a sequence and step for the masks of a warm batch over eight schemas; None if the engine failed at it."""
    path = RAW / f"batch{number}.{engine.label}.json"
    path.unlink(missing_ok=True)
    command = [
        str(engine.python), str(SHARED / "maskbench_lite.py"), "batch", "--engine", engine.batch_spec,
        "--tokenizer", TOKENIZER, "--B", str(BATCH), "--path", str(HERE), "--out", str(path),
    ]  # fmt: skip
    environment = {**os.environ, "TVM_NUM_THREADS": "1"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    refused = [line for line in done.stdout.splitlines() if line.startswith(("skip ", "REFUSED "))]
    for line in [*refused, *(done.stderr.splitlines()[-1:] if done.returncode else ())]:
        print(f"  {engine.label}, batch: {line}")
    with contextlib.suppress(OSError):
        return float(json.loads(path.read_text(encoding="utf-8"))["B"][str(BATCH)]["fill_us_per_seq"]["mean"])
    return None


def batches(engines: Sequence[Contestant], rounds: int) -> dict[str, float]:
    """Each engine's median over interleaved rounds, printed."""
    found: dict[str, list[float]] = {}
    for number in range(rounds):
        for engine in engines:
            value = batch_us(engine, number)
            if value is not None:
                found.setdefault(engine.label, []).append(value)
    print(f"\nmasks of a warm batch of {BATCH} over 8 schemas, us a sequence and step")
    for label, values in found.items():
        print(f"  {label:12}{median(values):8.2f}   (rounds: {', '.join(f'{value:.2f}' for value in values)})")
    ours = found.get(SLIPCAST.label)
    return {"batch64_us": median(ours)} if ours else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", type=int, default=600, help="schemas of the sample; those of one seed are nested")
    parser.add_argument("--seconds", type=float, default=0, help="time for the schemas of both parts (0: as it takes)")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    prepare()
    peers = [peer for peer in (LLGUIDANCE, XGRAMMAR) if installed(peer)]
    harness = load_harness()
    choice = Namespace(files=None, files_from=None, split=None, half=None, limit=None)
    choice.sample, choice.seed = options.sample or 600, options.seed
    files = harness.select_files(choice)
    few = max(XGRAMMAR_LEAST, len(files) // XGRAMMAR_PART)
    patience = min(XGRAMMAR_SECONDS, options.seconds * XGRAMMAR_SHARE or XGRAMMAR_SECONDS)
    figures: dict[str, float] = {}
    for part, share in SHARES.items():
        race = Race(harness, part, warm=part == "warm")
        race.add(SLIPCAST)
        for peer in peers:
            race.add(peer, timeout=XGRAMMAR_TIMEOUT if peer is XGRAMMAR else 30.0)
        race.run(files, seconds=options.seconds * share or float("inf"), few=few, patience=patience)
        pair = compare(harness, race, [SLIPCAST, *(peer for peer in peers if peer is LLGUIDANCE)])
        print_times(part, pair)
        if XGRAMMAR in peers:
            print_times(part, compare(harness, race, [SLIPCAST, *peers]))
        figures |= ratios(pair, part)
        ours = race.results[SLIPCAST.label]
        if part == "cold":
            before, after = race.resident_mb()
            figures |= {**verdicts(harness, ours), "rss_mb": after}
            print_verdicts(harness, race)
            print(f"\nSlipcast's vocabulary was ready after {race.startup_seconds(SLIPCAST):.2f} CPU seconds")
            print(f"its worker took {before:.0f} MB then, and {after:.0f} MB after the last schema,", end=" ")
            print(f"of which the harness and its tokenizer are {harness_mb():.0f} MB")
            print_slowest(harness, race)
        print_problems(harness, ours)
        if part == "cold":
            check_order(harness, ours)
    figures |= batches([SLIPCAST, *peers], 1 if options.seconds else BATCH_ROUNDS)
    print("\nfigures (ratios over llguidance: below 1 is better)")
    for name, value in figures.items():
        print(f"  {name:24}{value:10.3f}")
    print(f"written to {write_report('bench-masks', figures).relative_to(ROOT)}")


if __name__ == "__main__":
    main()
