"""How far two models of one vocabulary agree on a text: what a quantisation costs, in the model's own terms."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from .errors import EngineError
from .runtime import load_model
from .runtime.progress import Progress
from .tokenizer import build_tokenizer

CHUNK = 128
MOST_TOKENS = 1024
# Ours; plain prose, a list, numbers and a little code, so that no one kind of text decides.
TEXT = """The harbour was quiet before dawn. Two fishermen untied their boat, checked the nets, and rowed out past the
lighthouse, where the water turns from grey to green. They spoke little. At noon the wind rose, so they came back
early with eleven baskets of herring, and sold nine of them on the quay for twelve crowns each, one hundred and eight
crowns in all.

To make the soup of that coast you need:
1. one onion and two carrots, cut small
2. a litre of water and a pinch of salt
3. half a kilogram of fish, without the bones

Boil the vegetables for twenty minutes, add the fish, and wait until it is white. In 1987 a cook wrote the recipe down:
"Never hurry a soup," she said, "and never leave it alone." Her daughter, who studied physics in the city, later put
it as a small program:

def ready(minutes, fish):
    return minutes >= 20 and fish == "white"
"""


@dataclass(frozen=True)
class Fidelity:
    """Over `tokens` positions: the divergence (Kullback-Leibler, in nats) of the candidate's distributions from the
    reference's, mean and largest; the perplexity of the text for both; the share of positions with the same best token.
    """

    tokens: int
    mean_divergence: float
    largest_divergence: float
    reference_perplexity: float
    candidate_perplexity: float
    same_best: float


def compare(reference: Path, candidate: Path, text: str = TEXT, progress: Progress | None = None) -> Fidelity:
    """Run both over the text, one after the other. Raises EngineError for a text of no use, and what loading raises."""
    expected, ids = _logits(reference, text, progress)
    found, other = _logits(candidate, text, progress)
    if ids != other or expected.shape != found.shape:
        raise EngineError("the two models have different vocabularies", remedy="compare a model with its conversion")
    p, q = _log_softmax(expected), _log_softmax(found)
    divergence = (np.exp(p) * (p - q)).sum(-1)
    following = np.array(ids[1:])
    rows = np.arange(len(following))
    return Fidelity(
        tokens=len(ids),
        mean_divergence=float(divergence.mean()),
        largest_divergence=float(divergence.max()),
        reference_perplexity=float(np.exp(-p[rows, following].mean())),
        candidate_perplexity=float(np.exp(-q[rows, following].mean())),
        same_best=float((p.argmax(-1) == q.argmax(-1)).mean()),
    )


def _logits(path: Path, text: str, progress: Progress | None) -> tuple[npt.NDArray[np.float32], tuple[int, ...]]:
    model = load_model(path, max_batch=1, max_context=MOST_TOKENS, prefill_chunk=CHUNK, progress=progress)
    ids = build_tokenizer(model.tokenizer_spec).encode(text, special=False, bos=True)[: model.max_context]
    if len(ids) < 2:
        raise EngineError(f"the text is {len(ids)} tokens long", remedy="give a longer one")
    model.kv.add(0)
    chunks = [ids[start : start + CHUNK] for start in range(0, len(ids), CHUNK)]
    return np.concatenate([model.step([0], [chunk], [len(chunk)]) for chunk in chunks]), ids


def _log_softmax(logits: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    x = logits.astype(np.float64)
    x -= x.max(-1, keepdims=True)
    x -= np.log(np.exp(x).sum(-1, keepdims=True))
    return x
