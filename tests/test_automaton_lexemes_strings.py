"""String lexemes: every spelling, patterns, bounds, enums and alternatives, against `json` and the languages."""

from __future__ import annotations

import json
import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lexeme_reader import dead_ends, label_after, spelled, string_value, value_start
from slipcast.grammar.automaton.codes import BIG, BYTE_CLASSES, HIGH_BYTES, LOOPS_SET, ROW_MASK, VALUE_END
from slipcast.grammar.automaton.lexemes import Lexemes
from slipcast.grammar.automaton.specs import ValueSpec
from slipcast.grammar.automaton.tables import Tables
from slipcast.grammar.regular import ANY, Language, intersect, pattern, words

SPELLINGS = ("natural", "any")


@cache
def lexemes(spelling: str) -> Lexemes:
    return Lexemes(Tables(), spelling=spelling)


@cache
def start_of(spelling: str, *parts: tuple[Language, int]) -> tuple:
    made = lexemes(spelling)
    tags = 0
    for _, own in parts:
        tags |= own
    start = made.value(ValueSpec(strings=parts, all_tags=tags, leading=False))
    return made.tables, value_start(made.tables, start), start


def tags_after(spelling: str, parts: tuple[tuple[Language, int], ...], text: bytes | str) -> int:
    tables, at, start = start_of(spelling, *parts)
    label = label_after(tables, at, text)
    return 0 if label is None else start.tags_of(label)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_short_byte_sequence(spelling: str) -> None:
    tables, at, _ = start_of(spelling, (ANY, 1))
    inner = [bytes((a,)) for a in range(256)] + [bytes((a, b)) for a in range(256) for b in range(256)]
    wrong = [
        x
        for x in inner
        if (label_after(tables, at, b'"' + x + b'"') is not None)
        is not (string_value(b'"' + x + b'"', spelling) is not None)
    ]
    assert wrong == []


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_longer_byte_sequences_near_the_edges(spelling: str) -> None:
    tables, at, _ = start_of(spelling, (ANY, 1))
    seed = random.Random(7)
    edges = [
        0x00,
        0x1F,
        0x22,
        0x5C,
        0x75,
        0x64,
        0x44,
        0x38,
        0x63,
        0x30,
        0x37,
        0x46,
        0x7F,
        0x80,
        0x8F,
        0x90,
        0x9F,
        0xA0,
        0xBF,
        0xC0,
        0xC1,
        0xC2,
        0xDF,
        0xE0,
        0xE1,
        0xEC,
        0xED,
        0xEE,
        0xEF,
        0xF0,
        0xF1,
        0xF3,
        0xF4,
        0xF5,
        0xFF,
    ]
    for _ in range(20_000):
        text = b'"' + bytes(seed.choice(edges) for _ in range(seed.randint(3, 6))) + b'"'
        assert (label_after(tables, at, text) is not None) is (string_value(text, spelling) is not None), text


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_unicode_escape(spelling: str) -> None:
    tables, at, _ = start_of(spelling, (ANY, 1))
    for unit in [*range(0x180), *range(0x180, 0x10000, 13), *range(0xD7F8, 0xE008)]:
        text = b'"\\u%04x"' % unit if unit & 1 else b'"\\u%04X"' % unit
        assert (label_after(tables, at, text) is not None) is (string_value(text, spelling) is not None), text
    for high in (0xD7FF, 0xD800, 0xDABC, 0xDBFF, 0xDC00):
        for low in (0x0041, 0xD800, 0xDBFF, 0xDC00, 0xDEAD, 0xDFFF, 0xE000):
            text = b'"\\u%04x\\u%04x"' % (high, low)
            assert (label_after(tables, at, text) is not None) is (string_value(text, spelling) is not None), text


_PATTERNS = {
    "letters": pattern("^[a-z]+$"),
    "search": pattern("foo"),
    "not slash": pattern("^[^/]*/[^/]*$"),
    "greek": pattern("^[Ͱ-Ͽ]{1,3}$"),
    "three": pattern("^.{3}x"),
    "quotes": pattern(r'^("|\\|\n)+$'),
    "astral": pattern("[😀-🙏]b?$"),
    "mixed need": pattern(r"^(é|èx|\n|\t\t|😀y)*$"),
    "date": pattern(r"^\d{4}-(0[1-9]|1[0-2])$"),
    "bounded": Language(pattern("^(ab|c)*$").dfa, 2, 5),
    "short": Language(ANY.dfa, 1, 3),
    "long": Language(ANY.dfa, 2, None),
    "class": pattern("^[a-c]{2,4}$"),
    "odd": Language(pattern("^(aa)*$").dfa, 3, 7),
    "words": words(["foo", "", "a", "é", "éa", 'a"b', "c/d", "\n", "😀"]),
    "any": ANY,
}
_TEXTS = st.one_of(
    st.text(alphabet='abcx01-/"\\\né', max_size=6),
    st.text(alphabet="foéèxyδ\t\nω😀🙏", max_size=5),
    st.sampled_from(
        ["foo", "xfoox", "2024-12", 'a"b', "c/d", "éa", "ab", "abab", "cc", "aaaa", "aaaaaa", "δω", "abcx"]
    ),
)


