"""Slipcast as an engine of the mask benchmark: the interface that `maskbench_lite.py` drives every engine through."""

from __future__ import annotations

import sys
from typing import Any

sys.modules.setdefault("torch", None)  # type: ignore[arg-type]  # TVM's FFI loads it where it is installed: no part of us

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402
from slipcast.grammar import CompiledGrammar, GrammarCompiler, Matcher, Vocabulary  # noqa: E402


class Slipcast:
    """Options, as strings: `order` ("schema" or "any"), `formats` ("1" or "0"), `cache` ("0" forgets each grammar)."""

    name = "slipcast"

    def __init__(self, tok: Any, order: str = "schema", formats: str = "1", cache: str = "1") -> None:
        self._vocabulary = Vocabulary(tok.token_bytes, eos_ids=[tok.eos_id], size=tok.vocab_size)
        self._compiler = GrammarCompiler(self._vocabulary)
        self._eos = tok.eos_id
        self._order = order
        self._formats = formats == "1"
        if order == "any":
            self.name += "-any"

    def version(self) -> str:
        from importlib.metadata import version

        return version("slipcast")

    def compile(self, schema: Any) -> CompiledGrammar:
        return self._compiler.json_schema(schema, order=self._order, formats=self._formats)  # type: ignore[arg-type]

    def start(self, grammar: CompiledGrammar) -> Matcher:
        return grammar.matcher()

    def finish(self, grammar: CompiledGrammar, matcher: Matcher) -> None:
        """Nothing to give back."""

    def alloc(self, rows: int) -> npt.NDArray[np.int32]:
        return np.zeros((rows, (self._vocabulary.size + 31) // 32), np.int32)

    def mask_into(self, matcher: Matcher, buffer: npt.NDArray[np.int32], row: int) -> None:
        matcher.fill_mask(buffer[row])

    def allowed(self, buffer: npt.NDArray[np.int32], row: int, token: int) -> bool:
        return (int(buffer[row, token >> 5]) >> (token & 31)) & 1 != 0

    def accept(self, matcher: Matcher, token: int) -> bool:
        return matcher.accept(token)

    def check(self, matcher: Matcher) -> None:
        """A refusal leaves no error behind."""

    def batch_mask(self, matchers: list[Matcher], buffer: npt.NDArray[np.int32]) -> None:
        self._compiler.fill_masks(matchers, buffer)
