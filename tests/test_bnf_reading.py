"""Readers of grammar texts: what each syntax means, and what is said where a text is wrong."""

from __future__ import annotations

import json

import pytest
from slipcast.grammar.bnf.imports import MODULES
from slipcast.grammar.bnf.ir import (
    Both,
    Capture,
    Chars,
    Choice,
    Free,
    JsonSchema,
    Not,
    Reference,
    Regex,
    Repeat,
    Sequence,
    Shortest,
    Tag,
    Text,
    Token,
)
from slipcast.grammar.bnf.read import SYNTAXES, Syntax, read
from slipcast.grammar.bnf.terminals import lower
from slipcast.grammar.bnf.write import write_gbnf, write_grammarbnf
from slipcast.grammar.errors import BudgetError, GrammarError, GrammarTextError, UnsupportedError
from slipcast.grammar.regular import ALL, CharSet

DIGIT = Chars(CharSet.of((48, 57)))
A, B, C = Text("a"), Text("b"), Text("c")
REF = Reference("x")


@pytest.mark.parametrize(
    ("body", "node"),
    [
        ('"a"', A),
        ('"a" "b"', Text("ab")),
        ('"a" | "b" "c"', Choice((A, Text("bc")))),
        ('("a" | "b") x', Sequence((Choice((A, B)), REF))),
        ('("a" | ("b" | "c"))', Choice((A, B, C))),
        ('"a" |\n  "b"', Choice((A, B))),
        ("x # comment\n  | # another\n \"b\"", Choice((REF, B))),
        ("[0-9]", DIGIT),
        ("[^0-9]", Chars(~DIGIT.set)),
        (r"[a\-\]\\\n]", Chars(CharSet.chars("a-]\\\n"))),
        (r"[\x41\u00e9\U0001F600-]", Chars(CharSet.chars("A\u00e9\U0001f600-"))),
        (".", Chars(ALL)),
        ('"\\n\\t\\"\\\\\\x41\\u00e9"', Text('\n\t"\\A\u00e9')),
        ('"a"*', Repeat(A)),
        ('"a"+', Repeat(A, 1)),
        ('"a"?', Repeat(A, 0, 1)),
        ('"a"{3}', Repeat(A, 3, 3)),
        ('"a"{2,}', Repeat(A, 2)),
        ('"a"{2,4}', Repeat(A, 2, 4)),
        ('"a"{0,4}?', Repeat(Repeat(A, 0, 4), 0, 1)),
        ('""', Text("")),
        ("", Text("")),
        ('"a" |', Choice((A, Text("")))),
        ("<think>", Token(names=frozenset({"<think>"}))),
        ("!<[12]>", Token(frozenset({12}), negated=True)),
    ],
)
@pytest.mark.parametrize("syntax", ["gbnf", "ebnf", "grammarbnf"])
def test_what_the_bnf_family_shares(body: str, node: object, syntax: str) -> None:
    grammar = read(f'root ::= {body}\nx ::= "x"', syntax)  # type: ignore[arg-type]
    assert grammar.rules["root"] == node
    assert grammar.start == "root"


def test_a_rule_may_have_the_name_of_a_keyword() -> None:
    rules = read('%import numbers.integer as as\nroot ::= as in "x"\nin ::= as').rules
    assert rules["root"] == Sequence((Reference("as"), Reference("in"), Text("x")))
    assert rules["as"] == Reference("numbers.integer")
    assert read('root ::= as\nas ::= "x"').rules["as"] == Text("x")


@pytest.mark.parametrize(
    ("body", "node"),
    [
        ('Regex("a.b")', Regex(read("start: /a.b/s", "lark").rules["start"].language)),  # type: ignore[union-attr]
        ("[^]", Chars(ALL)),
        ("Token(3, 4)", Token(frozenset({3, 4}))),
        ("ExcludeToken(3)", Token(frozenset({3}), negated=True)),
        (
            'TagDispatch(("<t>", x), loop_after_dispatch=false, excludes=("u",))',
            Free(("<t>",), (Tag("<t>", REF, ""),), False, True, ("u",)),
        ),
        (
            "TokenTagDispatch((7, x), excludes=(9,))",
            Sequence(
                (
                    Repeat(Token(frozenset({7, 9}), negated=True)),
                    Repeat(
                        Sequence(
                            (
                                Choice((Sequence((Token(frozenset({7})), REF)),)),
                                Repeat(Token(frozenset({7, 9}), negated=True)),
                            )
                        )
                    ),
                )
            ),
        ),
    ],
)
def test_macros_of_ebnf(body: str, node: object) -> None:
    assert read(f'root ::= {body}\nx ::= "x"', "ebnf").rules["root"] == node


