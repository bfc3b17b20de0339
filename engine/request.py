"""What goes into the engine and what comes out: requests and events, all frozen.

A request ends in exactly one of two ways: one `Finished` per choice (`params.n` of them), or a single `Failed`.
Events of one request come in order, from the engine's thread; those of different choices interleave.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal
from uuid import uuid4

from ..plugins.protocols import CompiledGrammar
from ..samplers import SamplingParams
from .errors import RequestError

FinishReason = Literal["stop", "length", "cancelled"]


def new_request_id() -> str:
    """A fresh id, unique without coordination."""
    return uuid4().hex


@dataclass(frozen=True, slots=True)
class Reasoning:
    """That a request's output begins with thinking.

    `end`: what ends it, not part of anything. `start`: dropped where the thinking begins with it. `budget`: most tokens
    of it; then the end marker is taken. None: as many as `max_tokens` leaves beside the shortest answer.
    Raises RequestError for an empty marker or a budget below 0.
    """

    end: str = "</think>"
    start: str = "<think>"
    budget: int | None = None

    def __post_init__(self) -> None:
        if not self.end:
            raise RequestError("the marker that ends the thinking is empty", param="reasoning")
        if self.budget is not None and (isinstance(self.budget, bool) or self.budget < 0):
            raise RequestError(
                f"the budget for thinking is {self.budget!r}", param="reasoning", remedy="give a number of tokens"
            )


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One prompt to continue.

    `prompt`: token ids, at least one, special tokens already in place (the engine adds none).
    `grammar`: what the output must match; one fresh matcher is taken per choice.
    `plugins`: parameters for plugins by their names, checked by `EngineService.plugin_options`. `user` and `priority`
    are for scheduling policies; a lower priority comes first.
    `reasoning`: the output begins with thinking; the grammar is for what comes after. `explain`: tell of each token
    what the grammar did (see `TokenNote`).
    """

    prompt: Sequence[int]
    params: SamplingParams = field(default_factory=SamplingParams)
    grammar: CompiledGrammar | None = None
    id: str = field(default_factory=new_request_id)
    plugins: Mapping[str, Any] = field(default_factory=dict)
    user: str | None = None
    priority: int = 0
    reasoning: Reasoning | None = None
    explain: bool = False

    def __post_init__(self) -> None:
        prompt = tuple(self.prompt)
        if not prompt:
            raise RequestError("the prompt is empty", param="prompt", remedy="give at least one token")
        if not all(type(token) is int for token in prompt):
            raise RequestError("the prompt holds something that is not a token id", param="prompt")
        object.__setattr__(self, "prompt", prompt)


@dataclass(frozen=True, slots=True)
class TopLogprob:
    """One alternative for a token. `text` holds U+FFFD where the bytes are not whole characters; `data` is exact."""

    token: int
    text: str
    data: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One token of the output, with the `top_logprobs` likeliest tokens at its place, best first."""

    token: int
    text: str
    data: bytes
    logprob: float
    top: tuple[TopLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one choice: `cached` of the `prompt` tokens were not computed again; `reasoning_tokens` of the
    completion were thinking.
    """

    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0


@dataclass(frozen=True, slots=True)
class TokenNote:
    """What the grammar did where a token came; `text` and `data` as in `TopLogprob`.

    `forced`: the grammar left no choice, or the token was taken to complete the text in time. `allowed`: how many
    tokens could come, None without a grammar. `removed`: the probability, under the model's raw distribution, of those
    that could not; None where the token came without a step of the model. `pointer`: of the part of the schema that was
    in force, as a JSON pointer; None where there is no schema.
    """

    token: int
    text: str
    data: bytes
    forced: bool
    allowed: int | None
    removed: float | None
    pointer: str | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """More text of one choice. `tokens` is filled where the request asked for logprobs; text may be empty then.

    `token_ids` are the tokens behind the text. Text is held back while it may still become a stop string, or while
    a character is incomplete. `reasoning` is what was thought before the answer, where the request has that. `notes`:
    one for each token where the request asked to `explain`.
    """

    index: int
    text: str
    tokens: tuple[TokenLogprob, ...] = ()
    token_ids: tuple[int, ...] = ()
    reasoning: str = ""
    notes: tuple[TokenNote, ...] = ()


@dataclass(frozen=True, slots=True)
class Finished:
    """A choice is done; nothing follows for its index.

    `reason`: "stop" (end token, stop string, or the grammar is complete), "length" (max_tokens or the context's end),
    "cancelled". `stop` is the stop string that was met. `forced_close`: the budget was about to end, so tokens were
    chosen that complete the text in time; without that it would have gone on.
    """

    index: int
    reason: FinishReason
    usage: Usage
    stop: str | None = None
    forced_close: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """The request failed; nothing follows for any choice. `error` is an EngineError or the typed error of a part."""

    error: Exception


Event = TextDelta | Finished | Failed
OnEvent = Callable[[Event], None]
