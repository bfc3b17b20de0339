"""Guesses of a smaller model with the same vocabulary (Leviathan et al. 2023, Chen et al. 2023).

It draws as the choice itself will: under the grammar's masks, at the request's temperature and cuts, with the same
number of the choice's random stream at each place. Where the two models nearly agree on a distribution, so do the draws
(Daliri, Musco, Suresh 2024). Penalties and plugins' processors are left to the verification.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...plugins.protocols import KVCache, KVManager, Matcher
from ...samplers import SamplerChain
from ...samplers.choice import SeededSampler
from ...samplers.transforms import LogitBias, MinP, Temperature, TopK, TopP
from ..choice import Choice
from .drafts import Ahead, Draft

if TYPE_CHECKING:
    from ..loop import StepModel
    from ..matching import Matching

_FEW = 16
"""Tokens that a choice may be behind when its guessing begins; more are caught up with before, a chunk at a time."""


@dataclass(slots=True)
class _Line:
    """What the draft model's cache holds of a choice: `tokens`, of which the first `told` are known to be its own."""

    sequence: int
    tokens: list[int]
    told: int


@dataclass(slots=True)
class _Guessing:
    """A draft in the making. `shadow`: the choice as it would be with the draft's tokens in its output.

    `row`: uint32 [W], what may come next.
    """

    choice: Choice
    line: _Line
    length: int
    shadow: Choice
    matcher: Matcher | None
    row: NDArray[np.uint32]
    tokens: list[int] = field(default_factory=list)
    places: list[Ahead] = field(default_factory=list)
    over: bool = False

    @property
    def live(self) -> bool:
        return not self.over and len(self.tokens) < self.length


