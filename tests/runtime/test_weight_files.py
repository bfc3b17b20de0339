"""Hugging Face folders: safetensors and PyTorch files, in shards or not, and everything that can be wrong with them."""

from __future__ import annotations

import json
import os
import pickle
import random
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from family_cases import GOLDEN, Case, Floats, case, write_safetensors
from slipcast.engine.errors import ModelError, ModelFileError, UnsupportedModelError
from slipcast.engine.runtime.arena import Arena
from slipcast.engine.runtime.blocks import decode
from slipcast.engine.runtime.load import load_model, open_checkpoint
from slipcast.engine.runtime.plan import ModelPlan
from slipcast.engine.runtime.safetensors import read_safetensors
from slipcast.engine.runtime.stored_tokenizer import read_tokenizer
from slipcast.engine.runtime.torch_file import read_torch
from slipcast.engine.runtime.weights import load_weights

PLAIN = "llama2"


def planned(folder: Path) -> ModelPlan:
    checkpoint, family = open_checkpoint(folder)
    return family.plan(checkpoint)


def quiet(stage: str, share: float) -> None:
    assert 0 <= share <= 1, stage


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return case(PLAIN).folder(tmp_path / "model")


def change(path: Path, **values: Any) -> None:
    """Keys of a JSON file; None removes one."""
    found = json.loads(path.read_text()) | values
    path.write_text(json.dumps({key: value for key, value in found.items() if value is not None}))


def write_shards(found: Case, folder: Path) -> None:
    """Three files, and an index that says what is where."""
    weights = found.weights()
    names = sorted(weights)
    (folder / "model.safetensors").unlink()
    places = {}
    for i in range(3):
        own = {name: weights[name] for name in names[i::3]}
        file = f"model-{i + 1:05}-of-00003.safetensors"
        write_safetensors(folder / file, own)
        places |= dict.fromkeys(own, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))


def values_of(folder: Path) -> dict[str, Floats]:
    checkpoint, _ = open_checkpoint(folder)
    return {name: decode(t.data, t.type).reshape(t.shape) for name, t in checkpoint.tensors.items()}


def test_shards_are_one_model(folder: Path) -> None:
    whole = values_of(folder)
    write_shards(case(PLAIN), folder)
    sharded = values_of(folder)
    assert whole.keys() == sharded.keys()
    assert all((whole[name] == sharded[name]).all() for name in whole)


def test_pytorch_files_are_read_as_pytorch_wrote_them() -> None:
    tensors, _ = read_torch(GOLDEN / "pickled.bin")
    found = {name: decode(t.data, t.type).reshape(t.shape) for name, t in tensors.items()}
    base = np.arange(24, dtype=np.float32).reshape(4, 6) / np.float32(7)
    assert set(found) == {"f32", "f16", "bf16", "view", "parameter", "vector", "transposed"}
    np.testing.assert_array_equal(found["f32"], base)
    np.testing.assert_array_equal(found["view"], base[1:3])
    np.testing.assert_array_equal(found["parameter"], base + 1)
    np.testing.assert_array_equal(found["vector"], base[2])
    np.testing.assert_array_equal(found["transposed"], base.T)
    np.testing.assert_array_equal(found["f16"], base.astype(np.float16))
    np.testing.assert_allclose(found["bf16"], base, rtol=1 / 256)


class _Call:
    def __init__(self, function: Callable[..., Any], *arguments: Any) -> None:
        self._reduced = (function, arguments)

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self._reduced


def write_pickle(path: Path, data: bytes) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", data)
    return path


