"""Key lexemes: names, classes by pattern, filters, used keys, punctuation; no filter leads into a dead end."""

from __future__ import annotations

import json
import random
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lexeme_reader import dead_ends, key_start, label_after, name_label, spelled
from slipcast.grammar.automaton.codes import FIRST_LABEL, OBJECT_CLOSE
from slipcast.grammar.automaton.lexemes import Lexemes
from slipcast.grammar.automaton.specs import KeyLexeme, KeySpec, Whitespace
from slipcast.grammar.automaton.tables import Tables
from slipcast.grammar.regular import ANY, Language, complement, intersect, pattern, words

SPELLINGS = ("natural", "any")
NAMES = ("name", "na", "", "id", "nämé", 'a"b\\', "tab\t", "x-1", "idé", "😀")
SOURCES = ("^x-", "é$", "^[a-z]{1,2}$", "^a*$", "")
TEXTS = st.one_of(
    st.sampled_from([*NAMES, "nam", "names", "x-", "x-é", "é", "ab", "aa", "aaa", 'a"', "tab", "😁", "id\n"]),
    st.text(alphabet='axni-dé"\\\t', max_size=4),
)


@cache
def lexemes(spelling: str, mode: str = "bounded") -> Lexemes:
    return Lexemes(Tables(), spelling=spelling, whitespace=Whitespace(mode))


def spec(names: tuple[str, ...] = NAMES, sources: tuple[str, ...] = (), other: bool = True) -> KeySpec:
    return KeySpec(names, tuple(pattern(source).unbounded().dfa for source in sources), other)


def expected(lexeme: KeyLexeme, sources: tuple[str, ...], other: bool, key: str) -> int | None:
    """The label of a key, by the definition."""
    if key in lexeme.used:
        return None
    if key in lexeme.names:
        return name_label(lexeme, key)
    signature = sum(1 << i for i, source in enumerate(sources) if pattern(source).contains(key))
    if not signature and not other:
        return None
    return FIRST_LABEL + lexeme.signatures.index(signature)


def everything(lexeme: KeyLexeme) -> int:
    return (1 << lexeme.labels - FIRST_LABEL) - 1


@given(
    st.data(),
    st.sampled_from(SPELLINGS),
    st.lists(st.sampled_from(NAMES), unique=True),
    st.lists(st.sampled_from(SOURCES), max_size=3, unique=True),
    st.booleans(),
    TEXTS,
)
@settings(max_examples=200, deadline=None)
def test_a_key_gets_its_label_in_every_spelling(
    data: st.DataObject, spelling: str, names: list[str], sources: list[str], other: bool, key: str
) -> None:
    made = lexemes(spelling)
    lexeme = made.keys(spec(tuple(names), tuple(sources), other))
    written = "".join(data.draw(st.sampled_from(ways)) for ways in spelled(key, spelling))
    if not lexeme.labels - FIRST_LABEL:
        return
    at = key_start(made.tables, lexeme, everything(lexeme))
    assert label_after(made.tables, at, f'"{written}":') == expected(lexeme, tuple(sources), other, key)


@given(
    st.sampled_from(SPELLINGS),
    st.lists(st.sampled_from(NAMES), unique=True),
    st.lists(st.sampled_from(SOURCES), max_size=2, unique=True),
    st.booleans(),
    st.data(),
    TEXTS,
)
@settings(max_examples=200, deadline=None)
def test_a_filter_lets_exactly_the_allowed_labels_through(
    spelling: str, names: list[str], sources: list[str], other: bool, data: st.DataObject, key: str
) -> None:
    made = lexemes(spelling)
    lexeme = made.keys(spec(tuple(names), tuple(sources), other))
    mask = data.draw(st.integers(0, everything(lexeme)))
    label = expected(lexeme, tuple(sources), other, key)
    if label is not None and not mask >> label - FIRST_LABEL & 1:
        label = None
    at = key_start(made.tables, lexeme, mask)
    for ascii_only in (False, True):
        assert label_after(made.tables, at, json.dumps(key, ensure_ascii=ascii_only) + ":") == label


