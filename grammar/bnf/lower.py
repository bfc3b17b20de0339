"""From the one form of grammars to numbered nodes: names resolved, free text and bounds made plain, direct recursion
made loops where that is the same language.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from ..errors import BudgetError, GrammarTextError
from .ir import Capture, Chars, Choice, Free, Grammar, JsonSchema, Node, Reference, Regex, Repeat, Sequence, Text, Token
from .nodes import ALT, CALL, CHARS, REP, SEQ, STAR, Pool
from .triggers import free_text

MAX_DEPTH: Final = 300
START: Final = 0
"""The rule that stands for a whole text; no rule refers to it."""


@dataclass
class Lowered:
    """A grammar of numbered rules; rule START is the whole text.

    bodies   the node of each rule, `names` its name
    schemas  the embedded schemas, by number
    apart    by rule: the characters that stand where it is called, and no more in its body
    """

    pool: Pool = field(default_factory=Pool)
    bodies: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    schemas: list[JsonSchema] = field(default_factory=list)
    apart: dict[int, int] = field(default_factory=dict)


class TokenNames(NamedTuple):
    """What a grammar needs to know of a vocabulary: ids of special tokens by name, and those that end a text."""

    special: Mapping[str, int]
    eos: frozenset[int]


def lowered(grammar: Grammar, vocabulary: TokenNames, pool: Pool | None = None) -> Lowered:
    """The grammar as nodes of a pool, or of a fresh one, in which direct recursion becomes loops.

    References must be defined (`checks.check_references`). Raises GrammarTextError for a token that the vocabulary does
    not have, BudgetError where the grammar nests too deep.
    """
    result = Lowered() if pool is None else Lowered(pool)
    lowering = _Lowering(result, {name: i + 1 for i, name in enumerate(grammar.rules)}, vocabulary)
    result.names = ["", *grammar.rules]
    result.bodies = [result.pool.call(lowering.numbers[grammar.start])]
    for number, body in enumerate(grammar.rules.values(), 1):
        node = lowering.node(body, 0)
        result.bodies.append(without_direct_recursion(result.pool, number, node) if pool is None else node)
    if pool is None:
        with_characters_apart(result)
    return result


class _Lowering:
    def __init__(self, result: Lowered, numbers: Mapping[str, int], vocabulary: TokenNames) -> None:
        self.numbers = numbers
        self._result = result
        self._pool = result.pool
        self._vocabulary = vocabulary

    def node(self, node: Node, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise BudgetError(f"the grammar nests deeper than {MAX_DEPTH} levels", remedy="give inner parts rules")
        depth += 1
        pool = self._pool
        match node:
            case Text(text):
                return pool.text(text)
            case Chars(chars):
                return pool.chars(chars)
            case Regex(language):
                return self._regex(language)
            case Sequence(items):
                return pool.seq([self.node(item, depth) for item in items])
            case Choice(alternatives):
                return pool.alt([self.node(item, depth) for item in alternatives])
            case Repeat(item, low, high):
                return pool.rep(self.node(item, depth), low, high)
            case Reference(name):
                return pool.call(self.numbers[name])
            case Capture(name, item):
                return pool.capture(name, self.node(item, depth))
            case JsonSchema():
                self._result.schemas.append(node)
                return pool.json(len(self._result.schemas) - 1)
            case Token():
                ids = node.ids | self._named(node)
                return pool.token(ids | self._vocabulary.eos if node.negated else ids, node.negated)
            case Free():
                contents = [self.node(tag.content, depth) for tag in node.tags]
                return free_text(pool, node, contents)
            case _:
                raise TypeError(f"{type(node).__name__} is not lowered yet: call terminals.lower first")

    def _named(self, node: Token) -> frozenset[int]:
        known = self._vocabulary.special
        for name in sorted(node.names - known.keys()):
            raise GrammarTextError(
                f"the vocabulary has no special token {name}", line=node.place.line, column=node.place.column
            )
        return frozenset(known[name] for name in node.names)

    def _regex(self, language: Any) -> int:
        pool = self._pool
        normal = language.normal()
        chars = getattr(normal.dfa, "chars", None)
        if chars is not None:  # any text over a set: its bounds are counted
            return pool.rep(pool.chars(chars), normal.low, normal.high)
        dfa = language.unbounded().dfa
        return pool.dfa(dfa, dfa.start)


def without_direct_recursion(pool: Pool, rule: int, body: int) -> int:
    """The body of a rule without the rule at the ends of its alternatives.

    With D the beginnings of `D X`, B all other alternatives, M the middles of `X M X` and E the ends of `X E`,

        X = D X | B | X M X | X E    is    D* B (M D* B | E)*

    since a text of X is a `D* B` to which others were attached. Ambiguity of this kind costs nothing afterwards.
    """
    own = pool.call(rule)
    begins: list[int] = []
    middles: list[int] = []
    ends: list[int] = []
    others: list[int] = []
    for alternative in pool[body][1] if pool[body][0] == ALT else (body,):
        items = pool[alternative][1] if pool[alternative][0] == SEQ else (alternative,)
        if items == (own,):
            continue
        if items[0] == own:
            if items[-1] == own:
                middles.append(pool.seq(items[1:-1]))
            else:
                ends.append(pool.seq(items[1:]))
        elif items[-1] == own:
            begins.append(pool.seq(items[:-1]))
        else:
            others.append(alternative)
    if len(others) == len(pool[body][1] if pool[body][0] == ALT else (body,)):
        return body
    single = pool.seq((pool.star(pool.alt(begins)) if begins else pool.empty, pool.alt(others)))
    more = ends + [pool.seq((middle, single)) for middle in middles]
    return pool.seq((single, pool.star(pool.alt(more)))) if more else single


def with_characters_apart(grammar: Lowered) -> None:
    """Takes single characters out of rules that come again within themselves, to where these are called.

    `text ::= part+` with `part ::= [a-z*] | "*" part+ "*"` becomes `text ::= ([a-z*] | part)+` with `part ::= "*" ...`:
    runs of such characters are loops of rows then, and a rule begins only where it may.
    """
    pool, bodies = grammar.pool, grammar.bodies
    apart = grammar.apart
    for rule, body in enumerate(bodies):
        if rule != START and pool[body][0] == ALT:
            characters = [item for item in pool[body][1] if pool[item][0] == CHARS]
            if characters and len(characters) < len(pool[body][1]) and _comes_again(grammar, rule):
                apart[rule] = characters[0]
    if not apart:
        return
    for rule in apart:
        bodies[rule] = pool.alt(item for item in pool[bodies[rule]][1] if pool[item][0] != CHARS)
    known: dict[int, int] = {}

    def spread(node: int) -> int:
        found = known.get(node)
        if found is None:
            kind, *rest = pool[node]
            found = node
            if kind == CALL and rest[0] in apart:
                found = pool.alt((apart[rest[0]], node))
            elif kind == SEQ:
                found = pool.seq([spread(item) for item in rest[0]])
            elif kind == ALT:
                found = pool.alt([spread(item) for item in rest[0]])
            elif kind == STAR:
                found = pool.star(spread(rest[0]))
            elif kind == REP:
                found = pool.rep(spread(rest[0]), rest[1], rest[2])
            known[node] = found
        return found

    bodies[:] = [spread(body) for body in bodies]


def _comes_again(grammar: Lowered, rule: int) -> bool:
    seen: set[int] = set()
    waiting = [grammar.bodies[rule]]
    while waiting:
        kind, *rest = grammar.pool[waiting.pop()]
        if kind == CALL and rest[0] == rule:
            return True
        children = rest[0] if kind in (SEQ, ALT) else (rest[0],) if kind in (STAR, REP) else ()
        children = (grammar.bodies[rest[0]],) if kind == CALL else children
        for child in children:
            if child not in seen:
                seen.add(child)
                waiting.append(child)
    return False
