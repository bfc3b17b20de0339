"""The engine as a service: a thread that steps the loop, and a door for every other thread."""

from __future__ import annotations

import atexit
import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import asdict, dataclass
from typing import Any, Self

from ..grammar.courtesy import COURTESY
from ..grammar.errors import GrammarError
from ..plugins import PluginError, Plugins
from ..plugins.metrics import MetricsSnapshot
from ..plugins.protocols import CompiledGrammar, GuidedMatcher, KVCache, Matcher, WayOut
from ..plugins.shipped_kv import PrefixKV
from ..samplers import SamplerChain, SamplingParams
from ..samplers.quick import QuickDraw
from ..samplers.random import fresh_seed
from .choice import ActiveRequest
from .config import DRAFT_LENGTH, EngineConfig
from .embedding import Embeddings, Vector
from .errors import BusyError, ClosedError, ConfigError, ContextLengthError, EngineError, PluginFault, RequestError
from .jumps import Jumps
from .lines import one_line
from .loop import Loop, StepModel
from .masking import Masks
from .matching import Matching
from .reasoning import Marker, Markers, reasoning_matcher
from .request import GenerationRequest, OnEvent
from .scheduler import BatchScheduler
from .sinks import Sinks
from .speculation.draft_model import DraftModel
from .speculation.lookup import PromptLookup
from .speculation.pace import Pace
from .speculation.speculator import Drafter, Speculator
from .stats import Stats
from .timing import Timing
from .tokenizer import TextTokenizer

_LOG = logging.getLogger(__name__)
Progress = Callable[[str, float], None]


@dataclass(frozen=True, slots=True)
class DraftParts:
    """A smaller model of the same vocabulary, which guesses; as `Parts` has the model itself."""

    model: StepModel
    cache: KVCache
    context_length: int


@dataclass(frozen=True, slots=True)
class Parts:
    """What a service runs: made by `assembly.open_parts` from a configuration, or put together by a test.

    `vocabulary_size`: V, the width of the logits. `context_length`: tokens that one sequence may hold. `compiler`: the
    grammar compiler, None where no request is constrained. `draft`: the model that guesses, where `speculation` is
    "draft". `draw`: the kernel for the common sampling chain.
    """

    name: str
    model: StepModel
    cache: KVCache
    tokenizer: TextTokenizer
    plugins: Plugins
    vocabulary_size: int
    context_length: int
    compiler: Any = None
    draft: DraftParts | None = None
    draw: QuickDraw | None = None


