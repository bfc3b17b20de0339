"""DRY against its definition, and the breakers, in the bytes of tokens."""

from __future__ import annotations

import numpy as np
import pytest
import sampling_reference as reference
from hypothesis import given, settings
from hypothesis import strategies as st
from sampling_reference import Row
from slipcast.samplers import Dry, SamplingParams

TOKENS = [b"a", b"b", b"ab", b"\n", b"x:", b"end", b'"', b"-", b"->", b">", None, "é".encode()]


def penalties(dry: Dry, row: Row, size: int = len(TOKENS)) -> np.ndarray:
    logits = np.zeros((1, size), np.float32)
    dry.apply(logits, [row])
    return logits[0]


@given(
    st.lists(st.integers(0, 11), max_size=14),
    st.lists(st.integers(0, 11), max_size=30),
    st.sampled_from([-1, 0, 1, 5, 12, 100]),
    st.integers(1, 4),
    st.sampled_from([(), ("\n", ":"), ("->",), ("a", "é"), ("b-", 'd"')]),
    st.data(),
)
@settings(max_examples=300, deadline=None)
def test_as_defined_while_the_text_grows_and_shrinks(prompt, text, window, allowed, breakers, data):
    params = SamplingParams(
        dry_multiplier=0.7, dry_base=1.5, dry_allowed_length=allowed, dry_penalty_last_n=window,
        dry_sequence_breakers=breakers,
    )  # fmt: skip
    row, dry = Row(params, prompt), Dry(TOKENS)
    for token in text:
        row.output.append(token)
        if data.draw(st.integers(0, 9)) == 0:
            del row.output[data.draw(st.integers(0, len(row.output))) :]
        if data.draw(st.booleans()):
            expected = reference.dry(np.zeros(len(TOKENS)), row, TOKENS)
            np.testing.assert_allclose(penalties(dry, row), expected, rtol=1e-5)


def test_a_sequence_grows_dearer_as_it_goes_on():
    params = SamplingParams(dry_multiplier=1.0, dry_base=2.0, dry_allowed_length=2)
    row, dry = Row(params, output=[1, 2, 5, 11, 9, 0, 1, 2]), Dry(TOKENS)
    assert penalties(dry, row)[5] == -1.0
    row.output.append(5)
    assert penalties(dry, row)[11] == -2.0
    row.output.append(3)
    assert not penalties(dry, row).any()  # a newline breaks


def test_long_repetitions_stay_finite():
    row = Row(SamplingParams(dry_multiplier=100.0, dry_base=4.0), output=[0, 1] * 500)
    got = penalties(Dry(TOKENS), row)
    assert np.isfinite(got).all() and got[0] < -1e20


@pytest.mark.parametrize("count", [2000])
def test_a_long_text_is_followed_in_linear_steps(count):
    rng = np.random.default_rng(0)
    row, dry = Row(SamplingParams(dry_multiplier=1.0), prompt=rng.integers(0, 9, count).tolist()), Dry(TOKENS)
    for token in rng.integers(0, 9, 50).tolist():
        penalties(dry, row)
        row.output.append(token)
    expected = reference.dry(np.zeros(len(TOKENS)), row, TOKENS)
    np.testing.assert_allclose(penalties(dry, row), expected, rtol=1e-5)
    dry.release(row, aborted=True)
    assert not dry._histories
