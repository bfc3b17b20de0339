"""The REST API through OpenAI's own client (`pip install openai`).

Start a server first: `slipcast serve --port 8000`.
"""

from __future__ import annotations

import sys
from typing import Annotated

from openai import OpenAI
from pydantic import BaseModel, Field

client = OpenAI(base_url=sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000/v1", api_key="unused")


Topic = Annotated[str, Field(max_length=20)]


class Book(BaseModel):
    title: str = Field(max_length=60)
    year: int = Field(ge=1450, le=2100)
    topics: list[Topic] = Field(min_length=1, max_length=3)


def main() -> None:
    model = client.models.list().data[0].id
    messages = [{"role": "user", "content": "Recommend a book about the sea."}]

    parsed = client.chat.completions.parse(model=model, messages=messages, response_format=Book, max_tokens=200)
    print(parsed.choices[0].message.parsed)

    for chunk in client.chat.completions.create(model=model, messages=messages, stream=True, max_tokens=40):
        print(chunk.choices[0].delta.content or "", end="", flush=True)
    print()


if __name__ == "__main__":
    main()