@pytest.mark.parametrize("wide", [False, True], ids=["narrow", "wide"])
@pytest.mark.parametrize("sources", [(), ("^x-",), ("^[a-z]{1,2}$", "é$"), ("^ab?$",)], ids=str)
@pytest.mark.parametrize("other", [False, True])
def test_no_filter_leads_into_a_dead_end(wide: bool, sources: tuple[str, ...], other: bool) -> None:
    made = Lexemes(Tables(), whitespace=Whitespace("compact"))
    names = ("ab", "abc", "a", "xé", "x", "b\n") + (tuple(f"n{i}" for i in range(70)) if wide else ())
    lexeme = made.keys(spec(names, sources, other))
    seed = random.Random(5)
    masks = [everything(lexeme)] + [1 << i for i in range(min(lexeme.labels - FIRST_LABEL, 9))]
    masks += [seed.getrandbits(lexeme.labels - FIRST_LABEL) for _ in range(3)]
    for mask in masks:
        at = key_start(made.tables, lexeme, mask, row=lexeme.first_open)
        walked = dead_ends(made.tables, at)
        assert [c for c in walked if c != at] == [], mask
        # the start itself is dead only if no allowed label has a key
        assert (at in walked) is not any(
            mask >> i & 1 and _has_key(lexeme, i, sources, names) for i in range(lexeme.labels - FIRST_LABEL)
        )


def _has_key(lexeme: KeyLexeme, index: int, sources: tuple[str, ...], names: tuple[str, ...]) -> bool:
    if index >= len(lexeme.signatures):
        return True
    rest: list[Language] = [ANY]
    signature = lexeme.signatures[index]
    tests = [(pattern(source), bool(signature >> i & 1)) for i, source in enumerate(sources)]
    tests.append((words(names), False))
    for language, inside in tests:
        rest = [intersect(a, b) for a in rest for b in ((language,) if inside else complement(language))]
    return any(not part.is_empty for part in rest)


def test_a_class_whose_keys_are_all_named_is_never_offered() -> None:
    made = Lexemes(Tables(), whitespace=Whitespace("compact"))
    lexeme = made.keys(spec(("a", "b"), ("^[ab]$",), False))
    at = key_start(made.tables, lexeme, 1)
    assert lexeme.signatures == (1,)
    assert label_after(made.tables, at, '"a":') is None
    assert dead_ends(made.tables, at) == []
    lexeme = made.keys(spec(("a",), ("^[ab]$",), False))
    at = key_start(made.tables, lexeme, 1)
    assert label_after(made.tables, at, '"b":') == FIRST_LABEL
    assert label_after(made.tables, at, '"a":') is None


@given(
    st.sampled_from(SPELLINGS),
    st.lists(st.sampled_from(NAMES), unique=True, max_size=4),
    st.lists(st.sampled_from(SOURCES[:3]), max_size=2, unique=True),
    st.lists(TEXTS, min_size=1, max_size=4, unique=True),
    TEXTS,
    st.data(),
)
@settings(max_examples=100, deadline=None)
def test_used_keys_do_not_come_again(
    spelling: str, names: list[str], sources: list[str], used: list[str], key: str, data: st.DataObject
) -> None:
    made = lexemes(spelling)
    base = made.keys(spec(tuple(names), tuple(sources)))
    lexeme = base
    for name in used:
        if name not in names:
            lexeme = made.extended(lexeme, name)
    for probe in (key, *used):
        written = "".join(data.draw(st.sampled_from(ways)) for ways in spelled(probe, spelling))
        at = key_start(made.tables, lexeme, everything(lexeme))
        assert label_after(made.tables, at, f'"{written}":') == expected(lexeme, tuple(sources), True, probe)
        if probe not in names:
            again = key_start(made.tables, base, everything(base))
            assert label_after(made.tables, again, f'"{written}":') == expected(base, tuple(sources), True, probe)


@pytest.mark.parametrize("names", [("ab",), tuple(f"n{i}" for i in range(70))], ids=["narrow", "wide"])
@pytest.mark.parametrize("sources", [(), ("^a",)], ids=str)
def test_used_keys_leave_no_dead_end(names: tuple[str, ...], sources: tuple[str, ...]) -> None:
    made = Lexemes(Tables(), whitespace=Whitespace("compact"))
    lexeme = made.keys(spec(names, sources))
    for name in ("a", "aé", "abc", ""):
        lexeme = made.extended(lexeme, name)
    for mask in (everything(lexeme), 1, 2, everything(lexeme) & ~1):
        assert dead_ends(made.tables, key_start(made.tables, lexeme, mask, row=lexeme.first_open)) == []


def test_the_order_of_used_keys_does_not_matter() -> None:
    made = lexemes("natural")
    lexeme = made.keys(spec(("p",)))
    assert made.extended(made.extended(lexeme, "a"), "b") is made.extended(made.extended(lexeme, "b"), "a")
    with pytest.raises(ValueError, match="undeclared"):
        made.extended(lexeme, "p")


_SPACE = {
    "bounded": ([' \n "k"\t : ', '"k":'], ['"k" ', " " * 9 + '"k":']),
    "compact": (['"k":'], [' "k":', '"k" :', '"k": ']),
    "spaced": (['"k": '], ['"k":', ' "k": ', '"k" : ']),
    "pretty": (['\n    "k": '], ['"k": ', '\n  "k": ', '\n    "k":']),
}


