"""Reads calls back from the text of one choice, as it comes.

It goes character by character, and what it does depends on the characters read so far alone: so the deltas, joined,
are the same however the text was cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from .tools import CallDelta, ContentDelta, ToolDelta

State = Literal["text", "head", "arguments", "end", "after"]


class CallParser:
    """A machine over the literal texts of a CallSyntax.

    `heads`: the texts before the arguments, each with the tool's name. What begins like a call and is none comes out as
    content; white space between calls, and after the last, is no content.
    """

    def __init__(
        self, trigger: str, opening: str, heads: Mapping[str, str], end: str, separator: str, closing: str
    ) -> None:
        self._trigger = trigger
        self._first = {f"{opening}{head}": name for head, name in heads.items()}
        self._more: dict[str, str | None] = {f"{separator}{head}": name for head, name in heads.items()}
        if closing:
            self._more[closing] = None
        else:
            self._more.update(heads)
        self._end = end
        self._state: State = "text"
        self._held = ""
        self._depth = 0
        self._quoted = self._escaped = False
        self._calls = 0
        self._out: list[ToolDelta] = []

    def push(self, text: str, /) -> list[ToolDelta]:
        """What the next piece of text adds."""
        for character in text:
            self._take(character)
        out, self._out = self._out, []
        return _merged(out)

    def end(self) -> list[ToolDelta]:
        """What was held back. The beginning of a call that was cut off is content, as it came."""
        held, self._held = self._held, ""
        if self._state == "after":
            held = held.strip()
        if held and self._state != "end":
            self._out.append(ContentDelta(held))
        out, self._out = self._out, []
        return _merged(out)

    def _take(self, character: str) -> None:
        if self._state == "arguments":
            self._take_argument(character)
            return
        self._held += character
        if self._state == "text":
            self._take_text()
        elif self._state == "head":
            self._take_head(self._first)
        elif self._state == "end":
            self._take_end()
        else:
            self._take_after()

    def _take_text(self) -> None:
        """Free text up to the trigger; what may still become one is held."""
        held = self._held
        if held.endswith(self._trigger):
            if len(held) > len(self._trigger):
                self._out.append(ContentDelta(held[: -len(self._trigger)]))
            self._held = self._trigger
            self._state = "head"
            # The trigger may be a whole head already.
            self._held, last = self._held[:-1], self._held[-1]
            self._take(last)
            return
        keep = next((n for n in range(min(len(held), len(self._trigger) - 1), 0, -1) if self._begins(held[-n:])), 0)
        if len(held) > keep:
            self._out.append(ContentDelta(held[: len(held) - keep]))
            self._held = held[len(held) - keep :]

    def _begins(self, tail: str) -> bool:
        return self._trigger.startswith(tail)

    def _take_head(self, heads: Mapping[str, str]) -> None:
        name = heads.get(self._held)
        if name is not None:
            self._begin(name)
        elif not any(head.startswith(self._held) for head in heads):
            self._release()

    def _begin(self, name: str) -> None:
        self._out.append(CallDelta(self._calls, name))
        self._calls += 1
        self._held = ""
        self._depth = 0
        self._quoted = self._escaped = False
        self._state = "arguments"

    def _take_argument(self, character: str) -> None:
        """JSON's brackets and strings (RFC 8259) say where the arguments end."""
        self._out.append(CallDelta(self._calls - 1, None, character))
        if self._escaped:
            self._escaped = False
        elif self._quoted:
            self._escaped = character == "\\"
            self._quoted = character != '"'
        elif character == '"':
            self._quoted = True
        elif character in "{[":
            self._depth += 1
        elif character in "}]":
            self._depth -= 1
            if self._depth <= 0:
                self._state = "end" if self._end else "after"

    def _take_end(self) -> None:
        if self._held == self._end:
            self._held = ""
            self._state = "after"
        elif not self._end.startswith(self._held):
            self._release()

    def _take_after(self) -> None:
        """Another call, or the closing text, or white space, which is dropped; anything else is content."""
        if self._held in self._more:
            name = self._more[self._held]
            if name is None:
                self._held = ""
                self._more = {}
            else:
                self._begin(name)
            return
        if any(text.startswith(self._held) for text in self._more) or not self._held.strip():
            return
        stripped = self._held.lstrip()
        if len(stripped) < len(self._held):
            self._held = stripped
            self._take_after()
        else:
            self._release()

    def _release(self) -> None:
        """What is held begins no call: it is text, and may hold another beginning after its first character."""
        held, self._held = self._held, ""
        self._state = "text"
        self._out.append(ContentDelta(held[0]))
        for character in held[1:]:
            self._take(character)


def _merged(deltas: list[ToolDelta]) -> list[ToolDelta]:
    """Neighbours that belong together as one, but for a call's first delta, which has no arguments."""
    merged: list[ToolDelta] = []
    for delta in deltas:
        last = merged[-1] if merged else None
        if isinstance(delta, ContentDelta) and isinstance(last, ContentDelta):
            merged[-1] = ContentDelta(last.text + delta.text)
        elif isinstance(delta, CallDelta) and isinstance(last, CallDelta) and delta.name is None and last.name is None:
            merged[-1] = CallDelta(last.index, None, last.arguments + delta.arguments)
        else:
            merged.append(delta)
    return merged
