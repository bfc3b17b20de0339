"""Guesses from the text so far: what followed the last tokens when they came before (prompt look-up: Saxena 2023)."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence

from ..choice import Choice
from .drafts import Draft

Follow = Callable[[Mapping[Choice, Sequence[int]], Container[int]], Mapping[Choice, Draft]]
"""From guessed tokens of choices, and those that end an output, to the drafts that grammars allow."""

SIZES = (4, 3, 2)
"""How many last tokens are looked for; longer ones first, since what follows them is surer."""


class _Index:
    """Where each run of tokens was last followed by another token."""

    def __init__(self, tokens: Sequence[int]) -> None:
        self.tokens = list(tokens)
        self._after: dict[tuple[int, ...], int] = {}
        self._entered = 0

    def guess(self, count: int) -> list[int]:
        """Up to `count` tokens; a text that repeats itself is guessed to go on with it."""
        self._enter()
        tokens = self.tokens
        end = len(tokens)
        for size in SIZES:
            at = self._after.get(tuple(tokens[-size:])) if size <= end else None
            if at is not None:
                period = end - at
                return [tokens[at + i % period] for i in range(count)]
        return []

    def _enter(self) -> None:
        """All runs but the last ones, which nothing follows yet."""
        tokens = self.tokens
        for end in range(max(self._entered, 1), len(tokens)):
            for size in SIZES:
                if size <= end:
                    self._after[tuple(tokens[end - size : end])] = end
        self._entered = len(tokens)


class PromptLookup:
    """A drafter without a model."""

    def __init__(self, ends: frozenset[int], follow: Follow) -> None:
        """`ends`: tokens that end an output, and so a draft."""
        self._ends = ends
        self._follow = follow
        self._indexes: dict[Choice, _Index] = {}
        self._offers: dict[Choice, list[int]] = {}

    def offer(self, choices: Mapping[Choice, int]) -> dict[Choice, int]:
        """How many tokens can be guessed for each choice, at most as many as asked for."""
        self._offers = {}
        for choice, count in choices.items():
            index = self._indexes.get(choice)
            if index is None:
                index = self._indexes[choice] = _Index(choice.tokens())
            index.tokens += choice.tokens(len(index.tokens))
            if guess := index.guess(count):
                self._offers[choice] = guess
        return {choice: len(guess) for choice, guess in self._offers.items()}

    def guess(self, lengths: Mapping[Choice, int]) -> dict[Choice, Draft]:
        """Drafts of so many tokens, of those that were offered; shorter where the grammar or the output ends them."""
        return dict(self._follow({choice: self._offers[choice][:n] for choice, n in lengths.items()}, self._ends))

    def release(self, choice: Choice) -> None:
        """The choice is over."""
        self._indexes.pop(choice, None)
        self._offers.pop(choice, None)

    def close(self) -> None:
        """Nothing but memory is held."""