def test_rule_options_of_ebnf() -> None:
    rules = read('root[capture="r", lazy] ::= x\nx[capture] ::= "x"', "ebnf").rules
    assert rules["root"] == Capture("r", Shortest(REF))
    assert rules["x"] == Capture("x", Text("x"))


def test_substrings_are_runs_of_chunks() -> None:
    node = read('root ::= Substring("abc", "de", "fg")', "ebnf").rules["root"]
    assert isinstance(node, Regex)
    assert set(node.language.words(99) or ()) == {"", "abc", "de", "fg", "abcde", "defg", "abcdefg"}


@pytest.mark.parametrize(
    ("body", "node"),
    [
        ('"a" & ~"b"', Both((A, Not(B)))),
        ('"a" & "b" | "c"', Choice((Both((A, B)), C))),
        ('~"a"*', Repeat(Not(A))),
        ('@n("a")', Capture("n", A)),
        ('shortest("a" x)', Shortest(Sequence((A, REF)))),
        ("<[1-3, 7]>", Token(frozenset({1, 2, 3, 7}))),
        ("!<[^5]>", Token(frozenset({5}))),
        ("<[*]>", Token(negated=True)),
        ('json_schema({"const": "a)b"}, order="any")', JsonSchema({"const": "a)b"}, {"order": "any"})),
        ("json_schema(true)", JsonSchema(True)),
        (
            'tags(tag("<a>", x, "</a>"), at_least_one=true)',
            Free(("<a>",), (Tag("<a>", REF, "</a>"),), at_least_one=True),
        ),
        (
            'tags(tag("<a>", x, ""), tag("<b>", "c", ""), triggers="<", excludes=("y", "z"), whole_words=true)',
            Free(("<",), (Tag("<a>", REF, ""), Tag("<b>", C, "")), excludes=("y", "z"), whole_words=True),
        ),
    ],
)
def test_what_only_grammarbnf_has(body: str, node: object) -> None:
    assert read(f'root ::= {body}\nx ::= "x"').rules["root"] == node


def test_regular_expressions_and_texts_in_any_case() -> None:
    rules = read('root ::= /a\\/[^\\]\\/]/i "Ab\\\\"i').rules
    assert isinstance(rules["root"], Sequence)
    first, second = rules["root"].items
    assert isinstance(first, Regex) and isinstance(second, Regex)
    assert "A/x" in first.language
    assert "aB\\" in second.language
    assert "aB" not in second.language


def test_the_start_may_be_named() -> None:
    assert read('%start x\nx ::= "x"').start == "x"
    assert read('%start x\nx ::= "x"\ny ::= "y"', start="y").start == "y"


@pytest.mark.parametrize("module", MODULES)
def test_every_module_of_the_library_reads(module: str) -> None:
    grammar = lower(read(f"%import {module}\nroot ::= {module}.{_start(module)}"))
    assert f"{module}.{_start(module)}" in grammar.rules


def _start(module: str) -> str:
    starts = {"arithmetic": "expression", "dates": "date", "identifiers": "name", "json": "value", "numbers": "number"}
    return {**starts, "python_call": "call", "sql": "query"}[module]


def test_imports_take_what_is_used_and_nothing_else() -> None:
    grammar = read("%import numbers.integer as int\n%import json\nroot ::= int")
    assert set(grammar.rules) == {"root", "int", "numbers.integer", "numbers.natural", "numbers.digit"}


def test_a_rule_of_the_text_goes_before_an_imported_one() -> None:
    assert read('%import numbers.integer\nroot ::= integer\ninteger ::= "x"').rules["integer"] == Text("x")


