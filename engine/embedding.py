"""Embeddings: texts through the model between its steps, one chunk at a time, so that running answers hardly wait.

An embedding is the mean over a text's tokens of the hidden states behind the last layer and its norm, scaled to length
one (mean pooling, as in Reimers and Gurevych 2019).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..plugins.protocols import KVCache
from .errors import BusyError, EngineError, RequestError, StepError

# Beyond the numbers that the scheduler gives its sequences.
FIRST_SEQUENCE, SEQUENCES = 1 << 30, 1 << 29
Vector = NDArray[np.float32]


@runtime_checkable
class HiddenModel(Protocol):
    """A model that can tell its hidden states."""

    def hidden(self, sequence_ids: Sequence[int], tokens: Sequence[Sequence[int]], /) -> NDArray[np.float32]:
        """Compute chunks of tokens as a step does; float32 [tokens, hidden]: normed, of the last layer."""
        ...


@dataclass
class _Text:
    """A text on its way: `done` of its tokens are computed, their states summed up in `total`."""

    sequence: int
    tokens: Sequence[int]
    answer: Future[Vector]
    done: int = 0
    total: NDArray[np.float64] | None = None


class Embeddings:
    """The texts in line. All but `future` is called in the engine's thread."""

    def __init__(self, model: object, cache: KVCache, reserve: Callable[[int], bool], chunk: int) -> None:
        """`reserve` sees to so many free pages, or tells that it cannot; `chunk`: most tokens at once."""
        self._model = model
        self._cache = cache
        self._reserve = reserve
        self._chunk = chunk
        self._line: deque[_Text] = deque()
        self._next = 0

    @property
    def idle(self) -> bool:
        """True if nothing is in line."""
        return not self._line

    def add(self, tokens: Sequence[int], answer: Future[Vector]) -> None:
        """A text enters the line. Where the model tells no hidden states, the answer is a RequestError."""
        if not isinstance(self._model, HiddenModel):
            answer.set_exception(RequestError("this model gives no embeddings", param="model"))
            return
        self._next = (self._next + 1) % SEQUENCES
        self._line.append(_Text(FIRST_SEQUENCE + self._next, tokens, answer))

    def step(self) -> bool:
        """Compute a chunk of the first text; False if there is none. What fails ends that text alone."""
        if not self._line:
            return False
        text = self._line[0]
        try:
            if text.answer.cancelled() or self._advance(text):
                self._leave(text)
        except Exception as error:
            self._leave(text)
            with suppress(InvalidStateError):  # nobody waits any more
                text.answer.set_exception(error)
        return True

    def fail_all(self, error: EngineError) -> None:
        """Nothing more is computed."""
        while self._line:
            text = self._line[0]
            self._leave(text)
            with suppress(InvalidStateError):
                text.answer.set_exception(error)

    def _advance(self, text: _Text) -> bool:
        """One chunk more; True if it was the last."""
        assert isinstance(self._model, HiddenModel)
        if text.total is None:
            self._cache.add(text.sequence)
            text.total = np.zeros(1)
        chunk = text.tokens[text.done : text.done + self._chunk]
        page = self._cache.page_size
        if not self._reserve(-(-(text.done + len(chunk)) // page) - -(-text.done // page)):
            raise BusyError("the cache has no room for this text now", remedy="try again later")
        text.total = text.total + self._model.hidden([text.sequence], [chunk]).sum(axis=0, dtype=np.float64)
        text.done += len(chunk)
        if text.done < len(text.tokens):
            return False
        mean = text.total / len(text.tokens)
        length = float(np.linalg.norm(mean))
        with suppress(InvalidStateError):
            text.answer.set_result((mean / length if length else mean).astype(np.float32))
        return True

    def _leave(self, text: _Text) -> None:
        self._line.popleft()
        if text.total is not None:
            with suppress(StepError):  # the cache was cleared after a fault
                self._cache.remove(text.sequence)
