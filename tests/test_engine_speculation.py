"""Speculation over toy models: outputs are those of plain decoding, whatever the drafts say and whatever happens."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from engine_toys import (
    EOS,
    SIZE,
    Inbox,
    ToyCache,
    ToyModel,
    WordGrammar,
    WordMatcher,
    ids,
    like_it,
    repeating_logits,
    run,
    toy_parts,
    toy_service,
)
from hypothesis import given
from hypothesis import strategies as st
from slipcast.engine.choice import ActiveRequest
from slipcast.engine.config import EngineConfig
from slipcast.engine.errors import ConfigError, ModelFault
from slipcast.engine.request import Failed, GenerationRequest
from slipcast.engine.service import DraftParts
from slipcast.engine.speculation.drafts import follow
from slipcast.engine.speculation.lookup import SIZES, PromptLookup
from slipcast.engine.speculation.pace import Pace
from slipcast.plugins import create_manager, hookimpl
from slipcast.samplers import SamplingParams

KINDS = ["prompt-lookup", "draft"]


def request(text: str, **params: object) -> GenerationRequest:
    grammar = params.pop("grammar", None)
    return GenerationRequest(ids(text), SamplingParams(**{"max_tokens": 30, **params}), grammar=grammar)


def parts_for(kind: str, *, pages: int = 200, draft_pages: int = 200, context: int = 120, plugins=None):
    parts = toy_parts(pages, context, plugins)
    parts.model.logits = repeating_logits
    if kind != "draft":
        return parts
    cache = ToyCache(draft_pages)
    return replace(parts, draft=DraftParts(ToyModel(cache, logits=like_it(repeating_logits)), cache, context))


def serve(kind: str, parts=None, **options: object):
    draft = {"draft_model": "toy"} if kind == "draft" else {}
    return toy_service(parts or parts_for(kind), **{"speculation": kind, "prefill_chunk": 32, **draft, **options})


@pytest.fixture
def eager(monkeypatch):
    """All that is offered is drafted: a toy's steps take no time that could say what pays."""

    def lengths(self, offers, tokens, room):
        chosen = {}
        for choice, most in offers.items():
            if min(most, room) > 0:
                chosen[choice] = min(most, room)
                room -= chosen[choice]
        return chosen

    monkeypatch.setattr(Pace, "lengths", lengths)


KINDS_OF_PARAMS = [
    {"temperature": 0.0},
    {"temperature": 1.0, "seed": 7},
    {"temperature": 0.8, "seed": -2, "top_p": 0.9, "top_k": 30},
    {"temperature": 0.7, "seed": 3, "repetition_penalty": 1.2, "presence_penalty": 0.5, "frequency_penalty": 0.3},
    {"temperature": 0.5, "seed": 4, "stop": ["ab", "the ", "q"], "logit_bias": {ids("a")[0]: 2.0}},
    {"temperature": 0.6, "seed": 5, "logprobs": True, "top_logprobs": 3, "min_p": 0.05},
]
SENTENCES = ["the king and the queen and the king and the queen", "the king and the king and the kind", "this and that"]


def some_requests() -> list[GenerationRequest]:
    prompts = ["abcdefghi", "another prompt, another prompt, longer than a chunk", "x", "two two two two two"]
    result = []
    for i, params in enumerate(KINDS_OF_PARAMS * 2):
        grammar = WordGrammar(SENTENCES) if i % 3 == 2 else None
        ends = {"ignore_eos": True} if i % 2 else {}
        result.append(
            request(prompts[i % 4], grammar=grammar, n=1 + i % 3, **{**params, **ends, "max_tokens": 12 + 3 * i})
        )
    return result


def outcome(inbox: Inbox) -> list[tuple]:
    if isinstance(inbox.events[-1], Failed):
        return [(type(inbox.error()), str(inbox.error()))]
    logprobs = {i: [] for i in range(inbox.n)}
    for event in inbox.events:
        if hasattr(event, "tokens"):
            logprobs[event.index] += event.tokens
    return [
        (
            inbox.tokens(i), inbox.text(i), logprobs[i], inbox.finished(i).reason, inbox.finished(i).stop,
            inbox.finished(i).forced_close, inbox.finished(i).usage.completion_tokens,
        )
        for i in range(inbox.n)
    ]  # fmt: skip


