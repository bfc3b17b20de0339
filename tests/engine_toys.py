"""A toy model, cache, tokenizer and grammar for tests of the loop: the runtime's protocols in a few lines of numpy.

The toy's next token depends on the whole history, so a lost or misplaced token in the cache shows in the output.
"""

from __future__ import annotations

import copy
import hashlib
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np
from slipcast.engine.config import EngineConfig
from slipcast.engine.errors import PagesExhaustedError
from slipcast.engine.request import Event, Failed, Finished, GenerationRequest, TextDelta
from slipcast.engine.service import EngineService, Parts
from slipcast.engine.tokenizer import TextTokenizer
from slipcast.plugins import Plugins, create_manager
from tokenizers import Tokenizer, models

EOS = 0
WORDS = ("</s>", *(chr(code) for code in range(0x20, 0x7F)), "é"[0], "the ", "and ", "ing")
TEXT = [None, *(word.encode() for word in WORDS[1:]), b"\xe2\x82", b"\xac", b"\xff"]


def toy_tokenizer() -> TextTokenizer:
    """Ids 1 to 95 are ASCII, then a few longer words, halves of a euro sign, and a byte that is never UTF-8."""
    names = [*WORDS, "<half>", "<rest>", "<bad>"]
    tokenizer = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="</s>"))
    return TextTokenizer(tokenizer, TEXT, bos_id=None, eos_ids=(EOS,))


SIZE = len(TEXT)
PADDED = SIZE + 5  # the model's logits are wider than the tokenizer, as real ones are


def ids(text: str) -> list[int]:
    """ASCII text as tokens."""
    return [ord(character) - 0x1F for character in text]


