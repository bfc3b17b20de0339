"""The automaton of general grammars: known languages, what costs nothing, what is refused, and how hostile ones end."""

from __future__ import annotations

import json
import random
import time
from typing import Any

import numpy as np
import pytest
from slipcast.grammar import CompiledGrammar, GrammarCompiler, Vocabulary
from slipcast.grammar.bnf.ir import Choice, Grammar, JsonSchema, Reference, Sequence, Text
from slipcast.grammar.errors import BudgetError, GrammarError, GrammarTextError

BYTES = Vocabulary([*[bytes((byte,)) for byte in range(256)], b"((", b"))", b"ab", None], [259])

JSON = r"""
root ::= ws value
value ::= (object | array | string | number | "true" | "false" | "null") ws
object ::= "{" ws (member ("," ws member)*)? "}"
member ::= string ws ":" ws value
array ::= "[" ws (value ("," ws value)*)? "]"
string ::= "\"" ([^"\\\x00-\x1F] | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{4}))* "\""
number ::= "-"? ("0" | [1-9] [0-9]*) ("." [0-9]+)? ([eE] [-+]? [0-9]+)?
ws ::= [ \t\n\r]*
"""
ARITHMETIC = {
    "left": 'root ::= root [-+] t | t\nt ::= t [*/] f | f\nf ::= [0-9]+ | "(" root ")"',
    "right": 'root ::= t [-+] root | t\nt ::= f [*/] t | f\nf ::= [0-9]+ | "(" root ")"',
    "ambiguous": 'root ::= root [-+*/] root | [0-9]+ | "(" root ")"',
}


@pytest.fixture(scope="module")
def compiler() -> GrammarCompiler:
    return GrammarCompiler(BYTES)


def parses(text: str) -> bool:
    try:
        json.loads(text, parse_constant=lambda name: json.loads(""))
    except ValueError:
        return False
    return True


def random_json(chance: random.Random, depth: int) -> Any:
    kind = chance.randrange(7 if depth else 5)
    if kind < 5:
        text = chance.choice(["", 'a"\\\n', "\u00e9\u4e2d"])
        return [None, True, chance.randint(-99, 99), chance.random() * 1e9, text][kind]
    if kind == 5:
        return [random_json(chance, depth - 1) for _ in range(chance.randrange(4))]
    return {str(chance.randrange(9)): random_json(chance, depth - 1) for _ in range(chance.randrange(4))}


def test_json_by_rules_is_what_json_reads(compiler: GrammarCompiler) -> None:
    grammar = compiler.grammar(JSON, "gbnf")
    chance = random.Random(7)
    wrong = []
    for _ in range(150):
        text = json.dumps(random_json(chance, 3), ensure_ascii=chance.random() < 0.5, indent=chance.choice([None, 1]))
        for _ in range(3):
            place = chance.randrange(len(text) + 1)
            change = chance.choice(['"', "{", "]", ",", "0", " ", "\\", "e", "", "\x01"])
            mutated = text[:place] + change + text[place + chance.randrange(2) :]
            wrong += [each for each in (text, mutated) if grammar.accepts(each) != parses(each)]
    assert not wrong
    for seed in range(20):
        assert parses(grammar.sample(seed))


@pytest.mark.parametrize("kind", ARITHMETIC)
def test_arithmetic(compiler: GrammarCompiler, kind: str) -> None:
    grammar = compiler.grammar(ARITHMETIC[kind], "gbnf")
    for text in ("1", "1+2*3", "(1+2)*3-(4)/5", "((((12))))", "1-1-1-1", "(1)*(2)"):
        assert grammar.accepts(text)
        assert not grammar.accepts(text + "+")
        assert not grammar.accepts("(" + text)
        assert not grammar.accepts(text + ")")
    for text in ("", "()", "+1", "1++1", "1(2)"):
        assert not grammar.accepts(text)


@pytest.mark.parametrize("kind", ARITHMETIC)
def test_recursion_at_the_ends_costs_no_stacks(compiler: GrammarCompiler, kind: str) -> None:
    """A text of thousands of terms comes back to the same few contexts, with right recursion as with left."""
    grammar = compiler.grammar(ARITHMETIC[kind], "gbnf")
    assert grammar.accepts("1+2*3-" * 10 + "1")
    before = contexts(grammar)
    assert grammar.accepts("1+2*3-" * 3000 + "1")
    assert contexts(grammar) == before


