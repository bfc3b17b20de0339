"""Bad grammars: damaged ones get an error with its place, hostile ones end soon; honest ones cost what they should."""

from __future__ import annotations

import random
import resource
import time

import pytest
from bnf_corpus import CORPUS, Case
from slipcast.grammar import CompiledGrammar, GrammarCompiler, GrammarError, Vocabulary
from slipcast.grammar.bnf.automaton import GrammarAutomaton
from slipcast.grammar.bnf.read import Syntax
from slipcast.grammar.errors import BudgetError, GrammarTextError

BYTES = Vocabulary(tokens=[*(bytes([byte]) for byte in range(256)), None], eos_ids=[256])
PIECES = [
    *'"()[]{}|*+?/\\<>@&~#%\n_$:!9a.\x00\u00e9', "::=", "{9}", "{99999999999}", "{,}", "json_schema(", "%import x",
    "<[5", "tags(", '"i', "..", "~3..1", "\\u12", "\\x", "--", "%json {", "%regex {", "root", "start:", ".5", "->",
    "\ud800",
]  # fmt: skip
SMALL = [case for case in CORPUS if len(case.text) < 2000]


def damaged(text: str, chance: random.Random) -> str:
    for _ in range(chance.randint(1, 3)):
        at, kind = chance.randrange(len(text) + 1), chance.randrange(4)
        until = min(len(text), at + chance.randint(1, 8))
        if kind == 0:
            text = text[:at]
        elif kind == 1:
            text = text[:at] + chance.choice(PIECES) + text[at:]
        elif kind == 2:
            text = text[:at] + text[until:]
        else:
            there = chance.randrange(len(text) + 1)
            text = text[:there] + text[at:until] + text[there:]
    return text


@pytest.mark.parametrize("case", SMALL, ids=[case.name for case in SMALL])
def test_damaged_grammars_have_errors_with_a_place(case: Case) -> None:
    compiler, chance = GrammarCompiler(BYTES), random.Random(case.name)
    refused = 0
    for _ in range(25):
        text = damaged(case.text, chance)
        begun = time.thread_time()
        try:
            grammar = compiler.grammar(text, case.syntax)
            assert grammar.accepts(grammar.shortest), repr(text)
        except GrammarTextError as error:
            refused += 1
            assert error.line >= 1 and error.column >= 1, f"{error} in {text!r}"
            assert "\n" not in str(error)
        except GrammarError as error:  # of a schema, or for what is right and too much
            refused += 1
            assert isinstance(error, BudgetError) or "line " in str(error), f"{error!r} in {text!r}"
        assert time.thread_time() - begun < 4, repr(text)  # one second, and room for busy machines
    assert refused


def test_errors_of_schemas_have_a_place() -> None:
    with pytest.raises(GrammarError, match=r"line 2, column 9: .* at #/type"):
        GrammarCompiler(BYTES).grammar('root ::= "a" x\n  x ::= json_schema({"type": "objekt"})')


