"""A small engine without a model: whatever a plugin offers can be run in it, in milliseconds.

The next token of the fake model depends on all tokens before it, so a plugin that mixes up rows, loses tokens or shares
the wrong pages changes outputs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...samplers import Fault, Logits, SamplerChain, SamplingParams
from ...samplers.random import stream
from ..manager import Plugins, create_manager

Options = TypeVar("Options")
VOCABULARY = 256
END = 0


@dataclass(eq=False)
class FakeChoice:
    """A ChoiceView whose every member can be given."""

    prompt: Sequence[int] = (1, 2, 3)
    output: list[int] = field(default_factory=list)
    params: SamplingParams = field(default_factory=SamplingParams)
    plugins: Mapping[str, Any] = field(default_factory=dict)
    request_id: str = "request"
    index: int = 0
    stream: int = 1
    grammar: Any = None
    arrived: float = 0.0
    preemptions: int = 0
    user: str | None = None
    priority: int = 0

    def options(self, model: type[Options], /) -> Options | None:
        """As the engine's: the instance of `model` among `plugins`."""
        return next((given for given in self.plugins.values() if isinstance(given, model)), None)


@dataclass(frozen=True)
class FakeRequest:
    """`arrive` and `cancel` are steps of the fake engine; `plugins` is checked as a server checks it."""

    prompt: Sequence[int] = (1, 2, 3)
    params: SamplingParams = field(default_factory=lambda: SamplingParams(max_tokens=8, seed=1))
    plugins: Mapping[str, Any] = field(default_factory=dict)
    user: str | None = None
    priority: int = 0
    arrive: int = 0
    cancel: int | None = None


@dataclass
class FakeAnswer:
    """The tokens of each of the request's `n` choices; `error` where a plugin failed it."""

    tokens: list[list[int]]
    error: Fault | None = None
    cancelled: bool = False


