"""Answers as Python objects, whole and growing."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import json
import random
from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise
from typing import Annotated, Any, Literal, NotRequired

import pytest
from fakes import FakeService, words
from pydantic import BaseModel, Field, RootModel, ValidationError, model_validator
from slipcast.engine import AsyncEngine, Engine
from slipcast.engine.errors import DownloadError, RequestError
from slipcast.engine.typed import TypedOutput
from typing_extensions import TypedDict


class Kind(enum.Enum):
    short = "a"
    long = "ab"


class Node(BaseModel):
    value: int
    below: list[Node] = Field(default=[], max_length=2)


class Item(BaseModel):
    name: str = Field(min_length=3, max_length=12, alias="the name")
    kind: Kind
    colour: Literal["red", "redder"] | None = None
    at: datetime
    count: int = Field(ge=1, le=120)
    tree: Node


@dataclasses.dataclass
class Order:
    customer: str
    items: Annotated[list[Item], Field(max_length=2)]


class Row(TypedDict):
    x: Annotated[str, Field(max_length=9)]
    y: NotRequired[int]


class Names(RootModel[list[str]]):
    pass


ITEM = {
    "the name": 'b\n"o\\b é😀', "kind": "ab", "colour": "redder", "at": "2024-01-01T10:00:00Z", "count": 12,
    "tree": {"value": -1, "below": [{"value": 22, "below": []}, {"value": 3}]},
}  # fmt: skip
VALUES: list[tuple[Any, Any]] = [
    (Order, {"customer": "Ann", "items": [ITEM, ITEM]}),
    (Item, ITEM),
    (list[Item], [ITEM]),
    (Row, {"x": "abc", "y": 12}),
    (Kind, "ab"),
    (Literal["red", "redder", 3], "redder"),
    (int | str, "12"),
    (int | str, 12),
    (dict[str, Node], {"k": {"value": 1}}),
    (Names, ["a", "b"]),
    (tuple[int, str], [12, "x"]),
    (Any, {"a": [1, {"b": None}]}),
    (bool, True),
]


def less(before: Any, after: Any) -> bool:
    """Whether `after` tells all that `before` tells."""
    after = after.root if isinstance(after, RootModel) else after
    if isinstance(before, BaseModel):
        before, after = dict(before), dict(after)
    if dataclasses.is_dataclass(before) and not isinstance(before, type):
        before, after = vars(before), vars(after)
    if before is None:
        return True
    if isinstance(before, dict):
        return all(key in after and less(value, after[key]) for key, value in before.items())
    if isinstance(before, list | tuple):
        return len(before) <= len(after) and all(less(a, b) for a, b in zip(before, after, strict=False))
    if type(before) is str:
        return after.startswith(before)
    return before == after


@pytest.mark.parametrize(("output", "value"), VALUES, ids=lambda each: str(each)[:30])
@pytest.mark.parametrize("ascii_only", [True, False])
def test_partial_objects_grow_and_never_take_back(output, value, ascii_only):
    text = json.dumps(value, ensure_ascii=ascii_only)
    rng = random.Random(len(text))
    for most in (1, 3, 9):
        typed = TypedOutput(output)
        growing, known, rest = typed.growing(), [], text
        while rest:
            size = rng.randint(1, most)
            known += growing.push(rest[:size])
            rest = rest[size:]
        known.append(growing.end())
        assert known[-1] == typed.read(text)
        assert all(less(a, b) for a, b in pairwise(known)), known
        assert all(a != b for a, b in pairwise(known[:-1]))
        assert most > 1 or len(known) > 1 or not isinstance(value, dict)


def test_partial_objects_hold_strings_as_they_come_and_the_rest_once_it_is_complete():
    growing = TypedOutput(Item).growing()
    [known] = growing.push('{"the name":"bo')
    assert (known.name, known.kind, type(known.name)) == ("bo", None, str)
    assert list(growing.push('b","kind":"a'))[-1].kind is None
    [known] = growing.push('"')
    assert known.kind is Kind.short
    assert list(growing.push(',"colour":"red","at":"2024-01-01T00:00:00Z","count":1'))[-1].count is None
    [known] = growing.push(',')
    assert known.count == 1 and known.tree is None


@pytest.fixture
def service() -> Iterator[FakeService]:
    yield FakeService(words('{"x": "a', 'bc", "y"', ": 4}"))


def test_both_engines(service):
    with Engine(service=service) as engine:
        assert engine.generate("Row?", Row, temperature=0, system="Be brief.") == {"x": "abc", "y": 4}
        assert engine.generate("Text?") == '{"x": "abc", "y": 4}'
        wanted = [{"x": "a"}, {"x": "abc"}, {"x": "abc", "y": 4}, {"x": "abc", "y": 4}]
        assert list(engine.stream_partial([{"role": "user", "content": "Row?"}], Row)) == wanted
        kind, schema, _ = service.compiled[0]
        assert kind == "json_schema" and schema["additionalProperties"] is False
        assert "".join(map(chr, service.requests[0].prompt)).startswith("<system>Be brief.<user>Row?")

    async def ask() -> None:
        async with AsyncEngine(service=service) as engine:
            assert await engine.generate("Row?", Row) == {"x": "abc", "y": 4}
            assert await engine.generate("Text?") == '{"x": "abc", "y": 4}'
            assert [known async for known in engine.stream_partial("Row?", Row)] == wanted

    asyncio.run(ask())


def test_leaving_a_growing_answer_cancels_it():
    service = FakeService(words('{"x": "a', "b", "c"))
    with Engine(service=service) as engine:
        growing = engine.stream_partial("Row?", Row)
        assert next(growing) == {"x": "a"}
        growing.close()
        assert service.was_cancelled.wait(5)


@pytest.mark.parametrize(
    ("params", "said"),
    [
        ({"response_format": {"type": "text"}}, "response_format has no meaning"),
        ({"tools": []}, "tools has no meaning"),
        ({"n": 2}, "one answer is returned"),
        ({"stream": True}, "stream has no meaning"),
        ({"messages": []}, "messages has no meaning"),
    ],
)
def test_arguments_without_meaning(service, params, said):
    with Engine(service=service) as engine, pytest.raises(RequestError, match=said):
        engine.generate("Row?", Row, **params)
    with Engine(service=service) as engine, pytest.raises(TypeError, match="unexpected keyword argument 'tempreature'"):
        engine.generate("Row?", Row, tempreature=1)


@pytest.mark.parametrize("output", [object(), print, iter])
def test_types_that_cannot_be_described(service, output):
    with Engine(service=service) as engine, pytest.raises(RequestError, match="answers cannot be of the type"):
        engine.generate("?", output)


def test_what_a_schema_cannot_say_is_pydantics_to_refuse(service):
    class Picky(BaseModel):
        x: str
        y: int

        @model_validator(mode="after")
        def check(self) -> Picky:
            raise ValueError("never")

    with Engine(service=service) as engine, pytest.raises(ValidationError, match="never"):
        engine.generate("?", Picky)


@pytest.mark.model
def test_with_the_model():
    try:
        engine = Engine(max_context=1024, kv_tokens=4096)
    except DownloadError as error:
        pytest.skip(f"the default model cannot be had here: {error}")
    with engine:
        assert isinstance(engine.generate("Long or short?", Kind, temperature=0), Kind)
        assert engine.generate("Red?", Literal["yes", "no"], temperature=0) in ("yes", "no")
        known = list(engine.stream_partial("An order by Ann, please.", Order, max_tokens=200, seed=1))
        assert isinstance(known[-1], Order) and len(known) > 5
        assert all(less(a, b) for a, b in pairwise(known))
