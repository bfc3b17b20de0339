"""Constrained output is complete and valid within any budget that allows a valid text at all."""

from __future__ import annotations

import dataclasses
import json
import random

import jsonschema
import pytest
from engine_schemas import random_schema
from engine_toys import EOS, PADDED, TEXT, Inbox, ids, run, toy_parts, toy_service
from slipcast.engine.errors import ContextLengthError, RequestError
from slipcast.engine.request import Failed, GenerationRequest, TextDelta
from slipcast.engine.service import Parts
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.samplers import SamplingParams


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(Vocabulary(TEXT, (EOS,), size=PADDED))


def constrained_parts(compiler: GrammarCompiler, **options: int) -> Parts:
    return dataclasses.replace(
        toy_parts(**options), compiler=compiler
    )


def job(compiler: GrammarCompiler, rng: random.Random, schema: object) -> GenerationRequest:
    grammar = compiler.json_schema(schema)
    shortest = grammar.matcher().distance()
    params = SamplingParams(
        temperature=rng.choice([0.0, 1.0, 2.0]),
        seed=rng.randrange(1000),
        max_tokens=max(1, shortest + rng.choice([0, 0, 1, 2, 5, 12, 40])),
        logprobs=rng.random() < 0.3,
        n=rng.choice([1, 1, 1, 2]),
    )
    return GenerationRequest(ids("prompt"), params, grammar)


def check(request: GenerationRequest, inbox: Inbox, schema: object) -> int:
    closed = 0
    failed = [event.error for event in inbox.events if isinstance(event, Failed)]
    assert not failed, (failed, schema)
    for index in range(request.params.n):
        done = inbox.finished(index)
        tokens = inbox.tokens(index)
        assert done.reason == "stop" and len(tokens) <= request.params.max_tokens
        jsonschema.validate(json.loads(inbox.text(index)), schema)
        assert request.grammar.accepts(inbox.text(index))
        if request.params.logprobs:
            deltas = [event for event in inbox.events if isinstance(event, TextDelta) and event.index == index]
            assert [told.token for event in deltas for told in event.tokens] == tokens
        closed += done.forced_close
    return closed


@pytest.mark.parametrize("seed", range(4))
def test_every_output_is_valid_within_its_budget(compiler, seed):
    rng = random.Random(seed)
    closed = 0
    # Few pages, so that requests are put back and resumed as well.
    with toy_service(constrained_parts(compiler, pages=100, context=300), max_batch=8) as service:
        schemas = [random_schema(rng) for _ in range(40)]
        requests = [job(compiler, rng, schema) for schema in schemas]
        inboxes = [Inbox(request.params.n) for request in requests]
        for request, inbox in zip(requests, inboxes, strict=True):
            service.submit(request, inbox)
        for schema, request, inbox in zip(schemas, requests, inboxes, strict=True):
            closed += check(request, inbox.wait(), schema)
        assert service.stats().forced_closes == closed > 10


def test_the_same_request_ends_the_same_in_any_company(compiler):
    rng = random.Random(99)
    requests = [job(compiler, rng, random_schema(rng)) for _ in range(12)]

    def outputs(batch: int) -> list[list[list[int]]]:
        with toy_service(constrained_parts(compiler), max_batch=batch) as service:
            inboxes = [Inbox(request.params.n) for request in requests]
            for request, inbox in zip(requests, inboxes, strict=True):
                service.submit(dataclasses.replace(request, id=f"{batch}{request.id}"), inbox)
            return [[inbox.wait().tokens(i) for i in range(inbox.n)] for inbox in inboxes]

    assert outputs(1) == outputs(8)


def test_a_close_is_marked_and_only_a_close(compiler):
    grammar = compiler.json_schema({"type": "array", "items": {"const": 7}, "maxItems": 3}, whitespace="compact")
    with toy_service(constrained_parts(compiler)) as service:
        bias = {ids("]")[0]: -100.0, ids(",")[0]: 50.0}

        def ask(limit: int) -> tuple[str, bool]:
            params = SamplingParams(max_tokens=limit, temperature=0.0, logit_bias=bias)
            inbox = run(service, GenerationRequest(ids("p"), params, grammar))
            assert inbox.finished().reason == "stop"
            return inbox.text(), inbox.finished().forced_close

        assert ask(20) == ("[7,7,7]", False)
        assert ask(7) == ("[7,7,7]", False)
        assert ask(6) == ("[7,7]", True)
        assert ask(5) == ("[7,7]", True)
        assert ask(2) == ("[]", True)


