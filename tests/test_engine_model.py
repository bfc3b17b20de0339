"""The engine with the real model: batching, seeds, choices, preemption and faults change nothing of others' outputs."""

from __future__ import annotations

import dataclasses
import json
import random
import re
import threading
from collections.abc import Iterator
from dataclasses import replace

import jsonschema
import pytest
from engine_schemas import random_schema
from engine_toys import Inbox, run
from slipcast.engine.config import EngineConfig
from slipcast.engine.errors import DownloadError, PluginFault, RequestError
from slipcast.engine.request import GenerationRequest
from slipcast.engine.service import EngineService, Parts
from slipcast.plugins import BaseProcessor, create_manager, hookimpl
from slipcast.samplers import SamplingParams

pytestmark = pytest.mark.model

QUESTIONS = [
    "Name three colours.",
    "What is the capital of France?",
    "Write a poem about rain.",
    "Count to ten.",
    "Why is the sky blue?",
    "Give a recipe for bread, with all its steps and why each of them is needed, for somebody who has never baked.",
    "Translate 'good morning' to German.",
    "Who was Ada Lovelace?",
]
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"enum": ["kind", "tall", "old"]}, "maxItems": 3},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}
TREE = {
    "$defs": {"node": {
        "type": "object",
        "properties": {"v": {"type": "number"}, "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]}},
        "required": ["v", "next"],
        "additionalProperties": False,
    }},
    "$ref": "#/$defs/node",
}  # fmt: skip


@pytest.fixture(scope="module")
def parts() -> Parts:
    from slipcast.engine.assembly import open_parts

    try:
        return open_parts(EngineConfig(max_batch=8, max_context=1024, kv_tokens=8192, prefill_chunk=64))
    except DownloadError as error:
        pytest.skip(f"the default model cannot be had here: {error}")


def serve(parts: Parts, **options: object) -> EngineService:
    return EngineService(EngineConfig.read({"max_batch": 8, "prefill_chunk": 64, **options}), parts=parts)


@pytest.fixture
def service(parts: Parts) -> Iterator[EngineService]:
    with serve(parts) as service:
        yield service
    assert parts.cache.free_pages == parts.cache.total_pages


def ask(parts: Parts, question: str, schema: object = None, **params: object) -> GenerationRequest:
    system = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
    turns = (("system", system), ("user", question))
    text = "".join(f"<|im_start|>{role}\n{said}<|im_end|>\n" for role, said in turns)
    prompt = parts.tokenizer.encode(text + "<|im_start|>assistant\n")
    grammar = None if schema is None else parts.compiler.json_schema(schema)
    return GenerationRequest(prompt, SamplingParams(**{"max_tokens": 40, **params}), grammar=grammar)


def mixed(parts: Parts, **params: object) -> list[GenerationRequest]:
    """Eight requests: free, and under two schemas."""
    schemas = [None, PERSON, None, TREE, None, None, PERSON, None]
    return [ask(parts, q, schema, **params) for q, schema in zip(QUESTIONS, schemas, strict=True)]


def together(service: EngineService, requests: list[GenerationRequest]) -> list[list[int]]:
    inboxes = [Inbox(r.params.n) for r in requests]
    for r, inbox in zip(requests, inboxes, strict=True):
        service.submit(r, inbox)
    return [inbox.wait(120).tokens() for inbox in inboxes]


@pytest.fixture(scope="module")
def alone(parts: Parts) -> list[list[int]]:
    """Greedy tokens of each request, alone in an engine without any sharing."""
    with serve(parts, max_batch=1, kv_manager="plain") as service:
        return [run(service, r).tokens() for r in mixed(parts, temperature=0.0)]


def test_the_model_knows_a_capital(service, parts):
    prompt = "<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    params = SamplingParams(temperature=0.0, max_tokens=8)
    inbox = run(service, GenerationRequest(parts.tokenizer.encode(prompt), params))
    assert "Paris" in inbox.text()
    assert inbox.text() == parts.tokenizer.decode(inbox.tokens())


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kv_manager", ["prefix", "plain"])
def test_eight_requests_joining_at_random_steps_are_as_alone(parts, alone, kv_manager, seed):
    rng = random.Random(seed)
    order = rng.sample(range(8), 8)
    delays = [rng.choice([0.0, 0.005, 0.03, 0.08]) for _ in order]
    requests, inboxes = mixed(parts, temperature=0.0), [Inbox() for _ in order]
    with serve(parts, kv_manager=kv_manager) as service:
        for i, delay in zip(order, delays, strict=True):
            service.submit(requests[i], inboxes[i])
            threading.Event().wait(delay)
        assert [inbox.wait(120).tokens() for inbox in inboxes] == alone
        if kv_manager == "prefix":
            assert any(inbox.finished().usage.cached_tokens for inbox in inboxes)


def test_preemption_changes_nothing(parts, alone):
    class Small:
        """The real cache, with only some of its pages."""

        total_pages = 24
        page_size = parts.cache.page_size
        add, remove, fork, length = parts.cache.add, parts.cache.remove, parts.cache.fork, parts.cache.length

        @property
        def free_pages(self) -> int:
            return parts.cache.free_pages - parts.cache.total_pages + self.total_pages

    with serve(dataclasses.replace(parts, cache=Small()), kv_manager="plain") as service:
        assert together(service, mixed(parts, temperature=0.0)) == alone
        assert service.stats().preemptions > 0


def test_seeds_give_the_same_in_any_company(service, parts):
    requests = [dataclasses.replace(r, id=f"first{i}") for i, r in enumerate(mixed(parts, temperature=1.0, seed=11))]
    first = together(service, requests)
    again = [run(service, dataclasses.replace(r, id=f"again{i}")).tokens() for i, r in enumerate(requests)]
    assert first == again
    assert together(service, mixed(parts, temperature=1.0, seed=12)) != first


def test_choices_share_the_prompt_and_differ(service, parts):
    r = ask(parts, QUESTIONS[5], seed=3, n=4, max_tokens=24)
    inbox = run(service, r)
    texts = [inbox.text(i) for i in range(4)]
    assert len(set(texts)) == 4
    shared = len(r.prompt) - 1  # a page that is shared in part is copied; the last token's logits are each one's own
    assert [inbox.finished(i).usage.cached_tokens for i in range(4)] == [0, shared, shared, shared]
    single = run(service, ask(parts, QUESTIONS[5], seed=3, max_tokens=24))
    assert single.text() == texts[0]


def test_choices_under_a_grammar_have_their_own_place(service, parts):
    inbox = run(service, ask(parts, "A person as JSON.", PERSON, n=5, seed=2, max_tokens=150))
    for i in range(5):
        if inbox.finished(i).reason == "stop":
            jsonschema.validate(json.loads(inbox.text(i)), PERSON)
    assert len({inbox.text(i) for i in range(5)}) > 1


def test_a_budget_too_small_for_any_value_is_refused(service, parts):
    with pytest.raises(RequestError, match="max_tokens is 5, and the shortest text"):
        service.submit(ask(parts, "A person.", PERSON, max_tokens=5), Inbox())


def test_stop_strings(service, parts):
    whole = run(service, ask(parts, QUESTIONS[4], temperature=0.0)).text()
    cut = whole[17:24]
    inbox = run(service, ask(parts, QUESTIONS[4], temperature=0.0, stop=["never there", cut]))
    assert inbox.text() == whole[: whole.index(cut)]
    assert (inbox.finished().reason, inbox.finished().stop) == ("stop", cut)


def test_cancel_leaves_the_others_alone(service, parts, alone):
    seen = threading.Event()
    inbox = Inbox()

    def on_event(event: object) -> None:
        inbox(event)
        seen.set()

    doomed = ask(parts, "Tell a very long story.", max_tokens=800, ignore_eos=True)
    service.submit(doomed, on_event)
    others = [Inbox() for _ in alone]
    for r, other in zip(mixed(parts, temperature=0.0), others, strict=True):
        service.submit(r, other)
    assert seen.wait(30)
    service.cancel(doomed.id)
    assert inbox.wait().finished().reason == "cancelled"
    assert [other.wait(120).tokens() for other in others] == alone


def test_a_bad_plugin_fails_its_request_alone(parts, alone):
    class Bad(BaseProcessor):
        name, order = "bad", 1

        def wants(self, row):
            return row.params.seed == 666

        def apply(self, logits, rows):
            if len(rows[0].output) == 5:
                raise ZeroDivisionError("my fault")

    class Plugin:
        @hookimpl
        def slipcast_logits_processors(self):
            return [Bad()]

    with serve(dataclasses.replace(parts, plugins=create_manager(extra=[("bad", Plugin())]))) as service:
        inbox = Inbox()
        service.submit(ask(parts, "Hello", seed=666, ignore_eos=True), inbox)
        assert together(service, mixed(parts, temperature=0.0)) == alone
        error = inbox.wait().error()
        assert isinstance(error, PluginFault) and error.plugin == "bad" and "my fault" in str(error)


def test_logprobs_of_greedy_text(service, parts):
    inbox = run(service, ask(parts, QUESTIONS[1], temperature=0.0, logprobs=True, top_logprobs=2, max_tokens=6))
    tokens = [token for event in inbox.events if hasattr(event, "tokens") for token in event.tokens]
    assert "".join(token.text for token in tokens) == inbox.text()
    assert [token.token for token in tokens] == inbox.tokens()
    for token in tokens:
        assert token.top[0].token == token.token and token.top[0].logprob == token.logprob <= 0
        assert token.data == token.text.encode()


def test_padding_and_special_tokens_stay_out_of_constrained_text(service, parts):
    bias = dict.fromkeys(parts.tokenizer.special_ids, 100.0)
    inbox = run(service, ask(parts, "A person.", PERSON, logit_bias=bias, max_tokens=200, seed=1))
    assert not set(inbox.tokens()) & parts.tokenizer.special_ids


SCHEMAS = [
    PERSON,
    TREE,
    {"type": "boolean"},
    {"enum": ["red", "green", {"mixed": [1, 2]}, None]},
    {"const": "exactly this"},
    {"type": "integer", "minimum": -5, "maximum": 1999},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
    {"type": "string", "minLength": 3, "maxLength": 12},
    {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "minItems": 2, "maxItems": 4},
    {"type": "array", "prefixItems": [{"type": "string", "maxLength": 5}, {"type": "boolean"}], "items": False},
    {"type": "object", "additionalProperties": {"type": "integer"}, "maxProperties": 3},
    {"anyOf": [{"type": "string", "maxLength": 8}, {"type": "array", "items": {"type": "null"}, "maxItems": 2}]},
    {"type": ["integer", "null"]},
    {
        "type": "object",
        "properties": {"kind": {"const": "circle"}, "r": {"type": "number", "minimum": 0, "maximum": 9}},
        "required": ["kind", "r"],
        "additionalProperties": False,
    },
    {
        "oneOf": [
            {"type": "object", "properties": {name: kind}, "required": [name], "additionalProperties": False}
            for name, kind in (("a", {"type": "integer"}), ("b", {"type": "boolean"}))
        ]
    },
    {
        "type": "object",
        "properties": {
            "date": {"type": "string", "pattern": "^20[0-9]{2}-[01][0-9]-[0-3][0-9]$"},
            "items": {"type": "array", "maxItems": 3, "items": {
                "type": "object",
                "properties": {"sku": {"enum": ["A1", "B2"]}, "n": {"type": "integer", "minimum": 1, "maximum": 9}},
                "required": ["sku", "n"],
                "additionalProperties": False,
            }},
        },
        "required": ["date", "items"],
        "additionalProperties": False,
    },
    {"allOf": [{"type": "integer", "minimum": 3}, {"maximum": 30}]},
    {"type": "object", "properties": {"x": True}, "required": ["x"], "additionalProperties": False},
    {"type": "string", "enum": ["é", "日本", "😀", "\n\t\"\\"]},
]  # fmt: skip


@pytest.mark.slow
def test_two_hundred_constrained_completions_are_valid(service, parts):
    rng = random.Random(0)
    jobs = [(schema, seed) for schema in SCHEMAS for seed in range(10)]
    rng.shuffle(jobs)
    inboxes = [Inbox() for _ in jobs]
    for (schema, seed), inbox in zip(jobs, inboxes, strict=True):
        question = f"Answer with JSON for this schema: {json.dumps(schema)[:200]}"
        service.submit(ask(parts, question, schema, seed=seed, temperature=1.0, max_tokens=160), inbox)
    finished = 0
    for (schema, _), inbox in zip(jobs, inboxes, strict=True):
        if inbox.wait(600).finished().reason == "stop":
            finished += 1
            jsonschema.validate(json.loads(inbox.text()), schema)
    assert len(SCHEMAS) == 20 and finished > 150


@pytest.mark.parametrize("temperature", [0.0, 1.0, 2.0])
def test_any_budget_gives_complete_and_valid_output(service, parts, temperature):
    rng = random.Random(int(temperature))
    schemas = [rng.choice([rng.choice(SCHEMAS), random_schema(rng)]) for _ in range(16)]
    closed, jobs = 0, []
    for schema in schemas:
        shortest = parts.compiler.json_schema(schema).matcher().distance()
        limit = max(1, shortest + rng.choice([0, 1, 3, 10, 30]))
        r = ask(parts, "JSON, please.", schema, temperature=temperature, max_tokens=limit, seed=1)
        jobs.append((schema, r, Inbox()))
    for _, r, inbox in jobs:
        service.submit(r, inbox)
    for schema, r, inbox in jobs:
        done = inbox.wait(120).finished()
        assert done.reason == "stop" and len(inbox.tokens()) <= r.params.max_tokens
        jsonschema.validate(json.loads(inbox.text()), schema)
        closed += done.forced_close
    assert closed > 3


def test_jumping_forward_changes_no_greedy_text_of_these(parts):
    """Where the model itself, under the mask, spells as its tokenizer does. It need not: then the text may differ."""
    schemas = [SCHEMAS[i] for i in (2, 3, 5, 6, 7, 9, 13, 15, 17, 18)]

    def texts(jump_forward: bool) -> tuple[list[str], int]:
        with serve(parts, jump_forward=jump_forward) as service:
            inboxes = [Inbox() for _ in schemas]
            for schema, inbox in zip(schemas, inboxes, strict=True):
                question = "Answer with JSON about a person or thing."
                service.submit(ask(parts, question, schema, temperature=0.0, max_tokens=60), inbox)
            return [inbox.wait(120).text() for inbox in inboxes], service.stats().forced_tokens

    plain, none = texts(False)
    jumped, some = texts(True)
    assert jumped == plain and some > none == 0


@pytest.mark.parametrize(
    ("kind", "source", "fits"),
    [
        ("json_object", None, lambda text: isinstance(json.loads(text), dict)),
        ("regex", "[A-Z][a-z]{2,8}( [A-Z]\\.){2}", lambda text: re.fullmatch("[A-Z][a-z]{2,8}( [A-Z]\\.){2}", text)),
        ("choice", ["red", "green", "greenish blue"], lambda text: text in ["red", "green", "greenish blue"]),
    ],
)
def test_other_kinds_of_constraint_are_complete_within_their_budget(service, parts, kind, source, fits):
    grammar = service.compile(kind, source)
    shortest = max(1, grammar.matcher().distance())
    for extra in (0, 1, 4, 20):
        r = dataclasses.replace(ask(parts, QUESTIONS[0], max_tokens=shortest + extra, seed=extra), grammar=grammar)
        inbox = run(service, r)
        assert inbox.finished().reason == "stop" and fits(inbox.text())


def test_jump_forward_says_what_plain_decoding_says_in_the_tokenizers_own_tokens(parts):
    """Where only the tokenizer's own tokens are allowed, greedy outputs are the same; and else they differ only where
    plain decoding spelled what was forced otherwise than the tokenizer does, which jump-forward cannot foresee.
    """
    keys = ("street", "colour", "reason", "verdict", "maker", "summary", "country", "next_date")
    schemas = [
        {
            "type": "object",
            "properties": {key: {"enum": [f"first {key}", "second", None]}, "text": {"type": "string", "maxLength": 9}},
            "required": [key, "text"],
            "additionalProperties": False,
        }
        for key in keys
    ]  # fmt: skip

    def outputs(jump_forward: bool, canonical: bool) -> list[list[int]]:
        requests = [
            replace(ask(parts, question, temperature=0.0, max_tokens=60), grammar=grammar)
            for question, grammar in zip(QUESTIONS, grammars[canonical], strict=True)
        ]
        with serve(parts, jump_forward=jump_forward) as service:
            tokens = together(service, requests)
            assert (service.stats().forced_tokens > 10) == jump_forward
        return tokens

    grammars = [[parts.compiler.json_schema(s, canonical=canonical) for s in schemas] for canonical in (False, True)]
    assert outputs(True, canonical=True) == outputs(False, canonical=True)
    different = 0
    for plain, jumped in zip(outputs(False, canonical=False), outputs(True, canonical=False), strict=True):
        text = b"".join(map(parts.tokenizer.bytes_of, plain)).decode()
        if plain != jumped:
            assert tuple(plain) != parts.tokenizer.encode(text, special=False)
            different += 1
    assert different  # the default model is small: it does so