LARK = r"""
// comment with "quotes" and /slashes/
start: item ("," item)* -> list   # another
     | "B"i
item[capture="z"]: INT | WORD~2..3 | [VALUE]
%import common.INT
%import common (WORD, WS)
VALUE.2: "a".."f" & ~"c"
"""


def test_lark() -> None:
    rules = read(LARK, "lark").rules
    item = Reference("item")
    start = rules["start"]
    assert isinstance(start, Choice)
    assert start.alternatives[0] == Sequence((item, Repeat(Sequence((Text(","), item)))))
    assert rules["item"] == Capture(
        "z", Choice((Reference("INT"), Repeat(Reference("WORD"), 2, 3), Repeat(Reference("VALUE"), 0, 1)))
    )
    value = lower(read(LARK, "lark")).rules["VALUE"]
    assert isinstance(value, Regex)
    assert set(value.language.words(9) or ()) == set("abdef")


def test_what_lark_ignores_stands_after_lexemes_of_rules_only() -> None:
    rules = read('start: "a" B c\nB: "x" "y"\nc: "z"\n%ignore /[ ]+/', "lark").rules
    skip = Reference("%ignore")
    assert rules["start"] == Sequence((Sequence((A, skip)), Sequence((Reference("B"), skip)), Reference("c")))
    assert rules["B"] == Sequence((Text("x"), Text("y")))
    assert isinstance(rules["%ignore"], Repeat) and rules["%ignore"].high is None
    once = read('%llguidance {"ignore_once": true}\nstart: "a"\n%ignore " "', "lark").rules["%ignore"]
    assert once == Repeat(Text(" "), 0, 1)


def test_lark_with_schemas_tokens_and_shortest_matches() -> None:
    text = """start: %json {"type": "object",
      "properties": {"a": {"const": "|"}}} <|tool|> <[3-5,9]> body
body[suffix="<end>"]: /(.|\\n)*/
"""
    rules = read(text, "lark").rules
    start = rules["start"]
    assert isinstance(start, Sequence)
    assert start.items[0] == JsonSchema({"type": "object", "properties": {"a": {"const": "|"}}})
    assert start.items[1:3] == (Token(names=frozenset({"<|tool|>"})), Token(frozenset({3, 4, 5, 9})))
    body = lower(read(text, "lark")).rules["body"]
    assert isinstance(body, Regex)
    assert "x\ny<end>" in body.language
    assert "x<end>y<end>" not in body.language


