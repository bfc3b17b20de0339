"""Formats against the official suite, and against their own departures as documented."""

from __future__ import annotations

import datetime
import ipaddress
import json
import random
from pathlib import Path
from typing import Any

import format_tables
import numpy as np
import pytest
import regress
from slipcast.grammar.regular import EXAMPLES, FORMATS, INFINITE, Language, format_language, is_pattern
from slipcast.grammar.regular.formats import derived, tabled

SUITE = Path(__file__).parents[2] / "shared" / "data" / "json-schema-test-suite" / "tests"
NAMES = (
    "date-time date time duration email idn-email hostname idn-hostname ipv4 ipv6 uri uri-reference iri iri-reference "
    "uri-template uuid json-pointer relative-json-pointer regex"
)


def language_of(name: str) -> Language:
    found = format_language(name)
    assert found is not None
    return found


def suite_cases() -> list[tuple[str, str, bool]]:
    cases = set()
    for path in SUITE.glob("draft*/optional/format/*.json"):
        for group in json.loads(path.read_text(encoding="utf-8")):
            schema: Any = group["schema"]
            if isinstance(schema, dict) and schema.get("format") in FORMATS:
                texts = [test for test in group["tests"] if isinstance(test["data"], str)]
                cases |= {(schema["format"], test["data"], test["valid"]) for test in texts}
    return sorted(cases)


def departs(name: str, text: str) -> bool:
    """What the module says it refuses although valid."""
    return name.endswith("hostname") and "xn--" in text.lower()


@pytest.mark.skipif(not SUITE.exists(), reason="the shared data is not there")
def test_the_official_suite_is_right_but_for_the_departures() -> None:
    cases = suite_cases()
    assert len(cases) > 600
    wrong = [case for case in cases if language_of(case[0]).contains(case[1]) != case[2]]
    assert [case for case in wrong if not departs(case[0], case[1])] == []
    assert [case for case in wrong if not case[2]] == [], "an invalid text is accepted"
    assert len(wrong) <= 17


def test_all_formats_of_the_specification_are_known_and_no_other() -> None:
    assert set(NAMES.split()) == FORMATS
    assert format_language("color") is None


@pytest.mark.parametrize("name", sorted(FORMATS))
def test_no_state_is_dead_and_distances_are_true(name: str) -> None:
    dfa = language_of(name).dfa
    assert dfa.start is not None
    random.seed(name)
    seen, waiting = {dfa.start}, [dfa.start]
    for _ in range(60):
        if not waiting:
            break
        state = waiting.pop(random.randrange(len(waiting)))
        ahead = dfa.shortest(state)
        targets = [target for _, target in dfa.step(state)]
        assert ahead < INFINITE and (ahead == 0) == dfa.accepting(state)
        assert ahead == 0 or min(dfa.shortest(target) for target in targets) == ahead - 1
        waiting += [target for target in targets if target not in seen]
        seen.update(targets)


def walk(name: str, rng: random.Random) -> str:
    """A random text of a format: some random moves, then the shortest way out."""
    dfa = language_of(name).dfa
    state, text = dfa.start, ""
    assert state is not None
    for _ in range(rng.randint(0, 14)):
        moves = dfa.step(state)
        if not moves:
            break
        chars, state = rng.choice(moves)
        text += chars.sample() if rng.random() < 0.5 else chr(rng.randint(*rng.choice(chars.ranges())))
    while not dfa.accepting(state):
        ahead = dfa.shortest(state)
        chars, state = next(move for move in dfa.step(state) if dfa.shortest(move[1]) == ahead - 1)
        text += chars.sample()
    return text


def test_every_date_of_some_years_and_no_other_day() -> None:
    language = language_of("date")
    for year in (1, 1900, 1999, 2000, 2023, 2024, 2100, 2400):
        for month in range(14):
            for day in range(33):
                try:
                    datetime.date(year, month, day)
                    valid = True
                except ValueError:
                    valid = False
                assert language.contains(f"{year:04d}-{month:02d}-{day:02d}") == valid


def test_leap_seconds_are_where_it_is_midnight_in_utc() -> None:
    language = language_of("time")
    random.seed(1)
    for _ in range(3000):
        minute, offset, sign = random.randrange(1440), random.randrange(1440), random.choice("+-")
        if random.random() < 0.5:
            offset = (minute - 1439) % 1440 if sign == "+" else (1439 - minute) % 1440
        text = f"{minute // 60:02d}:{minute % 60:02d}:60{sign}{offset // 60:02d}:{offset % 60:02d}"
        utc = minute - offset if sign == "+" else minute + offset
        assert language.contains(text) == (utc % 1440 == 1439), text


