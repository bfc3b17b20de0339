"""Numbers, literals, white space and brackets of value positions, and what follows an array's item."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lexeme_reader import dead_ends, frame_of, label_after, value_start
from slipcast.grammar.automaton.codes import ARRAY_CLOSE, ARRAY_OPEN, ITEM_NEXT, OBJECT_OPEN, VALUE_END
from slipcast.grammar.automaton.lexemes import Lexemes
from slipcast.grammar.automaton.specs import ValueSpec, Whitespace
from slipcast.grammar.automaton.stepper import Configuration
from slipcast.grammar.automaton.tables import Tables
from slipcast.grammar.regular import ANY, Language, NumberSpec, numbers, words

MODES = ("bounded", "compact", "spaced", "pretty")


def number(low: int | None = None, high: int | None = None, steps: tuple[Fraction, ...] = ()) -> NumberSpec:
    return NumberSpec(
        low=None if low is None else Fraction(low),
        low_open=False,
        high=None if high is None else Fraction(high),
        high_open=False,
        steps=steps,
        not_steps=(),
        excluded=(),
        only=None,
    )


INTEGER = numbers(number(steps=(Fraction(1),)), spelling="natural", max_digits=20)
SMALL = numbers(number(-5, 120, (Fraction(1),)), spelling="natural", max_digits=20)
DECIMAL = numbers(number(), spelling="natural", max_digits=20)
DFAS = {"integer": INTEGER, "small": SMALL, "decimal": DECIMAL}


def holds(name: str, text: str) -> bool:
    dfa = DFAS[name]
    state = dfa.start
    for char in text:
        state = next((t for chars, t in dfa.step(state) if char in chars), None) if state is not None else None
    return state is not None and dfa.accepting(state)


_NUMBERS = st.one_of(
    st.integers(-200, 200).map(str),
    st.decimals(-1000, 1000, places=2).map(str),
    st.text(alphabet="-0123.e+", max_size=6),
)


@given(st.lists(st.sampled_from(sorted(DFAS)), min_size=1, max_size=3, unique=True), _NUMBERS)
@settings(max_examples=300, deadline=None)
def test_alternatives_among_numbers(names: list[str], text: str) -> None:
    parts = tuple((DFAS[name], 1 << i) for i, name in enumerate(names))
    tags = (1 << len(names)) - 1
    start = MADE.value(ValueSpec(numbers=parts, all_tags=tags))
    label = label_after(MADE.tables, value_start(MADE.tables, start), text)
    expected = sum(tag for name, (_, tag) in zip(names, parts, strict=True) if holds(name, text))
    assert (0 if label is None else start.tags_of(label)) == expected


MADE = Lexemes(Tables())


def test_a_number_ends_where_it_cannot_go_on() -> None:
    tables = MADE.tables
    at = value_start(tables, MADE.value(ValueSpec(numbers=((INTEGER, 1),))))
    frame = tables.frame(("then",), _Then(tables), labels=8)
    assert label_after(tables, Configuration(at.row, frame), "12]") == VALUE_END
    assert label_after(tables, Configuration(at.row, frame), "01]") is None
    assert label_after(tables, Configuration(at.row, frame), "-]") is None


class _Then:
    """After a value one bracket."""

    def __init__(self, tables: Tables) -> None:
        self.tables = tables
        self.row = tables.sparse()
        tables.set_sparse(self.row, 0, [(ord("]"), -(VALUE_END + 1))])

    def fill(self, frame: int, label: int) -> tuple[int, int]:
        return self.row, frame_of(self.tables)

    def resolve(self, frame: int, label: int, texts: tuple[bytes, ...]) -> tuple[int, int]:
        return self.fill(frame, label)


def test_literals_and_openings() -> None:
    spec = ValueSpec(
        strings=((ANY, 1),),
        numbers=((INTEGER, 2),),
        literals=(("true", 4), ("null", 8), ("true", 1)),
        object=True,
        array=True,
        all_tags=15,
    )
    start = MADE.value(spec)
    at = value_start(MADE.tables, start)

    def tags(text: str) -> int:
        label = label_after(MADE.tables, at, text)
        return 0 if label is None else start.tags_of(label)

    assert [tags(text) for text in ('"a"', "7", "true", "null", "false", "nul")] == [1, 2, 5, 8, 0, 0]
    assert label_after(MADE.tables, at, "{") == OBJECT_OPEN
    assert label_after(MADE.tables, at, "[") == ARRAY_OPEN
    assert label_after(MADE.tables, at, "]") is None
    assert dead_ends(MADE.tables, value_start(MADE.tables, MADE.value(ValueSpec(literals=(("true", 1),))))) == []
    with pytest.raises(ValueError, match="literal"):
        MADE.value(ValueSpec(literals=(("7", 1),)))
    with pytest.raises(ValueError, match="nothing"):
        MADE.value(ValueSpec())
    with pytest.raises(ValueError, match="nothing"):
        MADE.value(ValueSpec(strings=((Language(words(["a"]).dfa, 2, None), 1), (Language(ANY.dfa, 3, 2), 1))))


@given(st.text(alphabet=" \t\r\n", max_size=12))
def test_leading_white_space_is_bounded(space: str) -> None:
    at = value_start(MADE.tables, MADE.value(ValueSpec(literals=(("true", 1),), closable=True)))
    assert (label_after(MADE.tables, at, space + "true") == VALUE_END) is (len(space) <= 8)
    assert (label_after(MADE.tables, at, space + "]") == ARRAY_CLOSE) is (len(space) <= 8)
    at = value_start(MADE.tables, MADE.value(ValueSpec(literals=(("true", 1),), leading=False)))
    assert (label_after(MADE.tables, at, space + "true") == VALUE_END) is (space == "")
    assert label_after(MADE.tables, at, "\u00a0true") is None


def test_a_run_may_be_longer_or_nothing() -> None:
    for longest in (0, 1, 20):
        made = Lexemes(Tables(), whitespace=Whitespace(longest=longest))
        at = value_start(made.tables, made.value(ValueSpec(literals=(("true", 1),))))
        for count in range(23):
            assert (label_after(made.tables, at, " " * count + "true") == VALUE_END) is (count <= longest)


@pytest.mark.parametrize("mode", MODES)
def test_first_items(mode: str) -> None:
    made = Lexemes(Tables(), whitespace=Whitespace(mode, indent=3))
    line = "\n      " if mode == "pretty" else ""
    for closable in (False, True):
        spec = ValueSpec(literals=(("true", 1),), first_item=True, closable=closable, depth=2)
        at = value_start(made.tables, made.value(spec))
        assert label_after(made.tables, at, line + "true") == VALUE_END
        assert (label_after(made.tables, at, "]") == ARRAY_CLOSE) is closable
        assert dead_ends(made.tables, at) == []
        if mode == "pretty":
            assert label_after(made.tables, at, "true") is None
            assert label_after(made.tables, at, line + "]") is None


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("more", "close"), [(True, True), (True, False), (False, True)])
def test_after_an_item(mode: str, more: bool, close: bool) -> None:
    made = Lexemes(Tables(), whitespace=Whitespace(mode))
    tables = made.tables
    at = Configuration(made.after_item(more, close, 2), frame_of(tables))
    comma = {"bounded": ",", "compact": ",", "spaced": ", ", "pretty": ",\n    "}[mode]
    bracket = "\n  ]" if mode == "pretty" else "]"
    assert (label_after(tables, at, comma) == ITEM_NEXT) is more
    assert (label_after(tables, at, bracket) == ARRAY_CLOSE) is close
    assert (label_after(tables, at, " " + comma) is not None) is (more and mode == "bounded")
    assert dead_ends(tables, at) == []
    assert made.after_item(more, close, 2) == at.row
    with pytest.raises(ValueError, match="comma"):
        made.after_item(False, False)


def test_white_space_options_are_checked() -> None:
    for wrong in ({"mode": "loose"}, {"indent": -1}, {"longest": 1000}):
        with pytest.raises(ValueError, match=next(iter(wrong)) if "mode" in wrong or "indent" in wrong else "longest"):
            Whitespace(**wrong)
