"""Which tokens byte-pair encoding leaves side by side.

BPE joins neighbours by the rank of their merge. A sequence of tokens is what it makes of their text if and only if each
two neighbours are what it makes of theirs (Vieira et al., "Language Models over Canonical Byte-Pair Encodings", ICML
2025): whether the gap between two tokens is ever closed depends on what stands at its two sides while they are built.
At the left is the right spine of the left token's tree of merges, at the right the left spine of the other's.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..cache import cache_folder, load_arrays, save_arrays

NEVER: Final = 1 << 40
Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]


class Closing(NamedTuple):
    """The merges of one symbol with what may come after it, by the time they happen: int64 [n] each.

    Of the tokens in the order of their left spines those from `first` to `last` have at their beginning, at `time`, a
    symbol that it merges with.
    """

    time: Ints
    first: Ints
    last: Ints


class Merges:
    """The merges of a BPE, and what they make of the gaps between tokens."""

    def __init__(self, size: int, symbols: Iterable[int], merges: Sequence[tuple[int, int, int]]) -> None:
        """`size`: number of ids. `symbols`: the ids that a text is before any merge. `merges`: ids by rank, (left,
        right, merged). What is found takes seconds for a large vocabulary, so it is kept on disk.
        """
        self.size = size
        self._rank: dict[tuple[int, int], int] = {}
        for rank, (left, right, _) in enumerate(merges):
            self._rank.setdefault((left, right), rank)
        self._left = [-1] * size
        self._right = [-1] * size
        self._time = [NEVER] * size
        for symbol in symbols:
            self._time[symbol] = -1
        digest = hashlib.sha256(np.array(merges, np.int32).tobytes() + np.array(self._time).tobytes()).hexdigest()
        path = cache_folder("vocabulary", f"{digest}-merges.npz")
        stored = load_arrays(path)
        if stored is not None and stored.keys() == {"left", "right", "time"}:
            self._left, self._right, self._time = (stored[name].tolist() for name in ("left", "right", "time"))
        else:
            self._build(merges)
            found = {"left": self._left, "right": self._right, "time": self._time}
            save_arrays(path, {name: np.array(value, np.int64) for name, value in found.items()})
        self.made: Bools = np.array(self._time) < NEVER
        """bool [size]: the tokens that BPE makes of their own text."""
        self._place = self._ordered()
        self._after: dict[int, list[tuple[int, int]]] = {}
        for (left, right), rank in self._rank.items():
            self._after.setdefault(left, []).append((right, rank))
        self._closings: dict[int, Closing] = {}

    def _build(self, merges: Sequence[tuple[int, int, int]]) -> None:
        time = self._time
        waiting = list(enumerate(merges))
        while waiting:
            later = []
            made = 0
            for rank, (left, right, merged) in waiting:
                if time[merged] != NEVER:
                    continue
                if time[left] == NEVER or time[right] == NEVER:
                    later.append((rank, (left, right, merged)))
                elif not self._closes_early(left, right):
                    time[merged] = max(rank, time[left], time[right])
                    self._left[merged], self._right[merged] = left, right
                    made += 1
            waiting = later if made else []  # files exist in which a part comes after what it is part of

    def stay(self, left: int, right: int) -> bool:
        """Whether BPE leaves these two side by side."""
        return self._time[right] != NEVER and (left, right) not in self._rank and not self._closes_early(left, right)

    def _closes_early(self, left: int, right: int) -> bool:
        """Whether the gap between two tokens is closed by another merge than that of the two."""
        before = self._spine(left, self._right)
        after = self._spine(right, self._left)
        for i, (x, x_until) in enumerate(before):
            for j, (y, y_until) in enumerate(after):
                if i == 0 and j == 0:
                    continue
                rank = self._rank.get((x, y))
                if rank is not None:
                    time = max(rank, self._time[x], self._time[y])
                    if time < x_until and time <= y_until:
                        return True
        return False

    def _spine(self, token: int, side: list[int]) -> list[tuple[int, int]]:
        """What stands at one side of a token while it is built, itself first: (symbol, until when)."""
        until = NEVER
        found = []
        while token >= 0:
            found.append((token, until))
            until = self._time[token]
            token = side[token]
        return found

    def _ordered(self) -> Ints:
        """The places of tokens in an order in which those whose left spine goes through a token follow it, what merges
        with it last first: int64 [size]; and for each token where these end.
        """
        children: dict[int, list[int]] = {}
        for token, left in enumerate(self._left):
            if left >= 0:
                children.setdefault(left, []).append(token)
        for below in children.values():
            below.sort(key=self._time.__getitem__, reverse=True)
        self._children = children
        place = np.zeros(self.size, np.int64)
        self._end = np.zeros(self.size, np.int64)
        at = 0
        for root in range(self.size):
            if self._left[root] >= 0:
                continue
            waiting = [root]
            while waiting:
                token = waiting.pop()
                if token < 0:
                    self._end[~token] = at
                    continue
                place[token] = at
                at += 1
                waiting.append(~token)
                waiting += reversed(children.get(token, ()))
        return place

    def _closing(self, symbol: int) -> Closing:
        found = self._closings.get(symbol)
        if found is None:
            rows = []
            for right, rank in self._after.get(symbol, ()):
                if self._time[right] == NEVER:
                    continue
                time = max(rank, self._time[symbol], self._time[right])
                last = int(self._place[right]) + 1
                for child in self._children.get(right, ()):
                    if self._time[child] < time:
                        break
                    last = int(self._end[child])
                rows.append((time, int(self._place[right]), last))
            rows.sort()
            columns = np.array(rows, np.int64).reshape(-1, 3)
            found = self._closings[symbol] = Closing(columns[:, 0], columns[:, 1], columns[:, 2])
        return found

    def beside(self, token: int) -> Bools:
        """The tokens that BPE leaves after `token` as they are: bool [size]."""
        change = np.zeros(self.size + 1, np.int64)
        for symbol, until in self._spine(token, self._right):
            closing = self._closing(symbol)
            count = int(np.searchsorted(closing.time, until))
            change += np.bincount(closing.first[:count], minlength=len(change))
            change -= np.bincount(closing.last[:count], minlength=len(change))
        closed = np.cumsum(change[:-1]) > 0
        return ~closed[self._place] & self.made