class EngineService:
    """Continuous batching behind three calls: `submit`, `cancel`, `close`. Any thread may call any method."""

    def __init__(
        self, config: EngineConfig | None = None, *, progress: Progress | None = None, parts: Parts | None = None
    ) -> None:
        """Open the model that `config` names, or run `parts`; then start the engine's thread.

        `progress` is called with a stage and the share of it that is done. Raises ConfigError, PluginError,
        TokenizerError, and the runtime's errors.
        """
        self.config = config or EngineConfig()
        if parts is None:
            from .assembly import open_parts

            parts = open_parts(self.config, progress)
        self._parts = parts
        self.timing = Timing()
        self._inbox: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._markers = Markers(parts.tokenizer, parts.vocabulary_size)
        self._open: set[str] = set()
        self._closed = False
        self._loop, self._scheduler, self._embeddings = _build(self.config, parts, self._ended)
        self._free_pages = parts.cache.free_pages
        self._sinks = Sinks(parts.plugins.metrics_sinks(), self.snapshot)
        self._thread = threading.Thread(target=self._run, name="slipcast-engine", daemon=True)
        self._thread.start()
        # A program may end without closing: a step that is cut off by the interpreter's end would abort the process.
        atexit.register(self.close)

    @property
    def model_name(self) -> str:
        """The model, as requests name it."""
        return self._parts.name

    @property
    def tokenizer(self) -> TextTokenizer:
        """The model's tokenizer."""
        return self._parts.tokenizer

    @property
    def compiler(self) -> Any:
        """The grammar compiler over the model's vocabulary; thread-safe."""
        return self._parts.compiler

    @property
    def closed(self) -> bool:
        """True once no request is taken any more: `close` was called, or the thread ended by a fault."""
        with self._lock:
            return self._closed

    @property
    def plugins(self) -> Plugins:
        """The active plugins."""
        return self._parts.plugins

    @property
    def context_length(self) -> int:
        """Tokens that prompt and output of one request may have together."""
        return min(self._parts.context_length, self._parts.cache.total_pages * self._parts.cache.page_size)

    def compile(self, kind: str, source: Any = None, options: Mapping[str, Any] | None = None) -> CompiledGrammar:
        """A grammar, by the front end for `kind` ("json_schema", "json_object", "regex", "choice", or a plugin's).

        In the caller's thread, so that it never holds up the batch. Raises GrammarError for the source, RequestError
        where a plugin's front end raises another ValueError about it, PluginError for an unknown kind, PluginFault for
        a front end that fails.
        """
        front_end = self._parts.plugins.grammar_frontend(kind)
        try:
            with self.timing.compiling():
                grammar = front_end(source, options or {}, self._parts.compiler)
        except (EngineError, GrammarError, PluginError):
            raise
        except ValueError as error:
            raise RequestError(one_line(str(error)), param="response_format") from error
        except Exception as error:
            reason = one_line(f"{type(error).__name__}: {error}")
            raise PluginFault(
                f"the front end for {kind!r} failed: {reason}", plugin=getattr(front_end, "plugin", kind)
            ) from error
        if not isinstance(grammar, CompiledGrammar):
            raise EngineError(f"the front end for {kind!r} returned {type(grammar).__name__}, not a compiled grammar")
        return grammar

    def submit(self, request: GenerationRequest, on_event: OnEvent, /) -> str:
        """Put a request in the line; its id. `on_event` is called from the engine's thread and should return at once.

        Raises RequestError and SamplingError for what the model cannot do, or for a `max_tokens` that is too small for
        any text of the grammar; GrammarError from the grammar's matcher, BusyError if the line is full, ClosedError.
        """
        budget = self._check(request)
        params = request.params
        marker = None if request.reasoning is None else self._markers.get(request.reasoning.end)
        with COURTESY.working():
            matchers = [self._matcher(request, marker) for _ in range(params.n)]
            way = None if matchers[0] is None else _way_out(matchers[0], budget, params.max_tokens)
        seed = fresh_seed() if params.seed is None else params.seed
        ids = frozenset[int]() if marker is None else marker.ids
        active = ActiveRequest(request, self.timing.watched(on_event), matchers, budget, seed, way, ids)
        with self._lock:
            if self._closed:
                raise ClosedError("the engine is closed")
            if request.id in self._open:
                raise RequestError(f"a request with the id {request.id!r} is running", param="id")
            if len(self._open) >= self.config.max_waiting + self.config.limits.max_batch:
                raise BusyError(f"{len(self._open)} requests are waiting or running", remedy="try again later")
            self._open.add(request.id)
            self._inbox.put(lambda: self._loop.add(active))
        return request.id

    def embed(self, tokens: Sequence[int]) -> Future[Vector]:
        """The embedding of a text (engine/embedding.py) as it will be: float32 [hidden], of length one.

        Raises RequestError for what is no token id, ContextLengthError, ClosedError; the future has RequestError for a
        model that gives none, BusyError, and the runtime's errors.
        """
        self._check(GenerationRequest(tokens, SamplingParams(max_tokens=1)))
        answer: Future[Vector] = Future()
        with self._lock:
            if self._closed:
                raise ClosedError("the engine is closed")
            self._inbox.put(lambda: self._embeddings.add(tokens, answer))
        return answer

    def release_cache(self) -> int:
        """Give up what is kept of ended requests; the number of pages that are in use all the same. Blocks for a step.

        Raises ClosedError.
        """
        answer: Future[int] = Future()
        with self._lock:
            if self._closed:
                raise ClosedError("the engine is closed")
            self._inbox.put(lambda: answer.set_result(self._scheduler.release()))
        return answer.result()

    def cancel(self, request_id: str, /) -> None:
        """End a request early: its unfinished choices get Finished("cancelled"). An unknown or ended one is ignored."""
        with self._lock:
            if not self._closed:
                self._inbox.put(lambda: self._loop.cancel(request_id))

    def stats(self) -> Stats:
        """Counters and times so far."""
        scheduler = self._scheduler
        return Stats(
            **asdict(self._loop.counters),
            preemptions=scheduler.preempted,
            running=len(scheduler.running),
            waiting=len(scheduler.waiting),
            free_pages=self._free_pages,
            total_pages=self._parts.cache.total_pages,
        )

    def snapshot(self) -> MetricsSnapshot:
        """The numbers of `stats`, as metrics sinks get them."""
        numbers = {name: value for name, value in asdict(self.stats()).items() if isinstance(value, int | float)}
        seconds = {one.name: one.seconds for one in self._parts.plugins.status() if one.active}
        return MetricsSnapshot(time.time(), numbers, seconds)

    def close(self) -> None:
        """Stop the thread. Requests that still run fail with ClosedError. Closing twice is harmless."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._inbox.put(self._stop)
        atexit.unregister(self.close)
        if threading.current_thread() is not self._thread:
            self._thread.join()
        self._sinks.close()
        self._parts.plugins.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _check(self, request: GenerationRequest) -> int:
        """The most tokens that each choice may have. Raises RequestError and SamplingError."""
        size = self._parts.vocabulary_size
        wrong = next((token for token in request.prompt if not 0 <= token < size), None)
        if wrong is not None:
            raise RequestError(f"the prompt holds {wrong}, not a token id below {size}", param="prompt")
        request.params.check_vocabulary(self._parts.tokenizer.size)
        limit, prompt, asked = self.context_length, len(request.prompt), request.params.max_tokens
        if prompt >= limit:
            raise ContextLengthError(
                f"the prompt has {prompt} tokens, and the context holds {limit} with the output",
                limit=limit,
                param="prompt",
                remedy="shorten it",
            )
        if asked is not None and prompt + asked > limit:
            raise ContextLengthError(
                f"{prompt} tokens of prompt and max_tokens {asked} exceed the context of {limit}",
                limit=limit,
                param="max_tokens",
                remedy=f"ask for at most {limit - prompt}",
            )
        return asked or limit - prompt

    def _matcher(self, request: GenerationRequest, marker: Marker | None) -> Matcher | None:
        matcher = None if request.grammar is None else request.grammar.matcher()
        reasoning = request.reasoning
        if marker is None or reasoning is None or (matcher is None and reasoning.budget is None):
            return matcher
        return reasoning_matcher(marker, matcher, reasoning.budget, self._markers.free)

    def _ended(self, request_id: str) -> None:
        with self._lock:
            self._open.discard(request_id)

    def _run(self) -> None:
        error: EngineError = ClosedError("the engine was closed")
        try:
            self._serve()
        except BaseException as cause:
            _LOG.exception("the engine's thread ended")
            error = EngineError(f"the engine's thread ended: {type(cause).__name__}: {cause}")
        finally:
            with self._lock:
                self._closed = True
            # What came in too late fails like what still runs.
            while (task := self._next(wait=False)) is not None:
                task()
            self._loop.fail_all(error)
            self._embeddings.fail_all(error)
            self._loop.close()

    def _serve(self) -> None:
        """Until closed: take what came in, do a step; sleep while there is nothing to do."""
        busy = False
        while (task := self._next(wait=not busy)) != self._stop:
            try:
                if task is not None:
                    task()
                    busy = True
                    continue
                busy = self._loop.step()
                busy = self._embeddings.step() or busy
                self._free_pages = self._parts.cache.free_pages
                if not busy and not self._loop.idle:
                    raise EngineError("requests wait, and the scheduler starts none of them")
            except Exception as cause:
                # A fault of the engine itself. What runs is in doubt; who comes after is served again.
                _LOG.exception("a step failed")
                self._loop.fail_all(EngineError(f"a step of the engine failed: {type(cause).__name__}: {cause}"))
                busy = False

    def _next(self, *, wait: bool) -> Callable[[], None] | None:
        """What came in, in order; None if that is nothing and nobody waits for it."""
        try:
            return self._inbox.get(block=wait)
        except queue.Empty:
            return None

    def _stop(self) -> None:
        """Marks the end in the inbox; recognised there, and harmless when called."""


def _way_out(matcher: Matcher, budget: int, asked: int | None) -> WayOut | None:
    """The way out at the start; None for matchers that know none. Refuses at once what could only end cut off."""
    if isinstance(matcher, GuidedMatcher):
        way = matcher.way_out()
        shortest = None if way.fits(budget) else len(way.tokens or ())
    else:
        way = None
        distance = getattr(matcher, "distance", None)
        shortest = None if distance is None or (least := int(distance())) <= budget else least
    if shortest is None:
        return way
    needed = f"and the shortest text that the grammar allows takes {shortest}"
    if asked is None:
        raise ContextLengthError(
            f"the context has room for {budget} tokens of output, {needed}",
            limit=budget,
            param="prompt",
            remedy="shorten it",
        )
    raise RequestError(f"max_tokens is {asked}, {needed}", param="max_tokens", remedy=f"give at least {shortest}")


def _build(
    config: EngineConfig, parts: Parts, ended: Callable[[str], None]
) -> tuple[Loop, BatchScheduler, Embeddings]:
    """Ask the plugins once for everything, and put the loop together from their answers."""
    plugins, limits = parts.plugins, config.limits
    processors = plugins.logits_processors(parts.vocabulary_size, parts.tokenizer.token_bytes)
    chain = SamplerChain(processors, plugins.sampler(config.sampler), plugins.guard_of, parts.draw)
    kv = plugins.kv_manager(config.kv_manager, parts.cache)
    scheduler = BatchScheduler(
        plugins.scheduler(config.scheduler, kv),
        kv,
        parts.cache,
        max_batch=limits.max_batch,
        chunk=limits.prefill_chunk,
    )
    vocabulary = getattr(parts.compiler, "vocabulary", None)
    jumps = Jumps(parts.tokenizer, vocabulary.continued) if config.jump_forward and vocabulary is not None else None
    matching = Matching(_masks(parts), jumps)
    speculator = _speculator(config, parts, matching)
    loop = Loop(parts.model, parts.tokenizer, scheduler, chain, matching, speculator, ended)
    # Between two steps, so as long as no running answer needs what it takes.
    return loop, scheduler, Embeddings(parts.model, parts.cache, kv.reserve, limits.prefill_chunk)


def _masks(parts: Parts) -> Masks:
    tokenizer = parts.tokenizer
    return Masks(parts.vocabulary_size, tokenizer.size, tokenizer.eos_ids)


def _speculator(config: EngineConfig, parts: Parts, matching: Matching) -> Speculator | None:
    if config.speculation == "off":
        return None
    limits, ends = config.limits, frozenset(parts.tokenizer.eos_ids)
    drafter: Drafter = PromptLookup(ends, matching.follow)
    if config.speculation == "draft":
        draft = parts.draft
        if draft is None:
            raise ConfigError('speculation is "draft", and there is no draft model', key="draft_model")
        drafter = DraftModel(
            draft.model, draft.cache, PrefixKV(draft.cache), matching, ends,
            context_length=draft.context_length, chunk=limits.prefill_chunk, size=parts.vocabulary_size,
        )  # fmt: skip
    return Speculator(
        drafter, longest=config.draft_length or DRAFT_LENGTH, chunk=limits.prefill_chunk, pace=Pace(),
        clock=lambda: time.thread_time() + matching.seconds,
    )  # fmt: skip
