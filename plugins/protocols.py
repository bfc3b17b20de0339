"""What plugins return and what they are given, as typed protocols.

Shapes: B rows in a batch, V the width of the model's logits (the vocabulary, padding included), W = ceil(V / 32).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]
MaskRows = NDArray[np.uint32]


@runtime_checkable
class Matcher(Protocol):
    """One request's place in a grammar. Used by one thread at a time."""

    def fill_mask(self, row: MaskRows, /) -> None:
        """Write uint32 [W]: bit i of word i // 32, least significant first, is set if token i may come next."""
        ...

    def accept(self, token: int, /) -> bool:
        """Advance by one token; False, with nothing changed, if the grammar does not allow it."""
        ...

    def rollback(self, n: int, /) -> None:
        """Undo the last n accepted tokens."""
        ...

    def is_accepting(self) -> bool:
        """True if the text so far is complete."""
        ...


@runtime_checkable
class CompiledGrammar(Protocol):
    """A compiled grammar, shared by any number of requests and threads."""

    def matcher(self) -> Any:
        """A fresh Matcher at the start."""
        ...


class MaskFiller(Protocol):
    """The compiler's batch call: row i of `rows`, uint32 [B, W], is filled for matcher i."""

    def __call__(self, matchers: Sequence[Any], rows: MaskRows, /) -> None: ...