@given(st.data(), st.sampled_from(SPELLINGS), st.sampled_from(sorted(_PATTERNS)), _TEXTS)
@settings(max_examples=400, deadline=None)
def test_a_language_in_every_spelling(data: st.DataObject, spelling: str, name: str, text: str) -> None:
    written = "".join(data.draw(st.sampled_from(ways)) for ways in spelled(text, spelling))
    language = _PATTERNS[name]
    assert tags_after(spelling, ((language, 1),), f'"{written}"') == int(language.contains(text))


@given(st.data(), st.lists(st.sampled_from(sorted(_PATTERNS)), min_size=2, max_size=4, unique=True), _TEXTS)
@settings(max_examples=400, deadline=None)
def test_alternatives_are_told_apart_at_the_closing_quote(data: st.DataObject, names: list[str], text: str) -> None:
    parts = tuple((_PATTERNS[name], 1 << i % 3) for i, name in enumerate(names))
    written = "".join(data.draw(st.sampled_from(ways)) for ways in spelled(text, "natural"))
    wanted = 0
    for language, tags in parts:
        wanted |= tags if language.contains(text) else 0
    assert tags_after("natural", parts, f'"{written}"') == wanted


_WALKED = ["letters", "mixed need", "bounded", "short", "class", "odd", "words", "quotes", "date"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", _WALKED)
@pytest.mark.parametrize("bounds", [(0, None), (0, 3), (2, 4), (1, 1)])
def test_no_dead_end(spelling: str, name: str, bounds: tuple[int, int | None]) -> None:
    language = _PATTERNS[name]
    low, high = bounds
    cut = intersect(language, Language(ANY.dfa, low, high))
    if cut.is_empty:
        return
    tables, at, start = start_of(spelling, (cut, 1))
    if start.high == BIG:
        # an endless count would make endless configurations; without an upper bound it is of no consequence
        assert _row_dead_ends(tables, at.row) == []
    else:
        assert dead_ends(tables, at) == []


def _row_dead_ends(tables: Tables, row: int) -> list[int]:
    before: dict[int, set[int]] = {row: set()}
    alive = set()
    waiting = [row]
    for current in waiting:
        values = tables.values(current)
        if (values < 0).any() or tables.accept[current]:
            alive.add(current)
        for target in set((values[values > 0] & ROW_MASK).tolist()):
            if target not in before:
                before[target] = set()
                waiting.append(target)
            before[target].add(current)
    queue = list(alive)
    while queue:
        for source in before[queue.pop()]:
            if source not in alive:
                alive.add(source)
                queue.append(source)
    return [r for r in before if r not in alive]


@given(st.sampled_from(["mixed need", "bounded", "any", "not slash"]), st.integers(0, 4), st.integers(0, 4), _TEXTS)
@settings(max_examples=300, deadline=None)
def test_bounds_count_code_points(name: str, low: int, more: int, text: str) -> None:
    language = intersect(_PATTERNS[name], Language(ANY.dfa, low, low + more))
    expected = int(_PATTERNS[name].contains(text) and low <= len(text) <= low + more)
    if language.is_empty:
        assert not expected
        return
    for escaped in (False, True):
        assert tags_after("natural", ((language, 1),), json.dumps(text, ensure_ascii=escaped)) == expected


def test_a_bound_beside_an_enum_stays_a_counter() -> None:
    made = Lexemes(Tables())
    parts = ((words(["red", "green"]), 1), (Language(ANY.dfa, 0, 100), 2))
    start = made.value(ValueSpec(strings=parts, all_tags=3))
    assert (start.low, start.high) == (0, 100)
    parts = ((words(["red", "green"]), 1), (Language(ANY.dfa, 0, 4), 2))
    start = made.value(ValueSpec(strings=parts, all_tags=3))
    assert (start.low, start.high) == (0, BIG)
    at = value_start(made.tables, start)
    assert start.tags_of(label_after(made.tables, at, '"green"') or 0) == 1
    assert start.tags_of(label_after(made.tables, at, '"red"') or 0) == 3
    assert label_after(made.tables, at, '"gree"') is not None
    assert label_after(made.tables, at, '"greem"') is None


def test_bounds_that_make_no_difference_are_dropped() -> None:
    made = Lexemes(Tables())

    def bounds(*parts: tuple[Language, int]) -> tuple[int, int]:
        start = made.value(ValueSpec(strings=parts, all_tags=3))
        return start.low, start.high

    short, middle, long = Language(ANY.dfa, 0, 10), Language(ANY.dfa, 5, 50), Language(ANY.dfa, 51, 90)
    letters = Language(pattern("^[a-z]*$").dfa, 0, 7)
    assert bounds((short, 1), (middle, 1), (long, 1)) == (0, 90)
    assert bounds((long, 2), (short, 2), (middle, 2)) == (0, 90)
    assert bounds((short, 1), (middle, 1), (Language(ANY.dfa, 0, 50), 2)) == (0, 50)
    assert bounds((letters, 1), (short, 3)) == (0, 10)
    assert bounds((letters, 1), (short, 2)) == (0, BIG)


def test_a_huge_bound_costs_no_rows() -> None:
    made = Lexemes(Tables())
    before = made.tables.counts
    start = made.value(ValueSpec(strings=((pattern("^[a-z]{0,50000}$"), 1),)))
    assert start.high == 50000
    at = value_start(made.tables, start)
    assert label_after(made.tables, at, '"' + "a" * 50000 + '"') == VALUE_END
    assert label_after(made.tables, at, '"' + "a" * 50001 + '"') is None
    assert made.tables.counts["dense"] - before["dense"] < 10


def test_equal_positions_share_their_rows() -> None:
    made = Lexemes(Tables())
    one = made.value(ValueSpec(strings=((pattern("^a+$"), 1),), object=True))
    other = made.value(ValueSpec(strings=((pattern("^a+$"), 4),), object=True, all_tags=4))
    assert one.row == other.row
    assert (one.tags_of(VALUE_END), other.tags_of(VALUE_END)) == (1, 4)


def test_alternatives_that_cannot_be_told_apart_fall_back_to_the_free_body() -> None:
    made = Lexemes(Tables())
    start = made.value(ValueSpec(strings=((pattern("^a"), 1), (ANY, 2)), all_tags=3, leading=False))
    tables = made.tables
    quote = tables.value(start.row, 0x22) & ROW_MASK
    left = tables.value(quote, ord("b")) & ROW_MASK
    assert left == tables.value(left, ord("z")) & ROW_MASK
    assert left == made.bodies.strings.body(6)
    assert start.tags_of(6) == 2


def test_an_enum_of_ten_thousand_is_quick_and_small() -> None:
    made = Lexemes(Tables())
    seed = random.Random(3)
    values = {"".join(seed.choice("abcdefgh -_é") for _ in range(seed.randint(4, 24))) for _ in range(10_000)}
    start = made.value(ValueSpec(strings=((words(values), 1),)))
    at = value_start(made.tables, start)
    for value in sorted(values)[::500]:
        assert label_after(made.tables, at, json.dumps(value, ensure_ascii=False)) == VALUE_END
        assert label_after(made.tables, at, json.dumps(value)) == VALUE_END
        assert label_after(made.tables, at, json.dumps(value + "?")) is None
    assert made.tables.nbytes() < 25_000_000


@pytest.mark.parametrize("name", ["search", "not slash", "any", "letters", "three", "long", "mixed need"])
def test_what_may_be_skipped_over_is_never_refused(name: str) -> None:
    """No text of characters whose classes are in a row's summary leads from it to a dead end."""
    tables, at, _ = start_of("natural", (_PATTERNS[name], 1))
    seed = random.Random(11)
    seen, waiting = {at.row}, [at.row]
    for row in waiting:
        low, high = tables.loops[row].tolist()
        summary = (low & (1 << 64) - 1) | (high << 64)
        if summary & LOOPS_SET:
            plain = [chr(byte) for byte in range(0x20, 0x80) if summary >> BYTE_CLASSES[byte] & 1]
            wide = ["é", "\u0800", "\ud7ff", "\ue000", "😀", "\U0010ffff"] if summary >> HIGH_BYTES & 1 else []
            for _ in range(50):
                current = row
                for byte in "".join(seed.choice(plain + wide) for _ in range(6)).encode():
                    value = tables.value(current, byte)
                    assert value > 0
                    current = value & ROW_MASK
        for byte in range(0x20, 0x80):
            target = tables.value(row, byte) & ROW_MASK if byte != 0x5C and tables.value(row, byte) > 0 else row
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    loops = [row for row in seen if tables.loops[row, 1]]
    assert bool(loops) is (name in ("search", "not slash", "any", "letters", "long", "three"))