class FakeCache:
    """A KVCache that holds the tokens themselves, in pages that forks share."""

    def __init__(self, pages: int = 64, page_size: int = 4) -> None:
        self.total_pages = pages
        self.page_size = page_size
        self.sequences: dict[int, list[int]] = {}
        self._pages: dict[int, list[int]] = {}
        self._made = 0

    @property
    def free_pages(self) -> int:
        """Pages that no sequence has."""
        return self.total_pages - len({page for pages in self._pages.values() for page in pages})

    def add(self, sequence: int, /) -> None:
        """A new, empty sequence."""
        if sequence in self.sequences:
            raise ValueError(f"there is a sequence {sequence} already")
        self.sequences[sequence], self._pages[sequence] = [], []

    def remove(self, sequence: int, /) -> None:
        """Forget a sequence."""
        del self.sequences[sequence], self._pages[sequence]

    def fork(self, parent: int, child: int, /, position: int = -1) -> None:
        """Share whole pages, copy the one that the fork ends in."""
        held = self.sequences[parent]
        position = len(held) if position == -1 else position
        if not 0 <= position <= len(held):
            raise ValueError(f"sequence {parent} holds {len(held)} tokens, not {position}")
        self.add(child)
        self._pages[child] = self._pages[parent][: position // self.page_size]
        self.sequences[child] = held[: position - position % self.page_size]
        self.extend(child, held[len(self.sequences[child]) : position])

    def truncate(self, sequence: int, count: int, /) -> None:
        """Drop the last `count` tokens."""
        kept = self.sequences[sequence][: len(self.sequences[sequence]) - count]
        self.sequences[sequence] = kept
        del self._pages[sequence][-(-len(kept) // self.page_size) :]

    def length(self, sequence: int, /) -> int:
        """Tokens held."""
        return len(self.sequences[sequence])

    def read(self, sequence: int, start: int, stop: int, /) -> bytes:
        """Whole pages, as bytes."""
        return np.array(self.sequences[sequence][start:stop], "<i4").tobytes()

    def write(self, sequence: int, data: bytes, /) -> None:
        """Append what `read` gave."""
        self.extend(sequence, np.frombuffer(data, "<i4").tolist())

    def extend(self, sequence: int, tokens: Sequence[int]) -> None:
        """What a step of the model does."""
        self.sequences[sequence] = [*self.sequences[sequence], *tokens]
        pages = self._pages[sequence] = list(self._pages[sequence])
        while len(pages) * self.page_size < len(self.sequences[sequence]):
            self._made += 1
            pages.append(self._made)
        if self.free_pages < 0:
            raise ValueError("the cache ran out of pages: KVManager.reserve promised more than there were")


def fake_logits(tokens: Sequence[int], vocabulary_size: int = VOCABULARY) -> Logits:
    """float32 [V], a function of all tokens."""
    seed = int.from_bytes(hashlib.blake2b(np.array(tokens, "<i8").tobytes(), digest_size=8).digest(), "little")
    return np.random.default_rng(seed).normal(0.0, 3.0, vocabulary_size).astype(np.float32)


class FakeEngine:
    """Continuous batching over the fake model, with the plugins given as (name, plugin), or as one named "plugin".

    `tokens`: the bytes of the tokens, by default id i is the byte i and 0 ends an output. Raises what a wrong plugin
    raises when it is loaded.
    """

    def __init__(
        self,
        *plugins: Any,
        sampler: str = "seeded",
        scheduler: str = "fcfs",
        kv_manager: str = "plain",
        max_batch: int = 4,
        pages: int = 64,
        tokens: Sequence[bytes | None] | None = None,
        timeout: float | None = None,
    ) -> None:
        named = [one if isinstance(one, tuple) else ("plugin", one) for one in plugins]
        self.plugins: Plugins = create_manager(extra=named, timeout=timeout)
        self.cache = FakeCache(pages)
        self.kv = self.plugins.kv_manager(kv_manager, self.cache)
        self.policy = self.plugins.scheduler(scheduler, self.kv)
        self.tokens = tokens or [None, *(bytes([i]) for i in range(1, VOCABULARY))]
        processors = self.plugins.logits_processors(len(self.tokens), self.tokens)
        self.chain = SamplerChain(processors, self.plugins.sampler(sampler), self.plugins.guard_of)
        self.preempted = 0
        self._max_batch = max_batch
        self._sequences = 0

    def generate(self, requests: Sequence[FakeRequest]) -> list[FakeAnswer]:
        """Serve the requests together. Raises PluginOptionError for parameters that do not fit."""
        answers = [FakeAnswer([[] for _ in range(request.params.n)]) for request in requests]
        jobs = [
            _Job(
                FakeChoice(
                    tuple(request.prompt), answers[i].tokens[index], request.params,
                    self.plugins.request_options(request.plugins), f"request {i}", index,
                    stream(request.params.seed or i, index), arrived=float(request.arrive), user=request.user,
                    priority=request.priority,
                ),
                request, answers[i],
            )
            for i, request in enumerate(requests)
            for index in range(request.params.n)
        ]  # fmt: skip
        run = _Serving(self, jobs, self._max_batch)
        while not run.step():
            pass
        return answers

    def new_sequence(self) -> int:
        """A sequence's id."""
        self._sequences += 1
        return self._sequences


@dataclass(eq=False)
class _Job:
    choice: FakeChoice
    request: FakeRequest
    answer: FakeAnswer
    sequence: int | None = None
    started: bool = False

    @property
    def tokens(self) -> list[int]:
        return [*self.choice.prompt, *self.choice.output]


class _Serving:
    """One call of `generate`."""

    def __init__(self, engine: FakeEngine, jobs: Sequence[_Job], max_batch: int) -> None:
        self.engine = engine
        self.coming = list(jobs)
        self.waiting: list[_Job] = []
        self.running: list[_Job] = []
        self.max_batch = max_batch
        self.number = 0

    def step(self) -> bool:
        """One step; True once all are done."""
        for job in [job for job in self.coming if job.request.arrive <= self.number]:
            self.coming.remove(job)
            self.waiting.append(job)
            fault = self.engine.chain.start(job.choice)
            job.started = fault is None
            if fault is not None:
                self._end(job, fault)
        for job in [*self.waiting, *self.running]:
            if job.request.cancel is not None and job.request.cancel <= self.number:
                job.answer.cancelled = True
                self._end(job, None, aborted=True)
        self._admit()
        while self.running and not self.engine.kv.reserve(sum(map(self._missing_pages, self.running))):
            self._preempt()
        if self.running:
            self._compute()
        self.number += 1
        return not (self.coming or self.waiting or self.running)

    def _missing_pages(self, job: _Job) -> int:
        assert job.sequence is not None
        size = self.engine.cache.page_size
        return -(-len(job.tokens) // size) - -(-self.engine.cache.length(job.sequence) // size)

    def _admit(self) -> None:
        engine = self.engine
        while self.waiting and len(self.running) < self.max_batch:
            window = self.waiting[:64]
            at = engine.policy.admit([job.choice for job in window], tuple(job.choice for job in self.running))
            if at is None and self.running:
                return
            job = window[at or 0]
            job.sequence = engine.new_sequence()
            shared = engine.kv.start(job.sequence, job.tokens)
            held = engine.cache.sequences[job.sequence]
            if held != job.tokens[:shared]:
                raise AssertionError(f"KVManager.start answered {shared}, and the cache holds other tokens: {held}")
            promised = sum(map(self._missing_pages, self.running))
            if not engine.kv.reserve(self._missing_pages(job) + promised + 1) and self.running:
                engine.kv.stop(job.sequence, keep=False)
                job.sequence = None
                return
            self.waiting.remove(job)
            self.running.append(job)
            if job.choice.preemptions:
                engine.chain.move(job.choice, back=True)

    def _preempt(self) -> None:
        if len(self.running) < 2:
            raise ValueError("a request does not fit in the fake engine's cache: give it more pages")
        at = self.engine.policy.preempt(tuple(job.choice for job in self.running))
        job = self.running.pop(at)
        assert job.sequence is not None
        self.engine.kv.stop(job.sequence, keep=False)
        job.sequence = None
        job.choice.preemptions += 1
        self.engine.preempted += 1
        self.engine.chain.move(job.choice, back=False)
        self.waiting.insert(0, job)

    def _compute(self) -> None:
        engine = self.engine
        for job in self.running:
            assert job.sequence is not None
            new = job.tokens[engine.cache.length(job.sequence) :]
            engine.cache.extend(job.sequence, new)
            engine.kv.extend(job.sequence, new)
        size = len(engine.tokens)
        logits: NDArray[np.float32] = np.stack(
            [fake_logits(engine.cache.sequences[job.sequence or 0], size) for job in self.running]
        )
        outcome = engine.chain.run(logits, [job.choice for job in self.running], None)
        for i, job in enumerate(list(self.running)):
            if i in outcome.faults:
                self._end(job, outcome.faults[i])
                continue
            token = int(outcome.tokens[i])
            if token == END and not job.choice.params.ignore_eos:
                self._end(job, None)
                continue
            job.choice.output.append(token)
            if len(job.choice.output) >= (job.choice.params.max_tokens or 8):
                self._end(job, None)

    def _end(self, job: _Job, fault: Fault | None, *, aborted: bool = False) -> None:
        job.answer.error = job.answer.error or fault
        aborted = aborted or fault is not None
        (self.waiting if job in self.waiting else self.running).remove(job)
        if job.sequence is not None:
            self.engine.kv.stop(job.sequence, keep=fault is None)
        self.engine.policy.leave(job.choice, aborted=aborted)
        if job.started:
            self.engine.chain.end(job.choice, aborted=aborted)
