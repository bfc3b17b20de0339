"""The Python API: a whole answer, a stream, an answer of a schema, and many at once with asyncio."""

from __future__ import annotations

import asyncio
import json

from slipcast.engine import AsyncEngine, Engine

ANIMAL = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 30},
        "legs": {"type": "integer", "minimum": 0, "maximum": 8},
        "diet": {"enum": ["plants", "meat", "both"]},
    },
    "required": ["name", "legs", "diet"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "animal", "schema": ANIMAL}}


def ask(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def wait_for_it() -> None:
    with Engine(model="smollm2-135m-instruct") as engine:
        answer = engine.chat.completions.create(messages=ask("Say hello."), max_tokens=30, temperature=0)
        print("whole: ", answer.choices[0].message.content)

        print("stream: ", end="")
        for chunk in engine.chat.completions.create(messages=ask("Count to five."), max_tokens=30, stream=True):
            print(chunk.choices[0].delta.content or "", end="", flush=True)
        print()

        answer = engine.chat.completions.create(messages=ask("Describe a cow."), response_format=FORMAT, max_tokens=100)
        print("schema:", json.loads(answer.choices[0].message.content or ""))


async def many_at_once() -> None:
    async with AsyncEngine(model="smollm2-135m-instruct") as engine:
        questions = [f"Describe a {animal}." for animal in ("cat", "spider", "snake", "hen")]
        answers = await asyncio.gather(
            *(
                engine.chat.completions.create(messages=ask(question), response_format=FORMAT, max_tokens=100)
                for question in questions
            )
        )
        for question, answer in zip(questions, answers, strict=True):
            print(question, answer.choices[0].message.content)


if __name__ == "__main__":
    wait_for_it()
    asyncio.run(many_at_once())
