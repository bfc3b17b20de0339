"""Structural tags: free text in which triggers start constrained segments, and the JSON form that describes them."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest
from slipcast.grammar import GrammarCompiler, Vocabulary
from slipcast.grammar.bnf.ir import Free, Grammar, Tag, Text
from slipcast.grammar.errors import GrammarTextError, SchemaError, UnsatisfiableError, UnsupportedError
from tokens_machines import bits, real_tokenizer

TOKENS = [*[bytes((byte,)) for byte in range(256)], b"<func", b"tion=", b"x<f", b'>{"', b"}</", b"hello ", None]
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
        ({"type": "any_text", "max_tokens": 3}, UnsupportedError, "at most so many tokens .*max_chars"),
        ({"type": "any_text", "max_chars": -1}, SchemaError, "'max_chars' is negative"),
        ({"type": "any_text", "excludes": [""]}, SchemaError, "an empty text in 'excludes'"),
        (
            {"type": "json_schema", "json_schema": {}, "style": "toml"},
            UnsupportedError,
            "'toml' .*one of json, qwen_xml",
        ),
        ({"type": "or", "elements": []}, SchemaError, "'elements' is empty"),
        ({"type": "triggered_tags", "triggers": ["<a"], "tags": []}, SchemaError, "'tags' is empty"),
        (
            {
                "type": "triggered_tags",
                "triggers": ["<a", "<b"],
                "tags": [{"begin": "<a", "content": {"type": "any_text"}, "end": "."}],
            },
            SchemaError,
            "'<b' begins no tag at #/triggers/1",
        ),
        (
            {"type": "dispatch", "rules": [["<call>", {"type": "any_text"}]], "excludes": ["x", "all"]},
            SchemaError,
            "'all' is part of '<call>', .* at #/excludes/1",
        ),
        ({"type": "tag", "begin": "a", "content": {"type": "any_text"}, "end": []}, SchemaError, "'end' is empty"),
        (
            {"type": "token_dispatch", "rules": [["", {"type": "any_text"}]]},
            SchemaError,
            r"a rule is \[token, format\]",
        ),
        (
            {"type": "token_dispatch", "rules": [[5, {"type": "any_text"}]], "exclude_tokens": [5]},
            SchemaError,
            "a trigger is excluded",
        ),
        (
            {
                "type": "token_triggered_tags",
                "trigger_tokens": [7],
                "tags": [{"begin": {"token": 5}, "content": {"type": "any_text"}, "end": "."}],
            },
            SchemaError,
            "no trigger begins the tag at #/tags/0/begin",
        ),
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


def test_null_is_not_given(compiler: GrammarCompiler) -> None:
    """Clients send what they hold, with null for what was not said."""
    given = {"type": "any_text", "excludes": None, "max_chars": None, "max_tokens": None, "later": None}
    assert compiler.structural_tag(given).accepts("text")
    with pytest.raises(SchemaError, match="the field 'value' is missing"):
        compiler.structural_tag({"type": "const_string", "value": None})


@pytest.mark.parametrize(
    ("given", "accepted", "rejected"),
    [
        ({"type": "any_text", "max_chars": 4, "excludes": ["no"]}, ["", "n o", "äöüß"], ["no", "anob", "abcde"]),
        ({"type": "any_text", "max_chars": 0}, [""], ["a"]),
        ({"type": "json_schema", "json_schema": {"type": "array"}, "max_whitespace_cnt": 1}, ["[ 1]"], ["[  1]"]),
        (
            {
                "type": "tag",
                "begin": "(",
                "content": {
                    "type": "sequence",
                    "elements": [
                        {"type": "star", "content": {"type": "any_text"}},
                        {"type": "const_string", "value": "."},
                    ],
                },
                "end": [")", "]"],
            },
            ["(a.)", "(a.]"],
            ["(a).)", "(a].)"],
        ),
        (
            {
                "type": "tag",
                "begin": "(",
                "content": {"type": "dispatch", "rules": [["#", {"type": "any_text", "max_chars": 1}]]},
                "end": ")",
            },
            ["(a)", "(a#b)", "(#)"],
            ["(a)b)", "(a#))"],
        ),
    ],
    ids=["max_chars", "nothing", "spaces", "all elements", "dispatch"],
)
def test_bounds_and_ends(compiler: GrammarCompiler, given: Any, accepted: list[str], rejected: list[str]) -> None:
    grammar = compiler.structural_tag(given)
    for text in accepted:
        assert grammar.accepts(text), text
    for text in rejected:
        assert not grammar.accepts(text), text


NAMED = Vocabulary(
    [*[bytes((byte,)) for byte in range(256)], None, None, None, None],
    [256],
    special_ids={"<eos>": 256, "<call>": 257, "<done>": 258, "<other>": 259},
)
CALL, DONE, OTHER = 257, 258, 259


def follows(spec: dict[str, Any], tokens: list[Any]) -> str:
    """How a grammar takes tokens, texts among them: "end" at a whole text, "on" in the middle, or what it refused."""
    matcher = GrammarCompiler(NAMED).structural_tag(spec).matcher()
    row = np.zeros(NAMED.words, np.int32)
    for token in [one for given in tokens for one in (given.encode() if isinstance(given, str) else [given])]:
        matcher.fill_mask(row)
        allowed = token in bits(row, NAMED.size)
        assert matcher.accept(token) == allowed
        if not allowed:
            return f"not {token}"
    return "end" if matcher.is_accepting() else "on"


def test_the_token_that_ends_a_tag_does_not_stand_in_its_free_tokens() -> None:
    token = {"type": "token", "token": "<done>"}
    tag = {"type": "tag", "begin": {"type": "token", "token": CALL}, "content": {"type": "any_tokens"}, "end": token}
    assert follows(tag, [CALL, "ab", OTHER, DONE]) == "end"
    assert follows(tag, [CALL, DONE, DONE]) == f"not {DONE}"
    tag["content"] = {"type": "any_tokens", "exclude_tokens": ["<other>"], "max_tokens": 2}
    assert follows(tag, [CALL, "ab", DONE]) == "end"
    assert follows(tag, [CALL, "abc"]) == f"not {ord('c')}"
    assert follows(tag, [CALL, OTHER]) == f"not {OTHER}"
    tag["content"] = {"type": "exclude_token"}
    assert follows(tag, [CALL, DONE]) == f"not {DONE}"


def test_tags_that_tokens_trigger() -> None:
    done = {"type": "token", "token": "<done>"}
    begin = {"type": "token", "token": "<call>"}
    number = {"begin": begin, "content": {"type": "regex", "pattern": "[0-9]"}, "end": done}
    spec = {"type": "token_triggered_tags", "trigger_tokens": ["<call>"], "tags": [number], "exclude_tokens": [OTHER]}
    assert follows(spec, ["so ", CALL, "1", DONE, " and ", CALL, "2", DONE, "."]) == "end"
    assert follows(spec, [CALL, "1"]) == "on"
    assert follows(spec, [CALL, "a"]) == f"not {ord('a')}"
    assert follows(spec, ["a", OTHER]) == f"not {OTHER}"
    assert follows({**spec, "at_least_one": True}, ["a"]) == f"not {ord('a')}"
    once = {**spec, "stop_after_first": True}
    assert follows(once, ["a", CALL, "1", DONE]) == "end"
    assert follows(once, ["a", CALL, "1", DONE, "a"]) == f"not {ord('a')}"
    assert follows({**once, "at_least_one": True}, [CALL, "1", DONE]) == "end"


def test_dispatch_on_tokens() -> None:
    digit, letter = {"type": "regex", "pattern": "[0-9]"}, {"type": "regex", "pattern": "[a-z]"}
    spec = {"type": "token_dispatch", "rules": [["<call>", digit], [OTHER, letter]]}
    assert follows(spec, ["text", CALL, "1", OTHER, "x", "more"]) == "end"
    assert follows(spec, [OTHER, "1"]) == f"not {ord('1')}"
    assert follows({**spec, "loop": False}, [CALL, "1", "x"]) == f"not {ord('x')}"
    assert follows({**spec, "exclude_tokens": ["<done>"]}, ["a", DONE]) == f"not {DONE}"


CITY = {
    "type": "object",
    "properties": {
        "city": {"type": "string"},
        "days": {"type": "integer", "minimum": 1},
        "unit": {"enum": ["C", "F"]},
        "tags": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/tag"}}, {"type": "null"}]},
    },
    "required": ["city", "days"],
    "$defs": {"tag": {"const": "new"}},
}


def parameters(style: str, schema: Any, **more: Any) -> dict[str, Any]:
    return {"type": "json_schema", "style": style, "json_schema": schema, **more}


@pytest.mark.parametrize(
    ("style", "begin", "text", "json", "end"),
    [
        ("qwen_xml", "<parameter={}>", "", "", "</parameter>"),
        ("minimax_xml", '<parameter name="{}">', "", "", "</parameter>"),
        ("glm_xml", "<arg_key>{}</arg_key>\n<arg_value>", "", "", "</arg_value>"),
        (
            "deepseek_xml",
            '<\uff5cDSML\uff5cparameter name="{}" string=',
            '"true">',
            '"false">',
            "</\uff5cDSML\uff5cparameter>",
        ),
    ],
)
def test_parameters_in_tags(compiler: GrammarCompiler, style: str, begin: str, text: str, json: str, end: str) -> None:
    grammar = compiler.structural_tag(parameters(style, CITY))

    def written(*given: tuple[str, str, str]) -> str:
        return "\n".join(begin.format(name) + kind + value + end for name, kind, value in given)

    city, days = ("city", text, 'New "York" <1>\n&'), ("days", json, "\n3\n")
    assert grammar.accepts(written(city, days))
    assert grammar.accepts(written(city, days, ("unit", text, "\nF\n"), ("tags", json, '["new", "new"]')))
    assert grammar.accepts(written(city, days, ("tags", json, "null")))
    for wrong in (
        written(city),  # a required one is missing
        written(days, city),  # the order
        written(city, city, days),
        written(city, ("days", json, "0")),
        written(city, days, ("unit", text, "K")),
        written(city, days, ("tags", json, '["old"]')),
        written(city, days, ("more", text, "x")),
        written(city, ("days", json, "3" + end + "4")),
    ):
        assert not grammar.accepts(wrong), wrong
    assert grammar.accepts(grammar.sample(1))
    assert grammar.accepts(grammar.shortest)


def test_parameters_in_any_order_and_undeclared_ones(compiler: GrammarCompiler) -> None:
    grammar = compiler.structural_tag(
        parameters("qwen_xml", {**CITY, "additionalProperties": {"type": "boolean"}}, any_order=True)
    )
    city, days = "<parameter=city>x</parameter>", "<parameter=days>2</parameter>"
    other = "<parameter=more>true</parameter>"
    for right in (city + days, days + city, other + days + city + other):
        assert grammar.accepts(right), right
    unit = "<parameter=unit>true</parameter>"
    for wrong in (city, days + city + days, city + days + "<parameter=more>1</parameter>", city + days + unit):
        assert not grammar.accepts(wrong), wrong
    anything = compiler.structural_tag({"type": "qwen_xml_parameter", "json_schema": True})
    assert anything.accepts(f"{other}\n{city}") and anything.accepts("")
    assert not anything.accepts("<parameter=>x</parameter>")


@pytest.mark.parametrize(
    ("value", "accepted", "rejected"),
    [
        ({"type": "string", "pattern": "^[a-z]+$", "maxLength": 3}, ["abc"], ["", "abcd", "A"]),
        ({"type": "string", "format": "date", "title": "Day"}, ["2024-02-29"], ["2023-02-29"]),
        ({"type": ["string", "null"]}, ["any text", "null"], []),
        ({"$ref": "#/$defs/tag", "description": "d"}, ["new"], ["old", '"new"']),
        ({"enum": ["a", 1, None]}, ["a", "1", "null"], ["b", '"a"', "2"]),
        ({"const": {"a": 1}}, ['{"a": 1}'], ["a"]),
        ({"oneOf": [{"type": "string", "minLength": 2}, {"type": "integer"}]}, ["ab", "1"], ["a"]),
        ({}, ["any", "[1]"], []),
        ({"type": "object", "properties": {"t": {"$ref": "#/$defs/tag"}}}, ['{"t": "new"}'], ["new", '{"t": 1}']),
    ],
)
def test_values_of_parameters(compiler: GrammarCompiler, value: Any, accepted: list[str], rejected: list[str]) -> None:
    schema = {"properties": {"p": value}, "required": ["p"], "$defs": {"tag": {"const": "new"}}}
    grammar = compiler.structural_tag(parameters("qwen_xml", schema))
    for text in accepted:
        assert grammar.accepts(f"<parameter=p>{text}</parameter>"), text
    for text in rejected:
        assert not grammar.accepts(f"<parameter=p>{text}</parameter>"), text


@pytest.mark.parametrize(
    ("schema", "error", "message"),
    [
        ({"type": "array"}, SchemaError, "the schema of an object at #/json_schema"),
        ({"properties": []}, SchemaError, "properties"),
        ({"minProperties": 2}, UnsupportedError, "'minProperties' .* at #/json_schema"),
        (
            {"properties": {"p": {"not": {"type": "string"}}}},
            UnsupportedError,
            "'not' .* at #/json_schema/properties/p",
        ),
        ({"properties": {"p": {"$ref": "#/$defs/q"}}}, SchemaError, r"\$ref"),
        ({"properties": {"p": {"$ref": "#/$defs/q"}}, "$defs": {"q": {"$ref": "#/$defs/q"}}}, SchemaError, "go round"),
        ({"properties": {"p": False}, "required": ["p"]}, UnsatisfiableError, "no value"),
        ({"properties": {}, "additionalProperties": False, "required": ["p"]}, UnsatisfiableError, "'p' is required"),
        ("{", SchemaError, "no JSON"),
    ],
)
def test_parameters_that_are_refused(compiler: GrammarCompiler, schema: Any, error: type, message: str) -> None:
    with pytest.raises(error, match=message):
        compiler.structural_tag(parameters("qwen_xml", schema))


CALLS = r"""
start: (foo | bar)* rest
rest: TEXT
foo_head[lazy]: TEXT "<function"
foo: foo_head "=foo>" %json { "type": "integer" } "</function>"
bar_head[suffix="<function"]: TEXT
bar: bar_head "=bar>" /[a-z]+/ "</function>"
TEXT: /(.|\n)*/
"""


def test_calls_in_free_text_as_lark_has_them(compiler: GrammarCompiler) -> None:
    """What follows a trigger is a call, though the text around it could take it as well."""
    foo, bar = "<function=foo>12</function>", "<function=bar>x</function>"
    grammar = compiler.grammar(CALLS, "lark")
    for right in ("", "a\r\nb \u2028", "x<functio", foo, f"so{bar}{foo} done"):
        assert grammar.accepts(right), right
    for wrong in ("<function", "x<function=foo>a</function>", foo + "<function>", "<function=bar>1</function>"):
        assert not grammar.accepts(wrong), wrong
    needed = compiler.grammar(CALLS.replace("bar)*", "bar)+"), "lark")
    assert needed.accepts("so " + foo) and not needed.accepts("so")
    alone = compiler.grammar(CALLS.replace(" rest\nrest: TEXT", ""), "lark")
    assert alone.accepts("so " + foo) and alone.accepts("") and not alone.accepts(foo + ".")
    assert not alone.accepts("<function>" + foo)


@pytest.mark.parametrize(
    "head",
    [
        r"/(\n|.)*<t\.\n>/", r"/(?s:.*)<t\.\n>/", r"/.*<t\.\n>/s", r"/[\s\S]*<t\.\n>/", r"/(?:.|\n)*<t\.\n>/",
        r'/(.|\n)*/ "<t.\n>"',
    ],
)  # fmt: skip
def test_spellings_of_any_text_and_a_trigger(compiler: GrammarCompiler, head: str) -> None:
    text = f"start: tool* TEXT\nhead[lazy]: {head}\ntool: head /[0-9]/\nTEXT: /[\\s\\S]*/"
    grammar = compiler.grammar(text, "lark")
    assert grammar.accepts("a<t.\n>1b") and grammar.accepts("<t,\n>x")
    assert not grammar.accepts("a<t.\n>b")


def test_a_lark_dot_is_all_but_a_line_feed(compiler: GrammarCompiler) -> None:
    grammar = compiler.grammar(r"start: /a.[.\]]\.(?:.)?/", "lark")
    assert grammar.accepts("a\r..") and grammar.accepts("a\u2028].\x85") and not grammar.accepts("a\n..")
    assert not grammar.accepts("a..x") and compiler.grammar("start: /./s", "lark").accepts("\n")


@pytest.mark.parametrize(
    ("text", "syntax", "accepted", "rejected"),
    [
        ('root ::= x "c"\nx[max_chars=3] ::= [ab\u00e9]+', "ebnf", ["abac", "\u00e9\u00e9\u00e9c"], ["ababc", "c"]),
        ('root ::= x\nx[capture="n", max_chars=4, lazy] ::= [a-z]+ "."', "ebnf", ["ab."], ["abcd."]),
        ('start: (x ",")* x\nx[max_chars=2]: /[ab]*/', "lark", ["", "ab,,ba"], ["aba", "a,bbb"]),
        ('start: x "!"\nx[max_chars=2, suffix=";"]: /[ab]*/', "lark", ["ab;!"], ["abb;!", "ab!"]),
        ('root ::= Regex("\\\\S+", json_string=true)', "ebnf", ["abc/\u00e9"], ['a"b', "a\\b", "a\x01", "a b"]),
        ('root ::= ..x. "a"\nx ::= "x"', "gbnf", ["éux.a", "..x\na"], ["..xa", ".x.a"]),
        ('root ::= a.b "."\na.b ::= .+', "ebnf", ["x.", "..."], ["."]),
        ('root ::= x "b"\nx ::= "a"+ (= "b" | y)\ny ::= "c"', "ebnf", ["aab"], ["aa", "aac"]),
    ],
)
def test_bounds_and_assertions_of_rules(
    compiler: GrammarCompiler, text: str, syntax: Any, accepted: list[str], rejected: list[str]
) -> None:
    grammar = compiler.grammar(text, syntax)
    for right in accepted:
        assert grammar.accepts(right), right
    for wrong in rejected:
        assert not grammar.accepts(wrong), wrong


NESTED = """%ignore " "
start: "[" %lark {
  // a } in a comment
  %ignore "_"
  start: item ":" %json {"type": "integer"}
  item: "x" | "(" item ")" | "}"
} "]" %lark { start: %lark { start: /[}a]{2}/ } }
item: "never"
"""


def test_grammars_in_lark_grammars(compiler: GrammarCompiler) -> None:
    """Each has names, and things to ignore, of its own."""
    grammar = compiler.grammar(NESTED, "lark")
    for right in ("[x:1]aa", "[(x_)_:12 ] }a", "[ x:1]a}", "[}:1]aa"):
        assert grammar.accepts(right), right
    for wrong in ("[x :1]aa", "[never:1]aa", "[x:1]a a", "_[x:1]aa"):
        assert not grammar.accepts(wrong), wrong


@pytest.mark.parametrize(
    ("text", "line", "column", "said"),
    [
        ('start: "a" %lark { start: foo\n  bar: "x" }', 1, 27, "the rule 'foo' is not defined"),
        ('start: "a"\nb: %lark { start: "\n }', 2, 19, "is not closed"),
        ('start: "a"\nb: %lark {\n start: x y\n x: "a"\n y: ] }', 5, 5, "unexpected ']'"),
        ("start: %lark x", 1, 14, "%lark takes a grammar in braces"),
        ("start: %lark { {}", 1, 14, "%lark takes a grammar in braces"),
        ('start: %lark { x: "a" }', 1, 23, "there is no rule 'start' to start with"),
        ("start: " + "%lark { start: " * 11 + '"a"' + "}" * 11, 1, 165, "grammars nest deeper than 10 levels"),
    ],
)
def test_errors_in_nested_grammars(compiler: GrammarCompiler, text: str, line: int, column: int, said: str) -> None:
    with pytest.raises(GrammarTextError) as caught:
        compiler.grammar(text, "lark")
    assert said in str(caught.value) and (caught.value.line, caught.value.column) == (line, column), caught.value