def outcomes(service, requests: list[GenerationRequest]) -> list[list[tuple]]:
    inboxes = [Inbox(r.params.n) for r in requests]
    with service._parts.model.held():
        for r, inbox in zip(requests, inboxes, strict=True):
            service.submit(r, inbox)
    return [outcome(inbox.wait()) for inbox in inboxes]


@pytest.fixture(scope="module")
def plain() -> list[list[tuple]]:
    with serve("off", max_batch=1, kv_manager="plain") as service:
        return outcomes(service, some_requests())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("length", [1, 3, 7])
def test_outputs_are_those_of_plain_decoding(plain, eager, kind, length):
    parts = parts_for(kind)
    with serve(kind, parts, draft_length=length) as service:
        assert outcomes(service, some_requests()) == plain
        stats = service.stats()
    assert stats.drafted_tokens > stats.accepted_tokens > 50
    assert max(map(max, parts.model.batches)) >= length + 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pages", [32, 40, 60])
def test_preemption_and_few_pages_change_nothing(plain, eager, kind, pages):
    parts = parts_for(kind, pages=pages, draft_pages=pages)
    with serve(kind, parts, max_batch=8, kv_manager="plain") as service:
        assert outcomes(service, some_requests()) == plain
        stats = service.stats()
    assert stats.accepted_tokens > 0 and (stats.preemptions > 0 or pages > 40)
    assert parts.cache.free_pages == pages and not parts.cache.sequences


@pytest.mark.parametrize("kind", KINDS)
def test_a_tight_chunk_has_no_room_for_drafts_and_still_serves(plain, eager, kind):
    parts = parts_for(kind)
    parts.model.max_rows = 5
    with serve(kind, parts, prefill_chunk=5, max_batch=4) as service:
        assert outcomes(service, some_requests()) == plain


@pytest.mark.parametrize("kind", KINDS)
def test_a_draft_saves_steps_and_is_counted(eager, kind):
    r = request("abcdefghi", temperature=0.0, max_tokens=60, ignore_eos=True)
    with serve("off") as service:
        expected = run(service, r).tokens()
        assert service.stats().drafted_tokens == service.stats().accepted_tokens == 0
    with serve(kind) as service:
        assert run(service, r).tokens() == expected
        stats = service.stats()
    assert stats.steps < (30 if kind == "draft" else 50) and stats.steps + stats.accepted_tokens >= 60
    assert stats.draft_seconds > 0


def test_lengths_follow_what_pays_by_themselves(plain):
    for kind in KINDS:
        with serve(kind) as service:
            assert outcomes(service, some_requests()) == plain


@pytest.mark.parametrize("kind", KINDS)
def test_the_distribution_is_the_models(eager, kind):
    """Three tokens drawn thousands of times, most of them along drafts: as often as the model says."""
    prompt, count = "abcabcabcabc", 2500
    parts = parts_for(kind)
    with serve(kind, parts, max_batch=32, prefill_chunk=256, max_waiting=5000) as service:
        bias = {EOS: -100.0}
        r = [request(prompt, temperature=1.3, seed=i, max_tokens=3, logit_bias=bias) for i in range(count)]
        inboxes = [Inbox() for _ in r]
        for each, inbox in zip(r, inboxes, strict=True):
            service.submit(each, inbox)
        drawn = Counter(tuple(inbox.wait().tokens()) for inbox in inboxes)
        assert service.stats().accepted_tokens > count / 4

    def chances(history: list[int]) -> np.ndarray:
        logits = repeating_logits(history)[:SIZE].astype(np.float64)
        logits[EOS] -= 100
        p = np.exp((logits - logits.max()) / 1.3)
        return p / p.sum()

    expected: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(3):
        likely = {text: p for text, p in expected.items() if p * count > 5}
        expected = {
            (*text, token): p * q
            for text, p in likely.items()
            for token, q in enumerate(chances([*ids(prompt), *text]))
        }
    cells = {text: p * count for text, p in expected.items() if p * count >= 8}
    assert len(cells) > 10
    rest = count - sum(cells.values())
    others = count - sum(drawn[text] for text in cells)
    statistic = sum((drawn[text] - mean) ** 2 / mean for text, mean in cells.items()) + (others - rest) ** 2 / rest
    # Chi-squared with len(cells) degrees of freedom: mean and standard deviation.
    assert statistic < len(cells) + 4.5 * (2 * len(cells)) ** 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_drafts_keep_to_the_grammar(eager, kind):
    """Every drafted token is one that the grammar allows there."""
    seen = []

    class Model(ToyModel):
        def step(self, sequence_ids, tokens, counts=None):
            result = super().step(sequence_ids, tokens, counts)
            seen.extend(bytes(i + 0x1F for i in self.cache.sequences[s] if i < 96) for s in sequence_ids)
            return result

    parts = parts_for(kind)
    parts = replace(parts, model=Model(parts.cache, logits=repeating_logits))
    words = WordGrammar(["abcabcabcabcabd", "abcabcabcabd"])
    with serve(kind, parts) as service:
        texts = {run(service, request("abc:", grammar=words, seed=i, temperature=3.0)).text() for i in range(30)}
        assert service.stats().accepted_tokens > 10
    assert texts == set(words.texts)
    for data in seen:
        assert any(text.encode().startswith(data.partition(b":")[2]) for text in words.texts)


