"""Random JSON Schemas for tests of constrained requests: small, satisfiable, of all kinds that nest."""

from __future__ import annotations

import random
from typing import Any

_LEAVES: list[Any] = [
    {"type": "boolean"},
    {"type": "null"},
    {"type": "integer"},
    {"type": "integer", "minimum": -5, "maximum": 1999},
    {"type": "number", "exclusiveMinimum": 0, "maximum": 1},
    {"type": "string"},
    {"type": "string", "minLength": 3, "maxLength": 40},
    {"type": "string", "pattern": "^[A-Z]{3}-[0-9]{4}$"},
    {"type": "string", "pattern": "^(a|b{30})+$"},
    {"enum": ["red", "green", 3, None]},
    {"const": "exactly this"},
    {"enum": ["a", "a long way to go from here, as soon as it has begun"]},
]


def random_schema(rng: random.Random, depth: int = 3) -> Any:
    """A schema; its containers nest at most `depth` deep."""
    kind = rng.randrange(6) if depth else 0
    if kind < 2:
        return rng.choice(_LEAVES)
    if kind == 2:
        low = rng.randrange(3)
        items = random_schema(rng, depth - 1)
        return {"type": "array", "items": items, "minItems": low, "maxItems": low + rng.randrange(4)}
    if kind == 3:
        return {"anyOf": [random_schema(rng, depth - 1) for _ in range(2)]}
    names = rng.sample(["id", "name", "tags", "next", "value", "with space", "x"], rng.randrange(1, 5))
    schema = {
        "type": "object",
        "properties": {name: random_schema(rng, depth - 1) for name in names},
        "required": [name for name in names if rng.random() < 0.6],
    }
    if rng.random() < 0.7:
        schema["additionalProperties"] = rng.choice([False, {"type": "integer"}])
    return schema
