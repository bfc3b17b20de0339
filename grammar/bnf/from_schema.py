"""A JSON Schema as a grammar of rules, for engines that read nothing else.

Each goal of the algebra becomes a rule, each state of an object or array clause another, regular languages stay
terminals. JSON is written with at most one space after `:` and `,`; keys come in schema order. What no context-free
grammar says is left out and told: that undeclared keys differ from each other, that items are unique.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Final

from ..algebra import (
    Algebra,
    Alphabet,
    ArrayClause,
    ArrayProgress,
    ArrayView,
    Goal,
    ObjectView,
    Progress,
    alphabet,
    bits,
)
from ..errors import BudgetError
from ..regular import Dfa, Language, NumberSpec, complement, intersect, numbers, words
from ..regular.charset import CharSet
from ..schema import read
from .ir import Chars, Choice, Grammar, Node, Reference, Regex, Repeat, Sequence, Text

MAX_RULES: Final = 20_000
_CONTROL: Final = CharSet.of((0, 31))
_SHORT: Final = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
_ESCAPED: Final = CharSet.chars('"\\') | _CONTROL
_COLON: Final = Sequence((Text(":"), Repeat(Text(" "), 0, 1)))
_COMMA: Final = Sequence((Text(","), Repeat(Text(" "), 0, 1)))
_DIGITS: Final = Repeat(Chars(CharSet.of((48, 57))), 1)
_NATURAL: Final = Choice((Text("0"), Sequence((Chars(CharSet.of((49, 57))), Repeat(Chars(CharSet.of((48, 57))))))))
_INTEGER: Final = Sequence((Repeat(Text("-"), 0, 1), _NATURAL))
_POWER: Final = Sequence((Chars(CharSet.chars("eE")), Repeat(Chars(CharSet.chars("+-")), 0, 1), _DIGITS))
_NUMBER: Final = Sequence((_INTEGER, Repeat(Sequence((Text("."), _DIGITS)), 0, 1), Repeat(_POWER, 0, 1)))
# Their own automata count digits, state by state, up to the longest number; nobody wants to read that.
_PLAIN: Final[Mapping[NumberSpec, Node]] = {
    NumberSpec(): _NUMBER,
    NumberSpec(steps=(Fraction(1),)): _INTEGER,
    NumberSpec(low=Fraction(0), steps=(Fraction(1),)): _NATURAL,
}


@dataclass(frozen=True)
class Converted:
    """A grammar, and what the schema asks that it does not."""

    grammar: Grammar
    lost: tuple[str, ...] = field(default=())


def from_schema(schema: Any, *, formats: bool = True, dialect: str | None = None, max_digits: int = 40) -> Converted:
    """The grammar of a schema's JSON texts.

    Raises what GrammarCompiler.json_schema raises, and BudgetError beyond 20,000 rules.
    """
    algebra = Algebra(read(schema, dialect=dialect, formats=formats))
    algebra.require_satisfiable()
    conversion = _Conversion(algebra, max_digits)
    conversion.run()
    return Converted(Grammar(conversion.rules, "root", "json_schema"), tuple(sorted(conversion.lost)))


class _Conversion:
    def __init__(self, algebra: Algebra, max_digits: int) -> None:
        self._algebra = algebra
        self._max_digits = max_digits
        self.rules: dict[str, Node] = {}
        self.lost: set[str] = set()
        self._names: dict[object, str] = {}
        self._waiting: list[tuple[str, Callable[[], Node]]] = []

    def run(self) -> None:
        """Makes rules until none is wanted any more."""
        self.rules["root"] = Text("")  # first in the text
        self.rules["root"] = self._value(self._algebra.root)
        while self._waiting:
            name, make = self._waiting.pop()
            self.rules[name] = make()
            if len(self.rules) > MAX_RULES:
                raise BudgetError(f"the schema needs more than {MAX_RULES} rules")

    def _rule(self, key: object, kind: str, make: Callable[[], Node]) -> Reference:
        """The rule of a key, made when first asked for."""
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = f"{kind}-{len(self._names)}"
            self._waiting.append((name, make))
        return Reference(name)

    def _goal(self, goal: Goal) -> Reference:
        return self._rule(goal, "value", lambda: self._value(goal))

    def _value(self, goal: Goal) -> Node:
        algebra = self._algebra
        ways: list[Node] = [self._string(language) for language in algebra.strings(goal)]
        ways += [self._number(spec) for spec in algebra.numbers(goal)]
        ways += [Text(literal) for literal in sorted(algebra.literals(goal))]
        clauses = algebra.objects(goal)
        if clauses:
            symbols = alphabet(clauses)
            for clause in clauses:
                view = ObjectView(clause, symbols, algebra, True)
                if view.satisfiable():
                    ways.append(Sequence((Text("{"), self._object(view, symbols, view.start, first=True))))
        for array in algebra.arrays(goal):
            items = ArrayView(array, algebra)
            if items.satisfiable():
                self._tell_unique(array)
                ways.append(Sequence((Text("["), self._array(items, items.start, first=True))))
        return ways[0] if len(ways) == 1 else Choice(tuple(ways))

    def _number(self, spec: NumberSpec) -> Node:
        plain = _PLAIN.get(spec)
        if plain is not None:
            return self._rule(spec, "number", lambda: plain)
        return Regex(Language(numbers(spec, spelling="natural", max_digits=self._max_digits)))

    def _tell_unique(self, clause: ArrayClause) -> None:
        if clause.unique:
            self.lost.add("items are not kept unique (uniqueItems)")
        if clause.repeats:
            self.lost.add("that two items are equal is not asked for (not uniqueItems)")

    # Objects and arrays: a rule for each state, which is what may follow a property or an item

    def _object(self, view: ObjectView, symbols: Alphabet, progress: Progress, *, first: bool) -> Reference:
        key = (view, progress, first)
        return self._rule(key, "object", lambda: self._properties(view, symbols, progress, first))

    def _properties(self, view: ObjectView, symbols: Alphabet, progress: Progress, first: bool) -> Node:
        ways: list[Node] = [Text("}")] if view.closable(progress) else []
        for symbol in bits(view.allowed(progress)):
            name = self._key(symbols, symbol)
            for goal, after in view.options(progress, symbol):
                rest = self._object(view, symbols, after, first=False)
                parts = (name, _COLON, self._goal(goal), rest)
                ways.append(Sequence(parts if first else (_COMMA, *parts)))
        return Choice(tuple(ways))

    def _key(self, symbols: Alphabet, symbol: int) -> Node:
        if symbol < len(symbols.names):
            return Text(json.dumps(symbols.names[symbol], ensure_ascii=False))
        self.lost.add("undeclared keys are not kept from repeating")
        return self._rule((symbols, symbol), "key", lambda: self._class(symbols, symbol))

    def _class(self, symbols: Alphabet, symbol: int) -> Node:
        """The keys of a class: none of the names, and matching just the patterns of its signature."""
        signature = symbols.signatures[symbol - len(symbols.names)]
        found = list(complement(words(symbols.names)))
        for i, test in enumerate(symbols.tests):
            sides = (test,) if signature >> i & 1 else complement(test)
            found = [met for part in found for side in sides if not (met := intersect(part, side)).is_empty]
        ways = tuple(self._string(language) for language in found)
        return ways[0] if len(ways) == 1 else Choice(ways)

    def _array(self, view: ArrayView, progress: ArrayProgress, *, first: bool) -> Reference:
        key = (view, progress, first)
        return self._rule(key, "array", lambda: self._items(view, progress, first))

    def _items(self, view: ArrayView, progress: ArrayProgress, first: bool) -> Node:
        ways: list[Node] = [Text("]")] if view.closable(progress) else []
        for goal, after in view.options(progress, ()):
            parts = (self._goal(goal), self._array(view, after, first=False))
            ways.append(Sequence(parts if first else (_COMMA, *parts)))
        return Choice(tuple(ways))

    # Strings: the automaton over code points becomes one over what JSON writes

    def _string(self, language: Language) -> Node:
        listed = language.words(100)
        if listed is not None:
            texts = tuple(Text(json.dumps(word, ensure_ascii=False)) for word in listed)
            return texts[0] if len(texts) == 1 else Choice(texts)
        return Sequence((Text('"'), self._text(language)))

    def _text(self, language: Language) -> Node:
        """The rest of a string with its closing quote."""
        language = language.normal()
        dfa = language.dfa
        start = dfa.start
        assert start is not None  # it has words
        if _is_loop(dfa, start):
            ((chars, _),) = dfa.step(start)
            return Sequence((Repeat(self._spelled(chars), language.low, language.high), Text('"')))
        whole = language.unbounded().dfa
        first = whole.start
        assert first is not None
        return self._state(whole, first)

    def _state(self, dfa: Dfa, state: int) -> Reference:
        return self._rule((dfa, state), "text", lambda: self._moves(dfa, state))

    def _moves(self, dfa: Dfa, state: int) -> Node:
        ways: list[Node] = [Text('"')] if dfa.accepting(state) else []
        ways += [Sequence((self._spelled(chars), self._state(dfa, target))) for chars, target in dfa.step(state)]
        return Choice(tuple(ways))

    def _spelled(self, chars: CharSet) -> Node:
        """One character of a set as a JSON writer spells it."""
        escaped = chars & _ESCAPED
        if not escaped:
            return Chars(chars)
        ways: list[Node] = [Chars(chars - _ESCAPED)] if chars - _ESCAPED else []
        ways += [Text(_SHORT.get(code, f"\\u{code:04x}")) for code in escaped]
        if len(ways) == 1:
            return ways[0]
        return self._rule(chars, "char", lambda: Choice(tuple(ways)))


def _is_loop(dfa: Dfa, state: int) -> bool:
    """Whether the automaton is one state that loops."""
    moves = dfa.step(state)
    return len(moves) == 1 and moves[0][1] == state and dfa.accepting(state)
