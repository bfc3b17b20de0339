"""Our loop over the tables that lark makes gives lark's own trees, and errors in the same places."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from bnf_corpus import CORPUS
from lark import Lark, Tree
from lark.exceptions import UnexpectedInput
from slipcast.grammar.bnf import read_gbnf, read_grammarbnf, read_lark
from slipcast.grammar.bnf.lalr import Parser, Token, Unexpected
from slipcast.grammar.bnf.lark_layout import Layout
from slipcast.grammar.bnf.source import Source

SYNTAXES = {
    "gbnf": read_gbnf._SYNTAX, "ebnf": read_gbnf._SYNTAX, "lark": read_lark._SYNTAX,
    "grammarbnf": read_grammarbnf._SYNTAX,
}  # fmt: skip
LARKS = {name: Lark(syntax, parser="lalr", maybe_placeholders=False) for name, syntax in SYNTAXES.items()}
PARSERS = {name: Parser(syntax) for name, syntax in SYNTAXES.items()}
TEXTS = [(case.syntax, case.text) for case in CORPUS if case.syntax in SYNTAXES and len(case.text) < 5000]


class Trees(dict[str, Callable[[list[Any]], Any]]):
    """Handlers that make lark's trees: (rule, children)."""

    def get(self, name: str, default: Any = None) -> Any:
        return (lambda children: (name, list(children))) if name else default


def shown(tree: Any) -> Any:
    if isinstance(tree, Tree):
        return str(tree.data), [shown(child) for child in tree.children]
    if isinstance(tree, tuple):
        return tree[0], [shown(child) for child in tree[1]]
    return tree.type, str(tree), tree.start_pos


def parsed_text(syntax: str, text: str) -> str:
    if syntax == "grammarbnf":
        return read_grammarbnf._without_json(Source(text, syntax))[0]
    return Layout(Source(text, "lark")).text if syntax == "lark" else text


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_the_same_trees_as_lark(syntax: str) -> None:
    texts = [parsed_text(syntax, text) for known, text in TEXTS if known == syntax]
    assert texts
    for text in texts:
        assert shown(PARSERS[syntax].parse(text, Trees())) == shown(LARKS[syntax].parse(text))


@pytest.mark.parametrize("syntax", SYNTAXES)
def test_the_same_texts_are_refused_in_the_same_places(syntax: str) -> None:
    chance = random.Random(syntax)
    refused = 0
    for known, text in TEXTS:
        if known != syntax:
            continue
        whole = parsed_text(syntax, text)
        at = chance.randrange(len(whole) + 1)
        damaged = whole[:at] + chance.choice(["(", ")", '"', "|", "::=", "}", "", "\n", "@", "["]) + whole[at + 1 :]
        try:
            tree = LARKS[syntax].parse(damaged)
        except UnexpectedInput as error:
            refused += 1
            with pytest.raises(Unexpected) as caught:
                PARSERS[syntax].parse(damaged, Trees())
            place = getattr(error, "pos_in_stream", None)
            assert caught.value.ended or caught.value.at == place
        else:
            assert shown(PARSERS[syntax].parse(damaged, Trees())) == shown(tree)
    assert refused


def test_lists_and_rules_of_one_symbol_are_as_lark_has_them() -> None:
    """What the tables leave out: `_list: _list item`, chains of one symbol, brackets around one child."""
    syntax = r"""
    start: _rows
    _rows: row | _rows row
    ?row: _cells | "<" _rows ">" -> nested | "!" -> nothing
    _cells: cell | _cells cell | _cells ";" cell | _cells MARK
    ?cell: word | "(" row ")" | "[" row* "]" -> list
    word: inner
    ?inner: WORD -> plain | NUMBER
    WORD: /[a-z]+/
    NUMBER: /[0-9]+/
    MARK: /[*+]/
    %ignore " "
    """
    ours, lark = Parser(syntax), Lark(syntax, parser="lalr", maybe_placeholders=False)
    chance = random.Random(1)
    right = 0
    for _ in range(3000):
        text = " ".join(chance.choices("a1;*()[]<>!", k=chance.randint(1, 9)))
        try:
            tree = lark.parse(text)
        except UnexpectedInput as error:
            with pytest.raises(Unexpected) as caught:
                ours.parse(text, Trees())
            assert caught.value.ended or caught.value.at == error.pos_in_stream
            expected = getattr(error, "accepts", None) or set()
            assert expected <= set(caught.value.expected) | {"$END"}
        else:
            right += 1
            assert shown(ours.parse(text, Trees())) == shown(tree)
    assert right > 100


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"states": []}'])
def test_a_damaged_cache_is_made_anew(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPCAST_CACHE", str(tmp_path))
    syntax = 'start: WORD*\nWORD: /[a-z]+/\n%ignore " "'
    handlers = {"start": list}
    assert Parser(syntax).parse("ab c", handlers) == ["ab", "c"]
    (file,) = (tmp_path / "syntaxes").iterdir()
    file.write_text(content)
    found = Parser(syntax).parse("ab c", handlers)
    assert found == ["ab", "c"] and isinstance(found[0], Token)
    assert len(file.read_text()) > 100
