"""The checks for authors: what is right passes them, and each thing that can be wrong is found and named."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel
from slipcast.plugins import BaseProcessor, BaseSampler, BaseScheduler, PluginError, hookimpl
from slipcast.plugins.shipped_kv import PlainKV, PrefixKV
from slipcast.plugins.testing import (
    FakeCache,
    FakeEngine,
    FakeRequest,
    check_kv_manager,
    check_kv_start,
    check_plugin,
    check_processor,
    check_sampler,
    check_scheduler,
)
from slipcast.samplers import SamplingParams, SeededSampler, default_processors


class Options(BaseModel):
    token: int


class Ban(BaseProcessor):
    name = "ban"

    def wants(self, row: Any) -> bool:
        return row.options(Options) is not None

    def apply(self, logits: Any, rows: Any) -> None:
        for x, row in zip(logits, rows, strict=True):
            x[row.options(Options).token] = -np.inf


class Plugin:
    @hookimpl
    def slipcast_logits_processors(self) -> list[Ban]:
        return [Ban()]

    @hookimpl
    def slipcast_request_parameters(self) -> type[Options]:
        return Options


def test_a_sound_plugin_passes() -> None:
    check_plugin(Plugin(), parameters={"token": 5})
    requests = [FakeRequest(plugins={"ban": {"token": 5}}), FakeRequest()]
    banned, free = FakeEngine(("ban", Plugin())).generate(requests)
    assert 5 not in banned.tokens[0] and banned.error is None and free.error is None


EVERYTHING = SamplingParams(
    temperature=0.8, top_n_sigma=2, top_k=50, typical_p=0.9, top_p=0.9, min_p=0.01, xtc_probability=0.5, mirostat=2,
    repetition_penalty=1.1, presence_penalty=0.3, frequency_penalty=0.2, logit_bias={3: 1.0}, dry_multiplier=0.8,
)  # fmt: skip


@pytest.mark.parametrize("name", [p.name for p in default_processors() if not p.name.startswith("grammar_aligned")])
def test_the_engines_own_processors_keep_the_protocol(name: str) -> None:
    check_processor(lambda: next(p for p in default_processors() if p.name == name), params=EVERYTHING)


def test_the_engines_own_sampler_and_managers_keep_theirs() -> None:
    check_sampler(SeededSampler)
    check_kv_start(PlainKV, FakeCache())
    check_kv_start(PrefixKV, FakeCache())


@pytest.mark.parametrize("name", ["fcfs", "priority", "prefix", "fair"])
def test_the_engines_own_policies_keep_theirs(name: str) -> None:
    check_scheduler(Plugin(), name)


@pytest.mark.parametrize("name", ["plain", "prefix", "disk"])
def test_the_engines_own_kv_managers_keep_theirs(name: str) -> None:
    check_kv_manager(Plugin(), name)


class Wrong(BaseProcessor):
    name = "wrong"

    def __init__(self, how: str) -> None:
        self.how = how
        self.kept: list[Any] = []
        self.calls = 0
        self.seen: dict[Any, int] = {}
        self.argmax_invariant = how == "argmax"

    def wants(self, row: Any) -> bool:
        return self.how != "nobody"

    def apply(self, logits: Any, rows: Any) -> Any:
        self.calls += 1
        if self.how == "nan":
            logits[0, 1] = np.nan
        elif self.how == "infinity":
            logits[0, 1] = np.inf
        elif self.how == "empty":
            logits[-1] = -np.inf
        elif self.how == "company":
            logits -= logits.mean()
        elif self.how == "calls":
            logits[:, 1] += self.calls
        elif self.how == "returns":
            return logits + 1
        elif self.how == "argmax":
            logits[:, 4] += 100
        elif self.how == "keeps":
            self.kept += rows
        elif self.how == "rollback":
            for x, row in zip(logits, rows, strict=True):
                self.seen[row] = max(self.seen.get(row, 0), len(row.output))
                x[2] += self.seen[row]
        elif self.how == "preemption":
            logits[:, 2] += len(self.kept)
        return None

    def preempt(self, row: Any) -> None:
        if self.how == "preemption":
            self.kept.append(0)

    def release(self, row: Any, *, aborted: bool) -> None:
        self.seen.pop(row, None)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("nobody", "wants no row"), ("nan", "NaN"), ("infinity", "infinity"), ("empty", "no allowed token"),
        ("company", "depends on the other rows"), ("calls", "repeated"), ("returns", "in place"),
        ("argmax", "argmax_invariant"), ("keeps", "were released"), ("rollback", "rollback"),
        ("preemption", "preemption"),
    ],
)  # fmt: skip
def test_wrong_processors_are_found(how: str, said: str) -> None:
    with pytest.raises(AssertionError, match=said):
        check_processor(lambda: Wrong(how))


@pytest.mark.parametrize(
    ("how", "said"),
    [("forbidden", "not allowed"), ("float", "one id per row"), ("lowest", "greedy"), ("random", "depends")],
)
def test_wrong_samplers_are_found(how: str, said: str) -> None:
    class Theirs(BaseSampler):
        name = "theirs"

        def __init__(self) -> None:
            self.rng = np.random.default_rng(0)

        def choose(self, logits: Any, rows: Any) -> Any:
            highest = logits.argmax(axis=1)
            if how == "random":
                drawn = (logits + self.rng.gumbel(size=logits.shape)).argmax(axis=1)
                return np.where([row.params.greedy for row in rows], highest, drawn)
            lowest = np.where(np.isfinite(logits), -logits, -np.inf).argmax(axis=1)
            return {"forbidden": highest + 1, "float": highest * 1.0, "lowest": lowest}[how]

    with pytest.raises(AssertionError, match=said):
        check_sampler(Theirs)


def test_wrong_policies_are_found() -> None:
    class Theirs(BaseScheduler):
        name = "theirs"

        def __init__(self) -> None:
            self.kept: list[Any] = []

        def admit(self, waiting: Any, running: Any) -> int:
            self.kept += waiting
            return 0

    class Offers:
        @hookimpl
        def slipcast_scheduler(self, name: str) -> Theirs | None:
            return Theirs() if name == "theirs" else None

    with pytest.raises(AssertionError, match="keeps choices"):
        check_scheduler(Offers(), "theirs")
    with pytest.raises(PluginError, match="no active plugin"):
        check_scheduler(Offers(), "other")


def test_wrong_managers_are_found() -> None:
    class Theirs(PrefixKV):
        name = "theirs"

        def stop(self, sequence: int, /, *, keep: bool) -> None:
            raise KeyError("oh")

    class Offers:
        @hookimpl
        def slipcast_kv_manager(self, name: str, cache: Any) -> Theirs | None:
            return Theirs(cache) if name == "theirs" else None

    with pytest.raises(AssertionError, match="theirs failed"):
        check_kv_manager(Offers(), "theirs")
