"""The nodes that grammars are lowered to: interned and numbered, so that equal parts of a grammar are one.

    (EMPTY,)                    the empty text
    (CHARS, set)                one code point; the empty set matches nothing
    (TEXT, text, at)            the rest of a text from `at` on
    (DFA, dfa, state)           the rest of a word of a regular language
    (SEQ, nodes)                one after the other
    (ALT, nodes)                any of them
    (STAR, node)                any number of times
    (REP, node, low, high)      so many times; high None: no fewer than low
    (CALL, rule)                a rule by its number
    (FINAL, rule)               the end of a rule, which stands at the end of every continuation
    (JSON, number)              a JSON text of an embedded schema
    (TOKEN, ids, negated)       a token of the vocabulary by its id
    (CAPTURE, name, node)       a captured part; only where captures are told (`captures`)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ..regular import CharSet, Dfa
from ..regular.words import words_dfa

EMPTY: Final = 0
CHARS: Final = 1
TEXT: Final = 2
DFA: Final = 3
SEQ: Final = 4
ALT: Final = 5
STAR: Final = 6
REP: Final = 7
CALL: Final = 8
FINAL: Final = 9
JSON: Final = 10
TOKEN: Final = 11
CAPTURE: Final = 12
_MANY_TEXTS: Final = 4
_NEVER_SO_OFTEN: Final = 1 << 30
"""No text is so long."""


class Pool:
    """The nodes of one grammar. The constructors apply laws that cost nothing and save states later."""

    def __init__(self) -> None:
        self.nodes: list[tuple[Any, ...]] = []
        self._known: dict[tuple[Any, ...], int] = {}
        self.takes_tokens = False
        """Whether one of the nodes is a token."""
        self.empty = self._add((EMPTY,))
        self.nothing = self._add((ALT, ()))

    def __getitem__(self, node: int) -> tuple[Any, ...]:
        return self.nodes[node]

    def __len__(self) -> int:
        return len(self.nodes)

    def _add(self, key: tuple[Any, ...]) -> int:
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self.nodes)
            self.nodes.append(key)
        return found

    def chars(self, chars: CharSet) -> int:
        """One code point of a set."""
        return self._add((CHARS, chars)) if chars else self.nothing

    def text(self, text: str, at: int = 0) -> int:
        """The text from `at` on."""
        left = len(text) - at
        if left > 1:
            return self._add((TEXT, text, at))
        return self.chars(CharSet.char(ord(text[at]))) if left else self.empty

    def dfa(self, dfa: Dfa, state: int | None) -> int:
        """The words of an automaton from a state on; None: there are none."""
        return self.nothing if state is None else self._add((DFA, dfa, state))

    def seq(self, items: Iterable[int]) -> int:
        """One after the other."""
        flat: list[int] = []
        for item in items:
            node = self.nodes[item]
            if node[0] == SEQ:
                flat += node[1]
            elif item == self.nothing:
                return item
            elif item != self.empty:
                flat.append(item)
        if not flat:
            return self.empty
        return flat[0] if len(flat) == 1 else self._add((SEQ, tuple(flat)))

    def alt(self, items: Iterable[int]) -> int:
        """Any of these; single characters become one set."""
        nodes = self.nodes
        flat: dict[int, None] = {}
        sets: list[int] = []
        texts: list[int] = []
        for item in items:
            for part in nodes[item][1] if nodes[item][0] == ALT else (item,):
                if part not in flat:
                    flat[part] = None
                    kind = nodes[part][0]
                    if kind == CHARS:
                        sets.append(part)
                    elif kind == TEXT and nodes[part][2] == 0:
                        texts.append(part)
        if len(sets) > 1:
            merged = self.chars(CharSet.of(*(pair for item in sets for pair in nodes[item][1].ranges())))
            flat = dict.fromkeys(merged if nodes[item][0] == CHARS else item for item in flat)
        if len(texts) >= _MANY_TEXTS:  # one automaton reads them all
            words = words_dfa(nodes[item][1] for item in texts)
            place = self.dfa(words, words.start)
            listed = set(texts)
            flat = dict.fromkeys(place if item in listed else item for item in flat)
        return next(iter(flat)) if len(flat) == 1 else self._add((ALT, tuple(flat)))

    def star(self, item: int) -> int:
        """Any number of times."""
        kind = self.nodes[item][0]
        if item in (self.empty, self.nothing):
            return self.empty
        if kind == STAR:
            return item
        if kind == ALT and self.empty in self.nodes[item][1]:
            return self.star(self.alt(part for part in self.nodes[item][1] if part != self.empty))
        plus = self._plus_of(item)
        return self._add((STAR, item)) if plus is None else self.star(plus)

    def rep(self, item: int, low: int, high: int | None) -> int:
        """From `low` to `high` times."""
        if high == 0 or item == self.empty:
            return self.empty
        if item == self.nothing:
            return self.nothing if low else self.empty
        kind = self.nodes[item][0]
        if kind == STAR:
            return item
        if high is None and low < 2:
            return self.seq([item] * low + [self.star(item)])
        if (low, high) == (1, 1):
            return item
        if kind == ALT and self.empty in self.nodes[item][1]:
            return self.rep(self.alt(part for part in self.nodes[item][1] if part != self.empty), 0, high)
        if (low, high) == (0, 1):
            return self.alt((item, self.empty))
        if kind == REP and self.nodes[item][2] < 2:  # as often at most as both say, and no number between is left out
            _, inner, least, most = self.nodes[item]
            times = None if most is None or high is None or most * high > _NEVER_SO_OFTEN else most * high
            return self.rep(inner, least * low, times)
        plus = self._plus_of(item)
        if plus is not None:  # runs of at least one, side by side, are one run
            return self.rep(plus, low, None)
        return self._add((REP, item, low, high))

    def call(self, rule: int) -> int:
        """A rule by its number."""
        return self._add((CALL, rule))

    def final(self, rule: int) -> int:
        """The end of a rule."""
        return self._add((FINAL, rule))

    def capture(self, name: str, item: int) -> int:
        """A captured part: the automaton does not tell it from others."""
        return item

    def json(self, number: int) -> int:
        """An embedded schema by its number."""
        return self._add((JSON, number))

    def token(self, ids: frozenset[int], negated: bool) -> int:
        """One of these tokens, or any but these."""
        if not ids and not negated:
            return self.nothing
        self.takes_tokens = True
        return self._add((TOKEN, ids, negated))

    def _plus_of(self, item: int) -> int | None:
        """x, if `item` is one or more x."""
        node = self.nodes[item]
        if node[0] == SEQ and len(node[1]) == 2 and self.nodes[node[1][1]] == (STAR, node[1][0]):
            return int(node[1][0])
        return None
