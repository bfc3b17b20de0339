"""Matchers: what a request may do, alone, in a batch, from several threads; and with real vocabularies."""

from __future__ import annotations

import random
import threading
from typing import Any

import numpy as np
import pytest
from slipcast.grammar import GrammarCompiler
from slipcast.grammar.automaton.answers import Depends
from slipcast.grammar.automaton.codes import FIRST_LABEL
from slipcast.grammar.automaton.stepper import Configuration, run
from slipcast.grammar.automaton.tables import Tables
from slipcast.grammar.errors import MatcherError
from slipcast.grammar.tokens import Matcher, TokenLevel, Vocabulary, states
from tokens_machines import Machine, bits, real_tokenizer

PIECES = [
    b'{"', b'":', b'", "', b'"}', b"true", b"tr", b"ue", b'{"a":1}', b"\xc3", b"\xa9x", b" ", b"  ", b'"a"', b"12",
    b"1",
]  # fmt: skip
TEXT: list[bytes | None] = [bytes((byte,)) for byte in range(256)]
VOCABULARY = Vocabulary([*TEXT, *PIECES, b"1", None, None], eos_ids=[272, 273], size=299)
EOS = 272
SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}, "b": {"type": "string", "minLength": 2, "maxLength": 4}},
    "required": ["a"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(VOCABULARY)


def allowed(matcher: Matcher) -> set[int]:
    row = np.full(VOCABULARY.words, -1, np.int32)
    matcher.fill_mask(row)
    return bits(row, VOCABULARY.size)


def take(matcher: Matcher, text: bytes) -> None:
    for byte in text:
        assert matcher.accept(byte), (text, byte)


def test_a_refused_token_changes_nothing(compiler: GrammarCompiler) -> None:
    matcher = compiler.json_schema(SCHEMA).matcher()
    before = allowed(matcher)
    for token in (ord("}"), 256 + PIECES.index(b"true"), EOS, 274, 298, 299, -1, 2**32 + ord("{"), 10**30):
        assert not matcher.accept(token)
    assert allowed(matcher) == before
    with pytest.raises(MatcherError, match="cannot take back 1 tokens, 0 were accepted"):
        matcher.rollback(1)
    assert matcher.accept(ord("{"))


def test_numbers_of_numpy_are_tokens_too(compiler: GrammarCompiler) -> None:
    matcher = compiler.json_schema(SCHEMA).matcher()
    assert matcher.accept(np.int64(ord("{")))  # type: ignore[arg-type]
    assert not matcher.accept(np.int32(ord("{")))  # type: ignore[arg-type]


def test_tokens_that_spell_the_same_are_all_allowed(compiler: GrammarCompiler) -> None:
    matcher = compiler.json_schema({"type": "integer"}).matcher()
    assert {ord("1"), 256 + PIECES.index(b"1"), 256 + len(PIECES)} <= allowed(matcher)


def test_the_end_comes_once_and_can_be_taken_back(compiler: GrammarCompiler) -> None:
    matcher = compiler.json_schema(SCHEMA).matcher()
    take(matcher, b'{"a":1')
    assert not matcher.is_accepting()
    assert not {272, 273} & allowed(matcher)
    take(matcher, b"}")
    assert matcher.is_accepting()
    assert allowed(matcher) >= {272, 273}
    assert matcher.accept(EOS)
    assert matcher.is_terminated()
    assert not matcher.is_accepting()
    assert allowed(matcher) == set()
    assert not matcher.accept(EOS)
    assert (matcher.forced(), matcher.closing(), matcher.distance()) == (b"", (), 0)
    matcher.rollback(2)
    assert not matcher.is_terminated()
    take(matcher, b"2}")
    assert matcher.accept(273)


def test_rollback_returns_to_the_same_masks(compiler: GrammarCompiler) -> None:
    matcher = compiler.json_schema(SCHEMA).matcher()
    masks = []
    for byte in b'{"a": 12, "b": "xyz"}':
        masks.append(allowed(matcher))
        assert matcher.accept(byte)
    while masks:
        matcher.rollback()
        assert allowed(matcher) == masks.pop()
    matcher.rollback(0)
    with pytest.raises(MatcherError):
        matcher.rollback(-1)


def test_forks_go_their_own_ways(compiler: GrammarCompiler) -> None:
    matcher = compiler.json_schema(SCHEMA).matcher()
    take(matcher, b'{"a":')
    other = matcher.fork()
    take(other, b"7}")
    assert other.accept(EOS)
    take(matcher, b'1,"b":"')
    other.rollback(4)
    assert allowed(other) != allowed(matcher)
    take(other, b':8,"b":"zz"}')
    assert other.is_accepting()


def test_bounded_strings_count_code_points(compiler: GrammarCompiler) -> None:
    matcher = compiler.json_schema({"type": "string", "minLength": 2, "maxLength": 2}).matcher()
    take(matcher, '"é'.encode())
    assert not matcher.accept(ord('"'))
    assert 256 + PIECES.index(b"\xa9x") not in allowed(matcher)
    assert matcher.accept(256 + PIECES.index(b"\xc3"))
    assert 256 + PIECES.index(b"\xa9x") not in allowed(matcher)
    assert matcher.accept(0xA9)
    assert allowed(matcher) == {ord('"')}


def test_forced_bytes_are_the_only_way_on() -> None:
    compact = GrammarCompiler(VOCABULARY)
    matcher = compact.json_schema({"const": {"kind": "circle"}}, whitespace="compact").matcher()
    assert matcher.forced() == b'{"kind":"circle"}'
    take(matcher, b'{"kind')
    assert matcher.forced() == b'":"circle"}'
    take(matcher, b'":"circle"}')
    assert matcher.forced() == b""
    number = compact.json_schema({"enum": [12, 123]}).matcher()
    assert number.forced() == b""  # white space may come first
    take(number, b"1")
    assert number.forced() == b"2"


def test_closing_leads_to_the_end_in_as_many_tokens_as_it_says(compiler: GrammarCompiler) -> None:
    chance = random.Random(5)
    for schema in (SCHEMA, {"type": "array", "items": SCHEMA, "minItems": 2}, {"type": "string", "minLength": 7}):
        matcher = compiler.json_schema(schema).matcher()
        for _ in range(25):
            closing = matcher.closing()
            assert matcher.distance() == len(closing)
            assert (not closing) == matcher.is_accepting()
            way = matcher.fork()
            assert all(way.accept(token) for token in closing)
            assert way.is_accepting()
            choice = sorted(allowed(matcher) - {272, 273})
            if not choice:
                break
            assert matcher.accept(chance.choice(choice))


def test_a_batch_is_what_its_matchers_say_one_by_one(compiler: GrammarCompiler) -> None:
    chance = random.Random(1)
    grammars = [compiler.json_schema(SCHEMA), compiler.json_schema({"type": "string"}), compiler.json_object()]
    matchers = [chance.choice(grammars).matcher() for _ in range(9)]
    level = matchers[0].level
    for _ in range(40):
        rows = np.full((11, VOCABULARY.words), 77, np.uint32)
        level.fill_masks(matchers, rows)
        assert (rows[9:] == 77).all()
        for matcher, row in zip(matchers, rows, strict=False):
            found = bits(row, VOCABULARY.size)
            assert found == allowed(matcher)
            if found and not matcher.accept(chance.choice(sorted(found))):
                raise AssertionError("an allowed token was refused")
    one_by_one = np.zeros((9, VOCABULARY.words), np.int32)
    compiler.fill_masks(matchers, one_by_one)
    level.fill_masks(matchers, rows)
    assert (one_by_one.view(np.uint32) == rows[:9]).all()


@pytest.mark.parametrize(
    "rows",
    [np.zeros(9, np.int32), np.zeros((1, 10), np.int64), np.zeros((1, 9), np.int32), np.zeros((0, 10), np.int32)],
)
def test_mask_rows_of_another_shape_are_refused(compiler: GrammarCompiler, rows: Any) -> None:
    matcher = compiler.json_schema(SCHEMA).matcher()
    with pytest.raises(MatcherError, match="mask rows"):
        matcher.level.fill_masks([matcher], rows)
    with pytest.raises(MatcherError, match="mask row"):
        matcher.fill_mask(rows[0] if len(rows) and rows.ndim == 2 else rows)


def test_matchers_of_another_level_are_refused(compiler: GrammarCompiler) -> None:
    ours, foreign = (c.json_schema(SCHEMA).matcher() for c in (compiler, GrammarCompiler(VOCABULARY)))
    rows = np.zeros((2, VOCABULARY.words), np.int32)
    with pytest.raises(MatcherError, match="another token level"):
        ours.level.fill_masks([ours, foreign], rows)
    compiler.fill_masks([ours, foreign], rows)
    assert (rows[0] == rows[1]).all()
    ours.level.fill_masks([], rows)


def test_rows_may_be_views_with_gaps(compiler: GrammarCompiler) -> None:
    matcher = compiler.json_schema(SCHEMA).matcher()
    expected = allowed(matcher)
    wide = np.zeros((4, 2 * VOCABULARY.words), np.int32)
    view = wide[::2, : VOCABULARY.words]
    for _ in range(3):
        matcher.level.fill_masks([matcher, matcher], view)
        assert bits(np.ascontiguousarray(view[1]), VOCABULARY.size) == expected
        assert not wide[1].any()
        assert not wide[0, VOCABULARY.words :].any()


class Failing:
    """A handler that fails at first, and then leads to the end."""

    def __init__(self, tables: Tables) -> None:
        self.tables, self.failures = tables, 2

    def fill(self, frame: int, label: int) -> tuple[int, int] | Depends | None:
        if self.failures:
            self.failures -= 1
            raise RuntimeError("not yet")
        return self.tables.end_row, self.tables.end_frame

    def resolve(self, frame: int, label: int, texts: tuple[bytes, ...]) -> None:
        return None


def test_a_failing_handler_spoils_one_mask_and_no_more() -> None:
    tables = Tables()
    row = tables.dense()
    tables.rows[row, [ord("a"), ord("1")]] = row
    tables.rows[row, ord("x")] = -(FIRST_LABEL + 1)
    level = TokenLevel(VOCABULARY, tables)
    machine = Machine(tables, row, tables.frame("only", Failing(tables), labels=FIRST_LABEL + 1))
    matcher = level.matcher(machine)
    buffer = np.zeros(VOCABULARY.words, np.int32)
    with pytest.raises(RuntimeError, match="not yet"):
        matcher.fill_mask(buffer)
    with pytest.raises(RuntimeError, match="not yet"):
        matcher.accept(ord("x"))
    assert allowed(matcher) == {ord("a"), ord("1"), ord("x"), 256 + PIECES.index(b"1"), 256 + len(PIECES)}
    assert matcher.accept(ord("x"))
    assert matcher.is_accepting()
    with pytest.raises(MatcherError, match="other tables"):
        TokenLevel(VOCABULARY, Tables()).matcher(machine)


def test_forgetting_states_changes_no_answer() -> None:
    compiler = GrammarCompiler(VOCABULARY, mask_bytes=20 * states.BYTES_PER_STATE)
    chance = random.Random(3)
    for _ in range(6):
        one = compiler.json_schema(SCHEMA).matcher()
        fresh = GrammarCompiler(VOCABULARY).json_schema(SCHEMA).matcher()
        for _ in range(30):
            choice = allowed(one)
            assert choice == allowed(fresh)
            if not choice:
                break
            token = chance.choice(sorted(choice))
            assert one.accept(token)
            assert fresh.accept(token)
    assert one.level.statistics()["states"] <= 21


def test_threads_share_a_compiler() -> None:
    compiler = GrammarCompiler(VOCABULARY)
    schemas = [{"type": "object", "properties": {f"p{i}": {"enum": ["x", i]}}, "required": [f"p{i}"]} for i in range(4)]
    failures: list[str] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        try:
            for _ in range(6):
                matcher = compiler.json_schema(chance.choice(schemas)).matcher()
                start = matcher._automaton.start  # type: ignore[attr-defined]
                at: Configuration | None = Configuration(*start)
                for _ in range(25):
                    choice = allowed(matcher) - {272, 273}
                    assert at is not None
                    with compiler._arena.tables.lock:
                        texts = VOCABULARY.tokens
                        force = {i for i, t in enumerate(texts) if t and run(compiler._arena.tables, at, t) is not None}
                    assert choice == force
                    if not choice:
                        break
                    token = chance.choice(sorted(choice))
                    assert matcher.accept(token)
                    data = texts[token]
                    assert data is not None
                    with compiler._arena.tables.lock:
                        at = run(compiler._arena.tables, at, data)
        except BaseException as error:
            failures.append(repr(error))

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


REAL: list[dict[str, Any]] = [
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 12},
            "kind": {"enum": ["circle", "square", 7, None]},
            "size": {"type": "number", "minimum": -3, "maximum": 1000},
            "code": {"type": "string", "pattern": "^[A-Z]{2}-[0-9é]+$"},
        },
        "required": ["name", "size"],
    },
    {"type": "array", "items": {"type": "string", "pattern": "ab+c"}, "uniqueItems": True, "maxItems": 3},
    {"type": "object", "patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": {"type": "boolean"}},
    {"type": "object", "properties": {f"key{i}": {"type": "boolean"} for i in range(70)}, "minProperties": 2},
    {"anyOf": [{"type": "string", "minLength": 3}, {"type": "integer"}, {"const": {"a": [1, "é"]}}]},
]


