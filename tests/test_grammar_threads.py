"""What takes long under one grammar does not hold up those who decode under others of the same compiler."""

from __future__ import annotations

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from engine_schemas import random_schema
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.grammar.algebra import Algebra, effort
from slipcast.grammar.algebra.effort import PAUSED_AFTER
from slipcast.grammar.automaton import turns
from slipcast.grammar.automaton.values import ValueHandler

VOCABULARY = Vocabulary([*(bytes((byte,)) for byte in range(256)), None], [256])


def test_masks_are_filled_while_a_schema_is_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    matcher = compiler.json_schema({"type": "array", "items": {"enum": ["some", "thing"]}}).matcher()
    inside, go_on = threading.Event(), threading.Event()
    check = Algebra.require_satisfiable

    def slow(self: Algebra) -> None:
        inside.set()
        assert go_on.wait(30)
        check(self)

    monkeypatch.setattr(Algebra, "require_satisfiable", slow)
    compiling = threading.Thread(target=lambda: compiler.json_schema({"type": "integer", "maximum": 3}))
    compiling.start()
    try:
        assert inside.wait(30)
        decoded = threading.Event()

        def decode() -> None:
            row = np.zeros(VOCABULARY.words, np.int32)
            for byte in b'["some"]':
                matcher.fill_mask(row)
                assert row[byte >> 5] >> (byte & 31) & 1 and matcher.accept(byte)
            decoded.set()

        threading.Thread(target=decode, daemon=True).start()
        assert decoded.wait(20)
    finally:
        go_on.set()
        compiling.join()


def test_masks_are_filled_while_a_transition_of_another_grammar_is_worked_out(monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = GrammarCompiler(VOCABULARY)
    slow = compiler.json_schema({"type": "array", "items": {"type": "integer"}}, order="any").matcher()
    builder = slow._automaton.builder
    inside, over = threading.Event(), threading.Event()
    step = ValueHandler.step

    def long(self: ValueHandler, label: int, texts: object) -> object:
        if self.builder is builder and not over.is_set():
            inside.set()
            begun = time.monotonic()
            while not over.is_set() and time.monotonic() < begun + 20:
                builder.algebra.goals.effort.renew()
                builder.algebra.goals.effort.spend(PAUSED_AFTER + 1)  # as long as the algebra may take
        return step(self, label, texts)

    monkeypatch.setattr(ValueHandler, "step", long)
    masking = threading.Thread(target=lambda: slow.fill_mask(np.zeros(VOCABULARY.words, np.int32)))
    masking.start()
    try:
        assert inside.wait(20)
        # Nothing of this schema is known yet.
        fresh = {"properties": {"fresh": {"pattern": "^[a-f]+$"}}, "required": ["fresh"]}
        matcher = compiler.json_schema(fresh).matcher()
        row = np.zeros(VOCABULARY.words, np.int32)
        for byte in b'{"fresh":"abc"}':
            matcher.fill_mask(row)
            assert row[byte >> 5] >> (byte & 31) & 1 and matcher.accept(byte)
            assert matcher.way_out().fits(100)
        assert masking.is_alive()
    finally:
        over.set()
        masking.join()


def test_threads_that_pause_everywhere_get_the_masks_of_one_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(5)
    schemas = [random_schema(rng) for _ in range(12)]

    def masks(compiler: GrammarCompiler, schema: object, seed: int) -> list[object]:
        told: list[object] = []
        grammar = compiler.json_schema(schema)
        row = np.zeros(VOCABULARY.words, np.int32)
        matcher = grammar.matcher()
        for byte in grammar.sample(seed).encode()[:80]:
            matcher.fill_mask(row)
            told.append((row.tobytes(), matcher.way_out().data, matcher.forced()))
            assert matcher.accept(byte)
        return told

    jobs = [(schema, seed) for schema in schemas for seed in range(2)]
    wanted = [masks(GrammarCompiler(VOCABULARY), *job) for job in jobs]
    monkeypatch.setattr(effort, "PAUSED_AFTER", 0)
    monkeypatch.setattr(turns, "HELD", 0.0)
    monkeypatch.setattr(turns, "PAUSE", 1e-6)
    compiler = GrammarCompiler(VOCABULARY)
    with ThreadPoolExecutor(6) as pool:
        for _ in range(2):
            order = rng.sample(range(len(jobs)), len(jobs))
            got = list(pool.map(lambda i: masks(compiler, *jobs[i]), order))
            assert got == [wanted[i] for i in order]
    assert compiler._arena.tables.pauses.count > 100
