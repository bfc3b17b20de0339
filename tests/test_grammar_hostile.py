"""Hostile schemas and patterns: each is compiled or refused, in bounded time and memory, with nothing but GrammarError.

Compiled means usable: a first mask that allows something, a random text, and a way out that is taken token by token.
"""

from __future__ import annotations

import gc
import json
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hostile_schemas import PATTERNS, SCHEMAS, UNSATISFIABLE, listed, nested, record
from slipcast.grammar import (
    BudgetError,
    GrammarCompiler,
    GrammarError,
    Matcher,
    UnsatisfiableError,
    Vocabulary,
)
from slipcast.grammar.automaton import tables

SECONDS = 8.0
"""Of CPU time for compiling and the first mask: two are promised, and where tests run other programs run as well.
Twice as much again for a text, the way out and taking it: objects of thousands of required keys need most of that.
"""
MEGABYTES = 500
_TOKENS: list[bytes | None] = [bytes((byte,)) for byte in range(256)]
_TOKENS += [b"ab", b'": ', b'",', b"  ", b"}}", b'{"', None]
VOCABULARY = Vocabulary(tokens=_TOKENS, eos_ids=[len(_TOKENS) - 1])


def compiler(**options: Any) -> GrammarCompiler:
    made = GrammarCompiler(VOCABULARY, **options)
    mask(made.json_object().matcher())  # the kernel is loaded once per process
    return made


def mask(matcher: Matcher) -> Any:
    row = np.zeros(VOCABULARY.words, np.int32)
    matcher.fill_mask(row)
    return row


def finish(matcher: Matcher) -> None:
    way = matcher.closing()
    assert len(way) == matcher.distance()
    assert all(matcher.accept(token) for token in way)
    assert matcher.is_accepting()


def hurt(schema: Any, **options: Any) -> None:
    """Compiles and uses a schema within the bounds; a GrammarError is as good as a grammar."""
    made = compiler()
    started = time.process_time()
    try:
        grammar = made.json_schema(schema, **options)
        assert mask(grammar.matcher()).any()
    except GrammarError as error:
        assert str(error)
        assert len(str(error)) < 2000
        assert time.process_time() - started < SECONDS
        return
    assert time.process_time() - started < SECONDS
    try:
        assert grammar.accepts(grammar.sample(1))
        finish(grammar.matcher())
    except BudgetError:  # the nearest end may be out of sight
        pass
    assert time.process_time() - started < 3 * SECONDS


@pytest.mark.parametrize("name", PATTERNS)
def test_pattern(name: str) -> None:
    hurt({"type": "string", "pattern": PATTERNS[name]})


@pytest.mark.parametrize("name", ["more states than memory", "60,000 parentheses", "counted dots", "nested counts"])
def test_pattern_as_grammar(name: str) -> None:
    try:
        grammar = compiler().regex(PATTERNS[name])
        assert mask(grammar.matcher()).any()
    except GrammarError:
        pass


@pytest.mark.parametrize("name", SCHEMAS)
def test_schema(name: str) -> None:
    hurt(SCHEMAS[name]())


@pytest.mark.parametrize("name", ["200 optional properties", "500 objects, required", "oneOf 8 deep", "tree"])
def test_schema_with_other_options(name: str) -> None:
    hurt(SCHEMAS[name](), order="any", spelling="any", whitespace="pretty")


WORK = {
    "10,000 strings",
    "10,000 integers",
    "200 optional properties",
    "200 required properties",
    "keys with everything",
    "keys of 5,000 characters",
    "500 arrays, each with an item",
    "500 objects, required",
    "500 anyOf",
    "500 allOf",
    "500 not",
    "500 if",
    "5,000 references in a row",
    "doubling allOf",
    "maxLength 100,000",
    "maxItems 100,000",
    "contains 50 to 100",
}


@pytest.mark.parametrize("name", sorted(WORK))
def test_these_compile(name: str) -> None:
    grammar = compiler().json_schema(SCHEMAS[name]())
    assert grammar.accepts(grammar.shortest)


REFUSED = [
    "minLength 100,000",
    "minLength in a property",
    "minItems 100,000",
    "minItems nested",
    "100,000 properties at least",
    "contains 100,000",
    "long constant",
]


@pytest.mark.parametrize("name", REFUSED)
def test_texts_too_long_are_refused_when_compiled(name: str) -> None:
    with pytest.raises(BudgetError, match="longer than"):
        compiler().json_schema(SCHEMAS[name]())


