"""The shipped scheduling policies: whom they admit and put back, by definition; and that all give the same outputs."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

import pytest
from engine_toys import Inbox, ToyCache, ids, run, toy_parts, toy_service
from slipcast.engine.request import GenerationRequest
from slipcast.plugins.shipped_kv import PlainKV, PrefixKV
from slipcast.plugins.shipped_scheduling import (
    OUTPUT_WEIGHT,
    PATIENCE,
    FairShare,
    FirstComeFirstServed,
    Priority,
    ShortestMissFirst,
)
from slipcast.samplers import SamplingParams


@dataclass(eq=False)
class Choice:
    prompt: list[int] = field(default_factory=list)
    output: list[int] = field(default_factory=list)
    user: str | None = None
    priority: int = 0
    arrived: float = 0.0


def test_first_come_first_served():
    line = [Choice(), Choice(), Choice()]
    assert FirstComeFirstServed().admit(line, []) == 0 and FirstComeFirstServed().preempt(line) == 2


def test_priority():
    rng = random.Random(0)
    for _ in range(50):
        line = [Choice(priority=rng.randrange(-2, 3)) for _ in range(rng.randrange(1, 9))]
        lowest, highest = min(c.priority for c in line), max(c.priority for c in line)
        assert Priority().admit(line, []) == [c.priority for c in line].index(lowest)
        last = max(i for i, c in enumerate(line) if c.priority == highest)
        assert Priority().preempt(line) == last


def test_the_shortest_miss_first():
    cache = ToyCache(50)
    kv = PrefixKV(cache)
    kv.start(1, list(range(40)))
    kv.extend(1, list(range(40)))
    policy = ShortestMissFirst(kv, clock=lambda: 100.0)
    known, short, long = (Choice(prompt, arrived=99) for prompt in (list(range(44)), [77] * 9, [88] * 30))
    assert policy.admit([long, short, known], []) == 2  # 4 tokens to compute, though it is the longest
    assert policy.admit([long, short], []) == 1
    assert kv.match(known.prompt) == 40
    long.arrived = 100.0 - PATIENCE
    assert policy.admit([short, known, long], []) == 2


def serve(policy: FairShare, waiting: list[Choice], rounds: int, batch: int = 2) -> dict[str | None, int]:
    """A toy engine: admits while there is room, gives each running choice a token a round; tokens by user."""
    running: list[Choice] = []
    given: dict[str | None, int] = {}
    for _ in range(rounds):
        while waiting and len(running) < batch:
            firsts = {choice.user: choice for choice in reversed(waiting)}
            window = list(dict.fromkeys([*waiting[:64], *firsts.values()]))
            choice = window[policy.admit(window, tuple(running))]
            waiting.remove(choice)
            running.append(choice)
            given[choice.user] = given.get(choice.user, 0) + len(choice.prompt)
        for choice in list(running):
            choice.output.append(0)
            given[choice.user] = given.get(choice.user, 0) + OUTPUT_WEIGHT
            if len(choice.output) >= 10:
                running.remove(choice)
                policy.leave(choice, aborted=False)
    return given


def test_users_get_equal_shares():
    rng = random.Random(1)
    waiting = [Choice([0] * rng.randrange(5, 40), user="many") for _ in range(400)]
    waiting += [Choice([0] * rng.randrange(5, 40), user="few") for _ in range(200)]
    given = serve(FairShare(), waiting, 800)
    assert given["few"] > 2000 and abs(given["many"] - given["few"]) < 100


def test_a_pause_saves_nothing_up():
    policy = FairShare()
    serve(policy, [Choice([0] * 20, user="here") for _ in range(100)], 400)
    waiting = [Choice([0] * 20, user=name) for _ in range(100) for name in ("here", "back")]
    given = serve(policy, waiting, 200)
    assert abs(given["here"] - given["back"]) < 120


def test_users_that_left_are_forgotten():
    policy = FairShare()
    for i in range(300):
        serve(policy, [Choice([0] * 5, user=f"user {i}")], 12)
    assert len(policy._served) < 20 and not policy._counted


def test_fair_puts_back_who_was_served_most():
    policy, much, little = FairShare(), Choice([0] * 90, user="a"), Choice([0] * 3, user="b")
    policy.admit([much, little], [])
    policy.admit([little], [much])
    assert policy.preempt([much, little]) == 0


@pytest.mark.parametrize("name", ["fcfs", "priority", "prefix", "fair"])
def test_outputs_do_not_depend_on_the_policy(name):
    rng = random.Random(3)
    asked = [
        (ids("".join(rng.choices("ab ", k=rng.randrange(1, 20)))), rng.randrange(3), rng.choice(["x", "y", None]))
        for _ in range(12)
    ]
    params = SamplingParams(max_tokens=12, ignore_eos=True, seed=5)
    with toy_service(kv_manager="plain", max_batch=1) as service:
        alone = [run(service, GenerationRequest(prompt, params)).tokens() for prompt, _, _ in asked]
    parts = toy_parts(pages=20, context=60)
    with toy_service(parts, scheduler=name, max_batch=5) as service:
        with parts.model.held():
            inboxes = [Inbox() for _ in asked]
            for inbox, (prompt, priority, user) in zip(inboxes, asked, strict=True):
                service.submit(GenerationRequest(prompt, params, priority=priority, user=user), inbox)
        assert [inbox.wait().tokens() for inbox in inboxes] == alone
        assert service.stats().free_pages <= 20


def test_the_plain_manager_has_nothing_to_match():
    assert PlainKV(ToyCache(4)).match([1, 2, 3, 4, 5]) == 0
