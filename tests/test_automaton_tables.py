"""The tables: forms of rows, frames that grow, fills that fail."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from slipcast.grammar.automaton.answers import DEPENDS, Depends
from slipcast.grammar.automaton.codes import (
    BIG,
    BYTE_CLASSES,
    DEAD,
    FIRST_LABEL,
    LAZY,
    LAZY_REQUESTED,
    LOOPS_SET,
    NEVER_LOOPS,
    REQUESTED,
    STRING_LOOPS,
    TEXT_DEPENDENT,
    UNKNOWN,
)
from slipcast.grammar.automaton.keyreach import KeyReach
from slipcast.grammar.automaton.tables import DENSE_ROWS, Tables


class Scripted:
    """A handler that answers from a dictionary and counts how often it is asked."""

    def __init__(self, answers: dict[int, tuple[int, int] | Depends | Exception | None]) -> None:
        self.answers = answers
        self.asked: list[int] = []

    def fill(self, frame: int, label: int) -> tuple[int, int] | Depends | None:
        self.asked.append(label)
        answer = self.answers.get(label)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def resolve(self, frame: int, label: int, texts: tuple[bytes, ...]) -> None:
        return None


@settings(deadline=None)  # tables are large to reserve, and machines busy
@given(
    st.dictionaries(st.integers(0, 255), st.integers(-9, 9), max_size=80),
    st.dictionaries(st.integers(0, 255), st.integers(-9, 9), max_size=12),
)
def test_a_sparse_row_is_its_base_with_edges_over_it(base: dict[int, int], edges: dict[int, int]) -> None:
    tables = SHARED
    dense = tables.dense()
    for byte, value in base.items():
        tables.rows[dense, byte] = value
    row = tables.sparse()
    tables.set_sparse(row, dense, edges.items())
    wanted = [{**base, **edges}.get(byte, 0) for byte in range(256)]
    assert tables.values(row).tolist() == wanted
    assert [tables.value(row, byte) for byte in range(256)] == wanted


SHARED = Tables()


def test_too_many_edges_are_refused() -> None:
    tables = Tables()
    with pytest.raises(ValueError, match="64 edges"):
        tables.set_sparse(tables.sparse(), 0, [(byte, 1) for byte in range(64)])


def test_a_lazy_row_is_built_once() -> None:
    tables = Tables()
    built = []

    def build(row: int) -> None:
        built.append(row)
        tables.rows[row, 65] = 7

    row = tables.lazy(build)
    assert tables.is_lazy(row)
    assert tables.value(row, 65) == 7
    tables.build_row(row)
    assert built == [row]
    light = tables.lazy(lambda row: tables.set_sparse(row, 0, [(66, 8)]), light=True)
    assert light >= DENSE_ROWS
    assert tables.values(light)[66] == 8


def test_a_block_of_lazy_rows_shares_its_builder() -> None:
    tables = Tables()
    blocks = [tables.lazy_block(3, lambda row, k=k: tables.set_sparse(row, 0, [(65, k)])) for k in (1, 2)]
    assert [tables.value(blocks[k] + i, 65) for k in (0, 1) for i in (2, 0, 1)] == [1, 1, 1, 2, 2, 2]


def test_a_builder_that_fails_leaves_the_row_lazy() -> None:
    tables = Tables()
    fail = [True]

    def build(row: int) -> None:
        tables.rows[row, 65] = 7
        if fail[0]:
            raise RuntimeError("no")

    row = tables.lazy(build)
    tables.form[row, 0] = LAZY_REQUESTED
    with pytest.raises(RuntimeError):
        tables.build_row(row)
    assert tables.form[row, 0] == LAZY
    assert tables.rows[row].sum() == 0
    fail[0] = False
    assert tables.value(row, 65) == 7


def test_frames_are_interned_by_key() -> None:
    tables = Tables()
    handler = Scripted({})
    frame = tables.frame(("a", 1), handler, labels=8, low=2, high=5, allow=3, scopes=1)
    assert tables.frame(("a", 1), Scripted({}), labels=99) == frame
    assert tables.frame(("a", 2), handler, labels=8) != frame
    assert (tables.low[frame], tables.high[frame], tables.allow[frame], tables.scopes[frame]) == (2, 5, 3, 1)
    assert tables.frame_key(frame) == ("a", 1)
    assert tables.handler(frame) is handler
    assert tables.high[tables.end_frame] == BIG


def test_transitions_are_filled_once() -> None:
    tables = Tables()
    handler = Scripted({0: (5, 6), 1: None, 2: DEPENDS})
    frame = tables.frame("f", handler, labels=8)
    assert [tables.fill(frame, label) for label in (0, 1, 2, 0, 1, 2)] == [5, DEAD, TEXT_DEPENDENT] * 2
    assert handler.asked == [0, 1, 2]
    assert tables.next(frame, 0) == (5, 6)


def test_a_label_beyond_the_block_moves_it() -> None:
    tables = Tables()
    answers = {label: (label + 1, 1) for label in range(200)}
    frame = tables.frame("f", Scripted(dict(answers)), labels=FIRST_LABEL)
    other = tables.frame("g", Scripted(dict(answers)), labels=FIRST_LABEL)
    for label in (0, 5, 6, 40, 199):
        assert tables.fill(frame, label) == label + 1
        assert tables.fill(other, 0) == 1
    assert tables.capacity[frame] >= 200
    assert [tables.next(frame, label)[0] for label in (0, 5, 6, 40, 199)] == [1, 6, 7, 41, 200]
    assert tables.capacity[other] == FIRST_LABEL


def test_a_fill_that_fails_clears_every_mark() -> None:
    tables = Tables()
    handler = Scripted({0: (5, 6), 1: RuntimeError("no"), 2: (7, 8)})
    frame = tables.frame("f", handler, labels=8)
    row = tables.lazy(lambda row: None)
    base = int(tables.base[frame])
    tables.next_row[base : base + 3] = REQUESTED
    tables.form[row, 0] = LAZY_REQUESTED
    with pytest.raises(RuntimeError):
        tables.fill_requests([[frame, 0], [frame, 1], [frame, 2], [-1, row]])
    assert tables.next_row[base : base + 3].tolist() == [5, UNKNOWN, UNKNOWN]
    assert tables.form[row, 0] == LAZY
    handler.answers[1] = None
    tables.fill_requests([(frame, 1), (frame, 2), (-1, row)])
    assert tables.next_row[base : base + 3].tolist() == [5, DEAD, 7]
    assert not tables.is_lazy(row)


def test_nothing_follows_the_end() -> None:
    tables = Tables()
    assert not tables.values(tables.end_row).any()
    assert tables.fill(tables.end_frame, 0) == DEAD


def test_memory_is_counted() -> None:
    tables = Tables()
    before = tables.nbytes()
    tables.dense(10)
    assert 10 * 1024 <= tables.nbytes() - before <= 11 * 1024
    tables.sparse(1000)
    assert tables.nbytes() - before <= 11 * 1024 + 1000 * 48
    assert tables.counts["sparse"] == 1000


def test_byte_classes_fit_the_summaries() -> None:
    assert len(BYTE_CLASSES) == 256
    assert all(BYTE_CLASSES[byte] == NEVER_LOOPS for byte in (*b'"\\', 0, 0x1F))
    loops = {byte for byte in range(256) if STRING_LOOPS >> BYTE_CLASSES[byte] & 1}
    assert loops == set(range(0x20, 256)) - set(b'"\\')
    tables = Tables()
    tables.set_loops(1, STRING_LOOPS, counted=True)
    low, high = tables.loops[1].tolist()
    assert (low & (1 << 64) - 1 | high << 64) & (LOOPS_SET - 1) >> 3 == STRING_LOOPS


@settings(deadline=None)  # tables are large to reserve, and machines busy
@given(st.integers(1, 200), st.booleans(), st.data())
def test_reach_sets_in_both_forms(labels: int, other: bool, data: st.DataObject) -> None:
    reach = KeyReach(SHARED, labels, other)
    one = data.draw(st.integers(0, (1 << labels) - 1))
    two = data.draw(st.integers(0, (1 << labels) - 1))
    assert reach.mask(reach.value(one)) == one
    rows = SHARED.dense(2)
    SHARED.reach[rows], SHARED.reach[rows + 1] = reach.value(one), reach.value(two)
    assert reach.mask(reach.union([rows, rows + 1])) == one | two
    allow = reach.allow(two)
    if labels <= 62:
        meets = bool(reach.value(one) & allow)
    else:
        here, there = reach.value(one), allow & 0xFFFFFFFF
        words = SHARED.reach_words
        meets = any(int(words[here + i] & words[there + i]) for i in range(allow >> 32 & 0xFFFF))
    assert meets is bool(one & two)
