"""The boolean algebra of languages, by enumeration over a small alphabet."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slipcast.grammar.regular import (
    ALL,
    ANY,
    EMPTY,
    CharSet,
    Language,
    all_of,
    any_of,
    complement,
    counted,
    intersect,
    none_of,
    partition,
    pattern,
    union,
    whole_pattern,
    words,
)

TEXTS = ["".join(chars) for n in range(5) for chars in itertools.product("abc", repeat=n)]
SOURCES = [
    "^(ab)*$", "a", "^a", "c$", "^[ab]*$", "^(aa|aaa)*$", "^a{2,3}b?$", "b(?=c)", "^(?!a)", r"^(?:abc|b|ca)$", "^$", "",
    "[]", "^.{2}$", "^(a|b)*c(a|b)*$", r"(?<!a)b",
]
LANGUAGES = st.builds(
    lambda source, low, more: Language(pattern(source).dfa, low, None if more is None else low + more),
    st.sampled_from(SOURCES), st.integers(0, 4), st.none() | st.integers(-1, 4),
) | st.lists(st.sampled_from(TEXTS[:20]), max_size=5).map(words)  # fmt: skip


def members(language: Language) -> set[str]:
    return {text for text in TEXTS if language.contains(text)}


@settings(max_examples=150, deadline=None)
@given(LANGUAGES, LANGUAGES)
def test_operations_are_those_of_sets(a: Language, b: Language) -> None:
    both = intersect(a, b)
    assert members(both) == members(a) & members(b)
    assert members(union(a, b)) == members(a) | members(b)
    outside = [members(part) for part in complement(a)]
    assert set().union(*outside) == set(TEXTS) - members(a)
    assert sum(map(len, outside)) == len(TEXTS) - len(members(a))
    if members(both):
        assert not both.is_empty
        assert both.contains(both.shortest_word())
        assert len(both.shortest_word()) == min(map(len, members(both)))
    if both.is_empty:
        assert both.normal() == EMPTY and both.words(5) == ()
        with pytest.raises(ValueError, match="no word"):
            both.shortest_word()


@settings(max_examples=150, deadline=None)
@given(LANGUAGES)
def test_normal_forms_keep_the_language_and_make_bounds_exact(language: Language) -> None:
    normal, free = language.normal(), language.unbounded()
    assert members(normal) == members(language) == members(free)
    assert free.low == 0 and free.high is None
    assert normal.low == 0 or normal.dfa.countable
    if normal.dfa.start is None:
        return
    # With a counter beside the state, "count + shortest <= high" tells exactly which states are live.
    live = {member[:n] for member in members(free) for n in range(len(member) + 1)}
    for text in TEXTS:
        state: int | None = normal.dfa.start
        for char in text:
            if state is not None:
                state = next((t for chars, t in normal.dfa.step(state) if char in chars), None)
        alive = state is not None and (
            normal.high is None or len(text) + max(normal.dfa.shortest(state), normal.low - len(text)) <= normal.high
        )
        if normal.high is not None and normal.high <= 4:
            assert alive == (text in live), text
        elif text in live:
            assert alive, text


@settings(max_examples=150, deadline=None)
@given(LANGUAGES, st.integers(0, 12))
def test_counting_and_listing_words(language: Language, limit: int) -> None:
    listed = language.words(limit)
    count = language.cardinality(limit + 1)
    if listed is None:
        assert count == limit + 1
    else:
        assert len(listed) == count == len(set(listed)) <= limit
        assert list(listed) == sorted(listed)
        assert all(language.contains(word) for word in listed)
        assert members(language) <= set(listed)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(SOURCES), min_size=1, max_size=3), st.integers(0, 3), st.none() | st.integers(0, 5))
def test_automata_combine_like_their_languages(sources: list[str], low: int, high: int | None) -> None:
    parts = [pattern(source).unbounded().dfa for source in sources]
    sets = [{t for t in TEXTS if Language(part).contains(t)} for part in parts]
    assert members(Language(all_of(parts))) == set.intersection(*sets)
    assert members(Language(any_of(parts))) == set.union(*sets)
    assert members(Language(none_of(parts[0]))) == set(TEXTS) - sets[0]
    assert none_of(none_of(parts[0])) is parts[0]
    within = {t for t in sets[0] if low <= len(t) and (high is None or len(t) <= high)}
    assert members(Language(counted(parts[0], low, high))) == within


def test_a_gap_in_the_lengths_is_told_from_none() -> None:
    assert pattern("^[a-z]+-[0-9]*$").dfa.countable
    assert pattern("foo").dfa.countable
    assert not pattern("^(ab)*$").dfa.countable
    assert not pattern("^a{2,30}b$").normal().dfa.countable or pattern("^a{2,30}b$").high == 31
    assert Language(pattern("^(ab)*$").dfa, 3, 3).is_empty
    assert not Language(pattern("^(ab)*$").dfa, 3, 4).is_empty
    assert Language(pattern("^(aaa)*$").dfa, 1000, 1001).is_empty


def test_bounds_that_say_nothing_vanish() -> None:
    uuid = pattern("^[0-9a-f]{8}-[0-9a-f]{4}$")
    assert Language(uuid.dfa, 0, 36).normal() == Language(uuid.dfa)
    assert Language(uuid.dfa, 13, 13).normal() == Language(uuid.dfa)
    assert Language(uuid.dfa, 14, None).normal() == EMPTY


def test_ten_thousand_words_are_a_trie_built_at_once() -> None:
    values = [f"value number {n} of many" for n in range(10_000)]
    began = time.process_time()
    language = words(values)
    start = language.dfa.start
    assert start is not None and len(language.dfa.step(start)) == 1
    assert time.process_time() - began < 0.2
    assert language.contains(values[1234]) and not language.contains("value number 10000 of many")
    assert language.cardinality(20_000) == 10_000
    assert words(reversed(values)).dfa is language.dfa


def test_filtering_words_gives_words() -> None:
    found = intersect(words(["ab", "abc", "b", "\ud800"]), pattern("^a"))
    assert found == words(["abc", "ab"])
    assert found.words(5) == ("ab", "abc")


def test_counting_stops_at_the_limit() -> None:
    began = time.process_time()
    assert ANY.cardinality(1000) == 1000
    assert Language(pattern("^[a-z]*$").dfa, 0, 50_000).cardinality(500) == 500
    assert pattern("^[a-c]{2}$").cardinality(500) == 9
    assert whole_pattern("[ab]{0,2}").words(7) == ("", "a", "aa", "ab", "b", "ba", "bb")
    assert whole_pattern("[ab]{0,2}").words(6) is None
    assert time.process_time() - began < 1


RANGES = st.lists(
    st.tuples(st.sampled_from([0, 60, 97, 120, 127, 128, 300, 0xD7FF, 0xE000, 0x10000]), st.integers(0, 70)), max_size=4
).map(lambda pairs: [(low, min(low + more, 0x10FFFF)) for low, more in pairs])


@given(RANGES, RANGES)
def test_sets_of_characters_are_sets(a: list[tuple[int, int]], b: list[tuple[int, int]]) -> None:
    left, right = CharSet.of(*a), CharSet.of(*b)
    one = {c for low, high in a for c in range(low, high + 1) if not 0xD800 <= c <= 0xDFFF}
    two = {c for low, high in b for c in range(low, high + 1) if not 0xD800 <= c <= 0xDFFF}
    assert set(left) == one and len(left) == len(one) and bool(left) == bool(one)
    assert set(left & right) == one & two
    assert set(left | right) == one | two
    assert set(left - right) == one - two
    assert ~~left is left and len(~left) + len(left) == len(ALL)
    assert (left is right) == (one == two)
    assert all((c in left) == (c in one) for c in [0, 96, 97, 127, 128, 160, 0xD7FF, 0xD800, 0xE000, 0x10010])
    if one:
        assert left.sample() in left
    blocks = partition([left, right])
    assert set().union(*map(set, blocks)) == one | two and sum(map(len, blocks)) == len(one | two)
    assert all(block & s in (block, CharSet.of()) for block in blocks for s in (left, right))
    flat = [c for pair in left.ranges() for c in pair]
    assert flat == sorted(flat)
