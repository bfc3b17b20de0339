"""A model ready to run: its compiled step, its weights in memory, its KV cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import tvm_ffi
from tvm_ffi import Array

from ..errors import ModelFault, StepError
from .arena import Arena, aligned_copies, aligned_copy, as_tensor
from .config import ModelConfig, TokenizerSpec
from .kernels.attention import page_shape
from .kv import KVCache
from .library import last_line
from .rotary import rotary_table

Int32s = npt.NDArray[np.int32]
_BIG_CORES = 1  # TVM's name for where threads are bound: its default


class LoadedModel:
    """Steps a model. Not thread-safe: one thread at a time may step it or change its cache. Made by `load_model`.

    `config` has the dimensions, `metadata` all keys of the file, `tokenizer_spec` its tokenizer; `kv` holds the
    sequences. `norm` is the gain of the last norm. A step runs on `threads` threads and takes at most `max_batch`
    sequences and `prefill_chunk` tokens, a sequence at most `max_context`.
    """

    def __init__(
        self, config: ModelConfig, metadata: Mapping[str, Any], tokenizer_spec: TokenizerSpec, machine: Any,
        weights: Sequence[Any], norm: Any,
        *, max_batch: int, max_context: int, prefill_chunk: int, pages: int, page_dtype: str,
        threads: int,
    ) -> None:  # fmt: skip
        self.config = config
        self.metadata = metadata
        self.tokenizer_spec = tokenizer_spec
        self.max_batch = max_batch
        self.max_context = max_context
        self.prefill_chunk = prefill_chunk
        # As the library's arrays: a list would be made into one at every step.
        self._weights = Array(list(weights))
        self._gain = np.from_dlpack(norm)
        self._run = machine["step"]
        self._tables = Array([as_tensor(aligned_copy(rotary_table(each, max_context))) for each in config.rotary])
        layers = _pages(config, pages, np.dtype(page_dtype))
        self._pages = Array([as_tensor(layer) for layer in layers])
        self.kv = KVCache(layers, context_length=max_context)
        self.threads = threads
        self._configure = tvm_ffi.get_global_func("runtime.config_threadpool")

    def step(
        self, sequence_ids: Sequence[int], tokens: Sequence[Sequence[int]], counts: Sequence[int] | None = None
    ) -> npt.NDArray[np.float32]:
        """Run one chunk of tokens for each sequence: any mix of prefill chunks and single tokens.

        Returns float32 logits [sum(counts), vocab_size] after the last `counts[i]` tokens of chunk i, in order; None:
        after the last one of each. The array is the caller's to keep. Other Python threads run meanwhile. Raises
        StepError for ids, tokens, lengths or counts that do not fit, PagesExhaustedError if pages run out, ModelFault
        if the library fails: in every case the cache is as before.
        """
        ids, last = self._check(sequence_ids, tokens)
        if counts is not None:
            last = self._asked(last, counts, tokens)
        logits, _ = self._compute(sequence_ids, tokens, ids, last)
        # The width is padded to eight; the copy is made only for vocabularies that are no multiple of it.
        return np.ascontiguousarray(np.from_dlpack(logits)[:, : self.config.vocab_size])

    def use_threads(self, count: int) -> None:
        """Run the calling thread's steps on so many threads from now on: 1 to `threads`, which it is otherwise. What
        they compute is the same to the last bit. Takes microseconds.
        """
        self._configure(_BIG_CORES, min(max(count, 1), self.threads))

    def hidden(self, sequence_ids: Sequence[int], tokens: Sequence[Sequence[int]]) -> npt.NDArray[np.float32]:
        """Run a step for the hidden states: float32 [tokens, hidden], of every token in order, behind the last layer
        and its norm. Otherwise as `step`.
        """
        _, states = self._compute(sequence_ids, tokens, *self._check(sequence_ids, tokens))
        rows = np.from_dlpack(states)
        scale = np.sqrt(np.mean(np.square(rows, dtype=np.float32), axis=1, keepdims=True) + self.config.norm_epsilon)
        normed: npt.NDArray[np.float32] = (rows / scale * self._gain).astype(np.float32)
        return normed

    def _compute(
        self, sequence_ids: Sequence[int], tokens: Sequence[Sequence[int]], ids: Int32s, last: Int32s
    ) -> tuple[Any, Any]:
        """The logits of the rows `last`, and the last layer's output of all rows."""
        lengths = [len(chunk) for chunk in tokens]
        place = self.kv.begin(sequence_ids, lengths)
        try:
            tensors = [as_tensor(array) for array in aligned_copies((ids, last, *place.arrays))]
            logits, states = self._run(*tensors, self._tables, self._pages, self._weights)
        except BaseException as error:
            for sequence, length in zip(sequence_ids, lengths, strict=True):
                self.kv.truncate(sequence, length)
            if isinstance(error, Exception):
                raise ModelFault(f"the model's step failed: {last_line(error)}") from error
            raise
        return logits, states

    def _check(self, sequence_ids: Sequence[int], tokens: Sequence[Sequence[int]]) -> tuple[Int32s, Int32s]:
        """The tokens of all chunks, and the place of each chunk's last: kernels check nothing."""
        count = len(sequence_ids)
        if count != len(tokens):
            raise StepError(f"a step has {count} sequences and {len(tokens)} chunks of tokens")
        if not 0 < count <= self.max_batch:
            raise StepError(f"a step takes 1 to {self.max_batch} sequences, not {count}")
        if len(set(sequence_ids)) != count:
            raise StepError("a sequence is named twice in one step")
        lengths = np.fromiter(map(len, tokens), np.int32, count)
        total = int(lengths.sum())
        if lengths.min() < 1:
            raise StepError(f"sequence {sequence_ids[int(lengths.argmin())]} has no tokens in this step")
        if total > self.prefill_chunk:
            raise StepError(f"a step takes at most {self.prefill_chunk} tokens, not {total}")
        try:
            ids = np.fromiter((token for chunk in tokens for token in chunk), np.int64, total)
        except (TypeError, ValueError, OverflowError) as error:
            raise StepError(f"tokens must be integers: {error}") from error
        if ids.min() < 0 or ids.max() >= self.config.vocab_size:
            wrong = int(ids.min() if ids.min() < 0 else ids.max())
            raise StepError(f"the token {wrong} is outside the vocabulary of {self.config.vocab_size}")
        return ids.astype(np.int32), np.cumsum(lengths, dtype=np.int32) - np.int32(1)

    @staticmethod
    def _asked(last: Int32s, counts: Sequence[int], tokens: Sequence[Sequence[int]]) -> Int32s:
        """The rows whose logits are asked for: `counts[i]` of them up to `last[i]`, the end of chunk i."""
        if len(counts) != len(tokens):
            raise StepError(f"a step has {len(tokens)} chunks of tokens and {len(counts)} counts of logits")
        for count, chunk in zip(counts, tokens, strict=True):
            if not 1 <= count <= len(chunk):
                raise StepError(f"{count} rows of logits are asked of a chunk of {len(chunk)} tokens")
        ends = zip(last.tolist(), counts, strict=True)
        return np.array([row for end, count in ends for row in range(end - count + 1, end + 1)], np.int32)


def _pages(config: ModelConfig, count: int, dtype: np.dtype[Any]) -> list[npt.NDArray[Any]]:
    """The pages of each layer. The system gives the memory as pages are first written."""
    shape = page_shape(count, config.kv_heads, config.head_dim)
    size = int(np.prod(shape)) * dtype.itemsize
    # A new huge page in every layer at once would hold the step up that first writes there: 0.15 s for 30 layers.
    arena = Arena([size] * config.layers, "the KV cache", huge=False)
    return [arena.take(size).view(dtype).reshape(shape) for _ in range(config.layers)]
