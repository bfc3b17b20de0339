"""What plugins return and what they are given, as typed protocols.

Shapes: B rows in a batch, R of them handed to one processor, V the width of the model's logits (padding included),
W = ceil(V / 32) words of a mask row. Sampling's own protocols live beside the chain that calls them
(samplers/protocols.py) and are offered here as well, so that an author finds all of them in one place.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

from ..samplers.protocols import ChoiceView, Following, Logits, LogitsProcessor, MaskRows, Phase, Sampler

__all__ = [
    "ChoiceView",
    "CompiledGrammar",
    "Compiler",
    "Following",
    "ForkingMatcher",
    "GrammarFrontend",
    "GuidedMatcher",
    "KVCache",
    "KVManager",
    "Logits",
    "LogitsProcessor",
    "MaskRows",
    "Matcher",
    "Phase",
    "Sampler",
    "Scheduler",
    "WayOut",
]


@runtime_checkable
class Matcher(Protocol):
    """One choice's place in a grammar. Used by one thread at a time."""

    def fill_mask(self, row: MaskRows, /) -> None:
        """Write uint32 [W]: bit i % 32 of word i // 32 is set if token i may come next."""
        ...

    def accept(self, token: int, /) -> bool:
        """Advance by one token; False, with nothing changed, if the grammar does not allow it."""
        ...

    def is_accepting(self) -> bool:
        """True if the text so far is complete."""
        ...


@runtime_checkable
class ForkingMatcher(Matcher, Protocol):
    """A Matcher that can be copied, as the engine's own can. Only with these are drafts made under a grammar."""

    def fork(self) -> Any:
        """An independent Matcher at the same place."""
        ...


class WayOut(Protocol):
    """A way from a place in a text to where it may end."""

    @property
    def data(self) -> bytes:
        """The text of the way."""
        ...

    @property
    def tokens(self) -> Sequence[int] | None:
        """The fewest tokens that spell it."""
        ...

    def fits(self, count: int, /) -> bool:
        """Whether `count` tokens suffice."""
        ...

    def after(self, start: int, /) -> Any:
        """The way, a WayOut, without its first `start` bytes."""
        ...

    def step(self) -> tuple[int, Any]:
        """The first token, and the way without it, a WayOut of one token less."""
        ...


@runtime_checkable
class GuidedMatcher(Matcher, Protocol):
    """A Matcher that knows its ways out, as the engine's own do. Only under these is output always complete."""

    def rollback(self, count: int, /) -> None:
        """Take back the last `count` accepted tokens."""
        ...

    def forced(self) -> bytes:
        """The bytes that every continuation begins with; b"" where there is a choice."""
        ...

    def way_out(self) -> WayOut:
        """A shortest way, or nearly. Raises where there is none that can be spelled or found."""
        ...

    def way_home(self, way: Any, count: int, /) -> WayOut | None:
        """A way of at most `count` tokens, None if none is known; `way` is one from before the last accepted token."""
        ...


@runtime_checkable
class CompiledGrammar(Protocol):
    """A compiled grammar, shared by any number of requests and threads."""

    def matcher(self) -> Matcher:
        """A fresh matcher at the start."""
        ...


class Compiler(Protocol):
    """The engine's grammar compiler: what it offers a GrammarFrontend."""

    def json_schema(self, schema: Any, **options: Any) -> Any: ...

    def json_object(self, **options: Any) -> Any: ...

    def regex(self, pattern: str, **options: Any) -> Any: ...

    def choice(self, values: Sequence[str], **options: Any) -> Any: ...

    def grammar(self, text: str, **options: Any) -> Any: ...

    def structural_tag(self, spec: Any, **options: Any) -> Any: ...


@runtime_checkable
class GrammarFrontend(Protocol):
    """Turns one kind of source into a compiled grammar. Called in the requester's thread, never in the engine's."""

    def __call__(self, source: Any, options: Mapping[str, Any], compiler: Compiler, /) -> CompiledGrammar:
        """Raises a ValueError (GrammarError for the shipped kinds) that says what is wrong with the source."""
        ...


