"""Conversion: Hugging Face folders to GGUF and back into the engine, what each quantisation costs, and refusals."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from family_cases import CASES, TOKENS, case, write_safetensors
from runtime_models import divergence
from runtime_models import encode as plain
from slipcast.engine.cli import main
from slipcast.engine.errors import ConfigError, ModelError, ModelFileError, UnsupportedModelError
from slipcast.engine.runtime import LoadedModel, load_model
from slipcast.engine.runtime.blocks import decode
from slipcast.engine.runtime.convert import QUANTIZATIONS, convert
from slipcast.engine.runtime.encode import encode
from slipcast.engine.runtime.gguf import open_gguf
from slipcast.engine.runtime.load import open_checkpoint
from slipcast.engine.runtime.weights import load_weights

# Against transformers with the weights that the file has: what is lost is the engine's own, by 8-bit activations and
# 16-bit pages. Tiny random models lose more by it than real ones. The mean divergence in nats (measured: up to 0.013),
# and the root of the mean square of differences over the logits' spread, for models that are always sure.
DIVERGENCE = 0.03
DIFFERENCE = 0.1
QUICK = ("llama3", "mixtral", "phi3_partial", "gemma3")


@pytest.fixture(scope="session")
def libraries(request: pytest.FixtureRequest) -> Iterator[None]:
    patch = pytest.MonkeyPatch()
    patch.setenv("SLIPCAST_CACHE", str(request.config.cache.mkdir("slipcast")))
    yield
    patch.undo()


def logits(model: LoadedModel) -> np.ndarray:
    model.kv.add(0)
    return model.step([0], [TOKENS], [len(TOKENS)])


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in sorted(CASES)]
)
def test_a_quantised_family_is_close_to_transformers(name: str, libraries: None, tmp_path: Path) -> None:
    """Through GGUF and this machine's kernels, every family; golden logits are of weights rounded alike."""
    found = case(name)
    out = tmp_path / "model.gguf"
    convert(found.folder(tmp_path / "hf"), out, "q8f16_1")
    model = load_model(out, max_batch=2, prefill_chunk=64, threads=1)
    values = logits(model)
    lost = divergence(found.rounded, values)
    assert lost.mean() < DIVERGENCE
    difference = np.sqrt(np.square(values - found.rounded).mean()) / found.rounded.std()
    assert difference < DIFFERENCE


@pytest.mark.parametrize("name", sorted(CASES))
def test_float32_files_hold_the_folder_exactly(name: str, tmp_path: Path) -> None:
    """Same config and same weights after the way through GGUF, heads in GGUF's order and back included."""
    folder = case(name).folder(tmp_path / "hf")
    convert(folder, tmp_path / "model.gguf", "q0f32")
    (before, family), (after, other) = open_checkpoint(folder), open_checkpoint(tmp_path / "model.gguf")
    assert family.architectures[0] == other.architectures[0] or other.name == "llama"
    first, second = family.plan(before), other.plan(after)
    assert close(vars(first.config), vars(second.config))
    names = list(first.parameters())
    assert names == list(second.parameters())
    for a, b in zip(
        load_weights(before, first, names, quiet), load_weights(after, second, names, quiet), strict=True
    ):
        np.testing.assert_array_equal(a.numpy(), b.numpy())


def close(first: object, second: object) -> bool:
    """Equal, floats to float32's precision, which GGUF's metadata have."""
    if isinstance(first, float) and isinstance(second, float):
        return abs(first - second) <= 1e-6 * abs(first)
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(close(first[key], second[key]) for key in first)
    if isinstance(first, tuple) and isinstance(second, tuple):
        return len(first) == len(second) and all(map(close, first, second))
    return close(vars(first), vars(second)) if hasattr(first, "__dict__") else first == second


def quiet(stage: str, share: float) -> None:
    assert 0 <= share <= 1, stage