WRONG = [
    ("gbnf", "", 1, 1, "no rule 'root'"),
    ("gbnf", 'root ::= "a', 1, 10, "not closed"),
    ("gbnf", 'root ::= ("a"', 1, 14, "ends too early; expected ')'"),
    ("gbnf", 'root ::= "a"\n  )', 2, 3, "unexpected ')'"),
    ("gbnf", 'root "a"', 1, 1, "expected a rule"),
    ("gbnf", 'root ::= "a"\nroot ::= "b"', 2, 1, "defined twice, first in line 1"),
    ("gbnf", 'root ::= "a"{3,2}', 1, 13, "wrong way round"),
    ("gbnf", 'root ::= "a"{,}', 1, 13, "without numbers"),
    ("gbnf", 'root ::= "a"{9999999}', 1, 13, "exceeds"),
    ("gbnf", 'root ::= "b\\q"', 1, 12, r"unknown escape \q"),
    ("gbnf", "root ::= [z-a]", 1, 10, "wrong way round"),
    ("gbnf", "root ::= []", 1, 10, "without characters"),
    ("gbnf", r"root ::= [\d]", 1, 11, "write the ranges"),
    ("gbnf", r'root ::= "\ud800"', 1, 11, "lone surrogate"),
    ("gbnf", 'root[capture] ::= "a"', 1, 5, "EBNF's"),
    ("gbnf", 'root ::= Regex("a")', 1, 10, "EBNF's"),
    ("ebnf", 'root[foo=1] ::= "a"', 1, 5, "unknown rule option 'foo=1'"),
    ("ebnf", 'root[lazy, lazy] ::= "a"', 1, 5, "the rule option 'lazy' is given twice"),
    ("ebnf", 'root[max_chars=-1] ::= "a"', 1, 5, "max_chars is a number up to 2147483647"),
    ("ebnf", 'root[capture=""] ::= "a"', 1, 5, "a capture without a name"),
    ("lark", 'start[max_chars=1.5]: "a"', 1, 1, "max_chars is a number up to 2147483647"),
    ("ebnf", "root ::= Token()", 1, 10, "0 arguments where 1 or more"),
    ("ebnf", 'root ::= Token("a")', 1, 10, "token id"),
    ("ebnf", 'root ::= Regex("a", flag="i")', 1, 10, "unknown argument 'flag'"),
    ("ebnf", 'root ::= Regex("(")', 1, 10, "unclosed group"),
    ("ebnf", 'root ::= TagDispatch("a")', 1, 10, "pair"),
    ("grammarbnf", "%import nowhere", 1, 9, "no module 'nowhere'"),
    ("grammarbnf", "%import json.nothing", 1, 9, "no rule 'nothing'"),
    ("grammarbnf", '%start y\nroot ::= "a"', 2, 13, "no rule 'y'"),
    ("grammarbnf", 'root ::= json_schema({"a": )', 1, 28, "JSON Schema"),
    ("grammarbnf", 'root ::= json_schema("a.json")', 1, 22, "files are not read"),
    ("grammarbnf", 'root ::= json_schema({}, sort="x")', 1, 26, "no option 'sort'"),
    ("grammarbnf", "root ::= tags(at_least_one=true)", 1, 10, "without a tag"),
    ("grammarbnf", 'root ::= tags(tag("a", "b", "c"), triggers="x")', 1, 10, "no trigger begins the tag 'a'"),
    ("grammarbnf", 'root ::= tags(tag("a", "b", "c"), at_most=1)', 1, 35, "no option 'at_most'"),
    ("grammarbnf", 'root ::= "a" & root', 1, 16, "refers to itself"),
    ("grammarbnf", "root ::= ~json_schema(true)", 1, 10, "only regular texts"),
    ("grammarbnf", 'root ::= "a" & nowhere', 1, 16, "'nowhere' is not defined"),
    ("grammarbnf", "root ::= <[3-1]>", 1, 10, "malformed token ids"),
    ("grammarbnf", "root ::= /a(/", 1, 10, "unclosed group"),
    ("lark", 'foo: "a"', 1, 9, "no rule 'start'"),
    ("lark", 'start "a"', 1, 7, "expected ':'"),
    ("lark", 'start: ("a"', 1, 12, "expected ')'"),
    ("lark", 'start: "a"\n"b"', 2, 1, "unexpected"),
    ("lark", 'start: "a"\nstart: "b"', 2, 1, "defined twice"),
    ("lark", 'start[foo]: "a"', 1, 1, "unknown attribute 'foo'"),
    ("lark", 'A[lazy]: "a"\nstart: A', 1, 1, "only rules have"),
    ("lark", "start: A\n%declare A", 2, 1, "%declare: not supported"),
    ("lark", 'start: t{"a"}', 1, 9, "templates"),
    ("lark", "%import python.NAME\nstart: NAME", 1, 16, "only common"),
    ("lark", "%import common.NAME\nstart: NAME", 1, 16, "common has no 'NAME'"),
    ("lark", 'start: %json {"a": }', 1, 20, "Expecting value"),
    ("lark", "start: %regex {}", 1, 8, "substring_chunks"),
    ("lark", '%llguidance {"x": true}\nstart: "a"', 1, 1, "unknown grammar option 'x'"),
    ("lark", "start: /a/m", 1, 8, "flag 'm'"),
    ("lark", 'start: "ab".."c"', 1, 8, "between two characters"),
    ("lark", "start: @other", 1, 8, "not known here"),
]


