"""The engine's own chain: a fresh set of all transforms, in no particular order, since each says where it belongs."""

from __future__ import annotations

from collections.abc import Sequence

from .aligned import Aligned
from .dry import Dry
from .mirostat import Mirostat2
from .protocols import LogitsProcessor
from .transforms import LogitBias, MinP, Penalties, Temperature, TopK, TopNSigma, TopP, Typical, Xtc


def default_processors(tokens: Sequence[bytes | None] = ()) -> tuple[LogitsProcessor, ...]:
    """`tokens`: the bytes of each token, None for special ones: what DRY looks for its breakers in."""
    aligned = Aligned()
    return (
        Penalties(), LogitBias(), Dry(tokens), aligned.before, aligned, Temperature(), TopNSigma(), TopK(), Typical(),
        TopP(), MinP(), Xtc(), Mirostat2(),
    )  # fmt: skip
