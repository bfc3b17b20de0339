"""Thinking before the answer: the marker however it is split, the grammar after it, budgets, and the text in two."""

from __future__ import annotations

import dataclasses
import json
import random

import jsonschema
import pytest
from engine_schemas import random_schema
from engine_toys import EOS, PADDED, SIZE, TEXT, Inbox, ids, run, toy_parts, toy_service, toy_tokenizer
from slipcast.engine.errors import RequestError
from slipcast.engine.reasoning import Marker, ReasoningStream, is_open, reasoning_matcher
from slipcast.engine.request import GenerationRequest, Reasoning, TextDelta
from slipcast.engine.service import Parts
from slipcast.engine.text import StopMatch
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.samplers import SamplingParams
from slipcast.samplers import masks as bits

THINK = Reasoning(end="</t>", start="<t>")


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(Vocabulary(TEXT, (EOS,), size=PADDED))


def thinking_parts(compiler: GrammarCompiler, **options: int) -> Parts:
    return dataclasses.replace(
        toy_parts(**options), compiler=compiler
    )


def thought(inbox: Inbox, index: int = 0) -> str:
    return "".join(e.reasoning for e in inbox.events if isinstance(e, TextDelta) and e.index == index)


def spelled(inbox: Inbox, index: int = 0) -> bytes:
    return b"".join(TEXT[token] or b"" for token in inbox.tokens(index))


@pytest.mark.parametrize("speculation", ["off", "prompt-lookup"])
@pytest.mark.parametrize("seed", range(3))
def test_thinking_then_a_valid_answer_within_any_budget(compiler, seed, speculation):
    rng = random.Random(seed)
    parts = thinking_parts(compiler, pages=100, context=300)
    with toy_service(parts, max_batch=8, speculation=speculation) as service:
        jobs = []
        for number in range(24):
            schema = random_schema(rng)
            grammar = compiler.json_schema(schema)
            shortest = grammar.matcher().distance() + len(THINK.end)
            budget = rng.choice([None, 0, 1, 5, 20])
            params = SamplingParams(
                temperature=rng.choice([0.0, 1.0, 2.0]), seed=number, n=rng.choice([1, 1, 2]),
                max_tokens=shortest + rng.choice([0, 1, 7, 40]), logprobs=rng.random() < 0.3,
                logit_bias={EOS: 100.0} if rng.random() < 0.3 else None,
            )  # fmt: skip
            reasoning = dataclasses.replace(THINK, budget=budget)
            jobs.append((schema, GenerationRequest(ids("p"), params, grammar, reasoning=reasoning), Inbox(params.n)))
        for _, r, inbox in jobs:
            service.submit(r, inbox)
        for schema, r, inbox in jobs:
            inbox.wait()
            for i in range(r.params.n):
                done = inbox.finished(i)
                assert done.reason == "stop" and done.usage.completion_tokens <= r.params.max_tokens
                before, _, after = spelled(inbox, i).partition(b"</t>")
                jsonschema.validate(json.loads(inbox.text(i)), schema)
                assert after.decode().lstrip("\n") == inbox.text(i)
                count = done.usage.reasoning_tokens - len(THINK.end)
                assert r.reasoning.budget is None or count <= r.reasoning.budget
                assert before.decode("utf-8", "replace").lstrip().removeprefix("<t>").lstrip("\n").startswith(
                    thought(inbox, i)[:3]
                )
    assert parts.cache.free_pages == parts.cache.total_pages


def test_a_budget_for_thinking_without_a_grammar(compiler):
    with toy_service(thinking_parts(compiler)) as service:
        r = GenerationRequest(
            ids("p"), SamplingParams(max_tokens=40, seed=3), reasoning=dataclasses.replace(THINK, budget=6)
        )
        inbox = run(service, r)
        assert spelled(inbox).partition(b"</t>")[1] and inbox.finished().usage.reasoning_tokens <= 6 + 4
        assert inbox.text() == spelled(inbox).partition(b"</t>")[2].decode("utf-8", "replace").lstrip("\n")


def test_without_grammar_and_budget_only_the_text_is_split(compiler):
    with toy_service(thinking_parts(compiler)) as service:
        free = run(service, GenerationRequest(ids("p"), SamplingParams(max_tokens=60, seed=3, ignore_eos=True)))
        end = free.text()[20:22]
        reasoning = Reasoning(end=end, start="")
        r = GenerationRequest(ids("p"), SamplingParams(max_tokens=60, seed=3, ignore_eos=True), reasoning=reasoning)
        inbox = run(service, r)
        before, _, after = free.text().partition(end)
        assert inbox.tokens() == free.tokens()
        assert (thought(inbox), inbox.text()) == (before.lstrip(), after)