@pytest.mark.parametrize("mode", sorted(_SPACE))
def test_white_space_around_keys(mode: str) -> None:
    made = Lexemes(Tables(), whitespace=Whitespace(mode))
    lexeme = made.keys(KeySpec(("k",), depth=2))
    tables = made.tables
    good, bad = _SPACE[mode]
    at = key_start(tables, lexeme, 3)
    after = key_start(tables, lexeme, 3, row=lexeme.next)
    for text in good:
        text = text.rstrip() + (" " if mode in ("spaced", "pretty") else "")
        assert label_after(tables, at, text) == name_label(lexeme, "k")
        comma = "," + (" " if mode == "spaced" else "")
        assert label_after(tables, after, comma + text) == name_label(lexeme, "k")
        assert label_after(tables, after, text) is None
    for text in bad:
        assert label_after(tables, at, text) is None
    assert label_after(tables, at, "}") == OBJECT_CLOSE
    close = "\n  }" if mode == "pretty" else "}"
    assert label_after(tables, after, close) == OBJECT_CLOSE
    assert label_after(tables, after, ",}") is None
    for row in (lexeme.first_open, lexeme.next_open):
        assert label_after(tables, key_start(tables, lexeme, 3, row=row), "}") is None
        assert label_after(tables, key_start(tables, lexeme, 3, row=row), close) is None


@pytest.mark.parametrize("where", ['{0}"k":', '"k"{0}:', '{0},"k":', ',{0}"k":', "{0}}}"])
def test_runs_are_bounded_everywhere(where: str) -> None:
    made = lexemes("natural")
    lexeme = made.keys(KeySpec(("k",)))
    row = lexeme.next if "," in where or "}}" in where else lexeme.first
    at = key_start(made.tables, lexeme, 3, row=row)
    for count in range(12):
        space = " \n\t\r"[count % 4] * count
        assert (label_after(made.tables, at, where.format(space)) is not None) is (count <= 8)


def test_nothing_allowed_means_no_comma() -> None:
    for mode in _SPACE:
        made = Lexemes(Tables(), whitespace=Whitespace(mode))
        lexeme = made.keys(KeySpec(("k",), depth=1))
        at = key_start(made.tables, lexeme, 0, row=lexeme.next)
        assert dead_ends(made.tables, at) == []
        assert label_after(made.tables, at, "\n}" if mode == "pretty" else "}") == OBJECT_CLOSE
        at = key_start(made.tables, lexeme, 0)
        assert dead_ends(made.tables, at) == []


def test_no_keys_at_all() -> None:
    for mode in _SPACE:
        made = Lexemes(Tables(), whitespace=Whitespace(mode))
        lexeme = made.keys(KeySpec((), (), False))
        assert label_after(made.tables, key_start(made.tables, lexeme, 0), "}") == OBJECT_CLOSE
        assert label_after(made.tables, key_start(made.tables, lexeme, 0), '"a":') is None


def test_thousands_of_names() -> None:
    made = Lexemes(Tables())
    names = tuple(f"property_{i * 7919 % 100_003}_{i}" for i in range(3000))
    lexeme = made.keys(KeySpec(names))
    tables = made.tables
    for i in range(0, 3000, 97):
        at = key_start(tables, lexeme, 1 << 1 + i)
        assert label_after(tables, at, f'"{names[i]}":') == FIRST_LABEL + 1 + i
        assert label_after(tables, at, f'"{names[i - 1]}":') is None
        assert label_after(tables, at, '"other":') is None
        at = key_start(tables, lexeme, 1)
        assert label_after(tables, at, f'"{names[i]}":') is None
        assert label_after(tables, at, f'"{names[i]}x":') == FIRST_LABEL
    assert tables.nbytes() < 3000 * 3000


def test_objects_with_equal_keys_share_them() -> None:
    made = lexemes("natural")
    assert made.keys(spec(("a", "b"))) is made.keys(spec(("a", "b")))
    one, two = made.keys(spec(("a",))), made.keys(spec(("a", "b")))
    tables = made.tables
    # after leaving the names both are in the one body of undeclared keys
    rows = {tables.value(x.text.root, ord("z")) & 0xFFFFFF for x in (one, two)}
    assert len(rows) == 1


def test_a_name_with_a_lone_surrogate_is_in_no_text() -> None:
    made = lexemes("natural")
    lexeme = made.keys(KeySpec(("a", "\ud800"), (), False))
    at = key_start(made.tables, lexeme, 3)
    assert label_after(made.tables, at, '"a":') == FIRST_LABEL
    assert label_after(made.tables, at, '"\\ud800":') is None
    assert dead_ends(made.tables, key_start(made.tables, lexeme, 2, row=lexeme.first)) == []
