"""Random texts that masks allow, closed by the shortest way out: do all of them end, and are they valid?

    python benchmarks/walks.py [--schemas N] [--walks N] [--seed N] [--tokenizer llama3] [--order schema]

Over schemas of the developers' half of MaskBench: tokens drawn at random from the mask, each accepted, then `closing()`
to its end. The text must parse, and `jsonschema` must find its value valid. Prints what went otherwise and writes
`build/walks.json`; ends with status 1 if anything did. Budgets that a schema exceeds are counted, not faults.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
from jsonschema.validators import validator_for
from report import write_report
from slipcast.grammar import CompiledGrammar, GrammarCompiler, Vocabulary
from slipcast.grammar.errors import BudgetError, GrammarError

DATA = Path(os.environ.get("SLIPCAST_BENCH") or "~/.cache/slipcast-bench").expanduser()
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


def valid(schema: Any, value: Any) -> bool | None:
    """What `jsonschema` says; None where it cannot tell."""
    try:
        kind = validator_for(schema, default=jsonschema.Draft202012Validator)
        return bool(kind(schema).is_valid(value))
    except Exception:  # references that it does not resolve, patterns that Python does not read
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--schemas", type=int, default=300)
    parser.add_argument("--walks", type=int, default=3, help="walks for each schema")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tokenizer", default="llama3", choices=("llama3", "qwen2", "smollm2"))
    parser.add_argument("--order", default="schema", choices=("schema", "any"))
    options = parser.parse_args()
    vocabulary = vocabulary_of(options.tokenizer)
    compiler = GrammarCompiler(vocabulary)
    chance = random.Random(options.seed)
    files = sorted((DATA / "maskbench").glob("*.json"))
    chance.shuffle(files)
    found: Counter[str] = Counter()
    started = time.monotonic()
    for file in files[: options.schemas]:
        schema = json.loads(file.read_text(encoding="utf-8"))["schema"]
        try:
            grammar = compiler.json_schema(schema, order=options.order)
        except GrammarError:
            found["refused"] += 1
            continue
        for _ in range(options.walks):
            try:
                fault, text = walk(grammar, vocabulary, chance)
                judged = None if fault else valid(schema, json.loads(text))
            except BudgetError:
                fault, text, judged = "budget", b"", None
            except Exception as error:
                fault, text, judged = "crash", repr(error).encode(), None
            kind = fault or {True: "valid", False: "invalid", None: "not judged"}[judged]
            found[kind] += 1
            if kind in FAULTS:
                print(f"{kind}: {file.name}: {text[-200:]!r}", flush=True)
    seconds = time.monotonic() - started
    print(f"{options.tokenizer}, {options.order} order, {seconds:.0f} s: {dict(found)}")
    write_report("walks", {kind.replace(" ", "_"): float(count) for kind, count in found.items()})
    sys.exit(int(any(found[fault] for fault in FAULTS)))


if __name__ == "__main__":
    main()
