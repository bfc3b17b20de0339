"""Chat completions over the engine's service: what a request means, as a job for it.

A request goes `read` (types) -> `prepare` (prompt, sampling, grammar) -> a Job, which runs.py submits; what its events
amount to is said in api/chat_answers.py. All of it is plain code on one thread; engine.py adds the two ways of waiting
for an event.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pydantic import BaseModel, ValidationError

from ..grammar.errors import GrammarError
from ..plugins import Tool, ToolFormat
from ..plugins.protocols import CompiledGrammar
from ..samplers import SamplingParams
from .api import types as wire
from .api.chat_answers import ChatHead, ChunkAssembler, CompletionAssembler
from .api.choices import ChoiceReader, ReaderFactory
from .api.constraints import Source, one_source
from .api.errors import FieldError, ModelNotFoundError, from_validation
from .api.messages import Message
from .api.sampling import plugin_options, sampling_options
from .api.templates import ChatTemplate
from .api.tools import ANY_OBJECT, StrictLevel, ToolPlan, plan_tools, position_of
from .errors import RequestError
from .prompt import encode_prompt
from .reasoning import is_open
from .request import GenerationRequest, Reasoning
from .runs import Job, Service
from .typed import closed

TAIL = 32
"""Tokens at the end of a prompt that are looked at for markers of thinking."""


@dataclass(frozen=True, slots=True)
class ChatContext:
    """What a chat needs beside the request. `model`: the name that requests and answers give."""

    service: Service
    model: str
    template: ChatTemplate
    tool_format: ToolFormat
    tool_strict: StrictLevel = "always"


def read(body: Mapping[str, Any]) -> wire.ChatCompletionRequest:
    """A request from a parsed body. Raises BodyError, which names the field."""
    try:
        return wire.ChatCompletionRequest.model_validate(body)
    except ValidationError as error:
        raise from_validation(error, body) from error


def read_arguments(arguments: Mapping[str, Any]) -> wire.ChatCompletionRequest:
    """A request from the arguments of the Python API: an unknown one is no field to ignore but a mistake.

    `response_format` may be a pydantic model class: its JSON Schema is meant. Raises TypeError, and BodyError as
    `read`.
    """
    known = wire.ChatCompletionParams.__annotations__.keys() | {"stream"}
    if unknown := arguments.keys() - known:
        raise TypeError(f"create() got an unexpected keyword argument {min(unknown)!r}")
    wanted = arguments.get("response_format")
    if isinstance(wanted, type) and issubclass(wanted, BaseModel):
        schema = {"name": wanted.__name__, "schema": schema_of(wanted)}
        arguments = {**arguments, "response_format": {"type": "json_schema", "json_schema": schema}}
    return read(arguments)


def schema_of(model: type[BaseModel]) -> dict[str, Any]:
    """The JSON Schema of a pydantic model, closed where the model does not say that it takes more keys than its
    fields.
    """
    return closed(model.model_json_schema())


@dataclass(frozen=True, slots=True)
class Turn:
    """The model's next turn in a conversation: what to submit, and who reads its choices."""

    request: GenerationRequest
    plan: ToolPlan | None
    reader: ReaderFactory


def prepare_turn(context: ChatContext, body: wire.ChatCompletionRequest) -> Turn:
    """Render and encode the prompt, check the sampling options, compile the grammar. May take as long as the
    grammar does.

    Raises RequestError and SamplingError for options, GrammarError for `response_format`, FieldError for tools.
    """
    service = context.service
    check_model(body.model, context.model)
    params = sampling(body)
    params.check_vocabulary(service.tokenizer.size)
    told = plugin_options(service.plugins, body)
    plan = plan_tools(body, context.tool_strict)
    source = one_source(body)
    prompt = _prompt(context, body.messages, plan, body.chat_template_kwargs)
    grammar = _compile(context, plan, source)
    reasoning = _reasoning(context, body, prompt)
    request = GenerationRequest(prompt, params, grammar, reasoning=reasoning, explain=bool(body.explain), **told)

    def reader() -> ChoiceReader:
        if plan is None:
            return ChoiceReader(None, ())
        # Where there is no grammar, stop strings end the text in the engine.
        return ChoiceReader(context.tool_format.parser(plan.callable), params.stop_strings if grammar else ())

    return Turn(request, plan, reader)


def prepare(context: ChatContext, body: wire.ChatCompletionRequest) -> Job[Any]:
    """The job of a chat completion. Raises what `prepare_turn` does."""
    turn = prepare_turn(context, body)
    head = ChatHead(
        id=f"chatcmpl-{turn.request.id}",
        model=context.model,
        created=int(time.time()),
        prompt=len(turn.request.prompt),
        choices=turn.request.params.n,
        logprobs=bool(body.logprobs),
        explain=bool(body.explain),
        includes_usage=body.includes_usage,
        named=turn.plan is not None and turn.plan.named,
        reader=turn.reader,
        captures=_captures(turn.request.grammar),
    )
    assembler: Any = ChunkAssembler(head) if body.stream else CompletionAssembler(head)
    return Job((turn.request,), assembler, stream=bool(body.stream))