@pytest.mark.parametrize("function", [os.system, eval, print], ids=lambda function: function.__name__)
def test_a_pickle_runs_nothing(function: Callable[..., Any], tmp_path: Path) -> None:
    mark = tmp_path / "ran"
    path = write_pickle(tmp_path / "model.bin", pickle.dumps({"a": _Call(function, f"touch {mark}")}))
    with pytest.raises(ModelFileError, match=r"it names \S+, which weights have no need of") as caught:
        read_torch(path)
    assert "do not trust" in str(caught.value)
    assert not mark.exists()


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "empty"), (b"\x80\x02}q\x00.", "no ZIP archive"), (b"PK\x05\x06" + bytes(18), "no data.pkl")],
)
def test_other_files_are_no_pytorch_files(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(content)
    with pytest.raises(ModelFileError, match=says):
        read_torch(tmp_path / "x.bin")


@pytest.mark.parametrize("reader", [read_torch, read_safetensors], ids=["torch", "safetensors"])
def test_damage_never_escapes_as_another_error(reader: Callable[[Path], Any], tmp_path: Path) -> None:
    if reader is read_torch:
        whole = (GOLDEN / "pickled.bin").read_bytes()
    else:
        write_safetensors(tmp_path / "x", {"a": np.ones((4, 8), np.float32), "b": np.ones(9, np.float32)})
        whole = (tmp_path / "x").read_bytes()
    rng, path, refused = random.Random(0), tmp_path / "damaged", 0
    for turn in range(500):
        damaged = bytearray(whole)
        if turn % 5 == 0:
            del damaged[rng.randrange(len(damaged)) :]
        for _ in range(rng.randint(1, 4)):
            if damaged:
                place = rng.randrange(min(len(damaged), 2500))
                damaged[place] = rng.choice([0, 1, 34, 46, 57, 255, rng.randrange(256)])
        path.write_bytes(damaged)
        try:
            tensors, _ = reader(path)
            for tensor in tensors.values():
                decode(tensor.data, tensor.type)
        except ModelError as error:
            refused += 1
            assert "\n" not in str(error)
    assert refused > 100


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"model_type": "mamba", "architectures": ["MambaForCausalLM"]}, UnsupportedModelError, "'MambaForCausalLM'"),
        ({"model_type": None, "architectures": None}, ModelFileError, "no 'general.architecture'"),
        ({"num_hidden_layers": 3}, ModelFileError, r"blk\.2\.attn_norm\.weight' is missing"),
        ({"num_hidden_layers": None}, ModelFileError, "'num_hidden_layers' is None"),
        ({"num_hidden_layers": "2"}, ModelFileError, "'num_hidden_layers' is '2'"),
        ({"intermediate_size": 128}, ModelFileError, r"ffn_gate\.weight' has shape \(96, 64\), not \(128, 64\)"),
        ({"num_key_value_heads": 3}, UnsupportedModelError, "no multiple of the key heads"),
        ({"hidden_act": "relu"}, UnsupportedModelError, "activation 'relu'"),
        ({"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}}, UnsupportedModelError, "'dynamic'"),
        ({"rope_scaling": {"rope_type": "llama3", "factor": 2.0}}, ModelFileError, "'low_freq_factor' is None"),
        ({"rope_scaling": [1]}, ModelFileError, "no object"),
        ({"quantization_config": {"quant_method": "gptq"}}, UnsupportedModelError, "quantised already"),
        ({"rms_norm_eps": float("nan")}, ModelFileError, "rms_norm_eps"),
    ],
)
def test_configurations_that_do_not_fit(
    changes: dict[str, Any], error: type[ModelError], says: str, folder: Path
) -> None:
    change(folder / "config.json", **changes)
    with pytest.raises(error, match=says) as caught:
        planned(folder)
    assert "\n" not in str(caught.value)
    assert str(folder) in str(caught.value)


def test_what_is_missing_is_named(folder: Path) -> None:
    weights = case(PLAIN).weights()
    for name, says in (
        ("model.layers.1.self_attn.k_proj.weight", r"'blk\.1\.attn_k\.weight' is missing"),
        ("lm_head.weight", "'lm_head.weight' is missing"),
        ("model.norm.weight", "'output_norm.weight' is missing"),
    ):
        write_safetensors(folder / "model.safetensors", {key: w for key, w in weights.items() if key != name})
        with pytest.raises(ModelFileError, match=says):
            planned(folder)
    write_safetensors(
        folder / "model.safetensors", weights | {"model.layers.0.self_attn.q_proj.bias": np.zeros(64, np.float32)}
    )
    with pytest.raises(ModelFileError, match=r"attn_k\.bias' is missing"):
        planned(folder)
    for file in ("model.safetensors", "tokenizer.json", "config.json"):
        (folder / file).unlink()
        with pytest.raises(ModelFileError, match=r"has no weights|tokenizer\.json: no such file|config\.json: no such"):
            planned(folder)


