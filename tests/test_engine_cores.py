"""Room for long work on grammars beside the model's steps, and who has Python's interpreter."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest
from engine_toys import Inbox, ToyModel, ids, toy_parts
from slipcast.engine.cores import INTERPRETER, LOOK, SWITCH, Cores
from slipcast.engine.request import GenerationRequest
from slipcast.engine.runtime.cpu import LoadSample
from slipcast.engine.service import EngineService
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.grammar.courtesy import COURTESY, LONG
from slipcast.samplers import SamplingParams

VOCABULARY = Vocabulary([*(bytes((byte,)) for byte in range(256)), None], [256])
MANY = {"enum": [f"{a} of {b}" for a in range(40) for b in range(40)]}
"""A schema that takes some milliseconds, at least."""


class Threads:
    """A model's threads."""

    threads = 4

    def __init__(self) -> None:
        self.used = self.threads

    def use_threads(self, count: int) -> None:
        self.used = count


@pytest.fixture
def cores() -> Iterator[Cores]:
    made = Cores(Threads())
    yield made
    made.close()


def used(cores: Cores) -> int:
    """The threads of the next step."""
    cores.begin()
    found: int = cores._model.used
    cores.end(0.001, 0.001)
    return found


def test_a_step_beside_long_work_leaves_it_a_core(cores: Cores) -> None:
    assert used(cores) == 4
    with COURTESY.working():
        assert used(cores) == 4  # it has only begun
        time.sleep(2 * LONG)
        assert used(cores) == 3
    assert used(cores) == 4


def test_long_work_waits_for_the_end_of_a_step_on_all_cores(cores: Cores) -> None:
    cores.begin()
    compiled = threading.Event()
    compiler = GrammarCompiler(VOCABULARY)

    def work() -> None:
        compiler.json_schema(MANY)
        compiled.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert not compiled.wait(0.2)
    cores.end(0.2, 0.2)
    cores.begin()
    assert cores._model.used == 3
    assert compiled.wait(10)
    thread.join()
    assert not COURTESY.is_needed()


def test_a_host_that_is_stuck_is_waited_for_in_vain_for_a_while(cores: Cores, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipcast.grammar.courtesy.PATIENCE", 0.02)
    cores.begin()
    begun = time.perf_counter()
    with COURTESY.working():
        time.sleep(2 * LONG)
        COURTESY.pause()
    assert time.perf_counter() - begun < 5


def test_who_is_not_at_work_is_never_asked_to_wait(cores: Cores) -> None:
    cores.begin()
    time.sleep(2 * LONG)
    assert not COURTESY.disturbs()


def test_one_thread_while_other_programs_have_the_cores(cores: Cores, monkeypatch: pytest.MonkeyPatch) -> None:
    cores.begin()
    cores.end(0.1, 0.01)  # ten times as long as the thread ran
    assert used(cores) == 1
    monkeypatch.setattr(LoadSample, "clock", staticmethod(lambda: time.monotonic() + 2 * LOOK))
    monkeypatch.setattr("slipcast.engine.cores.free_threads", lambda since: 3)
    assert used(cores) == 1  # still crowded
    monkeypatch.setattr("slipcast.engine.cores.free_threads", lambda since: 4)
    assert used(cores) == 4


def test_the_interpreter_is_handed_over_soon_only_while_an_engine_waits() -> None:
    usual = sys.getswitchinterval()
    with INTERPRETER.wanted():
        with INTERPRETER.wanted():
            pass
        assert sys.getswitchinterval() == pytest.approx(SWITCH)
    assert sys.getswitchinterval() == pytest.approx(usual)


class WideModel(ToyModel):
    """A toy that says on how many threads its steps ran."""

    threads = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.used = 2
        self.seen: list[int] = []

    def use_threads(self, count: int) -> None:
        self.used = count

    def step(self, *arguments: object) -> np.ndarray:
        self.seen.append(self.used)
        time.sleep(0.002)
        return super().step(*arguments)  # type: ignore[arg-type]


def test_a_service_decodes_on_fewer_threads_beside_a_compilation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("slipcast.engine.cores.CROWDED", 1e9)
    parts = toy_parts()
    model = WideModel(parts.cache)  # type: ignore[arg-type]
    object.__setattr__(parts, "model", model)
    with EngineService(parts=parts) as service:
        inbox = Inbox()
        service.submit(GenerationRequest(ids("ab"), SamplingParams(max_tokens=100, ignore_eos=True)), inbox)
        while not model.seen:
            time.sleep(0.001)
        with COURTESY.working():
            inbox.wait()
    assert model.seen[0] == 2
    assert model.seen[-1] == 1
