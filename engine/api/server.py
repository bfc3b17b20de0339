"""The REST door: OpenAI's API over HTTP, as a Starlette application.

    POST /v1/chat/completions    answers, or streams server-sent events where the body says `"stream": true`
    POST /v1/completions         the same for plain prompts
    POST /v1/responses           the Responses API; GET and DELETE /v1/responses/{id} for those that are kept
    POST /v1/embeddings          vectors of texts
    POST /v1/grammar/check       what a schema or another constraint amounts to
    POST /tokenize, /detokenize  tokens of a text, text of tokens
    GET  /v1/models              the models served here
    GET  /health                 200 while the engines take requests, else 503
    GET  /metrics                the engines' numbers, for Prometheus
    GET  /v1/plugins             plugins, their hooks and the time spent in them; and the routes that plugins add
    GET  /openapi.json           all of this, for programs
    GET  /                       a page to chat with the models (api/page)

Every error is OpenAI's body with the status of api/errors.py's table. A request whose client goes away is
cancelled, streaming or not. Once a stream has begun its status is sent, so an error there becomes the stream's last
event.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from .. import chat
from ..engine import AsyncEngine, AsyncStream
from ..errors import ClosedError, EngineError
from ..runs import Job
from . import completions, embeddings, responses, utilities
from .access import REQUEST_ID, Access, AccessRules
from .completion_types import Completion, CompletionRequest
from .errors import Names, chat_names, own_names
from .extensions import extension_routes
from .http import (
    JSON_TYPE,
    Answer,
    Endpoint,
    JsonEndpoint,
    answer_error,
    answer_http_error,
    openai_stream,
    response_stream,
)
from .metrics import CONTENT_TYPE, EngineMetrics
from .openapi import document
from .page import page_routes
from .registry import Registry
from .response_answers import ResponseAssembler
from .response_types import DeletedResponse, ResponseRequest
from .response_types import Response as ResponseObject
from .responses import ResponseStore
from .types import ChatCompletion, ChatCompletionRequest
from .wire import Health, Model, ModelList, WireResponse

MAX_BODY_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Serving:
    """What the endpoints answer from. `started`: seconds since the epoch."""

    registry: Registry
    started: int
    store: ResponseStore

    async def generate(
        self,
        body: Any,
        prepare: Callable[[chat.ChatContext, Any], Job[Any]],
        names: Names = chat_names,
    ) -> Answer:
        """Prepare a job for a body that has a `model`, in a thread, and run it: the answer or its stream."""
        engine = self.registry.find(body.model)
        job = await asyncio.to_thread(prepare, engine.context, body)
        answer = await engine.run(job)
        return openai_stream(answer, names) if isinstance(answer, AsyncStream) else _whole(answer)

    async def respond(self, body: ResponseRequest) -> Answer:
        """Answer by the Responses API."""
        engine = self.registry.find(body.model)
        job = await asyncio.to_thread(responses.prepare, engine.context, self.store, body)
        answer = await engine.run(job)
        if isinstance(answer, AsyncStream):
            assert isinstance(job.assembler, ResponseAssembler)
            return response_stream(answer, job.assembler, responses.field_names)
        return _whole(answer)

    async def embed(self, body: embeddings.EmbeddingRequest) -> Answer:
        """Vectors of texts."""
        return await embeddings.embed(self.registry.find(body.model).context, body)

    async def compute(self, body: Any, answer: Callable[[chat.ChatContext, Any], WireResponse]) -> Answer:
        """Answer a body that has a `model` in a thread, without the model's step."""
        return await asyncio.to_thread(answer, self.registry.find(body.model).context, body)

    def model(self, name: str) -> Model:
        """A served model as the wire has it. Raises ModelNotFoundError."""
        return Model(id=self.registry.find(name).model, object="model", created=self.started, owned_by="slipcast")


def _whole(answer: Any) -> WireResponse:
    assert isinstance(answer, WireResponse)
    return answer


