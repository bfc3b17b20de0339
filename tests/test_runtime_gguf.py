"""Reading GGUF files: what is in them, and a plain error for whatever is wrong with them."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import numpy as np
import pytest
from runtime_models import TYPE_NUMBERS, Shape, Tiny, encode, make, write_gguf
from slipcast.engine.errors import ModelError, ModelFileError, UnsupportedModelError
from slipcast.engine.runtime.blocks import decode, encode_q8_0
from slipcast.engine.runtime.families import family_of
from slipcast.engine.runtime.gguf import TENSOR_TYPES, open_gguf
from slipcast.engine.runtime.load import open_checkpoint
from slipcast.engine.runtime.plan import ModelPlan
from slipcast.engine.runtime.stored_tokenizer import read_tokenizer

SHAPE = Shape(layers=1)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Tiny:
    return make(tmp_path_factory.mktemp("gguf") / "tiny.gguf", SHAPE, "Q4_0")


def planned(path: Path) -> ModelPlan:
    checkpoint, family = open_checkpoint(path)
    return family.plan(checkpoint)


def rewrite(
    path: Path, *, metadata: dict[str, object] | None = None, without: str = "", kind: str = "", extra: str = ""
) -> Path:
    """A model of zeros, with other metadata, without a tensor, or with its down projection in another type."""
    tensors = {}
    for name, size in SHAPE.shapes().items():
        own = kind if kind and "ffn_down" in name else "F32"
        tensors[name] = (own, size, bytes(4 * int(np.prod(size))))
    tensors.pop(without, None)
    if extra:
        tensors[extra] = ("F32", (SHAPE.hidden,), bytes(4 * SHAPE.hidden))
    write_gguf(path, {k: v for k, v in (SHAPE.metadata() | (metadata or {})).items() if v is not None}, tensors)
    return path


def test_metadata_and_tensors_are_what_was_written(tiny: Tiny) -> None:
    file = open_gguf(tiny.path)
    assert file.metadata["llama.block_count"] == 1
    assert file.metadata["tokenizer.ggml.tokens"][:2] == ("t0", "t1")
    for name, expected in tiny.weights.items():
        tensor = file.tensors[name]
        assert tensor.shape == expected.shape
        np.testing.assert_allclose(decode(tensor.data, tensor.type).reshape(expected.shape), expected, rtol=1e-6)


def test_dimensions_and_tokenizer(tiny: Tiny) -> None:
    file = open_gguf(tiny.path)
    config = family_of(file).plan(file).config
    assert (config.hidden, config.heads, config.kv_heads, config.head_dim, config.vocab_size) == (64, 4, 2, 16, 259)
    assert config.context_length == 160
    spec = read_tokenizer(file, config)
    assert spec.model == "gpt2"
    assert len(spec.tokens) == 259
    assert (spec.eos_id, spec.bos_id, spec.add_bos, spec.chat_template) == (2, None, True, None)


@pytest.mark.parametrize("kind", sorted(TYPE_NUMBERS))
def test_decoding_agrees_with_the_writer(kind: str) -> None:
    values = np.random.default_rng(1).standard_normal((4, 64)).astype(np.float32)
    raw, meaning = encode(values, kind)
    data = np.frombuffer(raw, np.uint8).reshape(4, -1)
    np.testing.assert_allclose(decode(data, kind), meaning, rtol=1e-6)


def test_decoding_of_k_quants_by_hand() -> None:
    """One block each, with fields set so that the answer can be told by reading the format's definition."""
    q4 = np.zeros((1, 144), np.uint8)
    q4[0, :4] = np.array([0.5, 0.25], np.float16).view(np.uint8)
    q4[0, 4:8] = 2  # scales 0..3
    q4[0, 8:12] = 4  # minima 0..3
    q4[0, 12:16] = 1 | 3 << 4  # scales and minima 4..7, low bits
    q4[0, 16:48] = 5 | 7 << 4
    values = decode(q4, "Q4_K")[0]
    assert set(values[:32]) == {0.5 * 2 * 5 - 0.25 * 4}
    assert set(values[32:64]) == {0.5 * 2 * 7 - 0.25 * 4}
    assert set(values[128:]) == {-0.25 * 3}
    q6 = np.zeros((1, 210), np.uint8)
    q6[0, :32] = 9  # low bits of the first 32 columns, in the low half
    q6[0, 128:160] = 2  # their high bits
    q6[0, 192:194] = np.array([3, -1], np.int8).view(np.uint8)
    q6[0, 208:] = np.array([0.5], np.float16).view(np.uint8)
    values = decode(q6, "Q6_K")[0]
    assert set(values[:16]) == {0.5 * 3 * (9 + 32 - 32)}
    assert set(values[16:32]) == {0.5 * -1 * (9 + 32 - 32)}
    assert set(values[32:]) == {0.0}


def test_requantising_to_q8_0_is_close() -> None:
    values = np.random.default_rng(2).standard_normal((8, 128)).astype(np.float32)
    values[0, :32] = 0
    error = np.abs(decode(encode_q8_0(values), "Q8_0") - values)
    assert error.max() <= np.abs(values).max() / 127 * 0.51
    assert (error[0, :32] == 0).all()