def test_too_small_a_budget_counts_the_marker(compiler):
    grammar = compiler.json_schema({"const": 12345}, whitespace="compact")
    with toy_service(thinking_parts(compiler)) as service:
        with pytest.raises(RequestError, match="give at least 9"):
            r = GenerationRequest(ids("p"), SamplingParams(max_tokens=8), grammar, reasoning=THINK)
            service.submit(r, Inbox())
        r = GenerationRequest(ids("p"), SamplingParams(max_tokens=9), grammar, reasoning=THINK)
        inbox = run(service, r)
        assert (inbox.text(), thought(inbox), inbox.finished().forced_close) == ("12345", "", True)


def test_a_marker_that_cannot_be_spelled_is_refused(compiler):
    with toy_service(thinking_parts(compiler)) as service, pytest.raises(RequestError, match="cannot spell"):
        reasoning = Reasoning(end="\N{SNOWMAN}", budget=3)
        service.submit(GenerationRequest(ids("p"), SamplingParams(), reasoning=reasoning), Inbox())


def test_masks_and_accepts_agree_and_the_marker_ends_with_a_token(compiler):
    """Along random walks: a bit is set if and only if the token is taken, and rollback undoes it."""
    tokenizer = toy_tokenizer()
    marker = Marker("ing>", tokenizer, PADDED)  # the vocabulary has "ing "-like tokens across its beginning
    free = bits.pack(range(SIZE), PADDED)
    rng = random.Random(1)
    for walk in range(30):
        matcher = reasoning_matcher(marker, compiler.regex("a+b").matcher(), rng.choice([None, 3]), free)
        row, again = free.copy(), free.copy()
        while not matcher.is_accepting():
            matcher.fill_mask(row)
            allowed = bits.unpack(row, PADDED).nonzero()[0].tolist()
            taken = [token for token in range(PADDED) if matcher.fork().accept(token)]
            assert taken == allowed, (walk, matcher._place)
            closing = [t for t in allowed if t < SIZE and TEXT[t] and TEXT[t] in b"ing>" and matcher.thinking]
            matcher.accept(rng.choice(closing or allowed if rng.random() < 0.7 else allowed))
            if rng.random() < 0.3:
                kept = matcher.fork()
                kept.rollback(1)
                kept.fill_mask(again)
                assert (again == row).all()
    with pytest.raises(IndexError):
        reasoning_matcher(marker, None, None, free).rollback(1)


@pytest.mark.parametrize("seed", range(20))
def test_text_is_split_alike_however_it_is_cut(seed):
    rng = random.Random(seed)
    text = rng.choice(["", "<think>", "<thi", "\n<think>\n"]) + rng.choice(["", "so < it </th is\n", "é"])
    answer = rng.choice(["", "\n\nYes, </think> é", "stop here"])
    data = (text + "</think>" + answer).encode()
    stream, pushed, stopped = ReasoningStream(Reasoning(), frozenset(), ["here"]), "", False
    while data and not stopped:
        size = rng.randrange(1, 6)
        piece, data = data[:size], data[size:]
        out = stream.push(piece)
        stopped = isinstance(out, StopMatch)
        pushed += out.text if isinstance(out, StopMatch) else out
    pushed += "" if stopped else stream.flush()
    wanted = text.lstrip()
    assert stream.take_thought() == wanted.removeprefix("<think>").lstrip("\n")
    assert pushed == answer.lstrip("\n").partition("here")[0]


def test_a_marker_that_is_a_special_token():
    stream = ReasoningStream(Reasoning(), frozenset({7}))
    assert [stream.push(b"thin", 1), stream.push(b"k", 2), stream.push(b"", 7), stream.push(b"yes", 3)] == [
        "", "", "", "yes",
    ]  # fmt: skip
    assert (stream.take_thought(), stream.thought_tokens) == ("think", 3)


@pytest.mark.parametrize(
    ("prompt", "is_it"),
    [
        ("<user>hi<assistant>", True),
        ("<assistant><think>\n", True),
        ("<assistant><think>\n\n</think>\n\n", False),
        ("earlier <think>x</think> answer <assistant>", True),
        ("earlier <think>x</think> answer <assistant><think>", True),
    ],
)
def test_templates_that_close_it_at_once(prompt, is_it):
    assert is_open(prompt, Reasoning()) is is_it
