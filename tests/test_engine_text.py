"""Incremental text: whole characters, stop strings across pieces, and independence of how the bytes were cut."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slipcast.engine.text import StopFinder, StopMatch, TextStream


def read(stream: TextStream, pieces: list[bytes]) -> tuple[str, str | None]:
    """All text that comes out, and the stop string met."""
    text = ""
    for piece in pieces:
        out = stream.push(piece)
        if isinstance(out, StopMatch):
            return text + out.text, out.stop
        text += out
    return text + stream.flush(), None


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[a:b] for a, b in itertools.pairwise(edges)]


@given(st.text(), st.lists(st.integers(0, 1000), max_size=20))
def test_any_cut_gives_the_text(text, places):
    assert read(TextStream(), cut(text.encode(), places)) == (text, None)


@given(st.text("abé€😀"), st.lists(st.integers(0, 1000), max_size=20))
def test_what_comes_out_is_always_a_prefix_without_replacement(text, places):
    stream, seen = TextStream(), ""
    for piece in cut(text.encode(), places):
        seen += stream.push(piece)
        assert text.startswith(seen) and "\ufffd" not in seen


def by_definition(text: str, stops: list[str]) -> tuple[str, str | None]:
    """The output ends where a stop string is first complete; of several that end there, the longest."""
    for end in range(1, len(text) + 1):
        complete = [stop for stop in stops if text[:end].endswith(stop)]
        if complete:
            stop = max(complete, key=len)
            return text[: end - len(stop)], stop
    return text, None


@given(
    st.text("ab€", max_size=30),
    st.lists(st.text("ab€", min_size=1, max_size=5), max_size=4, unique=True),
    st.lists(st.integers(0, 1000), max_size=30),
)
@settings(max_examples=400)
def test_stops_do_not_depend_on_cuts(text, stops, places):
    assert read(TextStream(stops), cut(text.encode(), places)) == by_definition(text, stops)


def test_only_what_may_become_a_stop_string_is_held():
    finder = StopFinder(["END", "xyz"])
    assert finder.push("hello E") == "hello "
    assert finder.push("N") == ""
    assert finder.push("T x") == "ENT "
    assert finder.push("y") == ""
    assert finder.flush() == "xy"
    assert finder.flush() == ""


def test_bytes_that_are_no_text():
    assert read(TextStream(), [b"a\xff", b"b"]) == ("a\ufffdb", None)
    assert read(TextStream(), [b"\xe2", b"\x82"]) == ("", None)  # incomplete at the end
    assert read(TextStream(), [b"\xe2\x82", b"a"]) == ("\ufffda", None)
    stream = TextStream()
    assert [stream.push(bytes([byte])) for byte in "😀!".encode()] == ["", "", "", "😀", "!"]


@pytest.mark.parametrize("piece", [b"", b"\xe2"])
def test_nothing_yet(piece):
    assert TextStream(["a"]).push(piece) == ""
