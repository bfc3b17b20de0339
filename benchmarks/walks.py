"""Random texts that masks allow, closed by the shortest way out: do all of them end, and are they valid?

    python benchmarks/walks.py [--schemas N] [--walks N] [--seed N] [--tokenizer llama3] [--order schema] [--seconds S]
    python benchmarks/walks.py --totals

Over schemas of the developers' half of MaskBench: tokens drawn at random from the mask, each accepted, then `closing()`
to its end. The text must parse, and `jsonschema` must find its value valid (see `judge`). Prints what went otherwise
and writes `build/walks.json`; ends with status 1 if anything did. Budgets that a schema exceeds are counted, no faults.

Every schema walked is a line of `build/walks.jsonl`, so that a run that was interrupted goes on where it was when it is
started again with the same seed, and `--totals` tells what all runs have found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import judge
import numpy as np
from report import ROOT, commit, write_report
from slipcast.grammar import CompiledGrammar, GrammarCompiler, Vocabulary
from slipcast.grammar.errors import BudgetError, GrammarError

DATA = Path(os.environ.get("SLIPCAST_BENCH") or "~/.cache/slipcast-bench").expanduser()
JOURNAL = ROOT / "build" / "walks.jsonl"
TOKENIZERS = ("llama3", "qwen2", "smollm2")
ORDERS = ("schema", "any")
LENGTHS = (3, 10, 30, 100)
CLOSE = 0.3  # chance to stop where the text may end
FAULTS = ("dead end", "mask and accept disagree", "closing is refused", "does not end", "invalid", "crash")


def vocabulary_of(name: str) -> Vocabulary:
    folder = DATA / "tokenizers" / name
    if not (folder / "meta.json").exists():
        print(f"walks are skipped: there is no tokenizer at {folder}; `make bench-masks` fetches it")
        raise SystemExit(0)
    meta = json.loads((folder / "meta.json").read_text(encoding="utf-8"))
    return Vocabulary.from_tokenizer(folder, size=meta["vocab_size"], eos_ids=[meta["eos_token_id"]])


def walk(grammar: CompiledGrammar, vocabulary: Vocabulary, chance: random.Random) -> tuple[str, bytes]:
    """What went wrong ("" if nothing did) and the text."""
    matcher = grammar.matcher()
    row = np.zeros(vocabulary.words, np.int32)
    out = bytearray()
    for _ in range(chance.choice(LENGTHS)):
        if matcher.is_accepting() and chance.random() < CLOSE:
            break
        matcher.fill_mask(row)
        allowed = np.flatnonzero(np.unpackbits(row.view(np.uint8), bitorder="little"))
        if not len(allowed):
            return "dead end", bytes(out)
        token = int(chance.choice(allowed))
        if token in vocabulary.eos_ids:
            break
        if not matcher.accept(token):
            return "mask and accept disagree", bytes(out) + (vocabulary.tokens[token] or b"")
        out += vocabulary.tokens[token] or b""
    for token in matcher.closing():
        if not matcher.accept(token):
            return "closing is refused", bytes(out)
        out += vocabulary.tokens[token] or b""
    return "" if matcher.is_accepting() else "does not end", bytes(out)


def walk_schema(
    compiler: GrammarCompiler, file: Path, order: str, walks: int, chance: random.Random
) -> Iterator[tuple[str, bytes]]:
    """Of each walk its kind, "valid" or what went wrong, and the text."""
    schema = json.loads(file.read_text(encoding="utf-8"))["schema"]
    try:
        grammar = compiler.json_schema(schema, order=order)  # type: ignore[arg-type]
    except GrammarError as error:
        yield "refused", str(error).encode()
        return
    is_valid = judge.judge(schema)
    for _ in range(walks):
        try:
            fault, text = walk(grammar, compiler.vocabulary, chance)
            verdict = None if fault else is_valid(text)
        except BudgetError as error:
            fault, text, verdict = "budget", str(error).encode(), None
        except Exception as error:
            fault, text, verdict = "crash", repr(error).encode(), None
        yield fault or {True: "valid", False: "invalid", None: "not judged"}[verdict], text


def journal() -> Iterator[dict[str, Any]]:
    """What all runs have found, a schema at a time. A line that an interrupted run left unfinished is left out."""
    if JOURNAL.exists():
        for line in JOURNAL.read_text(encoding="utf-8").splitlines():
            try:
                yield json.loads(line)
            except ValueError:
                continue


def totals() -> None:
    found: dict[tuple[str, str], Counter[str]] = {}
    schemas: dict[tuple[str, str], set[str]] = {}
    for entry in journal():
        setting = (entry["tokenizer"], entry["order"])
        found.setdefault(setting, Counter()).update(entry["found"])
        schemas.setdefault(setting, set()).add(entry["file"])
    for (tokenizer, order), counts in sorted(found.items()):
        print(f"{tokenizer:8} {order:6} order: {len(schemas[tokenizer, order]):5} schemas, {dict(counts)}")
    everything = sum(found.values(), Counter())
    print(f"in all {sum(everything.values()) - everything['refused']} walks: {dict(everything)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=int, default=300, help="how many; those of one seed are nested")
    parser.add_argument("--walks", type=int, default=3, help="walks for each schema")
    parser.add_argument("--seed", type=int, help="default: one that has not been used")
    parser.add_argument("--tokenizer", default="llama3", choices=TOKENIZERS)
    parser.add_argument("--order", default="schema", choices=ORDERS)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="begin no further schema after so long")
    parser.add_argument("--totals", action="store_true", help="what all runs have found; walk nothing")
    options = parser.parse_args()
    if options.totals:
        totals()
        return
    before = list(journal())
    seed = max((entry["seed"] for entry in before), default=0) + 1 if options.seed is None else options.seed
    setting = {"tokenizer": options.tokenizer, "order": options.order, "seed": seed}
    done = {entry["file"]: Counter(entry["found"]) for entry in before if setting.items() <= entry.items()}
    compiler = GrammarCompiler(vocabulary_of(options.tokenizer))
    files = sorted((DATA / "maskbench").glob("*.json"))
    random.Random(seed).shuffle(files)
    files = files[: options.schemas]
    found = sum((done[file.name] for file in files if file.name in done), Counter())
    version = commit()
    started = time.monotonic()
    JOURNAL.parent.mkdir(exist_ok=True)
    with JOURNAL.open("a", encoding="utf-8") as lines:
        for file in files:
            if time.monotonic() - started > options.seconds:
                break
            if file.name in done:
                continue
            here: Counter[str] = Counter()
            chance = random.Random(f"{seed} {file.name}")
            for kind, text in walk_schema(compiler, file, options.order, options.walks, chance):
                here[kind] += 1
                if kind in (*FAULTS, "budget", "refused"):
                    print(f"{kind}: {file.name}: {text[-200:]!r}", flush=True)
            found += here
            lines.write(json.dumps({**setting, "file": file.name, "commit": version, "found": here}) + "\n")
            lines.flush()
    seconds = time.monotonic() - started
    print(f"{options.tokenizer}, {options.order} order, seed {seed}, {seconds:.0f} s: {dict(found)}", flush=True)
    write_report("walks", {kind.replace(" ", "_"): float(count) for kind, count in found.items()})
    sys.exit(int(any(found[fault] for fault in FAULTS)))


if __name__ == "__main__":
    main()
