"""All tries over one vocabulary in one set of arrays, so that one call of the kernel can walk in any of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..automaton.memory import reserve
from .trie import END_SHIFT, MAX_NODES, Int32s, Int64s, Trie, build_trie

MAX_ORDER: Final = 1 << 22
MAX_TRIES: Final = 1 << 14


class Tries:
    """Tries one after the other, append-only; the arrays are those of `Trie`, with nodes numbered through.

    A root's `characters` is its trie's number, and `roots[number]` are its children. Safe for threads: what is added
    is complete before its root is given out.
    """

    def __init__(self) -> None:
        self.nodes: Int64s = reserve(MAX_NODES, np.int64)
        self.roots: Int32s = reserve(MAX_TRIES * 256, np.int32).reshape(MAX_TRIES, 256)
        self.first: Int32s = reserve(MAX_NODES + 1, np.int32)
        self.order: Int32s = reserve(MAX_ORDER, np.int32)
        self.summary: Int64s = reserve(MAX_NODES * 2, np.int64).reshape(MAX_NODES, 2)
        self.characters: Int32s = reserve(MAX_NODES, np.int32)
        self.lengths: Int32s = reserve(MAX_ORDER, np.int32)
        self._nodes_used, self._order_used, self._tries_used = 0, 0, 0
        self._known: dict[Any, int | None] = {}
        self._lock = threading.Lock()

    @property
    def node_count(self) -> int:
        """Nodes in use."""
        return self._nodes_used

    def add(self, trie: Trie) -> int | None:
        """The root of a trie, now one of these; None if there is no room."""
        with self._lock:
            start, tokens, number = self._nodes_used, self._order_used, self._tries_used
            stop, last = start + len(trie.nodes), tokens + len(trie.order)
            if stop > MAX_NODES or last > MAX_ORDER or number >= MAX_TRIES:
                return None
            self.nodes[start:stop] = trie.nodes + (start << END_SHIFT)
            self.first[start : stop + 1] = trie.first + tokens
            self.order[tokens:last] = trie.order
            self.summary[start:stop] = trie.summary
            self.characters[start:stop] = trie.characters
            self.characters[start] = number
            self.lengths[tokens:last] = trie.lengths
            self.roots[number] = np.where(trie.roots, trie.roots + start, 0)
            self._nodes_used, self._order_used, self._tries_used = stop, last, number + 1
            return start

    def get(self, key: Any, tokens: Sequence[bytes], ids: Sequence[int]) -> int | None:
        """The root of the trie of these tokens, made at the first call with `key`; None if there is no room."""
        if key not in self._known:
            self._known[key] = self.add(build_trie(tokens, ids))
        return self._known[key]

    def knows(self, key: Any) -> bool:
        """Whether `get` was called with this key before."""
        return key in self._known

    def own(self, node: int) -> Int32s:
        """Ids of the tokens that end at a node."""
        return self.order[self.first[node] : self.first[node + 1]]

    def below(self, node: int) -> Int32s:
        """Ids of the tokens whose bytes begin with the path to a node."""
        return self.order[self.first[node] : self.first[int(self.nodes[node]) >> END_SHIFT]]

    def trie(self, root: int, count: int) -> Trie:
        """The trie at `root` with `count` nodes, its numbers counted from its own root again."""
        stop = root + count
        tokens = slice(int(self.first[root]), int(self.first[stop]))
        roots = self.roots[int(self.characters[root])]
        characters: npt.NDArray[np.int32] = self.characters[root:stop].copy()
        characters[0] = 0
        return Trie(
            nodes=self.nodes[root:stop] - (root << END_SHIFT),
            roots=np.where(roots, roots - root, 0).astype(np.int32),
            first=self.first[root : stop + 1] - tokens.start,
            order=self.order[tokens],
            summary=self.summary[root:stop],
            characters=characters,
            lengths=self.lengths[tokens],
        )