@pytest.mark.parametrize("name", UNSATISFIABLE)
def test_clashing_keywords_are_named(name: str) -> None:
    schema, allowed = UNSATISFIABLE[name]
    with pytest.raises(UnsatisfiableError) as caught:
        compiler().json_schema(schema)
    assert caught.value.clash
    assert set(caught.value.clash) <= allowed


MEASURED = ["10,000 strings", "more states than memory", "doubling references", "12 independent key patterns"]
_SCRIPT = """
import json, resource, sys
import hostile_schemas, test_grammar_hostile as hostile
hostile.compiler()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
name = sys.argv[1]
pattern = hostile_schemas.PATTERNS.get(name)
hostile.hurt({"pattern": pattern} if pattern else hostile_schemas.SCHEMAS[name]())
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="resource usage is counted on POSIX systems only")
@pytest.mark.parametrize("name", MEASURED)
def test_memory(name: str) -> None:
    here = Path(__file__).parent
    script = f"import sys; sys.path[:0] = {[str(here), *sys.path]!r}\n{_SCRIPT}"
    command = [sys.executable, "-c", script, name]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    assert int(done.stdout) < MEGABYTES


def test_depth_does_not_depend_on_the_caller() -> None:
    def deeper(levels: int, call: Callable[[], Any]) -> Any:
        return deeper(levels - 1, call) if levels else call()

    schema = nested(100, lambda inner: {"type": "array", "items": inner, "minItems": 1})
    made = compiler()
    for levels in (300, 800, 930):
        try:
            grammar = deeper(levels, lambda: made.json_schema(schema, max_digits=20))
        except GrammarError:
            continue
        assert grammar.accepts("[" * 100 + "1" + "]" * 100)


# ---- threads, caches, arenas


SOME: list[tuple[Any, str, str]] = [
    ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, '{"a": 12}', '{"a": "x"}'),
    ({"type": "array", "items": {"enum": ["x", "y"]}, "uniqueItems": True}, '["x", "y"]', '["x", "x"]'),
    ({"type": "string", "pattern": "^[a-f]{3,5}$"}, '"abcd"', '"abcg"'),
    ({"oneOf": [{"type": "integer", "multipleOf": 3}, {"type": "integer", "multipleOf": 5}]}, "9", "15"),
    ({"type": "object", "propertyNames": {"maxLength": 3}, "additionalProperties": {"type": "null"}},
     '{"abc": null}', '{"abcd": null}'),
    ({"anyOf": [{"type": "null"}, {"type": "array", "items": {"$ref": "#"}}]}, "[[null], []]", "[1]"),
    ({"type": "string", "format": "ipv4"}, '"10.0.0.1"', '"10.0.0.256"'),
    (record(30, required=["p3"]), '{"p3": "x"}', '{"p2": "x"}'),
]  # fmt: skip


def variant(i: int, round_: int) -> Any:
    schema = dict(SOME[i][0])
    return {**schema, "description": f"variant {round_}"}


def walk(grammar: Any, seed: int) -> None:
    matcher = grammar.matcher()
    generator = random.Random(seed)
    for _ in range(generator.randint(1, 12)):
        allowed = np.flatnonzero(np.unpackbits(mask(matcher).view(np.uint8), bitorder="little"))
        assert len(allowed)
        token = int(generator.choice(allowed.tolist()))
        assert matcher.accept(token)
        if matcher.is_terminated():
            return
    finish(matcher)


def test_threads_share_a_compiler() -> None:
    made = compiler()
    wrong: list[BaseException] = []

    def work(i: int) -> None:
        try:
            for round_ in range(6):
                j = (i + round_) % len(SOME)
                grammar = made.json_schema(variant(j, round_ % 3))
                assert grammar.accepts(SOME[j][1])
                assert not grammar.accepts(SOME[j][2])
                walk(grammar, 100 * i + round_)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert not any(thread.is_alive() for thread in threads)
    assert not wrong


class TimedLock:
    """A lock that may be entered again, and tells for how long a thread that had it was at work without lending it."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._depth = 0
        self._since = 0.0
        self.longest = 0.0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        if not self._lock.acquire(blocking, timeout):
            return False
        self._depth += 1
        if self._depth == 1:
            self._since = time.thread_time()
        return True

    def release(self) -> None:
        if self._depth == 1:
            self._note()
        self._depth -= 1
        self._lock.release()

    def _note(self) -> None:
        self.longest = max(self.longest, time.thread_time() - self._since)

    def __enter__(self) -> None:
        self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    # What `threading.Condition` asks of a lock.

    def _release_save(self) -> tuple[int, Any]:
        self._note()
        depth, self._depth = self._depth, 0
        return depth, self._lock._release_save()  # type: ignore[attr-defined]

    def _acquire_restore(self, state: tuple[int, Any]) -> None:
        self._lock._acquire_restore(state[1])  # type: ignore[attr-defined]
        self._depth, self._since = state[0], time.thread_time()

    def _is_owned(self) -> bool:
        owned: bool = self._lock._is_owned()  # type: ignore[attr-defined]
        return owned


