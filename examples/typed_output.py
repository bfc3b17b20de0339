"""Typed output: a pydantic model as `response_format`, and the answer back as an instance of it."""

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
        answer = engine.chat.completions.create(
            messages=[{"role": "user", "content": "Ann orders two small pizzas and a lemonade."}],
            response_format=Order,
            max_tokens=300,
            temperature=0,
        )
    order = Order.model_validate_json(answer.choices[0].message.content or "")
    print(order)
    for item in order.items:
        print(f"{item.count:3} x {item.name}")


if __name__ == "__main__":
    main()
