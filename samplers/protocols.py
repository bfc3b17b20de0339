"""What the sampling chain is made of, as typed protocols.

Shapes: B rows in a batch, R of them handed to one processor, V the width of the model's logits (padding included),
W = ceil(V / 32) words of a mask row.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .params import SamplingParams

Logits = NDArray[np.float32]
MaskRows = NDArray[np.uint32]
Options = TypeVar("Options")

# "edit" runs on the raw logits, before the grammar's mask; "shape" after it, on what is allowed.
Phase = Literal["edit", "shape"]


class ChoiceView(Protocol):
    """One choice of one request, as plugins see it: read only.

    The same object stands for the choice from its start to its end, through joins, leaves and preemption, and each of a
    request's `n` choices has its own: it can be the key of a plugin's own state. `output` only grows, or loses its tail
    when it is rolled back.
    """

    @property
    def request_id(self) -> str: ...

    @property
    def index(self) -> int:
        """Which of the request's `n` choices."""
        ...

    @property
    def params(self) -> SamplingParams: ...

    @property
    def prompt(self) -> Sequence[int]: ...

    @property
    def output(self) -> Sequence[int]: ...

    @property
    def stream(self) -> int:
        """The choice's random stream, 64 bits: made of the request's seed and the index."""
        ...

    @property
    def grammar(self) -> Any:
        """The compiled grammar that the output must match, None for free text. The same object for equal sources."""
        ...

    @property
    def arrived(self) -> float:
        """time.monotonic() at submission, seconds."""
        ...

    @property
    def preemptions(self) -> int:
        """How often it was put back into the line."""
        ...

    @property
    def user(self) -> str | None:
        """Who asked, as the request's `user` says."""
        ...

    @property
    def priority(self) -> int:
        """The request's `priority`; lower comes first, 0 where it gives none."""
        ...

    @property
    def plugins(self) -> Mapping[str, Any]:
        """The request's parameters for plugins, by the plugins' names."""
        ...

    def options(self, model: type[Options], /) -> Options | None:
        """The request's parameters for the plugin whose model, a pydantic class, this is; None: it gives none."""
        ...


class Following(Protocol):
    """What may be kept for a choice while it runs, and when the engine says that something became of it.

    All of it is called in the engine's order, one call at a time, for the choices that the part was asked about.
    """

    def rollback(self, row: ChoiceView, length: int, /) -> None:
        """The output was cut back to its first `length` tokens: what was drawn or drafted after them is void."""
        ...

    def preempt(self, row: ChoiceView, /) -> None:
        """The choice lost its place in the batch, and waits. Its output stays."""
        ...

    def resume(self, row: ChoiceView, /) -> None:
        """The choice is back in the batch; its output is as it was."""
        ...

    def release(self, row: ChoiceView, /, *, aborted: bool) -> None:
        """The choice has ended: drop what is kept for it. `aborted`: it was cancelled, or it failed."""
        ...


@runtime_checkable
class LogitsProcessor(Following, Protocol):
    """A transform of a batch of logits. `slipcast.samplers.BaseProcessor` has the members that need no thought.

    `apply` must depend on nothing but the logits and the rows, row by row: the engine groups rows as it likes, and when
    it raised for a group repeats the call row by row on fresh logits, so that only the row at fault fails.
    Masked tokens are at -inf in the "shape" phase; a processor that raises one of them again has no effect.
    """

    @property
    def name(self) -> str: ...

    @property
    def phase(self) -> Phase: ...

    @property
    def order(self) -> int:
        """Ascending within the phase. The shipped ones use 100, 200, ...: see docs/plugins.md."""
        ...

    @property
    def argmax_invariant(self) -> bool:
        """True if the highest logit always stays the highest: then greedy rows skip it."""
        ...

    def wants(self, row: ChoiceView, /) -> bool:
        """Asked once, at the choice's start: a processor costs nothing for the rows that it does not want."""
        ...

    def apply(self, logits: Logits, rows: Sequence[ChoiceView], /) -> None:
        """Change `logits`, float32 [R, V], in place; `logits[i]` belongs to `rows[i]`.

        A choice has at most one row in a call, whose `output` is what comes before the token to draw: the places of
        speculated tokens come in calls of their own, one after another, each with the tokens before it in `output`.
        """
        ...


@runtime_checkable
class Sampler(Following, Protocol):
    """The draw, after every transform. `slipcast.samplers.BaseSampler` has the members that need no thought."""

    @property
    def name(self) -> str: ...

    def choose(self, logits: Logits, rows: Sequence[ChoiceView], /) -> NDArray[np.int64]:
        """One token id per row, int64 [B], each with a logit above -inf.

        `logits`: float32 [B, V], -inf where forbidden, at least one finite value in each row; may be overwritten.
        """
        ...