class DraftModel:
    """A drafter with a model and a cache of its own."""

    def __init__(
        self, model: StepModel, cache: KVCache, kv: KVManager, matching: Matching, ends: frozenset[int], *,
        context_length: int, chunk: int, size: int,
    ) -> None:  # fmt: skip
        """`kv`: the manager of `cache`. `ends`: tokens that end an output.

        `context_length`: tokens of a sequence; `chunk`: tokens of a step. `size`: V of the model that verifies; logits
        are cut or padded to it.
        """
        self._model, self._cache, self._kv, self._matching, self._ends = model, cache, kv, matching, ends
        self._context, self._chunk, self._size = context_length, chunk, size
        self._chain = SamplerChain((LogitBias(), Temperature(), TopK(), TopP(), MinP()), SeededSampler())
        self._lines: dict[Choice, _Line] = {}
        self._numbers = count(1)
        self._slow: set[Choice] = set()

    def offer(self, choices: Mapping[Choice, int]) -> dict[Choice, int]:
        """All of them, of those that the model's context and cache have room for and that it has caught up with."""
        offers: dict[Choice, int] = {}
        first, ahead = self._chunk, self._chunk  # tokens left for the first step of guessing, and for catching up
        pages = 0
        for choice, longest in choices.items():
            if choice in self._slow or choice.length + longest > self._context:
                continue
            line = self._line(choice)
            need = self._pages(choice.length + longest) - self._pages(len(line.tokens))
            if not self._reserve(pages + need, choices):
                break
            behind = choice.length - len(line.tokens)
            if behind > _FEW and ahead > 0:
                fed = min(behind - 1, ahead)
                ahead -= fed
                start, held = len(line.tokens), self._pages(len(line.tokens))
                self._feed([line], [choice.tokens(start, start + fed)])
                self._tell(line, len(line.tokens))
                need -= self._pages(len(line.tokens)) - held
                behind -= fed
            if behind <= min(_FEW, first):
                first -= behind
                pages += need
                offers[choice] = longest
        return offers

    def guess(self, lengths: Mapping[Choice, int]) -> dict[Choice, Draft]:
        """Drafts of so many tokens; shorter where the output would end, or its grammar allows nothing."""
        guessing = []
        for choice, length in lengths.items():
            shadow = copy(choice)
            shadow.output = list(choice.output)
            row = self._matching.row(choice)
            guessing.append(_Guessing(choice, self._lines[choice], length, shadow, choice.matcher, row))
            self._chain.start(shadow)
        try:
            chunks = [choice.tokens(len(self._lines[choice].tokens)) for choice in lengths]
            live = guessing
            while live:
                self._draw(live, self._feed([each.line for each in live], chunks))
                live = [each for each in live if each.live]
                chunks = [each.tokens[-1:] for each in live]
        finally:
            for each in guessing:
                self._chain.end(each.shadow)
        return {each.choice: Draft(each.tokens, each.places) for each in guessing if each.tokens}

    def release(self, choice: Choice) -> None:
        """The choice is over: its sequence is kept for others as the cache's manager sees fit."""
        self._slow.discard(choice)
        line = self._lines.pop(choice, None)
        if line is not None:
            self._tell(line, _common(line.tokens, choice.tokens()))
            self._cut(line, line.told)
            self._kv.stop(line.sequence, keep=True)

    def close(self) -> None:
        """Empties the cache."""
        self._lines.clear()
        self._kv.clear()

    def _line(self, choice: Choice) -> _Line:
        """What the cache holds of the choice, without refused guesses; always less than all of it."""
        line = self._lines.get(choice)
        if line is None:
            sequence = next(self._numbers)
            tokens = choice.tokens()
            shared = self._kv.start(sequence, tokens)
            line = self._lines[choice] = _Line(sequence, tokens[:shared], shared)
        else:
            tokens = choice.tokens()
            right = min(_common(line.tokens, tokens), len(tokens) - 1)
            self._cut(line, right)
            self._tell(line, right)
        return line

    def _reserve(self, pages: int, choices: Mapping[Choice, int]) -> bool:
        """Make room, where it must be by giving up choices that are not in this step."""
        while not self._kv.reserve(pages):
            idle = next((choice for choice in self._lines if choice not in choices), None)
            if idle is None:
                return False
            self._kv.stop(self._lines.pop(idle).sequence, keep=False)
        return True

    def _feed(self, lines: Sequence[_Line], chunks: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        """Logits after each chunk, float32 [lines, size]."""
        logits = self._model.step([line.sequence for line in lines], chunks)
        for line, chunk in zip(lines, chunks, strict=True):
            line.tokens += chunk
        width = logits.shape[1]
        if width >= self._size:
            return logits[:, : self._size]
        padding = np.full((len(logits), self._size - width), -np.inf, np.float32)
        return np.concatenate([logits, padding], axis=1)

    def _draw(self, guessing: Sequence[_Guessing], logits: NDArray[np.float32]) -> None:
        rows = np.stack([each.row for each in guessing])
        outcome = self._chain.run(np.ascontiguousarray(logits), [each.shadow for each in guessing], rows)
        tokens = outcome.tokens.tolist()
        for i, each in enumerate(guessing):
            each.over = i in outcome.faults or tokens[i] in self._ends
        drawn = [(each, token) for each, token in zip(guessing, tokens, strict=True) if not each.over]
        constrained = [(each.choice, each.matcher, token) for each, token in drawn if each.matcher is not None]
        looks = iter(self._matching.look(constrained))
        for each, token in drawn:
            if each.matcher is not None:
                look = next(looks)
                if not look.done:
                    self._slow.add(each.choice)
                if not look.done or look.row is None:
                    each.over = True
                    continue
                each.matcher, each.row = look.place.matcher, look.row
            each.tokens.append(token)
            each.places.append(Ahead(each.matcher))
            each.shadow.output.append(token)

    def _tell(self, line: _Line, right: int) -> None:
        """The line's first `right` tokens are the choice's own."""
        if right > line.told:
            self._kv.extend(line.sequence, line.tokens[line.told : right])
            line.told = right

    def _cut(self, line: _Line, length: int) -> None:
        if length < len(line.tokens):
            self._cache.truncate(line.sequence, len(line.tokens) - length)
            del line.tokens[length:]

    def _pages(self, length: int) -> int:
        return -(-length // self._cache.page_size)


def _common(a: Sequence[int], b: Sequence[int]) -> int:
    """Length of the common prefix."""
    end = min(len(a), len(b))
    return end if a[:end] == b[:end] else next(i for i in range(end) if a[i] != b[i])
