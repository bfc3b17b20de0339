"""What the assemblers of all endpoints share: token counts, log probabilities, and the reading of a choice's text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ...plugins import CallDelta, ContentDelta, ToolDelta, ToolParser
from .. import request as events
from ..request import Finished, TextDelta
from ..text import StopFinder, StopMatch
from . import wire


class Tally:
    """Which choices are still running, and the token counts of those that are done."""

    def __init__(self, prompts: Sequence[int], choices: int) -> None:
        """`prompts`: how long each prompt is, in tokens. `choices`: how many each of them has."""
        self._running = set(range(len(prompts) * choices))
        self._choices = choices
        self._prompt = sum(prompts)
        self._cached = [0] * len(prompts)
        self._completion = [0] * (len(prompts) * choices)
        self._reasoning = 0

    @property
    def done(self) -> bool:
        """True once every choice has finished."""
        return not self._running

    def running(self, index: int) -> bool:
        """Whether more of this choice is wanted."""
        return index in self._running

    def count(self, delta: TextDelta) -> None:
        """Count the tokens of a choice that may be ended here, before the engine ends it."""
        self._completion[delta.index] += len(delta.token_ids)

    def end(self, index: int) -> None:
        """Nothing more is wanted of the choice."""
        self._running.discard(index)

    def add(self, finished: Finished) -> None:
        """Count a choice that is done. A prompt is shared by its choices and counts once."""
        self.end(finished.index)
        prompt = finished.index // self._choices
        self._cached[prompt] = max(self._cached[prompt], finished.usage.cached_tokens)
        self._completion[finished.index] = finished.usage.completion_tokens
        self._reasoning += finished.usage.reasoning_tokens

    def usage(self) -> wire.Usage:
        """The counts in OpenAI's form."""
        completion = sum(self._completion)
        usage = wire.Usage(
            prompt_tokens=self._prompt,
            completion_tokens=completion,
            total_tokens=self._prompt + completion,
            prompt_tokens_details=wire.PromptTokensDetails(cached_tokens=sum(self._cached)),
        )
        if not self._reasoning:
            return usage
        details = wire.CompletionTokensDetails(reasoning_tokens=self._reasoning)
        return usage.model_copy(update={"completion_tokens_details": details})


class ChoiceReader:
    """Turns the text of one choice into content and calls.

    Stop strings end free text in the engine. Where the answer may also be a call, the engine's grammar covers the
    whole text and stop strings do not cut it: they are looked for here, in the content alone.
    """

    def __init__(self, parser: ToolParser | None, stops: Sequence[str]) -> None:
        self._parser = parser
        self._stops = StopFinder(stops)
        self.calls = 0
        self.stopped = False

    def push(self, text: str) -> list[ToolDelta]:
        """What the next piece of text adds; after a stop string, nothing."""
        if self._parser is None:
            return [ContentDelta(text)] if text else []
        return self._cut(self._parser.push(text))

    def end(self) -> list[ToolDelta]:
        """What was held back, at the end of the text."""
        deltas = self._cut(self._parser.end()) if self._parser is not None else []
        if not self.stopped and (rest := self._stops.flush()):
            deltas.append(ContentDelta(rest))
        return deltas

    def _cut(self, deltas: Sequence[ToolDelta]) -> list[ToolDelta]:
        kept: list[ToolDelta] = []
        for delta in deltas:
            if self.stopped:
                break
            if isinstance(delta, CallDelta):
                if rest := self._stops.flush():
                    kept.append(ContentDelta(rest))
                self.calls = max(self.calls, delta.index + 1)
                if delta.name is not None and delta.arguments:
                    # Clients expect a call's first delta to have a name and no arguments.
                    kept += [replace(delta, arguments=""), replace(delta, name=None)]
                else:
                    kept.append(delta)
                continue
            found = self._stops.push(delta.text)
            text = found.text if isinstance(found, StopMatch) else found
            self.stopped = isinstance(found, StopMatch)
            if text:
                kept.append(ContentDelta(text))
        return kept


ReaderFactory = Callable[[], ChoiceReader]


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


def notes_of(notes: Sequence[events.TokenNote]) -> list[wire.TokenNote]:
    """What the grammar did, token by token."""
    return [
        wire.TokenNote(
            token=note.text,
            bytes=list(note.data),
            forced=note.forced,
            allowed=note.allowed,
            removed=note.removed,
            pointer=note.pointer,
        )
        for note in notes
    ]
