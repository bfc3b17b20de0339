"""The loop over a toy model: batching, joins and leaves, chunks, preemption, isolation of faults, ends."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
from engine_toys import EOS, PADDED, SIZE, Inbox, ToyModel, WordGrammar, WordMatcher, ids, run, toy_parts, toy_service
from slipcast.engine.choice import ActiveRequest, Choice
from slipcast.engine.errors import (
    BusyError,
    ClosedError,
    ContextLengthError,
    GrammarFault,
    ModelFault,
    RequestError,
    RequestFault,
)
from slipcast.engine.request import Failed, Finished, GenerationRequest
from slipcast.plugins import BaseScheduler, create_manager, hookimpl
from slipcast.samplers import SamplingError, SamplingParams


def request(text: str, **params: object) -> GenerationRequest:
    grammar = params.pop("grammar", None)
    return GenerationRequest(ids(text), SamplingParams(**{"max_tokens": 20, **params}), grammar=grammar)


PROMPTS = ["one", "another prompt, which is longer than a chunk", "x", "two two two", "abc", "abcd", "", "zzz"]
PROMPTS[6] = "the last but one"


def mixed_requests() -> list[GenerationRequest]:
    kinds = [
        {"temperature": 0.0},
        {"temperature": 1.0, "seed": 7},
        {"temperature": 1.3, "seed": -2, "top_p": 0.9, "top_k": 30},
    ]
    grammars = [None, None, WordGrammar(["the king and the queen", "thing", "this and that and more"])]
    return [
        request(prompt, grammar=grammars[i % 3], **kinds[(i // 2) % 3], max_tokens=5 + 3 * i)
        for i, prompt in enumerate(PROMPTS)
    ]


def outputs(service, requests: list[GenerationRequest]) -> list[tuple[list[int], str]]:
    inboxes = [Inbox(r.params.n) for r in requests]
    with service._parts.model.held():
        for r, inbox in zip(requests, inboxes, strict=True):
            service.submit(r, inbox)
    return [(inbox.wait().tokens(), inbox.finished().reason) for inbox in inboxes]


@pytest.fixture(scope="module")
def alone() -> list[tuple[list[int], str]]:
    result = []
    for r in mixed_requests():
        with toy_service(kv_manager="plain") as service:
            result += outputs(service, [r])
    return result


def test_alone_and_together_are_the_same(alone):
    assert any(len(tokens) > 5 for tokens, _ in alone)
    with toy_service() as service:
        assert outputs(service, mixed_requests()) == alone


@pytest.mark.parametrize("kv_manager", ["plain", "prefix"])
@pytest.mark.parametrize("seed", range(4))
def test_joining_at_random_steps_changes_nothing(alone, seed, kv_manager):
    rng = random.Random(seed)
    parts = toy_parts()
    joins = sorted(rng.randrange(40) for _ in PROMPTS)
    requests, inboxes = mixed_requests(), [Inbox() for _ in PROMPTS]
    order = rng.sample(range(len(PROMPTS)), len(PROMPTS))
    service = toy_service(parts, kv_manager=kv_manager)

    def join(step: int) -> None:
        while joins and joins[0] <= step:
            joins.pop(0)
            i = order.pop()
            service.submit(requests[i], inboxes[i])

    with service:
        parts.model.on_step = join
        keeper = Inbox()
        service.submit(request("keeper", max_tokens=100, ignore_eos=True), keeper)
        keeper.wait()
        join(1000)
        assert [(i.wait().tokens(), i.finished().reason) for i in inboxes] == alone


@pytest.mark.parametrize("kv_manager", ["plain", "prefix"])
@pytest.mark.parametrize("pages", [20, 27, 50])
def test_preemption_changes_nothing(pages, kv_manager):
    def requests() -> list[GenerationRequest]:
        kinds = [{"temperature": 0.0}, {"temperature": 1.0, "seed": 3}]
        return [request(prompt[:9], max_tokens=60, ignore_eos=True, **kinds[i % 2]) for i, prompt in enumerate(PROMPTS)]

    with toy_service(kv_manager="plain", max_batch=1) as service:
        undisturbed = outputs(service, requests())
    parts = toy_parts(pages=pages, context=80)
    with toy_service(parts, kv_manager=kv_manager, max_batch=8) as service:
        assert outputs(service, requests()) == undisturbed
        assert service.stats().preemptions > 0


def test_prompts_are_cut_into_chunks_beside_decodes():
    parts = toy_parts()
    parts.model.max_rows = 8
    with toy_service(parts) as service:
        first, second = Inbox(), Inbox()
        with parts.model.held():
            service.submit(request("a", max_tokens=30, ignore_eos=True), first)
            service.submit(request("p" * 50, max_tokens=3, ignore_eos=True), second)
        first.wait(), second.wait()
    mixed = [batch for batch in parts.model.batches if 1 in batch and max(batch) > 1]
    assert len(mixed) >= 6  # the running request was never held up by the long prompt
    assert all(sum(batch) <= 8 for batch in parts.model.batches)


def test_same_seed_same_output_and_choices_differ():
    with toy_service() as service:
        r = request("seeded", seed=5, n=3, temperature=1.0)
        first, second = run(service, r), run(service, GenerationRequest(r.prompt, r.params))
        texts = [first.tokens(i) for i in range(3)]
        assert texts == [second.tokens(i) for i in range(3)]
        assert len({tuple(text) for text in texts}) == 3
        assert run(service, request("seeded", seed=5, temperature=1.0)).tokens() == texts[0]
        assert run(service, request("seeded", seed=6, temperature=1.0)).tokens() != texts[0]


def test_prompt_of_n_choices_is_computed_once():
    parts = toy_parts()
    with toy_service(parts) as service:
        inbox = run(service, request("q" * 41, n=4, max_tokens=2, ignore_eos=True, seed=1))
    assert [inbox.finished(i).usage.cached_tokens for i in range(4)] == [0, 40, 40, 40]
    assert sum(map(sum, parts.model.batches)) == 41 + 3 + 4


def test_more_choices_than_the_batch_holds():
    with toy_service(max_batch=2) as service:
        inbox = run(service, request("many", n=7, seed=3))
        assert {inbox.finished(i).reason for i in range(7)} <= {"stop", "length"}


def test_prefix_of_an_ended_request_is_shared():
    with toy_service() as service:
        run(service, request("system prompt, the same for all. Hello"))
        assert run(service, request("system prompt, the same for all. Bye")).finished().usage.cached_tokens == 32


def test_padding_is_never_drawn():
    with toy_service() as service:
        inbox = run(service, request("pad", max_tokens=50, temperature=5.0, seed=1, ignore_eos=True))
    assert len(inbox.tokens()) == 50 and max(inbox.tokens()) < SIZE < PADDED


def test_end_token_is_neither_text_nor_in_the_output():
    with toy_service() as service:
        inbox = run(service, request("e", logit_bias={EOS: 100}))
    assert inbox.events == [inbox.finished()]
    assert inbox.finished().reason == "stop" and inbox.finished().usage.completion_tokens == 1


def test_length():
    with toy_service() as service:
        done = run(service, request("l", max_tokens=7, ignore_eos=True)).finished()
        assert (done.reason, done.usage.completion_tokens, done.usage.prompt_tokens) == ("length", 7, 1)
        done = run(service, request("l" * 100, max_tokens=None, ignore_eos=True)).finished()
        assert (done.reason, done.usage.completion_tokens) == ("length", 20)


def test_complete_grammar_ends_without_another_step():
    parts = toy_parts()
    with toy_service(parts) as service:
        inbox = run(service, request("g", grammar=WordGrammar(["k"])))
    assert inbox.text() == "k" and inbox.finished().reason == "stop"
    assert parts.model.steps == 1 and inbox.finished().usage.completion_tokens == 1


def test_grammar_that_may_end_or_go_on():
    words = WordGrammar(["ki", "kind", "kind and"])
    with toy_service() as service:
        texts = {run(service, request("g", grammar=words, seed=i)).text() for i in range(20)}
    assert texts == {"ki", "kind", "kind and"}


def test_requests_that_are_over_are_freed_without_the_collector():
    """In a server that never rests it looks through nothing: what is held in a circle stays."""
    words = WordGrammar(["ki", "kind", "kind and"])
    with toy_service() as service:
        gc.collect()
        gc.disable()
        try:
            for seed in range(8):
                run(service, request("g", grammar=words if seed % 2 else None, seed=seed, n=2))
            left = sum(type(each) in (ActiveRequest, Choice) for each in gc.get_objects())
        finally:
            gc.enable()
    assert left <= 3  # the last one, if the loop still has it


def test_bias_and_penalties_cannot_leave_the_mask():
    bias = {id_: -100.0 for id_ in ids("the king") if id_ < SIZE} | {ids("z")[0]: 100.0}
    with toy_service() as service:
        inbox = run(service, request("b", grammar=WordGrammar(["the king"]), logit_bias=bias, repetition_penalty=9.0))
    assert inbox.text() == "the king"


@pytest.mark.parametrize("stop", ["a", "ab", "the king", ["queen", "and"], "and the"])
def test_stop_strings_end_free_text(stop):
    with toy_service() as service:
        whole = run(service, request("s", max_tokens=100, seed=1, ignore_eos=True, temperature=0.7)).text()
        inbox = run(service, request("s", max_tokens=100, seed=1, ignore_eos=True, temperature=0.7, stop=stop))
    stops = [stop] if isinstance(stop, str) else stop
    ends = [whole.find(s) + len(s) for s in stops if s in whole]
    if ends:
        assert inbox.finished().reason == "stop" and inbox.finished().stop in stops
        assert inbox.text() == whole[: min(ends)].removesuffix(inbox.finished().stop)
    else:
        assert inbox.text() == whole and inbox.finished().reason == "length"


def test_stop_strings_leave_a_grammar_alone_unless_asked():
    with toy_service() as service:
        words = WordGrammar(["the king"])
        assert run(service, request("s", grammar=words, stop="ki")).text() == "the king"
        cut = run(service, request("s", grammar=words, stop="ki", stop_cuts_grammar=True))
        assert cut.text() == "the " and cut.finished().stop == "ki"


def test_characters_are_never_split():
    half, rest = SIZE - 3, SIZE - 2
    with toy_service() as service:
        bias = {half: 100, rest: 98}
        inbox = run(service, request("u", logit_bias=bias, max_tokens=9, temperature=0.0, presence_penalty=2.0))
        assert len(inbox.tokens()) == 9
        assert inbox.text().count("\ufffd") < 9 and not inbox.text().endswith("\ufffd\ufffd")
        alone = run(service, request("u", logit_bias={half: 100}, max_tokens=1))
        assert alone.text() == "" and alone.finished().reason == "length"


def test_cancel():
    parts = toy_parts()
    with toy_service(parts) as service:
        inbox, other = Inbox(2), Inbox()
        r = request("c", max_tokens=100, n=2, ignore_eos=True)
        parts.model.on_step = lambda step: service.cancel(r.id) if step == 10 else None
        with parts.model.held():
            service.submit(r, inbox)
            service.submit(request("o", max_tokens=40, ignore_eos=True), other)
        inbox.wait(), other.wait()
        assert [inbox.finished(i).reason for i in range(2)] == ["cancelled"] * 2
        assert 0 < inbox.finished(0).usage.completion_tokens < 20
        assert other.finished().usage.completion_tokens == 40
        service.cancel(r.id), service.cancel("unknown")
        assert service.stats().running == 0


def test_cancel_in_the_line():
    parts = toy_parts()
    with toy_service(parts, max_batch=1) as service:
        first, second = Inbox(), Inbox()
        waiting = request("w")
        with parts.model.held():
            service.submit(request("f", max_tokens=60, ignore_eos=True), first)
            service.submit(waiting, second)
            service.cancel(waiting.id)
        assert second.wait().finished().reason == "cancelled"
        assert first.wait().finished().reason == "length"


class BadMatcher(WordMatcher):
    """Goes wrong in one way after some tokens."""

    def __init__(self, how: str, after: int) -> None:
        super().__init__(["the king and the queen"])
        self.how, self.left = how, after

    def fill_mask(self, row):
        super().fill_mask(row)
        if self.left <= 0 and self.how == "fill":
            raise RuntimeError("broken fill")
        if self.left <= 0 and self.how == "empty":
            row[:] = 0

    def accept(self, token):
        self.left -= 1
        if self.left <= 0 and self.how == "accept":
            raise RuntimeError("broken accept")
        return super().accept(token) and not (self.left <= 0 and self.how == "refuse")


@pytest.mark.parametrize("how", ["fill", "empty", "accept", "refuse"])
@pytest.mark.parametrize("after", [0, 3])
def test_a_broken_matcher_fails_its_request_alone(alone, how, after):
    class Grammar:
        def matcher(self):
            return BadMatcher(how, after)

    with toy_service(max_batch=8) as service:
        inbox = Inbox()
        service.submit(request("bad", grammar=Grammar()), inbox)
        assert outputs(service, mixed_requests()) == alone
        error = inbox.wait().error()
        assert isinstance(error, RequestFault if how == "empty" else GrammarFault)
        assert "\n" not in str(error)
        assert inbox.text() == "the king and the queen"[: len(inbox.text())]
        assert service.stats().failed == 1


def test_a_raising_callback_ends_its_request_alone(alone):
    calls = []

    def bad(event):
        calls.append(event)
        raise ValueError("mine")

    with toy_service(max_batch=8) as service:
        r = request("bad", max_tokens=100, ignore_eos=True)
        service.submit(r, bad)
        assert outputs(service, mixed_requests()) == alone
        assert len(calls) == 1
        assert service.stats().running == 0
        service.submit(GenerationRequest(r.prompt, r.params, id=r.id), Inbox())  # the id is free again


def test_a_fault_of_the_model_fails_the_batch_and_the_engine_goes_on(alone):
    parts = toy_parts()

    def fail(step: int) -> None:
        if step == 6:
            raise FloatingPointError("the chip is tired")

    parts.model.on_step = fail
    with toy_service(parts, max_batch=2) as service:
        inboxes = [Inbox() for _ in range(4)]
        with parts.model.held():
            for inbox in inboxes:
                service.submit(request("m", max_tokens=30, ignore_eos=True), inbox)
        for inbox in inboxes[:2]:
            assert isinstance(inbox.wait().error(), ModelFault)
            assert "the chip is tired" in str(inbox.error()) and isinstance(inbox.error().__cause__, FloatingPointError)
        for inbox in inboxes[2:]:
            assert inbox.wait().finished().reason == "length"
        assert outputs(service, mixed_requests()) == alone


def test_wrong_logits_fail_their_row_alone():
    class Model(ToyModel):
        def step(self, sequence_ids, tokens):
            logits = super().step(sequence_ids, tokens)
            for i, sequence in enumerate(sequence_ids):
                if self.cache.sequences[sequence][0] == ids("n")[0]:
                    logits[i, 3] = np.nan
            return logits

    parts = toy_parts()
    object.__setattr__(parts, "model", Model(parts.cache))
    with toy_service(parts) as service:
        bad, good = Inbox(), Inbox()
        service.submit(request("nan"), bad)
        service.submit(request("good"), good)
        assert "NaN" in str(bad.wait().error())
        assert good.wait().finished()


def test_pages_are_all_free_in_the_end():
    parts = toy_parts(pages=60)
    with toy_service(parts, kv_manager="plain", max_batch=8) as service:
        r = request("x", n=3, max_tokens=50, ignore_eos=True)
        inbox = Inbox(3)
        service.submit(r, inbox)
        outputs(service, mixed_requests())
        service.cancel(r.id)
        inbox.wait()
        run(service, request("y"))
    assert parts.cache.free_pages == 60 and not parts.cache.sequences


@pytest.mark.parametrize(
    ("build", "error", "said"),
    [
        (lambda: request(""), RequestError, "empty"),
        (lambda: GenerationRequest([PADDED]), RequestError, str(PADDED)),
        (lambda: GenerationRequest([-1]), RequestError, "-1"),
        (lambda: GenerationRequest([1.5]), RequestError, "token"),
        (lambda: request("a", logit_bias={SIZE: 1}), SamplingError, "logit_bias"),
        (lambda: request("a" * 120), ContextLengthError, "120"),
        (lambda: request("a" * 30, max_tokens=91), ContextLengthError, "90"),
    ],
)
def test_refusals(build, error, said):
    with toy_service() as service:
        with pytest.raises(error, match=said):
            service.submit(build(), Inbox())
        assert run(service, request("fine")).finished()


def test_a_budget_below_the_shortest_text_is_refused():
    class Matcher(WordMatcher):
        def distance(self):
            return 4

    class Grammar:
        def matcher(self):
            return Matcher(["thing"])

    with toy_service() as service:
        with pytest.raises(RequestError, match=r"max_tokens is 3.* takes 4") as caught:
            service.submit(request("s", grammar=Grammar(), max_tokens=3), Inbox())
        assert caught.value.param == "max_tokens"
        assert run(service, request("s", grammar=Grammar(), max_tokens=5)).text() == "thing"


class Policy(BaseScheduler):
    """A scheduler that answers anything."""

    name = "theirs"

    def __init__(self, seed, wild):
        self.rng, self.wild = random.Random(seed), wild

    def _answer(self, count):
        if not self.wild:
            return self.rng.randrange(count)
        answer = self.rng.choice([None, -1, count, "x", 1.5, 0, "raise"])
        if answer == "raise":
            raise OSError("theirs")
        return answer

    def admit(self, waiting, running):
        return self._answer(len(waiting))

    def preempt(self, running):
        return self._answer(len(running))


@pytest.mark.parametrize("wild", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_any_scheduler_gives_the_same_outputs(seed, wild, caplog):
    class Plugin:
        @hookimpl
        def slipcast_scheduler(self, name):
            return Policy(seed, wild) if name == "theirs" else None

    def requests():
        kinds = [{"temperature": 0.0}, {"temperature": 1.0, "seed": 3}]
        return [request(p[:9], max_tokens=30, ignore_eos=True, **kinds[i % 2]) for i, p in enumerate(PROMPTS)]

    with toy_service(kv_manager="plain", max_batch=1) as service:
        undisturbed = outputs(service, requests())
    parts = toy_parts(pages=24, context=60, plugins=create_manager(extra=[("p", Plugin())]))
    with toy_service(parts, scheduler="theirs", max_batch=6) as service:
        assert outputs(service, requests()) == undisturbed
    assert len(caplog.records) <= 3 if wild else not caplog.records


@pytest.mark.parametrize("seed", range(6))
def test_chaos(seed):
    """Everything at once at random: what finishes is as it would be alone, and nothing is left behind."""
    rng = random.Random(seed)
    kinds = ["free", "grammar", "n", "bad", "callback", "cancel", "stop"]

    def make(kind: str) -> GenerationRequest:
        text = "".join(rng.choices("abc ", k=rng.randrange(1, 30)))
        options = {"seed": rng.randrange(99), "max_tokens": rng.randrange(1, 40), "temperature": rng.choice([0.0, 1.0])}
        grammar = None
        if kind == "grammar":
            grammar = WordGrammar(["the king and the queen", "thing", "kind"])
        if kind == "bad":
            how, after = rng.choice(["fill", "empty", "accept", "refuse"]), rng.randrange(4)
            grammar = type("Grammar", (), {"matcher": lambda self: BadMatcher(how, after)})()
        return request(text, grammar=grammar, n=3 if kind == "n" else 1, stop="e" if kind == "stop" else (), **options)

    jobs = [(kind, make(kind)) for kind in rng.choices(kinds, k=40)]
    parts = toy_parts(pages=26, context=90)

    def fault(step: int) -> None:
        if step == 60:
            raise RuntimeError("once")

    parts.model.on_step = fault
    inboxes = {}
    with toy_service(parts, max_batch=5) as service:
        for kind, job in jobs:
            inbox = inboxes[job.id] = Inbox(job.params.n)
            if kind == "callback":
                calls = rng.randrange(1, 4)

                def raising(event, inbox=inbox, calls=calls):
                    inbox(event)
                    if len(inbox.events) >= calls:
                        raise ValueError("mine")

                service.submit(job, raising)
            else:
                service.submit(job, inbox)
            if kind == "cancel":
                threading.Event().wait(rng.random() * 0.01)
                service.cancel(job.id)
            if rng.random() < 0.3:
                threading.Event().wait(rng.random() * 0.01)
        for kind, job in jobs:
            if kind != "callback":
                inboxes[job.id].wait()
        while service._open:
            threading.Event().wait(0.001)
        assert service.stats().running == service.stats().waiting == 0
        assert not service._loop._chain._active and not service._loop._requests
    assert parts.cache.free_pages == 26 and not parts.cache.sequences

    with toy_service(kv_manager="plain", max_batch=1) as service:
        for kind, job in jobs:
            events = inboxes[job.id].events
            if kind in ("free", "grammar", "n", "stop") and all(not isinstance(event, Failed) for event in events):
                alone = run(service, job)
                for i in range(job.params.n):
                    assert inboxes[job.id].tokens(i) == alone.tokens(i), (kind, job)
                    assert inboxes[job.id].text(i) == alone.text(i)
                    assert inboxes[job.id].finished(i).reason == alone.finished(i).reason


def test_full_line_and_closed_engine():
    parts = toy_parts()
    service = toy_service(parts, max_waiting=1, max_batch=1)
    inboxes = [Inbox(), Inbox()]
    closing = threading.Thread(target=service.close)
    with parts.model.held():
        for inbox in inboxes:
            service.submit(request("a", max_tokens=100, ignore_eos=True), inbox)
        with pytest.raises(BusyError):
            service.submit(request("b"), Inbox())
        closing.start()
        while not service._closed:
            threading.Event().wait(0.001)
    closing.join()
    service.close()
    assert all(isinstance(inbox.wait().error(), ClosedError) for inbox in inboxes)
    with pytest.raises(ClosedError):
        service.submit(request("b"), Inbox())
    service.cancel("anything")


def test_a_program_may_end_without_closing():
    program = """
