"""Hostile constraints beside two streams: is each refused or answered soon, and do the streams go on?

    python benchmarks/company.py http://127.0.0.1:8000     # of a server that was just started and serves nobody else

`make soak` ends with it.

One stream is free, one constrained. They run alone for a while, then one hostile request follows another. Figures:
`hostile` (how many), `hostile_slowest_s`, `hostile_wrong` (neither refused in form nor answered rightly),
`pause_free_s` and `pause_tied_s` (the longest time without a token in each stream, beside them), `pause_alone_s` (the
longest in either stream before; what this machine does to a stream in any case). Where the machine itself was held up,
the asking program was as well: what it was late by is not counted (`held_up_s` says the most). `crowding`: how many
times as long as alone on a core a program takes here, beside the server and whatever else runs.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import jsonschema

ALONE_SECONDS = 6.0
WORK_SECONDS = 0.3
TICK = 0.01
STORY = [{"role": "user", "content": "Tell a long story about the sea."}]
PEOPLE = {
    "type": "array",
    "minItems": 30,
    "items": {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "age": {"type": "integer", "minimum": 0, "maximum": 120},
        },
        "required": ["name", "age"],
        "additionalProperties": False,
    },
}


def _nested(depth: int, around: Callable[[Any], Any], inner: Any) -> Any:
    for _ in range(depth):
        inner = around(inner)
    return inner


def _one_of(inner: Any) -> Any:
    branches = [{"type": "object", "properties": {name: inner}, "required": [name]} for name in "ab"]
    return {"oneOf": [{"type": "string"}, *branches, {"type": "object", "properties": {"c": inner}}]}


def _pattern(pattern: str) -> dict[str, Any]:
    return {"type": "string", "pattern": pattern}


def _call(i: int) -> dict[str, Any]:
    arguments = {"type": "object", "properties": {"city": {"type": "string"}, "days": {"type": "integer"}}}
    return {
        "type": "object",
        "properties": {"name": {"const": f"tool_{i}"}, "arguments": {**arguments, "required": ["city"]}},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


SCHEMAS: dict[str, Any] = {
    "a text for a schema": {"properties": {"foo": "bar"}},
    "an unknown type": {"type": "strin"},
    "a broken pattern": _pattern("("),
    "arrays and objects in turns": {
        "$defs": {
            "A": {"type": "array", "items": {"$ref": "#/$defs/O"}},
            "O": {"type": "object", "properties": {"a": {"$ref": "#/$defs/A"}}, "additionalProperties": False},
        },
        "$ref": "#/$defs/A",
    },
    "a union with itself": {"$defs": {"V": {"anyOf": [{"enum": ["x"]}, {"$ref": "#/$defs/V"}]}}, "$ref": "#/$defs/V"},
    "a definition that is itself": {"$defs": {"A": {"$ref": "#/$defs/A"}}, "$ref": "#/$defs/A"},
    "an empty reference": {"$ref": ""},
    "the root itself": {"$ref": "#"},
    "a reference to nowhere": {"$ref": "#/$defs/nowhere"},
    "an item in an item in an item": {"type": "array", "items": {"$ref": "#"}, "minItems": 1},
    "60,000 parentheses": _pattern("(" * 60_000 + ")" * 60_000),
    "60,000 open parentheses": _pattern("(" * 60_000),
    "a repeated look-behind": _pattern("(?<=x)*"),
    "300 arrays": _nested(300, lambda inner: {"type": "array", "items": inner}, True),
    "150 objects with what they need": _nested(
        150, lambda inner: {"type": "object", "properties": {"a": inner}, "required": ["a"]}, True
    ),
    "stars of stars": _pattern('^("a"*)*$'),
    "optional optionals": _pattern("^(a|a?)+$"),
    "oneOf in oneOf": _nested(6, _one_of, {"type": "string"}),
    "16,384 states": _pattern("[ab]*a[ab]{13}"),
    "states beyond memory": _pattern("[ab]*a[ab]{40}"),
    "look-ahead beyond memory": _pattern("^(?=[ab]*a[ab]{12}$)[ab]*b[ab]{12}$"),
    "counted to 50,000": _pattern("^[a-z]{0,50000}$"),
    "counts of counts": _pattern("^(((a{1,1000}){1,1000}){1,1000}){1,1000}$"),
    "lists of lists of lists": _nested(
        6, lambda inner: {"type": "array", "items": inner, "maxItems": 1000}, {"type": "string", "maxLength": 1000}
    ),
    "maxLength 2,000": {"type": "string", "maxLength": 2000},
    "maxLength 100,000": {"type": "string", "maxLength": 100_000},
    "minLength 100,000,000": {"type": "string", "minLength": 100_000_000},
    "1,998 numbers": {"type": "array", "items": {"type": "number"}, "maxItems": 1998},
    "10,000 values": {"enum": [f"value-{i}" for i in range(10_000)]},
    "1,000 objects": {"enum": [{"k": i, "name": f"n{i}"} for i in range(1000)]},
    "calls of 500 tools": {"anyOf": [_call(i) for i in range(500)]},
    "not one of 10,000": {"type": "string", "not": {"enum": [f"v{i}" for i in range(10_000)]}},
    "nothing to choose from": {"enum": []},
    "text and number": {"allOf": [{"type": "string"}, {"type": "integer"}]},
    "200 dependencies": {"type": "object", "dependentRequired": {f"p{i}": [f"p{i + 1}"] for i in range(200)}},
    "12 overlapping key patterns": {
        "type": "object",
        "patternProperties": {f"[a-z]{{{i}}}": {"minimum": i} for i in range(12)},
    },
    "2,000 properties": {"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(2000)}},
    "multiples of a prime": {"type": "integer", "multipleOf": 1_000_003},
    "multiples of a prime within bounds": {
        "type": "integer",
        "multipleOf": 1_000_003,
        "minimum": 10,
        "maximum": 10**15,
    },
    "multiples of a prime in items": {
        "type": "array",
        "items": {"type": "array", "items": {"type": "integer", "multipleOf": 999_983}, "minItems": 1},
        "minItems": 1,
    },
    "multiples of one of four primes": {
        "anyOf": [{"type": "integer", "multipleOf": p} for p in (65_537, 999_979, 999_983, 1_000_003)]
    },
    "multiples of three primes": {
        "type": "integer",
        "allOf": [{"multipleOf": p} for p in (99_971, 99_989, 99_991)],
    },
    "multiples of a prime of nineteen digits": {"type": "integer", "multipleOf": 2**61 - 1},
    "unique trees": {"type": "array", "items": {"$ref": "#"}, "uniqueItems": True, "minItems": 1},
}
GRAMMARS: dict[str, str] = {
    "a loop that is empty": 'root ::= ("a"*)*',
    "left recursion": 'root ::= root "+" root | [0-9]+',
    "empty or more": 'root ::= "a" ("" | "b")*',
    "a rule that is itself": "root ::= root",
    "5,000 rules in a row": "\n".join(["root ::= r0", *(f"r{i} ::= r{i + 1}" for i in range(5000)), 'r5000 ::= "x"']),
    "60,000 brackets": "root ::= " + "(" * 60_000,
    "no grammar": 'root ::= "a',
}


def requests() -> dict[str, dict[str, Any]]:
    """The fields of each hostile request, by what is hostile about it."""
    found: dict[str, dict[str, Any]] = {}
    for name, schema in SCHEMAS.items():
        found[name] = {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}}
    for name, grammar in GRAMMARS.items():
        found[name] = {"response_format": {"type": "grammar", "syntax": "ebnf", "grammar": grammar}}
    return found


@dataclass
class Watched:
    """One stream that goes on for ever; `came`: when each token came. `body`: of its requests."""

    body: dict[str, Any]
    came: list[float] = field(default_factory=list)
    fault: str = ""

    async def run(self, http: httpx.AsyncClient, address: str) -> None:
        """Until cancelled."""
        while True:
            async with http.stream("POST", f"{address}/v1/chat/completions", json=self.body) as response:
                if response.status_code != 200:
                    self.fault = (await response.aread()).decode()
                    return
                self.came.append(time.monotonic())
                async for line in response.aiter_lines():
                    if line.startswith("data: "):
                        self.came.append(time.monotonic())
                        self.fault = line if '"error"' in line else self.fault

    def pause(self, start: float, end: float, late: list[tuple[float, float]]) -> float:
        """The longest time without a token within a span, less what this program itself was late in it."""
        times = [start, *(at for at in self.came if start < at < end), end]
        gaps = pairwise(times)
        return max(b - a - sum(max(0.0, min(b, on) - max(a, off)) for off, on in late) for a, b in gaps)


async def _lateness(late: list[tuple[float, float]]) -> None:
    """From when to when this program was not run though it wanted to."""
    while True:
        asked = time.monotonic()
        await asyncio.sleep(TICK)
        now = time.monotonic()
        if now - asked > 2 * TICK:
            late.append((asked + TICK, now))


def _crowding() -> float:
    """Wall clock over processor time of a loop that takes WORK_SECONDS of a core."""
    begun, used = time.perf_counter(), time.thread_time()
    while time.thread_time() - used < WORK_SECONDS:
        pass
    return (time.perf_counter() - begun) / (time.thread_time() - used)


async def company(address: str) -> dict[str, float]:
    """Ask it of a server that nobody else asks anything; the figures."""
    shape = {"type": "json_schema", "json_schema": {"name": "people", "schema": PEOPLE}}
    base = {"messages": STORY, "stream": True, "seed": 1}
    free = Watched({**base, "max_tokens": 400, "ignore_eos": True})
    tied = Watched({**base, "max_tokens": 1200, "response_format": shape})
    late: list[tuple[float, float]] = []
    asked = {name: json.dumps(_request(fields)).encode() for name, fields in requests().items()}
    wrong: dict[str, str] = {}
    took: dict[str, float] = {}
    async with httpx.AsyncClient(timeout=300.0) as http, asyncio.TaskGroup() as group:
        beside = [
            group.create_task(each) for each in (free.run(http, address), tied.run(http, address), _lateness(late))
        ]
        while not (free.came and tied.came):
            await asyncio.sleep(TICK)
        begun = time.monotonic()
        await asyncio.sleep(ALONE_SECONDS)
        alone = time.monotonic()
        crowding = await asyncio.to_thread(_crowding)  # takes a core itself
        await asyncio.sleep(WORK_SECONDS)
        hostile = time.monotonic()
        pauses: dict[str, float] = {}
        answers: dict[str, httpx.Response] = {}
        for name, body in asked.items():
            sent = time.monotonic()
            response = await http.post(f"{address}/v1/chat/completions", content=body)
            took[name] = time.monotonic() - sent
            answers[name] = response
            await asyncio.sleep(2 * TICK)
            pauses[name] = max(stream.pause(sent, time.monotonic(), late) for stream in (free, tied))
        ended = time.monotonic()
        for task in beside:
            task.cancel()
    for name, fields in requests().items():  # only now: to validate takes long, and nobody would read the streams
        if told := _fault(answers[name], fields):
            wrong[name] = told
    for stream in (free, tied):
        if stream.fault:
            wrong["a stream"] = stream.fault
    print(f"slowest: {_most(took)}", f"longest pauses: {_most(pauses)}", sep="\n")
    print(*(f"wrong: {name}: {told[:300]}\n" for name, told in wrong.items()), sep="", end="")
    return {
        "hostile": float(len(asked)),
        "hostile_wrong": float(len(wrong)),
        "hostile_slowest_s": max(took.values()),
        "pause_alone_s": max(stream.pause(begun, alone, late) for stream in (free, tied)),
        "pause_free_s": free.pause(hostile, ended, late),
        "pause_tied_s": tied.pause(hostile, ended, late),
        "crowding": crowding,
        "held_up_s": max((on - off for off, on in late), default=0.0),
    }


def _most(seconds: dict[str, float]) -> str:
    """The three longest."""
    longest = sorted(seconds, key=lambda name: -seconds[name])[:3]
    return ", ".join(f"{name} ({seconds[name]:.3f} s)" for name in longest)


def _request(fields: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "Answer."}], "max_tokens": 24, "seed": 3, **fields}


def _fault(response: httpx.Response, fields: dict[str, Any]) -> str:
    """What is wrong with an answer, "" for nothing."""
    if response.status_code == 400:
        error = response.json().get("error", {})
        return "" if set(error) == {"message", "type", "param", "code"} and error["param"] else response.text
    if response.status_code != 200:
        return response.text
    choice = response.json()["choices"][0]
    if choice["finish_reason"] != "stop" or fields.get("response_format", {}).get("type") != "json_schema":
        return ""
    try:
        jsonschema.validate(
            json.loads(choice["message"]["content"]), fields["response_format"]["json_schema"]["schema"]
        )
    except RecursionError:
        return ""  # jsonschema goes as deep as the schema
    except (ValueError, jsonschema.ValidationError) as error:
        return f"{choice['message']['content']!r}: {error}"
    return ""


if __name__ == "__main__":
    for figure, value in asyncio.run(company(sys.argv[1])).items():
        print(f"{figure:<20}{value:>12.4g}")
