"""Ours and llama.cpp at the same tasks, in turns: what benchmarks/engine.py measures."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

from peers import NodeProcess
from slipcast.engine.runtime import LoadedModel, load_model

PROMPT = 16
DECODED = {1: 48, 4: 24, 16: 12, 64: 6}  # steps of a measurement, by batch
LONG = 4096  # tokens before those that `decode_at4096` decodes
CONTEXT = LONG + 256


@dataclass(frozen=True)
class Task:
    """Work that both engines do: the prefill of one prompt, or greedy decoding after several.

    At most `rounds` times. With `going_on` a round decodes behind what the one before it did; the prompt is read once.
    """

    name: str
    prompts: tuple[tuple[int, ...], ...]
    steps: int = 0
    rounds: int = 1 << 30
    going_on: bool = False

    @classmethod
    def prefill(cls, count: int) -> Task:
        return cls(f"prefill{count}", (tokens(count, 0),), rounds=1 if count > 1024 else 1 << 30)

    @classmethod
    def decode(cls, batch: int) -> Task:
        prompts = tuple(tokens(PROMPT, i) for i in range(batch))
        return cls(f"decode_b{batch}", prompts, DECODED[batch], rounds=2 if batch > 16 else 1 << 30)

    @classmethod
    def decode_far(cls) -> Task:
        return cls(f"decode_at{LONG}", (tokens(LONG, 0),), steps=12, rounds=5, going_on=True)


@dataclass(frozen=True)
class Room:
    """What llama.cpp sets aside: so many sequences of so many tokens. As little as tasks need, since it costs time."""

    context: int
    sequences: int

    @classmethod
    def of(cls, task: Task) -> Room:
        if len(task.prompts) > 16:
            return cls(64, 64)
        return cls(1024, 16) if len(task.prompts[0]) <= 512 else cls(CONTEXT, 1)


@dataclass(frozen=True)
class Measured:
    """Tokens done, and the seconds of CPU and of the wall clock that they took."""

    tokens: int
    cpu: float
    wall: float

    @property
    def rate(self) -> float:
        return self.tokens / self.cpu

    @property
    def wall_rate(self) -> float:
        return self.tokens / self.wall


Both: TypeAlias = tuple[list[Measured], list[Measured]]  # ours, and llama.cpp's


@dataclass(frozen=True)
class Result:
    """The rounds of a task: ours, and llama.cpp's (none without it)."""

    task: Task
    ours: tuple[Measured, ...]
    theirs: tuple[Measured, ...]

    @property
    def rate(self) -> float:
        return median(m.rate for m in self.ours)

    @property
    def ratio(self) -> float:
        """Our tokens per CPU-second over llama.cpp's of the same round."""
        return median(a.rate / b.rate for a, b in zip(self.ours, self.theirs, strict=True))

    @property
    def wall_ratio(self) -> float:
        return median(a.wall_rate / b.wall_rate for a, b in zip(self.ours, self.theirs, strict=True))


def tokens(count: int, seed: int) -> tuple[int, ...]:
    """Some ordinary tokens; which ones does not matter for speed."""
    return tuple(100 + (i * 37 + seed * 113) % 4000 for i in range(count))


class Slipcast:
    """Our side, in this process."""

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        self._going: list[list[int]] | None = None

    def run(self, task: Task) -> Measured:
        sequences = range(len(task.prompts))
        if self._going is None:
            for sequence in sequences:
                self.model.kv.add(sequence)
        try:
            return self._decode(task, sequences) if task.steps else self._prefill(task)
        finally:
            if not task.going_on:
                self.clear()

    def clear(self) -> None:
        """Forget the tokens of a task that goes on."""
        self._going = None
        for sequence in self.model.kv.sequences:
            self.model.kv.remove(sequence)

    def _prefill(self, task: Task) -> Measured:
        cpu, wall = time.process_time(), time.perf_counter()
        self._feed(0, task.prompts[0])
        return Measured(len(task.prompts[0]), time.process_time() - cpu, time.perf_counter() - wall)

    def _feed(self, sequence: int, prompt: Sequence[int]) -> None:
        chunk = self.model.prefill_chunk
        for start in range(0, len(prompt), chunk):
            self.model.step([sequence], [prompt[start : start + chunk]])

    def _decode(self, task: Task, sequences: Sequence[int]) -> Measured:
        last = self._going
        if last is None:
            for sequence, prompt in zip(sequences, task.prompts, strict=True):
                self._feed(sequence, prompt[:-1])
            last = [[prompt[-1]] for prompt in task.prompts]
        cpu, wall = time.process_time(), time.perf_counter()
        for _ in range(task.steps):
            chosen = self.model.step(sequences, last).argmax(-1)
            last = [[int(token)] for token in chosen]
        self._going = last if task.going_on else None
        return Measured(task.steps * len(last), time.process_time() - cpu, time.perf_counter() - wall)


class LlamaCpp(NodeProcess):
    """llama.cpp in a node process, which `llama.mjs` drives."""

    def __init__(self, model: Path, threads: int, room: Room) -> None:
        super().__init__("llama.mjs", model, threads, room.sequences, room.context)

    def run(self, task: Task) -> Measured:
        request: dict[str, Any] = {"prefill": task.prompts[0]}
        if task.steps:
            request = {"prompts": task.prompts, "decode": task.steps, "goingOn": task.going_on}
        return Measured(**self.ask(request))


def open_model(path: Path, threads: int) -> LoadedModel:
    """Ours; compiling the library for a new format takes a while, so it says so."""
    shown: set[str] = set()

    def progress(stage: str, share: float) -> None:
        if stage not in shown:
            shown.add(stage)
            print(f"  {stage}", file=sys.stderr, flush=True)

    return load_model(
        path, max_batch=64, max_context=CONTEXT, prefill_chunk=512, kv_tokens=2 * CONTEXT, threads=threads,
        progress=progress,
    )  # fmt: skip


def race(
    path: Path, tasks: Sequence[Task], *, threads: int, rounds: int, until: float, peer: bool
) -> tuple[LoadedModel, list[Result]]:
    """Our model, and what each task took. Each round measures a task on one engine, then on the other, and the next
    begins with the other. No round but a task's first begins after `until`.
    """
    ours = Slipcast(open_model(path, threads))
    done: dict[str, Both] = {task.name: ([], []) for task in tasks}
    for room in dict.fromkeys(map(Room.of, tasks)):
        theirs = LlamaCpp(path, threads, room) if peer else None
        try:
            for engine in (ours, theirs):  # the first of everything is slower: pages, caches, threads
                if engine:
                    engine.run(Task.prefill(32))
            _rounds(ours, theirs, [task for task in tasks if Room.of(task) == room], done, rounds, until)
        finally:
            ours.clear()
            if theirs:
                theirs.close()
    return ours.model, [Result(task, *map(tuple, done[task.name])) for task in tasks]


def _rounds(
    ours: Slipcast, peer: LlamaCpp | None, tasks: Sequence[Task], done: dict[str, Both], rounds: int, until: float
) -> None:
    number = 0
    # A task that goes on has all its rounds in a row, since it keeps its tokens.
    for group in (*([task] for task in tasks if task.going_on), [task for task in tasks if not task.going_on]):
        for _ in range(rounds):
            for task in group:
                mine, theirs = done[task.name]
                if len(mine) >= task.rounds or (mine and time.monotonic() > until):
                    continue
                sides = [(ours, mine), *([(peer, theirs)] if peer else [])]
                for engine, measured in sides if number % 2 == 0 else reversed(sides):
                    measured.append(engine.run(task))
            number += 1
        ours.clear()
