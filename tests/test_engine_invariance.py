"""A step gives each sequence the same logits to the last bit, whatever else is in it and however tokens were cut.

Everything that batching promises rests on this: see the tests of the engine with the real model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

pytestmark = pytest.mark.model


@pytest.fixture(scope="module")
def model() -> Iterator[object]:
    from slipcast.engine.errors import DownloadError
    from slipcast.engine.runtime import load_model, resolve_model

    try:
        path = resolve_model("smollm2-135m-instruct", None)
    except DownloadError as error:
        pytest.skip(f"the default model cannot be had here: {error}")
    return load_model(path, max_batch=6, max_context=512, prefill_chunk=256)


TOKENS = np.random.default_rng(0).integers(100, 40000, 400).tolist()
LONG, SHORT = TOKENS[:200], TOKENS[200:231]


def logits(model, steps: Callable[[], np.ndarray]) -> np.ndarray:
    """Run `steps` on an empty cache."""
    for sequence in model.kv.sequences:
        model.kv.remove(sequence)
    return np.array(steps())


def feed(model, sequence: int, tokens: list[int], cuts: list[int]) -> np.ndarray:
    """The logits after `tokens`, given in pieces that end at `cuts`."""
    model.kv.add(sequence)
    for start, end in zip([0, *cuts], [*cuts, len(tokens)], strict=True):
        result = model.step([sequence], [tokens[start:end]])[0]
    return result


@pytest.mark.parametrize("cuts", [[100], [64, 128, 192], [16], [199], [7, 9, 10, 150], list(range(1, 200))], ids=len)
def test_cuts(model, cuts):
    whole = logits(model, lambda: feed(model, 1, LONG, []))
    assert np.array_equal(logits(model, lambda: feed(model, 1, LONG, cuts)), whole)


def test_decode_beside_a_prompt(model):
    def alone() -> np.ndarray:
        feed(model, 1, SHORT, [])
        return model.step([1], [[7]])[0]

    def beside() -> np.ndarray:
        feed(model, 1, SHORT, [])
        model.kv.add(2)
        return model.step([2, 1], [LONG[:99], [7]])[1]

    assert np.array_equal(logits(model, beside), logits(model, alone))


@pytest.mark.parametrize("position", [16, 20, 31])
def test_forks(model, position):
    def alone() -> np.ndarray:
        feed(model, 1, SHORT, [])
        return np.stack([model.step([1], [[7]])[0], model.step([1], [[8]])[0]])

    def forked() -> np.ndarray:
        feed(model, 1, SHORT, [])
        model.kv.fork(1, 2, position)
        if position < len(SHORT):
            model.step([2], [SHORT[position:]])
        model.step([1], [[9]])
        both = [model.step([1, 2], [[9], [7]])[1]]
        model.kv.remove(1)
        return np.stack([*both, model.step([2], [[8]])[0]])

    assert np.array_equal(logits(model, forked), logits(model, alone))


def test_beside_a_fork(model):
    def alone() -> np.ndarray:
        feed(model, 1, SHORT, [])
        return model.step([1], [[7]])[0]

    def beside() -> np.ndarray:
        feed(model, 2, LONG, [])
        model.kv.fork(2, 3, 160)
        feed(model, 1, SHORT, [])
        return model.step([3, 2, 1], [LONG[160:163], [5], [7]])[2]

    assert np.array_equal(logits(model, beside), logits(model, alone))


@pytest.mark.parametrize("count", [1, 2, 4, 5, 9])
def test_several_rows_of_a_chunk(model, count):
    """Logits after each of a chunk's last tokens are those of steps of one token."""

    def singly() -> np.ndarray:
        feed(model, 1, SHORT, [])
        return np.stack([model.step([1], [[token]])[0] for token in LONG[:count]])

    def at_once() -> np.ndarray:
        feed(model, 2, LONG, [])
        feed(model, 1, SHORT[:-3], [])
        rows = model.step([2, 1, 3], [[5, 6], [*SHORT[-3:], *LONG[:count]], SHORT], [2, count, 1])
        assert len(rows) == 2 + count + 1
        return rows[2:-1]

    def with_third() -> np.ndarray:
        model.kv.add(3)
        return at_once()

    assert np.array_equal(logits(model, with_third), logits(model, singly))


@pytest.mark.parametrize("rows", [1, 3])
def test_sequences_that_share_a_prefix_are_computed_together(model, rows):
    """Five forks at different places of one text, and one that only looks like it: the bits of each alone."""
    ends = (200, 160, 112, 100, 160)
    following = [[i + 5] * rows for i in range(6)]

    def together() -> np.ndarray:
        feed(model, 1, LONG, [])
        for i, end in enumerate(ends[1:], 2):
            model.kv.fork(1, i, end)
        feed(model, 6, LONG[:150], [])
        result = model.step(range(1, 7), following, [rows] * 6)
        pages = model.kv.begin([1, 2, 3, 4, 5, 6], [1] * 6).blocks.pages.tolist()
        for sequence in range(1, 7):
            model.kv.truncate(sequence, 1)
        assert sorted(pages) == [6, 10]  # five together, by what they have in common, and the one alone
        return np.concatenate([result, model.step(range(1, 7), [[9]] * 6)])

    def alone() -> np.ndarray:
        results, lasts = [], []
        for i, end in enumerate([*ends, 150]):
            feed(model, i, LONG[:end], [])
            results.append(model.step([i], [following[i]], [rows]))
            lasts.append(model.step([i], [[9]]))
            model.kv.remove(i)
        return np.concatenate([*results, *lasts])

    assert np.array_equal(logits(model, together), logits(model, alone))
