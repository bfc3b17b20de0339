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

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "customer": {"type": "string", "maxLength": 30},
        "items": {
            "type": "array",
            "minItems": 1,
            "maxItems": 5,
            "items": {
                "type": "object",
                "properties": {
                    "count": {"type": "integer", "minimum": 1, "maximum": 20},
                    "dish": {"type": "string", "minLength": 3, "maxLength": 25},
                    "size": {"enum": ["small", "medium", "large"]},
                    "note": {"type": "string", "maxLength": 30},
                },
                "required": ["count", "dish", "size"],
                "additionalProperties": False,
            },
        },
        "delivery": {"enum": ["pick up", "bicycle", "car"]},
    },
    "required": ["customer", "items", "delivery"],
    "additionalProperties": False,
}

# A model this small follows an example better than an instruction.
EXAMPLE = {
    "customer": "Bob Gray",
    "items": [
        {"count": 1, "dish": "tomato soup", "size": "large"},
        {"count": 4, "dish": "tea", "size": "small", "note": "with milk"},
    ],
    "delivery": "car",
}
QUESTION = "Ann Miller wants 2 large pizzas, 1 small salad and 3 medium lemonades. Bring it by bicycle."
MESSAGES = [
    {"role": "user", "content": "Bob Gray wants 1 large tomato soup and 4 small teas with milk. Bring it by car."},
    {"role": "assistant", "content": json.dumps(EXAMPLE, indent=2)},
    {"role": "user", "content": QUESTION},
]


def main() -> int:
    """Open the engine, stream the answer, validate it, print the figures."""
    arguments = argparse.ArgumentParser(description="Ask a model for JSON of a nested schema.")
    arguments.add_argument("--model", default="smollm2-135m-instruct", help="known name or path of a GGUF file")
    arguments.add_argument("--seed", type=int, default=1)
    options = arguments.parse_args()

    started = time.perf_counter()
    with ProgressBars() as progress:
        engine = Engine(options.model, mode="interactive", progress=progress)
    with engine:
        print(f"{engine.model} is ready after {time.perf_counter() - started:.1f} s\n\n> {QUESTION}\n")
        before, asked = engine.stats(), time.perf_counter()
        stream = engine.chat.completions.create(
            messages=MESSAGES,
            response_format={
                "type": "json_schema",
                "json_schema": {"name": "order", "schema": SCHEMA, "whitespace": "pretty"},
            },
            temperature=0.3,
            seed=options.seed,
            max_tokens=500,
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
