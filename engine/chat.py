"""Chat completions over the engine's service: what the request means, and what its events amount to.

A request goes `read` (types) -> `prepare` (prompt, sampling, grammar) -> `Run` (submitted; events become pieces)
and comes back as one `ChatCompletion` or as chunks. All of it is plain code on one thread; engine.py adds the two
ways of waiting for an event.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel, ValidationError

from ..plugins.protocols import CompiledGrammar
from ..samplers import SamplingParams
from . import request as events
from .api import types as wire
from .api.constraints import ChoiceFormat, RegexFormat, one_source
from .api.errors import ModelNotFoundError, from_validation
from .api.templates import ChatTemplate
from .errors import RequestError
from .prompt import PromptTokenizer, encode_prompt
from .request import Event, Failed, Finished, GenerationRequest, OnEvent, TextDelta
from .stats import Stats

Piece = TypeVar("Piece")
PieceOut = TypeVar("PieceOut", covariant=True)

# Options that mean the same to the wire and to the sampler, under the same name.
SHARED_OPTIONS = (
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "logit_bias",
    "seed",
    "stop",
    "n",
    "logprobs",
    "top_logprobs",
)
GRAMMAR_OPTIONS = ("order", "whitespace", "spelling")


class Tokenizer(PromptTokenizer, Protocol):
    """What a chat needs of the tokenizer."""

    @property
    def size(self) -> int: ...

    @property
    def chat_template(self) -> str | None: ...

    @property
    def bos_text(self) -> str: ...

    @property
    def eos_text(self) -> str: ...


class Service(Protocol):
    """What a chat needs of the engine's service."""

    @property
    def model_name(self) -> str: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def compiler(self) -> Any: ...

    @property
    def context_length(self) -> int: ...

    @property
    def closed(self) -> bool: ...

    def compile(self, kind: str, source: Any, options: Mapping[str, Any], /) -> CompiledGrammar: ...

    def submit(self, request: GenerationRequest, on_event: OnEvent, /) -> Any: ...

    def cancel(self, request_id: str, /) -> Any: ...

    def stats(self) -> Stats: ...

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class PreparedChat:
    """A request ready to be submitted, and what its answer must carry. `created` is in seconds since the epoch."""

    body: wire.ChatCompletionRequest
    request: GenerationRequest
    model: str
    created: int

    @property
    def id(self) -> str:
        """The id of the answer and of all its chunks."""
        return f"chatcmpl-{self.request.id}"


def read(body: Mapping[str, Any]) -> wire.ChatCompletionRequest:
    """A request from a parsed body. Raises BodyError, which names the field."""
    try:
        return wire.ChatCompletionRequest.model_validate(body)
    except ValidationError as error:
        raise from_validation(error, body) from error


def read_arguments(arguments: Mapping[str, Any]) -> wire.ChatCompletionRequest:
    """A request from the arguments of the Python API: an unknown one is no field to ignore but a mistake.

    `response_format` may be a pydantic model class: its JSON Schema is meant. Raises TypeError, and BodyError as
    `read`.
    """
    known = wire.ChatCompletionParams.__annotations__.keys() | {"stream"}
    if unknown := arguments.keys() - known:
        raise TypeError(f"create() got an unexpected keyword argument {min(unknown)!r}")
    wanted = arguments.get("response_format")
    if isinstance(wanted, type) and issubclass(wanted, BaseModel):
        schema = {"name": wanted.__name__, "schema": schema_of(wanted)}
        arguments = {**arguments, "response_format": {"type": "json_schema", "json_schema": schema}}
    return read(arguments)


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a pydantic model, closed where the model does not say that it takes more keys than its fields.

    pydantic leaves such objects open, and would drop what a language model adds to them.
    """
    schema = model.model_json_schema()
    for part in (schema, *schema.get("$defs", {}).values()):
        if "properties" in part:
            part.setdefault("additionalProperties", False)
    return schema


def prepare(service: Service, template: ChatTemplate, body: wire.ChatCompletionRequest) -> PreparedChat:
    """Render and encode the prompt, check the sampling options, compile the grammar. May take as long as the
    grammar does.

    Raises RequestError and SamplingError for options, GrammarError for `response_format`.
    """
    if body.model not in (None, "", service.model_name):
        raise model_not_found(body.model, service.model_name)
    if body.tools and body.tool_choice != "none":
        raise RequestError(
            "tools are not supported",
            param="tools",
            remedy="leave them out, or ask for the answer with response_format",
        )
    if isinstance(body.tool_choice, dict):
        raise RequestError("tool_choice names a tool, and there are no tools", param="tool_choice")
    params = sampling(body)
    params.check_vocabulary(service.tokenizer.size)
    prompt = encode_prompt(service.tokenizer, template, body.messages, limit=service.context_length)
    source = one_source(grammar_source(body.response_format), body)
    grammar = None if source is None else service.compile(*source)
    request = GenerationRequest(prompt=prompt, params=params, grammar=grammar)
    return PreparedChat(body=body, request=request, model=service.model_name, created=int(time.time()))


def model_not_found(asked: str, served: str) -> ModelNotFoundError:
    """The error for a model that is not the one served."""
    return ModelNotFoundError(f"the model {asked!r} is not served here", param="model", remedy=f"use {served!r}")


def sampling(body: wire.ChatCompletionRequest) -> SamplingParams:
    """The sampling options of a request; what it leaves out, or gives as null, has the sampler's default."""
    given = {name: value for name in SHARED_OPTIONS if (value := getattr(body, name)) is not None}
    return SamplingParams(**given, max_tokens=body.token_limit)


