"""A service without a model, for tests of what is on the wire and nowhere else.

Each request is answered by a script: a function from the request to the events that it is worth, run in a thread as
the real service runs its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import fields
from typing import Any

import numpy as np
from slipcast.engine.request import (
    Event,
    Finished,
    GenerationRequest,
    OnEvent,
    TextDelta,
    TokenLogprob,
    TopLogprob,
    Usage,
)
from slipcast.engine.stats import Stats
from slipcast.plugins import create_manager

Script = Callable[[GenerationRequest], Iterable[Event]]

TEMPLATE = (
    "{% for message in messages %}<{{ message['role'] }}>{{ message['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def words(*texts: str, reason: Any = "stop", gate: threading.Event | None = None) -> Script:
    """A script that says the texts in every choice; with a gate it waits for it after the first text."""

    def script(request: GenerationRequest) -> Iterator[Event]:
        for index in range(request.params.n):
            for position, text in enumerate(texts):
                logprobs = [logprob(text)] if request.params.logprobs else []
                yield TextDelta(index, text, tokens=tuple(logprobs))
                if gate is not None and position == 0:
                    gate.wait(10)
            yield Finished(index, reason, Usage(len(request.prompt), len(texts), cached_tokens=1))

    return script


def logprob(text: str) -> TokenLogprob:
    """A token of this text with probability 1/2, and an alternative that is half a character."""
    other = TopLogprob(token=1, text="\ufffd", data=b"\xc3", logprob=-1.5)
    return TokenLogprob(token=0, text=text, data=text.encode(), logprob=-0.5, top=(other,))


class FakeTokenizer:
    """One token for each character."""

    size = 128
    chat_template: str | None = TEMPLATE
    bos_text = "<s>"
    eos_text = "</s>"

    special_names = frozenset({"<s>", "</s>"})

    def name(self, token: int) -> str:
        return chr(token)

    def encode(self, text: str, *, special: bool = True, bos: bool = False) -> list[int]:
        return [ord(character) for character in text]

    def decode(self, tokens: Iterable[int]) -> str:
        return "".join(map(chr, tokens))

    def least_tokens(self, text: str) -> int:
        return len(text.encode()) // 4


class FakeGrammar:
    def matcher(self) -> Any:
        raise NotImplementedError


class FakeService:
    """Remembers what was asked of it; `refusal` and `grammar_refusal` are raised by `submit` and `compile` if set."""

    model_name = "fake"
    context_length = 10_000

    def __init__(self, script: Script | None = None) -> None:
        self.script = script or words("Hel", "lo")
        self.tokenizer = FakeTokenizer()
        self.plugins = create_manager()
        self.compiler = None
        self.compiled: list[tuple[str, Any, dict[str, Any]]] = []
        self.grammar_refusal: Exception | None = None
        self.refuses: Callable[[str, Any], Exception | None] = lambda kind, source: self.grammar_refusal
        self.requests: list[GenerationRequest] = []
        self.cancelled: list[str] = []
        self.was_cancelled = threading.Event()
        self.refusal: Exception | None = None
        self.closed = False

    def compile(self, kind: str, source: Any, options: Mapping[str, Any]) -> FakeGrammar:
        self.compiled.append((kind, source, dict(options)))
        refusal = self.refuses(kind, source)
        if refusal is not None:
            raise refusal
        return FakeGrammar()

    def stats(self) -> Stats:
        return Stats(**{field.name: 0 for field in fields(Stats)})

    def prompt_text(self) -> str:
        """The prompt of the last request."""
        return self.tokenizer.decode(self.requests[-1].prompt)

    def submit(self, request: GenerationRequest, on_event: OnEvent) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.requests.append(request)
        threading.Thread(target=self._run, args=(request, on_event), daemon=True).start()

    def _run(self, request: GenerationRequest, on_event: OnEvent) -> None:
        for event in self.script(request):
            if request.id in self.cancelled:
                return
            on_event(event)

    def embed(self, tokens: Sequence[int]) -> Future[Any]:
        """A vector of two: how many tokens, and which is the first."""
        future: Future[Any] = Future()
        if self.refusal is not None:
            raise self.refusal
        future.set_result(np.array([len(tokens), tokens[0]], np.float32))
        return future

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)
        self.was_cancelled.set()

    def close(self) -> None:
        self.closed = True