def _captures(grammar: Any) -> Any:
    """What tells a grammar's captures; None where it names no parts."""
    named = getattr(getattr(grammar, "rules", None), "captures", ())
    return grammar.captures if named else None


def check_model(asked: str | None, served: str) -> None:
    """Raises ModelNotFoundError if the request is for another model; none at all, or "", is this one."""
    if asked not in (None, "", served):
        raise model_not_found(asked, [served])


def model_not_found(asked: str, served: Sequence[str]) -> ModelNotFoundError:
    """The error for a model that is none of those served."""
    use = " or ".join(map(repr, served))
    return ModelNotFoundError(f"the model {asked!r} is not served here", param="model", remedy=f"use {use}")


def sampling(body: wire.ChatCompletionRequest) -> SamplingParams:
    """The sampling options of a request; what it leaves out, or gives as null, has the sampler's default."""
    shared = sampling_options(body)
    logprobs = {name: value for name in ("logprobs", "top_logprobs") if (value := getattr(body, name)) is not None}
    return SamplingParams(**shared, **logprobs, max_tokens=body.token_limit)


# --------------------------------------------------------------------------------------------------- prompt and grammar


def _prompt(
    context: ChatContext, messages: Sequence[Message], plan: ToolPlan | None, variables: Mapping[str, Any] | None
) -> tuple[int, ...]:
    """The prompt. A template that knows no tools gets them, and what was called before, as plain messages."""
    service, template = context.service, context.template
    told = () if plan is None else plan.told
    conversation: Sequence[Message | Mapping[str, Any]] = messages
    tools = [_definition(tool) for tool in told]
    if not template.knows_tools and (told or any(message.tool_calls or message.role == "tool" for message in messages)):
        conversation = context.tool_format.render([_openai_form(message) for message in messages], told)
        tools = []
    return encode_prompt(
        service.tokenizer, template, conversation, tools=tools, limit=service.context_length, variables=variables
    )


def _reasoning(context: ChatContext, body: wire.ChatCompletionRequest, prompt: Sequence[int]) -> Reasoning | None:
    """How the model thinks before its answer, None if it does not.

    Unless the request says, it does where the template has opened the thinking, or knows a switch for it that is not
    off. Never where the template has closed it already.
    """
    wanted = body.reasoning
    if wanted is False:
        return None
    reasoning = Reasoning(**(wanted.model_dump(exclude_none=True) if isinstance(wanted, wire.ReasoningOptions) else {}))
    tokenizer = context.service.tokenizer
    tail = "".join(tokenizer.decode([token]) or tokenizer.name(token) for token in prompt[-TAIL:])
    if not is_open(tail, reasoning):
        return None
    switch = (body.chat_template_kwargs or {}).get("enable_thinking", "enable_thinking" in context.template.source)
    opened = bool(reasoning.start) and tail.rstrip().endswith(reasoning.start)
    return reasoning if wanted is not None or opened or switch is True else None


def _openai_form(message: Message) -> dict[str, Any]:
    form = message.model_dump(exclude_none=True)
    form["role"] = "system" if message.role == "developer" else message.role
    return {**form, "content": message.text}


def _definition(tool: Tool) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description or "", "parameters": tool.parameters}
    return {"type": "function", "function": function}


def _compile(context: ChatContext, plan: ToolPlan | None, source: Source | None) -> CompiledGrammar | None:
    service = context.service
    if plan is None:
        return None if source is None else service.compile(*source)
    content = None if source is None or plan.required else _schema(source)
    spec = context.tool_format.constraint(
        plan.callable, "required" if plan.required else "auto", parallel=plan.parallel, content=content
    )
    if spec is None:
        return None
    try:
        return service.compile("structural_tag", spec, {})
    except GrammarError:
        _blame(service, plan, source)
        raise


def _schema(source: Source) -> Any:
    """The JSON Schema of the final answer beside tools."""
    kind, schema, options = source
    if kind == "json_object":
        return ANY_OBJECT
    if kind != "json_schema" or options:
        what = kind if kind != "json_schema" else ", ".join(options)
        raise RequestError(
            f"tools cannot be combined with {what}", param="response_format", remedy="use json_schema beside tools"
        )
    if not isinstance(schema, str):
        return schema
    try:
        return json.loads(schema, parse_float=Decimal)
    except (ValueError, RecursionError) as error:
        raise RequestError("the schema is a text, and no JSON", param="response_format") from error


def _blame(service: Service, plan: ToolPlan, source: Source | None) -> None:
    """Which part of a grammar that cannot be compiled is at fault? Raises its error, with the field it came in."""
    for tool in plan.callable:
        try:
            service.compile("json_schema", tool.parameters, {})
        except GrammarError as error:
            raise FieldError(error, f"tools.{position_of(plan.told, tool.name)}.function.parameters") from error
    if source is not None:
        service.compile(*source)
