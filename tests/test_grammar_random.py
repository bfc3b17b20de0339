"""Random schemas: the grammar accepts what `jsonschema` accepts, has no dead end, and its samples are valid."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from random_schemas import FORMATS, STRINGS, recursive, spelled, strings
from slipcast.grammar import BudgetError, CompiledGrammar, GrammarCompiler, UnsatisfiableError, Vocabulary
from slipcast.grammar.regular import format_language
from test_schema_random import DOMAIN, VALIDATORS, schemas

TEXTS = [json.dumps(value) for value in DOMAIN]


def checker() -> jsonschema.FormatChecker:
    """Our own formats: what is tested here is how they combine."""
    made = jsonschema.FormatChecker(formats=())
    for name in FORMATS:
        language = format_language(name)
        assert language is not None
        made.checks(name)(lambda value, language=language: not isinstance(value, str) or language.contains(value))
    return made


def bytes_only() -> GrammarCompiler:
    return GrammarCompiler(Vocabulary(tokens=[bytes((i,)) for i in range(256)] + [None], eos_ids=[256]))


def compiled(
    compiler: GrammarCompiler, schema: Any, validator: Any, values: Sequence[Any], texts: Sequence[str], **options: Any
) -> CompiledGrammar | None:
    """The grammar, once it agrees with the validator on all values; None where there is none, or no verdict."""
    try:
        expected = [validator.is_valid(value) for value in values]
    except TypeError:  # jsonschema 4.26 fails on additionalItems beside a boolean `items`
        return None
    try:
        grammar = compiler.json_schema(schema, order="any", **options)
        got = [grammar.accepts(text) for text in texts]
    except UnsatisfiableError:
        assert not any(expected)
        return None
    except BudgetError:
        return None
    assert got == expected
    return grammar


def sound(grammar: CompiledGrammar, validator: Any, seed: int) -> None:
    """Samples and the shortest text are accepted and valid."""
    for text in [grammar.shortest.decode(), *(grammar.sample(seed + i) for i in range(3))]:
        assert grammar.accepts(text), text
        assert validator.is_valid(json.loads(text)), text


@pytest.mark.parametrize("dialect", VALIDATORS)
def test_grammar_agrees_with_jsonschema(dialect: str) -> None:
    compiler = bytes_only()

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(schemas(dialect), st.integers(0, 1000))
    def agree(schema: dict, seed: int) -> None:
        validator = VALIDATORS[dialect](schema)
        grammar = compiled(compiler, schema, validator, DOMAIN, TEXTS, dialect=dialect)
        if grammar is not None:
            sound(grammar, validator, seed)
            sound(compiler.json_schema(schema, dialect=dialect), validator, seed)

    agree()


@pytest.mark.parametrize("dialect", VALIDATORS)
def test_recursive_schemas(dialect: str) -> None:
    compiler = bytes_only()

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(recursive(dialect), st.integers(0, 1000))
    def agree(schema: dict, seed: int) -> None:
        validator = VALIDATORS[dialect](schema)
        grammar = compiled(compiler, schema, validator, DOMAIN, TEXTS, dialect=dialect)
        if grammar is not None:
            sound(grammar, validator, seed)

    agree()


def test_strings_in_boolean_combination() -> None:
    compiler = bytes_only()
    texts = [json.dumps(value) for value in STRINGS]

    @settings(max_examples=100, deadline=None, derandomize=True)
    @given(strings("2020-12"), st.integers(0, 1000))
    def agree(schema: dict, seed: int) -> None:
        validator = jsonschema.Draft202012Validator(schema, format_checker=checker())
        grammar = compiled(compiler, schema, validator, STRINGS, texts)
        if grammar is not None:
            sound(grammar, validator, seed)

    agree()


@pytest.mark.parametrize("dialect", ["2020-12", "7"])
def test_every_spelling(dialect: str) -> None:
    compiler = bytes_only()

    @settings(max_examples=40, deadline=None, derandomize=True)
    @given(schemas(dialect), st.integers(0, 1000))
    def agree(schema: dict, seed: int) -> None:
        chance = random.Random(seed)
        texts = [spelled(value, chance) for value in DOMAIN]
        compiled(compiler, schema, VALIDATORS[dialect](schema), DOMAIN, texts, dialect=dialect, spelling="any")

    agree()
