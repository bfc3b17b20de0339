"""Tiny llama models for the runtime's tests: a GGUF writer, quantisers, and a plain reference in float64.

The reference shares no code with the runtime: it decodes what it encoded itself, keeps llama.cpp's order of query and
key rows (neighbouring columns rotate together), and looks at a whole sequence at once.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
TYPE_NUMBERS = {"F32": 0, "F16": 1, "BF16": 30, "Q4_0": 2, "Q4_1": 3, "Q8_0": 8}


@dataclass(frozen=True)
class Shape:
    layers: int = 2
    hidden: int = 64
    feed_forward: int = 96
    heads: int = 4
    kv_heads: int = 2
    head_dim: int = 16
    vocab: int = 259  # no multiple of eight
    context: int = 160
    theta: float = 10000.0
    epsilon: float = 1e-5
    rope_scale: float = 1.0

    def metadata(self) -> dict[str, Any]:
        tokens = [f"t{i}" for i in range(self.vocab)]
        scaling = {"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": self.rope_scale}
        return (scaling if self.rope_scale != 1 else {}) | {
            "general.architecture": "llama",
            "llama.block_count": self.layers,
            "llama.embedding_length": self.hidden,
            "llama.feed_forward_length": self.feed_forward,
            "llama.attention.head_count": self.heads,
            "llama.attention.head_count_kv": self.kv_heads,
            "llama.attention.key_length": self.head_dim,
            "llama.attention.layer_norm_rms_epsilon": self.epsilon,
            "llama.context_length": self.context,
            "llama.rope.freq_base": self.theta,
            "llama.rope.dimension_count": self.head_dim,
            "tokenizer.ggml.model": "gpt2",
            "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.eos_token_id": 2,
            "tokenizer.ggml.add_bos_token": True,
        }

    def shapes(self) -> dict[str, tuple[int, ...]]:
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        shapes: dict[str, tuple[int, ...]] = {
            "token_embd.weight": (self.vocab, self.hidden),
            "output_norm.weight": (self.hidden,),
            "output.weight": (self.vocab, self.hidden),
        }
        for i in range(self.layers):
            shapes |= {
                f"blk.{i}.attn_norm.weight": (self.hidden,),
                f"blk.{i}.attn_q.weight": (queries, self.hidden),
                f"blk.{i}.attn_k.weight": (keys, self.hidden),
                f"blk.{i}.attn_v.weight": (keys, self.hidden),
                f"blk.{i}.attn_output.weight": (self.hidden, queries),
                f"blk.{i}.ffn_norm.weight": (self.hidden,),
                f"blk.{i}.ffn_gate.weight": (self.feed_forward, self.hidden),
                f"blk.{i}.ffn_up.weight": (self.feed_forward, self.hidden),
                f"blk.{i}.ffn_down.weight": (self.hidden, self.feed_forward),
            }
        return shapes


@dataclass(frozen=True)
class Tiny:
    """A model file, and the weights that it holds after rounding to its format."""

    path: Path
    shape: Shape
    weights: dict[str, Floats]


def make(
    path: Path, shape: Shape, kind: str, *, tied: bool = False, seed: int = 0, kinds: dict[str, str] | None = None
) -> Tiny:
    """Write a model with random weights in GGUF type `kind`; `kinds` chooses others by a part of the tensor's name."""
    rng = np.random.default_rng(seed)
    tensors: dict[str, tuple[str, tuple[int, ...], bytes]] = {}
    weights: dict[str, Floats] = {}
    for name, size in shape.shapes().items():
        if tied and name == "output.weight":
            continue
        if len(size) == 1:
            values, own = 1 + 0.1 * rng.standard_normal(size), "F32"
        else:
            values = rng.standard_normal(size) * (1.0 if name == "token_embd.weight" else 1.7 / np.sqrt(size[-1]))
            own = next((k for part, k in (kinds or {}).items() if part in name), kind)
        raw, weights[name] = encode(values.astype(np.float32), own)
        tensors[name] = (own, size, raw)
    write_gguf(path, shape.metadata(), tensors)
    return Tiny(path, shape, weights)


