"""Pages: what the prefix cache shares, keeps and gives up, and that none is ever lost."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np
import pytest
from engine_toys import Inbox, ids, run, toy_parts, toy_service
from hypothesis import given, settings
from hypothesis import strategies as st
from slipcast.engine.choice import ActiveRequest, Choice
from slipcast.engine.request import GenerationRequest
from slipcast.engine.runtime.kv import KVCache
from slipcast.engine.scheduler import BatchScheduler
from slipcast.engine.speculation.drafts import Ahead, Draft, Drawing
from slipcast.plugins.shipped_kv import _WORTH, PlainKV, PrefixKV
from slipcast.plugins.shipped_scheduling import FirstComeFirstServed
from slipcast.samplers import SamplingParams

PAGE = 16


class World:
    """A manager over the runtime's cache, whose pages hold the tokens themselves."""

    def __init__(self, pages: int) -> None:
        self.memory = np.full((pages, PAGE), -1)
        self.cache = KVCache([self.memory], context_length=10_000)
        self.manager = PrefixKV(self.cache)
        self.texts: dict[int, list[int]] = {}
        self.plans: dict[int, list[int]] = {}

    def start(self, sequence: int, tokens: list[int]) -> int:
        found = self.manager.match(tokens)
        shared = self.manager.start(sequence, tokens)
        assert found == shared < len(tokens)
        self.texts[sequence], self.plans[sequence] = tokens[:shared], tokens
        self.check(sequence)
        return shared

    def compute(self, sequence: int, tokens: list[int], untold: int = 0) -> None:
        """The last `untold` of the tokens are a refused draft."""
        place = self.cache.begin([sequence], [len(tokens)])
        self.memory.reshape(-1)[place.slots] = tokens
        told = tokens[: len(tokens) - untold]
        self.manager.extend(sequence, told)
        self.texts[sequence] += told
        if untold:
            self.cache.truncate(sequence, untold)
        self.check(sequence)

    def check(self, sequence: int) -> None:
        pages, text = self.cache._pages[sequence], self.texts[sequence]
        assert self.cache.length(sequence) == len(text)
        assert self.memory[pages].reshape(-1)[: len(text)].tolist() == text

    def check_all(self) -> None:
        for sequence in self.texts:
            self.check(sequence)
        held = {page for pages in self.cache._pages.values() for page in pages}
        assert len(held) + self.cache.free_pages == self.cache.total_pages
        # Nobody writes where another reads.
        ends = [
            self.cache._pages[sequence][-1] for sequence, text in self.texts.items() if len(text) % PAGE
        ]
        assert all(self.cache._users[page] == 1 for page in ends)


def words(rng: random.Random) -> list[int]:
    """Texts that often begin alike."""
    return [token for _ in range(rng.randrange(1, 6)) for token in [rng.randrange(2)] * rng.choice([5, 16, 20])] + [9]


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 1 << 30))
def test_histories_of_starts_steps_and_ends(seed: int) -> None:
    rng = random.Random(seed)
    world, number = World(24), 0
    for _ in range(80):
        live = sorted(world.texts)
        action = rng.choice("sseeeeexr")
        if action == "s" and len(live) < 5 and world.cache.free_pages:
            number += 1
            world.start(number, words(rng))
        elif action == "e" and live:
            sequence = rng.choice(live)
            ahead = world.plans[sequence][len(world.texts[sequence]) :] or [rng.randrange(3)]
            chunk = ahead[: rng.randrange(1, 40)]
            untold = rng.choice([0, 0, 3])
            if world.manager.reserve(world.cache.pages_for(sequence, len(chunk) + untold)):
                world.compute(sequence, chunk + [7] * untold, untold)
        elif action == "x" and live:
            sequence = rng.choice(live)
            world.manager.stop(sequence, keep=rng.random() < 0.7)
            del world.texts[sequence], world.plans[sequence]
        elif action == "r":
            before = world.cache.free_pages
            wanted = rng.randrange(24)
            assert world.manager.reserve(wanted) == (world.cache.free_pages >= wanted)
            assert world.cache.free_pages >= before
        world.check_all()
    for sequence in list(world.texts):
        world.manager.stop(sequence, keep=True)
    kept = world.cache.total_pages - world.cache.free_pages
    assert world.manager.reserve(world.cache.total_pages)
    assert kept >= 0 and not world.cache.sequences and not world.manager._paths and not world.manager._root.children


def test_the_longest_prefix_is_found_wherever_it_came_from() -> None:
    world = World(40)
    system, first, second = [1] * 40, [2] * 30, [3] * 30
    for number, tokens in enumerate(([*system, *first], [*system, *second])):
        shared = world.start(number, tokens)
        world.compute(number, tokens[shared:])
        world.manager.stop(number, keep=True)
    # 32 whole pages of the system prompt, and the page in which the two texts part was copied for its first half.
    assert world.cache.total_pages - world.cache.free_pages == 2 + 2 + 2
    assert world.manager.match([*system, 8]) == 40
    assert world.manager.match([*system[:33], 8]) == 32  # one token more is not worth a copy
    assert world.manager.match([*system[:36], 8]) == 36 and _WORTH == 4
    assert world.manager.match([*system, *first]) == 64
    assert world.manager.match([8, *system]) == 0


def test_choices_of_a_request_share_its_prompt_to_the_last_token_but_one() -> None:
    world = World(10)
    prompt = list(range(100, 129))
    world.start(0, prompt)
    world.compute(0, prompt)
    world.compute(0, [1, 2])
    assert world.start(1, prompt) == 28
    assert world.cache.free_pages == 10 - 2 - 1
    world.compute(1, prompt[28:])
    world.compute(1, [5, 6, 7])
    world.compute(0, [3])
    world.check_all()