class Unforkable(WordMatcher):
    fork = None  # type: ignore[assignment]


def test_a_matcher_that_cannot_fork_gets_no_drafts(eager):
    class Grammar:
        def matcher(self):
            return Unforkable(SENTENCES)

    with serve("prompt-lookup") as service:
        inbox = run(service, request("the king and the queen", grammar=Grammar(), seed=1, max_tokens=60))
        assert inbox.text() in SENTENCES and service.stats().drafted_tokens == 0


@pytest.mark.parametrize("after", range(4))
@pytest.mark.parametrize("how", ["fill", "accept"])
def test_a_matcher_that_fails_along_a_draft_fails_where_plain_decoding_does(eager, how, after):
    class Bad(WordMatcher):
        def __init__(self) -> None:
            super().__init__(["ababababababab"])

        def fill_mask(self, row):
            if how == "fill" and len(self.done) >= 2 * after:
                raise RuntimeError("broken")
            super().fill_mask(row)

        def accept(self, token):
            if how == "accept" and len(self.done) >= 2 * after:
                raise RuntimeError("broken")
            return super().accept(token)

    class Grammar:
        def matcher(self):
            return Bad()

    def ends(kind: str) -> tuple[str, str]:
        with serve(kind) as service:
            inbox = run(service, request("ababab", grammar=Grammar(), temperature=0.0))
            assert run(service, request("fine")).finished()
            return inbox.text(), str(inbox.error())

    assert ends("prompt-lookup") == ends("off")


@pytest.mark.parametrize("kind", KINDS)
def test_processors_see_only_what_was_drawn(eager, kind):
    class Recorder:
        name, phase, order, argmax_invariant = "recorder", "edit", 1, False

        def __init__(self):
            self.seen = {}

        def wants(self, row):
            return True

        def apply(self, logits, rows):
            assert len(set(map(id, rows))) == len(rows)
            for row in rows:
                self.seen.setdefault((row.request_id, row.index), []).append(list(row.output))

        def rollback(self, row, length):
            raise AssertionError("nothing was to be taken back")

        def preempt(self, row):
            pass

        def resume(self, row):
            pass

        def release(self, row, *, aborted=False):
            pass

    recorder = Recorder()

    class Plugin:
        @hookimpl
        def slipcast_logits_processors(self):
            return [recorder]

    parts = parts_for(kind, plugins=create_manager(extra=[("p", Plugin())]))
    with serve(kind, parts) as service:
        inbox = run(service, request("abcdefghi", n=3, seed=2, temperature=0.7, ignore_eos=True))
        assert service.stats().accepted_tokens > 10
    for i in range(3):
        [seen] = [seen for key, seen in recorder.seen.items() if key[1] == i]
        assert seen == [inbox.tokens(i)[:k] for k in range(30)]


