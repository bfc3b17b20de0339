"""Plain completions: from a request to a job, from events to answers."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import uuid4

from ...samplers import SamplingParams
from .. import request as events
from ..chat import ChatContext, check_model
from ..errors import RequestError
from ..prompt import encode_text
from ..request import Finished, GenerationRequest, TextDelta
from ..runs import Job
from . import completion_types as wire
from .choices import Tally
from .constraints import one_source
from .errors import UnsupportedRequestError
from .sampling import plugin_options, sampling_options


@dataclass(frozen=True, slots=True)
class CompletionHead:
    """What an answer must carry whatever the model says. `echoed`: the text before each prompt's answers, or ""."""

    id: str
    model: str
    created: int
    prompts: tuple[int, ...]
    choices: int
    echoed: tuple[str, ...]
    top_logprobs: int | None
    includes_usage: bool


def prepare(context: ChatContext, body: wire.CompletionRequest) -> Job[wire.Completion]:
    """Encode the prompts, check the options, compile the grammar.

    Names of special tokens in a prompt are those tokens: who writes the whole prompt writes its turns as well. Raises
    RequestError and SamplingError for options, GrammarError for constraints.
    """
    service = context.service
    check_model(body.model, context.model)
    _refuse_unsupported(body)
    top = body.logprobs
    params = SamplingParams(
        **sampling_options(body),
        max_tokens=wire.DEFAULT_MAX_TOKENS if body.max_tokens is None else body.max_tokens,
        logprobs=top is not None,
        top_logprobs=top or 0,
    )
    params.check_vocabulary(service.tokenizer.size)
    told = plugin_options(service.plugins, body)
    prompts = [
        encode_text(service.tokenizer, prompt, limit=service.context_length, special=True)
        if isinstance(prompt, str)
        else tuple(prompt)
        for prompt in body.prompts
    ]
    echoed = [""] * len(prompts)
    if body.echo:
        _check_ids(prompts, service.tokenizer.size)
        echoed = [prompt if isinstance(prompt, str) else service.tokenizer.decode(prompt) for prompt in body.prompts]
    source = one_source(body)
    grammar = None if source is None else service.compile(*source)
    head = CompletionHead(
        id=f"cmpl-{uuid4().hex}",
        model=context.model,
        created=int(time.time()),
        prompts=tuple(map(len, prompts)),
        choices=params.n,
        echoed=tuple(echoed),
        top_logprobs=top,
        includes_usage=body.includes_usage,
    )
    requests = tuple(GenerationRequest(prompt, params, grammar, **told) for prompt in prompts)
    return Job(requests, CompletionAssembler(head, stream=bool(body.stream)), stream=bool(body.stream))


def field_names(name: str) -> str:
    """What an option of the sampler is called here."""
    return "logprobs" if name == "top_logprobs" else name


def _refuse_unsupported(body: wire.CompletionRequest) -> None:
    if body.suffix:
        raise UnsupportedRequestError("suffix is not supported", param="suffix", remedy="leave it out")
    if body.best_of is not None and body.best_of != (body.n or 1):
        raise UnsupportedRequestError(f"best_of {body.best_of} is not supported", param="best_of", remedy="give n")
    if body.echo and body.logprobs is not None:
        raise UnsupportedRequestError(
            "the log probabilities of a prompt are not computed", param="logprobs", remedy="leave out echo or logprobs"
        )
    if body.max_tokens == 0:
        raise UnsupportedRequestError("max_tokens is 0", param="max_tokens", remedy="ask for at least one token")


def _check_ids(prompts: Sequence[Sequence[int]], size: int) -> None:
    wrong = next((token for prompt in prompts for token in prompt if not 0 <= token < size), None)
    if wrong is not None:
        raise RequestError(f"the prompt holds {wrong}, not a token id below {size}", param="prompt")


class CompletionAssembler:
    """Events to the pieces of a stream, or to one answer."""

    def __init__(self, head: CompletionHead, *, stream: bool) -> None:
        self._head = head
        self._stream = stream
        count = len(head.prompts) * head.choices
        self._tally = Tally(head.prompts, head.choices)
        self._texts = [[head.echoed[index // head.choices]] for index in range(count)]
        self._tokens: list[list[events.TokenLogprob]] = [[] for _ in range(count)]
        self._offsets = [len(texts[0]) for texts in self._texts]
        self._finished: dict[int, Finished] = {}

    @property
    def done(self) -> bool:
        """True once every choice has finished."""
        return self._tally.done

    def feed(self, event: TextDelta | Finished) -> list[wire.Completion]:
        """What this event is worth: a piece of a stream, or at the end the answer."""
        index = event.index
        if isinstance(event, TextDelta):
            self._texts[index].append(event.text)
            self._tokens[index] += event.tokens
            return [self._piece([self._choice(index)])] if self._stream and (event.text or event.tokens) else []
        self._tally.add(event)
        self._finished[index] = event
        if self._stream:
            pieces = [self._piece([self._choice(index)])]
            if self.done and self._head.includes_usage:
                pieces.append(self._piece([]).model_copy(update={"usage": self._tally.usage()}))
            return pieces
        if not self.done:
            return []
        whole = self._piece([self._choice(index) for index in range(len(self._texts))])
        return [whole.model_copy(update={"usage": self._tally.usage()})]

    def _choice(self, index: int) -> wire.CompletionChoice:
        """What was gathered of the choice since the last time."""
        texts, self._texts[index] = self._texts[index], []
        tokens, self._tokens[index] = self._tokens[index], []
        finished = self._finished.get(index)
        choice = wire.CompletionChoice(
            index=index,
            text="".join(texts),
            logprobs=None if self._head.top_logprobs is None else self._logprobs(index, tokens),
            finish_reason=None if finished is None else finished.reason,
        )
        if finished is not None and finished.forced_close:
            return choice.model_copy(update={"forced_close": True})
        return choice

    def _logprobs(self, index: int, tokens: Sequence[events.TokenLogprob]) -> wire.CompletionLogprobs:
        offsets = []
        for token in tokens:
            offsets.append(self._offsets[index])
            self._offsets[index] += len(token.text)
        return wire.CompletionLogprobs(
            tokens=[token.text for token in tokens],
            token_logprobs=[token.logprob for token in tokens],
            top_logprobs=[{other.text: other.logprob for other in token.top} for token in tokens]
            if self._head.top_logprobs
            else None,
            text_offset=offsets,
        )

    def _piece(self, choices: list[wire.CompletionChoice]) -> wire.Completion:
        piece = wire.Completion(
            id=self._head.id,
            object="text_completion",
            created=self._head.created,
            model=self._head.model,
            choices=choices,
        )
        return piece.model_copy(update={"usage": None}) if self._stream and self._head.includes_usage else piece
