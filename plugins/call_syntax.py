"""Tool-call formats that are told by a few literal texts, which is what most models' formats are.

A call is `begin`, the tool's name, `middle`, the arguments as JSON, `end`; calls are joined by `separator`, and all of
them stand between `opening` and `closing`. What a model may write, how it is read again, and how earlier calls are
written into a prompt all follow from these texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from .call_parser import CallParser
from .tools import JsonObject, Tool, ToolChoice

Place = Literal["system", "user"]


@dataclass(frozen=True, slots=True)
class CallSyntax:
    """A ToolFormat by its literal texts.

    `trigger`: the beginning of `opening + begin` that turns free text into calls; nothing else may follow it.
    `marks`: texts of which a chat template of such a model has all. `place`: the message that tells the tools to a
    template that knows none; "user" for templates that refuse system messages.
    """

    name: str
    begin: str
    middle: str
    end: str
    separator: str
    trigger: str
    opening: str = ""
    closing: str = ""
    marks: tuple[str, ...] = ()
    place: Place = "system"

    def suits(self, template: str, /) -> bool:
        """Whether the template has all the marks; a format without marks suits none by itself."""
        plain = template.replace('\\"', '"')  # quotes inside quoted texts of Jinja2
        return bool(self.marks) and all(mark in plain for mark in self.marks)

    def parser(self, tools: Sequence[Tool], /) -> CallParser:
        """A fresh parser for one choice."""
        heads = {f"{self.begin}{tool.name}{self.middle}": tool.name for tool in tools}
        return CallParser(self.trigger, self.opening, heads, self.end, self.separator, self.closing)

    # ------------------------------------------------------------------------------------------------------ constraint

    def constraint(
        self, tools: Sequence[Tool], choice: ToolChoice, /, *, parallel: bool, content: JsonObject | bool | None = None
    ) -> JsonObject | None:
        """Calls; or, for "auto", free text that becomes a call after `trigger`; or the value of `content` instead."""
        if choice == "none" or not tools:
            return None
        tags = [self._tag(tool) for tool in tools]
        if choice == "required":
            return _spec(self._calls(tags, parallel))
        if content is not None:
            value = {"type": "json_schema", "json_schema": content}
            return _spec({"type": "or", "elements": [self._calls(tags, parallel), value]})
        if self.opening:
            tags = [{"type": "tag", "begin": self.opening, "content": _joined(tags, self.separator, parallel)}]
            tags[0]["end"] = self.closing
        triggered = {"type": "triggered_tags", "triggers": [self.trigger], "tags": tags}
        return _spec({**triggered, "at_least_one": False, "stop_after_first": bool(self.opening) or not parallel})

    def _tag(self, tool: Tool) -> dict[str, Any]:
        content = {"type": "json_schema", "json_schema": tool.parameters}
        return {"type": "tag", "begin": f"{self.begin}{tool.name}{self.middle}", "content": content, "end": self.end}

    def _calls(self, tags: Sequence[JsonObject], parallel: bool) -> JsonObject:
        calls = tags[0] if len(tags) == 1 and not parallel else _joined(tags, self.separator, parallel)
        around = ([_text(self.opening)] if self.opening else [], [_text(self.closing)] if self.closing else [])
        return {"type": "sequence", "elements": [*around[0], calls, *around[1]]} if any(around) else calls

    # ---------------------------------------------------------------------------------------------------------- prompt

    def render(self, messages: Sequence[JsonObject], tools: Sequence[Tool], /) -> Sequence[JsonObject]:
        """The tools told in the first message, calls as the model would write them, results as the user's words.

        Neighbours of one role become one message, since many templates demand that roles alternate.
        """
        names: dict[str, str] = {}
        plain: list[dict[str, str]] = []
        for message in messages:
            role, text = message["role"], message.get("content") or ""
            calls = message.get("tool_calls") or ()
            if calls:
                names.update((call["id"], call["function"]["name"]) for call in calls)
                text = f"{text}\n{self._written(calls)}" if text else self._written(calls)
            elif role == "tool":
                name = names.get(message.get("tool_call_id", ""), message.get("name") or "tool")
                role, text = "user", f"Result of {name}:\n{text}"
            if plain and plain[-1]["role"] == role:
                plain[-1]["content"] += f"\n\n{text}"
            else:
                plain.append({"role": role, "content": text})
        return self._told(plain, tools) if tools else plain

    def _written(self, calls: Sequence[Mapping[str, Any]]) -> str:
        functions = [call["function"] for call in calls]
        texts = [f"{self.begin}{call['name']}{self.middle}{call['arguments']}{self.end}" for call in functions]
        return f"{self.opening}{self.separator.join(texts)}{self.closing}"

    def _told(self, messages: list[dict[str, str]], tools: Sequence[Tool]) -> list[dict[str, str]]:
        lines = [_described(tool) for tool in tools]
        form = f"{self.opening}{self.begin}NAME{self.middle}ARGUMENTS{self.end}{self.closing}"
        text = "\n".join(
            (
                "You can call these functions, each given by its name, what it does and the JSON Schema of its "
                "arguments:",
                *lines,
                "To call one, write exactly this, with its name and its arguments as a JSON object:",
                form,
            )
        )
        first = next((message for message in messages if message["role"] == self.place), None)
        if first is None:
            return [{"role": self.place, "content": text}, *messages]
        said = first["content"]
        first["content"] = f"{said}\n\n{text}" if self.place == "system" else f"{text}\n\n{said}"
        return messages


def _spec(form: JsonObject) -> JsonObject:
    return {"type": "structural_tag", "format": form}


def _text(value: str) -> JsonObject:
    return {"type": "const_string", "value": value}


def _joined(tags: Sequence[JsonObject], separator: str, parallel: bool) -> JsonObject:
    """One call; or more, where `parallel`."""
    return {
        "type": "tags_with_separator",
        "tags": list(tags),
        "separator": separator,
        "at_least_one": True,
        "stop_after_first": not parallel,
    }


def _described(tool: Tool) -> str:
    parts = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return json.dumps({key: value for key, value in parts.items() if value}, ensure_ascii=False, default=_number)


def _number(value: Any) -> Any:
    """Numbers of schemas are kept as they came, which JSON's writer does not know."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() and abs(value) < 1 << 53 else float(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


SyntaxOf = Callable[[str], CallSyntax]
"""The syntax for a chat template, where one family has several."""
