"""Truncations against their definitions, and the same cuts on wide rows, where they look for their tokens by block."""

from __future__ import annotations

import math

import numpy as np
import pytest
import sampling_reference as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling_reference import Row
from slipcast.samplers import (
    Mirostat2,
    SamplerChain,
    SamplingParams,
    SeededSampler,
    cuts,
    default_processors,
)
from slipcast.samplers.narrow import Narrowed
from slipcast.samplers.transforms import MinP, TopK, TopNSigma, TopP, Typical


def rows(seed: int, size: int, *, coarse: bool, masked: bool) -> np.ndarray:
    """Logits that a model may give: `coarse` ones have many ties, `masked` ones many forbidden tokens."""
    rng = np.random.default_rng(seed)
    x = rng.normal(0, 4, size)
    x = np.round(x) if coarse else x
    if masked:
        x[rng.random(size) < 0.7] = -np.inf
        x[rng.integers(size)] = 1.0
    return x.astype(np.float32)


CASES = [
    ("top_k", cuts.top_k, reference.top_k, [1, 2, 7, 40, 1000]),
    ("top_p", cuts.top_p, reference.top_p, [0.05, 0.5, 0.9, 0.999]),
    ("min_p", cuts.min_p, reference.min_p, [0.001, 0.05, 0.5, 1.0]),
    ("typical", cuts.typical, reference.typical, [0.1, 0.5, 0.95]),
    ("top_n_sigma", cuts.top_n_sigma, reference.top_n_sigma, [0.5, 1.0, 3.0]),
    ("mirostat", cuts.below_surprise, reference.mirostat, [0.01, 1.0, 3.0, 9.0]),
]


@pytest.mark.parametrize(("cut", "definition", "values"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
@pytest.mark.parametrize("masked", [False, True])
def test_cuts_keep_what_their_definitions_keep(cut, definition, values, masked):
    for seed in range(40):
        x = rows(seed, 60, coarse=False, masked=masked)
        for value in values:
            kept = np.flatnonzero(definition(x.astype(np.float64), value) > -np.inf)
            assert cut(x, value).tolist() == kept.tolist(), (seed, value)


def test_excluding_the_top():
    for seed in range(40):
        x = rows(seed, 60, coarse=False, masked=seed % 2 == 0)
        for threshold in (0.01, 0.1, 0.5, 0.9):
            row = Row(SamplingParams(xtc_probability=1.0, xtc_threshold=threshold))
            kept = np.flatnonzero(reference.xtc(x.astype(np.float64), row) > -np.inf)
            assert cuts.exclude_top(x, threshold).tolist() == kept.tolist()


@pytest.mark.parametrize("name", ["top_k", "top_p", "min_p", "typical", "top_n_sigma", "mirostat"])
def test_cuts_of_equal_logits_and_of_single_tokens(name):
    cut = {case[0]: case[1] for case in CASES}[name]
    value = {"top_k": 2, "mirostat": 0.1}.get(name, 0.5)
    only = np.full(9, -np.inf, np.float32)
    only[4] = 3.0
    assert cut(only, value).tolist() == [4]
    kept = cut(np.zeros(8, np.float32), value).tolist()
    assert kept == list(range(len(kept))) and kept


@given(
    st.integers(0, 10**6),
    st.sampled_from([130, 4096, 5000, 9001]),
    st.sampled_from([1.0, 0.1, 0.7, 3.0]),
    st.booleans(),
    st.booleans(),
    st.sampled_from([
        (TopK(), {"top_k": 1}), (TopK(), {"top_k": 40}), (TopK(), {"top_k": 3000}), (TopP(), {"top_p": 0.3}),
        (TopP(), {"top_p": 0.95}), (TopP(), {"top_p": 1e-6}), (MinP(), {"min_p": 0.05}), (MinP(), {"min_p": 1e-6}),
        (MinP(), {"min_p": 1.0}), (Typical(), {"typical_p": 0.5}), (TopNSigma(), {"top_n_sigma": 1.0}),
    ]),
)  # fmt: skip
@settings(max_examples=200, deadline=None)
def test_by_block_the_same_tokens_are_kept(seed, size, heat, coarse, masked, case):
    cut, options = case
    x = rows(seed, size, coarse=coarse, masked=masked)
    row = Row(SamplingParams(**options))
    narrowed = Narrowed(x.copy())
    narrowed.heat = heat
    narrowed.cut(cut, row)
    whole = x if heat == 1.0 else (x - x.max()) / np.float32(heat)
    kept = cut.keep(whole, row, None)
    assert narrowed.ids.tolist() == kept.tolist()
    assert (narrowed.values == whole[kept]).all()
    narrowed.spread()
    assert np.flatnonzero(narrowed.x > -np.inf).tolist() == kept.tolist()


def test_mirostat_follows_its_own_surprises():
    row = Row(SamplingParams(mirostat=2, mirostat_tau=2.0, mirostat_eta=0.3, seed=4), stream=99)
    chain = SamplerChain(default_processors(), SeededSampler())
    chain.start(row)
    rng, mu, history = np.random.default_rng(0), 4.0, []
    for _ in range(40):
        logits = rng.normal(0, 2, 50).astype(np.float32)
        history.append((logits, mu))
        token = int(chain.run(logits[None].copy(), [row], None).tokens[0])
        left = reference.softmax(reference.mirostat(logits.astype(np.float64), mu))
        assert left[token] > 0
        row.output.append(token)
        mu -= 0.3 * (-math.log2(left[token]) - 2.0)
    # Cut back, it goes on as it did there.
    drawn = list(row.output)
    del row.output[7:]
    for logits, _ in history[7:]:
        row.output.append(int(chain.run(logits[None].copy(), [row], None).tokens[0]))
    assert row.output == drawn


def test_mirostat_is_not_moved_by_tokens_that_it_did_not_draw():
    cut, row = Mirostat2(), Row(SamplingParams(mirostat=2, mirostat_tau=1.0))
    x = np.zeros(16, np.float32)
    assert len(cut.keep(x, row, None)) == 1  # each surprises by 4 bits, and mu is 2
    row.output += [9, 9, 9]
    assert len(cut.keep(x, row, None)) == 1
    cut.release(row, aborted=False)
    assert not cut._places


def test_xtc_takes_its_chance_as_often_as_asked():
    x = np.log(np.array([[0.4, 0.3, 0.2, 0.1]], np.float32))
    row = Row(SamplingParams(xtc_probability=0.25, xtc_threshold=0.15, top_k=0), stream=7)
    chain = SamplerChain(default_processors(), SeededSampler())
    chain.start(row)
    for _ in range(4000):
        row.output.append(int(chain.run(x.copy(), [row], None).tokens[0]))
    shares = np.bincount(row.output, minlength=4) / 4000
    # One time in four only the last of those above the threshold, and what is below it, are left.
    expected = 0.75 * np.array([0.4, 0.3, 0.2, 0.1]) + 0.25 * np.array([0, 0, 2 / 3, 1 / 3])
    assert np.abs(shares - expected).max() < 0.03
