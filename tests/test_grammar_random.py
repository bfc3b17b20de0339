"""Random schemas: the grammar accepts what `jsonschema` accepts, has no dead end, and its samples are valid."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slipcast.grammar import BudgetError, GrammarCompiler, UnsatisfiableError, Vocabulary
from test_schema_random import DOMAIN, VALIDATORS, schemas

TEXTS = [json.dumps(value) for value in DOMAIN]


def bytes_only() -> Vocabulary:
    return Vocabulary(tokens=[bytes((i,)) for i in range(256)] + [None], eos_ids=[256])


@pytest.mark.parametrize("dialect", VALIDATORS)
def test_grammar_agrees_with_jsonschema(dialect: str) -> None:
    compiler = GrammarCompiler(bytes_only())

    @settings(max_examples=60, deadline=None, derandomize=True)
    @given(schemas(dialect), st.integers(0, 1000))
    def agree(schema: dict, seed: int) -> None:
        validator = VALIDATORS[dialect](schema)
        try:
            expected = [validator.is_valid(value) for value in DOMAIN]
        except TypeError:  # jsonschema 4.26 fails on additionalItems beside a boolean `items`
            return
        try:
            grammar = compiler.json_schema(schema, dialect=dialect, order="any")
        except UnsatisfiableError:
            assert not any(expected)
            return
        except BudgetError:
            return
        assert [grammar.accepts(text) for text in TEXTS] == expected
        ordered = compiler.json_schema(schema, dialect=dialect)
        for chosen in (grammar, ordered):
            for text in (chosen.shortest.decode(), *(chosen.sample(seed + i) for i in range(3))):
                assert chosen.accepts(text), text
                assert validator.is_valid(json.loads(text)), text

    agree()