def contexts(grammar: CompiledGrammar) -> int:
    return len(grammar._automaton.contexts)  # type: ignore[union-attr]


def test_a_rule_that_calls_itself_before_a_loop_adds_no_stacks(compiler: GrammarCompiler) -> None:
    grammar = compiler.grammar('root ::= "a" root ws | ""\nws ::= [ ]*', "gbnf")
    assert grammar.accepts("a" * 2000 + "   ")
    assert not grammar.accepts("a a")
    assert contexts(grammar) < 5


def test_counted_runs_are_not_written_out(compiler: GrammarCompiler) -> None:
    begun = len(compiler._arena.tables._handlers)
    grammar = compiler.grammar('root ::= "<" [a-z]{0,50000} ">"', "gbnf")
    assert grammar.accepts(f"<{'a' * 50_000}>")
    assert not grammar.accepts(f"<{'a' * 50_001}>")
    assert len(compiler._arena.tables._handlers) - begun < 10
    many = compiler.grammar('root ::= ("ab" | "abab"){0,50000} "!"', "gbnf")
    assert many.accepts("ab" * 3000 + "!")


def test_parts_that_may_be_left_out_are_one_place(compiler: GrammarCompiler) -> None:
    count = 2_000
    chain = "".join(f'r{i} ::= r{i + 1} ("{"ab"[i % 2]}" | "cd")?\n' for i in range(count))
    grammar = compiler.grammar(f'root ::= r0 "."\n{chain}r{count} ::= "x"', "gbnf")
    for text in ("x.", "xab" * 1 + "cd" * 9 + ".", "xbabacdb" + "ab" * 300 + "."):
        assert grammar.accepts(text)
    assert not grammar.accepts("xac.")
    assert not grammar.accepts("x" + "a" * (count // 2 + 1) + ".")
    cells: Any = grammar.matcher()._automaton
    assert len(cells.cells._infos) < 4 * count  # each place but once or twice, not beside each of those after it


def test_palindromes_and_counting(compiler: GrammarCompiler) -> None:
    palindrome = compiler.grammar('root ::= "a" root "a" | "b" root "b" | [ab]?', "gbnf")
    pairs = compiler.grammar('root ::= ("a" root "b")?', "gbnf")
    dangling = compiler.grammar('root ::= "if " root (" else " root)? | "x"', "gbnf")
    for length in range(9):
        for number in range(1 << length):
            text = f"{number:0{length}b}".replace("0", "a").replace("1", "b") if length else ""
            assert palindrome.accepts(text) == (text == text[::-1])
            half = length // 2
            assert pairs.accepts(text) == (text == "a" * half + "b" * half)
    assert dangling.accepts("if if x else x") and dangling.accepts("if if x else x else x")
    assert not dangling.accepts("if x else x else x")


def test_schemas_beside_each_other_and_beside_text(compiler: GrammarCompiler) -> None:
    names = JsonSchema({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})
    numbers = JsonSchema({"type": "object", "properties": {"name": {"type": "integer"}}, "required": ["name"]})
    either = compiler.compile(Grammar({"root": Choice((names, numbers, Text('{"name": none}')))}))
    for text, right in (
        ('{"name": "x"}', True), ('{"name": 12}', True), ('{"name": none}', True), ('{"name": nono}', False),
        ('{"name": 1.5}', False), ('{"name": "x", "more": [1, {"a": null}]}', True), ("{}", False),
    ):  # fmt: skip
        assert either.accepts(text) == right
    run_on = compiler.compile(Grammar({"root": Sequence((JsonSchema({"type": "integer"}), Text("12")))}))
    for text, right in (("12", False), ("112", True), ("01200", False), ("11212", True), ("-712", True)):
        assert run_on.accepts(text) == right
    nested = compiler.compile(
        Grammar(
            {"root": Choice((Sequence((Text("("), Reference("root"), Text(")"))), JsonSchema({"const": [1, "a"]})))}
        )
    )
    assert nested.accepts('(([1, "a"]))')
    assert not nested.accepts('(([1, "a"])')
    assert nested.shortest == b'[1,"a"]'
    matcher = nested.matcher()
    for byte in b'(([1, "':
        assert matcher.accept(byte)
    assert matcher.way_out().data == b'a"]))'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("root ::= root", "line 1, column 1: the rule 'root' derives no text"),
        ('root ::= "x" b?\nb ::= b "c" | c b\nc ::= "d"', "line 2, column 1: the rule 'b' derives no text"),
        ("root ::= a\na ::= b\nb ::= a", "line 1, column 1: the rule 'root' derives no text"),
        ('root ::= "a" nobody', "line 1, column 14: the rule 'nobody' is not defined"),
    ],
)
def test_rules_that_make_no_grammar(compiler: GrammarCompiler, text: str, message: str) -> None:
    with pytest.raises(GrammarTextError, match=message.replace("(", r"\(")):
        compiler.grammar(text, "gbnf")