HELD_SECONDS = 0.15
"""Of CPU time: others' streams must not pause for 0.2 seconds."""
LARGE: dict[str, Callable[[], Any]] = {
    "10,000 strings": SCHEMAS["10,000 strings"],
    "1,000 objects": SCHEMAS["1,000 objects"],
    "2,000 properties": lambda: record(2000),
    "5,000 properties": lambda: record(5000, additionalProperties=False),
    "megabytes of properties": SCHEMAS["megabytes of properties"],
    "keys of 5,000 characters": SCHEMAS["keys of 5,000 characters"],
    "longer key names at least": SCHEMAS["longer key names at least"],
    "20,000 strings with umlauts": lambda: {"enum": listed(20_000, lambda i: f"ü{i}é")},
    "prime steps": SCHEMAS["prime steps"],
    "one of several prime steps": SCHEMAS["one of several prime steps"],
    "calls of 500 tools": lambda: {
        "anyOf": listed(500, lambda i: {"properties": {"name": {"const": f"tool_{i}"}, "arguments": record(2)}})
    },
}


@pytest.fixture
def _uncollected() -> Iterator[None]:
    """Without Python's collector, which a server holds off as well (grammar/pause.py)."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture
def _another_thread() -> Iterator[None]:
    """Beside one that might want the lock: to nobody else it is not lent."""
    over = threading.Event()
    other = threading.Thread(target=over.wait)
    other.start()
    yield
    over.set()
    other.join()


@pytest.mark.usefixtures("_uncollected", "_another_thread")
@pytest.mark.parametrize("name", LARGE)
def test_the_tables_are_never_locked_for_long(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    lock = TimedLock()
    with monkeypatch.context() as patch:
        patch.setattr("slipcast.grammar.automaton.tables.threading", SimpleNamespace(RLock=lambda: lock))
        made = compiler()
    lock.longest = 0.0
    try:
        matcher = made.json_schema(LARGE[name]()).matcher()
        for token in (*b"{", *b'"', *b"1"):
            mask(matcher)
            matcher.forced()
            matcher.closing()
            matcher.accept(token)
    except BudgetError:
        pass
    assert 0.0 <= lock.longest < HELD_SECONDS


@pytest.mark.usefixtures("_uncollected", "_another_thread")
def test_a_mask_over_many_states_lends_the_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    letters, rng = "abcdefghijklmn", random.Random(3)
    tokens: list[bytes | None] = [bytes((byte,)) for byte in range(256)]
    tokens += list(dict.fromkeys("".join(rng.choices(letters, k=6)).encode() for _ in range(400)))
    lock = TimedLock()
    with monkeypatch.context() as patch:
        patch.setattr("slipcast.grammar.automaton.tables.threading", SimpleNamespace(RLock=lambda: lock))
        vocabulary = Vocabulary([*tokens, None], [len(tokens)])
        made = GrammarCompiler(vocabulary)
    pattern = "^" + "".join(f"(?=.*{letter})" for letter in letters) + ".*$"
    matcher = made.json_schema({"type": "string", "pattern": pattern}).matcher()
    row = np.zeros(vocabulary.words, np.int32)
    matcher.fill_mask(row)
    assert matcher.accept(ord('"'))
    lock.longest, started = 0.0, time.thread_time()
    matcher.fill_mask(row)
    assert time.thread_time() - started > 2 * HELD_SECONDS, "too easy to tell anything"
    assert lock.longest < HELD_SECONDS


def test_a_slow_compile_holds_nobody_up() -> None:
    made = compiler()
    matcher = made.json_schema(SOME[0][0]).matcher()
    mask(matcher)
    slow = SCHEMAS["12 independent key patterns"]()
    done = threading.Event()

    def compile_slowly() -> None:
        with pytest.raises(BudgetError):
            made.json_schema(slow)
        done.set()

    thread = threading.Thread(target=compile_slowly, daemon=True)
    thread.start()
    filled = 0
    while not done.is_set() and filled < 50:
        mask(matcher)
        filled += 1
    assert filled == 50  # many masks while one schema is being refused
    thread.join(60)


def test_a_small_arena_gives_way_and_old_matchers_go_on() -> None:
    made = compiler(arena_bytes=1 << 16)
    old = [(made.json_schema(schema), good, bad) for schema, good, bad in SOME]
    matchers = [grammar.matcher() for grammar, _, _ in old]
    for i in range(5):
        made.json_schema(record(50, description=f"another {i}"))
    for (grammar, good, bad), matcher in zip(old, matchers, strict=True):
        assert mask(matcher).any()
        finish(matcher)
        assert grammar.accepts(good)
        assert not grammar.accepts(bad)
    rows = np.zeros((len(old), VOCABULARY.words), np.int32)
    made.fill_masks([grammar.matcher() for grammar, _, _ in old], rows)
    assert rows.any(axis=1).all()


def test_a_known_grammar_begins_anew_once_texts_have_filled_its_tables() -> None:
    made = compiler(arena_bytes=1 << 20)
    chance = random.Random(5)
    sizes = []
    for _ in range(60):
        matcher = made.json_object().matcher()
        text = "{" + ",".join(f'"{chance.randbytes(20).hex()}":1' for _ in range(20))
        assert all(matcher.accept(byte) for byte in text.encode())
        assert mask(matcher).any()
        finish(matcher)
        sizes.append(made._arena.tables.nbytes())
    assert max(sizes) < 2 << 20
    assert any(after < before for before, after in pairwise(sizes))


def test_a_grammar_that_is_held_for_ever_gets_new_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "ROWS", tables.DENSE_ROWS + 40_000)
    made = compiler()
    held = made.json_object()
    chance = random.Random(6)
    for _ in range(40):
        matcher = held.matcher()
        text = "{" + ",".join(f'"{chance.randbytes(30).hex()}":1' for _ in range(30))
        assert all(matcher.accept(byte) for byte in text.encode())
        assert mask(matcher).any()
        finish(matcher)
    assert held.accepts(b'{"a":1}')


def test_equal_schemas_hit_the_cache() -> None:
    made = compiler()
    first = made.json_schema({"type": "object", "properties": {"a": True, "b": True}, "title": "t"})
    assert made.json_schema({"type": "object", "properties": {"a": True, "b": True}, "title": "t"}) is first
    other = made.json_schema({"type": "object", "properties": {"b": True, "a": True}, "title": "t"})
    assert other is not first
    assert first.accepts('{"a":1,"b":1}')
    assert not other.accepts('{"a":1,"b":1}')


@pytest.mark.parametrize("around", ["properties", "$defs", "patternProperties"])
def test_the_order_of_properties_counts_below_any_name(around: str) -> None:
    def schema(*names: str) -> Any:
        inner = {"type": "object", "properties": dict.fromkeys(names, True), "required": list("ab")}
        below = {around: {"properties": inner}, "type": "object"}
        return {**below, "$ref": "#/$defs/properties"} if around == "$defs" else below

    made = compiler()
    first, second = made.json_schema(schema("a", "b")), made.json_schema(schema("b", "a"))
    assert first is not second
    text = '{"a":1,"b":1}' if around == "$defs" else '{"properties":{"a":1,"b":1}}'
    assert first.accepts(text)
    assert not second.accepts(text)


def test_what_is_no_plain_json_is_not_mistaken_for_it() -> None:
    made = compiler()
    number, text = made.json_schema({"const": Decimal("1")}), made.json_schema({"const": "Decimal('1')"})
    assert number.accepts("1")
    assert not text.accepts("1")


def test_saved_grammars_come_back(tmp_path: Path) -> None:
    made = compiler()
    for schema, _, _ in SOME:
        made.json_schema(schema, order="any", whitespace="compact")
    made.regex("a+b")
    made.choice(["x", "y"])
    path = tmp_path / "grammars.jsonl"
    saved = made.save(path)
    assert saved == len(SOME) + 3  # and the object that warmed it up
    fresh = GrammarCompiler(VOCABULARY)
    assert fresh.load(path) == saved
    misses = fresh.misses
    for schema, good, bad in SOME:
        grammar = fresh.json_schema(schema, order="any", whitespace="compact")
        assert grammar.accepts(json.dumps(json.loads(good), separators=(",", ":")))
        assert not grammar.accepts(json.dumps(json.loads(bad), separators=(",", ":")))
    assert fresh.misses == misses


def test_a_grammar_is_that_of_the_schema_as_it_was() -> None:
    made = GrammarCompiler(VOCABULARY)
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
    grammar = made.json_schema(schema)
    report = grammar.report
    schema["properties"]["a"]["type"] = "string"
    assert grammar.report == report
    assert made.json_schema(schema) is not grammar


def test_what_is_no_json_in_an_annotation_is_not_saved(tmp_path: Path) -> None:
    made = GrammarCompiler(VOCABULARY)
    made.json_schema({"type": "integer", "x-note": b"bytes"})
    made.json_schema({"type": "integer", "x-note": "text"})
    assert made.save(tmp_path / "grammars.jsonl") == 1


def test_a_failed_compile_leaves_the_compiler_sound() -> None:
    made = compiler()
    for schema in ({"properties": {"foo": "bar"}}, {"pattern": "("}, {"enum": []}, {"$ref": "#"}, {"minItems": -1}):
        with pytest.raises(GrammarError):
            made.json_schema(schema)
    grammar = made.json_schema({"enum": listed(50, lambda i: f"v{i}")})
    assert grammar.accepts('"v49"')


def test_a_schema_that_fills_the_tables_spoils_no_other() -> None:
    made = compiler()
    with pytest.raises(BudgetError):
        mask(made.json_schema(SCHEMAS["megabytes of properties"]()).matcher())
    grammar = made.json_schema(record(2000))
    assert grammar.accepts('{"p1999": "x"}')


def test_the_cache_knows_equal_schemas() -> None:
    """The order of `properties` shapes the output and counts, other orders do not; numbers are compared as numbers."""
    compiler = GrammarCompiler(Vocabulary(tokens=[bytes((i,)) for i in range(256)] + [None], eos_ids=[256]))
    first = {"type": "object", "properties": {"a": {"type": "number", "maximum": 1.5}, "b": {}}, "required": ["a"]}
    limited = {"maximum": Decimal("1.5"), "type": "number"}
    again = {"required": ["a"], "properties": {"a": limited, "b": {}}, "type": "object"}
    other = {**first, "properties": {"b": {}, "a": first["properties"]["a"]}}
    grammar = compiler.json_schema(first)
    assert compiler.json_schema(again) is grammar
    assert compiler.json_schema(other) is not grammar
    assert compiler.json_schema({"const": Decimal("1")}) is not compiler.json_schema({"const": "1"})


@pytest.mark.parametrize(
    ("schema", "order", "size"),
    [
        ({"type": "string", "minLength": 30_000}, "schema", 30_002),
        ({"type": "object", "propertyNames": {"maxLength": 100_000}}, "schema", 2),
        ({"type": "object", "propertyNames": {"maxLength": 100_000}, "minProperties": 3}, "any", 21),
        (record(2000, required=[f"p{i}" for i in range(2000)]), "any", None),
    ],
)
def test_bounds_are_no_work(schema: dict[str, Any], order: Any, size: int | None) -> None:
    """Compiled, masked and ended: a bound is not counted out in states, and required keys are not searched for."""
    made = compiler()
    started = time.process_time()
    grammar = made.json_schema(schema, order=order)
    assert mask(grammar.matcher()).any()
    shortest = grammar.shortest
    assert time.process_time() - started < SECONDS
    assert grammar.accepts(shortest)
    assert size is None or len(shortest) == size


def test_a_long_key_is_bounded_exactly() -> None:
    grammar = compiler().json_schema({"type": "object", "propertyNames": {"minLength": 2, "maxLength": 3_000}})
    for length, valid in ((1, False), (2, True), (3_000, True), (3_001, False)):
        assert grammar.accepts(json.dumps({"k" * length: 1})) is valid


def test_remembered_items_may_be_numbers_of_any_spelling() -> None:
    schema = {"type": "array", "items": {"type": "number"}, "uniqueItems": True}
    grammar = compiler().json_schema(schema, spelling="any")
    for text, valid in (
        ("[-0E+3000,1]", True), ("[0e999,0]", False), ("[1e3000,10e2999]", False), ("[1e-3000,2e-3000]", True),
    ):  # fmt: skip
        assert grammar.accepts(text) is valid, text
