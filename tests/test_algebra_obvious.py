"""What is seen of nodes without the algebra is what the algebra says of their goals."""

from __future__ import annotations

import random
from dataclasses import fields, is_dataclass
from itertools import count
from typing import Any

import pytest
from slipcast.grammar.algebra import Algebra, brief, costs, emptiness, objects, obvious
from slipcast.grammar.algebra.costs import FAR, Costs
from slipcast.grammar.automaton.arrays import ArrayHandler
from slipcast.grammar.automaton.frames import Builder, Containers, FrameOptions
from slipcast.grammar.automaton.lexemes import Lexemes
from slipcast.grammar.automaton.objects import ObjectHandler
from slipcast.grammar.automaton.specs import Whitespace
from slipcast.grammar.automaton.tables import Tables
from slipcast.grammar.schema import read
from slipcast.grammar.schema.expr import Expr

TABLES = Tables()
LEXEMES = Lexemes(TABLES, spelling="natural", whitespace=Whitespace())
NUMBERS = count(1 << 40)  # of builders
LEAVES: list[Any] = [
    True, False, {}, {"type": "string"}, {"type": "integer"}, {"type": ["null", "boolean"]},
    {"type": "number", "minimum": 3}, {"type": "string", "minLength": 2}, {"format": "date"},
    {"minLength": 3, "maxLength": 2, "type": "string"},
    {"type": "string", "format": "ipv4", "maxLength": 6}, {"type": "string", "pattern": "^a[^b]"}, {"enum": ["ab", 3]},
    {"type": "integer", "enum": ["ab", 3]}, {"type": "string", "enum": ["ab", 3]}, {"const": None}, {"const": "xyz"},
    {"enum": [[1], {"a": 1}]}, {"type": "array", "minItems": 1}, {"type": "array", "maxItems": 0}, {"multipleOf": 7},
    {"type": "object", "minProperties": 1}, {"type": "object", "maxProperties": 0}, {"not": {"type": "string"}},
    {"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}, {"$ref": "#"},
]  # fmt: skip


def schema_of(rng: random.Random, depth: int) -> Any:
    if not depth or rng.random() < 0.3:
        return rng.choice(LEAVES)
    names = rng.sample("abcde", rng.randrange(1, 4))
    schema: dict[str, Any] = {
        "properties": {name: schema_of(rng, depth - 1) for name in names},
        "required": rng.sample("abcde", rng.randrange(3)),
    }
    more = (
        ("type", rng.choice(["object", ["object", "string"], "array"])),
        ("additionalProperties", rng.choice([False, {"type": "null"}])),
        ("patternProperties", {"^a": schema_of(rng, 0)}),
        ("items", schema_of(rng, depth - 1)),
        ("anyOf", [schema_of(rng, depth - 1), schema_of(rng, 0)]),
        ("allOf", [schema_of(rng, depth - 1)]),
    )
    return schema | {keyword: value for keyword, value in more if rng.random() < (0.8 if keyword == "type" else 0.3)}


def nodes(expr: Any) -> list[Expr]:
    """A node and all below it."""
    found = [expr]
    for field in fields(expr):
        value = getattr(expr, field.name)
        for part in value if isinstance(value, tuple) else (value,):
            if is_dataclass(part) and type(part).__name__ not in ("Keys", "Const"):
                found += nodes(part)
    return found


def test_it_agrees_with_the_algebra() -> None:
    claims = 0
    for seed in range(200):
        with pytest.MonkeyPatch.context() as monkeypatch:
            claims += compare(random.Random(seed), monkeypatch)
    assert claims > 500


def compare(rng: random.Random, monkeypatch: pytest.MonkeyPatch) -> int:
    """Compares all nodes of a random schema; how many are seen to be satisfiable."""
    schema = read({"$defs": {"a": schema_of(rng, 2), "b": schema_of(rng, 2)}, "allOf": [schema_of(rng, 3)]})
    exprs = [node for definition in schema.definitions for node in nodes(definition)]
    goals = Algebra(schema).goals
    told = [obvious.evident(expr, goals) | obvious.obvious(goals.of([(expr, True)]), goals) for expr in exprs]
    lengths = [(brief.brief(expr), brief.shortest(goals.of([(expr, True)]))) for expr in exprs]

    monkeypatch.setattr(emptiness, "obvious", lambda goal, goals: False)
    for module in (emptiness, objects):
        monkeypatch.setattr(module, "evident", lambda expr, goals: False)
    monkeypatch.setattr(costs, "shortest", lambda goal: 0)
    monkeypatch.setattr(objects.ObjectView, "brief", lambda self, symbol: 0)
    algebra = Algebra(schema)
    containers = Containers(ObjectHandler.open, ArrayHandler.open)
    whole = Costs(algebra, Builder(next(NUMBERS), TABLES, LEXEMES, algebra, FrameOptions(), containers))
    for expr, satisfiable, claimed in zip(exprs, told, lengths, strict=True):
        goal = algebra.goals.of([(expr, True)])
        assert algebra.nonempty(goal) or not satisfiable, expr
        for length in claimed:
            assert not length or length == (whole.value(goal) if algebra.nonempty(goal) else FAR), (expr, length)
    return sum(told)
