"""The collector of a process that serves: no pauses while streams run, and no garbage that stays."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from collections.abc import Iterator

import pytest
from slipcast.engine.housekeeping import ENOUGH, Housekeeping
from slipcast.grammar import GrammarCompiler, GrammarError, Vocabulary
from slipcast.grammar.pause import CollectorPause

VOCABULARY = Vocabulary([*(bytes((byte,)) for byte in range(256)), None], [256])


class Circle:
    """Garbage that only the collector frees."""

    def __init__(self) -> None:
        self.me = self


@pytest.fixture
def collector() -> Iterator[CollectorPause]:
    made = CollectorPause()
    yield made
    made.release()
    gc.enable()


def test_what_a_failed_compilation_made_is_gone_at_once(collector: CollectorPause) -> None:
    left: list[weakref.ref[Circle]] = []

    def fail() -> None:
        circle = Circle()
        left.append(weakref.ref(circle))
        try:
            raise ZeroDivisionError
        except ZeroDivisionError as error:
            raise GrammarError("no") from error

    with pytest.raises(GrammarError) as failed, collector.held():
        fail()
    assert left[0]() is None
    assert str(failed.value) == "no"
    assert gc.isenabled()


def test_owned_the_collector_does_not_look_at_what_compilations_made(collector: CollectorPause) -> None:
    collector.own()
    with collector.held():
        kept = [Circle() for _ in range(1000)]
    assert not any(found is kept[0] for found in gc.get_objects())
    gone = weakref.ref(kept[7])
    kept.clear()
    gc.collect()
    assert gone() is not None
    collector.sweep()
    assert gone() is None
    assert collector.compiled == 0


def test_much_that_failed_waits_for_a_sweep(collector: CollectorPause, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipcast.grammar.pause.MANY", 100)
    collector.own()
    left: list[weakref.ref[Circle]] = []

    def fail() -> None:
        circles = [Circle() for _ in range(1000)]
        left.append(weakref.ref(circles[0]))
        raise GrammarError("no")

    with pytest.raises(GrammarError), collector.held():
        fail()
    assert left[0]() is not None
    assert collector.dropped == 1
    collector.sweep()
    assert left[0]() is None
    assert collector.dropped == 0


def test_nothing_is_swept_while_something_is_compiled(collector: CollectorPause) -> None:
    collector.own()
    with collector.held():
        collector.sweep()
        assert collector.compiled == 1
    collector.sweep()
    assert collector.compiled == 0


def test_rests_are_used_and_without_one_only_tables_are_worth_a_pause(collector: CollectorPause) -> None:
    busy = threading.Event()
    busy.set()
    swept = threading.Event()
    collector.sweep = swept.set  # type: ignore[method-assign]
    switch = sys.getswitchinterval()
    with Housekeeping(busy.is_set, every=0.01, patience=0.1, collector=collector):
        assert sys.getswitchinterval() < switch
        collector.compiled = ENOUGH
        assert not swept.wait(0.3)
        busy.clear()
        assert swept.wait(5)
        busy.set()
        swept.clear()
        collector.compiled, collector.dropped = 0, 1
        assert swept.wait(5)
    assert sys.getswitchinterval() == switch


def test_tables_that_are_given_up_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = CollectorPause()
    monkeypatch.setattr("slipcast.grammar.compiler.COLLECTOR", counted)
    compiler = GrammarCompiler(VOCABULARY, arena_bytes=1)
    compiler.json_schema({"enum": ["a", 1]})
    compiler.json_schema({"enum": ["b", 2]})
    assert (counted.compiled, counted.dropped) == (2, 2)  # the empty ones as well, which are larger than a byte
    deadline = time.monotonic() + 5
    while not gc.isenabled() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert gc.isenabled()