def encode(values: npt.NDArray[np.float32], kind: str) -> tuple[bytes, Floats]:
    """The bytes in GGUF type `kind`, and what they mean."""
    if kind == "F32":
        return values.tobytes(), values.astype(np.float64)
    if kind == "F16":
        half = values.astype(np.float16)
        return half.tobytes(), half.astype(np.float64)
    if kind == "BF16":
        bits = (values.view(np.uint32) >> 16).astype(np.uint16)
        return bits.tobytes(), (bits.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    blocks = values.reshape(-1, 32).astype(np.float64)
    fields, q, decoded = _quantise(blocks, kind)
    if kind == "Q8_0":
        body = q.astype(np.int8).view(np.uint8)
    else:
        nibbles = q.astype(np.uint8)
        body = nibbles[:, :16] | nibbles[:, 16:] << 4
    return np.concatenate([fields.view(np.uint8), body], axis=1).tobytes(), decoded.reshape(values.shape)


def _quantise(blocks: Floats, kind: str) -> tuple[npt.NDArray[np.float16], Floats, Floats]:
    if kind == "Q8_0":
        scale = (np.abs(blocks).max(1, keepdims=True) / 127).astype(np.float16)
        q = np.clip(np.rint(blocks / scale), -127, 127)
        return scale, q, q * scale
    if kind == "Q4_0":
        extreme = np.take_along_axis(blocks, np.abs(blocks).argmax(1)[:, None], 1)
        scale = (extreme / -8).astype(np.float16)
        q = np.clip(np.rint(blocks / scale) + 8, 0, 15)
        return scale, q, (q - 8) * scale
    low = blocks.min(1, keepdims=True).astype(np.float16)
    scale = ((blocks.max(1, keepdims=True) - low) / 15).astype(np.float16)
    q = np.clip(np.rint((blocks - low) / scale), 0, 15)
    return np.concatenate([scale, low], axis=1), q, q * scale + low


def write_gguf(path: Path, metadata: dict[str, Any], tensors: dict[str, tuple[str, tuple[int, ...], bytes]]) -> None:
    """GGUF version 3; metadata of str, bool, int (uint32), float (float32) and lists of str."""
    out = bytearray(b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata)))
    for key, value in metadata.items():
        out += _text(key) + _value(value)
    offset, data = 0, bytearray()
    for name, (kind, size, raw) in tensors.items():
        out += _text(name) + struct.pack("<I", len(size)) + struct.pack(f"<{len(size)}Q", *reversed(size))
        out += struct.pack("<IQ", TYPE_NUMBERS.get(kind, 99), offset)
        data += raw + bytes(-len(raw) % 32)
        offset = len(data)
    out += bytes(-len(out) % 32)
    path.write_bytes(bytes(out) + bytes(data))


def _text(text: str) -> bytes:
    return struct.pack("<Q", len(text.encode())) + text.encode()


def _value(value: Any) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _text(value)
    return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(_text, value))


def reference(weights: dict[str, Floats], shape: Shape, tokens: list[int], *, int8_activations: bool = False) -> Floats:
    """Logits [len(tokens), vocab] of a whole sequence, in the weights' precision.

    With `int8_activations` the input of each product is rounded as the kernels for quantised weights round it.
    """

    def times(x: Floats, name: str) -> Floats:
        return (_round_activations(x) if int8_activations else x) @ weights[name].T

    n, d = len(tokens), shape.head_dim
    x = weights["token_embd.weight"][tokens]
    mask = np.where(np.tril(np.ones((n, n), bool)), 0.0, -np.inf).astype(x.dtype)
    for i in range(shape.layers):
        at = f"blk.{i}."
        h = _norm(x, weights[at + "attn_norm.weight"], shape.epsilon)
        q = _rotate(times(h, at + "attn_q.weight").reshape(n, shape.heads, d), shape)
        k = _rotate(times(h, at + "attn_k.weight").reshape(n, shape.kv_heads, d), shape)
        v = times(h, at + "attn_v.weight").reshape(n, shape.kv_heads, d)
        k, v = (np.repeat(each, shape.heads // shape.kv_heads, axis=1) for each in (k, v))
        p = _softmax(np.einsum("qhd,khd->hqk", q, k) / d**0.5 + mask)
        x = x + times(np.einsum("hqk,khd->qhd", p, v).reshape(n, -1), at + "attn_output.weight")
        h = _norm(x, weights[at + "ffn_norm.weight"], shape.epsilon)
        gate = times(h, at + "ffn_gate.weight")
        x = x + times(gate / (1 + np.exp(-gate)) * times(h, at + "ffn_up.weight"), at + "ffn_down.weight")
    head = "output.weight" if "output.weight" in weights else "token_embd.weight"
    return times(_norm(x, weights["output_norm.weight"], shape.epsilon), head)


def divergence(expected: npt.ArrayLike, found: npt.ArrayLike) -> Floats:
    """KL divergence in nats of each row's distribution, from logits."""
    p, q = (_log_softmax(np.asarray(each, np.float64)) for each in (expected, found))
    return (np.exp(p) * (p - q)).sum(-1)


def _norm(x: Floats, gain: Floats, epsilon: float) -> Floats:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon) * gain


def _rotate(x: Floats, shape: Shape) -> Floats:
    """Neighbouring columns 2i and 2i + 1 turn together, as llama.cpp stores them."""
    n, _, d = x.shape
    positions = np.arange(n)[:, None] / shape.rope_scale
    angles = (positions * shape.theta ** (-np.arange(0, d, 2) / d))[:, None, :]
    cosine, sine = np.cos(angles).astype(x.dtype), np.sin(angles).astype(x.dtype)
    even, odd = x[..., 0::2], x[..., 1::2]
    turned = [even * cosine - odd * sine, odd * cosine + even * sine]
    return np.stack(turned, axis=-1).reshape(x.shape)


def _softmax(x: Floats) -> Floats:
    return np.exp(_log_softmax(x))


def _log_softmax(x: Floats) -> Floats:
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def _round_activations(x: Floats) -> Floats:
    blocks = x.reshape(*x.shape[:-1], -1, 32)
    scale = np.maximum(np.abs(blocks).max(-1, keepdims=True) / 127, 1e-30)
    return (np.rint(blocks / scale) * scale).reshape(x.shape)
