"""The KV cache's sequences: adding, forking, cutting and removing, with page accounting.

The pages and their tables are the C++ cache's. This class keeps what Python must know before it calls: which sequences
exist, how long they are, how many pages a step will take. So a wrong call is an error here, never a crash there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm_ffi import Shape

from ..errors import PagesExhaustedError, StepError
from .kernels.attention import PAGE

_PREFIX = "vm.builtin."


class KVCache:
    """Sequences by id (a non-negative int below 2**31). Not thread-safe: one thread steps the model and calls this."""

    def __init__(self, handle: Any, *, context_length: int) -> None:
        function = tvm.get_global_func
        self._handle = handle
        self._add = function(_PREFIX + "kv_state_add_sequence")
        self._remove = function(_PREFIX + "kv_state_remove_sequence")
        self._fork = function(_PREFIX + "kv_state_fork_sequence")
        self._pop = function(_PREFIX + "kv_state_popn")
        self._begin = function(_PREFIX + "kv_state_begin_forward")
        self._end = function(_PREFIX + "kv_state_end_forward")
        self._available = function(_PREFIX + "attention_kv_cache_get_num_available_pages")
        self._lengths: dict[int, int] = {}
        self.page_size = PAGE
        self.context_length = context_length
        self.total_pages = self.free_pages

    @property
    def free_pages(self) -> int:
        return int(self._available(self._handle))

    @property
    def sequences(self) -> tuple[int, ...]:
        return tuple(self._lengths)

    def length(self, sequence: int) -> int:
        """Tokens held for the sequence. Raises StepError if there is no such sequence."""
        try:
            return self._lengths[sequence]
        except KeyError:
            raise StepError(f"there is no sequence {sequence} in the KV cache") from None

    def add(self, sequence: int) -> None:
        """A new, empty sequence. Raises StepError if the id is taken or no id at all."""
        self._check_new(sequence)
        self._add(self._handle, sequence)
        self._lengths[sequence] = 0

    def remove(self, sequence: int) -> None:
        """Forget the sequence; pages that no fork shares are free again."""
        self.length(sequence)
        self._remove(self._handle, sequence)
        del self._lengths[sequence]

    def fork(self, parent: int, child: int, position: int = -1) -> None:
        """`child` starts as the first `position` tokens of `parent` (-1: all); a page is copied if that ends inside it.

        Raises StepError for wrong ids or positions, PagesExhaustedError if the copy has no page.
        """
        held = self.length(parent)
        if position == -1:
            position = held
        if not 0 <= position <= held:
            raise StepError(f"cannot fork sequence {parent} at {position}: it holds {held} tokens")
        self._check_new(child)
        if position == 0:
            self._add(self._handle, child)
        else:
            self._check_pages(1 if position % PAGE else 0)
            self._fork(self._handle, parent, child, position)
        self._lengths[child] = position

    def truncate(self, sequence: int, count: int) -> None:
        """Drop the last `count` tokens. Raises StepError if the sequence holds fewer."""
        held = self.length(sequence)
        if not 0 <= count <= held:
            raise StepError(f"cannot drop {count} tokens of sequence {sequence}: it holds {held}")
        if count:
            self._pop(self._handle, sequence, count)
            self._lengths[sequence] = held - count

    def pages_for(self, sequence: int, count: int) -> int:
        """New pages that `count` more tokens of the sequence take."""
        held = self.length(sequence)
        return -(-(held + count) // PAGE) + -held // PAGE

    def begin(self, sequences: Sequence[int], lengths: Sequence[int]) -> None:
        """Reserve room for a step. Raises StepError or PagesExhaustedError before anything is changed."""
        needed = 0
        for sequence, length in zip(sequences, lengths, strict=True):
            held = self.length(sequence)
            if held + length > self.context_length:
                raise StepError(
                    f"sequence {sequence} has {held} tokens; {length} more exceed the context of {self.context_length}",
                    remedy="end the sequence, or load the model with a larger context",
                )
            needed += self.pages_for(sequence, length)
        self._check_pages(needed)
        self._begin(self._handle, Shape(list(sequences)), Shape(list(lengths)))
        for sequence, length in zip(sequences, lengths, strict=True):
            self._lengths[sequence] += length

    def end(self) -> None:
        """Close the step that `begin` opened."""
        self._end(self._handle)

    def _check_new(self, sequence: int) -> None:
        if isinstance(sequence, bool) or not isinstance(sequence, int) or not 0 <= sequence < 1 << 31:
            raise StepError(f"{sequence!r} is no sequence id: ids are integers from 0 to 2**31 - 1")
        if sequence in self._lengths:
            raise StepError(f"there is a sequence {sequence} in the KV cache already")

    def _check_pages(self, needed: int) -> None:
        free = self.free_pages
        if needed > free:
            raise PagesExhaustedError(
                f"the KV cache has {free} free pages of {PAGE} tokens and {needed} are needed",
                needed=needed,
                free=free,
                remedy="remove a sequence, or load the model with a larger cache",
            )
