"""Patterns against two judges: the `regress` engine on syntax and search, and a matcher that follows the definition."""

from __future__ import annotations

import json
import lzma
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import regress
from hypothesis import given, settings
from hypothesis import strategies as st
from slipcast.grammar.errors import BudgetError, GrammarError, PatternError
from slipcast.grammar.regular import (
    ALL,
    ANY,
    EMPTY,
    INFINITE,
    Language,
    ecma,
    is_pattern,
    nodes,
    pattern,
    whole_pattern,
)
from slipcast.grammar.regular.dfa import Dfa, StarDfa
from slipcast.grammar.regular.unicode import _index, property_set

DATA = Path(__file__).parents[2] / "shared" / "data"
WORD = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")


def ends(node: nodes.Node, text: str, at: int) -> set[int]:
    """Where matches of `node` that begin at `at` end, by definition."""
    if isinstance(node, nodes.Chars):
        return {at + 1} if at < len(text) and text[at] in node.set else set()
    if isinstance(node, nodes.Sequence):
        here = {at}
        for part in node.parts:
            here = {end for start in here for end in ends(part, text, start)}
        return here
    if isinstance(node, nodes.Choice):
        return {end for part in node.parts for end in ends(part, text, at)}
    if isinstance(node, nodes.Repeat):
        here, found, count = {at}, set[int](), 0
        while here and (node.high is None or count <= node.high):
            if count >= node.low:
                if here <= found:
                    break
                found |= here
            here = {end for start in here for end in ends(node.body, text, start)}
            count += 1
        return found
    if isinstance(node, nodes.Assert):
        before = 0 if at == 0 else 1 if text[at - 1] in WORD else 2
        after = 0 if at == len(text) else 1 if text[at] in WORD else 2
        return {at} if node.gaps >> 3 * before + after & 1 else set()
    seen = bool(ends(node.body, text, at)) if node.ahead else any(at in ends(node.body, text, b) for b in range(at + 1))
    return {at} if seen != node.negative else set()


def found_by_definition(source: str, text: str) -> bool:
    tree = ecma.parse(source)
    return any(ends(tree, text, at) for at in range(len(text) + 1))


ATOMS = ["a", "b", "c", "-", "[ab]", "[^a]", ".", r"\w", r"\W", "é", r"\d", "[^]", r"\s"]