@pytest.mark.parametrize(("syntax", "text", "line", "column", "says"), WRONG, ids=[f"{w[0]}-{w[4]}" for w in WRONG])
def test_errors_say_where_and_what(syntax: str, text: str, line: int, column: int, says: str) -> None:
    with pytest.raises(GrammarTextError) as caught:
        lower(read(text, syntax))  # type: ignore[arg-type]
    assert says in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("syntax", "text"),
    [
        ("ebnf", 'root[max_tokens=3] ::= "a"'),
        ("ebnf", 'root[temperature=0.5] ::= "a"'),
        ("lark", 'start[max_tokens=3]: "a"'),
        ("lark", 'start[stop_capture="x"]: "a"'),
    ],
)
def test_what_is_known_and_not_done_is_refused(syntax: str, text: str) -> None:
    with pytest.raises(UnsupportedError, match="line 1"):
        read(text, syntax)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("syntax", "text"),
    [
        ("gbnf", "root ::= " + "(" * 60_000 + '"a"' + ")" * 60_000),
        ("grammarbnf", "root ::= " + "(" * 60_000),
        ("lark", "start: " + "(" * 60_000 + '"a"' + ")" * 60_000),
        ("gbnf", "x" * 2_000_000),
        ("grammarbnf", "root ::= " + "~" * 50_000 + '"a"'),
        ("grammarbnf", "root ::= (" + '"a"? ' * 5000 + ') & "a"'),
    ],
)
def test_hostile_texts_end_in_errors(syntax: str, text: str) -> None:
    with pytest.raises((BudgetError, GrammarTextError)):
        lower(read(text, syntax))  # type: ignore[arg-type]


@pytest.mark.parametrize("syntax", SYNTAXES)
@pytest.mark.parametrize("cut", range(0, 200, 7))
def test_cut_texts_raise_nothing_but_grammar_errors(syntax: str, cut: int) -> None:
    texts = {
        "gbnf": 'root ::= ("a" | [^\\]b-d]{2,3})* x\nx ::= <t> !<[1]> . "\\u00e9"\n',
        "ebnf": 'root[capture="a]"] ::= Regex("a\\\\d") TagDispatch(("<t>", x), excludes=("u",))\nx ::= Token(3)',
        "grammarbnf": '%import json.value\nroot ::= value & ~("a"i) | tags(tag("<a>", json_schema({"x": [1]}), "e"))',
        "lark": LARK,
    }
    try:
        read(texts[syntax][:cut], syntax)
    except GrammarError as error:
        assert "\n" not in str(error)


def test_an_unknown_syntax_is_named() -> None:
    with pytest.raises(GrammarTextError, match="one of grammarbnf, gbnf, ebnf, lark"):
        read("", "peg")  # type: ignore[arg-type]


WRITTEN = r"""
%start answer
%import arithmetic.expression
answer ::= "a\n\"\\" | [^a-f\-\]] . | word{2,3} expression? !<[1-3,7]> <|end|> <[*]> @n(x | "\u0007")
word ::= ([a-z]{1,20} | "x" [0-9]+) & ~("yes" | "no" "t"?) & shortest(.* "s")
x ::= json_schema({"const": "a"}, order="any") tags(tag("<a>", word, ">"), triggers="<", at_least_one=true) /a\/b/i
"""


def test_grammarbnf_is_written_as_it_is_read() -> None:
    grammar = read(WRITTEN)  # as read: written before it is lowered
    again = read(write_grammarbnf(grammar))
    assert again.start == "answer"
    assert write_grammarbnf(again) == write_grammarbnf(grammar)
    assert len(again.rules) == len(grammar.rules)
    for name, rule in grammar.rules.items():
        if "." not in name and name != "expression":
            assert again.rules[name] == rule


def test_gbnf_is_written_as_it_is_read() -> None:
    text = 'root ::= ("a" | [^\\]b-d-]{2,3})* x\nx ::= <t> !<[1]> . "\\u00e9" ("b" "c"?)+\n'
    grammar = read(text, "gbnf")
    assert read(write_gbnf(grammar), "gbnf") == grammar
    lark = read('start: A ("," A)*\nA: "a".."f"+', "lark")
    assert read(write_gbnf(lark), "gbnf").rules["A"] == Repeat(Chars(CharSet.of((97, 102))), 1)


@pytest.mark.parametrize("body", ["json_schema(true)", 'tags(tag("a", "b", "c"))', "!<[1-3]>", "<[*]>"])
def test_what_gbnf_cannot_say_is_refused_by_name(body: str) -> None:
    with pytest.raises(UnsupportedError, match="'root'"):
        write_gbnf(read(f"root ::= {body}"))


