"""A model ready to run: its weights in memory, its compiled library, its KV cache."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import StepError
from .config import ModelConfig, TokenizerSpec, read_tokenizer
from .cpu import LoadSample, free_threads, instruction_set, usable_cores
from .gguf import GgufFile
from .packing import BLOCK, GROUP
from .plan import Matrix, ModelPlan, gate_up_tensors, pack_gate_up, pack_qkv, pack_rows, plan_model, vector

Progress = Callable[[str, float], None]

_THREADS = "TVM_NUM_THREADS"


class LoadedModel:
    """A model that steps. Not thread-safe: one thread at a time may step it or change its cache."""

    def __init__(self, file: GgufFile, plan: ModelPlan, machine: Any, weights: Sequence[Any], *, max_batch: int,
                 max_context: int, prefill_chunk: int, pages: int) -> None:  # fmt: skip
        from tvm_ffi import Shape

        from .arena import aligned_copy, as_tensor
        from .kernels.attention import PAGE
        from .kv import KVCache

        self.config: ModelConfig = plan.config
        self.metadata: Mapping[str, Any] = file.metadata
        self.tokenizer_spec: TokenizerSpec = read_tokenizer(file)
        self.max_batch, self.max_context, self.prefill_chunk = max_batch, max_context, prefill_chunk
        self._copy, self._tensor = aligned_copy, as_tensor
        self._weights = weights
        self._step = machine["step"]
        table = as_tensor(aligned_copy(rotary_table(plan.config, max_context)))
        sizes = [Shape([size]) for size in (max_batch, pages * PAGE, prefill_chunk, PAGE, 0)]
        handle = machine["create_cache"](*sizes, table)
        self.kv = KVCache(handle, total_pages=pages, context_length=max_context)

    def step(self, sequence_ids: Sequence[int], tokens: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        """Run chunks of tokens, one for each sequence, and return float32 logits [sequences, vocab_size] after each chunk.

        Chunks of any lengths mix; together they are at most `prefill_chunk` tokens. The array is the caller's.
        Raises StepError for ids, tokens or lengths that do not fit and PagesExhaustedError if pages run out; the cache
        is then unchanged.
        """
        ids, ends = self._check(sequence_ids, tokens)
        self.kv.begin(sequence_ids, [len(chunk) for chunk in tokens])
        logits = self._step(self._tensor(self._copy(ids)), self._tensor(self._copy(ends)), self.kv._handle, self._weights)[0]
        self.kv.end()
        return np.from_dlpack(logits)[:, : self.config.vocab_size]

    def _check(
        self, sequence_ids: Sequence[int], tokens: Sequence[Sequence[int]]
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        count = len(sequence_ids)
        if count != len(tokens):
            raise StepError(f"{count} sequences and {len(tokens)} chunks of tokens")
        if not 0 < count <= self.max_batch:
            raise StepError(f"a step takes 1 to {self.max_batch} sequences, not {count}")
        if len(set(sequence_ids)) != count:
            raise StepError("a sequence appears twice in one step")
        lengths = np.fromiter(map(len, tokens), np.int32, count)
        total = int(lengths.sum())
        if lengths.min() < 1:
            raise StepError(f"sequence {sequence_ids[int(lengths.argmin())]} has no tokens in this step")
        if total > self.prefill_chunk:
            raise StepError(f"a step takes at most {self.prefill_chunk} tokens, not {total}")
        ids = np.fromiter((token for chunk in tokens for token in chunk), np.int64, total)
        if ids.min() < 0 or ids.max() >= self.config.vocab_size:
            wrong = int(ids.min() if ids.min() < 0 else ids.max())
            raise StepError(f"the token {wrong} is outside the vocabulary of {self.config.vocab_size}")
        return ids.astype(np.int32), np.cumsum(lengths, dtype=np.int32) - 1


def rotary_table(config: ModelConfig, positions: int) -> npt.NDArray[np.float32]:
    """float32 [positions, head_dim]: cosines, then sines, of each position's angles."""
    frequencies = config.rope_theta ** (-np.arange(0, config.head_dim, 2) / config.head_dim)
    angles = np.arange(positions)[:, None] / config.rope_scale * frequencies
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)


