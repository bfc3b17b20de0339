"""Random grammars against an independent recogniser: the same texts, masks that are what accept takes, no dead end."""

from __future__ import annotations

import itertools
import random
from functools import lru_cache

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.grammar.bnf.ir import Chars, Choice, Grammar, JsonSchema, Node, Reference, Regex, Repeat, Sequence, Text
from slipcast.grammar.errors import GrammarTextError
from slipcast.grammar.regular import CharSet, whole_pattern
from tokens_machines import bits, random_tokens

ALPHABET = "ab("
NAMES = ("root", "x", "y", "z")
SLOW = [HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large]


def nodes() -> st.SearchStrategy[Node]:
    leaves = st.one_of(
        st.sampled_from(["", "a", "b", "(", "ab", "a(", "ba"]).map(Text),
        st.sampled_from(["a", "ab", "b("]).map(lambda chars: Chars(CharSet.chars(chars))),
        st.sampled_from(["a*b", "(ab|b)+", "a?"]).map(lambda pattern: Regex(whole_pattern(pattern), pattern)),
        st.sampled_from(NAMES).map(Reference),
        st.sampled_from(NAMES).map(Reference),
    )
    return st.recursive(
        leaves,
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=3).map(lambda items: Sequence(tuple(items))),
            st.lists(inner, min_size=2, max_size=3).map(lambda items: Choice(tuple(items))),
            st.tuples(inner, st.integers(0, 2), st.sampled_from([None, 0, 1, 3])).map(
                lambda given: Repeat(given[0], given[1], None if given[2] is None else given[1] + given[2])
            ),
        ),
        max_leaves=6,
    )


grammars = st.lists(nodes(), min_size=2, max_size=4).map(
    lambda bodies: Grammar({name: bodies[i % len(bodies)] for i, name in enumerate(NAMES)})
)


class Recogniser:
    """Where a rule that begins at each place of a text may end: sets that grow until nothing changes."""

    def __init__(self, grammar: Grammar) -> None:
        self.rules = grammar.rules
        self.start = grammar.start

    def accepts(self, text: str) -> bool:
        self.text = text
        self.ends = {(name, at): frozenset[int]() for name in self.rules for at in range(len(text) + 1)}
        changed = True
        while changed:
            changed = False
            for (name, at), known in self.ends.items():
                found = self.match(self.rules[name], at)
                if found != known:
                    self.ends[name, at] = found
                    changed = True
        return len(text) in self.ends[self.start, 0]

    def match(self, node: Node, at: int) -> frozenset[int]:
        match node:
            case Text(text):
                return frozenset((at + len(text),)) if self.text.startswith(text, at) else frozenset()
            case Chars(chars):
                return frozenset((at + 1,)) if at < len(self.text) and self.text[at] in chars else frozenset()
            case Regex(language):
                return frozenset(e for e in range(at, len(self.text) + 1) if language.contains(self.text[at:e]))
            case Reference(name):
                return self.ends[name, at]
            case Sequence(items):
                here = frozenset((at,))
                for item in items:
                    here = frozenset().union(*(self.match(item, place) for place in here))
                return here
            case Choice(alternatives):
                return frozenset().union(*(self.match(item, at) for item in alternatives))
            case Repeat(item, low, high):
                here = frozenset((at,))
                for _ in range(low):
                    here = frozenset().union(*(self.match(item, place) for place in here))
                found = here
                for _ in range(len(self.text) + 1 if high is None else high - low):
                    here = frozenset().union(*(self.match(item, place) for place in here)) - found
                    found |= here
                return found
        raise TypeError(node)


TEXTS = ["".join(chars) for count in range(6) for chars in itertools.product(ALPHABET, repeat=count)]
BYTES = Vocabulary([bytes((byte,)) for byte in range(256)] + [None], [256])


@lru_cache
def byte_compiler() -> GrammarCompiler:
    return GrammarCompiler(BYTES)


@settings(max_examples=120, deadline=None, suppress_health_check=SLOW)
@given(grammars, st.randoms(use_true_random=False))
def test_the_same_texts_as_an_independent_recogniser(grammar: Grammar, chance: random.Random) -> None:
    judge = Recogniser(grammar)
    texts = [*TEXTS[:40], *chance.sample(TEXTS[40:], 60)]
    try:
        compiled = byte_compiler().compile(grammar)
    except GrammarTextError as error:
        assert "derives no text" in str(error)
        assume(False)
        return
    wrong = [text for text in texts if compiled.accepts(text) != judge.accepts(text)]
    assert not wrong
    assert judge.accepts(compiled.shortest.decode())
    for seed in range(3):
        sampled = compiled.sample(seed)
        if len(sampled) < 40:
            assert judge.accepts(sampled)