@pytest.mark.parametrize(
    ("syntax", "text", "column", "said"),
    [
        ("gbnf", 'root ::= x\nx ::= [a-z]+ (= "b")', 14, r"look-ahead assertions, as \(= \.\.\.\), are EBNF's"),
        ("ebnf", 'root ::= ("a" (= "b")) "c"', 15, "a look-ahead assertion stands at the end of a rule"),
        ("ebnf", 'root ::= "a" (!"b")', 15, "look-ahead assertions"),
        ("gbnf", "root ::= 'a'", 10, r'single quotes are not known here \(write "..."\)'),
        ("lark", "start: 'a'", 8, "single quotes are not known here"),
        ("gbnf", 'root ::= "a" // b', 14, "comments begin with #"),
        ("lark", 'start: a::p(0)\na: "x"', 9, "rules with parameters"),
        ("lark", 'start: a\na: "x" %if foo', 8, "rules with parameters"),
        ("lark", 'start: x{"a"}\nx{y}: y', 9, "templates"),
        ("lark", 'start: %json {"x-guidance": {"lenient": true}}', 8, "only whitespace_flexible is supported"),
        ("lark", "%", 1, "expected '%ignore' or '%import' or a line end"),
        ("lark", 'start: "a" }', 12, "or '->' or '..' or"),
        ("grammarbnf", "root", 1, "expected '%import' or '%start' or a rule"),
        ("grammarbnf", '%start root root ::= "a" %', 26, "unexpected '%'; expected"),
    ],
)
def test_what_other_dialects_have_is_named(syntax: Syntax, text: str, column: int, said: str) -> None:
    with pytest.raises(GrammarTextError, match=said) as caught:
        read(text, syntax)
    assert caught.value.column == column


def test_white_space_of_a_schema_in_lark_is_what_it_says() -> None:
    schema = '{"type": "array", "x-guidance": {"whitespace_flexible": %s}}'
    assert read(f"start: %json {schema % 'true'}", "lark").rules["start"] == JsonSchema({"type": "array"})
    compact = JsonSchema({"type": "array"}, {"whitespace": "compact"})
    assert read(f"start: %json {schema % 'false'}", "lark").rules["start"] == compact


@pytest.mark.parametrize(
    ("pattern", "named", "remedy"),
    [
        ("[[:alpha:]]+", "[:alpha:]", "[A-Za-z]"),
        ("[_[:^digit:]]", "[:^digit:]", "[0-9]"),
        ("[[.x.]]", "[.x.]", "the characters"),
        (r"\Aab", r"\A", "leave it out"),
        (r"ab\z", r"\z", "leave it out"),
        (r"[\h]", r"\h", r"[ \t]"),
        (r"\Qa.b\E", r"\Q", "escape each"),
        ("a{,3}", "{,3}", "{0,3}"),
        ("[a-z&&[^aeiou]]", "&& in a class", "&"),
        ("[a-z--b]", "-- in a class", r"\-"),
        ("x[a~~b]", "~~ in a class", "&"),
        ("[a[bc]]", "a class in a class", "list the characters"),
        (r"[^[\]]x]", "a class in a class", r"\["),
        ("[[a]-z]", "a class in a class", r"\["),
        (r"\x{41}", r"\x", r"\xHH"),
    ],
)
def test_what_other_dialects_of_regular_expressions_mean_is_refused(pattern: str, named: str, remedy: str) -> None:
    texts: dict[Syntax, str] = {"grammarbnf": f'root ::= "a" /{pattern}/', "lark": f'start: "a" /{pattern}/'}
    for syntax, text in texts.items():
        with pytest.raises(GrammarTextError) as caught:
            read(text, syntax)
        assert (caught.value.line, caught.value.column) == (1, text.index("/") + 1)
        assert named in str(caught.value)
        assert remedy in (caught.value.remedy or "")