def endpoints(serving: Serving) -> list[Endpoint]:
    """Every endpoint that takes a JSON body."""
    generate, compute = serving.generate, serving.compute
    return [
        Endpoint(
            "/v1/chat/completions",
            ChatCompletionRequest,
            lambda body: generate(body, chat.prepare),
            ChatCompletion,
            "Answer a conversation",
            streams=True,
        ),
        Endpoint(
            "/v1/completions",
            CompletionRequest,
            lambda body: generate(body, completions.prepare, completions.field_names),
            Completion,
            "Continue one or more prompts",
            streams=True,
            names=completions.field_names,
        ),
        Endpoint(
            "/v1/responses",
            ResponseRequest,
            serving.respond,
            ResponseObject,
            "Answer by the Responses API",
            streams=True,
            names=responses.field_names,
        ),
        Endpoint(
            "/v1/embeddings",
            embeddings.EmbeddingRequest,
            serving.embed,
            embeddings.EmbeddingList,
            "Vectors of texts",
            names=embeddings.embedding_names,
        ),
        Endpoint(
            "/v1/grammar/check",
            utilities.GrammarCheckRequest,
            lambda body: compute(body, utilities.check_grammar),
            utilities.GrammarCheckResponse,
            "Say what a schema or another constraint amounts to",
        ),
        Endpoint(
            "/tokenize",
            utilities.TokenizeRequest,
            lambda body: compute(body, utilities.tokenize),
            utilities.TokenizeResponse,
            "Tokens of a text or a conversation",
            names=own_names,
        ),
        Endpoint(
            "/detokenize",
            utilities.DetokenizeRequest,
            lambda body: compute(body, utilities.detokenize),
            utilities.DetokenizeResponse,
            "Text of tokens",
            names=own_names,
        ),
    ]


def create_app(
    engine: AsyncEngine | Sequence[AsyncEngine],
    *,
    max_body_bytes: int = MAX_BODY_BYTES,
    routes: Sequence[BaseRoute] = (),
    access: AccessRules | None = None,
    cors_origins: Sequence[str] = (),
    page: bool = True,
    store: ResponseStore | None = None,
) -> Starlette:
    """The application over running engines, which it closes at shutdown. Bodies are read up to `max_body_bytes`.

    `routes` are served beside its own, and the chat page unless `page` is False. `access`: keys and limits of requests;
    None, all may ask. `cors_origins`: whose pages may ask, "*" for any. `store`: where responses are kept, None for in
    here. Raises ConfigError for two engines of one name.
    """
    registry = Registry([engine] if isinstance(engine, AsyncEngine) else engine)
    serving = Serving(registry, int(time.time()), store or ResponseStore())
    table = endpoints(serving)
    described = document(table)
    numbers = EngineMetrics((engine.model, engine.service) for engine in registry)
    extensions, open_paths = extension_routes(registry, max_body_bytes)
    rules = access or AccessRules()
    rules = replace(rules, open_paths=rules.open_paths | open_paths)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await registry.close()

    async def health(request: Request) -> Response:
        if any(engine.service.closed for engine in registry):
            raise ClosedError("the engine was closed", remedy="start the server again")
        return _json(Health(status="ok"))

    async def models(request: Request) -> Response:
        return _json(ModelList(object="list", data=[serving.model(name) for name in registry.names]))

    async def model(request: Request) -> Response:
        return _json(serving.model(request.path_params["model"]))

    async def stored(request: Request) -> Response:
        response_id = request.path_params["id"]
        if request.method == "DELETE":
            await asyncio.to_thread(serving.store.delete, response_id)
            return _json(DeletedResponse(id=response_id, object="response", deleted=True))
        kept = await asyncio.to_thread(serving.store.get, response_id)
        return _json(kept.response)

    async def openapi(request: Request) -> Response:
        return JSONResponse(described)

    async def metrics(request: Request) -> Response:
        return Response(await asyncio.to_thread(numbers.text), media_type=CONTENT_TYPE)

    return Starlette(
        routes=[
            Route("/health", health),
            Route("/openapi.json", openapi),
            Route("/metrics", metrics),
            Route("/v1/models", models),
            Route("/v1/models/{model:path}", model),
            Route("/v1/responses/{id}", stored, methods=["GET", "DELETE"]),
            *(Route(entry.path, JsonEndpoint(entry, max_body_bytes), methods=["POST"]) for entry in table),
            *extensions,
            *(page_routes() if page else ()),
            *routes,
        ],
        lifespan=lifespan,
        middleware=around(rules, cors_origins),
        exception_handlers={HTTPException: answer_http_error, EngineError: answer_error, Exception: answer_error},
    )


def around(rules: AccessRules, cors_origins: Sequence[str]) -> list[Middleware]:
    """What stands around all endpoints, outermost first."""
    middleware = [Middleware(Access, rules=rules)]
    if cors_origins:
        # Outermost: a browser asks first what it may do, and shows without these headers no error of ours.
        cors = Middleware(
            CORSMiddleware,
            allow_origins=list(cors_origins),
            allow_methods=["*"],
            allow_headers=["*"],
            expose_headers=[REQUEST_ID],
        )
        middleware.insert(0, cors)
    return middleware


def _json(answer: WireResponse) -> Response:
    return Response(answer.dump(), media_type=JSON_TYPE)
