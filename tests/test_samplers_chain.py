"""The chain against plain definitions, written row by row in float64; and faults, which stay in their row."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling_reference import Row, distribution
from slipcast.samplers import (
    BadLogitsError,
    BaseProcessor,
    BaseSampler,
    EmptyMaskError,
    SamplerChain,
    SamplingParams,
    SeededSampler,
    default_processors,
    logprobs,
    masks,
)
from slipcast.samplers.random import stream, uniform

V = 77


def chain(*extra, sampler=None) -> SamplerChain:
    return SamplerChain([*default_processors(), *extra], sampler or SeededSampler())


def draw(chain, logits, rows, mask=None):
    for row in rows:
        assert chain.start(row) is None
    outcome = chain.run(np.array(logits, np.float32), rows, mask)
    for row in rows:
        assert chain.end(row) is None
    return outcome


OPTIONS = st.fixed_dictionaries({
    "temperature": st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    "top_k": st.sampled_from([0, 1, 3, 40, 500]),
    "top_p": st.sampled_from([0.1, 0.5, 0.9, 1.0]),
    "min_p": st.sampled_from([0.0, 0.05, 0.5]),
    "repetition_penalty": st.sampled_from([1.0, 1.3, 0.8]),
    "presence_penalty": st.sampled_from([0.0, 1.5, -1.0]),
    "frequency_penalty": st.sampled_from([0.0, 0.7]),
    "repeat_last_n": st.sampled_from([-1, 0, 3, 50]),
    "top_n_sigma": st.sampled_from([0.0, -1, 0.7, 2.0]),
    "typical_p": st.sampled_from([1.0, 0.2, 0.9]),
    "xtc_probability": st.sampled_from([0.0, 0.5, 1.0]),
    "xtc_threshold": st.sampled_from([0.02, 0.1, 0.6]),
    "dry_multiplier": st.sampled_from([0.0, 0.8]),
    "dry_allowed_length": st.sampled_from([1, 2]),
    "dry_penalty_last_n": st.sampled_from([-1, 0, 4, 9]),
    "mirostat": st.sampled_from([0, 2]),
    "mirostat_tau": st.sampled_from([0.5, 2.0]),
    "logit_bias": st.dictionaries(st.integers(0, V - 1), st.floats(-20, 20, width=16), max_size=4),
})


@given(st.lists(OPTIONS, min_size=1, max_size=4), st.integers(0, 2**32), st.booleans())
@settings(max_examples=150, deadline=None)
def test_the_draw_is_the_inverse_of_the_defined_distribution(options, seed, masked):
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 3, (len(options), V)).astype(np.float32)
    rows = [
        Row(SamplingParams(**o), rng.integers(0, 9, 9).tolist(), rng.integers(0, 9, 9).tolist(), stream=int(s))
        for o, s in zip(options, rng.integers(0, 2**62, len(options)), strict=True)
    ]
    allowed = rng.random((len(options), V)) < 0.3
    allowed[:, 5] = True
    packed = np.stack([masks.pack(np.flatnonzero(row), V) for row in allowed]) if masked else None
    outcome = draw(chain(), logits, rows, packed)
    assert not outcome.faults
    for i, row in enumerate(rows):
        expected = distribution(logits[i], row, allowed[i] if masked else None)
        at = uniform([row.stream], [len(row.output)])[0]
        cumulative = np.cumsum(expected)
        token = outcome.tokens[i]
        # float32 may move an edge by a little; the token drawn is the one whose share holds the number.
        assert cumulative[token] >= at - 1e-4 and cumulative[token] - expected[token] <= at + 1e-4
        assert expected[token] > 0 or min(abs(cumulative - at)) < 1e-4


def test_frequencies_follow_the_distribution():
    logits = np.log(np.array([[0.5, 0.25, 0.125, 0.125, 1e-30]], np.float32))
    row = Row(SamplingParams(seed=1))
    c = chain()
    c.start(row)
    drawn = []
    for _ in range(4000):
        drawn.append(int(c.run(logits.copy(), [row], None).tokens[0]))
        row.output.append(drawn[-1])
    shares = np.bincount(drawn, minlength=5) / len(drawn)
    assert np.abs(shares - [0.5, 0.25, 0.125, 0.125, 0]).max() < 0.03


def test_rows_do_not_depend_on_company():
    rng = np.random.default_rng(3)
    logits = rng.normal(0, 2, (24, 5000)).astype(np.float32)
    rows = [
        Row(SamplingParams(temperature=t, top_p=p, top_k=k), output=[1] * i, stream=i)
        for i, (t, p, k) in enumerate([(0.0, 1.0, 0), (1.0, 0.9, 0), (0.7, 1.0, 20), (1.0, 1.0, 0)] * 6)
    ]
    together = draw(chain(), logits, rows).tokens
    assert [int(draw(chain(), logits[[i]], [row]).tokens[0]) for i, row in enumerate(rows)] == together.tolist()
    order = rng.permutation(24)
    assert (draw(chain(), logits[order], [rows[i] for i in order]).tokens == together[order]).all()


def test_huge_and_tiny_temperatures_are_numbers():
    logits = np.random.default_rng(0).normal(0, 50, (2, 3000)).astype(np.float32)
    rows = [Row(SamplingParams(temperature=1e-300)), Row(SamplingParams(temperature=100.0))]
    outcome = draw(chain(), logits, rows)
    assert not outcome.faults and outcome.tokens[0] == logits[0].argmax()


def test_equal_logits_go_to_the_lower_id():
    outcome = draw(chain(), np.zeros((1, V)), [Row(SamplingParams(temperature=0))])
    assert outcome.tokens[0] == 0
    kept = {int(draw(chain(), np.zeros((1, V)), [Row(SamplingParams(top_k=3), stream=s)]).tokens[0]) for s in range(60)}
    assert kept == {0, 1, 2}


@given(st.sets(st.integers(0, 99)), st.integers(100, 140))
def test_masks_round_trip(tokens, size):
    packed = masks.pack(tokens, size)
    assert packed.dtype == np.uint32 and len(packed) == -(-size // 32)
    assert set(np.flatnonzero(masks.unpack(packed, size))) == tokens
    for token in tokens:
        assert packed[token // 32] >> np.uint32(token % 32) & 1
    assert masks.empty(packed[None])[0] == (not tokens)
    assert masks.only(packed[None], masks.pack({1, 2, 3}, size))[0] == (bool(tokens) and tokens <= {1, 2, 3})


def test_bits_beyond_the_logits_are_ignored():
    row = np.full((1, 1), 0xFFFFFFFF, np.uint32)
    assert draw(chain(), [[0, 1, 2, 1, 0]], [Row(SamplingParams(temperature=0))], row).tokens[0] == 2


def test_an_empty_mask_fails_its_row_alone():
    packed = np.stack([masks.pack({3}, V), masks.pack(set(), V), masks.pack({4}, V)])
    rows = [Row(SamplingParams(temperature=t)) for t in (1.0, 1.0, 0.0)]
    outcome = draw(chain(), np.zeros((3, V)), rows, packed)
    assert outcome.tokens.tolist() == [3, -1, 4]
    assert isinstance(outcome.faults[1].error, EmptyMaskError) and outcome.faults[1].culprit is None


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_bad_logits_fail_their_row_alone(bad):
    logits = np.zeros((2, V), np.float32)
    logits[0, 7] = bad
    outcome = draw(chain(), logits, [Row(SamplingParams(logprobs=True)), Row(SamplingParams(logprobs=True))])
    assert isinstance(outcome.faults[0].error, BadLogitsError) and outcome.faults.keys() == {0}
    assert outcome.tokens[1] >= 0 and outcome.logprobs.keys() == {1}


class Plugin(BaseProcessor):
    """A processor of someone else's, which treats rows of one request id badly."""

    name = "theirs"
    order = 50
    argmax_invariant = False

    def __init__(self, how, phase="edit"):
        self.how, self.phase, self.released = how, phase, []

    def wants(self, row):
        return True

    def apply(self, logits, rows):
        for i, row in enumerate(rows):
            logits[i, 2] += 0.5
            if row.request_id == "bad":
                if self.how == "raise":
                    logits[i] = 1e9
                    raise ValueError("mine")
                logits[i] = {"nan": np.nan, "inf": np.inf, "nothing": -np.inf, "everything": 1e9}[self.how]

    def release(self, row, aborted=False):
        self.released.append(row)


