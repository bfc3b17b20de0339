"""From events to responses: OpenAI's streaming events in their order, and the response object at the end."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import uuid4

from ...plugins import CallDelta, ToolDelta
from ..request import Finished, TextDelta
from . import response_types as wire
from .chat_answers import new_call_id
from .choices import ReaderFactory, Tally, logprobs_of
from .wire import ErrorBody, TokenLogprob, Usage, WireResponse


@dataclass(frozen=True, slots=True)
class ResponseHead:
    """What a response carries whatever the model says. `finished` is told the complete response."""

    response: wire.Response
    prompt: int
    logprobs: bool
    reader: ReaderFactory
    finished: Callable[[wire.Response], None]


class ResponseEvent(WireResponse):
    """One event of a stream: its type, its number in the stream, and what it tells."""

    type: str
    sequence_number: int
    fields: dict[str, Any]

    def dump(self) -> str:
        """The event's data."""
        return json.dumps(
            {"type": self.type, "sequence_number": self.sequence_number, **self.fields}, ensure_ascii=False
        )


Kind = Literal["message", "call", "reasoning"]
PREFIXES: dict[Kind, str] = {"message": "msg", "call": "fc", "reasoning": "rs"}
EVENTS: dict[Kind, str] = {
    "message": "response.output_text",
    "call": "response.function_call_arguments",
    "reasoning": "response.reasoning_text",
}


class _Item:
    """An output item that is being written."""

    def __init__(self, index: int, kind: Kind, name: str | None = None) -> None:
        self.index = index
        self.kind = kind
        self.name = name
        self.id = f"{PREFIXES[kind]}_{uuid4().hex}"
        self.call_id = new_call_id()
        self.pieces: list[str] = []
        self.logprobs: list[TokenLogprob] = []

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def part(self) -> wire.OutputText:
        return wire.OutputText(type="output_text", text=self.text, annotations=[], logprobs=self.logprobs)

    def item(self, status: wire.Status) -> wire.OutputItem:
        """The item as far as it has come; one that is just begun has no content."""
        if self.kind == "reasoning":
            thought = [] if status == "in_progress" else [wire.ReasoningText(type="reasoning_text", text=self.text)]
            return wire.OutputReasoning(type="reasoning", id=self.id, status=status, summary=[], content=thought)
        if self.kind == "message":
            content = [] if status == "in_progress" else [self.part]
            return wire.OutputMessage(type="message", id=self.id, status=status, role="assistant", content=content)
        return wire.OutputCall(
            type="function_call",
            id=self.id,
            call_id=self.call_id,
            name=self.name or "",
            arguments=self.text,
            status=status,
        )