def test_a_number_that_could_go_on_ends_with_the_budget(compiler):
    with toy_service(constrained_parts(compiler)) as service:
        params = SamplingParams(max_tokens=5, logit_bias={EOS: -100.0, **dict.fromkeys(ids("123456789"), 50.0)})
        inbox = run(service, GenerationRequest(ids("p"), params, compiler.regex("[1-9]+")))
        assert len(inbox.text()) == 5 and inbox.finished().forced_close and inbox.finished().reason == "stop"


def test_too_small_a_budget_is_refused_with_the_number(compiler):
    grammar = compiler.json_schema({"type": "array", "items": {"type": "null"}, "minItems": 20}, whitespace="compact")
    shortest = grammar.matcher().distance()
    with toy_service(constrained_parts(compiler, context=shortest + 10)) as service:
        with pytest.raises(RequestError, match=f"give at least {shortest}"):
            service.submit(GenerationRequest(ids("p"), SamplingParams(max_tokens=shortest - 1), grammar), Inbox())
        with pytest.raises(ContextLengthError, match=f"room for {shortest - 1} tokens of output"):
            service.submit(GenerationRequest(ids("p" * 11), SamplingParams(), grammar), Inbox())
        inbox = run(service, GenerationRequest(ids("p" * 10), SamplingParams(), grammar))
        assert len(json.loads(inbox.text())) == 20


GRAMMARS = [
    ("gbnf", 'root ::= "the " [a-z]+ " and " ("king" | "thing")'),
    ("lark", 'start: item+\nitem: "(" item* ")"'),
    ("ebnf", 'root ::= "[" (num ("," num)*)? "]"\nnum ::= [0-9] [0-9]?'),
]


@pytest.mark.parametrize(("syntax", "text"), GRAMMARS)
@pytest.mark.parametrize("speculation", ["off", "prompt-lookup"])
def test_grammar_texts_are_complete_within_their_budget(compiler, syntax, text, speculation):
    rng = random.Random(0)
    with toy_service(constrained_parts(compiler), speculation=speculation, max_batch=8) as service:
        grammar = service.compile("grammar", text, {"syntax": syntax})
        shortest = max(1, grammar.matcher().distance())
        jobs = []
        for i in range(16):
            params = SamplingParams(max_tokens=shortest + rng.choice([0, 1, 2, 9]), seed=i, temperature=float(i % 3))
            jobs.append((GenerationRequest(ids("prompt"), params, grammar), Inbox()))
        for request, inbox in jobs:
            service.submit(request, inbox)
        for request, inbox in jobs:
            assert inbox.wait().finished().reason == "stop" and grammar.accepts(inbox.text())
            assert len(inbox.tokens()) <= request.params.max_tokens


def test_free_text_then_a_schema_by_structural_tags(compiler):
    spec = {
        "type": "structural_tag",
        "format": {
            "type": "sequence",
            "elements": [
                {"type": "const_string", "value": "so: "},
                {"type": "json_schema", "json_schema": {"type": "array", "items": {"type": "null"}, "minItems": 1}},
            ],
        },
    }
    with toy_service(constrained_parts(compiler)) as service:
        grammar = service.compile("structural_tag", spec)
        for extra in range(4):
            params = SamplingParams(max_tokens=grammar.matcher().distance() + extra, seed=extra)
            inbox = run(service, GenerationRequest(ids("p"), params, grammar))
            assert inbox.text().startswith("so: ") and set(json.loads(inbox.text()[4:])) == {None}


def test_a_text_that_could_go_on_but_not_end_again_ends_in_time(compiler):
    with toy_service(constrained_parts(compiler)) as service:
        bias = {EOS: -100.0}
        for limit, text, closed in ((2, "ab", False), (3, "ab", True), (4, "abab", False), (5, "abab", True)):
            params = SamplingParams(max_tokens=limit, logit_bias=bias, logprobs=True)
            r = GenerationRequest(ids("p"), params, compiler.regex("(ab)+"), explain=True)
            inbox = run(service, r)
            assert (inbox.text(), inbox.finished().reason) == (text, "stop")
            assert inbox.finished().forced_close or not closed
            assert inbox.finished().usage.completion_tokens == len(inbox.tokens()) == len(text)
