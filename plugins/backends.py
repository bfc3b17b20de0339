"""Other grammar engines behind the GrammarFrontend protocol: llguidance and xgrammar, each a plugin of its own.

    slipcast serve --plugins llguidance          # pip install 'slipcast[llguidance]'
    slipcast serve --plugins xgrammar            # pip install 'slipcast[xgrammar]'

An active one takes over JSON Schemas, JSON objects and regular expressions. They are here to compare with and to prove
the seam: what they silently let through or refuse is theirs, and since their matchers know no way out, an answer may
end incomplete at its token limit.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from importlib import import_module
from typing import Any

import numpy as np

from ..samplers.protocols import MaskRows
from .errors import PluginError
from .hookspecs import hookimpl
from .protocols import CompiledGrammar, Compiler, GrammarFrontend

KINDS = ("json_schema", "json_object", "regex")
Compile = Callable[[str, Any], Any]


class _Backend:
    """A plugin over one library. Without the library it loads, and says what is missing when it is asked."""

    slipcast_api = "1.0"
    name = ""

    def __init__(self) -> None:
        self._prepared = lru_cache(maxsize=4)(self._prepare)

    @hookimpl
    def slipcast_grammar_frontend(self, kind: str) -> GrammarFrontend | None:
        """json_schema, json_object and regex."""
        if kind not in KINDS:
            return None
        self._library()
        return lambda source, options, compiler: self._read(kind, source, options, compiler)

    def _library(self) -> Any:
        try:
            return import_module(self.name)
        except ImportError as error:
            raise PluginError(self.name, f"it is not installed: pip install 'slipcast[{self.name}]'") from error

    def _read(self, kind: str, source: Any, options: Mapping[str, Any], compiler: Compiler) -> CompiledGrammar:
        if options:
            raise ValueError(f"the back end {self.name} takes no option {min(options)!r}: leave it out")
        vocabulary = getattr(compiler, "vocabulary")  # noqa: B009  # no part of what the protocol promises
        compile_ = self._prepared(vocabulary)
        try:
            grammar: CompiledGrammar = compile_(kind, source)
        except Exception as error:  # their errors have no common base, and are about the source
            raise ValueError(f"{self.name}: {' '.join(str(error).split())}") from error
        return grammar

    def _prepare(self, vocabulary: Any) -> Compile:
        raise NotImplementedError


class Llguidance(_Backend):
    """llguidance by Microsoft, as its Python package has it."""

    name = "llguidance"

    def _prepare(self, vocabulary: Any) -> Compile:
        library = self._library()
        tokenizer = library.LLTokenizer(library.TokenizerWrapper(_Tokens(vocabulary)), n_vocab=len(vocabulary.tokens))

        def compile_(kind: str, source: Any) -> CompiledGrammar:
            make = library.LLMatcher
            if kind == "regex":
                text = make.grammar_from_regex(source)
            else:
                text = make.grammar_from_json_schema({"type": "object"} if kind == "json_object" else _json(source))
            error = make.validate_grammar(text, tokenizer)
            if error:
                raise ValueError(error)
            return _Grammar(lambda: _LlguidanceMatcher(make(tokenizer, text, log_level=0)))

        return compile_


class Xgrammar(_Backend):
    """xgrammar by the MLC community, as its Python package has it."""

    name = "xgrammar"

    def _prepare(self, vocabulary: Any) -> Compile:
        library = self._library()
        tokens = [token or b"" for token in vocabulary.tokens]
        info = library.TokenizerInfo(tokens, vocab_size=len(tokens), stop_token_ids=list(vocabulary.eos_ids))
        compiler = library.GrammarCompiler(info, max_threads=1)

        def compile_(kind: str, source: Any) -> CompiledGrammar:
            if kind == "regex":
                grammar = compiler.compile_regex(source)
            else:
                schema = {"type": "object"} if kind == "json_object" else _json(source)
                grammar = compiler.compile_json_schema(json.dumps(schema), strict_mode=False)
            return _Grammar(lambda: _XgrammarMatcher(library.GrammarMatcher(grammar), len(tokens)))

        return compile_


class _Tokens:
    """A vocabulary in the form that llguidance asks for."""

    def __init__(self, vocabulary: Any) -> None:
        self._vocabulary = vocabulary
        self.eos_token_id = vocabulary.eos_ids[0]
        self.bos_token_id = None
        self.special_token_ids = [i for i, token in enumerate(vocabulary.tokens) if token is None]
        named = enumerate(vocabulary.tokens)
        self.tokens = [f"<special {i}>".encode() if token is None else token for i, token in named]

    def __call__(self, text: bytes) -> list[int]:
        found: list[int] = self._vocabulary.tokenize(text)
        return found


class _Grammar:
    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def matcher(self) -> Any:
        """A fresh matcher at the start."""
        return self._make()


class _LlguidanceMatcher:
    """Matcher over an LLMatcher."""

    def __init__(self, matcher: Any) -> None:
        self._matcher = matcher

    def fill_mask(self, row: MaskRows, /) -> None:
        mask = np.frombuffer(self._matcher.compute_bitmask(), np.uint32)
        row[:] = 0
        row[: len(mask)] = mask[: len(row)]

    def accept(self, token: int, /) -> bool:
        if self._matcher.validate_tokens([token]) != 1:
            return False
        return bool(self._matcher.consume_token(token))

    def is_accepting(self) -> bool:
        return bool(self._matcher.is_accepting())


class _XgrammarMatcher:
    """Matcher over a GrammarMatcher."""

    def __init__(self, matcher: Any, size: int) -> None:
        self._matcher = matcher
        self._mask = np.zeros((1, -(-size // 32)), np.int32)

    def fill_mask(self, row: MaskRows, /) -> None:
        self._mask.fill(-1)
        self._matcher.fill_next_token_bitmask(self._mask)
        row[:] = 0
        row[: self._mask.shape[1]] = self._mask[0].view(np.uint32)[: len(row)]

    def accept(self, token: int, /) -> bool:
        return bool(self._matcher.accept_token(token))

    def is_accepting(self) -> bool:
        return bool(self._matcher.is_completed())


def _json(value: Any) -> Any:
    """A schema as JSON data: its numbers come as Decimal."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, Mapping):
        return {key: _json(inner) for key, inner in value.items()}
    return [_json(inner) for inner in value] if isinstance(value, list | tuple) else value
