"""A plugin for Slipcast: a processor that steers towards or away from words, and a sampler by Gumbel noise.

    slipcast serve --plugins steering
    client.chat.completions.create(..., extra_body={"plugins": {"steering": {"words": ["sun"], "strength": 4}}})

The sampler is used where the engine is told so: `slipcast serve --plugins steering --sampler gumbel`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field
from slipcast.plugins import BaseProcessor, BaseSampler, ChoiceView, Logits, hookimpl

__version__ = "0.1.0"


class Steering(BaseModel):
    """What a request may say. Wrong values, and keys that are not here, are answered with 400."""

    words: list[str] = Field(min_length=1, max_length=32)
    strength: float = Field(ge=-20, le=20)


class Steer(BaseProcessor):
    """Adds `strength` to the logits of all tokens that are one of the words, with or without space around it."""

    name = "steer"

    def __init__(self, tokens: Sequence[bytes | None]) -> None:
        self._tokens = tokens
        self._found: dict[tuple[str, ...], NDArray[np.int64]] = {}

    def wants(self, row: ChoiceView, /) -> bool:
        """Rows of requests that name the plugin; the others cost nothing."""
        return row.options(Steering) is not None

    def apply(self, logits: Logits, rows: Sequence[ChoiceView], /) -> None:
        """One row at a time: each has words of its own."""
        for x, row in zip(logits, rows, strict=True):
            steering = row.options(Steering)
            if steering is not None:
                x[self._ids(tuple(steering.words))] += np.float32(steering.strength)

    def _ids(self, words: tuple[str, ...]) -> NDArray[np.int64]:
        if words not in self._found:
            if len(self._found) >= 256:
                self._found.clear()
            wanted = tuple(word.encode() for word in words)
            ids = [i for i, token in enumerate(self._tokens) if token and token.strip() in wanted]
            self._found[words] = np.array(ids, np.int64)
        return self._found[words]


class Gumbel(BaseSampler):
    """Draws by adding Gumbel noise: the highest of logits and noise together is a draw from their softmax."""

    name = "gumbel"

    def choose(self, logits: Logits, rows: Sequence[ChoiceView], /) -> NDArray[np.int64]:
        """Forbidden tokens are at minus infinity, and stay there."""
        tokens = np.empty(len(rows), np.int64)
        for i, row in enumerate(rows):
            if row.params.greedy:
                tokens[i] = logits[i].argmax()
                continue
            # The row's own stream and place make the draw the same whatever else is in the batch.
            random = np.random.default_rng([row.stream, len(row.output)])
            tokens[i] = (logits[i] + random.gumbel(size=logits.shape[1])).argmax()
        return tokens


class SteeringPlugin:
    """What the entry point names: an object, or a class to make it of, with hooks."""

    slipcast_api = "1.0"

    @hookimpl
    def slipcast_request_parameters(self) -> type[BaseModel]:
        """See Steering."""
        return Steering

    @hookimpl
    def slipcast_logits_processors(self, tokens: Sequence[bytes | None]) -> Sequence[Steer]:
        """Asked once, when an engine starts."""
        return [Steer(tokens)]

    @hookimpl
    def slipcast_sampler(self, name: str) -> Gumbel | None:
        """Named by the configuration."""
        return Gumbel() if name == Gumbel.name else None