def test_what_was_used_least_recently_goes_first_and_from_its_end() -> None:
    world = World(12)
    for number, token in enumerate((1, 2, 3)):
        world.start(number, [token] * 64)
        world.compute(number, [token] * 64)
        world.manager.stop(number, keep=True)
    assert world.cache.free_pages == 0
    world.start(10, [1] * 40)  # uses the first one's beginning: 32 tokens, and no page is free for a copy
    world.manager.stop(10, keep=False)
    assert world.manager.reserve(3)
    assert [world.manager.match([token] * 65) for token in (1, 2, 3)] == [32, 48, 64]
    assert world.manager.reserve(6)
    assert [world.manager.match([token] * 65) for token in (1, 2, 3)] == [32, 0, 64]
    assert world.manager.reserve(12) and not world.cache.sequences


def test_what_runs_is_never_given_up() -> None:
    world = World(6)
    world.start(0, [1] * 40)
    world.compute(0, [1] * 40)
    world.start(1, [1] * 32 + [2] * 16)
    world.compute(1, [2] * 16)
    assert not world.manager.reserve(3) and world.cache.free_pages == 2
    world.manager.stop(1, keep=True)
    del world.texts[1]
    assert not world.manager.reserve(4)
    assert world.manager.reserve(3)
    world.check_all()


# ---- the scheduler, over many requests


def choices(rng: random.Random, count: int) -> Iterator[list[Choice]]:
    params = [SamplingParams(n=n) for n in (1, 1, 1, 3)]
    for _ in range(count):
        request = GenerationRequest(words(rng), rng.choice(params))
        n = request.params.n
        yield list(ActiveRequest(request, lambda event: None, [None] * n, rng.choice([1, 1, 2, 2, 24]), 0).choices)


@pytest.mark.parametrize(("manager", "count"), [(PrefixKV, 10_000), (PlainKV, 1_000)])
def test_ten_thousand_requests_leak_no_page(manager: type, count: int) -> None:
    """Prompts of all lengths, drafts, cancellations, failures, preemption and cleared caches; every page comes back."""
    rng = random.Random(5)
    cache = KVCache([np.zeros((18, PAGE), np.int8)], context_length=10_000)
    kv = manager(cache)
    scheduler = BatchScheduler(FirstComeFirstServed(), kv, cache, max_batch=6, chunk=64)
    source = choices(rng, count)
    arrived = ended = 0
    more = True
    while more or scheduler.running or scheduler.waiting:
        while more and len(scheduler.waiting) < 8:
            new = next(source, None)
            more = new is not None
            for choice in new or ():
                scheduler.add(choice)
            arrived += bool(new)
        works = scheduler.plan()
        room = 64 - sum(len(work.tokens) for work in works)
        drafts = {}
        for work in works:
            size = rng.choice([0, 0, 2, 5])
            if work.samples and 0 < size <= min(room, work.choice.left - 1):
                drafts[work.choice] = Draft([3] * size, [Ahead(None)] * size)
                room -= size
        works = scheduler.with_drafts(works, drafts)
        cache.begin([work.sequence for work in works], [len(work.chunk) for work in works])
        if rng.random() < 0.002:  # the model has failed
            for choice in list(scheduler.running):
                choice.done = True
            scheduler.clear()
            assert cache.free_pages == cache.total_pages
            continue
        scheduler.computed(works)
        drawings = [Drawing(w.choice, w.draft, logits=0, mask=0, ahead=0) for w in works if w.samples]
        for drawing in drawings:
            choice = drawing.choice
            while not drawing.over:
                choice.output.append(3 if rng.random() < 0.7 else 4)
                drawing.over = not drawing.goes_on or rng.random() < 0.1
                if not drawing.over:
                    scheduler.settle(drawing)
            if choice.left <= 0 or rng.random() < 0.02:
                choice.done = True
                scheduler.drop(choice, keep=rng.random() < 0.9)
                ended += 1
        scheduler.forget_drafts(drawings)
        if scheduler.waiting and rng.random() < 0.02:
            choice = rng.choice(scheduler.waiting)
            choice.done = True
            scheduler.drop(choice, keep=True)
        for choice in scheduler.running:
            assert choice.sequence is not None and cache.length(choice.sequence) == choice.computed < choice.length
        if rng.random() < 0.1:
            held = {page for pages in cache._pages.values() for page in pages}
            assert len(held) + cache.free_pages == cache.total_pages
    assert arrived == count < ended and scheduler.preempted > count / 100
    assert kv.reserve(cache.total_pages) and not cache.sequences
    assert all(users == 0 for users in cache._users)


def test_put_back_and_resumed_it_need_not_compute_all_again() -> None:
    parts = toy_parts(pages=26, context=80)
    with toy_service(parts, max_batch=4, prefill_chunk=16) as service:
        inboxes = [Inbox() for _ in range(4)]
        for i, inbox in enumerate(inboxes):
            params = SamplingParams(max_tokens=40, ignore_eos=True, seed=i)
            service.submit(GenerationRequest(ids("abcdefgh" + "xyzw"[i]), params), inbox)
        assert [len(inbox.wait().tokens()) for inbox in inboxes] == [40] * 4
        stats = service.stats()
    assert stats.preemptions > 0
    assert stats.prefilled_tokens < 4 * 9 + stats.preemptions * 40
    assert parts.cache.free_pages == 26


def test_a_short_prefix_that_ended_serves_again() -> None:
    params = SamplingParams(max_tokens=2)
    with toy_service() as service:
        run(service, GenerationRequest(ids("system: be kind. a"), params))
        done = run(service, GenerationRequest(ids("system: be kind. b"), params)).finished()
    assert done.usage.cached_tokens == 16