from engine_toys import toy_parts, toy_service, Inbox, ids
from slipcast.engine.request import GenerationRequest
from slipcast.samplers import SamplingParams
import time
parts = toy_parts()
parts.model.on_step = lambda step: time.sleep(0.01)
inbox = Inbox()
toy_service(parts).submit(GenerationRequest(ids("a"), SamplingParams(max_tokens=100, ignore_eos=True)), inbox)
time.sleep(0.1)
"""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")


def test_closing_from_a_callback():
    service = toy_service()
    over = threading.Event()

    def close(event):
        if isinstance(event, Finished):
            service.close()
            over.set()

    service.submit(request("a"), close)
    assert over.wait(10)
    service.close()


def test_logprobs_are_of_the_raw_logits_and_finite():
    with toy_service() as service:
        inbox = run(
            service,
            request("lp", logprobs=True, top_logprobs=3, temperature=0.0, logit_bias={5: 100, EOS: -100}, max_tokens=4),
        )
    deltas = [token for event in inbox.events if hasattr(event, "tokens") for token in event.tokens]
    assert [token.token for token in deltas] == inbox.tokens() == [5] * 4
    assert all(np.isfinite(token.logprob) and len(token.top) == 3 for token in deltas)
    # The padding's raw logits of 50 dominate: nothing that may be drawn is likely under the raw distribution.
    assert all(token.logprob < -40 and token.top[0].token >= SIZE for token in deltas)
