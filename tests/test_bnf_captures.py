"""What captured parts matched: by the rule for ambiguous texts, and in every syntax."""

from __future__ import annotations

import pytest
from slipcast.engine.api.chat_answers import ChatHead, ChunkAssembler, CompletionAssembler
from slipcast.engine.api.choices import ChoiceReader
from slipcast.engine.request import Finished, TextDelta, Usage
from slipcast.grammar import GrammarCompiler, GrammarError, Vocabulary
from slipcast.grammar.bnf.read import Syntax
from slipcast.grammar.errors import GrammarTextError

TOKENS = [*(bytes((byte,)) for byte in range(256)), b"ab", None, None]
COMPILER = GrammarCompiler(Vocabulary(TOKENS, [258], special_ids={"<|call|>": 257}))


def told(rules: str, text: str | bytes | list[int], syntax: Syntax = "grammarbnf") -> list[tuple[str, str]]:
    return [(each.name, each.text) for each in COMPILER.grammar(rules, syntax).captures(text)]


@pytest.mark.parametrize(
    ("rules", "text", "wanted"),
    [
        ('root ::= "a" @x([0-9]+) "b"', "a12b", [("x", "12")]),
        ('root ::= @x([0-9]+) @y([0-9]*)', "123", [("x", "123"), ("y", "")]),
        ('root ::= @x([0-9]{1,2}) @y([0-9]+)', "123", [("x", "12"), ("y", "3")]),
        ('root ::= @all(@one("a") | @two("a" "b"))', "ab", [("all", "ab"), ("two", "ab")]),
        ('root ::= @first("a") | @second("a")', "a", [("first", "a")]),
        ('root ::= @x("ab" | "a") @y("b"?)', "ab", [("x", "ab"), ("y", "")]),
        ('root ::= @x("ab" | "a") @y("b")', "ab", [("x", "a"), ("y", "b")]),
        ('root ::= (@item([a-z]+) ","?){2,}', "a,bc,d", [("item", "a"), ("item", "bc"), ("item", "d")]),
        ('root ::= @s(root) "+" @t([0-9]) | [0-9]', "1+2+3", [("s", "1+2"), ("s", "1"), ("t", "2"), ("t", "3")]),
        ('root ::= root | @x("a") | root root', "aa", [("x", "a"), ("x", "a")]),
        ('root ::= @v(json_schema({"type": "object"})) @w(.*)', '{"a": [1]} b', [("v", '{"a": [1]}'), ("w", " b")]),
        ('root ::= @x(shortest(.* "!")) @y(.*)', "ab!c!", [("x", "ab!"), ("y", "c!")]),
        ('root ::= tags(tag("<n>", @n([0-9]+), "</n>"))', "a<n>1</n>b<n>23</n>", [("n", "1"), ("n", "23")]),
        ('root ::= @x(("a"?)*) "b"', "aab", [("x", "aa")]),
        ('root ::= "\u4e2d" @x(.) "c"', "\u4e2d\u6587c", [("x", "\u6587")]),
        ('root ::= "a"', "a", []),
    ],
)  # fmt: skip
def test_what_is_captured(rules: str, text: str, wanted: list[tuple[str, str]]) -> None:
    assert told(rules, text) == wanted
    assert told(rules, text.encode()) == wanted


def test_where_captures_stand() -> None:
    (found,) = COMPILER.grammar('root ::= "\u00e9" @x("bc")').captures("\u00e9bc")
    assert (found.start, found.end) == (1, 3)


def test_in_other_syntaxes() -> None:
    assert told('root ::= "x" name\nname[capture="who"] ::= [a-z]+', "xbob", "ebnf") == [("who", "bob")]
    assert told('root ::= a " "?\na[capture, lazy] ::= [a-z]+', "b ", "ebnf") == [("a", "b")]
    lark = 'start: "x" name\nname[capture="who"]: /[a-z]+/'
    assert told(lark, "xbob", "lark") == [("who", "bob")]


def test_tokens() -> None:
    rules = 'root ::= @all("a" <|call|> @x([a-z]+))'
    assert told(rules, [97, 257, 256, 99]) == [("all", "aabc"), ("x", "abc")]
    assert told('root ::= <[256]> @x("c")', "abc") == [("x", "c")]


def test_what_is_no_text_of_the_grammar() -> None:
    grammar = COMPILER.grammar('root ::= @x("a")')
    with pytest.raises(GrammarError, match="not one of the grammar's"):
        grammar.captures("b")
    with pytest.raises(GrammarError, match="no UTF-8"):
        grammar.captures(b"\xff")
    assert COMPILER.regex("a").captures("a") == ()


def test_captures_do_not_hide_within_what_has_no_parts() -> None:
    with pytest.raises(GrammarTextError, match="line 1, column 15: the capture 'x' cannot be part of '&'"):
        COMPILER.grammar('root ::= "ab" & @x([a-z]*)')


def test_long_and_deep_texts() -> None:
    deep = COMPILER.grammar('root ::= "(" root ")" | @x("y")')
    assert deep.captures("(" * 3000 + "y" + ")" * 3000)[0].start == 3000
    items = COMPILER.grammar('root ::= @item(word) ("," @item(word))*\nword ::= [a-z]+')
    assert len(items.captures(",".join(["word"] * 2000))) == 2000


@pytest.mark.parametrize("assembler", [CompletionAssembler, ChunkAssembler])
@pytest.mark.parametrize(("text", "wanted"), [("x123", [("n", "123", 1, 4)]), ("x", None)])
def test_answers_carry_captures(assembler: type, text: str, wanted: list[tuple[str, str, int, int]] | None) -> None:
    grammar = COMPILER.grammar('root ::= "x" @n([0-9]+)')
    head = ChatHead(
        id="a", model="m", created=1, prompt=1, choices=1, logprobs=False, explain=False, includes_usage=False,
        named=False, reader=lambda: ChoiceReader(None, ()), captures=grammar.captures,
    )  # fmt: skip
    made = assembler(head)
    events = [TextDelta(0, text[:2]), TextDelta(0, text[2:]), Finished(0, "stop", Usage(1, 2))]
    (last,) = [answer for event in events for answer in made.feed(event)][-1:]
    found = last.choices[0].captures
    assert wanted == (None if found is None else [(each.name, each.text, each.start, each.end) for each in found])