def grammar_source(wanted: wire.ResponseFormat | None) -> tuple[str, Any, Mapping[str, Any]] | None:
    """Kind, source and options of the grammar that `response_format` asks for, for EngineService.compile; None for
    free text.
    """
    if isinstance(wanted, wire.JsonSchemaResponseFormat):
        chosen = wanted.json_schema
        options = {name: value for name in GRAMMAR_OPTIONS if (value := getattr(chosen, name)) is not None}
        return "json_schema", chosen.schema_, options
    if isinstance(wanted, wire.JsonObjectFormat):
        return ("json_object", None, {}) if wanted.schema_ is None else ("json_schema", wanted.schema_, {})
    if isinstance(wanted, RegexFormat):
        return "regex", wanted.pattern, {}
    if isinstance(wanted, ChoiceFormat):
        return "choice", tuple(wanted.choices), {}
    return None


# ---------------------------------------------------------------------------------------------------- events to answers


class Tally:
    """Which choices are still running, and the token counts of those that are done."""

    def __init__(self, choices: int) -> None:
        self._running = set(range(choices))
        self._prompt = 0
        self._cached = 0
        self._completion = 0

    @property
    def done(self) -> bool:
        """True once every choice has finished."""
        return not self._running

    def add(self, finished: Finished) -> None:
        """Count a choice that is done. The prompt is shared by the choices and counts once."""
        self._running.discard(finished.index)
        self._prompt = max(self._prompt, finished.usage.prompt_tokens)
        self._cached = max(self._cached, finished.usage.cached_tokens)
        self._completion += finished.usage.completion_tokens

    def usage(self) -> wire.Usage:
        """The counts in OpenAI's form."""
        return wire.Usage(
            prompt_tokens=self._prompt,
            completion_tokens=self._completion,
            total_tokens=self._prompt + self._completion,
            prompt_tokens_details=wire.PromptTokensDetails(cached_tokens=self._cached),
        )


class ChunkAssembler:
    """Turns events into the chunks of a stream."""

    def __init__(self, prepared: PreparedChat) -> None:
        self._prepared = prepared
        self._tally = Tally(prepared.request.params.n)
        self._opened: set[int] = set()

    @property
    def done(self) -> bool:
        """True once the last chunk was made."""
        return self._tally.done

    def feed(self, event: TextDelta | Finished) -> list[wire.ChatCompletionChunk]:
        """The chunks that this event is worth, which may be none."""
        chunks = []
        if event.index not in self._opened:
            self._opened.add(event.index)
            chunks.append(self._chunk(event.index, wire.Delta(role="assistant", content="")))
        if isinstance(event, TextDelta):
            logprobs = logprobs_of(event.tokens) if self._prepared.body.logprobs else None
            if event.text or logprobs:
                chunks.append(self._chunk(event.index, wire.Delta(content=event.text), logprobs=logprobs))
            return chunks
        self._tally.add(event)
        chunks.append(self._chunk(event.index, wire.Delta(), finished=event))
        if self._tally.done and self._prepared.body.includes_usage:
            chunks.append(self._envelope([], usage=self._tally.usage()))
        return chunks

    def _chunk(
        self,
        index: int,
        delta: wire.Delta,
        *,
        logprobs: wire.ChoiceLogprobs | None = None,
        finished: Finished | None = None,
    ) -> wire.ChatCompletionChunk:
        reason = None if finished is None else finished.reason
        choice = wire.ChunkChoice(index=index, delta=delta, logprobs=logprobs, finish_reason=reason)
        if finished is not None and finished.forced_close:
            choice = choice.model_copy(update={"forced_close": True})
        return self._envelope([choice], usage=None)

    def _envelope(self, choices: list[wire.ChunkChoice], *, usage: wire.Usage | None) -> wire.ChatCompletionChunk:
        chunk = wire.ChatCompletionChunk(
            id=self._prepared.id,
            object="chat.completion.chunk",
            created=self._prepared.created,
            model=self._prepared.model,
            choices=choices,
        )
        # A field that is set is written: clients that asked for usage expect the key, null, in every other chunk.
        return chunk.model_copy(update={"usage": usage}) if self._prepared.body.includes_usage else chunk


