"""What the sampling chain is made of, as typed protocols.

Shapes: B rows in a batch, R of them handed to one processor, V the width of the model's logits (padding included),
W = ceil(V / 32) words of a mask row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from .params import SamplingParams

Logits = NDArray[np.float32]
MaskRows = NDArray[np.uint32]

# "edit" runs on the raw logits, before the grammar's mask; "shape" after it, on what is allowed.
Phase = Literal["edit", "shape"]


class Row(Protocol):
    """One choice of one request, as a processor sees it: read only.

    The same object stands for the choice from its start to its end, through joins, leaves and preemption, so it can be
    the key of a processor's own state. `output` only grows, or loses its tail when speculated tokens are refused.
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


@runtime_checkable
class LogitsProcessor(Protocol):
    """A transform of a batch of logits.

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
        """Ascending within the phase. The shipped ones use 100, 200, ...: see samplers/transforms.py."""
        ...

    @property
    def argmax_invariant(self) -> bool:
        """True if the highest logit always stays the highest: then greedy rows skip it."""
        ...

    def wants(self, row: Row, /) -> bool:
        """Asked once, at the choice's start: a processor costs nothing for the rows that it does not want."""
        ...

    def apply(self, logits: Logits, rows: Sequence[Row], /) -> None:
        """Change `logits`, float32 [R, V], in place; `logits[i]` belongs to `rows[i]`."""
        ...

    def release(self, row: Row, /) -> None:
        """The choice has ended: drop what is kept for it."""
        ...


@runtime_checkable
class Sampler(Protocol):
    """The draw, after every transform."""

    @property
    def name(self) -> str: ...

    def choose(self, logits: Logits, rows: Sequence[Row], /) -> NDArray[np.int64]:
        """One token id per row, int64 [B], each with a logit above -inf.

        `logits`: float32 [B, V], -inf where forbidden, at least one finite value in each row; may be overwritten.
        """
        ...