def build(children: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    quantifiers = st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,2}", "*?", "{2,}", "{0,3}?"])
    return st.one_of(
        st.lists(children, min_size=2, max_size=3).map("".join),
        st.lists(children, min_size=2, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        st.tuples(children, quantifiers).map(lambda pair: f"(?:{pair[0]}){pair[1]}"),
        st.tuples(st.sampled_from(["(?=", "(?!", "(?<=", "(?<!"]), children).map(lambda pair: f"{pair[0]}{pair[1]})"),
    )


PATTERNS = st.recursive(st.sampled_from([*ATOMS, *ATOMS, "^", "$", r"\b", r"\B"]), build, max_leaves=8)
TEXTS = st.lists(st.text("aabbc-é\n1 ", max_size=7), min_size=8, max_size=8)


@settings(max_examples=300, deadline=None)
@given(PATTERNS, TEXTS)
def test_any_nesting_of_any_construct_means_what_its_definition_says(source: str, texts: list[str]) -> None:
    language = pattern(source)
    for text in ["", "a", "b", "ab", *texts]:
        assert language.contains(text) == found_by_definition(source, text), text
    check_shape(language.dfa)


@settings(max_examples=150, deadline=None)
@given(PATTERNS, TEXTS)
def test_whole_patterns_match_from_end_to_end(source: str, texts: list[str]) -> None:
    tree = ecma.parse(source)
    language = whole_pattern(source)
    for text in ["", *texts]:
        assert language.contains(text) == (len(text) in ends(tree, text, 0)), text


def check_shape(dfa: Dfa, states: int = 60) -> None:
    """Classes are disjoint, distances are true, no state is dead."""
    if dfa.start is None:
        return
    seen, waiting = {dfa.start}, [dfa.start]
    while waiting and len(seen) < states:
        state = waiting.pop(0)
        moves = dfa.step(state)
        covered = ~ALL
        for chars, _ in moves:
            assert chars and not chars & covered
            covered = covered | chars
        ahead = dfa.shortest(state)
        assert ahead < INFINITE and (ahead == 0) == dfa.accepting(state)
        if ahead:
            assert min(dfa.shortest(target) for _, target in moves) == ahead - 1
        if dfa.universal(state):
            assert dfa.accepting(state) and covered is ALL and all(dfa.universal(target) for _, target in moves)
        if dfa.countable and moves:
            assert min(dfa.shortest(target) for _, target in moves) <= ahead
        waiting += [target for _, target in moves if target not in seen]
        seen.update(target for _, target in moves)


WILD = [
    "^abc$", "", ".*", "^$", "foo", "^(a|b)$|^c$", r"\bfoo\b", r"^\S+\@\S+\.\w+$", r"^[\w\.\d\_]+$", "^[a-z]{0,3}$",
    r"[\p{Zs}A-Za-z0-9+\.,\-_:;()]*", "^(?!pattern$).*$", r"^(?!.*\/)^(.*[^.]+.*)$", r"^(?=[^=]+$)(?!\s+$)(.|\n)+$",
    r"((?:[^/]*/)*)(?=\.(yaml|yml|json))", r"^(https?://|/?.?-?(?!\w+://)\w).+\.ya?ml$", "a{,3}", "{", "}", "]", "a{1",
    r"^(?!.*://)(?=.{1,255}$)((.{1,63}\.){1,127}(?![0-9]*$)[a-z0-9-]+\.?)$", r"^\/a\-b\_c$", r"[\w-z]", r"[a\-z]",
    r"^[^\s-\w]$", r"\u{61}", "\\ud83d\\ude00", "^\U0001f432*$", r"^\cA\x41\u0041\0$", "(?<name>a)b", "[^]", "[]", "a|",
    r"^(?:\d{3}-)?\d{4}$", r"^[+-]?\d+(\.\d+)?$", "(?i:aB)c", "(?s:.)", "^(^a$)$", "a$b", "a^b", "x*", r"[\b]", r"\/",
]


@pytest.mark.parametrize("source", WILD)
def test_patterns_as_people_write_them_agree_with_another_engine(source: str) -> None:
    language = pattern(source)
    engine = reference(source)
    random.seed(source)
    alphabet = [c for c in source if c.isprintable()] + list("ab1-_ /.\n\U0001f432é\x01A")
    texts = ["".join(random.choices(alphabet, k=n)) for n in (1, 2, 3, 4, 6) for _ in range(40)]
    for text in ["", "abc", "a", source, *texts]:
        assert language.contains(text) == (engine.find(text) is not None), text


def reference(source: str) -> Any:
    try:
        return regress.Regex(source, "u")
    except regress.RegressError:
        return regress.Regex(source)


def wild_patterns() -> dict[str, set[str]]:
    """The patterns of real schemas, each with the strings of the instances beside it."""
    found: dict[str, set[str]] = {}
    with lzma.open(DATA / "maskbench-dev.jsonl.xz", "rt", encoding="utf-8") as lines:
        for line in lines:
            record = json.loads(line)
            sources = set(patterns_of(record["schema"]))
            if sources:
                texts = {text for test in record["tests"] for text in strings_of(test["data"])}
                for source in sources:
                    found.setdefault(source, set()).update(texts)
    return found


def patterns_of(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key == "pattern" and isinstance(value, str):
                yield value
            elif key == "patternProperties" and isinstance(value, dict):
                yield from value
            yield from patterns_of(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from patterns_of(value)


def strings_of(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value[:80]
    elif isinstance(value, dict):
        for key, member in value.items():
            yield key
            yield from strings_of(member)
    elif isinstance(value, list):
        for member in value:
            yield from strings_of(member)


@pytest.mark.skipif(not DATA.exists(), reason="the shared data is not there")
def test_every_pattern_of_real_schemas_compiles_and_agrees_with_another_engine() -> None:
    patterns = wild_patterns()
    assert len(patterns) > 1000
    random.seed(2)
    for source in random.sample(sorted(patterns), 500):
        language, engine = pattern(source), reference(source)
        for text in random.sample(sorted(patterns[source]), min(12, len(patterns[source]))):
            assert language.contains(text) == (engine.find(text) is not None), (source, text)


@pytest.mark.parametrize(
    ("source", "position"),
    [
        ("(", 0), (")", 0), ("a)", 1), ("[a", 0), ("a**", 2), ("*a", 0), ("(?<=x)*", 6), ("^*", 1), (r"\b+", 2),
        ("a{2,1}", 1), ("[z-a]", 1), (r"(a)\1", 3), (r"\1(a)", 0), (r"(?<n>a)\k<n>", 7), ("\\", 0), ("(?P<n>a)", 0),
        ("(?i)a", 0), ("(?#a)", 0), (r"\p{Nope}", 0), (r"a\p{Script=Nope}", 1), ("a{1}{2}", 4),
        ("(?<1>a)", 0), ("{1}", 0),
    ],
)
def test_malformed_and_irregular_patterns_are_refused_at_their_position(source: str, position: int) -> None:
    with pytest.raises(PatternError) as caught:
        pattern(source)
    assert caught.value.position == position
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "source",
    [
        "[ab]*a[ab]{13}", "^[ab]*a[ab]{13}$", "(a|a?)+$", "^(a|a?)+$", "(" * 60_000 + "a" + ")" * 60_000, ".{0,50000}x",
        "^.{0,50000}x", "^.{0,50000}x$", "^[a-z]{0,50000}$", "((a{0,300}){0,300}){0,300}b", "^((ab{0,9}){0,9}){0,9}$",
        "^((ab{0,300}){0,300}){0,300}$", "(?<=x)*", "(x+x+)+y", "^(c|" * 100 + "a" + ")$" * 100,
        "(a(" * 80 + ")b)" * 80,
        "(" * 60_000, "a" * 100_000, "[" + "a-z" * 30_000 + "]", "|".join(f"w{n}" for n in range(15_000)),
        "(?=.*a{50})(?=.*b{50})(?=.*c{50})d", r"^(?=.*a.{20}$)(?=.*b.{20}$).*$", "x{99999999999}",
        "^(?:(?!ab).){0,500}$",
        r"(\b|a){0,300}c", "(?:(?:(?:a*)*)*)*b", "^(a{1,1000}b){1,100}$",
    ],
    ids=lambda source: source[:30],
)
def test_hostile_patterns_are_compiled_or_refused_in_time(source: str) -> None:
    began = time.process_time()
    try:
        language = pattern(source)
        if not language.is_empty:
            state = language.dfa.start
            for _ in range(20):
                assert state is not None
                moves = language.dfa.step(state)
                if not moves:
                    break
                state = moves[-1][1]
    except GrammarError as error:
        assert isinstance(error, PatternError | BudgetError)
        assert len(str(error)) < 200_000
    assert time.process_time() - began < 8  # two are promised; a busy machine's seconds are longer


@pytest.mark.parametrize(
    ("source", "low", "high"),
    [
        ("^[a-z]{0,50000}$", 0, 50_000), ("^.{5,}$", 5, None), ("^[a-z]*$", 0, None), (r"^\d\d\d$", 3, 3),
        ("^a?$", 0, 1),
        ("^(?:a|b){2,90}$", 2, 90), ("^[0-9][0-9]{0,40}$", 1, 41),
    ],
)
def test_one_repeated_class_becomes_a_bound(source: str, low: int, high: int | None) -> None:
    language = pattern(source)
    assert isinstance(language.dfa, StarDfa)
    assert (language.low, language.high) == (low, high)


def test_a_long_repeat_between_fixed_parts_becomes_a_bound() -> None:
    language = pattern("^a[b-z]{3,500}cd$")
    assert (language.low, language.high) == (6, 503)
    assert language.contains("abbbcd") and not language.contains("abbcd")
    assert not language.contains("a" + "b" * 501 + "cd")


def test_a_search_that_cannot_fail_is_any_text() -> None:
    for source in ("", ".*", "a*", "(a|b?)", "^", "$", "(?:x{0,5}){0,9}", "[^]*"):
        assert pattern(source) == ANY
    assert pattern("[]") == EMPTY
    assert pattern("a^b").is_empty


def test_equal_patterns_share_one_automaton() -> None:
    assert pattern("^ab+c$").dfa is pattern("^(?:ab+c)$").dfa
    assert pattern("[0-9]x+y").dfa is pattern(r"\dx+y").dfa


def test_surrogates_are_no_characters() -> None:
    assert pattern(r"^[\ud800-\udfff]$").is_empty
    assert pattern(r"^[\ud83d\ude00-\ud83d\ude4f]$").contains("\U0001f601")


def test_unicode_mode_syntax_is_told_from_the_rest() -> None:
    for source in [*WILD, r"\a", "(?P<n>x)", "(?#c)", r"(?<n>a)\k<n>", r"(a)\1", r"\1", r"\00", r"\c", "(?=a)*", "{1}"]:
        try:
            regress.Regex(source, "u")
            valid = True
        except regress.RegressError:
            valid = False
        assert is_pattern(source) == valid, source


def test_unicode_properties_agree_with_another_engine() -> None:
    random.seed(3)
    sample = [c for c in random.sample(range(0x20000), 3000) if not 0xD800 <= c <= 0xDFFF]
    names = {"g": "gc={}", "s": "sc={}", "b": "{}", "x": "scx={}"}
    for kind, name in random.sample(sorted(_index()), 60):
        full = names[kind].format(name)
        engine = regress.Regex(f"\\p{{{full}}}", "u")
        chars = property_set(full)
        assert [c for c in sample if (engine.find(chr(c)) is not None) != (c in chars)] == []


def test_a_language_of_one_pattern_is_read_by_many_threads() -> None:
    from concurrent.futures import ThreadPoolExecutor

    language = pattern(r"^(?=.*\d)(?:[a-c]x|\d+y)*z$")
    texts = ["".join(random.Random(n).choices("abcx1yz", k=8)) for n in range(200)]
    expected = [found_by_definition(r"^(?=.*\d)(?:[a-c]x|\d+y)*z$", text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        for answers in pool.map(lambda _: [Language(language.dfa).contains(text) for text in texts], range(8)):
            assert answers == expected