@pytest.mark.parametrize("name", ["smollm2", "llama3", "qwen2"])
def test_masks_of_real_vocabularies_are_what_the_stepper_takes(name: str) -> None:
    _, vocabulary = real_tokenizer(name)
    compiler = GrammarCompiler(vocabulary)
    tables = compiler._arena.tables
    chance = random.Random(name)
    plain = [i for i in range(vocabulary.size) if vocabulary.tokens[i]]
    for schema in REAL:
        matcher = compiler.json_schema(schema).matcher()
        at: Configuration | None = Configuration(*matcher._automaton.start)  # type: ignore[attr-defined]
        for _ in range(14):
            row = np.zeros(vocabulary.words, np.int32)
            for _ in range(chance.choice((1, 2))):
                matcher.fill_mask(row)
            found = bits(row, vocabulary.size)
            likely = sorted(found - set(vocabulary.eos_ids))
            assert at is not None
            for token in chance.sample(likely, min(len(likely), 700)) + chance.sample(plain, 700):
                data = vocabulary.tokens[token]
                assert data is not None
                assert (run(tables, at, data) is not None) == (token in found), (schema, data, at)
            if not likely:
                break
            short = [token for token in likely if len(vocabulary.tokens[token] or b"") < 3]
            token = chance.choice(short if short and chance.random() < 0.7 else likely)
            assert matcher.accept(token)
            at = run(tables, at, vocabulary.tokens[token] or b"")