@pytest.mark.parametrize(
    ("name", "bits", "relative"),
    [("q0f32", 32, 0), ("q0f16", 16, 5e-4), ("q0bf16", 16, 3e-3), ("q8f16_1", 8.5, 8e-3), ("q4f16_1", 5, 0.09),
     ("q4f16_0", 4.5, 0.1)],
)  # fmt: skip
def test_errors_told_are_errors_made(name: str, bits: float, relative: float, tmp_path: Path) -> None:
    found = case("mistral")
    done = convert(found.folder(tmp_path / "hf"), tmp_path / "model.gguf", name)
    file = open_gguf(tmp_path / "model.gguf")
    told = {error.kind: error for error in done.errors}
    assert told["ffn_down"].bits == bits and told["ffn_down"].tensors == 2
    assert told["attn_norm"].largest == 0
    assert told["ffn_down"].format == QUANTIZATIONS[name].matrices
    assert relative / 3 <= told["ffn_down"].relative <= relative
    weights = found.weights()
    differences = [
        np.abs(decode(file.tensors[f"blk.{i}.ffn_down.weight"].data, told["ffn_down"].format)
               - weights[f"model.layers.{i}.mlp.down_proj.weight"]).max()
        for i in range(2)
    ]  # fmt: skip
    assert told["ffn_down"].largest == pytest.approx(max(differences), rel=1e-6)
    assert done.bytes_after == (tmp_path / "model.gguf").stat().st_size


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q8_0", "F16", "BF16"])
def test_encoding_is_at_least_as_good_as_plain_rounding(kind: str) -> None:
    rng = np.random.default_rng(0)
    values = rng.standard_normal((64, 256)).astype(np.float32)
    values[0] = 0
    values[1, :32] = 7.25
    error = np.square(decode(encode(values, kind), kind) - values)
    _, meaning = plain(values[2:], kind)
    assert error[2:].sum() <= np.square(meaning - values[2:]).sum() * 1.0001
    assert (error[0] == 0).all()
    assert (error[1, :32] < 1e-3).all()


def test_a_conversion_keeps_the_tokenizer(tmp_path: Path) -> None:
    convert(case("qwen2").folder(tmp_path / "hf"), tmp_path / "model.gguf", "q8f16_1")
    metadata = open_gguf(tmp_path / "model.gguf").metadata
    assert metadata["tokenizer.ggml.tokens"][:4] == ("<pad>", "<s>", "</s>", "t3")
    assert json.loads(metadata["tokenizer.huggingface.json"])["model"]["type"] == "WordLevel"
    assert metadata["tokenizer.ggml.eos_token_id"] == 2


def test_what_cannot_be_converted(tmp_path: Path) -> None:
    folder = case("qwen3").folder(tmp_path / "hf")
    out = tmp_path / "model.gguf"
    with pytest.raises(ConfigError, match="'q5f16_1'"):
        convert(folder, out, "q5f16_1")
    with pytest.raises(ModelError, match="cannot be written"):
        convert(folder, tmp_path / "no" / "where.gguf", "q0f32")
    convert(folder, out, "q4f16_1")
    with pytest.raises(UnsupportedModelError, match="quantised already"):
        convert(out, tmp_path / "twice.gguf", "q8f16_1")
    convert(out, tmp_path / "twice.gguf", "q8f16_1", requantize=True)
    weights = case("qwen3").weights()
    weights["model.layers.1.mlp.down_proj.weight"][3, 5] = 1e6
    write_safetensors(folder / "model.safetensors", weights)
    with pytest.raises(ModelFileError, match=r"blk\.1\.ffn_down\.weight.*float16.*q0bf16"):
        convert(folder, tmp_path / "large.gguf", "q0f16")
    weights["model.layers.1.mlp.down_proj.weight"][3, 5] = np.nan
    write_safetensors(folder / "model.safetensors", weights)
    with pytest.raises(ModelFileError, match=r"blk\.1\.ffn_down\.weight.*no numbers"):
        convert(folder, tmp_path / "large.gguf", "q0bf16")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hf", "model.gguf", "twice.gguf"]


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = case("llama2").folder(tmp_path / "hf")
    out = tmp_path / "model.gguf"
    assert main(["convert", str(folder), "-q", "q4f16_1", "-o", str(out), "--no-compare"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("attn_q") and "Q4_1" in line and "5.000" in line for line in lines)
    assert out.is_file()
    for wrong in (
        [str(folder), "-q", "q9", "-o", str(out)],
        [str(tmp_path / "none"), "-q", "q0f32", "-o", str(out)],
        [str(out), "-q", "q8f16_1", "-o", str(out)],
        [str(out), "-q", "q8f16_1", "-o", str(tmp_path)],
        [str(out), "-q", "q8f16_1", "-o", str(tmp_path / "x.gguf")],
    ):
        assert main(["convert", *wrong]) == 2
        error = capsys.readouterr().err
        assert error.count("\n") == 1 and error.startswith("slipcast: ")
