"""Answers as Python objects: `engine.generate(prompt, Order)`, and `engine.stream_partial` as they grow.

Any type that pydantic can describe will do: models, dataclasses, TypedDicts, enumerations, `Literal`, lists and unions
of these. Its JSON Schema becomes the grammar of the answer, and pydantic reads the answer back.

A partial object is one of a *partial type*: like the type that was asked for, but every field may be missing (None, or
absent in a TypedDict) at every depth, and bounds on lengths and sizes do not count yet. It holds what is known for
sure: strings as far as they have come, lists with the items so far, numbers and all else once they are complete. Each
is checked by pydantic before it is given out, and holds no less than the one before; the last is the answer itself.
"""

from __future__ import annotations

import dataclasses
import types
from collections import abc
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, ForwardRef, Union, get_args, get_origin, get_type_hints

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    RootModel,
    TypeAdapter,
    ValidationError,
    create_model,
)
from pydantic.errors import PydanticSchemaGenerationError, PydanticUserError
from pydantic_core import from_json
from typing_extensions import TypedDict, is_typeddict

from .errors import RequestError

Prompt = str | Sequence[Mapping[str, Any]]
_NUMBER = "+-.0123456789eE"


def plain_arguments(prompt: Prompt, system: str | None, params: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `chat.completions.create` for one answer to a prompt, a text or messages.

    Raises RequestError for arguments that have no meaning here.
    """
    for name in ("messages", "stream", "stream_options"):
        if name in params:
            raise RequestError(f"{name} has no meaning here", param=name)
    if params.get("n") not in (None, 1):
        raise RequestError("one answer is returned", param="n", remedy="ask as often as answers are wanted")
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(prompt)
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return {**params, "messages": messages}


class TypedOutput:
    """A type, as a request and for reading its answer."""

    def __init__(self, output: Any) -> None:
        """Raises RequestError if pydantic cannot describe the type as a JSON Schema."""
        try:
            self._adapter: TypeAdapter[Any] = TypeAdapter(output)
            self.schema = closed(self._adapter.json_schema())
        except (PydanticSchemaGenerationError, PydanticUserError, TypeError) as error:
            raise RequestError(
                f"answers cannot be of the type {output!r}: {str(error).splitlines()[0]}",
                param="output",
                remedy="give a pydantic model, a dataclass, a TypedDict, an Enum, a Literal or the like",
            ) from error
        self.name = getattr(output, "__name__", "answer")
        self._output = output

    def arguments(self, prompt: Prompt, system: str | None, params: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of `chat.completions.create`. Raises RequestError for those that have no meaning here."""
        for name in ("response_format", "tools", "tool_choice"):
            if name in params:
                raise RequestError(f"{name} has no meaning beside a type for the answer", param=name)
        schema = {"name": self.name, "schema": self.schema}
        response_format = {"type": "json_schema", "json_schema": schema}
        return {**plain_arguments(prompt, system, params), "response_format": response_format}

    def read(self, text: str) -> Any:
        """The answer. Raises pydantic's ValidationError where the type asks for more than its JSON Schema says."""
        return self._adapter.validate_json(text)

    def growing(self) -> Growing:
        """For an answer that comes in pieces."""
        return Growing(self)

    def partial(self) -> TypeAdapter[Any]:
        """For partial objects."""
        return TypeAdapter(partial_type(self._output))


class Growing:
    """An answer that comes in pieces."""

    def __init__(self, output: TypedOutput) -> None:
        self._output = output
        self._adapter = output.partial()
        self._text = ""
        self._inside = self._escaped = False
        self._last: Any = None

    def push(self, text: str) -> Iterator[Any]:
        """More text came: the partial object, if it tells more than the last one."""
        for char in text:
            if self._inside:
                self._inside = self._escaped or char != '"'
                self._escaped = char == "\\" and not self._escaped
            elif char == '"':
                self._inside = True
        self._text += text
        known = self._known()
        if known is not None and known != self._last:
            self._last = known
            yield known

    def end(self) -> Any:
        """The answer."""
        return self._output.read(self._text)

    def _known(self) -> Any:
        # Digits may follow the last ones.
        text = self._text if self._inside else self._text.rstrip(_NUMBER)
        try:
            value = _parsed(text)
        except ValueError:  # nothing yet
            return None
        for each in (value, _without_unfinished(value)):
            with suppress(ValidationError):
                return self._adapter.validate_python(each)
        return None


def _parsed(text: str) -> Any:
    """What a JSON text begins with; a string that it ends within is `_Unfinished`."""
    value = from_json(text, allow_partial="trailing-strings")
    with suppress(ValueError):
        if from_json(text, allow_partial="on") == value:
            return value
    return _marked(value)


def _marked(value: Any) -> Any:
    if isinstance(value, str):
        return _Unfinished(value)
    if isinstance(value, dict) and value:
        last = next(reversed(value))
        return {**value, last: _marked(value[last])}
    return [*value[:-1], _marked(value[-1])] if isinstance(value, list) and value else value


def _without_unfinished(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_unfinished(each) for key, each in value.items() if not isinstance(each, _Unfinished)}
    if isinstance(value, list):
        return [_without_unfinished(each) for each in value if not isinstance(each, _Unfinished)]
    return value


def closed(schema: dict[str, Any]) -> dict[str, Any]:
    """The JSON Schema, closed where it does not say that it takes more keys than its properties.

    pydantic leaves such objects open, and would drop what a language model adds to them.
    """
    for part in (schema, *schema.get("$defs", {}).values()):
        if "properties" in part:
            part.setdefault("additionalProperties", False)
    return schema


def partial_type(output: Any) -> Any:
    """The type of partial objects (see the module's text)."""
    partials = _Partials()
    found = partials.of(output)
    for model in partials.models.values():
        model.model_rebuild(_types_namespace={each.__name__: each for each in partials.models.values()})
    return found


class _Unfinished(str):
    """A string that may go on."""

    __slots__ = ()


def _finished(value: Any) -> Any:
    if isinstance(value, _Unfinished):
        raise ValueError("it may go on")
    return value


_Text = Annotated[str, AfterValidator(str)]  # a plain one, of an unfinished one


class _Partials:
    """Makes partial types. `models` are those of pydantic models, by these."""

    def __init__(self) -> None:
        self.models: dict[type[BaseModel], type[BaseModel]] = {}
        self._under_way: dict[Any, str] = {}

    def of(self, output: Any) -> Any:
        origin, arguments = get_origin(output), get_args(output)
        if origin is Annotated:
            return self.of(arguments[0])
        if origin in (Union, types.UnionType):
            return Union[tuple(self.of(each) for each in arguments)]  # noqa: UP007
        if origin in (list, set, frozenset, tuple, abc.Sequence):
            items = tuple(self.of(each) for each in arguments if each is not Ellipsis)
            return types.GenericAlias(list, (Union[items] if items else Any,))  # noqa: UP007
        if origin in (dict, abc.Mapping):
            return types.GenericAlias(dict, (arguments[0], self.of(arguments[1])))
        if isinstance(output, type) and issubclass(output, RootModel):
            return self.of(output.model_fields["root"].annotation)
        if isinstance(output, type) and issubclass(output, BaseModel):
            return self._model(output)
        if is_typeddict(output) or (dataclasses.is_dataclass(output) and isinstance(output, type)):
            return self._record(output)
        if output in (str, Any):
            return _Text if output is str else Any
        return Annotated[output, BeforeValidator(_finished)]

    def _model(self, output: type[BaseModel]) -> Any:
        if output in self.models:
            return self.models[output]
        if output in self._under_way:
            return ForwardRef(self._under_way[output])
        taken = {*self._under_way.values(), *(each.__name__ for each in self.models.values())}
        name = f"Partial{output.__name__}"
        while name in taken:
            name += "_"
        self._under_way[output] = name
        fields: dict[str, Any] = {}
        for field, info in output.model_fields.items():
            default = Field(default=None, validation_alias=info.validation_alias or info.alias)
            fields[field] = (Union[self.of(info.annotation), None], default)  # noqa: UP007
        self.models[output] = create_model(name, **fields)
        return self.models[output]

    def _record(self, output: Any) -> Any:
        """Of a dataclass or a TypedDict; within itself such a type is anything, and so comes as a dict."""
        if output in self._under_way:
            return Any
        self._under_way[output] = output.__name__
        hints = {name: self.of(hint) for name, hint in get_type_hints(output).items()}
        del self._under_way[output]
        if is_typeddict(output):
            return TypedDict(f"Partial{output.__name__}", hints, total=False)  # type: ignore[operator]
        fields = [(each.name, Union[hints[each.name], None], None) for each in dataclasses.fields(output)]  # noqa: UP007
        return dataclasses.make_dataclass(f"Partial{output.__name__}", fields)
