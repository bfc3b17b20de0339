"""The Responses API: its input as a conversation, and what is kept of earlier responses."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from ..chat import ChatContext, prepare_turn
from ..errors import RequestError
from ..runs import Job
from . import response_types as wire
from .body import with_floats
from .constraints import JsonObjectFormat, JsonSchemaFormat, JsonSchemaResponseFormat, ResponseFormat, TextFormat
from .errors import NotFoundError, UnsupportedRequestError
from .messages import FunctionCall, Message, ToolCall
from .response_answers import ResponseAssembler, ResponseHead
from .tools import AllowedTools, AllowedToolsChoice, FunctionDefinition, FunctionName, NamedTool, ToolDefinition
from .types import ChatCompletionRequest

MAX_RESPONSES = 1024
MAX_CHARACTERS = 32 << 20
LOGPROBS = "message.output_text.logprobs"


@dataclass(frozen=True, slots=True)
class Stored:
    """A response that later ones may continue: the conversation with its answer, without instructions."""

    response: wire.Response
    messages: tuple[Message, ...]
    characters: int


class ResponseStore:
    """Responses by id, in memory: the newest that fit in MAX_RESPONSES and MAX_CHARACTERS. Any thread may use it."""

    def __init__(self, *, count: int = MAX_RESPONSES, characters: int = MAX_CHARACTERS) -> None:
        self._count, self._characters = count, characters
        self._kept: OrderedDict[str, Stored] = OrderedDict()
        self._size = 0
        self._lock = threading.Lock()

    def put(self, response: wire.Response, messages: Sequence[Message]) -> None:
        """Keep a response; the oldest make room."""
        size = sum(len(message.model_dump_json()) for message in messages)
        with self._lock:
            self._kept[response.id] = Stored(response, tuple(messages), size)
            self._size += size
            while len(self._kept) > self._count or (self._size > self._characters and len(self._kept) > 1):
                _, oldest = self._kept.popitem(last=False)
                self._size -= oldest.characters

    def find(self, response_id: str) -> Stored | None:
        """A response, None for what was never there, was not to be stored, or had to make room."""
        with self._lock:
            return self._kept.get(response_id)

    def take(self, response_id: str) -> Stored | None:
        """A response that is forgotten by this, None as `find` has it."""
        with self._lock:
            stored = self._kept.pop(response_id, None)
            self._size -= 0 if stored is None else stored.characters
        return stored

    def get(self, response_id: str) -> Stored:
        """A response. Raises NotFoundError."""
        return _there(self.find(response_id), response_id)

    def delete(self, response_id: str) -> None:
        """Forget a response. Raises NotFoundError."""
        _there(self.take(response_id), response_id)


def _there(stored: Stored | None, response_id: str) -> Stored:
    if stored is None:
        raise NotFoundError(f"there is no response {response_id[:80]!r} here", param="response_id")
    return stored


def field_names(name: str) -> str:
    """What a field of the chat request that a response becomes is called here."""
    if name.startswith("tools."):
        return name.replace(".function.", ".")
    if name.startswith("messages"):
        return "input"
    renamed = {"prompt": "input", "max_tokens": "max_output_tokens", "response_format": "text.format"}
    return renamed.get(name, name)


def prepare(context: ChatContext, store: ResponseStore, body: wire.ResponseRequest) -> Job[Any]:
    """The job of a response. Raises what chat.prepare does, UnsupportedRequestError, and RequestError for a
    `previous_response_id` that is not kept.
    """
    _refuse_unsupported(body)
    earlier: tuple[Message, ...] = ()
    if body.previous_response_id is not None:
        try:
            earlier = store.get(body.previous_response_id).messages
        except NotFoundError as error:
            raise RequestError(
                f"there is no response {body.previous_response_id[:80]!r} here",
                param="previous_response_id",
                remedy=f"the newest {MAX_RESPONSES} are kept while the server runs; send the conversation as input",
            ) from error
    conversation = [*earlier, *conversation_of(body.input)]
    if not conversation:
        raise RequestError("input holds no message", param="input", remedy="give at least one")
    opening = [Message(role="system", content=body.instructions)] if body.instructions else []
    logprobs = body.top_logprobs is not None or LOGPROBS in (body.include or ())
    chat = ChatCompletionRequest(
        messages=[*opening, *conversation],
        model=body.model,
        response_format=_format(body.text),
        max_tokens=body.max_output_tokens,
        temperature=body.temperature,
        top_p=body.top_p,
        top_k=body.top_k,
        min_p=body.min_p,
        seed=body.seed,
        logprobs=logprobs,
        top_logprobs=body.top_logprobs,
        tools=[_tool(tool) for tool in body.tools or ()],
        tool_choice=_choice(body),
        parallel_tool_calls=body.parallel_tool_calls,
    )
    turn = prepare_turn(context, chat)
    params = turn.request.params

    def keep(response: wire.Response) -> None:
        if body.store is not False:
            store.put(response, [*conversation, *conversation_of(_items(response.output))])

    head = ResponseHead(
        response=wire.Response(
            id=f"resp_{uuid4().hex}",
            object="response",
            created_at=int(time.time()),
            status="in_progress",
            background=False,
            error=None,
            incomplete_details=None,
            instructions=body.instructions,
            max_output_tokens=body.max_output_tokens,
            metadata=body.metadata or {},
            model=context.model,
            output=[],
            parallel_tool_calls=body.parallel_tool_calls is not False,
            previous_response_id=body.previous_response_id,
            reasoning={"effort": None, "summary": None},
            store=body.store is not False,
            temperature=params.temperature,
            text={"format": {"type": "text"} if body.text is None or body.text.format is None else _told(body.text)},
            tool_choice="auto" if body.tool_choice is None else _dumped(body.tool_choice),
            tools=[_dumped(tool) for tool in body.tools or ()],
            top_p=params.top_p,
            truncation="disabled",
            usage=None,
            user=body.user,
        ),
        prompt=len(turn.request.prompt),
        logprobs=logprobs,
        reader=turn.reader,
        finished=keep,
    )
    return Job((turn.request,), ResponseAssembler(head, stream=bool(body.stream)), stream=bool(body.stream))


def _refuse_unsupported(body: wire.ResponseRequest) -> None:
    for name, value in (("background", body.background), ("conversation", body.conversation), ("prompt", body.prompt)):
        if value:
            raise UnsupportedRequestError(f"{name} is not supported", param=name, remedy="leave it out")


def conversation_of(items: str | Sequence[wire.InputItem]) -> list[Message]:
    """The items as chat messages: the calls of one turn belong to one message of the assistant's."""
    if isinstance(items, str):
        return [Message(role="user", content=items)]
    messages: list[Message] = []
    for item in items:
        if isinstance(item, wire.InputMessage):
            messages.append(Message(role=item.role, content=wire.words_of(item.content)))
        elif isinstance(item, wire.InputCall):
            call = ToolCall(id=item.call_id, function=FunctionCall(name=item.name, arguments=item.arguments))
            last = messages[-1] if messages else None
            if last is not None and last.role == "assistant":
                messages[-1] = last.model_copy(update={"tool_calls": [*(last.tool_calls or ()), call]})
            else:
                messages.append(Message(role="assistant", tool_calls=[call]))
        elif isinstance(item, wire.InputResult):
            messages.append(Message(role="tool", tool_call_id=item.call_id, content=wire.words_of(item.output)))
    return messages


