"""Jump-forward: fewer steps, the same text."""

from __future__ import annotations

import dataclasses
import json

import pytest
from engine_toys import EOS, PADDED, TEXT, WORDS, Inbox, ids, run, toy_parts, toy_service
from slipcast.engine.jumps import Jumps
from slipcast.engine.request import GenerationRequest, TextDelta
from slipcast.engine.service import Parts
from slipcast.engine.tokenizer import TextTokenizer
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.samplers import SamplingParams
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

VOCABULARY = Vocabulary(TEXT, (EOS,), size=PADDED)
SCHEMA = {
    "type": "object",
    "properties": {"verdict": {"enum": ["guilty", "not proven"]}, "reason": {"type": "string", "maxLength": 6}},
    "required": ["verdict", "reason"],
    "additionalProperties": False,
}


def letters() -> TextTokenizer:
    """The toy's vocabulary, and a tokenizer that knows its longer words and else spells."""
    names = [*WORDS, "<half>", "<rest>", "<bad>"]
    tokenizer = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, unk_token="</s>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("the |and |ing|."), "isolated")
    return TextTokenizer(tokenizer, TEXT, bos_id=None, eos_ids=(EOS,))


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(VOCABULARY)


def parts_of(compiler: GrammarCompiler, **options: int) -> Parts:
    return dataclasses.replace(
        toy_parts(**options),
        tokenizer=letters(),
        compiler=compiler,
    )


def request(compiler: GrammarCompiler, number: int, **params: object) -> GenerationRequest:
    grammar = compiler.json_schema(SCHEMA, whitespace="compact")
    options = {"temperature": float(number % 2), "seed": number, "max_tokens": 80, **params}
    return GenerationRequest(ids(f"prompt {number}"), SamplingParams(**options), grammar)


def outputs(parts: Parts, requests: list[GenerationRequest], **options: object) -> tuple[list[object], object]:
    with toy_service(parts, **options) as service:
        inboxes = [Inbox(r.params.n) for r in requests]
        with parts.model.held():
            for r, inbox in zip(requests, inboxes, strict=True):
                service.submit(r, inbox)
        told = [
            [(inbox.wait().tokens(i), inbox.text(i), inbox.finished(i)) for i in range(inbox.n)] for inbox in inboxes
        ]
        for choices in told:
            for tokens, text, finished in choices:
                assert finished.stop or b"".join(TEXT[token] for token in tokens).decode() == text
                assert finished.usage.completion_tokens == len(tokens)
        usage_free = [[(tokens, text, f.reason, f.stop) for tokens, text, f in choices] for choices in told]
        return usage_free, service.stats()


@pytest.mark.parametrize("pages", [200, 40])
def test_the_same_output_in_fewer_steps(compiler, pages):
    requests = [request(compiler, i, n=1 + i % 3 // 2) for i in range(12)]
    plain, slow = outputs(parts_of(compiler, pages=pages), requests, jump_forward=False)
    jumped, fast = outputs(parts_of(compiler, pages=pages), requests, max_batch=8, prefill_chunk=64)
    assert plain == jumped
    assert slow.forced_tokens == 0 and fast.forced_tokens > 20 * len(requests) // 2
    assert fast.decoded_tokens == slow.decoded_tokens - fast.forced_tokens
    assert pages == 200 or fast.preemptions
    for choices in jumped:
        for _, text, reason, _ in choices:
            assert reason == "stop" and json.loads(text)["verdict"] in ("guilty", "not proven")


def test_tight_budgets_are_kept(compiler):
    grammar = compiler.json_schema(SCHEMA, whitespace="compact")
    shortest = grammar.matcher().distance()
    requests = [request(compiler, i, max_tokens=shortest + i % 4) for i in range(12)]
    jumped, stats = outputs(parts_of(compiler), requests)
    assert stats.forced_tokens > 0
    for [(tokens, text, reason, _)], r in zip(jumped, requests, strict=True):
        assert reason == "stop" and len(tokens) <= r.params.max_tokens and grammar.accepts(text)


def test_a_stop_string_cuts_forced_text_where_asked(compiler):
    r = request(compiler, 1, stop="dict", stop_cuts_grammar=True)
    jumped, stats = outputs(parts_of(compiler), [r])
    [[(_, text, reason, stop)]] = jumped
    assert (text, reason, stop) == ('{"ver', "stop", "dict") and stats.forced_tokens


def test_logprobs_are_of_every_token(compiler):
    with toy_service(parts_of(compiler)) as service:
        inbox = run(service, request(compiler, 2, logprobs=True))
        deltas = [event for event in inbox.events if isinstance(event, TextDelta)]
        assert [told.token for event in deltas for told in event.tokens] == inbox.tokens()
        assert service.stats().forced_tokens == 0


def test_the_split_is_the_tokenizers_own_and_its_end_is_left_open():
    jumps = Jumps(letters(), VOCABULARY.continued)

    def split(before: bytes, forced: bytes) -> list[bytes]:
        return [TEXT[token] for token in jumps._split(before, forced)]

    assert split(b'"', b"xyz") == [b"x", b"y", b"z"]
    assert split(b'"', b"singer") == [b"s", b"ing", b"e", b"r"]
    assert split(b'"', b"xi") == [b"x"]  # "ing" might follow
    assert split(b'"', b"xin") == [b"x"]
    assert split(b'"', b"xthe") == [b"x"]
    assert split(b'"', b"xthe!") == [b"x", b"t", b"h", b"e", b"!"]
    assert split(b"i", b"ng!") == []  # not where the tokenizer would have split
    assert split(b"\xe2", b"\x82\xac") == []
