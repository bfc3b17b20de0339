"""A matcher that takes long keeps its own request waiting, and no other."""

from __future__ import annotations

import dataclasses
import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from engine_toys import EOS, PADDED, Inbox, WordGrammar, WordMatcher, ids, run, toy_parts, toy_service, toy_tokenizer
from hostile_schemas import record
from slipcast.engine import workers as workers_module
from slipcast.engine.errors import GrammarFault, RequestError
from slipcast.engine.housekeeping import SWITCH
from slipcast.engine.request import GenerationRequest, TextDelta
from slipcast.engine.service import Parts
from slipcast.engine.workers import MOST, Workers
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.samplers import SamplingParams


class Gate:
    """Something in a matcher that takes until the gate opens. `at`: how much text there is then."""

    def __init__(self, where: str, at: int) -> None:
        self.where, self.at = where, at
        self.reached, self.open = threading.Event(), threading.Event()

    def matcher(self) -> WordMatcher:
        gate = self

        class Slow(WordMatcher):
            def fill_mask(self, row: np.ndarray) -> None:
                self.pass_by("fill")
                super().fill_mask(row)

            def accept(self, token: int) -> bool:
                self.pass_by("accept")
                return super().accept(token)

            def is_accepting(self) -> bool:
                self.pass_by("end")
                return super().is_accepting()

            def pass_by(self, where: str) -> None:
                if where == gate.where and len(self.done) >= gate.at:
                    gate.reached.set()
                    assert gate.open.wait(60)

        return Slow(["thing and more"])


STEP = 0.03


def slowed(parts: Parts) -> Parts:
    """With a model that takes STEP seconds for each step."""
    parts.model.on_step = lambda number: time.sleep(STEP)
    return parts


class Stamps:
    """When tokens came."""

    def __init__(self) -> None:
        self.inbox, self.times = Inbox(), []

    def __call__(self, event: object) -> None:
        self.inbox(event)
        if isinstance(event, TextDelta):
            self.times.append(time.monotonic())


