"""What `make demo` runs: the default model answers in the shape of a nested schema, and the answer is checked.

    python examples/demo.py [--model M] [--seed N]

The first run downloads the model (93 MB) and compiles it for this machine; later runs find both in the user's cache.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import Any

import jsonschema
from slipcast.engine import Engine
from slipcast.engine.cli import main_guard
from slipcast.engine.cli_terminal import ProgressBars

QUESTION = "Plan a dinner party for four friends, with a short shopping list."

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "minLength": 3, "maxLength": 60},
        "guests": {"type": "integer", "minimum": 1, "maximum": 12},
        "courses": {
            "type": "array",
            "minItems": 2,
            "maxItems": 3,
            "items": {
                "type": "object",
                "properties": {
                    "course": {"enum": ["starter", "main", "dessert"]},
                    "dish": {"type": "string", "minLength": 3, "maxLength": 40},
                    "minutes": {"type": "integer", "minimum": 5, "maximum": 120},
                    "difficulty": {"enum": ["easy", "medium", "hard"]},
                    "note": {"type": "string", "maxLength": 60},
                },
                "required": ["course", "dish", "minutes", "difficulty"],
                "additionalProperties": False,
            },
        },
        "shopping": {"type": "array", "items": {"type": "string", "maxLength": 30}, "minItems": 3, "maxItems": 6},
    },
    "required": ["title", "guests", "courses", "shopping"],
    "additionalProperties": False,
}


def main() -> int:
    """Open the engine, stream the answer, validate it, print the figures."""
    arguments = argparse.ArgumentParser(description="Ask a model for JSON of a nested schema.")
    arguments.add_argument("--model", default="smollm2-135m-instruct", help="known name or path of a GGUF file")
    arguments.add_argument("--seed", type=int, default=7)
    options = arguments.parse_args()

    started = time.perf_counter()
    with ProgressBars() as progress:
        engine = Engine(options.model, mode="interactive", progress=progress)
    with engine:
        print(f"{engine.model} is ready after {time.perf_counter() - started:.1f} s\n\n> {QUESTION}\n")
        before, asked = engine.stats(), time.perf_counter()
        stream = engine.chat.completions.create(
            messages=[{"role": "user", "content": QUESTION}],
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "party", "schema": SCHEMA, "whitespace": "pretty"},
            },
            temperature=0.7,
            seed=options.seed,
            max_tokens=700,
            stream=True,
            stream_options={"include_usage": True},
        )
        text, tokens, first, reason = "", 0, 0.0, ""
        for chunk in stream:
            tokens = chunk.usage.completion_tokens if chunk.usage else tokens
            for choice in chunk.choices:
                if choice.delta.content:
                    first = first or time.perf_counter()
                    text += choice.delta.content
                    print(choice.delta.content, end="", flush=True)
                reason = choice.finish_reason or reason
        ended, after = time.perf_counter(), engine.stats()

    print("\n")
    if reason != "stop":
        sys.stderr.write(f"demo: the answer is not complete, it ended by {reason}\n")
        return 1
    jsonschema.validate(json.loads(text), SCHEMA)
    rate = (tokens - 1) / (ended - first)
    share = (after.mask_seconds - before.mask_seconds) / (ended - asked)
    print(f"valid: jsonschema agrees; {tokens} tokens, the first after {first - asked:.2f} s")
    print(f"speed: {rate:.0f} tokens per second; masks took {share:.1%} of the time")
    return 0


if __name__ == "__main__":
    sys.exit(main_guard(main))
