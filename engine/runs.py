"""A request on its way: one or more prompts submitted together, whose events become pieces of one answer."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from ..plugins import Plugins
from ..plugins.protocols import CompiledGrammar
from .embedding import Vector
from .prompt import PromptTokenizer
from .request import Event, Failed, Finished, GenerationRequest, OnEvent, TextDelta
from .stats import Stats

Piece = TypeVar("Piece")
PieceOut = TypeVar("PieceOut", covariant=True)


class Tokenizer(PromptTokenizer, Protocol):
    """What answers need of the tokenizer."""

    @property
    def size(self) -> int: ...

    @property
    def chat_template(self) -> str | None: ...

    @property
    def bos_text(self) -> str: ...

    @property
    def eos_text(self) -> str: ...

    def decode(self, tokens: Sequence[int], /) -> str: ...

    def name(self, token: int, /) -> str: ...


class Service(Protocol):
    """What answers need of the engine's service."""

    @property
    def model_name(self) -> str: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def compiler(self) -> Any: ...

    @property
    def context_length(self) -> int: ...

    @property
    def closed(self) -> bool: ...

    @property
    def plugins(self) -> Plugins: ...

    def compile(self, kind: str, source: Any, options: Mapping[str, Any], /) -> CompiledGrammar: ...

    def submit(self, request: GenerationRequest, on_event: OnEvent, /) -> Any: ...

    def embed(self, tokens: Sequence[int], /) -> Future[Vector]: ...

    def cancel(self, request_id: str, /) -> Any: ...

    def stats(self) -> Stats: ...

    def close(self) -> None: ...


class Assembler(Protocol[PieceOut]):
    """Events in, pieces of the answer out. Choices are numbered through all prompts of the request."""

    @property
    def done(self) -> bool: ...

    def feed(self, event: TextDelta | Finished, /) -> Sequence[PieceOut]: ...


@dataclass(frozen=True, slots=True)
class Job(Generic[Piece]):
    """What to submit, and who turns the events into the answer: all pieces of a stream, or the only one."""

    requests: tuple[GenerationRequest, ...]
    assembler: Assembler[Piece]
    stream: bool


class Run(Generic[Piece]):
    """A submitted job. Events are fed in one by one; `ready` holds the pieces that they made and nobody took yet.

    A run that is dropped before its end, without a word, is cancelled as well.
    """

    def __init__(self, service: Service, job: Job[Piece], on_event: OnEvent) -> None:
        self.ready: deque[Piece] = deque()
        self._service = service
        self._assembler = job.assembler
        self._open: list[str] = []
        self._left = sum(request.params.n for request in job.requests)
        self._over = False
        first = 0
        try:
            for request in job.requests:
                service.submit(request, _numbered(on_event, first))
                self._open.append(request.id)
                first += request.params.n
        except BaseException:
            self.cancel()
            raise

    @property
    def done(self) -> bool:
        """True once no event is waited for any more: all is answered, or failed, or cancelled."""
        return self._over or self._assembler.done

    def feed(self, event: Event) -> None:
        """Take one event. Raises the error of a request that failed."""
        if self._over:
            return
        if isinstance(event, Failed):
            if len(self._open) == 1:
                self._left = 0
            self.cancel()
            raise event.error
        if isinstance(event, Finished):
            self._left -= 1
        self.ready.extend(self._assembler.feed(event))
        if self._assembler.done:
            self._stop()

    def cancel(self) -> None:
        """Stop what still runs and free what it holds. Does nothing after the end."""
        if not self.done:
            self.ready.clear()
            self._stop()

    def _stop(self) -> None:
        self._over = True
        if self._left > 0:
            for request_id in self._open:
                self._service.cancel(request_id)

    def __del__(self) -> None:
        self.cancel()


def _numbered(on_event: OnEvent, first: int) -> OnEvent:
    """Gives the choices of one prompt their numbers among those of all."""
    if not first:
        return on_event

    def renumber(event: Event) -> None:
        on_event(event if isinstance(event, Failed) else replace(event, index=first + event.index))

    return renumber
