"""From events to chat completions: one answer, or the chunks of a stream."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from ...grammar import GrammarError
from ...plugins import CallDelta, ToolDelta
from .. import request as events
from ..request import Finished, TextDelta
from . import types as wire
from .choices import ChoiceReader, ReaderFactory, Tally, logprobs_of, notes_of
from .wire import ChoiceLogprobs, Usage


@dataclass(frozen=True, slots=True)
class ChatHead:
    """What an answer must carry whatever the model says.

    `created` is in seconds since the epoch. `prompt` and `choices`: tokens of the prompt, and how many answers it gets.
    `named`: one tool was asked for by its name, which OpenAI's finish reasons do not count as the model's decision.
    `captures`: tells (name, text, start, end) of the grammar's named parts, if it has any.
    """

    id: str
    model: str
    created: int
    prompt: int
    choices: int
    logprobs: bool
    explain: bool
    includes_usage: bool
    named: bool
    reader: ReaderFactory
    captures: Callable[[str], Iterable[tuple[str, str, int, int]]] | None = None

    def captured(self, content: str) -> list[wire.CapturedPart] | None:
        """What the grammar's named parts matched; None where it has none, or the content is not whole."""
        if self.captures is None:
            return None
        try:
            found = self.captures(content)
        except GrammarError:  # cut short, or too hard to parse: the text itself is right
            return None
        return [wire.CapturedPart(name=name, text=text, start=start, end=end) for name, text, start, end in found]


def finish_reason(finished: Finished | None, reader: ChoiceReader, head: ChatHead) -> wire.FinishReason:
    """OpenAI's finish reason; `finished` is None for a choice that a stop string ended."""
    reason: wire.FinishReason = "stop" if finished is None else finished.reason
    return "tool_calls" if reason == "stop" and reader.calls and not head.named else reason


class ChunkAssembler:
    """Turns events into the chunks of a stream."""

    def __init__(self, head: ChatHead) -> None:
        self._head = head
        self._tally = Tally([head.prompt], head.choices)
        self._readers = [head.reader() for _ in range(head.choices)]
        self._opened: set[int] = set()
        self._content: dict[int, str] = {}

    @property
    def done(self) -> bool:
        """True once the last chunk was made."""
        return self._tally.done

    def feed(self, event: TextDelta | Finished) -> list[wire.ChatCompletionChunk]:
        """The chunks that this event is worth, which may be none."""
        index = event.index
        if not self._tally.running(index):
            return []
        chunks: list[wire.ChatCompletionChunk] = []
        reader = self._readers[index]
        if isinstance(event, TextDelta):
            self._tally.count(event)
            deltas = [_delta(delta) for delta in reader.push(event.text)]
            self._gather(index, deltas)
            if event.reasoning:
                deltas.insert(0, wire.Delta(reasoning_content=event.reasoning))
            logprobs = logprobs_of(event.tokens) if self._head.logprobs and event.tokens else None
            if (logprobs is not None or event.notes) and not deltas:
                deltas = [wire.Delta(content="")]
            if deltas:
                chunks += self._opening(index, deltas[0])
            for position, delta in enumerate(deltas):
                chunk = self._chunk(index, delta, logprobs=None if position else logprobs)
                chunks.append(chunk if position or not event.notes else _noted(chunk, "explain", notes_of(event.notes)))
            if not reader.stopped:
                return chunks
            self._tally.end(index)
        else:
            self._tally.add(event)
            deltas = [_delta(delta) for delta in reader.end()]
            self._gather(index, deltas)
            chunks += self._opening(index, deltas[0] if deltas else None)
            chunks += [self._chunk(index, delta) for delta in deltas]
        finished = event if isinstance(event, Finished) else None
        chunks.append(self._chunk(index, wire.Delta(), finished=finish_reason(finished, reader, self._head)))
        if finished is not None and finished.forced_close:
            chunks[-1] = _noted(chunks[-1], "forced_close", True)
        captured = self._head.captured(self._content.get(index, ""))
        if captured is not None:
            chunks[-1] = _noted(chunks[-1], "captures", captured)
        if self._tally.done and self._head.includes_usage:
            chunks.append(self._envelope([], usage=self._tally.usage()))
        return chunks

    def _gather(self, index: int, deltas: list[wire.Delta]) -> None:
        """Keeps a choice's content, where its captures are to be told."""
        if self._head.captures is not None:
            pieces = [delta.content for delta in deltas if delta.content]
            self._content[index] = "".join((self._content.get(index, ""), *pieces))

    def _opening(self, index: int, first: wire.Delta | None) -> list[wire.ChatCompletionChunk]:
        """The chunk with the role, before a choice's first other one; content that begins with a call is null."""
        if index in self._opened:
            return []
        self._opened.add(index)
        content = None if first is not None and first.tool_calls else ""
        return [self._chunk(index, wire.Delta(role="assistant", content=content))]

    def _chunk(
        self,
        index: int,
        delta: wire.Delta,
        *,
        logprobs: ChoiceLogprobs | None = None,
        finished: wire.FinishReason | None = None,
    ) -> wire.ChatCompletionChunk:
        choice = wire.ChunkChoice(index=index, delta=delta, logprobs=logprobs, finish_reason=finished)
        return self._envelope([choice], usage=None)

    def _envelope(self, choices: list[wire.ChunkChoice], *, usage: Usage | None) -> wire.ChatCompletionChunk:
        chunk = wire.ChatCompletionChunk(
            id=self._head.id,
            object="chat.completion.chunk",
            created=self._head.created,
            model=self._head.model,
            choices=choices,
        )
        # A field that is set is written: clients that asked for usage expect the key, null, in every other chunk.
        return chunk.model_copy(update={"usage": usage}) if self._head.includes_usage else chunk


