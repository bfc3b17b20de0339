"""The option `canonical`: against what the tokenizers library itself gives, for each kind of tokenizer."""

from __future__ import annotations

import json
import random
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slipcast.grammar import CompiledGrammar, GrammarCompiler, UnsupportedError, Vocabulary
from slipcast.grammar.automaton.stepper import run
from slipcast.grammar.tokens.canonical import Canonical
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokens_machines import bits

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
CORPUS = [
    "the cat's hat isn't the cats' hats; they'll say so, won't they?", "aaaa aaa aa a bbbb abab baba aabb",
    "12 345 6789 {\"name\": [1, 2.5, null], \"age\": true}\n\n  \t indented\r\n   more   text ",
    "h\u00e9llo w\u00f6rld \u4e2d\u6587 \u4e2d\u56fd na\u00efve caf\u00e9 \u0663\u0664 \u00b2",
    "and and the the then them hath that",
]  # fmt: skip
KINDS = ("gpt2", "digits", "llama3", "whole", "characters", "metaspace")


@lru_cache
def tokenizer(kind: str) -> Tokenizer:
    """A BPE of a few hundred tokens that cuts as a well-known family does."""
    made = Tokenizer(models.BPE(byte_fallback=kind in ("characters", "metaspace"), fuse_unk=False))
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    last = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=kind in ("gpt2", "digits"))
    special = ["<|end|>"]
    if kind == "digits":
        made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), last])
    elif kind in ("llama3", "whole"):
        made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"), last])
    elif kind == "gpt2":
        made.pre_tokenizer = last
    else:
        alphabet = []
        special += [f"<0x{byte:02X}>" for byte in range(256)]
        if kind == "metaspace":
            made.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never", split=True)
        else:
            made.normalizer = normalizers.Replace(" ", "\u2581")
        made.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    if kind in ("gpt2", "digits", "llama3", "whole"):
        made.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=420 if alphabet else 380, initial_alphabet=alphabet, special_tokens=special, show_progress=False
    )
    made.train_from_iterator(CORPUS * 3, trainer)
    if kind == "whole":  # tokens that no merges make: taken where they are a whole piece
        description = json.loads(made.to_str())
        for piece in ("zebra", "\u0120zebra", "catty", "\u0120theft"):
            description["model"]["vocab"].setdefault(piece, len(description["model"]["vocab"]))
        description["model"]["ignore_merges"] = True
        made = Tokenizer.from_str(json.dumps(description))
    if kind in ("characters", "metaspace"):  # the trainer took the names of bytes for special tokens
        description = json.loads(made.to_str())
        description["added_tokens"] = description["added_tokens"][:1]
        made = Tokenizer.from_str(json.dumps(description))
    return made


@lru_cache
def vocabulary(kind: str) -> Vocabulary:
    return Vocabulary.from_tokenizer(tokenizer(kind), eos_ids=[0])


@lru_cache
def canonical(kind: str) -> Canonical:
    return Canonical(vocabulary(kind))


@lru_cache
def compiler(kind: str) -> GrammarCompiler:
    return GrammarCompiler(vocabulary(kind))


def encoded(kind: str, text: str) -> list[int]:
    return list(tokenizer(kind).encode(text, add_special_tokens=False).ids)