def test_unused_rules_are_warned_of(compiler: GrammarCompiler) -> None:
    grammar = compiler.grammar('root ::= a\na ::= "x"\nb ::= c\nc ::= b', "gbnf")
    assert grammar.rules.used == ("root", "a")
    assert grammar.rules.unused == ("b", "c")
    assert grammar.rules.warnings[0] == "line 3, column 1: the rule 'b' is never used"


def test_grammars_are_kept(compiler: GrammarCompiler) -> None:
    hits = compiler.hits
    assert compiler.grammar("root ::= [0-9]+", "gbnf") is compiler.grammar("root ::= [0-9]+", "gbnf")
    assert compiler.hits == hits + 1


CHAIN = "\n".join(f"r{i} ::= r{i + 1} | \"a{i}\"" for i in range(5000)) + '\nr5000 ::= "x"\n'
DOUBLING = "\n".join(f"r{i} ::= r{i + 1} r{i + 1}" for i in range(60)) + '\nr60 ::= "x" | ""\n'


@pytest.mark.parametrize(
    ("name", "text", "tried"),
    [
        ("a chain of 5,000 rules", "root ::= r0\n" + CHAIN, "x"),
        ("5,000 alternatives", "root ::= " + " | ".join(f'"k{i:05d}"' for i in range(5000)), "k04999"),
        ("doubling", "root ::= r0\n" + DOUBLING, "x" * 500),
        ("doubling for ever", "root ::= r0\n" + DOUBLING.replace(' | ""', ""), ""),
        ("three of itself", 'root ::= s\ns ::= s s s | s s | "a" | ""', "a" * 3000),
        ("many splits", 'root ::= a\na ::= "a" a b | "a" b a | "a"\nb ::= a | "a" b b | ""', "a" * 300),
        ("loops in loops", 'root ::= ((((("a"?)*)?)+)*)*', "a" * 3000),
        ("counts of runs", 'root ::= ([a-z]+ " "?){0,50000}', "a" * 3000),
        ("hidden left recursion", 'root ::= n root "a" | "b"\nn ::= "x"?', "x" * 1000 + "b" + "a" * 1000),
        ("20,000 brackets", 'root ::= "(" root ")" | "x"', "(" * 20_000 + "x" + ")" * 20_000),
        ("60,000 brackets of a grammar", "root ::= " + "(" * 60_000 + '"x"' + ")" * 60_000, "x"),
        ("a long word", f'root ::= "{"ab" * 100_000}"', "ab" * 100_000),
    ],
    ids=lambda given: given if isinstance(given, str) and len(given) < 40 else "",
)
def test_hostile_grammars_end_early(name: str, text: str, tried: str) -> None:
    compiler = GrammarCompiler(BYTES)
    begun = time.thread_time()
    try:
        assert compiler.grammar(text, "gbnf").accepts(tried) in (True, False)
    except GrammarError as error:
        assert isinstance(error, (BudgetError, GrammarTextError))
    assert time.thread_time() - begun < 8  # two seconds, and room for busy machines


EMPHASIS = r"""
root ::= (text "\n")*
text ::= part+
part ::= [^\n] | "*" part+ "*" | "_" part+ "_" | "**" part+ "**" | "`" [^`\n]+ "`" | "[" part+ "](" [^)\n]* ")"
"""


def test_long_texts_do_not_exhaust_a_grammar(compiler: GrammarCompiler) -> None:
    """What is remembered of a grammar is bounded by the tables alone: a count of its own failed after 1,500 bytes."""
    chance = random.Random(3)
    pieces = ["a ", "b", "*", "**", "_", "`", "[", "](", ")"]
    lines = ["".join(chance.choice(pieces) for _ in range(40)) for _ in range(50)]
    matcher = compiler.grammar(EMPHASIS, "gbnf").matcher()
    row = np.zeros(9, np.int32)
    for byte in "".join(line + "\n" for line in lines).encode():
        matcher.fill_mask(row)
        assert matcher.accept(byte)
    assert matcher.is_accepting()