class CompletionAssembler:
    """Gathers events into one answer."""

    def __init__(self, prepared: PreparedChat) -> None:
        choices = prepared.request.params.n
        self._prepared = prepared
        self._tally = Tally(choices)
        self._texts: list[list[str]] = [[] for _ in range(choices)]
        self._tokens: list[list[events.TokenLogprob]] = [[] for _ in range(choices)]
        self._reasons: list[wire.FinishReason] = ["stop"] * choices
        self._closed: set[int] = set()

    @property
    def done(self) -> bool:
        """True once every choice has finished."""
        return self._tally.done

    def feed(self, event: TextDelta | Finished) -> list[wire.ChatCompletion]:
        """The answer, once the last event is in; nothing before."""
        if isinstance(event, TextDelta):
            self._texts[event.index].append(event.text)
            self._tokens[event.index].extend(event.tokens)
            return []
        self._tally.add(event)
        self._reasons[event.index] = event.reason
        if event.forced_close:
            self._closed.add(event.index)
        return [self._answer()] if self._tally.done else []

    def _answer(self) -> wire.ChatCompletion:
        prepared = self._prepared
        choices = [
            wire.Choice(
                index=index,
                message=wire.AssistantMessage(role="assistant", content="".join(texts), refusal=None),
                logprobs=logprobs_of(tokens) if prepared.body.logprobs else None,
                finish_reason=reason,
                **({"forced_close": True} if index in self._closed else {}),
            )
            for index, (texts, tokens, reason) in enumerate(zip(self._texts, self._tokens, self._reasons, strict=True))
        ]
        return wire.ChatCompletion(
            id=prepared.id,
            object="chat.completion",
            created=prepared.created,
            model=prepared.model,
            choices=choices,
            usage=self._tally.usage(),
        )


def logprobs_of(tokens: Sequence[events.TokenLogprob]) -> wire.ChoiceLogprobs:
    """Log probabilities in OpenAI's form. `bytes` are exact where `token`, a text, cannot be."""
    content = [
        wire.TokenLogprob(
            token=token.text,
            logprob=token.logprob,
            bytes=list(token.data),
            top_logprobs=[
                wire.TopLogprob(token=other.text, logprob=other.logprob, bytes=list(other.data)) for other in token.top
            ],
        )
        for token in tokens
    ]
    return wire.ChoiceLogprobs(content=content, refusal=None)


class Assembler(Protocol[PieceOut]):
    """Events in, pieces of the answer out."""

    @property
    def done(self) -> bool: ...

    def feed(self, event: TextDelta | Finished, /) -> Sequence[PieceOut]: ...


class Run(Generic[Piece]):
    """A submitted request. Events are fed in one by one; `ready` holds the pieces that they made and nobody took yet.

    A run that is dropped before its end, without a word, is cancelled as well.
    """

    def __init__(
        self, service: Service, request: GenerationRequest, assembler: Assembler[Piece], on_event: OnEvent
    ) -> None:
        self.ready: deque[Piece] = deque()
        self._service = service
        self._request_id = request.id
        self._assembler = assembler
        self._over = True
        service.submit(request, on_event)
        self._over = False

    @property
    def done(self) -> bool:
        """True once no event will come any more: all is answered, or failed, or cancelled."""
        return self._over or self._assembler.done

    def feed(self, event: Event) -> None:
        """Take one event. Raises the error of a request that failed."""
        if isinstance(event, Failed):
            self._over = True
            raise event.error
        self.ready.extend(self._assembler.feed(event))

    def cancel(self) -> None:
        """Stop the request and free what it holds. Does nothing after its end."""
        if not self.done:
            self._over = True
            self.ready.clear()
            self._service.cancel(self._request_id)

    def __del__(self) -> None:
        self.cancel()