class ToyCache:
    """The runtime's cache, keeping the tokens themselves. Pages are counted as the real one counts them."""

    page_size = 4

    def __init__(self, pages: int) -> None:
        self.total_pages = pages
        self.sequences: dict[int, list[int]] = {}
        self._shared: dict[int, tuple[int, ...]] = {}  # ids of a sequence's pages
        self._next_page = 0

    @property
    def free_pages(self) -> int:
        return self.total_pages - len({page for pages in self._shared.values() for page in pages})

    def add(self, sequence: int) -> None:
        assert sequence not in self.sequences
        self.sequences[sequence], self._shared[sequence] = [], ()

    def remove(self, sequence: int) -> None:
        del self.sequences[sequence], self._shared[sequence]

    def fork(self, parent: int, child: int, position: int = -1) -> None:
        assert 0 <= position <= len(self.sequences[parent])
        self.sequences[child] = self.sequences[parent][:position]
        self._shared[child] = self._shared[parent][: position // self.page_size]
        self.extend(child, [])  # the page that it ends in is a copy

    def length(self, sequence: int) -> int:
        return len(self.sequences[sequence])

    def read(self, sequence: int, start: int, stop: int) -> bytes:
        assert start % self.page_size == stop % self.page_size == 0 and stop <= self.length(sequence)
        return bytes(self.sequences[sequence][start:stop])

    def write(self, sequence: int, data: bytes) -> None:
        assert self.length(sequence) % self.page_size == 0
        self.extend(sequence, list(data))

    def truncate(self, sequence: int, count: int) -> None:
        kept = len(self.sequences[sequence]) - count
        assert count > 0 and kept >= 0
        del self.sequences[sequence][kept:]
        self._shared[sequence] = self._shared[sequence][: -(-kept // self.page_size)]

    def extend(self, sequence: int, tokens: Sequence[int]) -> None:
        self.sequences[sequence].extend(tokens)
        while len(self._shared[sequence]) * self.page_size < len(self.sequences[sequence]):
            self._next_page += 1
            self._shared[sequence] += (self._next_page,)
            if self.free_pages < 0:
                raise PagesExhaustedError("the toy ran out of pages", needed=1, free=0)


def toy_logits(history: Sequence[int], spread: float = 3.0) -> np.ndarray:
    """float32 [PADDED], a function of the history. Padding has the highest logits, and must never be drawn."""
    seed = int.from_bytes(hashlib.blake2b(bytes(history), digest_size=8).digest())
    logits = np.random.Generator(np.random.PCG64(seed)).normal(0.0, spread, PADDED).astype(np.float32)
    logits[EOS] -= 2.0
    logits[SIZE:] = 50.0
    return logits


def repeating_logits(history: Sequence[int]) -> np.ndarray:
    """Mostly what came nine tokens before, so that it can often be guessed."""
    logits = toy_logits(history)
    logits[history[-9 % len(history)]] += 9.0
    return logits


def like_it(logits: Callable[[Sequence[int]], np.ndarray]) -> Callable[[Sequence[int]], np.ndarray]:
    """A smaller model: nearly the same logits."""
    return lambda history: logits(history) + toy_logits((*history, 1), 0.5)


@dataclass
class ToyModel:
    cache: ToyCache
    on_step: Callable[[int], None] = lambda number: None
    steps: int = 0
    batches: list[list[int]] = field(default_factory=list)
    max_rows: int = 10_000
    logits: Callable[[Sequence[int]], np.ndarray] = toy_logits
    _open: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._open.set()

    @contextmanager
    def held(self) -> Iterator[None]:
        """No step is done while the block runs, so that what it submits is there together."""
        self._open.clear()
        try:
            yield
        finally:
            self._open.set()

    def step(
        self, sequence_ids: Sequence[int], tokens: Sequence[Sequence[int]], counts: Sequence[int] | None = None
    ) -> np.ndarray:
        assert self._open.wait(60)
        self.steps += 1
        self.on_step(self.steps)
        self.batches.append([len(chunk) for chunk in tokens])
        assert len(set(sequence_ids)) == len(sequence_ids) and all(tokens)
        assert sum(map(len, tokens)) <= self.max_rows
        for sequence, chunk in zip(sequence_ids, tokens, strict=True):
            self.cache.extend(sequence, chunk)
        rows = []
        for sequence, count in zip(sequence_ids, counts or [1] * len(sequence_ids), strict=True):
            text = self.cache.sequences[sequence]
            rows += [self.logits(text[: len(text) - back]) for back in range(count - 1, -1, -1)]
        return np.stack(rows)


class WordMatcher:
    """Allows exactly the texts of a list, token by token, and the end."""

    def __init__(self, texts: Sequence[str]) -> None:
        self.texts = texts
        self.done = b""

    def fill_mask(self, row: np.ndarray) -> None:
        row[:] = 0
        allowed = [i for i, data in enumerate(TEXT) if data and self._fits(self.done + data)]
        if self.is_accepting():
            allowed.append(EOS)
        for token in allowed:
            row[token // 32] |= np.uint32(1 << token % 32)

    def accept(self, token: int) -> bool:
        data = TEXT[token] if token < SIZE else None
        if not data or not self._fits(self.done + data):
            return False
        self.done += data
        return True

    def fork(self) -> WordMatcher:
        return copy.copy(self)

    def is_accepting(self) -> bool:
        return self.done.decode() in self.texts

    def _fits(self, data: bytes) -> bool:
        return any(text.encode().startswith(data) for text in self.texts)


@dataclass
class WordGrammar:
    texts: Sequence[str]

    def matcher(self) -> WordMatcher:
        return WordMatcher(self.texts)


class Inbox:
    """Collects a request's events, and lets a test wait for its end."""

    def __init__(self, n: int = 1) -> None:
        self.events: list[Event] = []
        self.n = n
        self._left = n
        self._over = threading.Event()

    def __call__(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Finished):
            self._left -= 1
        if isinstance(event, Failed) or self._left == 0:
            self._over.set()

    def wait(self, seconds: float = 60.0) -> Inbox:
        assert self._over.wait(seconds), f"no end after {seconds} s: {self.events[-3:]}"
        return self

    def text(self, index: int = 0) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta) and event.index == index)

    def tokens(self, index: int = 0) -> list[int]:
        deltas = [event for event in self.events if isinstance(event, TextDelta) and event.index == index]
        return [token for event in deltas for token in event.token_ids]

    def finished(self, index: int = 0) -> Finished:
        [event] = [event for event in self.events if isinstance(event, Finished) and event.index == index]
        return event

    def error(self) -> Exception:
        [event] = [event for event in self.events if isinstance(event, Failed)]
        return event.error


def toy_parts(pages: int = 200, context: int = 120, plugins: Plugins | None = None) -> Parts:
    cache = ToyCache(pages)
    return Parts(
        name="toy",
        model=ToyModel(cache),
        cache=cache,
        tokenizer=toy_tokenizer(),
        plugins=plugins or create_manager(),
        vocabulary_size=PADDED,
        context_length=context,
    )


def toy_service(parts: Parts | None = None, **options: object) -> EngineService:
    config = EngineConfig.read({"max_batch": 4, "prefill_chunk": 8, **options})
    return EngineService(config, parts=parts or toy_parts())


def run(service: EngineService, request: GenerationRequest) -> Inbox:
    """Submit and wait for the end."""
    inbox = Inbox(request.params.n)
    service.submit(request, inbox)
    return inbox.wait()
