"""The policy by itself, and in the fake engine: no model is needed."""

from __future__ import annotations

import slipcast_deadlines
from slipcast.plugins.testing import FakeChoice, FakeEngine, FakeRequest, check_plugin, check_scheduler
from slipcast_deadlines import Deadline, EarliestDeadlineFirst


def choice(arrived: float, within: float | None) -> FakeChoice:
    plugins = {} if within is None else {"deadlines": Deadline(within=within)}
    return FakeChoice(arrived=arrived, plugins=plugins)


def test_the_earliest_deadline_goes_first_and_the_latest_is_put_back() -> None:
    line = [choice(0, None), choice(1, 9), choice(5, 2), choice(6, 30)]
    policy = EarliestDeadlineFirst()
    assert policy.admit(line, []) == 2
    assert policy.preempt(line) == 0
    assert policy.admit(line[:1], []) == 0


def test_it_keeps_what_the_protocol_promises() -> None:
    check_plugin(slipcast_deadlines)
    check_scheduler(slipcast_deadlines, "edf")


def test_it_serves_by_deadline() -> None:
    engine = FakeEngine(("deadlines", slipcast_deadlines), scheduler="edf", max_batch=1)
    requests = [FakeRequest(plugins={"deadlines": {"within": within}}) for within in (30, 20, 10)]
    answers = engine.generate(requests)
    assert all(len(answer.tokens[0]) == 8 and answer.error is None for answer in answers)