def test_every_truncation_is_refused_plainly(tiny: Tiny, tmp_path: Path) -> None:
    whole = tiny.path.read_bytes()
    cuts = {0, 1, 3, 4, 8, 23, 24, 25, len(whole) // 2, len(whole) - 1} | set(range(30, 6000, 97))
    for cut in sorted(cuts):
        path = tmp_path / "cut.gguf"
        path.write_bytes(whole[:cut])
        with pytest.raises(ModelFileError) as caught:
            planned(path)
        text = str(caught.value)
        assert "\n" not in text
        assert str(path) in text
        assert caught.value.path == path


def test_damage_never_escapes_as_another_error(tiny: Tiny, tmp_path: Path) -> None:
    whole = tiny.path.read_bytes()
    rng = random.Random(0)
    path = tmp_path / "damaged.gguf"
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        for _ in range(rng.randint(1, 4)):
            damaged[rng.randrange(6500)] = rng.choice([0, 1, 8, 9, 255, rng.randrange(256)])
        path.write_bytes(damaged)
        try:
            file = open_gguf(path)
            read_tokenizer(file, family_of(file).plan(file).config)
        except ModelError:
            refused += 1
    assert refused > 100


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "empty"), (b"PK\x03\x04" + bytes(40), "not a GGUF"), (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), "version 1")],
)
def test_other_files_are_refused(content: bytes, says: str, tmp_path: Path) -> None:
    path = tmp_path / "other.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelFileError, match=says):
        open_gguf(path)


def test_a_missing_file_and_a_folder(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no such model file"):
        open_gguf(tmp_path / "none.gguf")
    with pytest.raises(ModelFileError, match="cannot be read"):
        open_gguf(tmp_path)


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"metadata": {"general.architecture": "mamba"}}, UnsupportedModelError, "'mamba'"),
        ({"metadata": {"general.architecture": None}}, ModelFileError, "general.architecture"),
        ({"metadata": {"llama.block_count": None}}, ModelFileError, "llama.block_count"),
        ({"metadata": {"llama.block_count": 0}}, ModelFileError, "positive integer"),
        ({"metadata": {"llama.block_count": 2}}, ModelFileError, "'blk.1.attn_norm.weight' is missing"),
        ({"metadata": {"llama.feed_forward_length": 128}}, ModelFileError, r"\(96, 64\), not \(128, 64\)"),
        ({"metadata": {"llama.attention.head_count_kv": 3}}, UnsupportedModelError, "no multiple of the key heads"),
        ({"metadata": {"llama.rope.scaling.type": "su"}}, UnsupportedModelError, "rope scaling 'su'"),
        ({"metadata": {"llama.rope.scaling.type": "yarn"}}, ModelFileError, "llama.rope.scaling.factor"),
        ({"metadata": {"llama.rope.dimension_count": 6}}, UnsupportedModelError, "6 of 16 columns"),
        ({"metadata": {"llama.attention.value_length": 32}}, UnsupportedModelError, "another size than keys"),
        ({"metadata": {"llama.expert_count": 4}}, ModelFileError, "llama.expert_used_count"),
        (
            {"metadata": {"llama.expert_count": 4, "llama.expert_used_count": 5}},
            UnsupportedModelError,
            "5 of 4 experts",
        ),
        ({"extra": "output_norm.bias"}, UnsupportedModelError, "'output_norm.bias' is not supported"),
        ({"extra": "rope_factors_long.weight"}, UnsupportedModelError, "'rope_factors_long.weight' is not"),
        ({"extra": "blk.0.attn_q_norm.weight"}, UnsupportedModelError, "'blk.0.attn_q_norm.weight' is not"),
        ({"without": "blk.0.ffn_up.weight"}, ModelFileError, "'blk.0.ffn_up.weight' is missing"),
        ({"kind": "IQ4_NL"}, ModelFileError, "unknown type 99"),
    ],
)
def test_models_that_do_not_fit_are_refused(
    changes: dict[str, object], error: type[ModelError], says: str, tmp_path: Path
) -> None:
    path = rewrite(tmp_path / "other.gguf", **changes)  # type: ignore[arg-type]
    with pytest.raises(error, match=says) as caught:
        planned(path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"tokenizer.ggml.tokens": None}, "0 tokens, the model 259"),
        ({"tokenizer.ggml.tokens": [f"t{i}" for i in range(260)]}, "260 tokens, the model 259"),
        ({"tokenizer.ggml.tokens": 5}, "no list of str"),
        ({"tokenizer.ggml.merges": "a b"}, "no list of str"),
        ({"tokenizer.ggml.eos_token_id": 259}, "outside the vocabulary of 259"),
        ({"tokenizer.ggml.bos_token_id": "x"}, "no int"),
        ({"tokenizer.ggml.model": 1}, "no str"),
        ({"tokenizer.chat_template": 1.5}, "no str"),
        ({"tokenizer.ggml.add_bos_token": "yes"}, "no bool"),
    ],
)
def test_tokenizers_that_do_not_fit_are_refused(changes: dict[str, object], says: str, tmp_path: Path) -> None:
    file = open_gguf(rewrite(tmp_path / "other.gguf", metadata=changes))
    config = family_of(file).plan(file).config
    with pytest.raises(ModelFileError, match=says):
        read_tokenizer(file, config)


def test_known_types_have_sound_block_sizes() -> None:
    for name, elements, size in TENSOR_TYPES.values():
        assert 2 <= size * 8 / elements <= 64, name
