"""Schedulers, KV managers and grammar front ends of outside plugins, as the engine gets them: measured, and contained.

Logits processors and samplers are the sampling chain's to contain (samplers/chain.py).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..samplers.guard import Guard
from .protocols import ChoiceView, CompiledGrammar, Compiler, GrammarFrontend, KVCache, KVManager, Scheduler

_LOG = logging.getLogger(__name__)
T = TypeVar("T")


class WatchedScheduler:
    """Within the plugin's time limit. What it raises, the engine answers with first come first served; a policy that
    fails again and again is not asked any more.
    """

    def __init__(self, policy: Scheduler, guard: Guard) -> None:
        self._policy = policy
        self._guard = guard
        self.name = policy.name

    def admit(self, waiting: Sequence[ChoiceView], running: Sequence[ChoiceView], /) -> int | None:
        """See Scheduler."""
        return self._asked(lambda: self._policy.admit(waiting, running), len(waiting))

    def preempt(self, running: Sequence[ChoiceView], /) -> int:
        """See Scheduler."""
        answer = self._asked(lambda: self._policy.preempt(running), len(running))
        if answer is None:
            raise TypeError("preempt answered None")
        return answer

    def leave(self, choice: ChoiceView, /, *, aborted: bool) -> None:
        """See Scheduler."""
        if self._guard.quarantined is not None:
            return
        try:
            self._guard.call(self._policy.leave, choice, aborted=aborted)
        except Exception as error:
            self._guard.failed(error)
            raise

    def _asked(self, question: Callable[[], int | None], count: int) -> int | None:
        try:
            answer = self._guard.call(question)
            if answer is not None and (
                isinstance(answer, bool) or not isinstance(answer, int) or not 0 <= answer < count
            ):
                raise IndexError(f"it answered {answer!r}, not an index below {count}")
        except Exception as error:
            self._guard.failed(error)
            raise
        self._guard.served()
        return answer


class WatchedKV:
    """A fault of the manager ends its work, and no request: what it kept is freed, and from there on every sequence is
    computed on its own. Without a time limit, since a manager that was left behind would still change the cache.
    """

    def __init__(self, manager: KVManager, guard: Guard, cache: KVCache) -> None:
        self._manager: KVManager | None = manager
        self._guard = guard
        self._cache = cache
        self._live: set[int] = set()
        self.name = manager.name
        self.page_size = cache.page_size
        self.total_pages = cache.total_pages

    def match(self, tokens: Sequence[int], /) -> int:
        """See KVManager."""
        return self._try(lambda manager: manager.match(tokens), lambda: 0)

    def start(self, sequence: int, tokens: Sequence[int], /) -> int:
        """See KVManager."""

        def work(manager: KVManager) -> int:
            shared = manager.start(sequence, tokens)
            held = self._cache.length(sequence)
            if shared != held or not 0 <= shared < max(1, len(tokens)):
                raise ValueError(f"start answered {shared!r} for {len(tokens)} tokens, and the cache holds {held}")
            return shared

        self._live.add(sequence)
        return self._try(work, lambda: self._afresh(sequence))

    def extend(self, sequence: int, tokens: Sequence[int], /) -> None:
        """See KVManager."""
        self._try(lambda manager: manager.extend(sequence, tokens), lambda: None)

    def reserve(self, pages: int, /) -> bool:
        """See KVManager."""

        def work(manager: KVManager) -> bool:
            made = manager.reserve(pages)
            if made and self._cache.free_pages < pages:
                raise ValueError(f"reserve promised {pages} pages, and {self._cache.free_pages} are free")
            return made

        return self._try(work, lambda: self._cache.free_pages >= pages)

    def stop(self, sequence: int, /, *, keep: bool) -> None:
        """See KVManager."""
        self._live.discard(sequence)
        self._try(lambda manager: manager.stop(sequence, keep=keep), lambda: self._remove([sequence]))

    def clear(self) -> None:
        """See KVManager."""
        self._live.clear()
        self._try(lambda manager: manager.clear(), lambda: None)
        self._remove(self._cache.sequences)

    def _try(self, work: Callable[[KVManager], T], instead: Callable[[], T]) -> T:
        if self._manager is None:
            return instead()
        try:
            return self._guard.call_here(work, self._manager)
        except Exception as error:
            self._manager = None
            self._guard.quarantine(f"the KV manager {self.name!r} raised {type(error).__name__}: {error}")
            self._remove(set(self._cache.sequences) - self._live)
            return instead()

    def _afresh(self, sequence: int) -> int:
        self._remove([sequence])
        self._cache.add(sequence)
        return 0

    def _remove(self, sequences: Any) -> None:
        held = set(self._cache.sequences)
        for sequence in sorted(held & set(sequences)):
            try:
                self._cache.remove(sequence)
            except Exception:
                _LOG.exception("the sequence %d could not be removed from the cache", sequence)


class WatchedFrontEnd:
    """In the requester's thread, so without a time limit. Its ValueErrors are about the source, and no faults."""

    def __init__(self, front_end: GrammarFrontend, guard: Guard) -> None:
        self._front_end = front_end
        self._guard = guard

    @property
    def plugin(self) -> str:
        """Whose it is."""
        return self._guard.plugin

    def __call__(self, source: Any, options: Mapping[str, Any], compiler: Compiler, /) -> CompiledGrammar:
        """See GrammarFrontend."""
        try:
            grammar = self._guard.call_here(self._front_end, source, options, compiler)
        except ValueError:
            raise
        except Exception as error:
            self._guard.failed(error)
            raise
        self._guard.served()
        return grammar
