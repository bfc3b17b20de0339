"""How a request says what its answer may be, beside JSON in `response_format`: patterns, lists, other engines' names.

`response_format` may be `{"type": "regex", "pattern": ...}` or `{"type": "choice", "choices": [...]}`. The fields
`guided_json`, `guided_regex`, `guided_choice` and `structured_outputs` mean what they mean to vLLM. A request may say
it in one way only.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from pydantic import BaseModel, ConfigDict, Field

from ..errors import RequestError

Source = tuple[str, Any, Mapping[str, Any]]
"""Kind, source and options of a grammar, for `EngineService.compile`."""


class _Constraint(BaseModel):
    """What is not known here would not be obeyed: it is an error."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, populate_by_name=True)


class RegexFormat(_Constraint):
    """`response_format`: a text that the ECMA-262 pattern matches as a whole."""

    type: Literal["regex"]
    pattern: str


class ChoiceFormat(_Constraint):
    """`response_format`: one of these texts."""

    type: Literal["choice"]
    choices: list[str] = Field(min_length=1)


class StructuredOutputs(_Constraint):
    """vLLM's `structured_outputs`: one of its fields. `json` is a schema, or the JSON text of one."""

    json_: dict[str, Any] | bool | str | None = Field(default=None, alias="json")
    regex: str | None = None
    choice: list[str] | None = Field(default=None, min_length=1)
    json_object: bool | None = None


class Guided(Protocol):
    """The fields of a request that are read here."""

    @property
    def guided_json(self) -> dict[str, Any] | bool | str | None: ...

    @property
    def guided_regex(self) -> str | None: ...

    @property
    def guided_choice(self) -> list[str] | None: ...

    @property
    def structured_outputs(self) -> StructuredOutputs | None: ...


def one_source(wanted: Source | None, request: Guided) -> Source | None:
    """The grammar that the request asks for, `wanted` or by one of the fields; None for free text.

    Raises RequestError if it asks for several.
    """
    found = [] if wanted is None else [("response_format", wanted)]
    named: list[tuple[str, str, Any]] = [
        ("guided_json", "json_schema", request.guided_json),
        ("guided_regex", "regex", request.guided_regex),
        ("guided_choice", "choice", request.guided_choice),
    ]
    outputs = request.structured_outputs
    if outputs is not None:
        named += [
            ("structured_outputs.json", "json_schema", outputs.json_),
            ("structured_outputs.regex", "regex", outputs.regex),
            ("structured_outputs.choice", "choice", outputs.choice),
            ("structured_outputs.json_object", "json_object", outputs.json_object or None),
        ]
    for name, kind, source in named:
        if source is not None:
            found.append((name, (kind, None if kind == "json_object" else source, {})))
    if len(found) > 1:
        first, second = found[0][0], found[1][0]
        raise RequestError(f"{first} and {second} both say what the answer may be", param=second, remedy="give one")
    return found[0][1] if found else None