NESTED = "\n".join(f"r{i} ::= r{i + 1} r{i + 1} | r{i + 1}" for i in range(40)) + '\nr40 ::= "a" | "b"'
WEB = "\n".join(f"r{i} ::= " + " | ".join(f'"{chr(97 + j)}" r{(i * 7 + j) % 60}' for j in range(26)) for i in range(60))
HOSTILE: list[tuple[str, str, Syntax, str]] = [
    ("60,000 brackets to match", 'root ::= "(" root ")" | "x"', "gbnf", "(" * 60_000 + "x" + ")" * 60_000),
    ("60,000 brackets in the grammar", "root ::= " + "(" * 60_000 + '"x"' + ")" * 60_000, "grammarbnf", "x"),
    ("60,000 brackets in a pattern", "root ::= /" + "(" * 60_000 + "x" + ")" * 60_000 + "/", "grammarbnf", "x"),
    ("brackets in Lark", "start: " + "(" * 60_000 + '"x"' + ")" * 60_000, "lark", "x"),
    ("groups never closed", "root ::= " + "(" * 100_000, "gbnf", ""),
    ("a chain of 5,000 rules", "root ::= r0\n" + "\n".join(f"r{i} ::= r{i + 1}" for i in range(5000))
     + '\nr5000 ::= "x"', "gbnf", "x"),
    ("5,000 rules in a ring", "\n".join(f'r{i} ::= "a" r{(i + 1) % 5000}?' for i in range(5000)).replace("r0?", "root?")
     .replace("r0 ", "root "), "gbnf", "a" * 6000),
    ("characters in 3,000 rules in a ring", "root ::= r0\n"
     + "\n".join(f'r{i} ::= [a-z] | "b" r{(i + 1) % 3000} "c"' for i in range(3000)),
     "gbnf", "b" * 20 + "a" + "c" * 20),
    ("100,000 texts that all match", "root ::= " + '"a" & ' * 100_000 + '"a"', "grammarbnf", "a"),
    ("a million complements", "root ::= " + "~" * 990_000 + '"a"', "grammarbnf", "a"),
    ("half a million empty groups", "root ::= " + "()" * 490_000, "gbnf", ""),
    ("300,000 classes to close", "start: /" + "[[" * 300_000 + "/", "lark", "a"),
    ("300,000 brackets in classes", "start: /" + "[][" * 200_000 + "]/", "lark", "a"),
    ("half a million empty lines", 'start: "a"' + "\n \n" * 250_000 + '"b"', "lark", "a"),
    ("250,000 texts in a row", "root ::= " + '"a" ' * 249_000, "gbnf", "a"),
    ("ambiguity that doubles", "root ::= r0\n" + NESTED, "gbnf", "ab" * 300),
    ("palindromes", 'root ::= "a" root "a" | "b" root "b" | [ab]?', "gbnf", "ab" * 300 + "ba" * 300),
    ("palindromes of one letter", 'root ::= "a" root "a" | "b" root "b" | [ab]?', "gbnf", "a" * 1000),
    ("everything, twice", 'root ::= root root | "a" | ""', "gbnf", "a" * 1500),
    ("loops in loops in loops", 'root ::= (((("a"*)*)*)*)*', "gbnf", "a" * 20_000),
    ("counts of counts", 'root ::= ((("a"{0,1000}){0,1000}){0,1000}){0,1000}', "gbnf", "a" * 3000),
    ("a long count", 'root ::= ("ab" | "a"){5000} "c"', "gbnf", "ab" * 4000),
    ("a count that is too long", 'root ::= "a"{1000000000}', "gbnf", "a"),
    ("a pattern that explodes", "root ::= /(a|b)*a(a|b){60}/", "grammarbnf", "ab" * 60),
    ("an intersection that explodes", "root ::= " + " & ".join(f"/(.{{{n}}})*/" for n in (7, 11, 13, 17, 19)),
     "grammarbnf", "a"),
    ("complements of complements", "root ::= " + "~(" * 90 + '"a" .*' + ")" * 90, "grammarbnf", "ab"),
    ("a web of rules", "root ::= r0\n" + WEB.replace('"a" r0', '"a"'), "gbnf", "abc" * 500),
    ("a class of many ranges", "root ::= [" + "".join(f"\\u{i:04X}" for i in range(0x100, 0x3000, 2)) + "]*",
     "grammarbnf", "\u0100"),
    ("100,000 alternatives", "root ::= " + " | ".join(f'"{i}"' for i in range(100_000)), "grammarbnf", "19999"),
    ("100,000 names", "root ::= " + " | ".join(["x"] * 100_000) + '\nx ::= "a"', "gbnf", "a"),
    ("many names for nothing", "root ::= " + " ".join(f"e{i}" for i in range(2000)) + "\n"
     + "\n".join(f'e{i} ::= ""' for i in range(2000)), "gbnf", ""),
    ("lexemes that overlap", "start: (A|B|C)*\nA: /[a-z]{1,3}/\nB: /[a-z]{1,5}/\nC: /[a-z]{1,7}/", "lark",
     "abcdefgh" * 100),
    ("hidden left recursion", 'root ::= e root "a" | "b"\ne ::= "x"* e?', "gbnf", "x" * 2000 + "b" + "a" * 2000),
    ("dangling elses", 'root ::= "i" root ("e" root)? | "x"', "gbnf", "i" * 300 + "x" + "ex" * 300),
    ("a hundred triggers", "root ::= tags(" + ", ".join(f'tag("<{i}>", "x", "</{i}>")' for i in range(100)) + ")",
     "grammarbnf", "a<7>x</7>"),
    ("a thousand triggers", "root ::= tags(" + ", ".join(f'tag("<{i}>", "x", "</{i}>")' for i in range(1000)) + ")",
     "grammarbnf", "a<7>x</7>"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "syntax", "tried"), HOSTILE, ids=[each[0] for each in HOSTILE])
