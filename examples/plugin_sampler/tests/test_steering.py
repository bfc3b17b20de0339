"""The plugin in the fake engine: no model is needed."""

from __future__ import annotations

import pytest
from slipcast.plugins import PluginOptionError
from slipcast.plugins.testing import FakeEngine, FakeRequest, check_plugin, check_sampler
from slipcast.samplers import SamplingParams
from slipcast_steering import Gumbel, SteeringPlugin

GREEDY = SamplingParams(max_tokens=20, temperature=0)


def engine(sampler: str = "seeded") -> FakeEngine:
    """Its tokens are single bytes."""
    return FakeEngine(("steering", SteeringPlugin()), sampler=sampler)


def test_it_keeps_what_the_protocols_promise() -> None:
    check_plugin(SteeringPlugin(), parameters={"words": ["a", "b"], "strength": 3})
    check_sampler(Gumbel)


def test_words_come_and_stay_away() -> None:
    towards, away, free = engine().generate(
        [
            FakeRequest(params=GREEDY, plugins={"steering": {"words": ["a"], "strength": 20}}),
            FakeRequest(params=GREEDY, plugins={"steering": {"words": ["a"], "strength": -20}}),
            FakeRequest(params=GREEDY),
        ]
    )
    assert set(towards.tokens[0]) == {ord("a")}
    assert ord("a") not in away.tokens[0] and away.error is None
    assert len(set(free.tokens[0])) > 3


@pytest.mark.parametrize("wrong", [{"words": [], "strength": 1}, {"words": ["a"]}, {"words": ["a"], "strength": 99}, 3])
def test_wrong_parameters_are_refused(wrong: object) -> None:
    with pytest.raises(PluginOptionError, match=r"plugins\.steering"):
        engine().generate([FakeRequest(plugins={"steering": wrong})])


def test_the_sampler_draws_what_the_model_says() -> None:
    requests = [FakeRequest(params=SamplingParams(max_tokens=5, seed=i)) for i in range(8)]
    together = [answer.tokens for answer in engine(sampler="gumbel").generate(requests)]
    alone = [engine(sampler="gumbel").generate([request])[0].tokens for request in requests]
    assert together == alone and len({str(tokens) for tokens in together}) == 8
