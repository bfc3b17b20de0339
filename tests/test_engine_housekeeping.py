"""The collector of a process that serves: no pauses while streams run, and no garbage that stays."""

from __future__ import annotations

import gc
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from functools import partial

import pytest
from slipcast.engine.choice import ActiveRequest
from slipcast.engine.housekeeping import ENOUGH, Housekeeping
from slipcast.engine.request import GenerationRequest
from slipcast.engine.workers import Workers
from slipcast.grammar import GrammarCompiler, GrammarError, Vocabulary
from slipcast.grammar.pause import CollectorPause
from slipcast.samplers import SamplingParams

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


def test_freed_memory_is_given_back_while_the_engines_work(monkeypatch: pytest.MonkeyPatch) -> None:
    given = threading.Event()
    monkeypatch.setattr("slipcast.engine.housekeeping.give_back", given.set)
    monkeypatch.setattr("slipcast.engine.housekeeping.TIDY", 0.0)
    with Housekeeping(lambda: True, every=0.01):
        assert given.wait(10)


def test_a_job_that_is_done_forgets_what_it_was_about() -> None:
    """Else a matcher's work and its row of logits stay, in a circle, until the engine rests."""
    workers = Workers("test")
    circle = Circle()
    left = weakref.ref(circle)
    job = workers.put(partial(lambda about: None, circle))
    workers.wait([job], 10)
    workers.close()
    circle.me = None  # type: ignore[assignment]
    del circle
    assert job.done
    assert left() is None


def test_a_request_that_is_over_is_freed_at_once() -> None:
    request = GenerationRequest([1, 2], SamplingParams(max_tokens=4))
    active = ActiveRequest(request, lambda event: None, [None, None], 4, 0)
    left = weakref.ref(active)
    choice = active.choices[0]
    active.end()
    assert active.done
    del active
    assert left() is not None  # a choice knows it
    del choice
    assert left() is None


def test_what_a_compilation_leaves_counts_as_memory_of_the_tables() -> None:
    """Also where the tables themselves are small: then new grammars begin afresh in time."""
    compiler = GrammarCompiler(VOCABULARY)
    before = compiler._arena.tables.nbytes()
    compiler.json_schema({"enum": [{"k": i, "name": f"n{i}"} for i in range(1000)]})
    assert compiler._arena.tables.nbytes() - before > 10 << 20
    schema = {"type": "integer", "multipleOf": 1_000_000_007_000_000_009}
    grammar = compiler.json_schema(schema)
    before = compiler._arena.tables.nbytes()
    for i in range(100):
        grammar.accepts(str(10**15 * i + 7**i))
    assert compiler._arena.tables.nbytes() - before > 1 << 20