def test_hostile_grammars_end_soon(name: str, text: str, syntax: Syntax, tried: str) -> None:
    compiler = GrammarCompiler(BYTES)
    begun, before = time.thread_time(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        grammar = compiler.grammar(text, syntax)
        assert grammar.accepts(tried) in (True, False)
    except GrammarError as error:
        assert isinstance(error, BudgetError) or getattr(error, "line", 0), repr(error)
    assert time.thread_time() - begun < 8  # two seconds, and room for busy machines
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 500 << 10


def events(grammar: CompiledGrammar, text: str) -> int:
    """How often something was worked out anew while a text was read: states, contexts, frames, transitions."""
    automaton = grammar._automaton
    assert isinstance(automaton, GrammarAutomaton)
    work = automaton._frames, automaton._entered, automaton.contexts, automaton.contexts._returns
    begun = sum(map(len, work)) + automaton.rows.label_count
    assert grammar.accepts(text)
    return sum(map(len, work)) + automaton.rows.label_count - begun


@pytest.mark.parametrize(
    ("rules", "unit", "last", "most"),
    [
        ('root ::= root ";" s | s\ns ::= [a-z]+ "=" [0-9]+', "ab=12;", "c=3", 0),
        ('root ::= s ";" root | s\ns ::= [a-z]+ "=" [0-9]+', "ab=12;", "c=3", 0),
        ('root ::= (s ";")* s\ns ::= [a-z]+ "=" [0-9]+', "ab=12;", "c=3", 0),
        ('root ::= a | s\na ::= root ";" s\ns ::= [a-z]', "c;", "d", 0),
        ('root ::= s a?\na ::= ";" root\ns ::= [a-z]', "c;", "d", 0),
        ('root ::= e root | "."\ne ::= "x"? [a-z]', "xa", ".", 0),
        ('root ::= "(" root ")" root | ""', "(())()", "", 0),
        ('root ::= "(" root ")" | "x"', "(", "x", 6),
    ],
)
def test_recursion_costs_the_same_for_each_token(rules: str, unit: str, last: str, most: int) -> None:
    """Left, right, hidden and indirect recursion, and nesting: what is worked out for a text that is twice as long."""
    grammar = GrammarCompiler(BYTES).grammar(rules, "gbnf")
    end = ")" if most else ""
    events(grammar, unit * 20 + last + end * 20)
    first = events(grammar, unit * 1000 + last + end * 1000)
    second = events(grammar, unit * 3000 + last + end * 3000)
    assert first <= most * 1000
    assert second <= most * 2000


PYTHON = r"""
start: (stmt | _NL)*
stmt: simple _NL | "if" expr ":" block ["else" ":" block] | "def" NAME "(" [NAME ("," NAME)*] ")" ":" block
simple: NAME "=" expr | expr | "return" [expr] | "pass"
block: "{" (stmt | _NL)* "}" | simple _NL
expr: both ("or" both)*
both: negated ("and" negated)*
negated: "not" negated | compared
compared: sum (("<" | "==" | "in" | "is" | "not" "in") sum)*
sum: term ("+" term)*
term: factor ("*" factor)*
factor: "-" factor | power
power: called ("**" factor)?
called: atom ("(" [expr ("," expr)*] ")" | "[" expr "]" | "." NAME)*
atom: NAME | NUMBER | STRING | "(" expr ")" | "[" [expr ("," expr)*] "]" | "lambda" NAME ":" expr
NAME: /[a-zA-Z_][a-zA-Z0-9_]*/
NUMBER: /[0-9]+(\.[0-9]+)?/
STRING: /"([^"\\\n]|\\.)*"/
_NL: /\n/
%ignore /[ \t]+/
"""


def test_calls_within_calls_cost_the_same_at_any_depth() -> None:
    """Where an argument list may be empty or go on, what is around it waits on the stack all the same."""
    grammar = GrammarCompiler(BYTES).grammar(PYTHON, "lark")
    assert events(grammar, "x = " + "f(1, " * 10 + "1" + ")" * 10 + "\n")
    assert not events(grammar, "x = " + "f(1, " * 100 + "1" + ")" * 100 + "\n")


def refused_soon(text: str, syntax: Syntax) -> None:
    begun = time.thread_time()
    with pytest.raises(GrammarError):
        GrammarCompiler(BYTES).grammar(text, syntax)
    assert time.thread_time() - begun < 4


@pytest.mark.parametrize(
    ("syntax", "text"),
    [
        ("grammarbnf", 'root ::= "a" SPACE }'),
        ("grammarbnf", "root ::= json_schema(SPACE}) SPACE\n"),
        ("gbnf", 'root ::= "a" SPACE }'),
        ("ebnf", 'root ::= "a" SPACE }'),
        ("lark", 'start: "a" SPACE }'),
    ],
)
@pytest.mark.parametrize("space", [" ", " \n", "\n\n", "\t ", " # x\n", "# x\n\n", "// x\n ", "\r\n "])
def test_white_space_before_what_is_wrong_is_read_once(syntax: Syntax, text: str, space: str) -> None:
    refused_soon(text.replace("SPACE", space * 500), syntax)


@pytest.mark.parametrize(
    ("syntax", "begin", "more", "end"),
    [
        ("grammarbnf", 'root ::= "a"{', " ", "x"),
        ("gbnf", 'root ::= "a"{', " ", "x"),
        ("ebnf", 'root ::= "a"{', " ", "x"),
        ("lark", 'start: "a"{', " ", "x"),
        ("lark", 'start: "a"~', " ", "x"),
        ("grammarbnf", "root ::= ", "[\\", ""),
        ("grammarbnf", "root ::= ", "!<[", ""),
        ("grammarbnf", "root ::= ", "/[", ""),
        ("gbnf", "root ::= ", "[", ""),
        ("gbnf", "root ::= ", '"\\', ""),
        ("ebnf", "root[a", " ", 'x] ::= "b"'),
        ("lark", "start: ", '"\\', ""),
        ("lark", "start: ", "/\\", ""),
    ],
)
def test_what_is_not_closed_is_passed_over_once(syntax: Syntax, begin: str, more: str, end: str) -> None:
    refused_soon(begin + more * 20_000 + end, syntax)
