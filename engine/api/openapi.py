"""The OpenAPI document (3.1), made from the types that the endpoints read and write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from .http import Endpoint
from .response_types import DeletedResponse, Response
from .wire import ErrorBody, Health, Model, ModelList

REFERENCE = "#/components/schemas/{model}"
# What any endpoint that takes a body may answer beside success (api/errors.py has the whole table).
FAILURES = {
    "400": "The request cannot be served as asked",
    "404": "The model is not served here",
    "413": "The body is too large",
    "422": "The request asks for what this server does not do",
    "429": "Too many requests are waiting",
    "500": "The request failed",
    "503": "The server is ending",
}


def document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """The document for these endpoints and the server's own GET routes."""
    returned = (Health, Model, ModelList, Response, DeletedResponse, ErrorBody)
    types: list[tuple[type[BaseModel], Any]] = [(entry.body, "validation") for entry in endpoints]
    types += [(kind, "serialization") for kind in _unique([*(entry.returns for entry in endpoints), *returned])]
    references, definitions = models_json_schema(types, ref_template=REFERENCE)
    schema = {kind: reference for (kind, _), reference in references.items()}
    paths: dict[str, Any] = {
        "/health": _get("Whether the engines take requests", schema[Health]),
        "/v1/models": _get("The models served here", schema[ModelList]),
        "/v1/models/{model}": _get("One of them", schema[Model], schema[ErrorBody], "model"),
    }
    deleted = _get("Forget it", schema[DeletedResponse], schema[ErrorBody], "id")["get"]
    kept = _get("A response that is kept", schema[Response], schema[ErrorBody], "id")
    paths["/v1/responses/{id}"] = {**kept, "delete": deleted}
    for entry in endpoints:
        content: dict[str, Any] = {"application/json": {"schema": schema[entry.returns]}}
        if entry.streams:
            content["text/event-stream"] = {"schema": {"type": "string"}}
        failure = {"application/json": {"schema": schema[ErrorBody]}}
        paths[entry.path] = {
            "post": {
                "summary": entry.summary,
                "requestBody": {"required": True, "content": {"application/json": {"schema": schema[entry.body]}}},
                "responses": {
                    "200": {"description": "The answer", "content": content},
                    **{status: {"description": what, "content": failure} for status, what in FAILURES.items()},
                },
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Slipcast", "version": _version()},
        "paths": paths,
        "components": {"schemas": definitions.get("$defs", {})},
    }


def _get(summary: str, answer: Any, failure: Any = None, parameter: str | None = None) -> dict[str, Any]:
    responses = {"200": {"description": "The answer", "content": {"application/json": {"schema": answer}}}}
    entry: dict[str, Any] = {"summary": summary, "responses": responses}
    if failure is not None:
        responses["404"] = {"description": "Not here", "content": {"application/json": {"schema": failure}}}
    if parameter is not None:
        entry["parameters"] = [{"name": parameter, "in": "path", "required": True, "schema": {"type": "string"}}]
    return {"get": entry}


def _unique(kinds: Iterable[type[BaseModel]]) -> list[type[BaseModel]]:
    return list(dict.fromkeys(kinds))


def _version() -> str:
    try:
        return version("slipcast")
    except PackageNotFoundError:
        return "0"
