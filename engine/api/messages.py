"""The conversation on the wire: messages, their content, and the calls of tools within them."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from .wire import WireRequest, fault_in

Role = Literal["system", "developer", "user", "assistant", "tool"]


class ContentPart(WireRequest):
    """One part of a message's content. Only text can be read by a text model."""

    type: str
    text: str | None = None
    refusal: str | None = None

    @model_validator(mode="after")
    def _is_text(self) -> ContentPart:
        if self.type == "text" and self.text is not None:
            return self
        if self.type == "refusal" and self.refusal is not None:
            return self
        if self.type in ("text", "refusal"):
            raise fault_in(self.type, f"a content part of type {self.type!r} needs the field {self.type!r}")
        raise fault_in("type", f"content parts of type {self.type!r} are not supported: this model reads text only")

    @property
    def words(self) -> str:
        """The part's text."""
        return (self.text if self.type == "text" else self.refusal) or ""


class FunctionCall(WireRequest):
    """The call inside a message of the history: `arguments` is a JSON text."""

    name: str = Field(min_length=1)
    arguments: str


class ToolCall(WireRequest):
    """A call that the assistant made earlier in the conversation."""

    id: str
    type: Literal["function"] = "function"
    function: FunctionCall


class Message(WireRequest):
    """One message of the conversation. `content` may be null only for the assistant, as OpenAI sends its own calls
    back.
    """

    role: Role
    content: str | list[ContentPart] | None = None
    name: str | None = None
    refusal: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None
    tool_call_id: str | None = None

    @model_validator(mode="after")
    def _has_content(self) -> Message:
        if self.content is None and self.role != "assistant":
            raise fault_in(
                "content", f"a message with the role {self.role!r} needs content, a text or a list of text parts"
            )
        return self

    @property
    def text(self) -> str:
        """The content as one text: parts are joined, null is empty."""
        if isinstance(self.content, list):
            return "".join(part.words for part in self.content)
        return self.content or ""