@runtime_checkable
class Scheduler(Protocol):
    """A policy: who enters the batch, who leaves it when pages run out. The engine keeps the pages and the chunks.

    Called once per admission, preemption and end of a choice, never per token: no blocking calls. An answer out of
    range, an exception or one that comes too late is logged, and first come first served answers instead.
    `slipcast.plugins.BaseScheduler` has the members that need no thought.
    """

    @property
    def name(self) -> str: ...

    def admit(self, waiting: Sequence[ChoiceView], running: Sequence[ChoiceView], /) -> int | None:
        """Index into `waiting`, or None to admit no one now.

        `waiting`: the first 64 in the order of arrival, put-back ones first; then the first of each user who is not
        among these, at most 64 of them.

        Who is named and does not fit waits for pages, and nobody overtakes it in this step. The choice may be one that
        was put back: it resumes then, with the output that it has.
        """
        ...

    def preempt(self, running: Sequence[ChoiceView], /) -> int:
        """Index into `running` (in the order of admission, at least two) of the choice to put back into the line.

        Its tokens are kept and computed again later, so its output does not change.
        """
        ...

    def leave(self, choice: ChoiceView, /, *, aborted: bool) -> None:
        """The choice has ended, waiting or running: drop what is kept for it. `aborted`: cancelled or failed."""
        ...


@runtime_checkable
class KVCache(Protocol):
    """The runtime's paged cache of keys and values, as a manager sees it. Lengths in tokens."""

    @property
    def page_size(self) -> int: ...

    @property
    def total_pages(self) -> int: ...

    @property
    def free_pages(self) -> int: ...

    @property
    def sequences(self) -> Collection[int]:
        """The ids of all sequences in it."""
        ...

    def add(self, sequence: int, /) -> None: ...

    def remove(self, sequence: int, /) -> None: ...

    def fork(self, parent: int, child: int, /, position: int = -1) -> None:
        """`child` starts with the first `position` tokens of `parent`, sharing its pages (-1: all)."""
        ...

    def truncate(self, sequence: int, count: int, /) -> None:
        """Drop the last `count` tokens of the sequence."""
        ...

    def length(self, sequence: int, /) -> int: ...

    def read(self, sequence: int, start: int, stop: int, /) -> bytes:
        """The keys and values of tokens `start` to `stop`, both multiples of the page size, for `write`."""
        ...

    def write(self, sequence: int, data: bytes, /) -> None:
        """Append what `read` gave, from any sequence of a cache of this shape, to a sequence that ends at a page's end.

        Its pages must be free: see KVManager.reserve.
        """
        ...


@runtime_checkable
class KVManager(Protocol):
    """Which sequences' keys and values exist, what is shared between them, what is kept after a request's end.

    Preemption is `stop` and resumption `start`, with the tokens that the choice has by then. Tokens that are rolled
    back never reach a manager: `extend` is told of those that count.
    """

    @property
    def name(self) -> str: ...

    @property
    def page_size(self) -> int: ...

    @property
    def total_pages(self) -> int: ...

    def match(self, tokens: Sequence[int], /) -> int:
        """How many of `tokens` `start` would find there already. Changes nothing, not even what was used last."""
        ...

    def start(self, sequence: int, tokens: Sequence[int], /) -> int:
        """Begin a sequence that will hold `tokens`; how many of them, from the left and fewer than all, are there
        already.

        No page may be written by two sequences: one that is shared in part must be a copy, as the cache's fork makes.
        """
        ...

    def extend(self, sequence: int, tokens: Sequence[int], /) -> None:
        """Told after each step: these tokens were computed and are in the cache now.

        During a step the cache may hold more of a sequence, drafts that are not verified yet: only what was told here
        may be shared or kept.
        """
        ...

    def reserve(self, pages: int, /) -> bool:
        """Make at least `pages` pages free, giving up what is kept for later; False if that is not possible."""
        ...

    def stop(self, sequence: int, /, *, keep: bool) -> None:
        """The sequence is over: ended, aborted or preempted. `keep`: its content is sound, and may serve others."""
        ...

    def clear(self) -> None:
        """Drop every sequence, after a fault of the model: leave the cache empty."""
        ...
