"""GGUF files for benchmarks/engine.py, made from the default model: its weights in other formats.

Q4_0 and Q8_0 are the default model's weights, dequantised and quantised again. Its rows of 576 do not divide into the
256-blocks of Q4_K, so that file has a shape of its own and random weights, which take the same time as good ones.
The embedding table stays as it is, Q8_0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType as Kind

Bytes = npt.NDArray[np.uint8]
Tensor = tuple[str, npt.NDArray[Any], Kind | None]

REQUANTISED: Mapping[str, Kind] = {"q4_0": Kind.Q4_0, "q8_0": Kind.Q8_0}
# The random model: 100 million weights in layers, as many as the default model has.
LAYERS, HIDDEN, FEED_FORWARD, HEADS, KV_HEADS, HEAD_DIM = 16, 768, 2048, 12, 4, 64
RANDOM_SHAPE: Mapping[str, int] = {
    "llama.block_count": LAYERS,
    "llama.embedding_length": HIDDEN,
    "llama.feed_forward_length": FEED_FORWARD,
    "llama.attention.head_count": HEADS,
    "llama.attention.head_count_kv": KV_HEADS,
    "llama.rope.dimension_count": HEAD_DIM,
}


def model_file(name: str, source: Path, folder: Path) -> Path:
    """The file for the format `name` ("q4_0", "q8_0" or "q4_k"), made from `source` if `folder` does not have it."""
    path = folder / f"{source.stem}.{name}.gguf"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        reader = gguf.GGUFReader(source)
        unfinished = path.with_suffix(".part")
        if name == "q4_k":
            vocab = int(next(t for t in reader.tensors if t.name == "token_embd.weight").shape[1])
            _write(reader, unfinished, _random_tensors(vocab), RANDOM_SHAPE)
        else:
            _write(reader, unfinished, _requantised(reader, REQUANTISED[name]), {})
        unfinished.replace(path)
    return path


def _write(reader: gguf.GGUFReader, path: Path, tensors: Iterator[Tensor], changes: Mapping[str, int]) -> None:
    """The reader's metadata with changes, and the tensors."""
    writer = gguf.GGUFWriter(path, "llama")
    for key, field in reader.fields.items():
        if key.startswith("GGUF.") or key in ("general.architecture", "general.file_type"):
            continue  # the writer's own, or no longer true
        value = changes.get(key, field.contents())
        array = field.types[0] == gguf.GGUFValueType.ARRAY
        writer.add_key_value(key, value, field.types[0], sub_type=field.types[-1] if array else None)
    for name, data, kind in tensors:
        writer.add_tensor(name, data, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def _requantised(reader: gguf.GGUFReader, kind: Kind) -> Iterator[Tensor]:
    for tensor in reader.tensors:
        if tensor.tensor_type == Kind.F32:
            yield tensor.name, np.array(tensor.data), None
        elif tensor.name == "token_embd.weight":
            yield tensor.name, np.array(tensor.data), tensor.tensor_type
        else:
            values = gguf.dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
            yield tensor.name, gguf.quantize(values, kind), kind


def _random_tensors(vocab: int) -> Iterator[Tensor]:
    random = np.random.default_rng(0)
    queries, keys = HEADS * HEAD_DIM, KV_HEADS * HEAD_DIM
    matrices = {
        "attn_q": (queries, HIDDEN), "attn_k": (keys, HIDDEN), "attn_v": (keys, HIDDEN),
        "attn_output": (HIDDEN, queries),
        "ffn_gate": (FEED_FORWARD, HIDDEN), "ffn_up": (FEED_FORWARD, HIDDEN), "ffn_down": (HIDDEN, FEED_FORWARD),
    }  # fmt: skip
    yield "token_embd.weight", _random_q8_0(random, vocab, HIDDEN), Kind.Q8_0
    yield "output_norm.weight", np.ones(HIDDEN, np.float32), None
    for layer in range(LAYERS):
        for name, (rows, columns) in matrices.items():
            yield f"blk.{layer}.{name}.weight", _random_q4_k(random, rows, columns), Kind.Q4_K
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{name}.weight", np.ones(HIDDEN, np.float32), None


def _half(value: float) -> Bytes:
    return np.array([value], np.float16).view(np.uint8)


def _random_q8_0(random: np.random.Generator, rows: int, columns: int) -> Bytes:
    """Weights of mean 0 and deviation 0.02: blocks of a float16 scale and 32 signed bytes."""
    blocks = random.integers(0, 256, (rows, columns // 32, 34), dtype=np.uint8)
    blocks[..., :2] = _half(0.02 / 74)
    return blocks.reshape(rows, -1)


def _random_q4_k(random: np.random.Generator, rows: int, columns: int) -> Bytes:
    """Weights of mean 0 and deviation 0.02 or so: blocks of two scales, 12 bytes of sub-scales, 128 of nibbles."""
    blocks = random.integers(0, 256, (rows, columns // 256, 144), dtype=np.uint8)
    blocks[..., 0:2], blocks[..., 2:4] = _half(1e-4), _half(7.5e-4)
    return blocks.reshape(rows, -1)
