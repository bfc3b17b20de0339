"""What the grammar did, token by token; and that nothing a request asks for gets round a mask, or leaves NaN behind."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math

import numpy as np
import pytest
from engine_toys import (
    EOS,
    PADDED,
    SIZE,
    TEXT,
    Inbox,
    ToyModel,
    WordMatcher,
    ids,
    run,
    toy_logits,
    toy_parts,
    toy_service,
)
from slipcast.engine.errors import GrammarFault, RequestFault
from slipcast.engine.request import GenerationRequest, Reasoning, TextDelta, TokenNote
from slipcast.engine.service import Parts
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.samplers import SamplingParams
from slipcast.samplers.logprobs import FLOOR
from test_engine_jumps import letters

SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"enum": ["guilty", "not proven"]}, "count": {"type": "integer", "minimum": 1}},
    "required": ["verdict", "count"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(Vocabulary(TEXT, (EOS,), size=PADDED))


def parts_of(compiler: GrammarCompiler, **options: int) -> Parts:
    return dataclasses.replace(
        toy_parts(**options), compiler=compiler
    )


def notes(inbox: Inbox) -> list[TokenNote]:
    return [note for event in inbox.events if isinstance(event, TextDelta) for note in event.notes]


@pytest.mark.parametrize("jump_forward", [True, False])
@pytest.mark.parametrize("speculation", ["off", "prompt-lookup"])
def test_notes_say_what_the_masks_did(compiler, jump_forward, speculation):
    grammar = compiler.json_schema(SCHEMA, whitespace="compact")
    parts = dataclasses.replace(parts_of(compiler), tokenizer=letters())
    with toy_service(parts, jump_forward=jump_forward, speculation=speculation) as service:
        params = SamplingParams(max_tokens=60, seed=3, temperature=0.7)
        r = GenerationRequest(ids("prompt"), params, grammar, explain=True)
        inbox = run(service, r)
        told = notes(inbox)
        plain = run(service, dataclasses.replace(r, id="plain", explain=False))
        assert plain.tokens() == inbox.tokens() and not notes(plain)
    assert [note.token for note in told] == inbox.tokens()
    matcher, row = grammar.matcher(), np.zeros(-(-PADDED // 32), np.uint32)
    for i, note in enumerate(told):
        matcher.fill_mask(row)
        allowed = np.unpackbits(row.view(np.uint8), bitorder="little")[:PADDED].astype(bool)
        assert note.pointer == matcher.pointer()
        weights = np.exp(toy_logits([*ids("prompt"), *inbox.tokens()[:i]]).astype(np.float64))
        if note.removed is not None:
            assert note.allowed == allowed.sum() and note.forced == (note.allowed == 1)
            assert note.removed == pytest.approx(weights[~allowed].sum() / weights.sum(), abs=1e-6)
        else:
            assert note.forced and jump_forward
        assert matcher.accept(note.token)
    assert {note.pointer for note in told} == {"", "/properties/verdict", "/properties/count"}
    assert any(note.removed is None for note in told) is jump_forward


def test_what_leads_home_counts_as_forced(compiler):
    with toy_service(parts_of(compiler)) as service:
        bias = {ids("]")[0]: -100.0, ids(",")[0]: 50.0}
        grammar = compiler.json_schema({"type": "array", "items": {"const": 7}}, whitespace="compact")
        params = SamplingParams(max_tokens=5, temperature=0.0, logit_bias=bias)
        inbox = run(service, GenerationRequest(ids("p"), params, grammar, explain=True))
        assert inbox.finished().forced_close
        assert notes(inbox)[-1].forced and notes(inbox)[-1].allowed > 1


def test_free_text_and_thinking(compiler):
    with toy_service(parts_of(compiler)) as service:
        free = run(service, GenerationRequest(ids("p"), SamplingParams(max_tokens=9, seed=1), explain=True))
        assert {(n.allowed, n.removed, n.pointer, n.forced) for n in notes(free)} == {(None, 0.0, None, False)}
        r = GenerationRequest(
            ids("p"), SamplingParams(max_tokens=40, seed=1), compiler.json_schema(SCHEMA), explain=True,
            reasoning=Reasoning(end="</t>", budget=3),
        )  # fmt: skip
        told = notes(run(service, r))
        assert told[0].pointer is None and "/properties/verdict" in {note.pointer for note in told}


EXTREMES = [
    {"logit_bias": dict.fromkeys(range(SIZE), -100.0)},
    {"logit_bias": dict.fromkeys(range(0, SIZE, 2), 100.0)},
    {"repetition_penalty": 100.0, "presence_penalty": 2.0, "frequency_penalty": 2.0},
    {"repetition_penalty": 0.01, "presence_penalty": -2.0, "frequency_penalty": -2.0},
    {"top_k": 1},
    {"top_p": 1e-9, "min_p": 1.0},
    {"typical_p": 0.01},
    {"top_n_sigma": 0.001},
    {"xtc_probability": 1.0, "xtc_threshold": 1e-6},
    {"dry_multiplier": 100.0, "dry_allowed_length": 1},
    {"mirostat": 2, "mirostat_tau": 1e-6},
    {"temperature": 100.0},
    {"temperature": 1e-30},
    {"grammar_aligned": True},
]


@pytest.mark.parametrize("options", EXTREMES, ids=lambda options: ",".join(options))
def test_no_option_gets_round_the_mask_or_empties_it(compiler, options):
    """Alone and in pairs with biases: the output is complete and valid, and every logprob can be written as JSON."""
    grammar = compiler.json_schema(SCHEMA)
    with toy_service(parts_of(compiler)) as service:
        pairs = [options, {**options, "logit_bias": {EOS: 100.0}}, {**options, "logit_bias": {EOS: -100.0}}]
        for i, (pair, logprobs) in enumerate(itertools.product(pairs, [False, True])):
            given = {"temperature": 1.0, "seed": i, "max_tokens": 70, **pair}
            if logprobs:
                given |= {"logprobs": True, "top_logprobs": 20}
            inbox = run(service, GenerationRequest(ids("p"), SamplingParams(**given), grammar))
            assert inbox.finished().reason == "stop" and grammar.accepts(inbox.text()), (given, inbox.text())
            told = [token for event in inbox.events if isinstance(event, TextDelta) for token in event.tokens]
            assert len(told) == (len(inbox.tokens()) if logprobs else 0)
            values = [value.logprob for token in told for value in (token, *token.top)]
            assert all(math.isfinite(value) and FLOOR <= value <= 0 for value in values)
            json.dumps(values, allow_nan=False)


def test_a_row_that_allows_nothing_fails_its_request_alone(compiler):
    class Dead(WordMatcher):
        def fill_mask(self, row: np.ndarray) -> None:
            if len(self.done) >= 2:
                row[:] = 0
            else:
                super().fill_mask(row)

    class Grammar:
        def matcher(self) -> Dead:
            return Dead(["abcdef"])

    for explain, logprobs in itertools.product([False, True], [False, True]):
        with toy_service(parts_of(compiler)) as service:
            dead, live = Inbox(), Inbox()
            params = SamplingParams(max_tokens=20, seed=1, logprobs=logprobs)
            service.submit(GenerationRequest(ids("p"), params, Grammar(), explain=explain), dead)
            r = GenerationRequest(ids("q"), dataclasses.replace(params, max_tokens=70), compiler.json_schema(SCHEMA))
            service.submit(r, live)
            assert isinstance(dead.wait().error(), GrammarFault) and "allows no token" in str(dead.error())
            assert live.wait().finished().reason == "stop"


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers_fail_their_row_alone(compiler, bad):
    parts = parts_of(compiler)

    class Broken(ToyModel):
        def step(self, sequence_ids, tokens, counts=None):
            logits = super().step(sequence_ids, tokens, counts)
            for i, sequence in enumerate(sequence_ids):
                if self.cache.sequences[sequence][0] == ids("x")[0]:
                    logits[i, 5] = bad
            return logits

    with toy_service(dataclasses.replace(parts, model=Broken(parts.cache))) as service:
        broken, fine = Inbox(), Inbox()
        grammar = compiler.json_schema(SCHEMA)
        params = SamplingParams(max_tokens=70, seed=1)
        service.submit(GenerationRequest(ids("x"), params, grammar, explain=True), broken)
        service.submit(GenerationRequest(ids("y"), params, grammar, explain=True), fine)
        assert isinstance(broken.wait().error(), RequestFault) and fine.wait().finished().reason == "stop"