def _items(output: Sequence[wire.OutputItem]) -> list[wire.InputItem]:
    """What was answered, as later input."""
    items: list[wire.InputItem] = []
    for item in output:
        if isinstance(item, wire.OutputMessage):
            items.append(wire.InputMessage(role="assistant", content="".join(part.text for part in item.content)))
        elif isinstance(item, wire.OutputCall):
            items.append(
                wire.InputCall(type="function_call", call_id=item.call_id, name=item.name, arguments=item.arguments)
            )
    return items


def _format(text: wire.TextOptions | None) -> ResponseFormat | None:
    wanted = None if text is None else text.format
    if isinstance(wanted, wire.SchemaFormat):
        schema = JsonSchemaFormat(
            name=wanted.name, schema=wanted.schema_, strict=wanted.strict, canonical=wanted.canonical
        )
        return JsonSchemaResponseFormat(type="json_schema", json_schema=schema)
    if isinstance(wanted, wire.ObjectFormat):
        return JsonObjectFormat(type="json_object", canonical=wanted.canonical)
    return None if wanted is None else TextFormat(type="text")


def _tool(tool: wire.ResponseTool) -> ToolDefinition:
    function = FunctionDefinition(
        name=tool.name, description=tool.description, parameters=tool.parameters, strict=tool.strict
    )
    return ToolDefinition(type="function", function=function)


def _choice(body: wire.ResponseRequest) -> Any:
    choice = body.tool_choice
    if isinstance(choice, wire.ToolByName):
        return _named(choice)
    if isinstance(choice, wire.AllowedByName):
        allowed = AllowedTools(mode=choice.mode, tools=[_named(tool) for tool in choice.tools])
        return AllowedToolsChoice(type="allowed_tools", allowed_tools=allowed)
    return choice


def _named(choice: wire.ToolByName) -> NamedTool:
    return NamedTool(type="function", function=FunctionName(name=choice.name))


def _dumped(part: Any) -> Any:
    return part if isinstance(part, str) else with_floats(part.model_dump(by_alias=True))


def _told(text: wire.TextOptions) -> Any:
    return _dumped(text.format)
