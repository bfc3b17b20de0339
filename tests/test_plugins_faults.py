"""Faults of plugins while other requests run: who is at fault fails, by name, and nobody else notices."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

import numpy as np
import pytest
from engine_toys import Inbox, ids, run, toy_parts, toy_service
from pydantic import BaseModel, Field
from slipcast.engine import PluginFault
from slipcast.engine.request import Failed, GenerationRequest
from slipcast.plugins import BaseProcessor, BaseSampler, BaseScheduler, MetricsSnapshot, create_manager, hookimpl
from slipcast.plugins.shipped_kv import PrefixKV
from slipcast.samplers import SamplingParams, SeededSampler

TEXTS = [f"request {i}: " + "abc"[i % 3] * (i % 7) for i in range(16)]


class Options(BaseModel):
    bad: bool = False
    at: int = Field(default=3, ge=0)


class Faulty(BaseProcessor):
    """Fails for requests that ask for it, in a way of its own."""

    name = "faulty"

    def __init__(self, how: str, phase: str = "edit") -> None:
        self.how, self.phase, self.order = how, phase, 1000
        self.calls = 0
        self.ended: list[bool] = []

    def wants(self, row):
        if self.how == "wants" and row.options(Options).bad:
            raise RuntimeError("mine")
        return row.options(Options) is not None

    def apply(self, logits, rows):
        self.calls += 1
        for i, row in enumerate(rows):
            options = row.options(Options)
            if not options.bad or len(row.output) != options.at:
                continue
            if self.how == "raise":
                logits[:] = 1e9
                raise ZeroDivisionError("mine")
            if self.how == "late":
                time.sleep(2.5)
            if self.how == "shape":
                return np.zeros((1, 2))
            logits[i] = {"nan": np.nan, "inf": np.inf, "nothing": -np.inf, "late": 0.0}[self.how]
        return None

    def release(self, row, *, aborted):
        self.ended.append(aborted)
        if self.how == "release" and row.options(Options).bad:
            raise RuntimeError("mine")


def plugin(*processors: BaseProcessor, sampler: BaseSampler | None = None, **more):
    class Plugin:
        @hookimpl
        def slipcast_logits_processors(self):
            return processors

        @hookimpl
        def slipcast_sampler(self, name):
            return sampler if name == "theirs" else None

        @hookimpl
        def slipcast_request_parameters(self):
            return Options

    return create_manager(extra=[("theirs", Plugin())], **{"timeout": 1.0, **more})


def asked(i: int, plugins: dict | None = None) -> GenerationRequest:
    temperature = 0.0 if i % 2 else 1.0
    params = SamplingParams(max_tokens=12, ignore_eos=True, seed=i, temperature=temperature)
    return GenerationRequest(ids(TEXTS[i]), params, plugins=plugins or {})


def together(service, requests: Sequence[GenerationRequest]) -> list[Inbox]:
    inboxes = [Inbox() for _ in requests]
    for request, inbox in zip(requests, inboxes, strict=True):
        service.submit(request, inbox)
    return [inbox.wait() for inbox in inboxes]


@pytest.fixture(scope="module")
def without() -> list[list[int]]:
    with toy_service(max_batch=16, prefill_chunk=64) as service:
        return [inbox.tokens() for inbox in together(service, [asked(i) for i in range(16)])]


@pytest.mark.parametrize("phase", ["edit", "shape"])
@pytest.mark.parametrize("how", ["raise", "nan", "inf", "nothing", "shape", "late", "wants"])
def test_exactly_those_fail_that_the_plugin_fails(how, phase, without, caplog):
    """16 requests, of which every third meets the fault; the others use the plugin too."""
    faulty = Faulty(how, phase)
    bad = [0] if how == "late" else range(0, 16, 3)
    options = [{"theirs": Options(bad=i in bad, at=2 + i % 4)} for i in range(16)]
    with toy_service(toy_parts(plugins=plugin(faulty)), max_batch=16, prefill_chunk=64) as service:
        inboxes = together(service, [asked(i, options[i]) for i in range(16)])
        for i, inbox in enumerate(inboxes):
            if i in bad:
                error = inbox.error()
                assert isinstance(error, PluginFault) and error.plugin == "theirs" and "theirs" in str(error)
                assert "\n" not in str(error)
            else:
                assert inbox.tokens() == without[i], i
        # And it goes on: nothing is left behind, the plugin is not quarantined.
        assert run(service, asked(1, options[1])).tokens() == without[1]
    [status] = [one for one in service.plugins.status() if one.name == "theirs"]
    assert status.faults == len(bad) and status.quarantined is None and status.seconds > 0
    assert len(faulty.ended) == 17 - (len(bad) if how == "wants" else 0)


def test_a_plugin_that_raises_on_every_third_call():
    """By calls, not by requests: who was alone in such a call fails, and the others are as if it were not there."""

    class Third(BaseProcessor):
        name = "third"

        def __init__(self):
            self.calls, self.raised_alone = 0, []

        def apply(self, logits, rows):
            self.calls += 1
            if self.calls % 3 == 0:
                if len(rows) == 1:
                    self.raised_alone.append(rows[0].request_id)
                raise OSError("every third")

    third = Third()
    requests = [asked(i) for i in range(16)]
    with toy_service(max_batch=16, prefill_chunk=64) as service:
        undisturbed = [inbox.tokens() for inbox in together(service, requests)]
    with toy_service(toy_parts(plugins=plugin(third, fault_limit=1000)), max_batch=16, prefill_chunk=64) as service:
        inboxes = together(service, requests)
    ended = zip(requests, inboxes, strict=True)
    failed = {request.id for request, inbox in ended if isinstance(inbox.events[-1], Failed)}
    assert failed == set(third.raised_alone) and failed
    for request, inbox, tokens in zip(requests, inboxes, undisturbed, strict=True):
        assert inbox.tokens() == tokens or request.id in failed


def test_without_a_request_for_it_nothing_is_called(without):
    faulty = Faulty("raise")
    with toy_service(toy_parts(plugins=plugin(faulty)), max_batch=16, prefill_chunk=64) as service:
        assert [inbox.tokens() for inbox in together(service, [asked(i) for i in range(16)])] == without
    assert faulty.calls == 0 and not faulty.ended


def test_a_fault_at_the_end_is_told_in_the_log_alone(without, caplog):
    faulty = Faulty("release")
    with toy_service(toy_parts(plugins=plugin(faulty)), max_batch=4) as service:
        assert run(service, asked(2, {"theirs": Options(bad=True, at=99)})).tokens() == without[2]
    assert "theirs" in caplog.text and "mine" in caplog.text


def test_repeated_faults_quarantine(without, caplog):
    faulty = Faulty("raise")
    bad, good = {"theirs": Options(bad=True)}, {"theirs": Options()}
    with toy_service(toy_parts(plugins=plugin(faulty, fault_limit=3)), max_batch=4) as service:
        for _ in range(2):
            run(service, asked(0, bad)).error()
        assert run(service, asked(1, good)).tokens() == without[1]  # between them one that ends well
        for _ in range(3):
            run(service, asked(0, bad)).error()
        calls = faulty.calls
        error = run(service, asked(1, good)).error()
        assert isinstance(error, PluginFault) and error.plugin == "theirs" and "quarantined" in str(error)
        assert run(service, asked(1)).tokens() == without[1]
        assert faulty.calls == calls
    assert [one.quarantined for one in service.plugins.status() if one.name == "theirs"] != [None]
    assert caplog.text.count("is quarantined") == 1


def test_rows_that_did_not_ask_go_on_without_a_quarantined_plugin(without):
    class Everywhere(BaseProcessor):
        name = "everywhere"

        def apply(self, logits, rows):
            raise ValueError("always")

    with toy_service(toy_parts(plugins=plugin(Everywhere(), fault_limit=2)), max_batch=4) as service:
        assert all(isinstance(run(service, asked(i)).error(), PluginFault) for i in range(2))
        assert run(service, asked(3)).tokens() == without[3]


def test_calls_that_never_end(without):
    """Each leaves a thread behind, so after a few the plugin is not called any more, and the engine is still there."""
    over = threading.Event()

    class Stuck(BaseProcessor):
        name = "stuck"

        def wants(self, row):
            return row.options(Options) is not None

        def apply(self, logits, rows):
            if any(row.options(Options).bad for row in rows):
                over.wait(30)

    try:
        with toy_service(toy_parts(plugins=plugin(Stuck(), timeout=0.1)), max_batch=4) as service:
            for _ in range(5):
                assert isinstance(run(service, asked(0, {"theirs": Options(bad=True)})).error(), PluginFault)
            assert run(service, asked(5)).tokens() == without[5]
            [status] = [one for one in service.plugins.status() if one.name == "theirs"]
            assert status.quarantined is not None and "hang" in status.quarantined
    finally:
        over.set()


@pytest.mark.parametrize("how", ["raise", "late", "float", "forbidden", "shape"])
def test_samplers(how, without):
    class Theirs(BaseSampler):
        name = "theirs"

        def __init__(self):
            self.seeded = SeededSampler()

        def choose(self, logits, rows):
            bad = [row.options(Options) is not None and len(row.output) == 4 for row in rows]
            if any(bad):
                if how == "raise":
                    raise KeyError("mine")
                if how == "late":
                    time.sleep(2.0)
                tokens = np.zeros(len(rows), np.int64)
                return {"float": tokens + 0.5, "forbidden": tokens - 1, "shape": tokens[None], "late": tokens}[how]
            return self.seeded.choose(logits, rows)

    parts = toy_parts(plugins=plugin(sampler=Theirs(), timeout=0.8))
    with toy_service(parts, sampler="theirs", max_batch=4) as service:
        inboxes = together(service, [asked(i, {"theirs": Options()} if i == 2 else None) for i in range(4)])
    assert isinstance(inboxes[2].error(), PluginFault) and inboxes[2].error().plugin == "theirs"
    assert [inboxes[i].tokens() for i in (0, 1, 3)] == [without[i] for i in (0, 1, 3)]


@pytest.mark.parametrize("how", ["raise", "late", "wild"])
def test_schedulers(how, without, caplog):
    class Theirs(BaseScheduler):
        name = "theirs"

        def admit(self, waiting, running):
            if how == "raise":
                raise KeyError("mine")
            if how == "late":
                time.sleep(0.3)
            return 99

    class Plugin:
        @hookimpl
        def slipcast_scheduler(self, name):
            return Theirs() if name == "theirs" else None

    manager = create_manager(extra=[("theirs", Plugin())], timeout=0.05, fault_limit=3)
    with toy_service(toy_parts(plugins=manager), scheduler="theirs", max_batch=4) as service:
        assert [inbox.tokens() for inbox in together(service, [asked(i) for i in range(8)])] == without[:8]
    assert "theirs" in caplog.text
    assert manager.status()[-1].quarantined is not None or manager.status()[-1].faults < 3


@pytest.mark.parametrize("method", ["start", "extend", "reserve", "stop", "lies", "match"])
def test_kv_managers(method, without, caplog):
    """No request fails by one: from there on each sequence is computed on its own, and no page is lost."""

    class Theirs(PrefixKV):
        name = "theirs"

        def __init__(self, cache):
            super().__init__(cache)
            self.calls = 0

        def __getattribute__(self, name):
            if name == method:
                self.calls += 1
                if self.calls == 9:
                    raise RuntimeError("mine")
            return super().__getattribute__(name)

        def start(self, sequence, tokens):
            shared = super().start(sequence, tokens)
            return shared + 4 if method == "lies" else shared

    class Plugin:
        @hookimpl
        def slipcast_kv_manager(self, name, cache):
            return Theirs(cache) if name == "theirs" else None

    manager = create_manager(extra=[("theirs", Plugin())])
    parts = toy_parts(plugins=manager)
    with toy_service(parts, kv_manager="theirs", scheduler="prefix", max_batch=4) as service:
        for _ in range(2):
            assert [inbox.tokens() for inbox in together(service, [asked(i) for i in range(16)])] == without
        deadline = time.monotonic() + 10
        while service.stats().free_pages != 200 and time.monotonic() < deadline:
            time.sleep(0.01)
        assert service.stats().free_pages == 200
    theirs = next(one for one in manager.status() if one.name == "theirs")
    assert "KV manager 'theirs'" in (theirs.quarantined or "") and "quarantined" in caplog.text


def test_metrics_sinks(caplog):
    class Sink:
        name, interval = "theirs", 0.1

        def __init__(self, faulty):
            self.faulty, self.got, self.closed = faulty, [], threading.Event()

        def record(self, snapshot):
            self.got.append(snapshot)
            if self.faulty:
                raise OSError("unreachable")

        def close(self):
            self.closed.set()

    sinks = [Sink(False), Sink(True)]

    class Plugin:
        @hookimpl
        def slipcast_metrics_sinks(self):
            return sinks

    with toy_service(toy_parts(plugins=create_manager(extra=[("theirs", Plugin())]))) as service:
        run(service, asked(0))
        deadline = time.monotonic() + 20
        while not (sinks[1].closed.is_set() and len(sinks[0].got) > 3) and time.monotonic() < deadline:
            time.sleep(0.02)
    good, bad = sinks
    last = good.got[-1]
    assert isinstance(last, MetricsSnapshot) and last.values["requests"] == 1 and "theirs" in last.plugin_seconds
    assert good.closed.is_set() and len(bad.got) == 3 and "not called any more" in caplog.text


def test_preemption_and_return_are_told():
    class Watching(BaseProcessor):
        name = "watching"

        def __init__(self):
            self.told = []

        def apply(self, logits, rows):
            pass

        def preempt(self, row):
            self.told.append(("preempt", row.request_id, len(row.output)))

        def resume(self, row):
            self.told.append(("resume", row.request_id, len(row.output)))

        def release(self, row, *, aborted):
            self.told.append(("release", row.request_id, aborted))

    watching = Watching()
    parts = toy_parts(pages=12, context=40, plugins=plugin(watching))
    with toy_service(parts, max_batch=4, prefill_chunk=64, kv_manager="plain") as service:
        with parts.model.held():
            inboxes = [Inbox() for _ in range(4)]
            for i, inbox in enumerate(inboxes):
                service.submit(asked(i), inbox)
        for inbox in inboxes:
            inbox.wait()
        assert service.stats().preemptions
    told = [what for what, *_ in watching.told]
    assert told.count("preempt") == service.stats().preemptions == told.count("resume")
    assert told.count("release") == 4
    for what, request, tokens in watching.told:
        if what == "resume":
            assert ("preempt", request, tokens) in watching.told


def test_cancelled_and_failed_choices_are_told_as_aborted():
    watching = Faulty("raise")
    with toy_service(toy_parts(plugins=plugin(watching)), max_batch=4) as service:
        inbox = Inbox()
        params = SamplingParams(max_tokens=100, ignore_eos=True)
        request = GenerationRequest(ids("x"), params, plugins={"theirs": Options()})
        service.submit(request, inbox)
        service.cancel(request.id)
        inbox.wait()
        run(service, asked(0, {"theirs": Options(bad=True)})).error()
        run(service, asked(1, {"theirs": Options()}))
    assert watching.ended == [True, True, False]