@pytest.mark.parametrize("phase", ["edit", "shape"])
@pytest.mark.parametrize("how", ["raise", "nan", "inf", "nothing"])
def test_a_bad_plugin_fails_its_row_alone(how, phase):
    rng = np.random.default_rng(5)
    logits = rng.normal(0, 3, (5, V)).astype(np.float32)
    rows = [Row(SamplingParams(), stream=i, request_id="bad" if i == 2 else "good") for i in range(5)]
    plugin = Plugin(how, phase)
    outcome = draw(chain(plugin), logits, rows)
    assert outcome.faults.keys() == {2} and outcome.faults[2].culprit == "theirs" and outcome.tokens[2] == -1
    good = [0, 1, 3, 4]
    without = draw(chain(Plugin("unused", phase)), logits[good], [rows[i] for i in good])
    assert outcome.tokens[good].tolist() == without.tokens.tolist()
    assert plugin.released == rows


@pytest.mark.parametrize("phase", ["edit", "shape"])
def test_a_plugin_cannot_raise_a_masked_token(phase):
    rows = [Row(SamplingParams(), request_id="bad", stream=s) for s in range(9)]
    packed = np.stack([masks.pack({3, 9}, V)] * 9)
    outcome = draw(chain(Plugin("everything", phase)), np.zeros((9, V)), rows, packed)
    assert set(outcome.tokens) == {3, 9} and not outcome.faults