WORDS = [
    "the", " cat", "'s", "a", "aa", " ", "  ", "\n", "\t", "1", "23", "456", "\u00e9", "\u4e2d", "\U0001f642", "zebra",
    " zebra", "catty", " theft", "'", "s", "'ll", "!", " {", '"name"', ":", "\r\n", "\u0663", "\u00b2", "h", "t", "hat",
]  # fmt: skip
texts = st.lists(st.sampled_from(WORDS), min_size=1, max_size=7).map("".join)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=texts, chance=st.randoms(use_true_random=False))
def test_of_all_spellings_the_tokenizers_own_is_taken(kind: str, text: str, chance: random.Random) -> None:
    follow, own = canonical(kind), encoded(kind, text)
    at = follow.start
    for token in own:
        following = follow.after(at, token)
        assert following is not None, f"{text!r}: token {token} of {own} is refused"
        at = following
    assert at.ends
    assert follow.spell(follow.start, text.encode()) == own
    for _ in range(8):
        other: list[int] = []
        data, place = text.encode(), 0
        while place < len(data):
            token, place = chance.choice(vocabulary(kind).beginning(data, place)[-3:])
            other.append(token)
        last = follow.start
        for token in other:
            following = follow.after(last, token)
            if following is None:
                break
            last = following
        else:
            assert last.ends == (other == own), f"{text!r}: {other}, not {own}"
            continue
        assert other != own


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(text=texts, chance=st.randoms(use_true_random=False))
def test_rows_are_what_is_taken(kind: str, text: str, chance: random.Random) -> None:
    follow, own = canonical(kind), encoded(kind, text)
    at = follow.start
    for token in own[: chance.randrange(len(own) + 1)]:
        at = follow.after(at, token) or at
    size = vocabulary(kind).size
    taken = {token for token in range(size) if follow.after(at, token) is not None}
    assert bits(follow.row(at), size) == taken
    assert taken


def walk(kind: str, grammar: CompiledGrammar, allowed: list[str], chance: random.Random) -> None:
    """Masks are exactly the tokens that the tokenizer's own spelling of one of the texts goes on with."""
    size, end = vocabulary(kind).size, vocabulary(kind).eos_ids[0]
    spelled = [[*encoded(kind, text), end] for text in allowed]
    matcher, said = grammar.matcher(), []
    row = np.zeros(vocabulary(kind).words, np.int32)
    while not matcher.is_terminated():
        matcher.fill_mask(row)
        wanted = {each[len(said)] for each in spelled if each[: len(said)] == said}
        assert bits(row, size) == wanted, f"after {said}"
        assert matcher.is_accepting() == (end in wanted)
        way = matcher.way_out()
        assert [*said, *(way.tokens or ()), end] in spelled
        refused = chance.choice(range(size))
        assert matcher.accept(refused) == (refused in wanted or way.tokens[:1] == (refused,))
        if refused in wanted:
            matcher.rollback()
        token = chance.choice(sorted(wanted))
        assert matcher.accept(token)
        said.append(token)
    assert said in spelled


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    allowed=st.lists(texts, min_size=1, max_size=6, unique=True),
    chance=st.randoms(use_true_random=False),
)
def test_masks_of_few_texts_are_exact(kind: str, allowed: list[str], chance: random.Random) -> None:
    walk(kind, compiler(kind).choice(allowed, canonical=True), allowed, chance)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "rules",
    [
        'root ::= ("the" | "a" | "an") (" cat" | "\'s hat" | "d") "s"?',
        'root ::= [ab]{1,4} ("aa" | "b")',
        'root ::= pair pair?\npair ::= "{" [0-3] "}" | "(" inner ")"\ninner ::= "\u4e2d" "\u00e9"?',
        'root ::= " "{0,3} ("the" | "1" [23]? | "\\n")',
    ],
)
def test_masks_of_rules_are_exact(kind: str, rules: str) -> None:
    grammar = compiler(kind).grammar(rules, canonical=True)
    everything = finite(grammar, "abdehnst '{}()0123\n\u4e2d\u00e9c")
    assert len(everything) > 5
    for seed in range(4):
        walk(kind, grammar, everything, random.Random(seed))


def finite(grammar: CompiledGrammar, alphabet: str) -> list[str]:
    """The texts of a grammar, no longer than twelve characters."""
    automaton = grammar._automaton
    found, waiting = [], [("", automaton.start)]
    while waiting:
        text, at = waiting.pop()
        if automaton.accepts(text):
            found.append(text)
        for character in alphabet if len(text) < 12 else "":
            following = run(automaton.tables, at, character.encode())
            if following is not None:
                waiting.append((text + character, following))
    return found


