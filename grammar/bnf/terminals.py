"""Regular parts of a grammar as languages: what `&`, `~` and shortest matches are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..errors import BudgetError, GrammarTextError
from ..regular import ANY, EMPTY, Language, complement, intersect, union, words
from ..regular.composed import Composer, Part, shortest_matches
from ..regular.dfa import star
from .ir import (
    Both,
    Capture,
    Chars,
    Choice,
    Free,
    Grammar,
    JsonSchema,
    Node,
    Not,
    Place,
    Reference,
    Regex,
    Repeat,
    Sequence,
    Shortest,
    Text,
    Token,
)
from .walk import mapped

_MAX_DEPTH = 200


def lower(grammar: Grammar) -> Grammar:
    """The grammar with Both, Not and Shortest replaced by the languages they are.

    Raises GrammarTextError where an operand of one is not regular: it holds recursion, a schema, a token or free text.
    """
    terminals = Terminals(grammar.rules)
    return replace(grammar, rules={name: terminals.without_operators(rule) for name, rule in grammar.rules.items()})


class Terminals:
    """The languages of parts that are regular. `rules`: what they may refer to."""

    def __init__(self, rules: Mapping[str, Node]) -> None:
        self._rules = rules
        self._languages: dict[str, Language] = {}
        self._known: dict[int, tuple[Node, Regex]] = {}
        self._open: list[str] = []

    def without_operators(self, node: Node) -> Node:
        """`node` with Both, Not and Shortest replaced by what they mean. Raises as `lower`."""
        if isinstance(node, Shortest) and isinstance(node.item, Capture):
            captured = node.item
            return Capture(captured.name, self.without_operators(Shortest(captured.item, node.place)))
        if isinstance(node, Both | Not | Shortest):
            if id(node) not in self._known:
                self._known[id(node)] = node, Regex(self._language(node, node.place, 0))
            return self._known[id(node)][1]
        return mapped(node, self.without_operators)

    def _language(self, node: Node, place: Place, depth: int) -> Language:
        if depth > _MAX_DEPTH:
            raise BudgetError(f"line {place.line}: a terminal nests deeper than {_MAX_DEPTH} levels")
        depth += 1
        match node:
            case Text(text):
                return words([text])
            case Chars(chars):
                return Language(star(chars), 1, 1)
            case Regex(language):
                return language
            case Repeat(Chars(chars), low, high):
                return Language(star(chars), low, high)
            case Capture(name):
                raise GrammarTextError(
                    f"the capture {name!r} cannot be part of '&', '~' or a shortest match: capture the whole of it",
                    line=place.line,
                    column=place.column,
                )
            case Both(items):
                whole = ANY
                for item in items:
                    whole = intersect(whole, self._language(item, node.place, depth))
                return whole
            case Not(item):
                return _any_of(complement(self._language(item, node.place, depth)))
            case Shortest(item):
                return shortest_matches(self._language(item, node.place, depth))
            case Choice(alternatives):
                return _any_of(self._language(item, place, depth) for item in alternatives)
            case Reference(name):
                return self._rule(name, node.place, depth)
            case Sequence() | Repeat():
                composer = Composer(f"the terminal in line {place.line}" if place.line else "a terminal")
                return composer.language(self._part(composer, node, place, depth))
            case JsonSchema() | Token() | Free():
                what = {JsonSchema: "a JSON Schema", Token: "a token", Free: "free text"}[type(node)]
                raise GrammarTextError(
                    f"{what} cannot be part of '&', '~' or a shortest match: only regular texts can",
                    line=place.line,
                    column=place.column,
                )

    def _part(self, composer: Composer, node: Node, place: Place, depth: int) -> Part:
        match node:
            case Sequence(items):
                return composer.sequence(self._part(composer, item, place, depth) for item in items)
            case Choice(alternatives) if not all(isinstance(item, Text) for item in alternatives):
                return composer.choice(self._part(composer, item, place, depth) for item in alternatives)
            case Repeat(item, low, high) if not isinstance(item, Chars):
                parts = [self._part(composer, item, place, depth) for _ in range(low)]
                if high is None:
                    parts.append(composer.star(self._part(composer, item, place, depth)))
                else:
                    rest = (self._part(composer, item, place, depth) for _ in range(high - low))
                    parts.extend(composer.optional(part) for part in rest)
                return composer.sequence(parts)
            case _:
                return composer.leaf(self._language(node, place, depth))

    def _rule(self, name: str, place: Place, depth: int) -> Language:
        found = self._languages.get(name)
        if found is None:
            if name not in self._rules:
                raise GrammarTextError(f"the rule {name!r} is not defined", line=place.line, column=place.column)
            if name in self._open:
                raise GrammarTextError(
                    f"the rule {name!r} refers to itself, so it is not regular and cannot be part of '&', '~' or a "
                    "shortest match",
                    line=place.line,
                    column=place.column,
                )
            self._open.append(name)
            found = self._languages[name] = self._language(self._rules[name], place, depth)
            self._open.pop()
        return found


def _any_of(languages: Iterable[Language]) -> Language:
    whole: Language | None = None
    for language in languages:
        whole = language if whole is None else union(whole, language)
    return EMPTY if whole is None else whole
