"""Speculation with the real model: the outputs of plain decoding, bit for bit, in fewer steps."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace

import pytest
from engine_toys import SIZE, Inbox, toy_tokenizer
from slipcast.engine.config import EngineConfig
from slipcast.engine.errors import ConfigError, DownloadError
from slipcast.engine.request import GenerationRequest
from slipcast.engine.service import EngineService, Parts
from slipcast.engine.speculation.pace import Pace
from slipcast.samplers import SamplingParams

pytestmark = pytest.mark.model

RECORDS = [{"id": i, "name": f"item {i}", "colour": ["red", "blue"][i % 2]} for i in range(5)]
PROMPTS = [
    f"Repeat this list and continue it in the same way: {json.dumps(RECORDS)}",
    "Count from one to twenty in words, then do it again.",
    "Say 'the cat sat on the mat' five times.",
    "Why is the sky blue?",
]
LIST = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"id": {"type": "integer"}, "name": {"type": "string"}, "colour": {"enum": ["red", "blue"]}},
        "required": ["id", "name", "colour"],
        "additionalProperties": False,
    },
    "maxItems": 3,
}


@pytest.fixture(scope="module")
def parts() -> Parts:
    """The default model, and the same once more to guess for it."""
    from slipcast.engine.assembly import open_parts

    sizes = {"max_batch": 8, "max_context": 512, "kv_tokens": 4096, "prefill_chunk": 64}
    try:
        return open_parts(EngineConfig(speculation="draft", draft_model="smollm2-135m-instruct", **sizes))
    except DownloadError as error:
        pytest.skip(f"the default model cannot be had here: {error}")


@pytest.fixture(autouse=True)
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drafts of three for everybody, whatever the machine is doing beside."""

    def lengths(self, offers, tokens, room):
        return {choice: min(most, 3) for choice, most in offers.items() if room >= 3 * len(offers)}

    monkeypatch.setattr(Pace, "lengths", lengths)


def serve(parts: Parts, kind: str, **options: object) -> EngineService:
    draft = {"draft_model": "same"} if kind == "draft" else {}
    options = {"max_batch": 8, "prefill_chunk": 64, "speculation": kind, **draft, **options}
    return EngineService(EngineConfig.read(options), parts=parts)


def requests(parts: Parts) -> list[GenerationRequest]:
    grammar = parts.compiler.json_schema(LIST)
    kinds = [
        {"temperature": 0.0},
        {"temperature": 0.8, "seed": 5, "top_p": 0.9},
        {"temperature": 0.0, "repetition_penalty": 1.3, "logprobs": True, "top_logprobs": 2},
        {"temperature": 1.0, "seed": 2, "n": 2, "stop": ["4", " is"]},
    ]
    result = []
    for i, params in enumerate(kinds * 2):
        text = f"<|im_start|>user\n{PROMPTS[i % 4]}<|im_end|>\n<|im_start|>assistant\n"
        limit = 90 if i >= 4 else 30
        params = SamplingParams(**{"max_tokens": limit, **params})
        result.append(GenerationRequest(parts.tokenizer.encode(text), params, grammar if i >= 4 else None))
    return result


def outcomes(service: EngineService, jobs: list[GenerationRequest]) -> list[list[tuple]]:
    inboxes = [Inbox(job.params.n) for job in jobs]
    for job, inbox in zip(jobs, inboxes, strict=True):
        service.submit(job, inbox)
    found = []
    for job, inbox in zip(jobs, inboxes, strict=True):
        inbox.wait(240)
        logprobs = [token for event in inbox.events if hasattr(event, "tokens") for token in event.tokens]
        ends = [inbox.finished(i) for i in range(job.params.n)]
        texts = [(inbox.tokens(i), inbox.text(i)) for i in range(job.params.n)]
        found.append([(text, end.reason, end.stop, end.forced_close) for text, end in zip(texts, ends, strict=True)])
        found[-1].append(logprobs if job.params.n == 1 else [])
    return found


@pytest.fixture(scope="module")
def plain(parts: Parts) -> list[list[tuple]]:
    with serve(parts, "off") as service:
        return outcomes(service, requests(parts))


@pytest.fixture
def counted(parts: Parts) -> Iterator[None]:
    """No page of either cache is lost."""
    yield
    for cache in (parts.cache, parts.draft.cache):
        assert cache.free_pages == cache.total_pages and not cache.sequences


@pytest.mark.parametrize("kind", ["prompt-lookup", "draft"])
def test_outputs_are_those_of_plain_decoding(parts, plain, counted, kind):
    with serve(parts, kind) as service:
        assert outcomes(service, requests(parts)) == plain
        stats = service.stats()
    assert stats.accepted_tokens > 40
    if kind == "draft":
        # The same weights guess what they will say, but for penalties, which the verification alone applies, and for
        # ends of outputs.
        assert stats.accepted_tokens > 0.75 * stats.drafted_tokens


def test_preemption_in_the_middle_of_drafts(parts, plain):
    class Small:
        """The real cache, with only some of its pages."""

        total_pages, page_size = 24, parts.cache.page_size
        add, remove, fork = parts.cache.add, parts.cache.remove, parts.cache.fork
        length, truncate = parts.cache.length, parts.cache.truncate

        @property
        def free_pages(self) -> int:
            return parts.cache.free_pages - parts.cache.total_pages + self.total_pages

    with serve(replace(parts, cache=Small()), "prompt-lookup", kv_manager="plain") as service:
        assert outcomes(service, requests(parts)) == plain
        assert service.stats().preemptions > 0 and service.stats().accepted_tokens > 30


def test_a_draft_model_of_another_vocabulary_is_refused(parts):
    from slipcast.engine.assembly import _check_same_vocabulary

    _check_same_vocabulary(parts.tokenizer, parts.tokenizer, "same")
    with pytest.raises(ConfigError, match=f"'other' has {SIZE} tokens, and the model 49152") as caught:
        _check_same_vocabulary(parts.tokenizer, toy_tokenizer(), "other")
    assert caught.value.key == "draft_model"