def test_a_fault_of_the_draft_model_ends_speculation_alone(plain, eager, caplog):
    parts = parts_for("draft")

    def fail(step: int) -> None:
        if step == 9:
            raise FloatingPointError("the draft is torn")

    parts.draft.model.on_step = fail
    with serve("draft", parts) as service:
        assert outcomes(service, some_requests()) == plain
        assert service.stats().failed == 0
    assert parts.draft.model.steps == 9
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_fault_of_the_model_fails_the_batch_and_speculation_goes_on(eager):
    parts = parts_for("draft")

    def fail(step: int) -> None:
        if step == 5:
            raise RuntimeError("once")

    parts.model.on_step = fail
    with serve("draft", parts) as service:
        r = request("abcdefghi", temperature=0.0, ignore_eos=True, max_tokens=60)
        assert isinstance(run(service, r).error(), ModelFault)
        again = run(service, request("abcdefghi", temperature=0.0, ignore_eos=True, max_tokens=60)).tokens()
    with serve("off") as service:
        assert run(service, r).tokens() == again
    assert len(parts.draft.cache.sequences) <= 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_chaos(eager, kind, seed):
    """Everything at once at random, with cancellations, faults and few pages; nothing is left behind."""
    rng = random.Random(seed)
    jobs = []
    for _ in range(30):
        text = "".join(rng.choices(["abc", "ab", " ", "abcd"], k=rng.randrange(1, 9)))
        params = dict(rng.choice(KINDS_OF_PARAMS)) | {"max_tokens": rng.randrange(1, 50), "n": rng.choice([1, 1, 3])}
        jobs.append(request(text, grammar=WordGrammar(SENTENCES) if rng.random() < 0.3 else None, **params))
    parts = parts_for(kind, pages=34, draft_pages=rng.choice([8, 34]), context=100)
    if kind == "draft":
        parts.draft.model.max_rows = 12

    def fault(step: int) -> None:
        if step == 40:
            raise RuntimeError("once")

    parts.model.on_step = fault
    inboxes = [Inbox(job.params.n) for job in jobs]
    cancelled = set()
    with serve(kind, parts, max_batch=5, prefill_chunk=12) as service:
        for job, inbox in zip(jobs, inboxes, strict=True):
            service.submit(job, inbox)
            if rng.random() < 0.2:
                threading.Event().wait(rng.random() * 0.01)
                service.cancel(job.id)
                cancelled.add(job.id)
        for inbox in inboxes:
            inbox.wait()
        assert service.stats().running == service.stats().waiting == 0
        assert not service._loop._chain._active
        speculator = service._loop._speculator
        assert speculator._drafter is not None and not speculator._pace._shown
        assert not getattr(speculator._drafter, "_lines", None) and not getattr(speculator._drafter, "_indexes", None)
    assert parts.cache.free_pages == 34 and not parts.cache.sequences
    with serve("off", max_batch=1, kv_manager="plain") as service:
        for job, inbox in zip(jobs, inboxes, strict=True):
            if job.id not in cancelled and not isinstance(inbox.events[-1], Failed):
                assert outcome(inbox) == outcome(run(service, job))


@pytest.mark.parametrize("kind", KINDS)
def test_a_slow_grammar_is_asked_for_one_draft_only(eager, kind):
    forks = []

    class Slow(WordMatcher):
        def fork(self):
            forks.append(self)
            time.sleep(0.03)
            return super().fork()

        def fill_mask(self, row):
            if len(forks) > 0:
                time.sleep(0.03)
            super().fill_mask(row)

    class Grammar:
        def matcher(self):
            return Slow(["abababababababababab"])

    with serve(kind) as service:
        inbox = run(service, request("ababab", grammar=Grammar(), temperature=0.0))
        assert inbox.text() == "abababababababababab"
        assert service.stats().accepted_tokens <= 8 and len(forks) < 20


# ---- look-up


def choice_of(text: list[int]):
    return ActiveRequest(GenerationRequest([1, *text], SamplingParams()), lambda event: None, [None], 99, 0).choices[0]


def free(guesses, ends):
    """The drafts where no grammar is."""
    return {choice: draft for choice, tokens in guesses.items() if (draft := follow(None, tokens, ends)) is not None}