def test_tensors_that_nobody_would_read_are_refused(folder: Path) -> None:
    """A part of a layer that the family does not have means another architecture: its answers would be wrong."""
    found = case("qwen3")
    weights = case(PLAIN).weights()
    for extra in ("model.layers.0.self_attn.sinks", "model.layers.1.mlp.shared.weight"):
        write_safetensors(folder / "model.safetensors", weights | {extra: np.ones((8, 64), np.float32)})
        with pytest.raises(UnsupportedModelError, match=extra):
            planned(folder)
    write_safetensors(folder / "model.safetensors", weights | {"vision_tower.layers.0.w": np.ones(8, np.float32)})
    planned(folder)
    folder = found.folder(folder.parent / "qwen")
    change(folder / "config.json", model_type="llama", architectures=["LlamaForCausalLM"])
    with pytest.raises(UnsupportedModelError, match=r"'blk\.0\.attn_(q|k)_norm\.weight' is not supported"):
        planned(folder)


def test_shards_that_are_cut_lost_or_elsewhere(folder: Path) -> None:
    write_shards(case(PLAIN), folder)
    shard = folder / "model-00002-of-00003.safetensors"
    whole = shard.read_bytes()
    for cut in (0, 5, 100, len(whole) // 2, len(whole) - 1):
        shard.write_bytes(whole[:cut])
        with pytest.raises(ModelFileError, match=r"ends early|cut short|is empty") as caught:
            planned(folder)
        assert caught.value.path == shard
    shard.unlink()
    with pytest.raises(ModelFileError, match="no such model file"):
        planned(folder)
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "../other.safetensors"}}))
    with pytest.raises(ModelFileError, match="a file elsewhere"):
        planned(folder)
    for text in ("", "[]", '{"weight_map": 3}', "\x00", "{" * 100_000):
        index.write_text(text)
        with pytest.raises(ModelFileError):
            planned(folder)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "name", ["model.layers.0.mlp.up_proj.weight", "model.norm.weight", "model.embed_tokens.weight"]
)
def test_weights_that_are_no_numbers(name: str, value: float, folder: Path) -> None:
    weights = case(PLAIN).weights()
    weights[name].reshape(-1)[7] = value
    write_safetensors(folder / "model.safetensors", weights)
    checkpoint, family = open_checkpoint(folder)
    plan = family.plan(checkpoint)
    with pytest.raises(ModelFileError, match="values that are no numbers"):
        load_weights(checkpoint, plan, list(plan.parameters()), quiet)


@pytest.mark.parametrize("vocabulary", [{}, [], None, {"a": -5}, {"a": 1 << 40}, {"a": "b"}, {"a": 200}])
def test_vocabularies_that_do_not_fit(vocabulary: Any, folder: Path) -> None:
    change(folder / "tokenizer.json", model={"type": "BPE", "vocab": vocabulary}, added_tokens=[])
    with pytest.raises(ModelFileError, match=r"no usable vocabulary|tokens, the model 96"):
        checkpoint, family = open_checkpoint(folder)
        read_tokenizer(checkpoint, family.plan(checkpoint).config)


def test_more_memory_than_there_is() -> None:
    """Asked of the system itself."""
    with pytest.raises(ModelError, match=r"gives no \d+ MB of memory for the weights") as caught:
        Arena([1 << 55], "the weights", huge=True)
    assert "smaller model" in str(caught.value)


def test_no_memory_is_left_for_pages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipcast.engine.runtime.load.available_memory", lambda: 1000)
    with pytest.raises(ModelError, match="no memory is left for the KV cache"):
        load_model(folder, max_batch=1, prefill_chunk=16, threads=1)
