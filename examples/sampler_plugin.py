"""A plugin with a sampler of its own and a logits processor of its own, in one file.

The sampler draws by adding Gumbel noise (the arg max of logits plus noise is a draw from their softmax); the
processor makes the last token less likely to come again. Both work under a grammar: forbidden tokens are at minus
infinity before either sees them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from slipcast.engine import Engine
from slipcast.plugins import BaseProcessor, BaseSampler, ChoiceView, Logits, hookimpl


class GumbelSampler(BaseSampler):
    name = "gumbel"

    def choose(self, logits: Logits, rows: Sequence[ChoiceView], /) -> NDArray[np.int64]:
        tokens = np.empty(len(rows), np.int64)
        for i, row in enumerate(rows):
            if row.params.greedy:
                tokens[i] = logits[i].argmax()
                continue
            # The row's own stream and place make the draw the same whatever else is in the batch.
            random = np.random.default_rng([row.stream, len(row.output)])
            tokens[i] = (logits[i] + random.gumbel(size=logits.shape[1])).argmax()
        return tokens


class NoStutter(BaseProcessor):
    name = "no-stutter"

    def apply(self, logits: Logits, rows: Sequence[ChoiceView], /) -> None:
        for i, row in enumerate(rows):
            if row.output:
                logits[i, row.output[-1]] -= 2.0


class Plugin:
    @hookimpl
    def slipcast_sampler(self, name: str) -> GumbelSampler | None:
        return GumbelSampler() if name == GumbelSampler.name else None

    @hookimpl
    def slipcast_logits_processors(self) -> Sequence[NoStutter]:
        return [NoStutter()]


def main() -> None:
    with Engine(plugins=[f"{__name__}:Plugin"], sampler="gumbel") as engine:
        answer = engine.chat.completions.create(
            messages=[{"role": "user", "content": "Name three colours."}],
            response_format={
                "type": "json_object",
                "schema": {"type": "array", "items": {"enum": ["red", "green", "blue"]}},
            },
            max_tokens=60,
            seed=1,
        )
    print(answer.choices[0].message.content)


if __name__ == "__main__":
    main()
