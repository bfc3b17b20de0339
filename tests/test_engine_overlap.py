"""Masks are filled while the model computes."""

from __future__ import annotations

import threading
import time

import pytest
from engine_toys import Inbox, WordGrammar, WordMatcher, ids, run, toy_parts, toy_service
from slipcast.engine.errors import GrammarFault
from slipcast.engine.overlap import LITTLE
from slipcast.engine.request import GenerationRequest
from slipcast.samplers import SamplingParams


class Watched(WordMatcher):
    """Waits, in each mask, until the model computes too."""

    computing = threading.Event()
    filled = threading.Event()

    def fill_mask(self, row) -> None:
        if threading.current_thread().name == "slipcast-masks":
            assert self.computing.wait(20)
            time.sleep(2 * LITTLE)  # so that the next is expected to take long as well
        super().fill_mask(row)
        self.filled.set()


def test_the_model_computes_while_masks_are_filled():
    class Grammar:
        def matcher(self):
            return Watched(["thing"])

    parts = toy_parts()

    def step(_: int) -> None:
        Watched.filled.clear()
        Watched.computing.set()
        assert Watched.filled.wait(20)
        Watched.computing.clear()

    parts.model.on_step = step
    with toy_service(parts) as service:
        assert run(service, GenerationRequest(ids("p"), SamplingParams(max_tokens=9), Grammar())).text() == "thing"


def test_masks_that_take_little_are_filled_at_once():
    class Grammar:
        def matcher(self):
            return Seen(["thing and more"])

    class Seen(WordMatcher):
        threads: list[str] = []  # noqa: RUF012

        def fill_mask(self, row) -> None:
            self.threads.append(threading.current_thread().name)
            super().fill_mask(row)

    with toy_service() as service:
        run(service, GenerationRequest(ids("p"), SamplingParams(max_tokens=20), Grammar()))
    assert Seen.threads[0] == "slipcast-masks" and Seen.threads.count("slipcast-engine") > 3


@pytest.mark.parametrize("failing", [2, 3])
def test_a_step_that_fails_leaves_no_mask_behind(failing):
    parts = toy_parts()

    def step(number: int) -> None:
        if number == failing:
            raise ZeroDivisionError("the model")

    parts.model.on_step = step
    with toy_service(parts) as service:
        params = SamplingParams(max_tokens=9, seed=1)
        assert "the model" in str(run(service, GenerationRequest(ids("p"), params, WordGrammar(["xyzxyz"]))).error())
        for texts in (["abc"], ["q"]):
            assert run(service, GenerationRequest(ids("p"), params, WordGrammar(texts))).text() == texts[0]


def test_a_matcher_that_raises_fails_its_request_alone():
    class Bad(WordMatcher):
        def fill_mask(self, row) -> None:
            if self.done:
                raise ZeroDivisionError("mine")
            super().fill_mask(row)

    class Grammar:
        def matcher(self):
            return Bad(["thing"])

    with toy_service() as service:
        bad, good = Inbox(), Inbox()
        params = SamplingParams(max_tokens=9)
        service.submit(GenerationRequest(ids("p"), params, Grammar()), bad)
        service.submit(GenerationRequest(ids("q"), params, WordGrammar(["abc"])), good)
        assert isinstance(bad.wait().error(), GrammarFault) and good.wait().text() == "abc"


def test_the_thread_ends_with_the_service():
    with toy_service() as service:
        run(service, GenerationRequest(ids("p"), SamplingParams(max_tokens=9), WordGrammar(["ab"])))
    assert "slipcast-masks" not in {thread.name for thread in threading.enumerate()}
