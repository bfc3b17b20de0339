"""The default model against a float32 reference: what 8-bit activations and float16 pages cost in all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from runtime_models import Floats, Shape, divergence, reference
from slipcast.engine.errors import DownloadError
from slipcast.engine.runtime import DEFAULT_MODEL, LoadedModel, load_model, resolve_model
from slipcast.engine.runtime.blocks import decode
from slipcast.engine.runtime.checkpoint import Checkpoint
from slipcast.engine.runtime.gguf import open_gguf

pytestmark = pytest.mark.model

TEXT = """
The quick brown fox jumps over the lazy dog . In the year after the war , people first walked on the moon and the
mission was called a great success . Water boils at a hundred degrees at sea level , but at the top of a high
mountain it boils much sooner , because the air is thin . Once upon a time there was a little girl who lived in a
village near the forest . Every day she went out to play with her friends , and in the evening her mother told a
story .
"""


@pytest.fixture(scope="module")
def file() -> Checkpoint:
    try:
        return open_gguf(resolve_model(DEFAULT_MODEL))
    except DownloadError as error:
        pytest.skip(f"the default model cannot be had here: {error}")


@pytest.fixture(scope="module")
def model(file: Checkpoint) -> LoadedModel:
    return load_model(file.path, max_batch=4, max_context=512, prefill_chunk=128)


@pytest.fixture(scope="module")
def tokens(model: LoadedModel) -> list[int]:
    """Words that are one token each, so that no tokenizer is needed."""
    ids = {token: i for i, token in enumerate(model.tokenizer_spec.tokens)}
    found = [ids.get("\u0120" + word, ids.get(word)) for word in TEXT.split()]
    known = [token for token in found if token is not None]
    assert len(known) > 80
    return known


@pytest.fixture(scope="module")
def expected(file: Checkpoint, model: LoadedModel, tokens: list[int]) -> Floats:
    c = model.config
    shape = Shape(
        layers=c.layers, hidden=c.hidden, feed_forward=c.feed_forward, heads=c.heads, kv_heads=c.kv_heads,
        head_dim=c.head_dim, vocab=c.vocab_size, theta=file.metadata["llama.rope.freq_base"], epsilon=c.norm_epsilon,
    )  # fmt: skip
    weights = {name: decode(t.data, t.type).reshape(t.shape) for name, t in file.tensors.items()}
    return reference(weights, shape, tokens)


@pytest.fixture
def sequence(model: LoadedModel) -> Iterator[int]:
    model.kv.add(7)
    yield 7
    model.kv.remove(7)


def test_decoding_is_close_to_float32(
    model: LoadedModel, sequence: int, tokens: list[int], expected: Floats
) -> None:
    rows = [model.step([sequence], [[token]])[0] for token in tokens]
    found = np.stack(rows)
    lost = divergence(expected, found)
    assert lost.mean() < 0.008  # measured: 0.004
    assert (found.argmax(-1) == expected.argmax(-1)).mean() > 0.9
    # Perplexity of the text itself: what the rounding costs a user.
    def surprise(logits: np.ndarray) -> float:
        rest = logits - logits.max(-1, keepdims=True)
        chosen = rest[np.arange(len(tokens) - 1), tokens[1:]]
        return float(np.mean(np.log(np.exp(rest[:-1]).sum(-1)) - chosen))

    assert abs(surprise(found) - surprise(expected)) < 0.03


def test_a_prefill_is_close_to_float32(
    model: LoadedModel, sequence: int, tokens: list[int], expected: Floats
) -> None:
    for end in (20, len(tokens)):
        found = model.step([sequence], [tokens[model.kv.length(sequence) : end]])
        assert divergence(expected[end - 1 : end], found)[0] < 0.02


def test_dimensions(model: LoadedModel) -> None:
    assert model.config.vocab_size == 49152
    assert model.config.context_length == 8192
    assert model.tokenizer_spec.eos_id == 2
    assert "<|im_start|>" in (model.tokenizer_spec.chat_template or "")
