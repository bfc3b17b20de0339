"""Tool-call formats: how a model family is told of tools, how it writes calls, and how those are read again.

A format is asked at four places: `suits` when the engine picks one for a model, `render` before the chat template is
applied, `constraint` when a request must or may call, and `parser` once per choice while its text comes in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

ToolChoice = Literal["none", "auto", "required"]
JsonObject = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Tool:
    """One function that the model may call. `parameters`: the JSON Schema of its arguments, an object schema.

    `strict` is what the request said; formats constrain every call exactly, whatever it is.
    """

    name: str
    description: str | None
    parameters: JsonObject
    strict: bool | None = None


@dataclass(frozen=True, slots=True)
class ContentDelta:
    """More text that belongs to no call."""

    text: str


@dataclass(frozen=True, slots=True)
class CallDelta:
    """More of the call number `index`, from 0, of a choice. `name` comes with a call's first delta and no other.

    `arguments` is a piece of the JSON text of the arguments; the pieces of one call make a whole JSON object.
    """

    index: int
    name: str | None = None
    arguments: str = ""


ToolDelta = ContentDelta | CallDelta


@runtime_checkable
class ToolParser(Protocol):
    """Reads the text of one choice. The deltas of all pieces together do not depend on where the text was cut."""

    def push(self, text: str, /) -> Sequence[ToolDelta]:
        """What the next piece of text adds. Text that may still become a marker is held back."""
        ...

    def end(self) -> Sequence[ToolDelta]:
        """The text is over: what was held back."""
        ...


@runtime_checkable
class ToolFormat(Protocol):
    """How one kind of model calls tools. Stateless: used by any number of requests and threads."""

    @property
    def name(self) -> str: ...

    def suits(self, template: str, /) -> bool:
        """Whether a chat template, Jinja2 source, is of a model that was trained on this format."""
        ...

    def render(self, messages: Sequence[JsonObject], tools: Sequence[Tool], /) -> Sequence[JsonObject]:
        """Messages with plain texts only, for a template that knows no tools.

        `messages` are in OpenAI's form, calls and results of tools among them; what comes back has `role` and `content`
        (a string) alone, and says what `tools` there are and how to call them.
        """
        ...

    def constraint(
        self, tools: Sequence[Tool], choice: ToolChoice, /, *, parallel: bool, content: JsonObject | bool | None = None
    ) -> JsonObject | None:
        """What the answer may be, as the JSON form of a structural tag; None: any text.

        `choice`: "auto" (text, calls, or both) or "required" (at least one call); where one tool is asked for by name,
        `tools` is that tool alone and `choice` is "required". `parallel`: more than one call may be made. `content`:
        the JSON Schema of an answer without a call, where the request has a `response_format` beside its tools.
        """
        ...

    def parser(self, tools: Sequence[Tool], /) -> ToolParser:
        """A fresh parser for one choice."""
        ...
