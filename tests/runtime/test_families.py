"""Every family against `transformers`: tiny models whose logits lie in golden/ (see family_cases.py).

Whole prefill, chunks, single tokens, batches and forks; with float32 weights and pages to 1e-3, and to the last bit
among each other.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from family_cases import CASES, TOKENS, Case, case
from runtime_models import divergence
from slipcast.engine.runtime import LoadedModel, load_model

CUTS = ([17, 1, 1, 30, 7], [1] * 24 + [32])


@pytest.fixture(scope="session")
def libraries(request: pytest.FixtureRequest) -> Iterator[None]:
    """Compiled libraries are kept between runs; their key has the kernels' sources in it."""
    patch = pytest.MonkeyPatch()
    patch.setenv("SLIPCAST_CACHE", str(request.config.cache.mkdir("slipcast")))
    yield
    patch.undo()


def load(path: Path) -> LoadedModel:
    return load_model(path, max_batch=4, prefill_chunk=256, threads=1)


def whole(model: LoadedModel, tokens: list[int]) -> np.ndarray:
    """Logits of all positions, in one step."""
    model.kv.add(0)
    found = model.step([0], [tokens], [len(tokens)])
    model.kv.remove(0)
    return found


@pytest.fixture(scope="module", params=sorted(CASES))
def exact(
    request: pytest.FixtureRequest, libraries: None, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Case, LoadedModel]:
    """Float32 weights, and float32 pages, which the portable kernels have."""
    found = case(request.param)
    folder = found.folder(tmp_path_factory.mktemp(request.param))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("slipcast.engine.runtime.load.instruction_set", lambda: "portable")
        return found, load(folder)


def test_prefill_matches_transformers(exact: tuple[Case, LoadedModel]) -> None:
    found = whole(exact[1], TOKENS)
    assert np.abs(exact[0].logits - found).max() < 1e-3
    assert np.abs(exact[0].logits).max() > 1


@pytest.mark.parametrize("cut", range(len(CUTS)))
def test_chunks_and_single_tokens_change_no_bit(cut: int, exact: tuple[Case, LoadedModel]) -> None:
    model, start = exact[1], 0
    expected = whole(model, TOKENS)
    model.kv.add(0)
    for size in CUTS[cut]:
        end = start + size
        np.testing.assert_array_equal(model.step([0], [TOKENS[start:end]])[0], expected[end - 1])
        start = end
    model.kv.remove(0)
    assert start == len(TOKENS)


def test_company_and_forks_change_no_bit(exact: tuple[Case, LoadedModel]) -> None:
    model = exact[1]
    prompts = [TOKENS, TOKENS[5:12], TOKENS[3:40], TOKENS[50:51]]
    alone = [whole(model, [*prompt, 7, 9]) for prompt in prompts]
    for i in range(4):
        model.kv.add(i)
    first = model.step(range(4), prompts)
    model.kv.remove(3)
    model.kv.fork(0, 3)
    second = model.step([3, 1, 2, 0], [[7]] * 4)
    third = model.step([0, 3, 2, 1], [[9]] * 4)
    for i in model.kv.sequences:
        model.kv.remove(i)
    for i, prompt in enumerate(prompts):
        np.testing.assert_array_equal(first[i], alone[i][len(prompt) - 1])
    for row, i in enumerate([0, 1, 2, 0]):
        np.testing.assert_array_equal(second[row], alone[i][len(prompts[i])])
    for row, i in enumerate([0, 0, 2, 1]):
        np.testing.assert_array_equal(third[row], alone[i][len(prompts[i]) + 1])
    assert model.kv.free_pages == model.kv.total_pages


@pytest.mark.parametrize("name", ["llama3", "gemma2", "mixtral"])
def test_float16_pages_are_close(name: str, libraries: None, tmp_path: Path) -> None:
    """The kernels of this machine, with float16 weights in the folder: all error left is float16's."""
    found = case(name)
    logits = whole(load(found.folder(tmp_path, "F16")), TOKENS)
    assert divergence(found.logits, logits).max() < 1e-3
