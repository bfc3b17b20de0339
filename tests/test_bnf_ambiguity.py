"""Texts that can be read in very many ways: the same texts as the rules derive, and long ones in time."""

from __future__ import annotations

import random
import time
import tracemalloc
from itertools import product

import numpy as np
import pytest
from slipcast.grammar import GrammarCompiler, Matcher, Vocabulary
from slipcast.grammar.bnf.ir import Choice, Grammar, Node, Reference, Sequence, Text
from slipcast.grammar.errors import GrammarTextError
from test_bnf_properties import Recogniser

BYTES = Vocabulary([*(bytes((byte,)) for byte in range(256)), b"</s>"], eos_ids=[256])
Rules = dict[str, list[str]]
"""By rule, of one capital letter: its alternatives, of rules and of small letters."""
GRAMMARS: dict[str, Rules] = {
    "even palindromes": {"S": ["aSa", "bSb", ""]},
    "all palindromes": {"S": ["aSa", "bSb", "a", "b", ""]},
    "dangling": {"S": ["iS", "iSeS", "x"]},
    "doubled": {"S": ["SS", "SSS", "a", "bS"]},
    "nullable": {"S": ["AaSB", "BbSA", ""], "A": ["a", "", "AB"], "B": ["b", "", "BA"]},
    "hidden left recursion": {"S": ["NSa", "b"], "N": ["x", ""]},
    "calls in turn": {"S": ["AS", "SB", "x"], "A": ["Sa", "a", "Aa"], "B": ["bS", "b", "B"]},
    "emphasis": {"S": ["PS", "P"], "P": ["x", "a", "aQa"], "Q": ["P", "PQ"]},
    "characters and more": {"S": ["x", "bSb", "aT"], "T": ["x", "S", "Tb"]},
    "unequal ends": {"S": ["aSb", "aSbb", "aSC", ""], "C": ["b", "Cb", "bCb"]},
    "ends that may be empty": {"S": ["aSb", "aSbb", "aSC", ""], "C": ["DC", ""], "D": ["b", "Db", "bC", ""]},
    "empty before itself": {"S": ["BSx", "y"], "B": ["", "b"]},
    "empty on all sides": {"S": ["AS", "SA", "b"], "A": ["a", "", "ASA"]},
    "ends within ends": {"S": ["SbA", "aA", "b"], "A": ["AS", "SA", "ba", ""]},
}
LONGEST = 7


def written(rules: Rules) -> str:
    def symbol(letter: str) -> str:
        return f"rule{letter}" if letter.isupper() else f'"{letter}"'

    def alternative(way: str) -> str:
        return " ".join(map(symbol, way)) or '""'

    lines = [f"rule{name} ::= {' | '.join(map(alternative, ways))}" for name, ways in rules.items()]
    return "\n".join(["root ::= ruleS", *lines])


def derived(rules: Rules) -> set[str]:
    """All texts up to the longest one, found by deriving until nothing is new."""
    texts: dict[str, set[str]] = {name: set() for name in rules}
    changed = True
    while changed:
        changed = False
        for name, ways in rules.items():
            for way in ways:
                parts = [texts[letter] if letter.isupper() else {letter} for letter in way]
                found = {""}
                for part in parts:
                    found = {a + b for a in found for b in part if len(a) + len(b) <= LONGEST}
                if not found <= texts[name]:
                    texts[name] |= found
                    changed = True
    return texts["S"]


@pytest.mark.parametrize("rules", GRAMMARS.values(), ids=GRAMMARS)
def test_the_texts_that_the_rules_derive(rules: Rules) -> None:
    grammar = GrammarCompiler(BYTES).grammar(written(rules), "gbnf")
    wanted = derived(rules)
    letters = sorted({letter for ways in rules.values() for way in ways for letter in way if letter.islower()})
    texts = ["".join(text) for length in range(LONGEST + 1) for text in product(letters, repeat=length)]
    assert {text for text in texts if grammar.accepts(text)} == wanted


@pytest.mark.parametrize(
    ("rules", "text"),
    [
        (GRAMMARS["even palindromes"], "a" * 1000),
        (GRAMMARS["all palindromes"], "ab" * 250 + "ba" * 250),
        (GRAMMARS["dangling"], "i" * 300 + "x" + "ex" * 300),
        (GRAMMARS["doubled"], "a" * 1000),
        (GRAMMARS["unequal ends"], "a" * 100 + "b" * 150),
    ],
    ids=["one letter", "two letters", "300 conditions", "pairs", "ends"],
)
def test_long_texts_that_can_be_read_in_many_ways(rules: Rules, text: str) -> None:
    matcher = GrammarCompiler(BYTES).grammar(written(rules), "gbnf").matcher()
    row = np.zeros(BYTES.words, np.int32)
    begun = time.thread_time()
    for byte in text.encode():
        matcher.fill_mask(row)
        assert row[byte >> 5] >> (byte & 31) & 1
        assert matcher.accept(byte)
    assert matcher.is_accepting()
    assert time.thread_time() - begun < 20  # two seconds, and room for busy machines