SCHEMA = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 4}, "ok": {"enum": ["yes", None]}},
    "required": ["name"],
}  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(2))
def test_what_is_said_under_a_schema_is_canonical(kind: str, seed: int) -> None:
    grammar = compiler(kind).json_schema(SCHEMA, canonical=True)
    assert grammar.canonical
    matcher, chance, said = grammar.matcher(), random.Random(seed), []
    row = np.zeros(vocabulary(kind).words, np.int32)
    way = matcher.way_out()
    budget = len(way.tokens or ()) + chance.randrange(30)
    while not matcher.is_terminated():
        matcher.fill_mask(row)
        token = chance.choice(sorted(bits(row, vocabulary(kind).size)))
        assert matcher.accept(token)
        home = None if matcher.is_terminated() else matcher.way_home(way, budget - len(said) - 1)
        if home is None and not matcher.is_terminated():  # as the engine does: back, and along the way known before
            matcher.rollback()
            if not way.data:
                break
            token, home = way.step()
            assert matcher.accept(token)
        if home is not None:
            said.append(token)
            way = home
    text = b"".join(vocabulary(kind).tokens[token] or b"" for token in said).decode()
    assert grammar.accepts(text)
    assert len(said) <= budget
    assert said == encoded(kind, text)


def test_a_batch_of_both_kinds_of_matchers() -> None:
    made = compiler("gpt2")
    plain, own = made.choice(["the cats"]), made.choice(["the cats"], canonical=True)
    matchers = [plain.matcher(), own.matcher(), own.matcher().fork()]
    rows = np.zeros((3, made.vocabulary.words), np.int32)
    made.fill_masks(matchers, rows)
    assert bits(rows[1], made.vocabulary.size) == {encoded("gpt2", "the cats")[0]}
    assert bits(rows[1], made.vocabulary.size) == bits(rows[2], made.vocabulary.size)
    assert bits(rows[1], made.vocabulary.size) < bits(rows[0], made.vocabulary.size)


def test_special_tokens_stand_between_texts() -> None:
    plain = tokenizer("gpt2")
    marked = Tokenizer.from_str(plain.to_str())
    marked.add_special_tokens([AddedToken("<|tool|>", special=True)])
    made = GrammarCompiler(Vocabulary.from_tokenizer(marked, eos_ids=[0]))
    matcher = made.grammar('root ::= "the" <|tool|> "cats"', canonical=True).matcher()
    tool = marked.token_to_id("<|tool|>")
    wanted = [*encoded("gpt2", "the"), tool, *encoded("gpt2", "cats")]
    assert list(matcher.closing()) == wanted
    assert all(matcher.accept(token) for token in wanted)
    assert matcher.is_accepting()


def test_where_nothing_canonical_is_left_the_grammar_alone_decides() -> None:
    """Tokens of the end and of the text clash: the grammar wants a token as such that the tokenizer never gives."""
    kind = "gpt2"
    a = tokenizer(kind).token_to_id("a")
    assert len(encoded(kind, "aa")) == 1
    matcher = compiler(kind).grammar(f'root ::= <[{a}]> <[{a}]> "b"', canonical=True).matcher()
    assert matcher.accept(a) and matcher.accept(a)
    closing = matcher.closing()
    assert all(map(matcher.accept, closing)) and matcher.is_accepting()


def test_tokenizers_that_are_not_followed() -> None:
    unknown = GrammarCompiler(Vocabulary([bytes((byte,)) for byte in range(256)] + [None], [256]))
    with pytest.raises(UnsupportedError, match="without its tokenizer"):
        unknown.regex("a", canonical=True)
    assert unknown.regex("a").accepts("a")
    unigram = Tokenizer(models.Unigram([("<unk>", 0.0), ("a", -1.0), ("\u2581", -2.0)], 0, False))
    unigram.pre_tokenizer = pre_tokenizers.Metaspace()
    with pytest.raises(UnsupportedError, match="Unigram"):
        GrammarCompiler(Vocabulary.from_tokenizer(unigram, eos_ids=[0])).regex("a", canonical=True)
