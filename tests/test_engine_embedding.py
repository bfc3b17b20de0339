"""Embeddings by the real model: the numbers, beside the model's own arithmetic, and beside running answers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from slipcast.engine import ClosedError, ContextLengthError, DownloadError, Engine, EngineError, RequestError
from slipcast.engine.embedding import Embeddings
from slipcast.engine.errors import BusyError

pytestmark = pytest.mark.model
TEXT = "A cow eats grass on the meadow. " * 12


@pytest.fixture(scope="module")
def engine() -> Iterator[Engine]:
    try:
        engine = Engine(prefill_chunk=32)
    except DownloadError as error:
        pytest.skip(f"the default model cannot be had here: {error}")
    with engine:
        yield engine


def embed(engine: Engine, text: str) -> Any:
    return engine.service.embed(engine.service.tokenizer.encode(text)).result(60)


def test_like_texts_are_near(engine: Engine) -> None:
    cow, cattle, market = (
        embed(engine, text)
        for text in ("A cow eats grass.", "Cattle graze on the meadow.", "The stock market fell sharply.")
    )
    assert cow.dtype == np.float32 and abs(float(np.linalg.norm(cow)) - 1) < 1e-5
    assert cow @ cattle > cow @ market
    assert engine.stats().free_pages == engine.stats().total_pages or engine.stats().running == 0


def test_chunks_make_no_difference(engine: Engine) -> None:
    """In chunks of 32 tokens, and as one chunk, straight from the model."""
    tokens = engine.service.tokenizer.encode(TEXT)
    assert len(tokens) > 80
    chunked = embed(engine, TEXT)
    model: Any = engine.service._parts.model
    kv = model.kv
    kv.add(7)
    states = np.concatenate([model.hidden([7], [tokens[i : i + 20]]) for i in range(0, len(tokens), 20)])
    kv.remove(7)
    mean = states.mean(axis=0)
    np.testing.assert_allclose(chunked, mean / np.linalg.norm(mean), atol=1e-4)


def test_embeddings_and_answers_at_once(engine: Engine) -> None:
    alone = embed(engine, TEXT)
    free = engine.stats().free_pages
    asked: dict[str, Any] = {"messages": [{"role": "user", "content": "hi"}], "seed": 1, "max_tokens": 30}
    text = engine.chat.completions.create(**asked).choices[0].message.content
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(engine.chat.completions.create(**asked)))
    thread.start()
    together = [engine.service.embed(engine.service.tokenizer.encode(TEXT)) for _ in range(4)]
    for future in together:
        np.testing.assert_allclose(future.result(60), alone, atol=1e-4)
    thread.join()
    assert found[0].choices[0].message.content == text
    assert engine.stats().free_pages <= free


def test_refusals(engine: Engine) -> None:
    with pytest.raises(RequestError, match="not a token id"):
        engine.service.embed([1 << 40])
    with pytest.raises(RequestError, match="empty"):
        engine.service.embed([])
    with pytest.raises(ContextLengthError):
        engine.service.embed([5] * 100_000)


class Pages:
    """A cache that counts, and a model whose states are its tokens."""

    page_size = total_pages = free_pages = 16

    def __init__(self) -> None:
        self.held: set[int] = set()

    def add(self, sequence: int) -> None:
        self.held.add(sequence)

    def remove(self, sequence: int) -> None:
        self.held.remove(sequence)

    def fork(self, parent: int, child: int, *, position: int = -1) -> None:
        raise NotImplementedError

    def length(self, sequence: int) -> int:
        raise NotImplementedError

    def hidden(self, sequence_ids: Any, tokens: Any) -> Any:
        if tokens[0][0] == 9:
            raise EngineError("nine")
        return np.array([[float(token), 0.0] for token in tokens[0]], np.float32)


def test_what_fails_ends_one_text_and_leaves_no_page() -> None:
    from concurrent.futures import Future

    pages = Pages()
    room = [True]
    embeddings = Embeddings(pages, pages, lambda count: room[0], 2)
    futures: list[Future[Any]] = [Future() for _ in range(6)]
    for future, tokens in zip(futures, ([1, 2, 3], [1, 1, 9], [4], [5], [6] * 9, [7]), strict=True):
        embeddings.add(tokens, future)
    while not futures[2].done():
        embeddings.step()
    assert futures[0].result().tolist() == [1.0, 0.0]
    assert str(futures[1].exception()) == "nine"
    room[0] = False
    embeddings.step()
    assert isinstance(futures[3].exception(), BusyError)
    room[0] = True
    embeddings.step()
    assert futures[4].cancel()
    embeddings.step()
    embeddings.fail_all(ClosedError("closed"))
    assert isinstance(futures[5].exception(), ClosedError)
    assert not pages.held and embeddings.idle and not embeddings.step()
