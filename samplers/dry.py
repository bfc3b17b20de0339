"""DRY, "don't repeat yourself": what would go on with a sequence that was there before becomes less likely.

By p-e-w 2024 (oobabooga/text-generation-webui, pull request 5677): if the last n tokens stood somewhere before and
token t came next there, t loses multiplier * base ** (n - allowed_length), n the longest such, where that is at least
allowed_length. A sequence does not reach across a breaker.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from .base import BaseProcessor
from .protocols import ChoiceView, Logits

LONGEST = 50
"""Longer matches count as this long: the penalty grows exponentially."""


class Dry(BaseProcessor):
    """`tokens`: the bytes of each token, None for special ones, in which breakers are looked for; a breaker that
    several tokens spell breaks where its last byte is. Without `tokens` nothing breaks a sequence.
    """

    name = "dry"
    order = 300

    def __init__(self, tokens: Sequence[bytes | None] = ()) -> None:
        self._tokens = tokens
        self._histories: dict[ChoiceView, _History] = {}

    def wants(self, row: ChoiceView, /) -> bool:
        return row.params.dry_multiplier > 0.0

    def apply(self, logits: Logits, rows: Sequence[ChoiceView], /) -> None:
        for i, row in enumerate(rows):
            p = row.params
            history = self._histories.get(row)
            if history is None or not history.leads_to(row):
                history = self._histories[row] = _History(row, self._tokens)
            history.follow(row)
            next_, lengths = history.matches(p.dry_penalty_last_n)
            long = (lengths >= p.dry_allowed_length) & (next_ >= 0)
            if long.any():
                ids, place = np.unique(next_[long], return_inverse=True)
                longest = np.zeros(len(ids), np.int64)
                np.maximum.at(longest, place, np.minimum(lengths[long], max(LONGEST, p.dry_allowed_length)))
                penalties = p.dry_multiplier * p.dry_base ** (longest - p.dry_allowed_length).astype(np.float64)
                logits[i, ids] -= penalties.astype(np.float32)

    def release(self, row: ChoiceView, /, *, aborted: bool) -> None:
        self._histories.pop(row, None)


class _History:
    """The tokens of a choice, which of them break, and how long the end of the text matches at each place."""

    def __init__(self, row: ChoiceView, tokens: Sequence[bytes | None]) -> None:
        self._tokens = tokens
        self._breakers = [breaker.encode() for breaker in row.params.dry_sequence_breakers or ()]
        self._longest = max(map(len, self._breakers), default=0)
        self._tail = b""
        room = 2 * (len(row.prompt) + len(row.output)) + 64
        self._ids: NDArray[np.int64] = np.zeros(room, np.int64)
        self._lengths: NDArray[np.int64] = np.zeros(room, np.int64)
        self._count = 0
        for token in row.prompt:
            self._push(token)
        self._prompt = self._count

    def leads_to(self, row: ChoiceView) -> bool:
        """Whether the choice's tokens begin with these; not, after a rollback."""
        seen = self._count - self._prompt
        last = int(self._ids[self._count - 1]) if seen else 0
        return seen <= len(row.output) and (not seen or row.output[seen - 1] in (last, -1 - last))

    def follow(self, row: ChoiceView) -> None:
        """Take the tokens that are new."""
        for token in row.output[self._count - self._prompt :]:
            self._push(token)

    def matches(self, window: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """For each earlier place: the token after it (below 0: a breaker), and how many tokens up to it equal the last
        ones.
        """
        end = max(self._count - 1, 0)
        start = 0 if window < 0 else max(0, self._count - window)
        lengths = self._lengths[start:end]
        if start:  # a match must lie within the window
            lengths = np.minimum(lengths, np.arange(1, end - start + 1))
        return self._ids[start + 1 : end + 1], lengths

    def _push(self, token: int) -> None:
        """One more token: matches that it continues grow by one, all others are over."""
        count = self._count
        if count == len(self._ids):
            self._ids, self._lengths = np.resize(self._ids, 2 * count), np.resize(self._lengths, 2 * count)
        if self._breaks(token):
            self._lengths[:count] = 0
            self._ids[count] = -1 - token  # equal to no token, and none to be penalised
        else:
            same = self._ids[:count] == token
            if count:
                self._lengths[1:count] = np.where(same[1:], self._lengths[: count - 1] + 1, 0)
                self._lengths[0] = same[0]
            self._ids[count] = token
        self._lengths[count] = 0
        self._count = count + 1

    def _breaks(self, token: int) -> bool:
        if not self._breakers:
            return False
        data = (self._tokens[token] if token < len(self._tokens) else None) or b""
        text = self._tail + data
        self._tail = text[-(self._longest - 1) :] if self._longest > 1 else b""
        before = len(text) - len(data)
        return any(text.find(breaker, max(0, before - len(breaker) + 1)) >= 0 for breaker in self._breakers)
