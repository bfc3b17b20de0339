"""Checks that authors run against their plugins: each says in one sentence what does not hold, as an AssertionError."""

from __future__ import annotations

import gc
import random
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ...samplers import Logits, LogitsProcessor, Sampler, SamplingParams
from ..fitting import check_part
from ..manager import create_manager
from ..protocols import KVCache, KVManager, Scheduler
from .fakes import VOCABULARY, FakeAnswer, FakeChoice, FakeEngine, FakeRequest, fake_logits


def check_plugin(plugin: Any, *, parameters: Mapping[str, Any] | None = None) -> None:
    """The plugin loads, and its logits processors keep what the protocol promises.

    `parameters`: a request's for this plugin, as JSON data, where its processors want such.
    """
    plugins = create_manager(extra=[("plugin", plugin)])
    options = {} if parameters is None else plugins.request_options({"plugin": parameters})
    tokens: list[bytes | None] = [None, *(bytes([i]) for i in range(1, VOCABULARY))]
    processors = plugins.logits_processors(VOCABULARY, tokens)
    theirs = [k for k, processor in enumerate(processors) if plugins.guard_of(processor) is not None]
    for k in theirs:
        check_processor(lambda k=k: plugins.logits_processors(VOCABULARY, tokens)[k], options=options)  # type: ignore[misc]


def check_processor(
    make: Callable[[], LogitsProcessor],
    *,
    params: SamplingParams | None = None,
    options: Mapping[str, Any] | None = None,
    vocabulary_size: int = VOCABULARY,
) -> None:
    """Rows do not depend on their company, on their order, on preemption or on a call that is repeated; an output that
    is cut back is as if it had never been longer; what is masked is left so; `argmax_invariant` is true; and nothing is
    kept of a choice that ended. `options`: parameters by plugin, as instances of its model.
    """
    processor = make()
    check_part("plugin", "slipcast_logits_processors", processor, LogitsProcessor)
    rows = [_choice(i, params, options) for i in range(6)]
    wanted = [row for row in rows if processor.wants(row)]
    assert wanted, f"{processor.name} wants no row: give the params or options that make it"
    logits = np.stack([fake_logits(row.output or [7], vocabulary_size) for row in wanted])
    if processor.phase == "shape":
        logits[:, ::3] = -np.inf
    together = _applied(processor, logits, wanted)
    _check_logits(processor, logits, together)
    again = _applied(processor, logits, wanted)
    assert np.array_equal(together, again), f"{processor.name}: a call that is repeated gives something else"
    for i, row in enumerate(wanted):
        alone = _applied(processor, logits[i : i + 1], [row])
        assert np.array_equal(alone[0], together[i]), f"{processor.name}: row {i} depends on the other rows of the call"
    turned = _applied(processor, logits[::-1], wanted[::-1])[::-1]
    assert np.array_equal(turned, together), f"{processor.name}: rows depend on their order in the call"
    for row in wanted:
        processor.preempt(row)
        processor.resume(row)
    moved = _applied(processor, logits, wanted)
    assert np.array_equal(moved, together), f"{processor.name}: preemption changes what it does"
    _check_rollback(make, wanted[-1], logits[-1:])
    _check_release(make, params, options, vocabulary_size)


def check_sampler(make: Callable[[], Sampler], *, params: SamplingParams | None = None) -> None:
    """It takes allowed tokens only, the highest of a greedy row, and rows do not depend on their company."""
    sampler = make()
    check_part("plugin", "slipcast_sampler", sampler, Sampler)
    rows = [_choice(i, params, None) for i in range(8)]
    rows[0].params = replace(rows[0].params, temperature=0.0)
    logits = np.stack([fake_logits(row.output or [7]) for row in rows])
    logits[:, 1::2] = -np.inf
    logits[3, 2:] = -np.inf
    together = np.asarray(sampler.choose(logits.copy(), rows))
    assert together.shape == (8,) and np.issubdtype(together.dtype, np.integer), f"{sampler.name}: not one id per row"
    assert np.isfinite(logits[np.arange(8), together]).all(), f"{sampler.name}: it took a token that is not allowed"
    assert together[0] == logits[0].argmax(), f"{sampler.name}: a greedy row did not get its highest logit"
    for i, row in enumerate(rows):
        alone = int(np.asarray(sampler.choose(logits[i : i + 1].copy(), [row]))[0])
        assert alone == together[i], f"{sampler.name}: row {i} depends on the other rows, or on how often it is asked"


def check_scheduler(plugin: Any, name: str) -> None:
    """Outputs are those of first come first served, everybody is served, also when pages are short; and nothing is kept
    of a choice that ended.
    """
    requests = _requests(20)
    expected = _tokens(FakeEngine(max_batch=1, pages=64).generate(requests))
    for pages in (64, 14):
        engine = FakeEngine(plugin, scheduler=name, pages=pages)
        _check_faultless(engine, name, engine.generate(requests), expected)
    policy: Scheduler = engine.policy
    choice = FakeChoice(user="a")
    assert policy.admit([choice], ()) in (0, None), f"{name}: of one that waits it admitted another"
    policy.leave(choice, aborted=True)
    gone = weakref.ref(choice)
    del choice
    gc.collect()
    assert gone() is None, f"{name}: it keeps choices that left"


