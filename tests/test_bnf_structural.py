"""Structural tags: free text in which triggers start constrained segments, and the JSON form that describes them."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.grammar.bnf.ir import Free, Grammar, Tag, Text
from slipcast.grammar.errors import SchemaError, UnsatisfiableError, UnsupportedError
from tokens_machines import bits, real_tokenizer

TOKENS = [*[bytes((byte,)) for byte in range(256)], b"<func", b"tion=", b'x<f', b'>{"', b"}</", b"hello ", None]
VOCABULARY = Vocabulary(TOKENS, [len(TOKENS) - 1])
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer"}},
    "required": ["name", "age"],
    "additionalProperties": False,
}
JOHN = '<function=person>{"name": "John", "age": 30}</function>'
TWO = "<function=number>2</function>"


def triggered(**more: Any) -> dict[str, Any]:
    return {
        "type": "structural_tag",
        "format": {
            "type": "triggered_tags",
            "triggers": ["<function="],
            "tags": [
                {
                    "type": "tag",
                    "begin": "<function=person>",
                    "content": {"type": "json_schema", "json_schema": PERSON},
                    "end": "</function>",
                },
                {
                    "begin": "<function=number>",
                    "content": {"type": "json_schema", "json_schema": {"type": "integer"}},
                    "end": "</function>",
                },
            ],
            **more,
        },
    }


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(VOCABULARY)


@pytest.mark.parametrize(
    ("more", "accepted", "rejected"),
    [
        (
            {},
            ["", "hello <b>", JOHN, f"so{JOHN}and{TWO}<func", TWO * 3],
            ["<function=", "x<function=other>", '<function=person>{"name": "John"}</function>', JOHN[:-1]],
        ),
        ({"at_least_one": True}, [JOHN, JOHN + "more" + TWO], ["", "x", "x" + JOHN]),
        ({"stop_after_first": True}, ["", "x", "x" + JOHN], [JOHN + "x", JOHN + TWO]),
        ({"at_least_one": True, "stop_after_first": True}, [JOHN, TWO], ["", "x" + JOHN, JOHN + TWO]),
        ({"excludes": ["<b>"]}, ["x" + JOHN, "<b"], ["<b>", JOHN + "a<b>"]),
    ],
)
def test_triggered_tags(compiler: GrammarCompiler, more: Any, accepted: list[str], rejected: list[str]) -> None:
    grammar = compiler.structural_tag(triggered(**more))
    for text in accepted:
        assert grammar.accepts(text), text
    for text in rejected:
        assert not grammar.accepts(text), text


def test_what_must_come_is_forced(compiler: GrammarCompiler) -> None:
    matcher = compiler.structural_tag(triggered(at_least_one=True)).matcher()
    assert matcher.forced() == b"<function="
    for byte in b"<function=p":
        assert matcher.accept(byte)
    assert matcher.forced()[:6] == b"erson>"


def test_triggers_across_tokens(compiler: GrammarCompiler) -> None:
    """A trigger is one wherever tokens are cut, and masks say what accept does on the way."""
    grammar = compiler.structural_tag(triggered())
    row = np.zeros(VOCABULARY.words, np.int32)
    ways = ([256, 257], list(b"<function="), [258, *b"unction="], [261, 256, *b"tion="])
    for way in ways:
        matcher = grammar.matcher()
        for token in way:
            matcher.fill_mask(row)
            assert bits(row, VOCABULARY.size) == {t for t in range(len(TOKENS)) if matcher.fork().accept(t)}
            assert matcher.accept(token)
        assert not matcher.is_accepting()
        matcher.fill_mask(row)
        assert bits(row, VOCABULARY.size) == {ord("p"), ord("n")}
        assert matcher.way_out().data in (b"number>0</function>",)


def test_the_way_out_of_a_schema_ends_its_tag(compiler: GrammarCompiler) -> None:
    matcher = compiler.structural_tag(triggered()).matcher()
    for byte in b'well <function=person>{"na':
        assert matcher.accept(byte)
    assert matcher.way_out().data == b'me":"","age":0}</function>'
    chance = random.Random(1)
    row = np.zeros(VOCABULARY.words, np.int32)
    for _ in range(40):
        matcher.fill_mask(row)
        token = chance.choice(sorted(bits(row, VOCABULARY.size) - set(range(128, 256))))
        assert matcher.accept(token)
        if matcher.is_terminated():
            break
        assert matcher.distance() >= 0


def test_the_older_form(compiler: GrammarCompiler) -> None:
    spec = {"structures": [{"begin": "<t>", "schema": PERSON, "end": "</t>"}], "triggers": ["<t"]}
    for given in (spec, json.dumps(spec), {"type": "structural_tag", **spec}):
        grammar = compiler.structural_tag(given)
        assert grammar.accepts('so <t>{"name": "", "age": 1}</t> it is')
        assert not grammar.accepts("so <t")
    assert compiler.structural_tag(spec) is compiler.structural_tag(spec)


def test_reasoning_then_a_schema(compiler: GrammarCompiler) -> None:
    think = {"type": "tag", "begin": "<think>", "content": {"type": "any_text"}, "end": ["</think>", "</stop>"]}
    spec = {"type": "sequence", "elements": [think, {"type": "json_schema", "json_schema": {"type": "integer"}}]}
    grammar = compiler.structural_tag(spec)
    assert grammar.accepts("<think>1 < 2</think>3")
    assert grammar.accepts("<think></stop>-3")
    assert not grammar.accepts("<think>a</think>b</think>3")
    assert not grammar.accepts("3")


@pytest.mark.parametrize(
    ("given", "accepted", "rejected"),
    [
        ({"type": "const_string", "value": "ab"}, ["ab"], ["", "abc"]),
        ({"type": "regex", "pattern": "[0-9]+"}, ["12"], ["", "a"]),
        ({"type": "grammar", "grammar": 'root ::= "(" root ")" | "x"'}, ["((x))"], ["(x"]),
        ({"type": "any_text", "max_chars": 3}, ["", "äöü"], ["abcd"]),
        ({"type": "any_text", "excludes": ["no"]}, ["n o"], ["no", "xnoy"]),
        (
            {"type": "or", "elements": [{"type": "const_string", "value": "a"}, {"type": "regex", "pattern": "b+"}]},
            ["a", "bb"],
            ["", "ab"],
        ),
        ({"type": "optional", "content": {"type": "const_string", "value": "a"}}, ["", "a"], ["aa"]),
        ({"type": "plus", "content": {"type": "const_string", "value": "a"}}, ["a", "aa"], [""]),
        ({"type": "star", "content": {"type": "const_string", "value": "a"}}, ["", "aa"], ["b"]),
        ({"type": "repeat", "min": 1, "max": 2, "content": {"type": "regex", "pattern": "a"}}, ["a", "aa"], ["aaa"]),
        (
            {
                "type": "tags_with_separator",
                "separator": ",",
                "tags": [{"begin": "<", "content": {"type": "regex", "pattern": "[0-9]"}, "end": ">"}],
            },
            ["", "<1>", "<1>,<2>"],
            [",", "<1><2>", "<1>,"],
        ),
        (
            {"type": "dispatch", "rules": [["#", {"type": "regex", "pattern": "[0-9]"}]], "loop": False},
            ["", "abc", "abc#1"],
            ["#", "#1x", "#a"],
        ),
    ],
    ids=lambda given: given["type"] if isinstance(given, dict) else "",
)
def test_formats(compiler: GrammarCompiler, given: Any, accepted: list[str], rejected: list[str]) -> None:
    grammar = compiler.structural_tag({"type": "structural_tag", "format": given})
    for text in accepted:
        assert grammar.accepts(text), text
    for text in rejected:
        assert not grammar.accepts(text), text


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ("{", SchemaError, "the structural tag is no JSON"),
        ([], SchemaError, "a structural tag is an object"),
        ({"type": "nothing"}, SchemaError, "unknown format 'nothing'"),
        ({"type": "const_string"}, SchemaError, "the field 'value' is missing"),
        ({"type": "const_string", "value": 1}, SchemaError, "'value' is int, not a string"),
        ({"type": "const_string", "value": "a", "max_tokens": 3}, UnsupportedError, "the field 'max_tokens'"),
        ({"type": "any_text", "max_tokens": 3}, UnsupportedError, "'max_tokens' is not supported here"),
        ({"type": "json_schema", "json_schema": {}, "style": "qwen_xml"}, UnsupportedError, "'qwen_xml'"),
        ({"type": "qwen_xml_parameter", "json_schema": {}}, UnsupportedError, "qwen_xml_parameter"),
        ({"type": "triggered_tags", "triggers": ["<a"], "tags": []}, SchemaError, "'<a' begins no tag"),
        (
            {"type": "triggered_tags", "triggers": ["<a"], "tags": [{"begin": "b", "content": {}, "end": ""}]},
            SchemaError,
            "the field 'type' is missing at #/tags/0/content",
        ),
        ({"type": "json_schema", "json_schema": {"allOf": [{"const": 1}, {"const": 2}]}}, UnsatisfiableError, "const"),
    ],
)
def test_what_is_wrong_is_said(compiler: GrammarCompiler, spec: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        compiler.structural_tag(spec)


def test_a_trigger_inside_a_longer_word(compiler: GrammarCompiler) -> None:
    free = Free(("call",), (Tag("call", Text("(1)"), ""),), whole_words=True)
    grammar = compiler.compile(Grammar({"root": free}))
    for text, right in (
        ("call(1)", True), ("so call(1)!", True), ("call", False), ("call me", False), ("recall me", True),
        ("caller", True), ("recall(1)", True), ("call(2)", False), ("über-call(1)", True),
    ):  # fmt: skip
        assert grammar.accepts(text) == right, text
    anywhere = compiler.compile(Grammar({"root": Free(("call",), (Tag("call", Text("(1)"), ""),))}))
    assert anywhere.accepts("recall(1)") and not anywhere.accepts("recall me")


def test_several_triggers_that_overlap(compiler: GrammarCompiler) -> None:
    tags = (Tag("abc", Text("1"), "."), Tag("b", Text("2"), "."), Tag("xx", Text("3"), "."))
    grammar = compiler.compile(Grammar({"root": Free(("abc", "b", "xx"), tags)}))
    for text, right in (
        ("ab2.", True), ("abc1.", False), ("ab", False), ("xxx", False), ("xx3.", True), ("xxx3.", False), ("ax", True),
    ):  # fmt: skip
        assert grammar.accepts(text) == right, text


def test_tool_calls_with_a_real_vocabulary() -> None:
    tokenizer, vocabulary = real_tokenizer("qwen2")
    grammar = GrammarCompiler(vocabulary).structural_tag(triggered())
    row = np.zeros(vocabulary.words, np.int32)
    matcher = grammar.matcher()
    for token in tokenizer.encode(f"Let me see. {JOHN} Done: {TWO}", add_special_tokens=False).ids:
        matcher.fill_mask(row)
        assert row[token >> 5] >> (token & 31) & 1
        assert matcher.accept(token)
    assert matcher.is_accepting()