def naive(text: list[int], count: int) -> list[int]:
    for size in SIZES:
        for start in range(len(text) - size - 1, -1, -1):
            if text[start : start + size] == text[len(text) - size :]:
                found = list(text)
                while len(found) < len(text) + count:
                    found.append(found[start + size + len(found) - len(text)])
                return found[len(text) :]
    return []


@given(st.lists(st.integers(1, 4), max_size=40), st.lists(st.integers(1, 4), min_size=1, max_size=20))
def test_look_up_finds_the_latest_longest_match(prompt, output):
    choice = choice_of(prompt)
    drafter = PromptLookup(frozenset({EOS}), free)
    for token in output:
        choice.output.append(token)
        offers = drafter.offer({choice: 5})
        expected = naive(choice.tokens(), 5)
        assert offers == ({choice: 5} if expected else {})
        if expected:
            assert drafter.guess({choice: 3})[choice].tokens == expected[:3]
    drafter.release(choice)
    assert not drafter._indexes and not drafter._offers


def test_drafts_end_before_an_end_token():
    choice = choice_of([5, 6, 7, EOS, 5, 6])
    drafter = PromptLookup(frozenset({EOS}), free)
    choice.output.append(7)
    assert drafter.guess(drafter.offer({choice: 5})) == {}
    choice.output[-1] = 6
    assert drafter.guess(drafter.offer({choice: 5})) == {}


# ---- pace


def test_drafts_are_as_long_as_pays():
    choice, pace = choice_of([]), Pace()
    for _ in range(20):
        for rows in range(1, 33):
            pace.stepped(rows, 10 + 1.0 * rows)  # memory-bound: a row costs a tenth of a step
        pace.shown(choice, 4, 4)
    assert pace.lengths({choice: 7}, 1, 100) == {choice: 7}
    assert pace.lengths({choice: 7}, 1, 2) == {choice: 2}
    for _ in range(200):
        pace.shown(choice, 4, 0)
    assert pace.lengths({choice: 7}, 1, 100) == {}
    waited = 0
    while not pace.lengths({choice: 7}, 1, 100):
        pace.rested([choice])
        waited += 1
        assert waited < 1000
    assert waited > 10  # tried again, now and then
    costly = Pace()
    for _ in range(20):
        for rows in range(1, 33):
            costly.stepped(rows, 1.0 * rows)  # compute-bound: nothing is won by guessing
        costly.shown(choice, 4, 4)
    assert costly.lengths({choice: 7}, 1, 100) == {}


def test_slow_guesses_count():
    choice, pace = choice_of([]), Pace()
    for rows in range(1, 33):
        pace.stepped(rows, 10 + 1.0 * rows)
    pace.guessed(10, 10.0)
    cheap = pace.lengths({choice: 7}, 1, 100)
    for _ in range(50):
        pace.guessed(1, 30.0)
    assert cheap and not pace.lengths({choice: 7}, 1, 100)


def test_the_surer_choice_gets_more():
    sure, unsure, pace = choice_of([]), choice_of([1]), Pace()
    for rows in range(1, 33):
        pace.stepped(rows, 10 + 1.0 * rows)
    for _ in range(9):
        pace.shown(sure, 7, 7)
        pace.shown(unsure, 7, 1)
    lengths = pace.lengths({unsure: 7, sure: 7}, 2, 100)
    assert lengths[sure] > lengths.get(unsure, 0)


# ---- configuration


@pytest.mark.parametrize(
    ("options", "key"),
    [
        ({"speculation": "on"}, "speculation"),
        ({"speculation": "draft"}, "draft_model"),
        ({"speculation": "draft", "draft_model": ""}, "draft_model"),
        ({"speculation": "prompt-lookup", "draft_model": "m"}, "draft_model"),
        ({"draft_model": "m"}, "draft_model"),
        ({"draft_length": 3}, "draft_length"),
        ({"speculation": "prompt-lookup", "draft_length": 0}, "draft_length"),
        ({"speculation": "prompt-lookup", "draft_length": True}, "draft_length"),
    ],
)
def test_wrong_options(options, key):
    with pytest.raises(ConfigError) as caught:
        EngineConfig.read(options)
    assert caught.value.key == key and key in str(caught.value)
