"""SamplingParams: every option's range, errors that name it, and what is normalised."""

from __future__ import annotations

import dataclasses
import math

import pytest
from slipcast.samplers import SamplingError, SamplingParams


@pytest.mark.parametrize(
    ("option", "wrong"),
    [
        ("temperature", [-0.1, 100.5, math.nan, math.inf, "1", True, None]),
        ("top_p", [0, -1, 1.01, "x"]),
        ("top_k", [-1, 1.5, "3", True]),
        ("min_p", [-0.1, 1.1]),
        ("repetition_penalty", [0, -1, math.nan]),
        ("presence_penalty", [-2.1, 2.1]),
        ("frequency_penalty", [-2.1, 2.1]),
        ("seed", [1.5, "a", 1 << 64, -(1 << 63) - 1, True]),
        ("stop", ["", ["a", ""], [1], 7, b"a", ["x"] * 65]),
        ("max_tokens", [0, -1, 1.0]),
        ("n", [0, 129, True]),
        ("logprobs", [1, "yes", None]),
        ("top_logprobs", [-1, 21]),
        ("ignore_eos", [0]),
        ("stop_cuts_grammar", ["no"]),
        ("logit_bias", [{"x": 1}, {-1: 1}, {1: 101}, {1: math.nan}, [1], "12", {1: 1, "1": 2}, {1.5: 1}]),
    ],
)
def test_wrong_values_name_the_option(option, wrong):
    for value in wrong:
        with pytest.raises(SamplingError) as caught:
            SamplingParams(**{option: value})
        assert caught.value.option.startswith(option)
        assert option in str(caught.value) and "allowed" in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("option", "edges"),
    [
        ("temperature", [0, 100]),
        ("top_p", [1e-6, 1]),
        ("min_p", [0, 1]),
        ("presence_penalty", [-2, 2]),
        ("seed", [-(1 << 63), (1 << 64) - 1, None]),
        ("max_tokens", [1, None]),
        ("n", [1, 128]),
    ],
)
def test_edges_are_allowed(option, edges):
    for value in edges:
        assert getattr(SamplingParams(**{option: value}), option) == value


def test_top_logprobs_need_logprobs():
    with pytest.raises(SamplingError, match="top_logprobs"):
        SamplingParams(top_logprobs=1)
    assert SamplingParams(top_logprobs=1, logprobs=True).top_logprobs == 1


def test_normal_forms():
    params = SamplingParams(stop="a", logit_bias={"7": 1, 3: -2.5})
    assert params.stop_strings == ("a",)
    assert params.bias_pairs == ((3, -2.5), (7, 1.0))
    assert SamplingParams(stop=["b", "b", "c"]).stop_strings == ("b", "c")
    assert SamplingParams(stop=None, logit_bias=None) == SamplingParams()
    assert dataclasses.replace(params, temperature=0.5).bias_pairs == params.bias_pairs
    assert hash(params) == hash(SamplingParams(stop=["a"], logit_bias=[(3, -2.5), (7, 1)]))


def test_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        SamplingParams().temperature = 0.5  # type: ignore[misc]


def test_bias_beyond_the_vocabulary():
    SamplingParams(logit_bias={9: 1}).check_vocabulary(10)
    with pytest.raises(SamplingError, match="logit_bias is 10"):
        SamplingParams(logit_bias={10: 1}).check_vocabulary(10)


def test_greedy():
    assert SamplingParams(temperature=0).greedy and SamplingParams(top_k=1).greedy
    assert not SamplingParams().greedy