class ResponseAssembler:
    """Turns events into a response's events; for an answer in one piece, into the response alone."""

    def __init__(self, head: ResponseHead, *, stream: bool) -> None:
        self._head = head
        self._stream = stream
        self._tally = Tally([head.prompt], 1)
        self._reader = head.reader()
        self._number = 0
        self._open: _Item | None = None
        self._output: list[wire.OutputItem] = []

    @property
    def done(self) -> bool:
        """True once the response is complete."""
        return self._tally.done

    def feed(self, event: TextDelta | Finished) -> Sequence[ResponseEvent | wire.Response]:
        """What this event is worth."""
        if self.done:
            return []
        told: list[ResponseEvent] = []
        if not self._number:
            told.append(self._event("response.created", response=self._dump(self._head.response)))
            told.append(self._event("response.in_progress", response=self._dump(self._head.response)))
        if isinstance(event, TextDelta):
            self._tally.count(event)
            if event.reasoning:
                told += self._add("reasoning", None, event.reasoning, [])
            logprobs = list(logprobs_of(event.tokens).content or ()) if self._head.logprobs else []
            for delta in self._reader.push(event.text):
                told += self._delta(delta, logprobs)
                logprobs = []
            if not self._reader.stopped:
                return told if self._stream else []
            self._tally.end(0)
            return self._finish(None, told)
        self._tally.add(event)
        for delta in self._reader.end():
            told += self._delta(delta, [])
        return self._finish(event, told)

    def failed(self, error: ErrorBody) -> list[ResponseEvent]:
        """The events that end a stream after a fault."""
        fault = wire.ResponseFault(code=error.error.code or "server_error", message=error.error.message)
        response = self._head.response.model_copy(
            update={"status": "failed", "error": fault, "output": list(self._output)}
        )
        detail = error.error
        return [
            self._event("error", code=detail.code, message=detail.message, param=detail.param),
            self._event("response.failed", response=self._dump(response)),
        ]

    def _delta(self, delta: ToolDelta, logprobs: list[TokenLogprob]) -> list[ResponseEvent]:
        if isinstance(delta, CallDelta):
            return self._add("call", delta.name, delta.arguments, [])
        return self._add("message", None, delta.text, logprobs)

    def _add(self, kind: Kind, name: str | None, text: str, logprobs: list[TokenLogprob]) -> list[ResponseEvent]:
        """More of the item that is open, or the beginning of another: a call's name begins one."""
        told: list[ResponseEvent] = []
        if self._open is None or self._open.kind != kind or name is not None:
            told += self._close("completed")
            told += self._begin(kind, name)
        item = self._open
        assert item is not None
        if not text:
            return told
        item.pieces.append(text)
        where: dict[str, Any] = {"item_id": item.id, "output_index": item.index}
        if kind == "message":
            item.logprobs += logprobs
            where |= {"content_index": 0, "logprobs": [entry.model_dump() for entry in logprobs]}
        elif kind == "reasoning":
            where["content_index"] = 0
        told.append(self._event(f"{EVENTS[kind]}.delta", **where, delta=text))
        return told

    def _begin(self, kind: Kind, name: str | None) -> list[ResponseEvent]:
        item = self._open = _Item(len(self._output), kind, name)
        added = item.item("in_progress").model_dump()
        told = [self._event("response.output_item.added", output_index=item.index, item=added)]
        if kind == "message":
            where = {"item_id": item.id, "output_index": item.index, "content_index": 0}
            told.append(self._event("response.content_part.added", **where, part=item.part.model_dump()))
        return told

    def _close(self, status: wire.Status) -> list[ResponseEvent]:
        """The item that is open is done."""
        item, self._open = self._open, None
        if item is None:
            return []
        where: dict[str, Any] = {"item_id": item.id, "output_index": item.index}
        if item.kind == "message":
            part = item.part.model_dump()
            where["content_index"] = 0
            told = [
                self._event(f"{EVENTS[item.kind]}.done", **where, text=item.text, logprobs=part["logprobs"]),
                self._event("response.content_part.done", **where, part=part),
            ]
        elif item.kind == "reasoning":
            told = [self._event(f"{EVENTS[item.kind]}.done", **where, content_index=0, text=item.text)]
        else:
            told = [self._event(f"{EVENTS[item.kind]}.done", **where, name=item.name, arguments=item.text)]
        done = item.item(status)
        self._output.append(done)
        told.append(self._event("response.output_item.done", output_index=item.index, item=done.model_dump()))
        return told

    def _finish(self, finished: Finished | None, told: list[ResponseEvent]) -> Sequence[ResponseEvent | wire.Response]:
        complete = finished is None or finished.reason == "stop"
        if self._open is None and not self._output:
            told += self._begin("message", None)
        told += self._close("completed" if complete else "incomplete")
        cut: Any = "max_output_tokens" if finished is not None and finished.reason == "length" else "cancelled"
        response = self._head.response.model_copy(
            update={
                "status": "completed" if complete else "incomplete",
                "incomplete_details": None if complete else wire.IncompleteDetails(reason=cut),
                "output": list(self._output),
                "usage": _usage(self._tally.usage()),
            }
        )
        self._head.finished(response)
        if not self._stream:
            return [response]
        told.append(self._event(f"response.{response.status}", response=self._dump(response)))
        return told

    def _event(self, kind: str, **fields: Any) -> ResponseEvent:
        event = ResponseEvent(type=kind, sequence_number=self._number, fields=fields)
        self._number += 1
        return event

    def _dump(self, response: wire.Response) -> Any:
        return json.loads(response.dump())


def _usage(usage: Usage) -> wire.ResponseUsage:
    details, thought = usage.prompt_tokens_details, usage.completion_tokens_details
    return wire.ResponseUsage(
        input_tokens=usage.prompt_tokens,
        input_tokens_details=wire.InputDetails(cached_tokens=details.cached_tokens if details else 0),
        output_tokens=usage.completion_tokens,
        output_tokens_details=wire.OutputDetails(reasoning_tokens=thought.reasoning_tokens if thought else 0),
        total_tokens=usage.total_tokens,
    )
