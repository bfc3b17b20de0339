"""Shipped plugin: the tool-call formats of the common model families, as their published chat templates have them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from .call_syntax import CallSyntax, SyntaxOf
from .hookspecs import hookimpl
from .tools import ToolFormat

_NAMED = '{"name": "'
_ARGUMENTS = '", "arguments": '

# Nous Hermes 2 Pro, Qwen 2.5 and 3: a JSON object between two marks, as many times as there are calls.
HERMES = CallSyntax(
    name="hermes",
    begin=f"<tool_call>\n{_NAMED}",
    middle=_ARGUMENTS,
    end="}\n</tool_call>",
    separator="\n",
    trigger="<tool_call>",
    marks=("<tool_call>", '{"name": ', '"arguments": '),
)
# Llama 3.1 to 3.3: bare JSON objects, whose arguments are called parameters.
LLAMA3 = CallSyntax(
    name="llama3",
    begin=_NAMED,
    middle='", "parameters": ',
    end="}",
    separator="; ",
    trigger=_NAMED,
    marks=("<|start_header_id|>", '"parameters": '),
)
# Mistral up to 2024: a JSON array after a mark.
MISTRAL = CallSyntax(
    name="mistral",
    opening="[TOOL_CALLS][",
    begin=_NAMED,
    middle=_ARGUMENTS,
    end="}",
    separator=", ",
    closing="]",
    trigger="[TOOL_CALLS]",
    marks=("[TOOL_CALLS]",),
)
# ... its SentencePiece models, with a space ...
MISTRAL_SPACED = replace(MISTRAL, opening="[TOOL_CALLS] [", marks=("[TOOL_CALLS] [",))
# ... and since 2025: name and arguments with marks of their own.
MISTRAL_ARGS = CallSyntax(
    name="mistral",
    begin="[TOOL_CALLS]",
    middle="[ARGS]",
    end="",
    separator="",
    trigger="[TOOL_CALLS]",
    marks=("[TOOL_CALLS]", "[ARGS]"),
)
# Phi-4-mini.
PHI = CallSyntax(
    name="phi",
    opening="<|tool_call|>[",
    begin=_NAMED,
    middle=_ARGUMENTS,
    end="}",
    separator=", ",
    closing="]<|/tool_call|>",
    trigger="<|tool_call|>",
    marks=("<|tool|>", "<|/tool|>"),
)
# Gemma 2 and 3 have no format of their own and no room for system messages; Google's guide shows this JSON.
GEMMA = CallSyntax(
    name="gemma",
    begin=_NAMED,
    middle='", "parameters": ',
    end="}",
    separator="\n",
    trigger=_NAMED,
    marks=("<start_of_turn>",),
    place="user",
)
# DeepSeek V3 and R1: the arguments in a fenced block.
DEEPSEEK = CallSyntax(
    name="deepseek",
    opening="<｜tool▁calls▁begin｜>",  # noqa: RUF001
    begin="<｜tool▁call▁begin｜>function<｜tool▁sep｜>",  # noqa: RUF001
    middle="\n```json\n",
    end="\n```<｜tool▁call▁end｜>",  # noqa: RUF001
    separator="\n",
    closing="<｜tool▁calls▁end｜>",  # noqa: RUF001
    trigger="<｜tool▁calls▁begin｜>",  # noqa: RUF001
    marks=("<｜tool▁calls▁begin｜>", "```json"),  # noqa: RUF001
)
# DeepSeek V3.1: without the fence.
DEEPSEEK_BARE = CallSyntax(
    name="deepseek",
    opening="<｜tool▁calls▁begin｜>",  # noqa: RUF001
    begin="<｜tool▁call▁begin｜>",  # noqa: RUF001
    middle="<｜tool▁sep｜>",  # noqa: RUF001
    end="<｜tool▁call▁end｜>",  # noqa: RUF001
    separator="",
    closing="<｜tool▁calls▁end｜>",  # noqa: RUF001
    trigger="<｜tool▁calls▁begin｜>",  # noqa: RUF001
    marks=("<｜tool▁calls▁begin｜>",),  # noqa: RUF001
)
# For models that were trained on no format: plain JSON, one object to a line.
JSON = CallSyntax(name="json", begin=_NAMED, middle=_ARGUMENTS, end="}", separator="\n", trigger=_NAMED)

# Those with more marks stand before those with fewer of the same.
FORMATS = (MISTRAL_ARGS, MISTRAL_SPACED, MISTRAL, DEEPSEEK, DEEPSEEK_BARE, PHI, GEMMA, LLAMA3, HERMES, JSON)


def _variant(name: str) -> SyntaxOf:
    """A family's syntax for a template: the first that suits it, or the family's plainest."""
    family = [form for form in FORMATS if form.name == name]
    return lambda template: next((form for form in family if form.suits(template)), family[-1])


_FAMILIES: Mapping[str, SyntaxOf] = {form.name: _variant(form.name) for form in FORMATS}


@hookimpl(trylast=True)
def slipcast_tool_format(name: str, template: str) -> ToolFormat | None:
    """hermes, llama3, mistral, phi, gemma, deepseek and json; "auto" tells them by the chat template's marks."""
    if name == "auto":
        return next((form for form in FORMATS if form.suits(template)), None)
    variant = _FAMILIES.get(name)
    return None if variant is None else variant(template)
