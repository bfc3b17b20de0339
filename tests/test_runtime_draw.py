"""The sampling kernel against the definitions, and beside the chain that works step by step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling_reference import Row, distribution
from slipcast.engine.runtime.draw import Draw
from slipcast.samplers import BaseProcessor, EmptyMaskError, SamplerChain, SamplingParams, SeededSampler
from slipcast.samplers import default_processors as defaults
from slipcast.samplers import masks as bits
from slipcast.samplers.random import uniform

KERNEL = Draw()
OPTIONS = st.fixed_dictionaries({
    "temperature": st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    "top_k": st.sampled_from([0, 1, 3, 40, 500]),
    "top_p": st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    "min_p": st.sampled_from([0.0, 0.05, 0.5, 1.0]),
    "repetition_penalty": st.sampled_from([1.0, 1.3]),
    "presence_penalty": st.sampled_from([0.0, 1.5]),
    "logit_bias": st.dictionaries(st.integers(0, 99), st.floats(-20, 20, width=16), max_size=2),
})


def drawn(logits: np.ndarray, rows: list[Row], mask: np.ndarray | None, kernel: Draw | None, *extra: BaseProcessor):
    chain = SamplerChain([*defaults(), *extra], SeededSampler(), quick=kernel)
    for row in rows:
        assert chain.start(row) is None
    outcome = chain.run(logits.copy(), rows, mask)
    for row in rows:
        chain.end(row)
    return outcome


SIZES = st.sampled_from([128, 192, 1024])


@given(st.lists(OPTIONS, min_size=1, max_size=4), st.integers(0, 2**32), st.booleans(), SIZES)
@settings(max_examples=200, deadline=None)
def test_the_draw_is_the_inverse_of_the_defined_distribution(options, seed, masked, size):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (len(options), size)).astype(np.float32)
    rows = [
        Row(SamplingParams(**o), rng.integers(0, 99, 9).tolist(), rng.integers(0, 99, 9).tolist(), stream=int(s))
        for o, s in zip(options, rng.integers(0, 2**62, len(options)), strict=True)
    ]
    allowed = rng.random((len(options), size)) < 0.2
    allowed[:, 5] = True
    packed = np.stack([bits.pack(np.flatnonzero(row), size) for row in allowed]) if masked else None
    outcome = drawn(logits, rows, packed, KERNEL)
    assert not outcome.faults
    for i, row in enumerate(rows):
        expected = distribution(logits[i], row, allowed[i] if masked else None)
        at = uniform([row.stream], [len(row.output)])[0]
        cumulative = np.cumsum(expected)
        token = outcome.tokens[i]
        assert cumulative[token] >= at - 1e-4 and cumulative[token] - expected[token] <= at + 1e-4
        assert expected[token] > 0 or min(abs(cumulative - at)) < 1e-4


@pytest.mark.parametrize("options", [
    {}, {"temperature": 0.0}, {"temperature": 0.6}, {"top_k": 40}, {"top_k": 700}, {"top_k": 100_000}, {"top_p": 0.9},
    {"top_p": 0.9999}, {"min_p": 0.02}, {"min_p": 1e-7}, {"top_k": 50, "top_p": 0.8, "min_p": 0.1, "temperature": 0.7},
    {"temperature": 1e-300}, {"temperature": 100.0}, {"temperature": 50.0, "top_p": 0.99},
])  # fmt: skip
@pytest.mark.parametrize("coarse", [False, True])
def test_the_same_tokens_as_step_by_step(options, coarse):
    """But where two sums in float32 differ at the edge between two tokens."""
    rng = np.random.default_rng(5)
    logits = rng.normal(0, 4, (48, 49_152)).astype(np.float32)
    logits = np.round(logits) if coarse else logits
    rows = [Row(SamplingParams(**options), stream=int(s)) for s in rng.integers(0, 2**62, 48)]
    mask = rng.integers(0, 2**32, (48, 1536), dtype=np.uint32)
    for packed in (None, mask):
        quick, slow = (drawn(logits, rows, packed, kernel).tokens for kernel in (KERNEL, None))
        assert (quick >= 0).all() and (quick != slow).sum() <= 1
        if packed is not None:
            assert bits.unpack(mask, 49_152)[np.arange(48), quick].all()


def test_rows_do_not_depend_on_company():
    rng = np.random.default_rng(3)
    logits = rng.normal(0, 2, (24, 4096)).astype(np.float32)
    kinds = [{"temperature": 0}, {"top_p": 0.9}, {"typical_p": 0.9}, {"top_k": 20}, {}, {"top_k": 3000, "mirostat": 2}]
    rows = [Row(SamplingParams(**kinds[i % 6]), output=[1] * i, stream=i) for i in range(24)]
    together = drawn(logits, rows, None, KERNEL).tokens
    assert [int(drawn(logits[[i]], [row], None, KERNEL).tokens[0]) for i, row in enumerate(rows)] == together.tolist()


def test_empty_rows_fail_alone_and_are_blamed_on_whom_they_are_of():
    class Bans(BaseProcessor):
        name = "bans"

        def wants(self, row):
            return row.request_id == "banned"

        def apply(self, logits, rows):
            logits[:, :64] = -np.inf

    rows = [Row(SamplingParams(), stream=i, request_id="banned" if i == 2 else "r") for i in range(4)]
    mask = np.stack([bits.pack({3}, 128), bits.pack(set(), 128), bits.pack({7}, 128), bits.pack({9, 70}, 128)])
    outcome = drawn(np.zeros((4, 128), np.float32), rows, mask, KERNEL, Bans())
    assert outcome.faults.keys() == {1, 2} and outcome.tokens[0] == 3 and outcome.tokens[3] in (9, 70)
    assert outcome.faults[1].culprit is None and outcome.faults[2].culprit == "bans"
    assert all(isinstance(fault.error, EmptyMaskError) for fault in outcome.faults.values())


def test_what_it_does_not_fit_is_done_step_by_step():
    rows = [Row(SamplingParams(top_k=5), stream=i) for i in range(3)]
    logits = np.random.default_rng(1).normal(0, 1, (3, 100)).astype(np.float32)
    assert not KERNEL.fits(100)
    assert (drawn(logits, rows, None, KERNEL).tokens == drawn(logits, rows, None, None).tokens).all()
    wide = np.zeros((3, 8192), np.float32)  # more equal tokens than there is room for
    assert (drawn(wide, rows, None, KERNEL).tokens < 5).all()
