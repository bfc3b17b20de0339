"""Puts speculation together, once a step: who gets a draft, of what length; and what came of it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ..choice import Choice
from ..stats import Counters
from .drafts import Draft, Drawing, can_follow
from .pace import WIDEST, Pace

if TYPE_CHECKING:
    from ..scheduler import BatchScheduler, Work

_LOG = logging.getLogger(__name__)


class Drafter(Protocol):
    """Guesses tokens. Used by the engine's thread."""

    def offer(self, choices: Mapping[Choice, int]) -> dict[Choice, int]:
        """How many tokens it could guess, for each choice at most as many as said; choices without any are left out."""
        ...

    def guess(self, lengths: Mapping[Choice, int]) -> dict[Choice, Draft]:
        """Drafts of at most so many tokens for some of the choices that `offer` just named."""
        ...

    def release(self, choice: Choice) -> None:
        """The choice is over."""
        ...

    def close(self) -> None:
        """Everything is over."""
        ...


class Speculator:
    """Gives steps their drafts. `longest`: tokens of a draft, at most; `chunk`: of a step. `clock`: seconds of CPU time
    that the engine's thread and the matchers' have spent.
    """

    def __init__(
        self, drafter: Drafter, *, longest: int, chunk: int, pace: Pace, clock: Callable[[], float] = time.thread_time
    ) -> None:
        self._clock = clock
        self._since: float | None = None  # the end of the last step, by the clock
        self._guessing = 0.0  # what guesses have taken since
        self._drafter: Drafter | None = drafter
        self._longest = longest
        self._chunk = chunk
        self._pace = pace

    def draft(
        self, works: Sequence[Work], scheduler: BatchScheduler, counters: Counters, *, ready: Callable[[Choice], bool]
    ) -> Sequence[Work]:
        """The step, with drafts where they are worth it. A fault of the drafter ends speculation, and nothing else.

        `ready`: whether a choice's matcher may be used now.
        """
        rows = sum(len(work.tokens) for work in works)
        if self._drafter is None or rows >= WIDEST:
            return works
        wanted = {}
        for work in works:
            longest = min(self._longest, work.choice.left - 1)
            if work.samples and longest > 0 and can_follow(work.choice) and ready(work.choice):
                wanted[work.choice] = longest
        if not wanted:
            return works
        started = time.perf_counter()
        try:
            tokens, room = sum(work.samples for work in works), min(self._chunk, WIDEST) - rows
            # Where no guess would pay none is asked for: looking for one and following it in a grammar takes time.
            worth = self._pace.lengths(wanted, tokens, room)
            self._pace.rested(choice for choice in wanted if choice not in worth)
            offers = self._drafter.offer(worth) if worth else {}
            lengths = offers if offers == worth else self._pace.lengths(offers, tokens, room)
            begun = self._clock()
            drafts = self._drafter.guess(lengths) if lengths else {}
        except Exception:
            self._give_up()
            return works
        spent = self._clock() - begun
        self._guessing += spent
        counters.draft_seconds += time.perf_counter() - started
        if not drafts:
            return works
        self._pace.guessed(sum(len(draft.tokens) for draft in drafts.values()), spent)
        return scheduler.with_drafts(works, drafts)

    def learn(self, works: Sequence[Work], drawings: Sequence[Drawing], counters: Counters) -> None:
        """The step has been drawn from. Its cost is all that was done since the last one, by the clock: what other
        programs do on the machine says nothing about the cost of a row.
        """
        now = self._clock()
        if self._since is not None:
            self._pace.stepped(sum(len(work.chunk) for work in works), now - self._since - self._guessing)
        self._since, self._guessing = now, 0.0
        for drawing in drawings:
            if drawing.draft is not None and drawing.drawn:
                guessed, agreed = len(drawing.draft.tokens), drawing.agreed
                counters.drafted_tokens += guessed
                counters.accepted_tokens += agreed
                if not drawing.choice.done:
                    self._pace.shown(drawing.choice, guessed, agreed)

    def release(self, choice: Choice) -> None:
        """The choice is over."""
        self._pace.release(choice)
        if self._drafter is not None:
            try:
                self._drafter.release(choice)
            except Exception:
                self._give_up()

    def close(self) -> None:
        """Everything is over."""
        if self._drafter is not None:
            try:
                self._drafter.close()
            except Exception:
                self._give_up()

    def _give_up(self) -> None:
        _LOG.exception("drafts cannot be made; the engine goes on without speculation")
        self._drafter = None