@pytest.mark.parametrize("answer", [[5], [V], [-1], [0.5], [[1]], "x", None, [1, 2]])
def test_a_bad_sampler_fails_its_rows(answer):
    class Theirs(BaseSampler):
        name = "theirs"

        def choose(self, logits, rows):
            return np.array(answer) if rows[0].request_id == "bad" or len(rows) > 1 else np.array([1])

    rows = [Row(SamplingParams(), request_id=r) for r in ("good", "bad")]
    packed = np.stack([masks.pack({1, 2}, V)] * 2)
    outcome = draw(chain(sampler=Theirs()), np.zeros((2, V)), rows, packed)
    if answer == [1, 2]:
        # Right for two rows, wrong for none: nothing to complain of.
        assert outcome.tokens.tolist() == [1, 2]
    else:
        assert outcome.faults.keys() == {1} and outcome.tokens[0] == 1 and outcome.faults[1].culprit == "theirs"


def test_processors_are_ordered_by_phase_then_order():
    names = [processor.name for processor in chain(Plugin("x", "shape"), Plugin("y", "edit")).processors]
    assert names == [
        "theirs", "penalties", "logit_bias", "dry", "grammar_aligned_total",
        "grammar_aligned", "theirs", "temperature", "top_n_sigma", "top_k", "typical", "top_p", "min_p", "xtc",
        "mirostat",
    ]  # fmt: skip


def test_greedy_skips_what_cannot_change_the_highest():
    class Counting(Plugin):
        argmax_invariant = True

        def apply(self, logits, rows):
            raise AssertionError("not for greedy rows")

    outcome = draw(chain(Counting("x", "shape")), np.eye(1, V), [Row(SamplingParams(temperature=0, top_p=0.1))])
    assert outcome.tokens[0] == 0 and not outcome.faults


def test_penalties_follow_an_output_that_shrinks():
    row = Row(SamplingParams(temperature=0, frequency_penalty=2.0), output=[3, 3, 4])
    c = chain()
    c.start(row)
    logits = np.zeros((1, V), np.float32)
    logits[0, [3, 4, 5]] = [3.0, 2.5, 2.0]
    assert c.run(logits.copy(), [row], None).tokens[0] == 5
    del row.output[:]
    assert c.run(logits.copy(), [row], None).tokens[0] == 3
    row.output += [3]
    assert c.run(logits.copy(), [row], None).tokens[0] == 4


def test_logprobs_are_finite_and_json_safe():
    raw = np.array([0.0, -np.inf, 5.0, -200.0], np.float32)
    chosen = logprobs(raw, 1, 4)
    assert chosen.chosen == -9999.0
    assert [token for token, _ in chosen.top] == [2, 0, 3]
    assert json.loads(json.dumps(chosen.top, allow_nan=False))[0][1] == pytest.approx(-0.0067, abs=1e-3)
    x = np.random.default_rng(0).normal(0, 4, 300).astype(np.float32)
    exact = x.astype(float) - np.log(np.exp(x.astype(float)).sum())
    got = logprobs(x, 17, 20)
    assert got.chosen == pytest.approx(exact[17], abs=1e-5)
    assert [token for token, _ in got.top] == np.argsort(-exact)[:20].tolist()


def test_random_numbers():
    streams = [stream(seed, index) for seed in (0, 1, -1, 1 << 63) for index in range(3)]
    assert len(set(streams)) == 12
    numbers = uniform(streams * 500, [i // 12 for i in range(6000)])
    assert ((numbers >= 0) & (numbers < 1)).all() and abs(numbers.mean() - 0.5) < 0.01
    assert uniform([streams[3]], [41])[0] == uniform(streams, [41] * 12)[3]
    shares = np.histogram(numbers, 20, (0, 1))[0] / len(numbers)
    assert np.abs(shares - 0.05).max() < 0.012
