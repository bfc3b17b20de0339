"""How few tokens spell some bytes, from each of their places on: not the tokenizer's own choice, but what a budget is
counted in."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ..automaton.tokencodes import LENGTH, MARK, token_of
from ..courtesy import COURTESY

if TYPE_CHECKING:
    from .vocabulary import Vocabulary


class Fewest:
    """The fewest tokens that spell each suffix of `data`, found for all of them when one is first asked for.

    Tokens that are taken as such stand in `data` as `tokencodes` spells them; no suffix may start within one.
    """

    def __init__(self, data: bytes, vocabulary: Vocabulary) -> None:
        self._data = data
        self._vocabulary = vocabulary

    def count(self, start: int) -> int | None:
        """How many tokens spell the bytes from `start` on; None if no tokens do."""
        step = self._steps[start]
        return None if step is None else step[0]

    def tokens(self, start: int) -> tuple[int, ...] | None:
        """They themselves."""
        ids: list[int] = []
        while start < len(self._data):
            step = self._steps[start]
            if step is None:
                return None
            _, token, start = step
            ids.append(token)
        return tuple(ids)

    @cached_property
    def _steps(self) -> list[tuple[int, int, int] | None]:
        """For each place: how many tokens, the first of them, and where that ends."""
        data = self._data
        steps: list[tuple[int, int, int] | None] = [None] * len(data)
        steps.append((0, -1, len(data)))
        end = len(data)
        for mark in [*reversed(_marks(data)), -LENGTH]:
            for start in range(end - 1, mark + LENGTH - 1, -1):
                COURTESY.pause()
                for token, after in self._vocabulary.first_tokens(data, start, end):
                    rest = steps[after]
                    if rest is not None:
                        known = steps[start]
                        if known is None or known[0] > rest[0] + 1:
                            steps[start] = rest[0] + 1, token, after
            if mark >= 0:
                end = mark
                rest = steps[mark + LENGTH]
                steps[mark] = None if rest is None else (rest[0] + 1, token_of(data[mark:]), mark + LENGTH)
        return steps


def _marks(data: bytes) -> list[int]:
    """Where tokens that are taken as such begin."""
    found: list[int] = []
    at = data.find(MARK)
    while at >= 0:
        found.append(at)
        at = data.find(MARK, at + LENGTH)
    return found
