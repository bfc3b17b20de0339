"""GGUF files for benchmarks/engine.py, made from the default model: its weights in other formats.

Q4_0 and Q8_0 are the default model's weights, dequantised and quantised again. Its rows of 576 do not divide into the
256-blocks of Q4_K, so that file has a shape of its own and random weights, which take the same time as good ones.
The embedding table stays as it is, Q8_0. `large` has random weights too: 0.8 billion of them, in Q4_1.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType as Kind

Bytes = npt.NDArray[np.uint8]
Tensor = tuple[str, npt.NDArray[Any], Kind | None]

REQUANTISED: Mapping[str, Kind] = {"q4_0": Kind.Q4_0, "q8_0": Kind.Q8_0}


@dataclass(frozen=True)
class Shape:
    """Of a model of random weights, in format `kind`."""

    kind: Kind
    layers: int
    hidden: int
    feed_forward: int
    heads: int
    kv_heads: int
    head_dim: int = 64

    @property
    def metadata(self) -> Mapping[str, int]:
        return {
            "llama.block_count": self.layers,
            "llama.embedding_length": self.hidden,
            "llama.feed_forward_length": self.feed_forward,
            "llama.attention.head_count": self.heads,
            "llama.attention.head_count_kv": self.kv_heads,
            "llama.rope.dimension_count": self.head_dim,
        }


RANDOM: Mapping[str, Shape] = {
    # 100 million weights in layers, as many as the default model has
    "q4_k": Shape(Kind.Q4_K, layers=16, hidden=768, feed_forward=2048, heads=12, kv_heads=4),
    # layers as in models of a billion, 16 of them, and 100 million weights in the table
    "large": Shape(Kind.Q4_1, layers=16, hidden=2048, feed_forward=5632, heads=32, kv_heads=4),
}


def model_file(name: str, source: Path, folder: Path) -> Path:
    """The file `name` ("q4_0", "q8_0", "q4_k" or "large"), made from `source` if `folder` does not have it."""
    path = folder / f"{source.stem}.{name}.gguf"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        reader = gguf.GGUFReader(source)
        unfinished = path.with_suffix(".part")
        if name in RANDOM:
            shape = RANDOM[name]
            vocab = int(next(t for t in reader.tensors if t.name == "token_embd.weight").shape[1])
            _write(reader, unfinished, _random_tensors(vocab, shape), shape.metadata)
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


def _random_tensors(vocab: int, shape: Shape) -> Iterator[Tensor]:
    random = np.random.default_rng(0)
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    hidden, feed_forward = shape.hidden, shape.feed_forward
    matrices = {
        "attn_q": (queries, hidden), "attn_k": (keys, hidden), "attn_v": (keys, hidden),
        "attn_output": (hidden, queries),
        "ffn_gate": (feed_forward, hidden), "ffn_up": (feed_forward, hidden), "ffn_down": (hidden, feed_forward),
    }  # fmt: skip
    fill = _random_q4_k if shape.kind == Kind.Q4_K else _random_q4_1
    yield "token_embd.weight", _random_q8_0(random, vocab, hidden), Kind.Q8_0
    yield "output_norm.weight", np.ones(hidden, np.float32), None
    for layer in range(shape.layers):
        for name, (rows, columns) in matrices.items():
            yield f"blk.{layer}.{name}.weight", fill(random, rows, columns), shape.kind
        for name in ("attn_norm", "ffn_norm"):
            yield f"blk.{layer}.{name}.weight", np.ones(hidden, np.float32), None


def _half(value: float) -> Bytes:
    return np.array([value], np.float16).view(np.uint8)


def _random_q8_0(random: np.random.Generator, rows: int, columns: int) -> Bytes:
    """Weights of mean 0 and deviation 0.02: blocks of a float16 scale and 32 signed bytes."""
    blocks = random.integers(0, 256, (rows, columns // 32, 34), dtype=np.uint8)
    blocks[..., :2] = _half(0.02 / 74)
    return blocks.reshape(rows, -1)


def _random_q4_1(random: np.random.Generator, rows: int, columns: int) -> Bytes:
    """Weights of mean 0 and deviation 0.02: blocks of a float16 scale and minimum, and 16 bytes of nibbles."""
    blocks = random.integers(0, 256, (rows, columns // 32, 20), dtype=np.uint8)
    blocks[..., 0:2], blocks[..., 2:4] = _half(0.02 / 4.6), _half(-7.5 * 0.02 / 4.6)
    return blocks.reshape(rows, -1)


def _random_q4_k(random: np.random.Generator, rows: int, columns: int) -> Bytes:
    """Weights of mean 0 and deviation 0.02 or so: blocks of two scales, 12 bytes of sub-scales, 128 of nibbles."""
    blocks = random.integers(0, 256, (rows, columns // 256, 144), dtype=np.uint8)
    blocks[..., 0:2], blocks[..., 2:4] = _half(1e-4), _half(7.5e-4)
    return blocks.reshape(rows, -1)
