"""Tools on the wire, and what a request's tools and `tool_choice` amount to.

`strict` is accepted everywhere. What is enforced is the server's to say, by its level:

    always    every call has exactly the tool's schema, whatever `strict` says (the default: it costs nothing)
    absent    the same, but for tools that say `"strict": false`: their arguments are any JSON object
    asked     only tools that say `"strict": true` have their schema enforced, as at OpenAI
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Protocol, get_args

from pydantic import Field, model_validator

from ...plugins import Tool
from ..errors import ConfigError, RequestError
from .wire import WireRequest

StrictLevel = Literal["always", "absent", "asked"]
MAX_TOOLS = 1024
ANY_OBJECT = {"type": "object"}
NO_ARGUMENTS = {"type": "object", "properties": {}, "additionalProperties": False}
# OpenAI allows letters, digits, - and _, 64 of them; agent frameworks put names of servers and versions in front.
ToolName = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.:/-]{1,128}$")]


class FunctionDefinition(WireRequest):
    """A function that the model may call. Without `parameters` it takes none."""

    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ToolDefinition(WireRequest):
    """One entry of `tools`."""

    type: Literal["function"]
    function: FunctionDefinition


class FunctionName(WireRequest):
    """A tool by its name."""

    name: str


class NamedTool(WireRequest):
    """`tool_choice`: call this tool."""

    type: Literal["function"]
    function: FunctionName


class AllowedTools(WireRequest):
    """Which of the tools may be called; `required`: one of them must be."""

    mode: Literal["auto", "required"]
    tools: list[NamedTool] = Field(min_length=1)


class AllowedToolsChoice(WireRequest):
    """`tool_choice`: the model knows all tools, and may call some."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedTools

    @model_validator(mode="before")
    @classmethod
    def _flat_form(cls, value: Any) -> Any:
        """Some clients write `mode` and `tools` beside `type`, as the Responses API does."""
        if isinstance(value, dict) and "allowed_tools" not in value and "mode" in value:
            return {"type": value.get("type"), "allowed_tools": value}
        return value


ToolChoiceField = (
    Literal["none", "auto", "required"] | Annotated[NamedTool | AllowedToolsChoice, Field(discriminator="type")]
)


class AsksForTools(Protocol):
    """The fields of a request that are read here."""

    @property
    def tools(self) -> list[ToolDefinition] | None: ...

    @property
    def tool_choice(self) -> ToolChoiceField | None: ...

    @property
    def parallel_tool_calls(self) -> bool | None: ...


@dataclass(frozen=True, slots=True)
class ToolPlan:
    """What the model is told, and what it may do. `told`: all tools of the request. `callable`: those that it may call,
    with the schema that is enforced. `named`: one was asked for by its name.
    """

    told: tuple[Tool, ...]
    callable: tuple[Tool, ...]
    required: bool
    named: bool
    parallel: bool


def check_level(level: str) -> StrictLevel:
    """`level` if it is one. Raises ConfigError."""
    if level not in get_args(StrictLevel):
        allowed = ", ".join(get_args(StrictLevel))
        raise ConfigError(f"tool_strict is {level!r}", key="tool_strict", remedy=f"use one of {allowed}")
    return level  # type: ignore[return-value]


def plan_tools(request: AsksForTools, level: StrictLevel) -> ToolPlan | None:
    """What the request's tools amount to; None if none can be called.

    Raises RequestError for two tools of one name, and a choice of tools that are not there.
    """
    definitions = [tool.function for tool in request.tools or ()]
    if len(definitions) > MAX_TOOLS:
        raise RequestError(f"{len(definitions)} tools are more than {MAX_TOOLS}", param="tools")
    names = [definition.name for definition in definitions]
    for position, name in enumerate(names):
        if name in names[:position]:
            raise RequestError(f"two tools have the name {name!r}", param=f"tools.{position}.function.name")
    choice = request.tool_choice
    wanted, required, named = names, choice == "required", False
    if isinstance(choice, NamedTool):
        wanted, required, named = [choice.function.name], True, True
    elif isinstance(choice, AllowedToolsChoice):
        wanted = [tool.function.name for tool in choice.allowed_tools.tools]
        required = choice.allowed_tools.mode == "required"
    missing = next((name for name in wanted if name not in names), None)
    if missing is not None:
        raise RequestError(f"tool_choice names {missing!r}, which is not among the tools", param="tool_choice")
    if not definitions or choice == "none":
        return None
    told = tuple(_tool(definition, position) for position, definition in enumerate(definitions))
    return ToolPlan(
        told=told,
        callable=tuple(enforced(tool, level) for tool in told if tool.name in wanted),
        required=required,
        named=named,
        parallel=request.parallel_tool_calls is not False and not named,
    )


def enforced(tool: Tool, level: StrictLevel) -> Tool:
    """The tool with the schema that its calls must have under this level."""
    exact = level == "always" or tool.strict is True or (level == "absent" and tool.strict is None)
    return tool if exact else Tool(tool.name, tool.description, ANY_OBJECT, tool.strict)


def position_of(told: Sequence[Tool], name: str) -> int:
    """Where the request has the tool of that name."""
    return next(position for position, tool in enumerate(told) if tool.name == name)


def _tool(definition: FunctionDefinition, position: int) -> Tool:
    parameters = NO_ARGUMENTS if definition.parameters is None else definition.parameters
    types = parameters.get("type", "object")
    if types != "object":
        if isinstance(types, list) and "object" in types:
            parameters = {**parameters, "type": "object"}
        else:
            raise RequestError(
                f"the arguments of a call are a JSON object, and the parameters of {definition.name!r} have the type "
                f"{types!r}",
                param=f"tools.{position}.function.parameters",
                remedy="give a schema of the type object",
            )
    return Tool(definition.name, definition.description, {"type": "object", **parameters}, definition.strict)
