"""Grammar-aligned sampling: on small grammars the draw approaches the model's own conditional distribution."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import product

import numpy as np
import pytest
from sampling_reference import Row
from slipcast.samplers import Aligned, SamplerChain, SamplingParams, SeededSampler, default_processors, masks
from slipcast.samplers.random import stream

END, LENGTH, SIZE = 0, 5, 3


class Model:
    """A small language model over the tokens 1, 2 and the end, and a grammar of its texts."""

    def __init__(self, seed: int, texts: set[tuple[int, ...]]) -> None:
        self.rng_seed, self.texts = seed, texts
        self.logits, self.mask = cache(self._logits), cache(self._mask)

    def _logits(self, text: tuple[int, ...]) -> np.ndarray:
        rng = np.random.default_rng([self.rng_seed, *text])
        x = rng.normal(0, 1.0, SIZE).astype(np.float32)
        if len(text) < LENGTH:
            x[END] = -30.0
        return x

    def _mask(self, text: tuple[int, ...]) -> np.ndarray:
        begun = {other[len(text)] for other in self.texts if other[: len(text)] == text and len(other) > len(text)}
        return masks.pack(begun | ({END} if text in self.texts else set()), SIZE)

    def chance(self, text: tuple[int, ...]) -> float:
        total = 1.0
        for i, token in enumerate((*text, END)):
            x = self.logits(text[:i]).astype(np.float64)
            total *= np.exp(x[token]) / np.exp(x).sum()
        return total

    def conditional(self) -> dict[tuple[int, ...], float]:
        chances = {text: self.chance(text) for text in self.texts}
        return {text: chance / sum(chances.values()) for text, chance in chances.items()}


def draw(chain: SamplerChain, model: Model, number: int, aligned: bool) -> tuple[int, ...]:
    row = Row(SamplingParams(grammar_aligned=aligned), [7], stream=stream(5, number), grammar=model)
    assert chain.start(row) is None
    while True:
        text = tuple(row.output)
        outcome = chain.run(model.logits(text)[None].copy(), [row], model.mask(text)[None])
        assert not outcome.faults
        if outcome.tokens[0] == END:
            chain.end(row)
            return text
        row.output.append(int(outcome.tokens[0]))


def distance(drawn: list[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """Total variation."""
    counts = Counter(drawn)
    return sum(abs(counts[text] / len(drawn) - share) for text, share in expected.items()) / 2


BITS = set(product((1, 2), repeat=LENGTH))
GRAMMARS = {
    # The example of the paper: one text begins with 1, sixteen with 2.
    "one or many": {text for text in BITS if text[0] == 2 or text == (1,) * LENGTH},
    "palindromes": {text for text in BITS if text == text[::-1]},
    "few twos": {text for text in BITS if text.count(2) <= 1},
}


@pytest.mark.parametrize("name", GRAMMARS)
def test_masks_distort_and_alignment_does_not(name):
    model = Model(1 if name == "few twos" else 3, GRAMMARS[name])
    chain = SamplerChain(default_processors(), SeededSampler())
    expected = model.conditional()
    aligned = [draw(chain, model, i, True) for i in range(900)][300:]
    plain = [draw(chain, model, i, False) for i in range(400)]
    assert distance(plain, expected) > 0.1
    assert distance(aligned, expected) < 0.07
    assert not chain._active and not next(p for p in chain.processors if isinstance(p, Aligned))._runs


def test_what_is_learned_is_the_chance_of_a_text_of_the_grammar():
    model = Model(8, GRAMMARS["palindromes"])
    chain = SamplerChain(default_processors(), SeededSampler())
    for i in range(300):
        draw(chain, model, i, True)
    [tree] = next(p for p in chain.processors if isinstance(p, Aligned))._trees.values()
    assert tree.root is not None
    # G of the beginning is the share of the model's texts that the grammar has; it is approached from above.
    share = sum(model.chance(text) for text in model.texts)
    assert share - 1e-6 <= tree.root.good <= share * 1.02


def test_prompts_and_grammars_do_not_learn_from_each_other():
    first, second = Model(3, GRAMMARS["few twos"]), Model(3, GRAMMARS["few twos"])
    chain = SamplerChain(default_processors(), SeededSampler())
    alone = [draw(SamplerChain(default_processors(), SeededSampler()), second, 0, True)]
    for i in range(50):
        draw(chain, first, i, True)
    assert [draw(chain, second, 0, True)] == alone


def test_free_text_and_greedy_rows_are_left_alone():
    aligned = Aligned()
    assert not aligned.wants(Row(SamplingParams(grammar_aligned=True)))
    assert not aligned.wants(Row(SamplingParams(grammar_aligned=True, temperature=0), grammar=aligned))
    assert not aligned.wants(Row(SamplingParams(), grammar=aligned))