@pytest.mark.parametrize(
    "pattern",
    ["[^&&]", "[[:]", "[^]", "[a][^]*", "[]", "[[]", "[x[(]", r"[a\[b]c]", "[[]x[a]", r"\[][)]", r"\\A", "[{,3}]",
     r"\{,3}", "[+--]", "[^--a]", r"\x41\u0041\u{41}\cA\p{L}[\b]"],
)  # fmt: skip
def test_what_only_looks_like_another_dialect_is_read(pattern: str) -> None:
    read(f"root ::= /{pattern}/", "grammarbnf")


@pytest.mark.parametrize(
    ("pattern", "same"),
    [("[]a]", r"[\]a]"), ("[^]a]+", r"[^\]a]+"), ("[]-a]", r"[\]-a]"), (r"x[^][\\]", r"x[^\]\[\\]"), ("[]]", r"\]"),
     ("[^]*[a]", r"[^\]*\[a]"), ("(?:[]])*", r"\]*")],
)  # fmt: skip
def test_a_bracket_that_a_class_begins_with_is_a_character_in_lark_and_refused_elsewhere(
    pattern: str, same: str
) -> None:
    assert read(f"start: /{pattern}/", "lark").rules == read(f"start: /{same}/", "lark").rules
    for syntax, text in (("grammarbnf", f"root ::= /{pattern}/"), ("ebnf", f'root ::= Regex({json.dumps(pattern)})')):
        with pytest.raises(GrammarTextError, match="a ] that a class begins with") as caught:
            read(text, syntax)
        assert (caught.value.line, caught.value.column) == (1, 10)
        assert r"\]" in (caught.value.remedy or "")


@pytest.mark.parametrize("pattern", ["[]", "[^]", "a[]", "[^]*"])
def test_a_class_is_closed_in_lark(pattern: str) -> None:
    with pytest.raises(GrammarTextError, match=r"line 1, column 8: unclosed '\['"):
        read(f"start: /{pattern}/", "lark")


@pytest.mark.parametrize("syntax", ["gbnf", "ebnf", "grammarbnf"])
@pytest.mark.parametrize(
    ("body", "column", "said"),
    [
        ("[a[bc]]", 16, r"classes in classes, as \[a\[bc\]\], are not supported \(list the characters of both"),
        ('"x" []a]', 14, r"a character class without characters \(write \] in a class as \\\]\)"),
    ],
)
def test_brackets_in_classes(syntax: Syntax, body: str, column: int, said: str) -> None:
    with pytest.raises(GrammarTextError, match=said) as caught:
        read(f"root ::= {body}", syntax)
    assert (caught.value.line, caught.value.column) == (1, column)


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('start: "a"\n%ignore b\nb: " "', (2, 9)),
        ('%ignore (" " | (b))\nstart: "a"\nb: " "', (1, 17)),
        ('start: "a"\n%ignore " "\n%ignore /x/ _b?\n_b: "y"', (3, 13)),
    ],
)
def test_lark_ignores_terminals_only(text: str, place: tuple[int, int]) -> None:
    with pytest.raises(GrammarTextError, match=r"%ignore refers to the rule '_?b': only terminals are") as caught:
        read(text, "lark")
    assert (caught.value.line, caught.value.column) == place
    assert "capitals" in (caught.value.remedy or "")


@pytest.mark.parametrize("syntax", ["gbnf", "ebnf", "grammarbnf"])
def test_classes_by_name_are_refused_by_name(syntax: Syntax) -> None:
    with pytest.raises(GrammarTextError, match=r"line 2, column 17: classes by name, as \[\[:alpha:\]\]"):
        read('root ::= "a" b\nb ::= [[:alpha:]]+', syntax)


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ('start: A\nA: "x" b\nb: "y"', "line 2, column 8: the terminal 'A' refers to the rule 'b'"),
        ('start: A\nA: ("x" | (start)?)', "line 2, column 12: the terminal 'A' refers to the rule 'start'"),
        ('start: b\nb: A\n_A.2: /x/ & b\nA: _A', "line 3, column 13: the terminal '_A' refers to the rule 'b'"),
    ],
)
def test_terminals_of_lark_are_made_of_terminals(text: str, where: str) -> None:
    with pytest.raises(GrammarTextError) as caught:
        read(text, "lark")
    assert where in str(caught.value)
