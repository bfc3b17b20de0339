"""From the one form of grammars to numbered nodes: names resolved, free text and bounds made plain, `&`, `~` and
shortest matches made languages, direct recursion made loops where that is the same language.
"""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence as SequenceOf
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, TypeVar

from ..errors import BudgetError, GrammarTextError
from .components import components, recursive
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
    Reference,
    Regex,
    Repeat,
    Sequence,
    Shortest,
    Text,
    Token,
)
from .nodes import ALT, CALL, CHARS, REP, SEQ, STAR, Pool
from .terminals import Terminals
from .triggers import free_text
from .walk import references

T = TypeVar("T")
MAX_DEPTH: Final = 300
MAX_NODES: Final = 500_000
START: Final = 0
"""The rule that stands for a whole text; no rule refers to it."""


@dataclass
class Lowered:
    """A grammar of numbered rules; rule START is the whole text.

    bodies    the node of each rule, `names` its name
    calls     by rule: the rules that it refers to
    groups    the rules that call each other, callees before callers
    schemas   the embedded schemas, by number
    captures  the names of captured parts
    apart     by rule: the characters that stand where it is called, and no more in its body
    """

    pool: Pool = field(default_factory=Pool)
    bodies: list[int] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    calls: list[list[int]] = field(default_factory=list)
    groups: list[list[int]] = field(default_factory=list)
    schemas: list[JsonSchema] = field(default_factory=list)
    captures: dict[str, None] = field(default_factory=dict)
    apart: dict[int, int] = field(default_factory=dict)


class TokenNames(NamedTuple):
    """What a grammar needs to know of a vocabulary: ids of special tokens by name, and those that end a text."""

    special: Mapping[str, int]
    eos: frozenset[int]


def lowered(grammar: Grammar, vocabulary: TokenNames, terminals: Terminals, pool: Pool | None = None) -> Lowered:
    """The grammar as nodes of a pool, or of a fresh one, in which direct recursion becomes loops. `terminals`: of it.

    Raises GrammarTextError for a rule that is not defined and for a token that the vocabulary does not have,
    BudgetError where the grammar nests too deep or is absurdly large.
    """
    if grammar.start not in grammar.rules:
        raise GrammarTextError(
            f"the rule to start with, {grammar.start!r}, is not defined", remedy="define it, or name another with start"
        )
    result = Lowered() if pool is None else Lowered(pool)
    result.names = ["", *grammar.rules]
    lowering = _Lowering(result, grammar, vocabulary, terminals)
    start = lowering.numbers[grammar.start]
    result.bodies = [result.pool.call(start)]
    result.calls = [[start]]
    for number, rule in enumerate(grammar.rules.values(), 1):
        lowering.called = {}
        body = lowering.node(rule, 0)
        if pool is None and number in lowering.called:
            body = without_direct_recursion(result.pool, number, body)
            if not _holds(result.pool, body, number):
                del lowering.called[number]
        result.bodies.append(body)
        result.calls.append(list(lowering.called))
    result.groups = components(result.calls)
    if pool is None:
        with_characters_apart(result)
    return result


class _Lowering:
    def __init__(self, result: Lowered, grammar: Grammar, vocabulary: TokenNames, terminals: Terminals) -> None:
        self.numbers = {name: number for number, name in enumerate(grammar.rules, 1)}
        self.called: dict[int, None] = {}
        self._result = result
        self._pool = result.pool
        self._vocabulary = vocabulary
        self._terminals = terminals
        self._count = 0

    def node(self, node: Node, depth: int) -> int:
        if depth > MAX_DEPTH:
            raise BudgetError(f"the grammar nests deeper than {MAX_DEPTH} levels", remedy="give inner parts rules")
        depth += 1
        pool = self._pool
        if isinstance(node, Text):
            return pool.text(node.text)
        if isinstance(node, Reference):
            return pool.call(self._rule(node))
        if isinstance(node, Sequence):
            return pool.seq([self.node(item, depth) for item in self._counted(node.items)])
        if isinstance(node, Repeat):
            return pool.rep(self.node(node.item, depth), node.low, node.high)
        if isinstance(node, Choice):
            return pool.alt([self.node(item, depth) for item in self._counted(node.alternatives)])
        if isinstance(node, Chars):
            return pool.chars(node.set)
        if isinstance(node, Regex):
            return self._regex(node.language)
        if isinstance(node, Capture):
            self._result.captures[node.name] = None
            return pool.capture(node.name, self.node(node.item, depth))
        if isinstance(node, JsonSchema):
            self._result.schemas.append(node)
            return pool.json(len(self._result.schemas) - 1)
        if isinstance(node, Token):
            ids = node.ids | self._named(node)
            return pool.token(ids | self._vocabulary.eos if node.negated else ids, node.negated)
        if isinstance(node, Free):
            return free_text(pool, node, [self.node(tag.content, depth) for tag in self._counted(node.tags)])
        assert isinstance(node, Both | Not | Shortest)
        regular = self._terminals.without_operators(node)
        for part in references(node):  # rules of which a language was made are used as well
            self._rule(part)
        return self.node(regular, depth)

    def _counted(self, parts: SequenceOf[T]) -> SequenceOf[T]:
        self._count += len(parts)
        if self._count > MAX_NODES:
            raise BudgetError(f"the grammar has more than {MAX_NODES} parts")
        return parts

    def _rule(self, reference: Reference) -> int:
        number = self.numbers.get(reference.name)
        if number is None:
            place = reference.place
            raise GrammarTextError(
                f"the rule {reference.name!r} is not defined", line=place.line, column=place.column
            )
        self.called[number] = None
        return number

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
    again = recursive(grammar.calls, grammar.groups)
    for rule in sorted(again):
        body = pool[bodies[rule]]
        if body[0] == ALT:
            characters = [item for item in body[1] if pool[item][0] == CHARS]
            if characters and len(characters) < len(body[1]):
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


def _holds(pool: Pool, body: int, rule: int) -> bool:
    """Whether a body calls a rule itself."""
    seen = {body}
    waiting = [body]
    while waiting:
        kind, *rest = pool[waiting.pop()]
        if kind == CALL and rest[0] == rule:
            return True
        for child in rest[0] if kind in (SEQ, ALT) else (rest[0],) if kind in (STAR, REP) else ():
            if child not in seen:
                seen.add(child)
                waiting.append(child)
    return False