def test_a_way_out_of_a_thousand_readings() -> None:
    matcher = GrammarCompiler(BYTES).grammar(written(GRAMMARS["dangling"]), "gbnf").matcher()
    for byte in b"i" * 500:
        assert matcher.accept(byte)
    assert matcher.way_out().data == b"x"
    for byte in b"xex":
        assert matcher.accept(byte)
    assert matcher.is_accepting()


def test_masks_of_nested_emphasis_are_quick() -> None:
    """Characters that may begin a part, or be one, are loops of a row but where a part may begin."""
    text = """
root ::= (text "\\n")*
text ::= part+
part ::= [^\\n] | "*" part+ "*" | "_" part+ "_" | "**" part+ "**" | "`" [^`\\n]+ "`" | "[" part+ "](" [^)\\n]* ")"
"""
    matcher = GrammarCompiler(BYTES).grammar(text, "gbnf").matcher()
    row = np.zeros(BYTES.words, np.int32)
    for byte in b"a *b **c** _d_* [e](f) `g` ":
        matcher.fill_mask(row)
        assert matcher.accept(byte)
    plain = b"words and more words"
    frames = matcher.level.tables.counts["frames"]
    for byte in plain:
        matcher.fill_mask(row)
        assert matcher.accept(byte)
    assert matcher.level.tables.counts["frames"] - frames < len(plain)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ('root ::= a\na ::= "x" | "(" b ")"\nb ::= a b', "b"),
        ('root ::= a\na ::= "x" b | "(" a ")"\nb ::= "y" b', "root"),
    ],
)
def test_rules_that_derive_nothing_are_named(text: str, rule: str) -> None:
    with pytest.raises(GrammarTextError, match=f"the rule '{rule}' derives no text"):
        GrammarCompiler(BYTES).grammar(text, "gbnf")


def feed(matcher: Matcher, text: str) -> int:
    """Accepts the text; what it takes of the tables' budget, in bytes."""
    before = matcher.level.tables.nbytes()
    for byte in text.encode():
        assert matcher.accept(byte)
    return matcher.level.tables.nbytes() - before


@pytest.mark.parametrize(
    ("rules", "before", "unit", "most"),
    [
        ("unequal ends", "a" * 900, "b", 600),
        ("ends that may be empty", "a" * 600, "b", 2),
        ("empty before itself", "b" * 600 + "y", "x", 600),
        ("empty on all sides", "", "ab", 2),
        ("ends within ends", "", "ab", 2),
        ("dangling", "i" * 300 + "x", "ex", 2),
        ("emphasis", "", "a", 600),
        ("even palindromes", "", "a", 300),
    ],
)
def test_a_letter_costs_the_same_wherever_it_stands(rules: str, before: str, unit: str, most: int) -> None:
    """What ends in many places is kept once, for the one of them after which all of it may come; and where there is no
    such place a set of them is a few bytes. `most`: the largest such set.
    """
    grammar = GrammarCompiler(BYTES).grammar(written(GRAMMARS[rules]), "gbnf")
    matcher = grammar.matcher()
    feed(matcher, before)
    taken = [feed(matcher, unit * (200 // len(unit))) for _ in range(3)]
    assert taken[2] < 1.5 * taken[0]
    unions = grammar._automaton.contexts._unions  # type: ignore[union-attr]
    assert max(unions.members(context).bit_count() for context in range(len(unions))) <= most


def test_what_many_readings_take_is_counted() -> None:
    matcher = GrammarCompiler(BYTES).grammar(written(GRAMMARS["all palindromes"]), "gbnf").matcher()
    feed(matcher, "a" * 100)
    tracemalloc.start()
    try:
        counted = feed(matcher, "a" * 300)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert 0.5 * taken < counted < 2 * taken


@pytest.mark.parametrize("seed", range(40))
def test_random_rules_that_may_be_empty_and_begin_with_themselves(seed: int) -> None:
    """Long enough texts that contexts are taken for each other."""
    chance = random.Random(seed)
    rules = {
        name: ["".join(chance.choice("SABabab") for _ in range(chance.choice((0, 1, 2, 2, 3, 3)))) for _ in range(3)]
        for name in "SAB"
    }
    rules["S"].append("a")
    rules["B"].append(chance.choice(("b", "")))
    judge = Recogniser(Grammar({name: ir(ways) for name, ways in rules.items()}, start="S"))
    try:
        grammar = GrammarCompiler(BYTES).grammar(written(rules), "gbnf")
    except GrammarTextError:  # a rule derives no text
        return
    row = np.zeros(BYTES.words, np.int32)
    for _ in range(3):
        matcher, text = grammar.matcher(), ""
        while len(text) < 16:
            assert matcher.is_accepting() == judge.accepts(text)
            matcher.fill_mask(row)
            allowed = [byte for byte in b"ab" if row[byte >> 5] >> (byte & 31) & 1]
            if not allowed:
                break
            byte = chance.choice(allowed)
            assert matcher.accept(byte)
            text += chr(byte)
            other = text[:-1] + chance.choice("ab")
            assert grammar.accepts(other) == judge.accepts(other)
            if len(other + matcher.way_out().data.decode()) < 20:
                assert judge.accepts(text + matcher.way_out().data.decode())


def ir(ways: list[str]) -> Node:
    return Choice(tuple(Sequence(tuple(Reference(x) if x.isupper() else Text(x) for x in way)) for way in ways))
