"""The KV cache: pages of 16 tokens, handed out to sequences and shared between forks.

A sequence is a list of pages and a length. Forks share whole pages and copy the one that they end in. Before a step the
cache gives out the pages that it fills and says, as arrays, where every row belongs; the kernels do the rest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..errors import PagesExhaustedError, StepError
from .kernels.attention import PAGE
from .kv_blocks import Blocks, blocks_of

Int32s = npt.NDArray[np.int32]


@dataclass(frozen=True)
class StepPlace:
    """Where the rows of a step belong; N rows of B sequences, in their order. All int32.

    `positions` [N]: of each row in its sequence. `slots` [N]: page times 16 plus the place in it, where the row's key
    and value go. `sequences` [N]: which of the B each row belongs to. `blocks`: which rows attention takes together.
    `page_ids`, `page_bounds` [B + 1]: the sequences' pages.
    """

    positions: Int32s
    slots: Int32s
    sequences: Int32s
    blocks: Blocks
    page_bounds: Int32s
    page_ids: Int32s

    @property
    def arrays(self) -> tuple[Int32s, ...]:
        """All of it, in the order in which the compiled step takes it."""
        blocks = (self.blocks.bounds, self.blocks.rows, self.blocks.pages)
        return (self.positions, self.slots, self.sequences, *blocks, self.page_bounds, self.page_ids)


class KVCache:
    """Sequences by id (a non-negative int below 2**31). Not thread-safe: one thread steps the model and calls this.

    `layers`: the pages of each layer, [pages, 2, kv_heads, 16, head_dim], keys and values.
    """

    def __init__(self, layers: Sequence[npt.NDArray[Any]], *, context_length: int) -> None:
        self._layers = layers
        self.page_size = PAGE
        self.total_pages = len(layers[0])
        self.context_length = context_length
        self._pages: dict[int, list[int]] = {}
        self._lengths: dict[int, int] = {}
        self._users = [0] * self.total_pages
        self._free = list(range(self.total_pages - 1, -1, -1))

    @property
    def free_pages(self) -> int:
        return len(self._free)

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
        self._lengths[sequence], self._pages[sequence] = 0, []

    def remove(self, sequence: int) -> None:
        """Forget the sequence; pages that no fork shares are free again."""
        self.length(sequence)
        del self._lengths[sequence]
        self._leave(self._pages.pop(sequence))

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
        whole, rest = divmod(position, PAGE)
        self._check_pages(1 if rest else 0)
        pages = self._pages[parent][:whole]
        for page in pages:
            self._users[page] += 1
        if rest:
            pages.append(self._copy(self._pages[parent][whole]))
        self._lengths[child], self._pages[child] = position, pages

    def truncate(self, sequence: int, count: int) -> None:
        """Drop the last `count` tokens. Raises StepError if the sequence holds fewer."""
        held = self.length(sequence)
        if not 0 <= count <= held:
            raise StepError(f"cannot drop {count} tokens of sequence {sequence}: it holds {held}")
        kept = -(-(held - count) // PAGE)
        self._leave(self._pages[sequence][kept:])
        del self._pages[sequence][kept:]
        self._lengths[sequence] = held - count

    def read(self, sequence: int, start: int, stop: int) -> bytes:
        """Keys and values of the tokens `start` to `stop`, whole pages, for `write`. Raises StepError."""
        if start % PAGE or stop % PAGE or not 0 <= start <= stop <= self.length(sequence):
            raise StepError(f"tokens {start} to {stop} of sequence {sequence} are not whole pages that it holds")
        pages = self._pages[sequence][start // PAGE : stop // PAGE]
        return b"".join(layer[page].tobytes() for page in pages for layer in self._layers)

    def write(self, sequence: int, data: bytes) -> None:
        """Append pages that `read` gave. Raises StepError if they are not of this cache's shape, PagesExhaustedError
        before anything is changed.
        """
        sizes = [layer[0].nbytes for layer in self._layers]
        count, rest = divmod(len(data), sum(sizes))
        held = self.length(sequence)
        if rest or held % PAGE or held + count * PAGE > self.context_length:
            raise StepError(f"{len(data)} bytes are no pages that can be added to sequence {sequence}")
        self._check_pages(count)
        at = 0
        for _ in range(count):
            page = self._take()
            for layer, size in zip(self._layers, sizes, strict=True):
                layer[page] = np.frombuffer(data, layer.dtype, layer[page].size, at).reshape(layer[page].shape)
                at += size
            self._pages[sequence].append(page)
            self._lengths[sequence] += PAGE

    def pages_for(self, sequence: int, count: int) -> int:
        """Free pages that `count` more tokens of the sequence take, at most."""
        held = self.length(sequence)
        return -(-(held + count) // PAGE) + -held // PAGE + (1 if count and self._must_copy(sequence) else 0)

    def begin(self, sequences: Sequence[int], lengths: Sequence[int]) -> StepPlace:
        """Extend the sequences by so many tokens each, whose keys and values a step then writes.

        Raises StepError or PagesExhaustedError before anything is changed.
        """
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
        positions, slots = [], []
        for sequence, length in zip(sequences, lengths, strict=True):
            rows = np.arange(self._lengths[sequence], self._lengths[sequence] + length, dtype=np.int32)
            self._extend(sequence, length)
            positions.append(rows)
            slots.append(np.array(self._pages[sequence], np.int32)[rows // PAGE] * PAGE + rows % PAGE)
        tables = [self._pages[sequence] for sequence in sequences]
        return StepPlace(
            positions=np.concatenate(positions),
            slots=np.concatenate(slots),
            sequences=np.repeat(np.arange(len(sequences), dtype=np.int32), lengths),
            blocks=blocks_of(lengths, tables),
            page_bounds=_bounds([len(table) for table in tables]),
            page_ids=np.array([page for table in tables for page in table], np.int32),
        )

    def _extend(self, sequence: int, count: int) -> None:
        pages = self._pages[sequence]
        if self._must_copy(sequence):
            shared = pages[-1]
            pages[-1] = self._copy(shared)
            self._leave([shared])
        self._lengths[sequence] += count
        while len(pages) * PAGE < self._lengths[sequence]:
            pages.append(self._take())

    def _must_copy(self, sequence: int) -> bool:
        """True if the sequence was cut back into a page that others use: it must not write there."""
        return self._lengths[sequence] % PAGE > 0 and self._users[self._pages[sequence][-1]] > 1

    def _take(self) -> int:
        page = self._free.pop()
        self._users[page] = 1
        return page

    def _copy(self, source: int) -> int:
        page = self._take()
        for layer in self._layers:
            layer[page] = layer[source]
        return page

    def _leave(self, pages: Sequence[int]) -> None:
        for page in pages:
            self._users[page] -= 1
            if self._users[page] == 0:
                self._free.append(page)

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


def _bounds(counts: Sequence[int]) -> Int32s:
    """[0, c0, c0 + c1, ...]"""
    return np.concatenate([np.zeros(1, np.int32), np.cumsum(counts, dtype=np.int32)])