@pytest.mark.parametrize("seed", range(4))
@settings(max_examples=15, deadline=None, suppress_health_check=SLOW)
@given(grammar=grammars, chance=st.randoms(use_true_random=False))
def test_masks_are_what_accept_takes_and_nothing_is_a_dead_end(
    seed: int, grammar: Grammar, chance: random.Random
) -> None:
    tokens, compiler = token_compiler(seed)
    judge = Recogniser(grammar)
    try:
        matcher = compiler.compile(grammar).matcher()
    except GrammarTextError:
        assume(False)
        return
    text = b""
    row = np.zeros(compiler.vocabulary.words, np.int32)
    for _ in range(8):
        matcher.fill_mask(row)
        allowed = bits(row, compiler.vocabulary.size)
        taken = {token for token in range(len(tokens)) if matcher.fork().accept(token)}
        assert allowed == taken
        assert allowed, "a dead end"
        way = matcher.way_out()
        if len(text + way.data) <= 20:  # the judge tries everything
            assert judge.accepts((text + way.data).decode())
        left = matcher.distance()
        closing = matcher.fork()
        for token in matcher.closing():
            assert closing.accept(token)
        assert closing.is_accepting()
        assert left == len(matcher.closing())
        assert matcher.is_accepting() == judge.accepts(text.decode())
        forced = matcher.forced()
        assert not forced or not matcher.is_accepting()
        token = chance.choice(sorted(allowed))
        assert matcher.accept(token)
        if matcher.is_terminated():
            break
        text += tokens[token] or b""
        if len(text) > 14:
            break


SCHEMAS = (
    {"type": "integer"},
    {"type": "string", "maxLength": 2},
    {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"], "additionalProperties": False},
    {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
    {"enum": [1, "a", None]},
    {"type": ["number", "null"]},
    {"type": "object", "additionalProperties": {"type": "integer"}},
)
JSON_TOKENS = [*[bytes((byte,)) for byte in range(256)], b'{"', b'":', b'"a"', b"12", b"[1", b"1]", b'"}', b"e}", None]
JSON_COMPILER = GrammarCompiler(Vocabulary(JSON_TOKENS, [len(JSON_TOKENS) - 1]))


class JsonRecogniser(Recogniser):
    """Knows schemas as well: a text is one if the schema's own grammar says so."""

    def match(self, node: Node, at: int) -> frozenset[int]:
        if isinstance(node, JsonSchema):
            grammar = JSON_COMPILER.json_schema(node.schema)
            return frozenset(e for e in range(at + 1, len(self.text) + 1) if grammar.accepts(self.text[at:e]))
        return super().match(node, at)


def with_schemas(chance: random.Random, depth: int) -> Node:
    kind = chance.random()
    if not depth or kind < 0.45:
        leaves: list[Node] = [Text("a"), Text("1"), Text(","), Text('{"a"'), Reference("x"), Reference("root")]
        return chance.choice([*leaves, *[JsonSchema(chance.choice(SCHEMAS)) for _ in range(3)]])
    if kind < 0.92:
        kinds = Sequence if kind < 0.75 else Choice
        return kinds((with_schemas(chance, depth - 1), with_schemas(chance, depth - 1)))
    return Repeat(with_schemas(chance, depth - 1), 0, chance.choice([1, 2, None]))


@pytest.mark.parametrize("seed", range(24))
def test_schemas_among_rules(seed: int) -> None:
    """Schemas beside schemas, text and recursion: the same texts, masks and ways out as by trying everything."""
    chance = random.Random(seed)
    grammar = Grammar({"root": with_schemas(chance, 3), "x": with_schemas(chance, 2)})
    try:
        compiled = JSON_COMPILER.compile(grammar)
    except GrammarTextError:
        return
    judge = JsonRecogniser(grammar)
    assert judge.accepts(compiled.shortest.decode())
    sampled = compiled.sample(seed)[:40]
    for _ in range(6):
        place = chance.randrange(len(sampled) + 1)
        change = chance.choice(["1", "a", '"', ",", "}", "{", "", " "])
        text = sampled[:place] + change + sampled[place + chance.randrange(2) :]
        assert compiled.accepts(text) == judge.accepts(text)
    matcher = compiled.matcher()
    row = np.zeros(JSON_COMPILER.vocabulary.words, np.int32)
    said = b""
    for _ in range(5):
        matcher.fill_mask(row)
        allowed = bits(row, len(JSON_TOKENS))
        assert allowed == {token for token in range(len(JSON_TOKENS)) if matcher.fork().accept(token)}
        assert judge.accepts((said + matcher.way_out().data).decode())
        usual = sorted(token for token in allowed if not 128 <= token < 256)
        if not usual:
            break
        token = chance.choice(usual)
        assert matcher.accept(token)
        if matcher.is_terminated():
            break
        said += JSON_TOKENS[token] or b""


@lru_cache
def token_compiler(seed: int) -> tuple[list[bytes | None], GrammarCompiler]:
    tokens = random_tokens(seed, ALPHABET.encode(), 60)
    tokens.append(None)
    return tokens, GrammarCompiler(Vocabulary(tokens, [len(tokens) - 1]))