def _noted(chunk: wire.ChatCompletionChunk, name: str, value: object) -> wire.ChatCompletionChunk:
    """The chunk with one of this engine's own fields in its choice."""
    choices = [choice.model_copy(update={name: value}) for choice in chunk.choices]
    return chunk.model_copy(update={"choices": choices})


def _delta(delta: ToolDelta) -> wire.Delta:
    if not isinstance(delta, CallDelta):
        return wire.Delta(content=delta.text)
    if delta.name is None:
        more = wire.FunctionDelta(arguments=delta.arguments)
        return wire.Delta(tool_calls=[wire.ToolCallDelta(index=delta.index, function=more)])
    begun = wire.FunctionDelta(name=delta.name, arguments=delta.arguments)
    return wire.Delta(
        tool_calls=[wire.ToolCallDelta(index=delta.index, id=new_call_id(), type="function", function=begun)]
    )


def new_call_id() -> str:
    """A fresh id for a call."""
    return f"call_{uuid4().hex[:24]}"


class _Gathered:
    """One choice, as far as it has come."""

    def __init__(self, reader: ChoiceReader) -> None:
        self.reader = reader
        self.content: list[str] = []
        self.calls: list[tuple[str, list[str]]] = []
        self.tokens: list[events.TokenLogprob] = []
        self.thought: list[str] = []
        self.notes: list[events.TokenNote] = []
        self.reason: wire.FinishReason = "stop"
        self.forced_close = False

    def take(self, deltas: list[ToolDelta]) -> None:
        """Put the pieces where they belong."""
        for delta in deltas:
            if not isinstance(delta, CallDelta):
                self.content.append(delta.text)
            elif delta.name is not None:
                self.calls.append((delta.name, [delta.arguments]))
            else:
                self.calls[delta.index][1].append(delta.arguments)

    def extras(self, head: ChatHead) -> dict[str, Any]:
        """This engine's own fields of the choice."""
        found: dict[str, Any] = {"forced_close": True} if self.forced_close else {}
        if head.explain:
            found["explain"] = notes_of(self.notes)
        captured = head.captured("".join(self.content))
        return found if captured is None else {**found, "captures": captured}

    def message(self) -> wire.AssistantMessage:
        """The answer; without content if it consists of calls."""
        content, thought = "".join(self.content), "".join(self.thought)
        extra: dict[str, Any] = {"reasoning_content": thought} if thought else {}
        if not self.calls:
            return wire.AssistantMessage(role="assistant", content=content, refusal=None, **extra)
        calls = [
            wire.MessageToolCall(
                id=new_call_id(),
                type="function",
                function=wire.CalledFunction(name=name, arguments="".join(arguments)),
            )
            for name, arguments in self.calls
        ]
        return wire.AssistantMessage(role="assistant", content=content or None, refusal=None, tool_calls=calls, **extra)


class CompletionAssembler:
    """Gathers events into one answer."""

    def __init__(self, head: ChatHead) -> None:
        self._head = head
        self._tally = Tally([head.prompt], head.choices)
        self._choices = [_Gathered(head.reader()) for _ in range(head.choices)]

    @property
    def done(self) -> bool:
        """True once every choice has finished."""
        return self._tally.done

    def feed(self, event: TextDelta | Finished) -> list[wire.ChatCompletion]:
        """The answer, once the last event is in; nothing before."""
        if not self._tally.running(event.index):
            return []
        choice = self._choices[event.index]
        if isinstance(event, TextDelta):
            self._tally.count(event)
            choice.tokens += event.tokens
            choice.notes += event.notes
            choice.thought.append(event.reasoning)
            choice.take(choice.reader.push(event.text))
            if not choice.reader.stopped:
                return []
            self._tally.end(event.index)
            finished = None
        else:
            finished = event
            self._tally.add(finished)
            choice.take(choice.reader.end())
            choice.forced_close = finished.forced_close
        choice.reason = finish_reason(finished, choice.reader, self._head)
        return [self._answer()] if self._tally.done else []

    def _answer(self) -> wire.ChatCompletion:
        head = self._head
        choices = [
            wire.Choice(
                index=index,
                message=choice.message(),
                logprobs=logprobs_of(choice.tokens) if head.logprobs else None,
                finish_reason=choice.reason,
                **choice.extras(head),
            )
            for index, choice in enumerate(self._choices)
        ]
        return wire.ChatCompletion(
            id=head.id,
            object="chat.completion",
            created=head.created,
            model=head.model,
            choices=choices,
            usage=self._tally.usage(),
        )