def check_kv_manager(plugin: Any, name: str) -> None:
    """Outputs are those without it, with pages to spare and with few; and `clear` leaves the cache empty."""
    requests = _requests(20)
    expected = _tokens(FakeEngine(max_batch=1, pages=64).generate(requests))
    for pages in (64, 14):
        engine = FakeEngine(plugin, kv_manager=name, pages=pages)
        for _ in range(2):
            _check_faultless(engine, name, engine.generate(requests), expected)
        engine.kv.clear()
        assert engine.cache.free_pages == pages, f"{name}: clear leaves pages behind"


def check_kv_start(make: Callable[[KVCache], KVManager], cache: KVCache) -> None:
    """`match` says what `start` will do, and changes nothing."""
    kv = make(cache)
    tokens = [5] * 13
    before = set(cache.sequences)
    matched = kv.match(tokens)
    assert set(cache.sequences) == before, f"{kv.name}: match changed the cache"
    assert kv.start(1 << 30, tokens) == matched, f"{kv.name}: match and start differ"
    kv.stop(1 << 30, keep=False)


def _choice(i: int, params: SamplingParams | None, options: Mapping[str, Any] | None) -> FakeChoice:
    output = random.Random(i).choices(range(1, 40), k=3 * i)
    return FakeChoice((1, 2, 3 + i), output, params or SamplingParams(), options or {}, f"request {i}", stream=i + 1)


def _applied(processor: LogitsProcessor, logits: Logits, rows: Sequence[FakeChoice]) -> Logits:
    changed: Logits = np.ascontiguousarray(logits).copy()
    answer: Any = processor.apply(changed, rows)  # type: ignore[func-returns-value]
    kind = type(answer).__name__
    assert answer is None, f"{processor.name}.apply returned {kind}: it must change the logits in place"
    return changed


def _check_logits(processor: LogitsProcessor, before: Logits, after: Logits) -> None:
    assert not np.isnan(after).any(), f"{processor.name} leaves NaN"
    assert not np.isposinf(after).any(), f"{processor.name} leaves infinity"
    left = np.where(np.isneginf(before), -np.inf, after)
    assert np.isfinite(left.max(axis=1)).all(), f"{processor.name} leaves no allowed token"
    if processor.argmax_invariant:
        assert (left.argmax(axis=1) == before.argmax(axis=1)).all(), (
            f"{processor.name} says that it is argmax_invariant, and another logit is the highest now"
        )


def _check_rollback(make: Callable[[], LogitsProcessor], row: FakeChoice, logits: Logits) -> None:
    fresh, used = make(), make()
    whole = list(row.output)
    short = whole[: len(whole) // 2]
    for processor, steps in ((used, len(whole)), (fresh, len(short))):
        assert processor.wants(row)
        for length in range(steps + 1):
            row.output[:] = whole[:length]
            _applied(processor, logits, [row])
    used.rollback(row, len(short))
    got, expected = _applied(used, logits, [row]), _applied(fresh, logits, [row])
    row.output[:] = whole
    assert np.array_equal(got, expected), f"{used.name}: after a rollback it still counts what is void"
    for processor in (fresh, used):
        processor.release(row, aborted=False)


def _check_release(
    make: Callable[[], LogitsProcessor],
    params: SamplingParams | None,
    options: Mapping[str, Any] | None,
    vocabulary_size: int,
) -> None:
    for aborted in (False, True):
        processor, row = make(), _choice(3, params, options)
        if processor.wants(row):
            _applied(processor, fake_logits(row.output, vocabulary_size)[None], [row])
        processor.release(row, aborted=aborted)
        gone = weakref.ref(row)
        del row
        gc.collect()
        assert gone() is None, f"{processor.name}: it keeps choices that were released"


def _requests(count: int) -> list[FakeRequest]:
    rng = random.Random(5)
    return [
        FakeRequest(
            prompt=[9] * rng.randrange(1, 9) + rng.choices(range(1, 99), k=rng.randrange(1, 6)),
            params=SamplingParams(
                max_tokens=rng.randrange(2, 12), seed=i, temperature=float(i % 2), n=1 + (i % 5 == 0)
            ),
            user=rng.choice([None, "a", "b"]),
            priority=rng.randrange(3),
            arrive=rng.randrange(10),
        )
        for i in range(count)
    ]


def _tokens(answers: Sequence[FakeAnswer]) -> list[list[list[int]]]:
    return [answer.tokens for answer in answers]


def _check_faultless(
    engine: FakeEngine, name: str, answers: Sequence[FakeAnswer], expected: list[list[list[int]]]
) -> None:
    for one in engine.plugins.status():
        assert not one.faults and one.quarantined is None, f"{name} failed {one.faults} times: {one.quarantined}"
    assert _tokens(answers) == expected, f"{name} changes outputs"