@pytest.fixture
def short_turns() -> Iterator[None]:
    """As servers have it (engine/housekeeping.py)."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    yield
    sys.setswitchinterval(interval)


def request(text: str, grammar: object = None, **params: object) -> GenerationRequest:
    return GenerationRequest(ids(text), SamplingParams(**{"max_tokens": 20, "seed": 1, **params}), grammar)


@pytest.mark.parametrize("where", ["fill", "accept", "end"])
@pytest.mark.parametrize("at", [0, 3])
@pytest.mark.parametrize("speculation", ["off", "prompt-lookup"])
def test_others_go_on_while_a_matcher_is_at_work(where, at, speculation):
    gate = Gate(where, at)
    alone = [request("abc", max_tokens=40, ignore_eos=True), request("xyz", WordGrammar(["the king and the king"]))]
    with toy_service() as service:
        undisturbed = [run(service, r).tokens() for r in alone]
        whole = run(service, request("p", WordGrammar(["thing and more"]))).tokens()
    with toy_service(speculation=speculation) as service:
        slow = Inbox()
        service.submit(request("p", gate), slow)
        assert gate.reached.wait(20)
        others = [dataclasses.replace(r, id=f"again{i}") for i, r in enumerate(alone)]
        assert [run(service, r).tokens() for r in others] == undisturbed
        assert len(slow.tokens()) <= at and not gate.open.is_set()
        gate.open.set()
        assert slow.wait().tokens() == whole
        assert service.stats().late_matches or where != "fill"


def test_nobody_waits_for_a_draft_that_a_grammar_takes_long_to_follow():
    """Not even its own request: it goes on without one."""
    reached, go_on = threading.Event(), threading.Event()

    class Slow(WordMatcher):
        forked = False

        def fork(self) -> Slow:
            fork = super().fork()
            fork.forked = True
            return fork

        def accept(self, token: int) -> bool:
            if self.forked:
                reached.set()
                assert go_on.wait(60)
            return super().accept(token)

    class Grammar:
        def matcher(self) -> Slow:
            return Slow(["abcabcabcabc"])

    with toy_service(speculation="prompt-lookup") as service:
        slow = run(service, request("abcabcabc", Grammar()))
        assert reached.is_set() and not go_on.is_set() and slow.text() == "abcabcabcabc"
        assert run(service, request("q", WordGrammar(["quick"]))).text() == "quick"
        go_on.set()


def test_many_slow_matchers_leave_a_quick_one_alone():
    gates = [Gate("fill", i) for i in range(MOST - 1)]
    with toy_service(max_batch=MOST + 2, prefill_chunk=16) as service:
        inboxes = [Inbox() for _ in gates]
        for gate, inbox in zip(gates, inboxes, strict=True):
            service.submit(request("p", gate), inbox)
        assert all(gate.reached.wait(20) for gate in gates)
        assert run(service, request("q", WordGrammar(["quick"]))).text() == "quick"
        for gate in gates:
            gate.open.set()
        assert {inbox.wait().text() for inbox in inboxes} == {"thing and more"}


def test_a_step_takes_no_longer_beside_a_slow_matcher():
    """Tokens of others come at their usual pace, but for what the engine waits at most once for the slow one."""
    gate = Gate("accept", 3)
    with toy_service(slowed(toy_parts())) as service:
        alone, beside, slow = Stamps(), Stamps(), Inbox()
        service.submit(request("abc", max_tokens=60, ignore_eos=True), alone)
        alone.inbox.wait()
        service.submit(request("abc", max_tokens=60, ignore_eos=True), beside)
        service.submit(request("p", gate), slow)
        assert gate.reached.wait(20)
        beside.inbox.wait()
        gate.open.set()
        slow.wait()
    pauses, usual = np.diff(beside.times), np.diff(alone.times)
    assert np.median(pauses) < 1.5 * np.median(usual)
    assert np.percentile(pauses, 80) < np.percentile(usual, 90) + STEP


def test_a_schema_that_takes_seconds_delays_others_by_no_more_than_a_step(short_turns):
    """Neither a request without a grammar nor one whose grammar lives in the same tables."""
    compiler = GrammarCompiler(Vocabulary(toy_tokenizer().token_bytes, (EOS,), size=PADDED))
    parts = dataclasses.replace(slowed(toy_parts(pages=800, context=1500)), compiler=compiler)
    items = {"type": "array", "items": {"type": "string", "maxLength": 20}, "minItems": 100}
    large = record(1500, required=[f"p{i}" for i in range(1500)])
    with toy_service(parts) as service:
        others = [Stamps(), Stamps()]
        service.submit(request("abc", max_tokens=1000, ignore_eos=True), others[0])
        service.submit(request("abc", service.compile("json_schema", items), max_tokens=1000), others[1])
        time.sleep(1.5)
        begun = time.monotonic()
        with pytest.raises(RequestError, match="the shortest text that the grammar allows takes"):
            service.submit(request("p", service.compile("json_schema", large), max_tokens=100), Inbox())
        ended = time.monotonic()
        assert not any(other.inbox._over.is_set() for other in others)
    for other in others:
        times = np.array(other.times)
        before, beside = np.diff(times[times < begun][8:]), np.diff(times[(times > begun) & (times < ended)])
        assert len(before) > 8 and len(beside) > 5
        assert np.median(beside) < np.median(before) + STEP
        assert np.percentile(beside, 80) < np.percentile(before, 90) + STEP


@pytest.mark.parametrize("where", ["fill", "accept"])
def test_a_request_is_cancelled_while_its_matcher_is_at_work(where):
    gate = Gate(where, 3)
    parts = toy_parts()
    with toy_service(parts) as service:
        slow, r = Inbox(), request("p", gate)
        service.submit(r, slow)
        assert gate.reached.wait(20)
        service.cancel(r.id)
        assert slow.wait().finished().reason == "cancelled"
        gate.open.set()
        assert run(service, request("q", WordGrammar(["quick"]))).text() == "quick"
        assert service._loop._matching._courses == {}
    assert parts.cache.free_pages == parts.cache.total_pages


@pytest.mark.parametrize("where", ["fill", "accept"])
def test_a_slow_request_is_put_back_and_comes_again(where):
    """Its pages go to others while its matcher is at work."""
    gate = Gate(where, 3)
    with toy_service() as service:
        whole = run(service, request("p" * 9, WordGrammar(["thing and more"]))).tokens()
    parts = toy_parts(pages=13, context=52)
    with toy_service(parts, kv_manager="plain", max_batch=4) as service:
        others = [Inbox() for _ in range(3)]
        for i, inbox in enumerate(others):
            service.submit(request(f"number {i}", max_tokens=30, ignore_eos=True), inbox)
        slow = Inbox()
        service.submit(request("p" * 9, gate), slow)
        for inbox in others:
            inbox.wait()
        assert service.stats().preemptions > 0 and gate.reached.wait(20)
        gate.open.set()
        assert slow.wait().tokens() == whole
    assert parts.cache.free_pages == parts.cache.total_pages


@pytest.mark.parametrize("failing", [2, 3])
def test_a_step_that_fails_leaves_no_mask_behind(failing):
    parts = toy_parts()

    def step(number: int) -> None:
        if number == failing:
            raise ZeroDivisionError("the model")

    parts.model.on_step = step
    with toy_service(parts) as service:
        assert "the model" in str(run(service, request("p", WordGrammar(["xyzxyz"]))).error())
        for texts in (["abc"], ["q"]):
            assert run(service, request("p", WordGrammar(texts))).text() == texts[0]


def test_a_matcher_that_raises_fails_its_request_alone():
    class Bad(WordMatcher):
        def fill_mask(self, row: np.ndarray) -> None:
            if self.done:
                raise ZeroDivisionError("mine")
            super().fill_mask(row)

    class Grammar:
        def matcher(self) -> Bad:
            return Bad(["thing"])

    with toy_service() as service:
        bad, good = Inbox(), Inbox()
        service.submit(request("p", Grammar()), bad)
        service.submit(request("q", WordGrammar(["abc"])), good)
        assert isinstance(bad.wait().error(), GrammarFault) and good.wait().text() == "abc"


def test_the_threads_end_with_the_service():
    def names() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name.startswith("slipcast-matching")]

    with toy_service() as service:
        run(service, request("p", WordGrammar(["ab"])))
        assert names()
    assert not names()


def test_workers_do_jobs_in_order_and_pass_by_a_long_one(monkeypatch):
    monkeypatch.setattr(workers_module, "STUCK", 0.3)  # what a busy machine may take for a job
    workers = Workers("test-workers")
    done: list[int] = []
    go_on = threading.Event()
    jobs = [workers.put(lambda i=i: done.append(i)) for i in range(100)]
    workers.wait(jobs, 10)
    assert done == list(range(100)) and len(workers._threads) == 1
    long = workers.put(lambda: go_on.wait(20))
    started = time.monotonic()
    workers.wait([long], 0.05)
    assert 0.04 < time.monotonic() - started < 5 and not long.done
    after = [workers.put(lambda i=i: done.append(i)) for i in range(100, 120)]
    workers.wait(after, 10)
    assert done == list(range(120)) and len(workers._threads) == 2
    go_on.set()
    workers.wait([long], 10)
    assert long.done
    workers.close()
    assert not any(thread.is_alive() for thread in workers._threads)
