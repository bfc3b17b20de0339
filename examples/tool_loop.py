"""An agent in forty lines: the model calls tools with exact arguments until it answers."""

from __future__ import annotations

import json
from typing import Any

from slipcast.engine import Engine

STOCK = {"tea": 12, "coffee": 0, "milk": 3}
TOOLS: list[dict[str, Any]] = [
    {
        "type": "function",
        "function": {
            "name": "stock",
            "description": "How many packs of a product are there?",
            "parameters": {
                "type": "object",
                "properties": {"product": {"enum": list(STOCK)}},
                "required": ["product"],
                "additionalProperties": False,
            },
        },
    }
]


def stock(product: str) -> str:
    return f"{STOCK[product]} packs of {product}"


def main() -> None:
    messages: list[dict[str, Any]] = [{"role": "user", "content": "How much tea do we have?"}]
    with Engine() as engine:
        # A small model calls for ever if it may: here it must call once, and then must answer.
        for choice in ("required", "none"):
            answer = engine.chat.completions.create(
                messages=messages,
                tools=TOOLS,
                tool_choice=choice,
                parallel_tool_calls=False,
                max_tokens=60,
                temperature=0,
            )
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            for call in message.tool_calls or ():
                arguments = json.loads(call.function.arguments)
                result = stock(**arguments)  # the schema says which products there are: no other can come
                print(f"{call.function.name}({arguments}) -> {result}")
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    print(message.content)


if __name__ == "__main__":
    main()
