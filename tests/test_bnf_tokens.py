"""Grammars over real vocabularies and over tokens taken as such: masks are what accept takes, to the end of a text."""

from __future__ import annotations

import random

import numpy as np
import pytest
from bnf_corpus import CORPUS
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.grammar.errors import GrammarTextError
from slipcast.grammar.tokens import Matcher
from tokens_machines import bits, real_tokenizer

SMALL = Vocabulary(
    [*[bytes((byte,)) for byte in range(256)], b"ab", b"abc", b"((", b"))", None, None, None],
    [260],
    special_ids={"<|end|>": 260, "<think>": 261, "</think>": 262},
)


def mask(matcher: Matcher, vocabulary: Vocabulary) -> set[int]:
    row = np.zeros(vocabulary.words, np.int32)
    matcher.fill_mask(row)
    return bits(row, vocabulary.size)


LONGEST = 120
CASES = [case for case in CORPUS if any(6 < len(text) < LONGEST for text in case.accepted)]


@pytest.mark.parametrize("place", range(len(CASES)), ids=lambda place: CASES[place].name)
def test_real_tokenizations_are_allowed_token_by_token(place: int) -> None:
    case, name = CASES[place], ("llama3", "qwen2", "smollm2")[place % 3]
    tokenizer, vocabulary = real_tokenizer(name)
    matcher_of = compiler_of(name).grammar(case.text, case.syntax).matcher
    chance = random.Random(case.name)
    for text in case.accepted:
        if not 0 < len(text) < LONGEST:
            continue
        matcher = matcher_of()
        for token in tokenizer.encode(text, add_special_tokens=False).ids:
            allowed = mask(matcher, vocabulary)
            assert token in allowed
            for other in chance.sample(range(vocabulary.size), 15) + chance.sample(sorted(allowed), 1):
                assert matcher.fork().accept(other) == (other in allowed)
            assert matcher.accept(token)
        assert matcher.is_accepting()
        assert mask(matcher, vocabulary) & set(vocabulary.eos_ids)


def compiler_of(name: str) -> GrammarCompiler:
    if name not in _COMPILERS:
        _COMPILERS[name] = GrammarCompiler(real_tokenizer(name)[1])
    return _COMPILERS[name]


_COMPILERS: dict[str, GrammarCompiler] = {}


@pytest.mark.parametrize(
    "text",
    [
        'root ::= <think> [a-z]* </think> "x"',
        'root ::= !<think>* <think> "a"',
        'root ::= "a" <[257]> <[256]> | "ab" <[1]>',
        "root ::= [0-9]+ </think>",
        'root ::= (<[97]> | "ab") "x"',
        'root ::= !<[97]> "q"?',
        'root ::= "<" root ">" | <think>? [a-b]*',
        'root ::= ("(" root ")" | <[255]>)+',
    ],
)
def test_tokens_taken_as_such(text: str) -> None:
    grammar = GrammarCompiler(SMALL).grammar(text, "gbnf")
    for seed in range(6):
        chance = random.Random(seed)
        matcher = grammar.matcher()
        for _ in range(12):
            allowed = mask(matcher, SMALL)
            assert allowed == {token for token in range(SMALL.size) if matcher.fork().accept(token)}
            assert allowed, "a dead end"
            closing = matcher.fork()
            for token in matcher.closing():
                assert closing.accept(token)
            assert closing.is_accepting()
            way = matcher.way_out()
            while way.data:
                _, way = way.step()
            assert matcher.accept(chance.choice(sorted(allowed)))
            if matcher.is_terminated():
                break


def test_special_tokens_are_no_text() -> None:
    matcher = GrammarCompiler(SMALL).grammar("root ::= <think> .*", "gbnf").matcher()
    assert mask(matcher, SMALL) == {261}
    assert not matcher.accept(ord("<"))
    assert matcher.accept(261)
    assert not matcher.accept(262)
    assert matcher.forced() == b""


def test_any_token_but_some_is_no_end_of_text() -> None:
    matcher = GrammarCompiler(SMALL).grammar('root ::= !<think> "x"', "gbnf").matcher()
    assert mask(matcher, SMALL) == set(range(SMALL.size)) - {260, 261}


def test_a_token_that_the_vocabulary_does_not_have() -> None:
    with pytest.raises(GrammarTextError, match=r"line 1, column 14: the vocabulary has no special token <nobody>"):
        GrammarCompiler(SMALL).grammar('root ::= "a" <nobody>', "gbnf")


def test_vocabularies_know_their_special_tokens() -> None:
    _, vocabulary = real_tokenizer("qwen2")
    assert vocabulary.special_ids["<|im_end|>"] in vocabulary.eos_ids or vocabulary.special_ids["<|im_end|>"] > 0


@pytest.mark.parametrize("before", ["12", "x"])
def test_tokens_are_taken_where_no_mask_was_asked_for(before: str) -> None:
    """Whether a grammar takes tokens is known before any row of it was built, and behind a number that may go on."""
    text = 'root ::= (json_schema({"type": "integer"}) | "x" | "z") <think> "y"'
    matcher = GrammarCompiler(SMALL).grammar(text).matcher()
    for byte in before.encode():
        assert matcher.accept(byte)
    masked = GrammarCompiler(SMALL).grammar(text).matcher()
    for byte in before.encode():
        assert masked.accept(byte)
    assert 261 in mask(masked, SMALL)
    assert matcher.accept(261)
    assert matcher.accept(ord("y"))
    assert matcher.is_accepting()


def test_a_token_is_taken_before_anything_else_was_asked() -> None:
    compiler = GrammarCompiler(SMALL)
    assert compiler.grammar("root ::= <think>").matcher().accept(261)
    assert compiler.grammar("root ::= <[257]>").matcher().accept(257)


@pytest.mark.parametrize(
    ("grammar", "taken"),
    [
        ('root ::= json_schema({"type": "integer"})? <think> "x"', ["1", 261, "x"]),
        ('root ::= json_schema({"type": "integer"})? <think> "x"', [261, "x"]),
        ('root ::= (json_schema({"type": "integer"}) | <think>)+ "x"', ["1", 261, "2", "3", "x"]),
        ('root ::= (json_schema({"type": "null"}) | "n" <[9,262]> | <think> "b")+', ["n", 262, 261, "b", *"null"]),
    ],
)
def test_tokens_beside_a_schema_that_may_be_left_out(grammar: str, taken: list[int | str]) -> None:
    matcher = GrammarCompiler(SMALL).grammar(grammar).matcher()
    for each in taken:
        token = ord(each) if isinstance(each, str) else each
        allowed = mask(matcher, SMALL)
        assert allowed == {other for other in range(SMALL.size) if matcher.fork().accept(other)}
        assert matcher.accept(token)
    assert matcher.is_accepting()
    assert mask(matcher, SMALL) >= {260}
