"""The two doors for Python programs: `Engine`, which waits, and `AsyncEngine`, which awaits.

Both hold one EngineService, and both speak OpenAI's dialect: `engine.chat.completions.create(messages=[...], ...)`.
They differ in one thing only, how a thread waits for the service's next event; everything else is chat.py's.
"""

from __future__ import annotations

import asyncio
import queue
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, Self, TypeVar, Unpack, overload

from ..plugins.protocols import CompiledGrammar
from . import chat
from .api.templates import ChatTemplate
from .api.tools import StrictLevel, check_level
from .api.types import ChatCompletion, ChatCompletionChunk, ChatCompletionParams, ChatCompletionRequest
from .chat import ChatContext
from .config import EngineConfig, Mode
from .errors import ConfigError
from .request import Event
from .runs import Job, Piece, Run, Service
from .service import EngineService
from .stats import Stats
from .typed import Prompt, TypedOutput, plain_arguments

DEFAULT_MODEL = "smollm2-135m-instruct"
CompletionsT = TypeVar("CompletionsT")
OutputT = TypeVar("OutputT")


class Stream(Iterator[Piece], Generic[Piece]):
    """What comes out of a running request, piece by piece. Closing it, or leaving its `with`, cancels what is left.

    The first event is awaited at once, so that a request that cannot run raises where it was made.
    """

    def __init__(self, service: Service, job: Job[Piece]) -> None:
        self._inbox: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._run = Run(service, job, self._inbox.put)
        try:
            self._run.feed(self._inbox.get())
        except BaseException:
            self._run.cancel()
            raise

    def __next__(self) -> Piece:
        while not self._run.ready:
            if self._run.done:
                raise StopIteration
            self._run.feed(self._inbox.get())
        return self._run.ready.popleft()

    def close(self) -> None:
        """Cancel what is left."""
        self._run.cancel()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncStream(AsyncIterator[Piece], Generic[Piece]):
    """`Stream` for `async for`. Made by `start`, inside the event loop that will read it."""

    def __init__(self, inbox: asyncio.Queue[Event], run: Run[Piece]) -> None:
        self._inbox = inbox
        self._run = run

    @classmethod
    async def start(cls, service: Service, job: Job[Piece]) -> Self:
        """Submit the job and await its first event, so that one that cannot run raises here."""
        loop = asyncio.get_running_loop()
        inbox: asyncio.Queue[Event] = asyncio.Queue()

        def deliver(event: Event) -> None:
            # The loop may close while its requests still run; nobody is left to read the event then.
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(inbox.put_nowait, event)

        # In a thread: with a grammar, finding out whether the token limit allows any answer can take a while.
        # If this task is cancelled meanwhile, the run is dropped when it is made, which cancels it.
        run = await asyncio.to_thread(Run, service, job, deliver)
        stream = cls(inbox, run)
        try:
            run.feed(await inbox.get())
        except BaseException:
            run.cancel()
            raise
        return stream

    async def __anext__(self) -> Piece:
        while not self._run.ready:
            if self._run.done:
                raise StopAsyncIteration
            self._run.feed(await self._inbox.get())
        return self._run.ready.popleft()

    async def close(self) -> None:
        """Cancel what is left."""
        self._run.cancel()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _Open:
    """What the two engines share: the service, its chat template, and its end."""

    def __init__(
        self,
        model: str | Path = DEFAULT_MODEL,
        mode: Mode = "local",
        *,
        name: str | None = None,
        chat_template: str | None = None,
        tool_format: str = "auto",
        tool_strict: StrictLevel = "always",
        progress: Callable[[str, float], None] | None = None,
        service: Service | None = None,
        **options: Any,
    ) -> None:
        """Load a model, compiling it at first use, and start the engine's thread. Blocks until it is ready.

        `model`: a known name, or the path of a GGUF file. `mode`: local, interactive or server (see EngineConfig,
        which also lists `options`). `name`: what requests and answers call the model. `chat_template`: Jinja2 source
        instead of the model's own. `tool_format`: how the model writes calls of tools, "auto" to tell by its template.
        `tool_strict`: which calls have exactly their tool's schema, "always", "absent" or "asked" (api/tools.py).
        `progress`: called with a stage and the share of it that is done. `service`: a running service to use instead of
        opening a model. Raises ConfigError, PluginError, TokenizerError, and the runtime's errors for files that cannot
        be used.
        """
        check_level(tool_strict)
        self.service = service or EngineService(
            EngineConfig.read({"model": str(model), "mode": mode, **options}), progress=progress
        )
        try:
            self.template = _template(self.service, chat_template)
            plugins = self.service.plugins
            chosen = plugins.tool_format(tool_format, self.template.source) or plugins.tool_format("json", "")
            if chosen is None:
                raise ConfigError(f"there is no tool format {tool_format!r}", key="tool_format")
            self.context = ChatContext(
                self.service, name or self.service.model_name, self.template, chosen, tool_strict
            )
        except BaseException:
            self.service.close()
            raise

    @property
    def model(self) -> str:
        """The name of the model, as requests and answers give it."""
        return self.context.model

    @property
    def compiler(self) -> Any:
        """The grammar compiler for this model's vocabulary; its cache is the one that requests use."""
        return self.service.compiler

    def compile(self, kind: str, source: Any = None, **options: Any) -> CompiledGrammar:
        """A grammar by the front end for `kind`, as requests get it: "json_schema", "json_object", or a plugin's kind.

        Raises GrammarError for the source, PluginError for an unknown kind.
        """
        return self.service.compile(kind, source, options)

    def stats(self) -> Stats:
        """Counters and times of the engine so far, as tokens decoded and seconds spent on masks."""
        return self.service.stats()

    def prepare(self, body: ChatCompletionRequest) -> Job[Any]:
        """What to submit for a request. Blocking: compiles the grammar. Raises the typed errors of chat.prepare."""
        return chat.prepare(self.context, body)

    def close(self) -> None:
        """Stop the engine's thread and free the model. Requests that still run fail with ClosedError."""
        self.service.close()