def load_model(path: Path, *, max_batch: int = 8, max_context: int | None = None, prefill_chunk: int = 512,
               threads: int | None = None, progress: Progress | None = None) -> LoadedModel:  # fmt: skip
    since = LoadSample.take()
    report = progress or (lambda stage, share: None)
    file = GgufFile(Path(path))
    plan = plan_model(file)
    context = min(max_context or plan.config.context_length, plan.config.context_length)
    os.environ.setdefault(_THREADS, str(threads or usable_cores()))
    # TVM reads the number of threads when it is first used, so it is imported only now.
    from .kernels.attention import PAGE
    from .library import host_target, open_library
    from .paths import cache_folder

    library = open_library(plan, host_target(instruction_set()), max_rows=max(2048, prefill_chunk), max_batch=max(256, max_batch),
                           cache=cache_folder() / "libraries", progress=report)
    weights = load_weights(file, plan, library.parameters, report)
    if threads is None:
        threads = free_threads(since)
    pages = -(-context // PAGE) * max_batch
    return LoadedModel(file, plan, library.machine, weights, max_batch=max_batch, max_context=context,
                       prefill_chunk=prefill_chunk, pages=pages)


def load_weights(file: GgufFile, plan: ModelPlan, names: Sequence[str], progress: Progress) -> list[Any]:
    """The parameters in the order of `names`, as TVM tensors over one arena."""
    from .arena import Arena, as_tensor
    from .kernels.formats import FORMATS

    matrices, packers = {}, {}
    vectors = {"norm": "output_norm.weight"}
    c = plan.config

    def matrix(name: str, m: Matrix, packer: Callable[[npt.NDArray[np.uint8]], None]) -> None:
        matrices[name], packers[name] = m, packer

    matrix("embedding", plan.embedding, lambda out: pack_rows([file.tensors["token_embd.weight"]], plan.embedding.format, out))
    if plan.head is not None:
        head = plan.head
        matrix("head", head, lambda out: pack_rows([file.tensors["output.weight"]], head.format, out))
    for i, layer in enumerate(plan.layers):
        at = f"layers.{i}"
        matrix(f"{at}.qkv", layer.qkv, lambda out, i=i, m=layer.qkv: pack_qkv(file, c, i, m.format, out))
        matrix(f"{at}.output", layer.output, lambda out, i=i, m=layer.output: pack_rows([file.tensors[f"blk.{i}.attn_output.weight"]], m.format, out))
        matrix(f"{at}.gate_up", layer.gate_up, lambda out, i=i, m=layer.gate_up: pack_gate_up(gate_up_tensors(file, c, i), m.format, out))
        matrix(f"{at}.down", layer.down, lambda out, i=i, m=layer.down: pack_rows([file.tensors[f"blk.{i}.ffn_down.weight"]], m.format, out))
        vectors[f"{at}.attention_norm"] = f"blk.{i}.attn_norm.weight"
        vectors[f"{at}.feed_forward_norm"] = f"blk.{i}.ffn_norm.weight"
    def size(name):
        if name in matrices:
            m = matrices[name]
            return FORMATS[m.format].packed_bytes(m.rows, m.columns)
        return 4 * c.hidden
    arena = Arena([size(n) for n in names])
    tensors = []
    for done, name in enumerate(names):
        memory = arena.take(size(name))
        if name in matrices:
            m = matrices[name]
            packers[name](memory.reshape(m.rows // GROUP, m.columns // BLOCK, -1))
            tensors.append(as_tensor(memory))
        else:
            v = memory.view(np.float32)
            v[...] = vector(file, vectors[name])
            tensors.append(as_tensor(v))
        progress("load weights", (done + 1) / len(names))
    return tensors
