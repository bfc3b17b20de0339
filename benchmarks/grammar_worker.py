"""One engine of the grammar benchmark: a grammar with texts a line in, times a line out. Run by grammars.py.

    python benchmarks/grammar_worker.py slipcast|llguidance|xgrammar TOKENIZER_FOLDER

Times are CPU nanoseconds of this thread: `first` is compiling, starting and the first mask, `cold` and `warm` the mask
and the acceptance of each token, the first and the best of two later times.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from time import thread_time_ns
from typing import Any

import numpy as np


class Slipcast:
    def __init__(self, tokens: Any) -> None:
        from slipcast.grammar import GrammarCompiler, Vocabulary

        self.compiler = GrammarCompiler(Vocabulary(tokens.token_bytes, eos_ids=[tokens.eos_id], size=tokens.vocab_size))
        self.row = np.zeros((tokens.vocab_size + 31) // 32, np.int32)

    def compile(self, grammar: str) -> Any:
        return self.compiler.grammar(grammar, syntax="gbnf")

    def start(self, grammar: Any) -> Any:
        return grammar.matcher()

    def mask(self, matcher: Any) -> None:
        matcher.fill_mask(self.row)

    def accept(self, matcher: Any, token: int) -> bool:
        return bool(matcher.accept(token))


class Llguidance:
    def __init__(self, tokens: Any) -> None:
        import llguidance
        import llguidance.numpy
        from llguidance.gbnf_to_lark import any_to_lark

        self.module, self.masks, self.to_lark = llguidance, llguidance.numpy, any_to_lark
        self.tokenizer = llguidance.LLTokenizer(tokens.json_text, n_vocab=tokens.vocab_size, eos_token=tokens.eos_id)
        self.row = self.masks.allocate_token_bitmask(1, tokens.vocab_size)[0]
        self.rows = self.row[None]

    def compile(self, grammar: str) -> Any:
        source = json.dumps({"grammars": [{"lark_grammar": self.to_lark(grammar)}]})
        matcher = self.module.LLMatcher(self.tokenizer, source, log_level=0)
        if matcher.is_error():
            raise ValueError(matcher.get_error())
        return matcher

    def start(self, grammar: Any) -> Any:
        return grammar.deep_copy()

    def mask(self, matcher: Any) -> None:
        self.masks.fill_next_token_bitmask(matcher, self.rows, 0)

    def accept(self, matcher: Any, token: int) -> bool:
        return bool(matcher.consume_token(token))


class Xgrammar:
    def __init__(self, tokens: Any) -> None:
        import torch
        import xgrammar

        torch.set_num_threads(1)
        self.module = xgrammar
        info = xgrammar.TokenizerInfo.from_huggingface(tokens.hf_fast(), vocab_size=tokens.vocab_size)
        self.compiler = xgrammar.GrammarCompiler(info, max_threads=1)
        self.mask_rows = xgrammar.allocate_token_bitmask(1, tokens.vocab_size)
        self.row = self.mask_rows.numpy()[0]

    def compile(self, grammar: str) -> Any:
        return self.compiler.compile_grammar(grammar)

    def start(self, grammar: Any) -> Any:
        return self.module.GrammarMatcher(grammar)

    def mask(self, matcher: Any) -> None:
        if not matcher.fill_next_token_bitmask(self.mask_rows, 0):
            self.row[:] = -1

    def accept(self, matcher: Any, token: int) -> bool:
        return bool(matcher.accept_token(token))


ENGINES = {"slipcast": Slipcast, "llguidance": Llguidance, "xgrammar": Xgrammar}


def walk(engine: Any, matcher: Any, ids: list[int]) -> tuple[list[int], int]:
    """CPU nanoseconds of each token, and the first one refused (-1: none)."""
    times = []
    for place, token in enumerate(ids):
        begun = thread_time_ns()
        engine.mask(matcher)
        allowed = (int(engine.row[token >> 5]) >> (token & 31)) & 1
        taken = allowed and engine.accept(matcher, token)
        times.append(thread_time_ns() - begun)
        if not taken:
            return times, place
    return times, -1


def answer(engine: Any, job: dict[str, Any]) -> dict[str, Any]:
    begun = thread_time_ns()
    grammar = engine.compile(job["grammar"])
    matcher = engine.start(grammar)
    engine.mask(matcher)
    first = thread_time_ns() - begun
    cold: list[int] = []
    warm: list[int] = []
    refused = []
    for ids in job["texts"]:
        times, wrong = walk(engine, engine.start(grammar), ids)
        cold += times
        refused.append(wrong)
        again = [walk(engine, engine.start(grammar), ids)[0] for _ in range(2)]
        warm += [min(pair) for pair in zip(*again, strict=True)]
    return {"first": first, "cold": cold, "warm": warm, "refused": refused}


def main() -> None:
    shared = Path(__file__).resolve().parents[2] / "shared" / "bench"
    sys.path.insert(0, str(shared))
    import adapters  # the harness's reader of tokenizers

    engine = ENGINES[sys.argv[1]](adapters.TokInfo(sys.argv[2]))
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        try:
            found = answer(engine, json.loads(line))
        except Exception as error:
            found = {"error": f"{type(error).__name__}: {error}"[:300]}
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