def test_addresses_agree_with_the_standard_library() -> None:
    rng = random.Random(5)
    for name, alphabet in (("ipv4", "0125.9"), ("ipv6", "0:1f:.")):
        language = language_of(name)
        parse = ipaddress.IPv4Address if name == "ipv4" else ipaddress.IPv6Address
        texts = ["".join(rng.choices(alphabet, k=rng.randint(2, 16))) for _ in range(1500)]
        for text in [*texts, *(walk(name, rng) for _ in range(200))]:
            try:
                parse(text)
                valid = True
            except ValueError:
                valid = False
            assert language.contains(text) == valid, text


def test_regex_texts_are_all_valid_patterns() -> None:
    rng = random.Random(9)
    for _ in range(400):
        text = walk("regex", rng)
        assert is_pattern(text), text
        regress.Regex(text, "u")


def test_back_references_lead_to_groups_that_are_there() -> None:
    language = language_of("regex")
    for text in (
        r"(a)\1", r"(?<n>a)\k<n>", r"(?<year_1>a)(b)\2\k<year_1>", r"((a)\2)+\1", r"(a\1)", r"(?:(a)|b)\1{2}",
        r"(a)\1b0", "(a)" * 9 + r"\9", r"(?<n>\k<n>)",
    ):  # fmt: skip
        assert language.contains(text), text
        regress.Regex(text, "u")
    for text in (
        r"\1", r"(a)\2", r"(?:a)\1", r"(?=a)\1", r"(a)\10", r"(?<n>a)\k<m>", r"(?<n>a)\k<n", r"(?<n>a)\k", r"\k<n>",
        r"(a)[\1]", r"(?<n>a)\k<nn>", r"(a)\01",
    ):  # fmt: skip
        assert not language.contains(text), text
        with pytest.raises(regress.RegressError):
            regress.Regex(text, "u")


@pytest.mark.parametrize(
    "text",
    [
        "^[a-z]+$", "[\u0430-\u044f]{2,3}", r"[\x00-\x1f]", r"[\u4e00-\u9fff]", r"(?<year>\d{4})-(?=\w)x", "[^]", "[]x",
        "(a|(b|(c|(d|e))))", "a{3,}?", "a{2,10}", r"[\w\-.]", r"\p{Script=Greek}+", "[a-]", r"\0", r"(?<!a)b", "[+--]",
    ],
)
def test_common_patterns_are_texts_of_the_regex_format(text: str) -> None:
    assert is_pattern(text) and language_of("regex").contains(text)


@pytest.mark.parametrize(
    "text", ["[z-a]", "a{3,2}", "(", "a**", r"\_", "[a", "(?P<n>x)", r"\u12", r"[\u4e00-\u0041]", "x{"]
)
def test_broken_patterns_are_not(text: str) -> None:
    assert not is_pattern(text) and not language_of("regex").contains(text)


def test_each_format_has_an_example() -> None:
    assert set(EXAMPLES) == set(FORMATS)
    for name, text in EXAMPLES.items():
        assert language_of(name).contains(text), name


SLOW = {"idn-hostname", "time", "date-time"}
TABLED = sorted(filter(tabled, FORMATS))


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in TABLED]
)
def test_tables_are_those_of_the_formats_as_they_are_said(name: str) -> None:
    kept = format_tables.kept()
    if name == "idn-hostname" and str(kept["unicode"]) != format_tables.UNICODE:
        pytest.skip(f"the table was made with {kept['unicode']}")
    assert np.array_equal(format_tables.made(name), kept[name])


@pytest.mark.parametrize("name", sorted(SLOW))
def test_large_tables_have_the_texts_of_their_formats(name: str) -> None:
    """What the slow test above holds for all texts, for some."""
    rng = random.Random(name)
    said, table = derived(name), language_of(name)
    assert (said.low, said.high) == (table.low, table.high)
    for _ in range(30):
        text = walk(name, rng)
        assert said.contains(text), text
        for _ in range(20):  # the same with a character left out or doubled
            at = rng.randrange(len(text))
            other = text[:at] + text[at : at + 2] * rng.randrange(2) + text[at + 1 :]
            assert said.contains(other) == table.contains(other), other


def test_tables_say_how_far_words_go() -> None:
    for name, low, high, countable in (
        ("uuid", 36, 36, False), ("ipv4", 7, 15, False), ("date", 10, 10, False), ("uri", 2, INFINITE, True),
        ("json-pointer", 0, INFINITE, True), ("email", 3, INFINITE, False),
    ):  # fmt: skip
        dfa = language_of(name).dfa
        assert dfa.start is not None
        assert (dfa.shortest(dfa.start), dfa.longest(dfa.start), dfa.countable) == (low, high, countable), name
