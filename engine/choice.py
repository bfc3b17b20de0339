"""What the engine keeps for a request while it runs. Everything here belongs to the engine's thread."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ..plugins.protocols import CompiledGrammar, Matcher, WayOut
from ..samplers import SamplingParams
from ..samplers.protocols import Options
from ..samplers.random import stream
from .errors import RequestFault
from .reasoning import ReasoningStream
from .request import Event, GenerationRequest, OnEvent, TokenLogprob, TokenNote
from .text import TextStream


class Choice:
    """One of a request's outputs: its tokens, and where it stands. Serves plugins as their ChoiceView.

    Tokens are computed from the left: `computed` of `prompt + output` are in the cache. That is all the state there is,
    so a fresh prompt, a chunk of one, the next decode and the recomputation after a preemption are one case.
    """

    __slots__ = (
        "arrived",
        "budget",
        "cached",
        "computed",
        "done",
        "forced_close",
        "held_ids",
        "held_logprobs",
        "held_notes",
        "index",
        "leader",
        "matcher",
        "output",
        "owner",
        "params",
        "preemptions",
        "prompt",
        "sampled",
        "sequence",
        "stream",
        "text",
        "way",
    )

    def __init__(
        self,
        owner: ActiveRequest,
        index: int,
        matcher: Matcher | None,
        budget: int,
        seed: int,
        way: WayOut | None = None,
    ) -> None:
        self.owner = owner
        self.index = index
        self.params: SamplingParams = owner.request.params
        self.prompt: Sequence[int] = owner.request.prompt
        self.output: list[int] = []
        self.matcher = matcher
        self.budget = budget  # most tokens of output
        self.way = way  # out of where the matcher stands, within the budget; None: its matcher knows none
        self.forced_close = False
        self.stream = stream(seed, index)
        # A stop string inside a value would cut it short, and under a grammar complete output is promised.
        cut = owner.request.grammar is None or self.params.stop_cuts_grammar
        stops = self.params.stop_strings if cut else ()
        reasoning = owner.request.reasoning
        self.text = TextStream(stops) if reasoning is None else ReasoningStream(reasoning, owner.marker_ids, stops)
        self.arrived = owner.arrived
        self.leader: Choice | None = None
        self.sequence: int | None = None
        self.computed = 0
        self.cached = 0
        self.sampled = 0
        self.preemptions = 0
        self.done = False
        self.held_ids: list[int] = []
        self.held_logprobs: list[TokenLogprob] = []
        self.held_notes: list[TokenNote] = []

    @property
    def request_id(self) -> str:
        """The request's id."""
        return self.owner.request.id

    @property
    def grammar(self) -> CompiledGrammar | None:
        """The request's grammar."""
        return self.owner.request.grammar

    @property
    def user(self) -> str | None:
        """Who asked."""
        return self.owner.request.user

    @property
    def priority(self) -> int:
        """Lower comes first."""
        return self.owner.request.priority

    @property
    def plugins(self) -> Mapping[str, Any]:
        """The request's parameters for plugins, by their names."""
        return self.owner.request.plugins

    def options(self, model: type[Options], /) -> Options | None:
        """The request's parameters for the plugin whose model this is."""
        return next((given for given in self.plugins.values() if isinstance(given, model)), None)

    @property
    def length(self) -> int:
        """Tokens so far, prompt and output."""
        return len(self.prompt) + len(self.output)

    @property
    def left(self) -> int:
        """How many more tokens the budget allows."""
        return self.budget - len(self.output)

    @property
    def pending(self) -> int:
        """Tokens that are not in the cache yet; 1 while decoding."""
        return self.length - self.computed

    def tokens(self, start: int = 0, stop: int | None = None) -> list[int]:
        """A slice of prompt and output together."""
        stop = self.length if stop is None else stop
        split = len(self.prompt)
        if start >= split:
            return self.output[start - split : stop - split]
        return [*self.prompt[start:stop], *self.output[: max(0, stop - split)]]

    @property
    def ready(self) -> bool:
        """False while the choice had better wait for its leader, whose prompt it can share then."""
        return self.leader is None or self.leader.done or bool(self.leader.output) or bool(self.output)


class ActiveRequest:
    """A request inside the engine: its choices, and the way back to whoever asked."""

    def __init__(
        self,
        request: GenerationRequest,
        on_event: OnEvent,
        matchers: Sequence[Matcher | None],
        budget: int,
        seed: int,
        way: WayOut | None = None,
        marker_ids: frozenset[int] = frozenset(),
    ) -> None:
        """`marker_ids`: special tokens that end the thinking."""
        self.request = request
        self.marker_ids = marker_ids
        self.arrived = time.monotonic()
        self._on_event: OnEvent | None = on_event
        self.choices: tuple[Choice, ...] = tuple(
            Choice(self, i, matcher, budget, seed, way) for i, matcher in enumerate(matchers)
        )
        for choice in self.choices[1:]:
            choice.leader = self.choices[0]

    @property
    def done(self) -> bool:
        """True when no choice runs any more."""
        return all(choice.done for choice in self.choices)

    def end(self) -> None:
        """Forget the choices and the requester. Choices know their request: in a circle both would stay until the
        collector looks through everything, which it does when the engine rests.
        """
        self.choices = ()
        self._on_event = None

    def emit(self, event: Event) -> None:
        """Hand an event to the requester. Raises RequestFault if its callback does; it is not called again then."""
        if self._on_event is None:
            return
        try:
            self._on_event(event)
        except Exception as error:
            self._on_event = None
            raise RequestFault(f"the request's callback raised {type(error).__name__}: {error}") from error
