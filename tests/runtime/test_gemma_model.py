"""A real second model, Gemma 3 270M in Q4_K_M: SentencePiece's tokens, K formats, local and global layers."""

from __future__ import annotations

import json
from collections.abc import Iterator

import jsonschema
import numpy as np
import pytest
from runtime_models import divergence
from slipcast.engine import Engine
from slipcast.engine.errors import DownloadError
from slipcast.engine.runtime import LoadedModel, load_model, resolve_model
from slipcast.engine.runtime.load import open_checkpoint
from slipcast.engine.tokenizer import TextTokenizer, build_tokenizer

pytestmark = [pytest.mark.slow, pytest.mark.model]

NAME = "gemma3-270m"
# What llama.cpp's tokenizer gives for the same file.
KNOWN_IDS = {
    "The capital of France is": [818, 5279, 529, 7001, 563],
    "def fibonacci(n):\n": [2063, 10779, 78113, 236769, 236749, 1473, 107],
    "  two spaces\n\n\nthree\tTabs": [138, 13498, 9952, 109, 19891, 255968, 76222],
    "naïve café": [1789, 238527, 560, 33443],
}
SCHEMA = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 20},
        "inhabitants": {"type": "integer", "minimum": 1000, "maximum": 40000000},
        "capital": {"type": "boolean"},
    },
    "required": ["city", "inhabitants", "capital"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def model() -> LoadedModel:
    try:
        path = resolve_model(NAME)
    except DownloadError as error:
        pytest.skip(f"{NAME} cannot be had here: {error}")
    return load_model(path, max_batch=4, max_context=1024, prefill_chunk=256)


@pytest.fixture(scope="module")
def tokenizer(model: LoadedModel) -> TextTokenizer:
    return build_tokenizer(model.tokenizer_spec)


def test_nothing_is_widened(model: LoadedModel) -> None:
    """4-bit tensors stay 4-bit in memory, and no format goes through another one with loss."""
    checkpoint, family = open_checkpoint(resolve_model(NAME))
    plan = family.plan(checkpoint)
    formats = {matrix.format for layer in plan.layers for matrix in (*layer.qkv, layer.output, layer.down)}
    assert formats == {"q8_0", "q4_k", "q6_k"}
    assert {checkpoint.tensors[layer.output.blocks[0][0].tensor].type for layer in plan.layers} == {"Q4_K"}
    assert {layer.output.format for layer in plan.layers} == {"q4_k"}


@pytest.mark.parametrize("text", sorted(KNOWN_IDS))
def test_tokens_are_those_of_llama_cpp(text: str, tokenizer: TextTokenizer) -> None:
    assert list(tokenizer.encode(text)) == KNOWN_IDS[text]
    assert tokenizer.decode(KNOWN_IDS[text]) == text
    assert tokenizer.encode(text, bos=True)[0] == tokenizer.bos_id == 2


@pytest.mark.parametrize("text", ["\U0001f9ec\U0001f469\u200d\U0001f52c \ua66e ᚠᛇᚻ", "\x01\x7f", "e\u0301"])
def test_bytes_fall_back(text: str, tokenizer: TextTokenizer) -> None:
    ids = tokenizer.encode(text)
    assert b"".join(map(tokenizer.bytes_of, ids)).decode() == text


def greedy(model: LoadedModel, ids: list[int], count: int) -> list[int]:
    model.kv.add(0)
    logits, found = model.step([0], [ids])[0], []
    for _ in range(count):
        found.append(int(logits.argmax()))
        logits = model.step([0], [found[-1:]])[0]
    model.kv.remove(0)
    return found


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("The opposite of hot is", "cold"),
        ("One, two, three, four, five,", "six"),
        ("def fibonacci(n):\n    if n", "return"),
        ("The three primary colours are red,", "blue"),
    ],
)
def test_text_is_coherent(prompt: str, expected: str, model: LoadedModel, tokenizer: TextTokenizer) -> None:
    text = tokenizer.decode(greedy(model, list(tokenizer.encode(prompt, bos=True)), 12))
    assert expected in text, text


def test_chunks_change_no_bit_across_the_window(model: LoadedModel, tokenizer: TextTokenizer) -> None:
    """700 tokens: local layers look back over 512, so the first chunks have left their window."""
    ids = [2, *(np.random.default_rng(0).integers(1000, 100_000, 699).tolist())]
    ends = []
    for sizes in ([256, 256, 188], [100] * 7, [255, 1, 200, 44, 137, 63]):
        model.kv.add(0)
        start = 0
        for size in sizes:
            logits = model.step([0], [ids[start : start + size]])[0]
            start += size
        ends.append(logits)
        model.kv.remove(0)
    np.testing.assert_array_equal(ends[0], ends[1])
    np.testing.assert_array_equal(ends[0], ends[2])
    model.kv.add(0)
    for start in range(100, 700, 200):  # what is out of every window's reach changes global layers only
        logits = model.step([0], [ids[start : start + 200]])[0]
    model.kv.remove(0)
    assert 0 < divergence(ends[0][None], logits[None])[0] < 20


@pytest.fixture(scope="module")
def engine(model: LoadedModel) -> Iterator[Engine]:
    with Engine(model=NAME, max_context=1024, max_batch=2) as engine:
        yield engine


def test_an_answer_takes_the_schemas_shape(engine: Engine) -> None:
    answer = engine.chat.completions.create(
        messages=[{"role": "user", "content": "Tell me about Paris, as JSON."}],
        response_format={"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA}},
        max_tokens=80,
        temperature=0,
    )
    value = json.loads(answer.choices[0].message.content)
    jsonschema.validate(value, SCHEMA)
    assert value["city"] == "Paris"
