"""What clients ask a model for in tests: a nested schema that a small model fills quickly, and a tool."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, Field

Short = Annotated[str, Field(min_length=1, max_length=12)]


class Part(BaseModel):
    name: Short
    count: Annotated[int, Field(ge=1, le=9)]


class Toy(BaseModel):
    """A toy and what it is made of."""

    name: Short
    colour: Literal["red", "blue"]
    parts: Annotated[list[Part], Field(min_length=1, max_length=2)]
    owner: Short | None


QUESTION = "Describe a small wooden train as a toy: its name, its colour, its parts and who owns it."
WEATHER_QUESTION = "What is the weather in Paris? Use the tool, then answer."
SUNNY = "sunny, 21 degrees"


def weather(place: str) -> str:
    """Get the weather of a place.

    Args:
        place: The name of the city.
    """
    return f"{place}: {SUNNY}"
