"""The corpus of grammars: texts accepted and rejected, and, for each, tokens that lead where bytes do."""

from __future__ import annotations

import pytest
from bnf_corpus import CORPUS, Case
from slipcast.grammar import GrammarCompiler, Vocabulary

COMPILER = GrammarCompiler(
    Vocabulary(
        tokens=[*(bytes([byte]) for byte in range(256)), b"ab", b"aa", b"abc", b"1,", b'"}', b"</", b" a", b"))", None],
        eos_ids=[264],
    )
)
"""All bytes, and a few tokens that cross what is one lexeme."""
IDS = [case.name for case in CORPUS]


def test_the_corpus_is_large() -> None:
    assert len({case.name for case in CORPUS}) == len(CORPUS) >= 60


@pytest.mark.parametrize("case", CORPUS, ids=IDS)
def test_verdicts(case: Case) -> None:
    grammar = COMPILER.grammar(case.text, syntax=case.syntax)
    for text in case.accepted:
        assert grammar.accepts(text), f"rejected {text[:80]!r}"
    for text in case.rejected:
        assert not grammar.accepts(text), f"accepted {text[:80]!r}"


@pytest.mark.parametrize("case", CORPUS, ids=IDS)
def test_samples_and_shortest_texts_are_accepted(case: Case) -> None:
    grammar = COMPILER.grammar(case.text, syntax=case.syntax)
    assert grammar.accepts(grammar.shortest)
    for seed in range(5):
        sample = grammar.sample(seed)
        assert grammar.accepts(sample), repr(sample)


@pytest.mark.parametrize("case", CORPUS, ids=IDS)
def test_tokens_lead_where_bytes_do(case: Case) -> None:
    """Every accepted text passes byte by byte and by longest tokens; at its end the end token is allowed."""
    grammar = COMPILER.grammar(case.text, syntax=case.syntax)
    tokens = COMPILER.vocabulary.tokens
    longest = sorted((i for i, data in enumerate(tokens) if data), key=lambda i: -len(tokens[i] or b""))
    for text in case.accepted:
        data = text.encode()
        if len(data) > 2000:
            continue
        matcher = grammar.matcher()
        at = 0
        while at < len(data):
            token = next(i for i in longest if data.startswith(tokens[i] or b"?", at))
            assert matcher.accept(token), f"token {tokens[token]!r} at {at} of {text[:80]!r}"
            at += len(tokens[token] or b"")
        assert matcher.is_accepting()