def _template(service: Service, source: str | None) -> ChatTemplate:
    tokenizer = service.tokenizer
    source = source if source is not None else tokenizer.chat_template
    if source is None:
        raise ConfigError(
            f"the model {service.model_name!r} has no chat template",
            key="chat_template",
            remedy="give one as chat_template",
        )
    return ChatTemplate(source, bos_token=tokenizer.bos_text, eos_token=tokenizer.eos_text)


class Completions:
    """`engine.chat.completions`."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @overload
    def create(
        self, *, stream: Literal[False] | None = None, **params: Unpack[ChatCompletionParams]
    ) -> ChatCompletion: ...

    @overload
    def create(
        self, *, stream: Literal[True], **params: Unpack[ChatCompletionParams]
    ) -> Stream[ChatCompletionChunk]: ...

    @overload
    def create(
        self, *, stream: bool | None, **params: Unpack[ChatCompletionParams]
    ) -> ChatCompletion | Stream[ChatCompletionChunk]: ...

    def create(
        self, *, stream: bool | None = None, **params: Unpack[ChatCompletionParams]
    ) -> ChatCompletion | Stream[ChatCompletionChunk]:
        """Answer a conversation, all at once or as a stream of chunks. Arguments are those of OpenAI's API.

        Raises RequestError, SamplingError or GrammarError, each naming what is wrong with the request.
        """
        return self.answer(chat.read_arguments({**params, "stream": stream}))

    def answer(self, body: ChatCompletionRequest) -> ChatCompletion | Stream[ChatCompletionChunk]:
        """Answer a request that was read already."""
        answer: ChatCompletion | Stream[ChatCompletionChunk] = self._engine.run(self._engine.prepare(body))
        return answer


class AsyncCompletions:
    """`engine.chat.completions` of an AsyncEngine."""

    def __init__(self, engine: AsyncEngine) -> None:
        self._engine = engine

    @overload
    async def create(
        self, *, stream: Literal[False] | None = None, **params: Unpack[ChatCompletionParams]
    ) -> ChatCompletion: ...

    @overload
    async def create(
        self, *, stream: Literal[True], **params: Unpack[ChatCompletionParams]
    ) -> AsyncStream[ChatCompletionChunk]: ...

    @overload
    async def create(
        self, *, stream: bool | None, **params: Unpack[ChatCompletionParams]
    ) -> ChatCompletion | AsyncStream[ChatCompletionChunk]: ...

    async def create(
        self, *, stream: bool | None = None, **params: Unpack[ChatCompletionParams]
    ) -> ChatCompletion | AsyncStream[ChatCompletionChunk]:
        """`Completions.create`, awaited. Cancelling the task cancels the request."""
        return await self.answer(chat.read_arguments({**params, "stream": stream}))

    async def answer(self, body: ChatCompletionRequest) -> ChatCompletion | AsyncStream[ChatCompletionChunk]:
        """Answer a request that was read already. The grammar is compiled in a thread, not on the event loop."""
        job = await asyncio.to_thread(self._engine.prepare, body)
        answer: ChatCompletion | AsyncStream[ChatCompletionChunk] = await self._engine.run(job)
        return answer


class Chat(Generic[CompletionsT]):
    """`engine.chat`."""

    def __init__(self, completions: CompletionsT) -> None:
        self.completions = completions


class Engine(_Open):
    """An engine for programs that wait: `with Engine() as engine: engine.chat.completions.create(messages=[...])`.

    Any number of threads may use one engine at once; their requests share its batches.
    """

    @cached_property
    def chat(self) -> Chat[Completions]:
        """OpenAI's name space."""
        return Chat(Completions(self))

    @overload
    def generate(
        self, prompt: Prompt, output: type[OutputT], *, system: str | None = None, **params: Any
    ) -> OutputT: ...

    @overload
    def generate(self, prompt: Prompt, output: None = None, *, system: str | None = None, **params: Any) -> str: ...

    @overload
    def generate(self, prompt: Prompt, output: Any, *, system: str | None = None, **params: Any) -> Any: ...

    def generate(self, prompt: Prompt, output: Any = None, *, system: str | None = None, **params: Any) -> Any:
        """The answer to a prompt, a text or messages, as an object of the type `output`; as a text without one.

        `output`: whatever pydantic can describe: a model, a dataclass, a TypedDict, an Enum, a Literal, lists of these.
        `params`: those of `chat.completions.create`. Raises as that does; pydantic's ValidationError where the type
        asks for more than its JSON Schema says.
        """
        if output is None:
            answer = self.chat.completions.create(**plain_arguments(prompt, system, params))
            return answer.choices[0].message.content or ""
        typed = TypedOutput(output)
        answer = self.chat.completions.create(**typed.arguments(prompt, system, params))
        return typed.read(answer.choices[0].message.content or "")

    def stream_partial(self, prompt: Prompt, output: Any, *, system: str | None = None, **params: Any) -> Iterator[Any]:
        """The answer as it grows: valid partial objects (see `slipcast.engine.typed`), and at the end the answer.

        Closing the iterator cancels the request. Arguments and errors as of `generate`.
        """
        typed = TypedOutput(output)
        growing = typed.growing()
        with self.chat.completions.create(stream=True, **typed.arguments(prompt, system, params)) as chunks:
            for chunk in chunks:
                for choice in chunk.choices:
                    yield from growing.push(choice.delta.content or "")
        yield growing.end()

    def run(self, job: Job[Any]) -> Any:
        """Submit a job: its answer, or a Stream of the pieces if that is what it is for."""
        if job.stream:
            return Stream(self.service, job)
        with Stream(self.service, job) as whole:
            return next(whole)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncEngine(_Open):
    """An engine for asyncio: Engine with `await`, `async with` and `async for`.

    Opening it blocks like Engine's; open it before the event loop runs, or in a thread.
    """

    @cached_property
    def chat(self) -> Chat[AsyncCompletions]:
        """OpenAI's name space."""
        return Chat(AsyncCompletions(self))

    @overload
    async def generate(
        self, prompt: Prompt, output: type[OutputT], *, system: str | None = None, **params: Any
    ) -> OutputT: ...

    @overload
    async def generate(
        self, prompt: Prompt, output: None = None, *, system: str | None = None, **params: Any
    ) -> str: ...

    @overload
    async def generate(self, prompt: Prompt, output: Any, *, system: str | None = None, **params: Any) -> Any: ...

    async def generate(self, prompt: Prompt, output: Any = None, *, system: str | None = None, **params: Any) -> Any:
        """`Engine.generate`, awaited."""
        if output is None:
            answer = await self.chat.completions.create(**plain_arguments(prompt, system, params))
            return answer.choices[0].message.content or ""
        typed = TypedOutput(output)
        answer = await self.chat.completions.create(**typed.arguments(prompt, system, params))
        return typed.read(answer.choices[0].message.content or "")

    async def stream_partial(
        self, prompt: Prompt, output: Any, *, system: str | None = None, **params: Any
    ) -> AsyncIterator[Any]:
        """`Engine.stream_partial` for `async for`. Closing it (`aclose`) cancels the request."""
        typed = TypedOutput(output)
        growing = typed.growing()
        stream = await self.chat.completions.create(stream=True, **typed.arguments(prompt, system, params))
        async with stream as chunks:
            async for chunk in chunks:
                for choice in chunk.choices:
                    for known in growing.push(choice.delta.content or ""):
                        yield known
        yield growing.end()

    async def run(self, job: Job[Any]) -> Any:
        """`Engine.run`, awaited. Cancelling the task cancels the requests."""
        if job.stream:
            return await AsyncStream.start(self.service, job)
        async with await AsyncStream.start(self.service, job) as whole:
            return await anext(whole)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)
