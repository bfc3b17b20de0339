"""Typed output: a type goes in, an object of it comes back; first as it grows."""

from __future__ import annotations

from enum import Enum

from pydantic import BaseModel, Field
from slipcast.engine import Engine


class Size(Enum):
    small = "small"
    large = "large"


class Item(BaseModel):
    name: str = Field(min_length=1, max_length=30)
    count: int = Field(ge=1, le=20)
    size: Size | None = None


class Order(BaseModel):
    customer: str = Field(max_length=40)
    items: list[Item] = Field(min_length=1, max_length=3)


def main() -> None:
    with Engine() as engine:
        order: Order | None = None
        for known in engine.stream_partial(
            "Ann orders two small pizzas and a lemonade.", Order, max_tokens=300, temperature=0
        ):
            order = known  # partial objects, whose fields may be None, and at the end the order itself
            print(known)
        size = engine.generate("Is a family pizza small or large?", Size, temperature=0)
    assert isinstance(order, Order)
    for item in order.items:
        print(f"{item.count:3} x {item.name}")
    print(size)


if __name__ == "__main__":
    main()
