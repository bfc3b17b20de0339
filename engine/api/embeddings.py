"""Embeddings, after OpenAI's API reference, "Embeddings": types, and how texts become vectors."""

from __future__ import annotations

import asyncio
import base64
from typing import Literal, cast

import numpy as np
from pydantic import model_validator

from ..chat import ChatContext, check_model
from ..embedding import Vector
from ..prompt import encode_text
from .completion_types import MAX_PROMPTS
from .errors import UnsupportedRequestError
from .wire import WireRequest, WireResponse, fault_in


class EmbeddingRequest(WireRequest):
    """The body of `POST /v1/embeddings`: texts or token ids. In texts no name of a special token has a meaning."""

    input: str | list[str] | list[int] | list[list[int]]
    model: str | None = None
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: int | None = None

    @model_validator(mode="after")
    def _is_possible(self) -> EmbeddingRequest:
        if not self.input or any(isinstance(text, str | list) and not text for text in self.inputs):
            raise fault_in("input", "input is empty: give at least one text or token")
        if len(self.inputs) > MAX_PROMPTS:
            raise fault_in("input", f"input holds {len(self.inputs)} texts, more than {MAX_PROMPTS}")
        return self

    @property
    def inputs(self) -> list[str] | list[list[int]]:
        """The texts, one or more."""
        if isinstance(self.input, str):
            return [self.input]
        whole = bool(self.input) and isinstance(self.input[0], int)
        return cast("list[str] | list[list[int]]", [self.input] if whole else self.input)


class Embedding(WireResponse):
    """One vector: numbers, or little-endian float32 in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(WireResponse):
    """Token counts."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingList(WireResponse):
    """The vectors, in the order of the input."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: EmbeddingUsage


async def embed(context: ChatContext, body: EmbeddingRequest) -> EmbeddingList:
    """Mean-pooled, normalised vectors (engine/embedding.py).

    Raises RequestError for what cannot be embedded, ContextLengthError, BusyError.
    """
    check_model(body.model, context.model)
    texts = await asyncio.to_thread(_encode, context, body)
    waited = [asyncio.wrap_future(context.service.embed(tokens)) for tokens in texts]
    try:
        vectors = await asyncio.gather(*waited)
    finally:
        for future in waited:
            future.cancel()
    if body.dimensions is not None and any(len(vector) != body.dimensions for vector in vectors):
        raise UnsupportedRequestError(
            f"the model's embeddings have {len(vectors[0])} dimensions", param="dimensions", remedy="leave it out"
        )
    written = [_base64(vector) if body.encoding_format == "base64" else vector.tolist() for vector in vectors]
    count = sum(map(len, texts))
    return EmbeddingList(
        object="list",
        data=[Embedding(object="embedding", index=i, embedding=vector) for i, vector in enumerate(written)],
        model=context.model,
        usage=EmbeddingUsage(prompt_tokens=count, total_tokens=count),
    )


def embedding_names(name: str) -> str:
    """What the engine's names are called here."""
    return "input" if name in ("prompt", "max_tokens") else name


def _encode(context: ChatContext, body: EmbeddingRequest) -> list[tuple[int, ...]]:
    service = context.service
    return [
        encode_text(service.tokenizer, text, limit=service.context_length) if isinstance(text, str) else tuple(text)
        for text in body.inputs
    ]


def _base64(vector: Vector) -> str:
    return base64.b64encode(vector.astype(np.dtype("<f4")).tobytes()).decode()
