"""Grammar-aligned sampling, ASAp: masks alone distort, this corrects them (Park et al. 2024, arXiv 2405.21047).

A mask gives each allowed token the share that the model gives it, even where hardly any text of the grammar follows
it. What the model itself would write, given that it writes a text of the grammar, is

    P(token | text, grammar)  ~  P(token | text) * G(text + token),

G the chance that the model goes on to complete a text of the grammar from there. G is not known, so it is learned from
the texts that were drawn before, for the same prompt, grammar and options: 1 where nothing was drawn, else the sum of
the allowed tokens' shares, each times the G behind it. It only ever falls towards the truth, and as texts are drawn the
draw approaches the model's own distribution.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from .base import BaseProcessor
from .protocols import ChoiceView, Logits, Phase

MAX_TREES = 64
"""Prompts whose draws are remembered; the least recently used one is given up."""
MAX_PLACES = 100_000
"""Places remembered of one prompt; what goes beyond them is drawn by what is known so far."""


class _Place:
    """A text that was drawn, or the beginning of one. `allowed`: the share of the model's distribution that the mask
    leaves here. `after`: the tokens that were taken, with their shares and the places behind them. `good`: G, as known.
    """

    __slots__ = ("after", "allowed", "good")

    def __init__(self, allowed: float) -> None:
        self.allowed = self.good = allowed
        self.after: dict[int, tuple[float, _Place]] = {}

    def learn(self) -> None:
        """From the places behind it."""
        self.good = max(0.0, self.allowed - sum(share * (1.0 - place.good) for share, place in self.after.values()))


@dataclass(slots=True)
class _Tree:
    """Everything that was drawn for one prompt and grammar. `grammar` is held, so that its id stays its own."""

    grammar: object
    root: _Place | None = None
    places: int = 0


@dataclass(slots=True)
class _Run:
    """One choice on its way down the tree: the places that it passed, and the logarithms of the last one's shares."""

    tree: _Tree
    total: float = 0.0  # the logarithm of the sum of exp(logits) at this place, nothing masked
    path: list[_Place] = field(default_factory=list)
    shares: NDArray[np.float32] | None = None


class Aligned(BaseProcessor):
    """Corrects the masked logits by what is known to be behind each token. `before` must be in the chain as well."""

    name = "grammar_aligned"
    phase: Phase = "shape"
    order = 10

    def __init__(self) -> None:
        self._trees: OrderedDict[Hashable, _Tree] = OrderedDict()
        self._runs: dict[ChoiceView, _Run] = {}
        self.before = _Before(self._runs)

    def wants(self, row: ChoiceView, /) -> bool:
        if not row.params.grammar_aligned or row.grammar is None or row.params.greedy:
            return False
        same = replace(row.params, seed=None, n=1, max_tokens=None, stop=(), logprobs=False, top_logprobs=0)
        key = (id(row.grammar), tuple(row.prompt), same)
        tree = self._trees.setdefault(key, _Tree(row.grammar))
        self._trees.move_to_end(key)
        if len(self._trees) > MAX_TREES:
            self._trees.popitem(last=False)
        self._runs[row] = _Run(tree)
        return True

    def apply(self, logits: Logits, rows: Sequence[ChoiceView], /) -> None:
        for x, row in zip(logits, rows, strict=True):
            run = self._runs[row]
            shares = x - np.float32(run.total)
            place = self._arrive(run, shares, row)
            if place is not None:
                run.shares = shares
                for token, (_, behind) in place.after.items():
                    # Not nothing, or a text that is all but impossible could leave no token at all.
                    x[token] += np.float32(np.log(max(behind.good, 1e-30)))

    def release(self, row: ChoiceView, /, *, aborted: bool) -> None:
        run = self._runs.pop(row, None)
        for place in reversed(run.path if run else ()):
            place.learn()

    def _arrive(self, run: _Run, shares: NDArray[np.float32], row: ChoiceView) -> _Place | None:
        """The place of the choice's output; None where it was not followed all the way."""
        position, tree = len(row.output), run.tree
        if position < len(run.path):  # rolled back, or asked again
            del run.path[position + 1 :]
            return run.path[position]
        if position != len(run.path):
            return None
        if position == 0:
            if tree.root is None:
                tree.root = _Place(_sum(shares))
            run.path.append(tree.root)
            return tree.root
        parent, token = run.path[-1], row.output[-1]
        known = parent.after.get(token)
        if known is None:
            if run.shares is None or tree.places >= MAX_PLACES:
                return None
            tree.places += 1
            known = parent.after[token] = (float(np.exp(run.shares[token])), _Place(_sum(shares)))
        run.path.append(known[1])
        return known[1]


class _Before(BaseProcessor):
    """Measures what the mask will take away from: last of all that edits the raw logits."""

    name = "grammar_aligned_total"
    order = 1_000_000_000

    def __init__(self, runs: dict[ChoiceView, _Run]) -> None:
        self._runs = runs

    def wants(self, row: ChoiceView, /) -> bool:
        return row.params.grammar_aligned and row.grammar is not None and not row.params.greedy

    def apply(self, logits: Logits, rows: Sequence[ChoiceView], /) -> None:
        for x, row in zip(logits, rows, strict=True):
            peak = float(x.max())
            self._runs[row].total = peak + float(np.log(np.exp(x - np.float32(peak)).sum(dtype=np.float64)))


def _sum(shares: NDArray[np.float32]) -> float:
    return min(1.0, float(np.exp(shares).sum(dtype=np.float64)))
