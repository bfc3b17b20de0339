"""Who computes what in the next step: admission by pages, chunks of prompts beside decodes, preemption for pages.

The mechanics are here; whom to admit and whom to put back is the policy's choice (plugins/protocols.py, Scheduler).
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count, islice

from ..plugins.protocols import KVCache, KVManager, Scheduler
from .choice import Choice
from .errors import ContextLengthError
from .speculation.drafts import Draft, Drawing

_LOG = logging.getLogger(__name__)
WINDOW = 64


@dataclass(frozen=True, slots=True)
class Work:
    """`tokens` of one choice to compute; `samples` where they are the last it has, so that the next one is drawn.

    `draft`: what may follow them, to be computed with them.
    """

    choice: Choice
    sequence: int
    tokens: list[int]
    samples: bool
    draft: Draft | None = None

    @property
    def chunk(self) -> list[int]:
        """All that the model computes."""
        return self.tokens if self.draft is None else [*self.tokens, *self.draft.tokens]

    @property
    def logits(self) -> int:
        """How many of the chunk's last tokens need logits."""
        return 1 if self.draft is None else 1 + len(self.draft.tokens)


class BatchScheduler:
    """The waiting line and the batch.

    `max_batch` choices run at once, and a step computes at most `chunk` tokens. Decodes come first in a step and
    prompts share what is left of it, so that a long prompt delays the running ones by no more than a chunk a step.
    """

    def __init__(self, policy: Scheduler, kv: KVManager, cache: KVCache, *, max_batch: int, chunk: int) -> None:
        self._policy = policy
        self._kv = kv
        self._cache = cache
        self._max_batch = max_batch
        self._chunk = chunk
        self._numbers = count(1)
        self.waiting: deque[Choice] = deque()
        self.running: list[Choice] = []
        self.preempted = 0
        self.moved: list[tuple[Choice, bool]] = []  # who was put back (False) or came back, until the loop has seen it
        self._complained: set[str] = set()

    def add(self, choice: Choice) -> None:
        """Put a new choice at the end of the line."""
        self.waiting.append(choice)

    def drop(self, choice: Choice, *, keep: bool, aborted: bool = False) -> None:
        """A choice has ended, wherever it is. `keep`: its keys and values are sound, and may serve others. `aborted`:
        it was cancelled, or it failed.
        """
        self._tell_policy("leave", partial(self._policy.leave, choice, aborted=aborted))
        if choice.sequence is not None:
            self.running.remove(choice)
            sequence, choice.sequence = choice.sequence, None
            if keep:
                self._cut(sequence, choice.computed)
            self._kv.stop(sequence, keep=keep)
        elif choice in self.waiting:
            self.waiting.remove(choice)

    def clear(self) -> None:
        """Take every choice out of the batch and empty the cache, after a fault; the line stays."""
        for choice in self.running:
            choice.sequence = None
        self.running.clear()
        self._kv.clear()

    def release(self) -> int:
        """Give up what is kept of ended requests; the number of pages that are in use all the same."""
        self._kv.reserve(self._cache.total_pages)
        return self._cache.total_pages - self._cache.free_pages

    def plan(self) -> list[Work]:
        """The next step; empty if there is nothing to do.

        Raises ContextLengthError if a choice does not fit even alone, which the check at submission rules out.
        """
        self._admit()
        while True:
            works, pages = self._share_out()
            if self._kv.reserve(pages):
                return works
            # Rather than mend the plan, make it anew without the one that was put back.
            self._preempt()

    def computed(self, works: Sequence[Work]) -> None:
        """The step was done: its tokens are in the cache."""
        for work in works:
            self._kv.extend(work.sequence, work.tokens)
            work.choice.computed += len(work.tokens)

    def with_drafts(self, works: Sequence[Work], drafts: Mapping[Choice, Draft]) -> list[Work]:
        """The step with drafts in it; without any where their pages cannot be had."""
        pages = 0
        for work in works:
            if work.choice in drafts:
                held = work.choice.computed + len(work.tokens)
                pages += self._pages(held + len(drafts[work.choice].tokens)) - self._pages(work.choice.computed)
            else:
                pages += self._pages(work.choice.computed + len(work.tokens)) - self._pages(work.choice.computed)
        if not self._kv.reserve(pages):
            return list(works)
        return [replace(work, draft=drafts.get(work.choice)) for work in works]

    def settle(self, drawing: Drawing) -> None:
        """Of the drawing's draft, what has turned out right is the choice's own from now on."""
        choice, tokens = drawing.choice, drawing.settled()
        if tokens and choice.sequence is not None:
            self._kv.extend(choice.sequence, tokens)
            choice.computed += len(tokens)

    def forget_drafts(self, drawings: Sequence[Drawing]) -> None:
        """The drawing is over: what the cache holds of drafts and was not right goes."""
        for drawing in drawings:
            if drawing.draft is not None:
                self.settle(drawing)
                if drawing.choice.sequence is not None:
                    self._cut(drawing.choice.sequence, drawing.choice.computed)

    def _cut(self, sequence: int, length: int) -> None:
        excess = self._cache.length(sequence) - length
        if excess > 0:
            self._cache.truncate(sequence, excess)

    def _share_out(self) -> tuple[list[Work], int]:
        """What each running choice computes next, and how many new pages that takes."""
        works: list[Work] = []
        budget, pages = self._chunk, 0
        for choice in sorted(self.running, key=lambda choice: choice.pending > 1):
            take = min(choice.pending, budget)
            if take == 0 or choice.sequence is None:
                continue
            end = choice.computed + take
            works.append(Work(choice, choice.sequence, choice.tokens(choice.computed, end), take == choice.pending))
            budget -= take
            pages += self._pages(end) - self._pages(choice.computed)
        return works, pages

    def _admit(self) -> None:
        while len(self.running) < self._max_batch:
            window = self._window()
            if not window:
                return
            at = self._ask("admit", len(window), 0, partial(self._policy.admit, window, tuple(self.running)))
            if at is None and self.running:
                return
            # A policy that admits no one into an empty batch would stop the engine.
            if not self._start(window[at or 0]):
                return

    def _window(self) -> list[Choice]:
        """Whom the policy may choose from: the first in the line, and the first of every other user."""
        ready = (choice for choice in self.waiting if choice.ready)
        window = list(islice(ready, WINDOW))
        if len(window) == WINDOW:
            users = {choice.user for choice in window}
            for choice in ready:
                if choice.user not in users and len(window) < 2 * WINDOW:
                    users.add(choice.user)
                    window.append(choice)
        return window

    def _start(self, choice: Choice) -> bool:
        """Begin the choice's sequence if its tokens fit beside what the running ones are about to need."""
        tokens = choice.tokens()
        sequence = next(self._numbers)
        shared = self._kv.start(sequence, tokens)
        promised = sum(self._pages(other.length + 1) - self._pages(other.computed) for other in self.running)
        need = self._pages(choice.length + 1) - self._pages(shared)
        if not self._kv.reserve(need + promised):
            self._kv.stop(sequence, keep=False)
            if not self.running:
                raise self._too_big(choice)
            return False
        self.waiting.remove(choice)
        choice.sequence = sequence
        choice.computed = shared
        if not choice.preemptions:
            choice.cached = min(shared, len(choice.prompt))
        self.running.append(choice)
        if choice.preemptions:
            self.moved.append((choice, True))
        return True

    def _preempt(self) -> None:
        """Put one running choice back at the head of the line. It keeps its tokens, its matcher and its text."""
        if len(self.running) < 2:
            raise self._too_big(self.running[0])
        last = len(self.running) - 1
        at = self._ask("preempt", len(self.running), last, partial(self._policy.preempt, tuple(self.running)))
        choice = self.running.pop(last if at is None else at)
        assert choice.sequence is not None
        self._kv.stop(choice.sequence, keep=True)
        choice.sequence = None
        choice.computed = 0
        choice.preemptions += 1
        self.preempted += 1
        self.waiting.appendleft(choice)
        self.moved.append((choice, False))

    def _ask(self, what: str, count: int, instead: int, question: Callable[[], int | None]) -> int | None:
        """The policy's answer, an index below `count` or None; where it is neither, `instead`."""
        try:
            answer = question()
            if answer is None or (isinstance(answer, int) and 0 <= answer < count):
                return answer
            raise IndexError(f"it answered {answer!r}, not an index below {count}")
        except Exception:
            self._complain(what)
            return instead

    def _tell_policy(self, what: str, telling: Callable[[], None]) -> None:
        try:
            telling()
        except Exception:
            self._complain(what)

    def _complain(self, what: str) -> None:
        if what not in self._complained:
            self._complained.add(what)
            message = "the scheduler %r failed in %s; first come first served goes on instead, told once"
            _LOG.exception(message, self._policy.name, what)

    def _pages(self, length: int) -> int:
        return -(-length // self._kv.page_size)

    def _too_big(self, choice: Choice) -> ChoiceTooBig:
        limit = self._kv.total_pages * self._kv.page_size
        return ChoiceTooBig(choice, f"{choice.length} tokens do not fit in the cache of {limit}", limit=limit)


class ChoiceTooBig(ContextLengthError):
    """`choice` does not fit even alone."""

    def __init__(self, choice: Choice, message: str, *, limit: int) -> None:
        self.choice = choice
        super().__init__(message, limit=limit, remedy="give the engine more kv_tokens")
