"""Local states: places in a rule's body, with what comes after them up to the rule's end.

A state is a pair (node, what comes next), next being a state again; at the end of the chain stands a FINAL node. Pairs
are interned, so a loop leads back to the state it came from, a rule that is put where it is called costs nothing until
a text goes there, and a rule called at the very end of another takes that one's place: right recursion is a loop.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from ..errors import BudgetError
from ..regular import CharSet
from .analysis import NEVER, Analysis
from .lower import Lowered
from .nodes import ALT, CALL, CHARS, DFA, FINAL, JSON, REP, SEQ, STAR, TEXT, TOKEN

MAX_CELLS: Final = 1_000_000
_PEELED: Final = 16
SEVERAL: Final = 8
"""States at one place of a text from which on it is looked for those that others make needless."""
_NONE: Final = frozenset[int]()
COUNTED_FROM: Final = 8
"""Repetitions of one character up to so many times, or more, are counted beside the state (see `rows`)."""


@dataclass(slots=True)
class Info:
    """Where a state can go without reading anything first.

    edges    a character of the set leads to the state
    calls    the rule begins here; after it comes the state
    schemas  the same with an embedded JSON Schema
    tokens   the same with (ids, negated)
    final    the rule that may end here, or -1
    """

    edges: list[tuple[CharSet, int]] = field(default_factory=list)
    calls: list[tuple[int, int]] = field(default_factory=list)
    schemas: list[tuple[int, int]] = field(default_factory=list)
    tokens: list[tuple[tuple[frozenset[int], bool], int]] = field(default_factory=list)
    final: int = -1


class Cells:
    """The states of one grammar, made as they are first reached."""

    def __init__(self, grammar: Lowered, analysis: Analysis) -> None:
        self._grammar = grammar
        self.pool = grammar.pool
        self.analysis = analysis
        self._cells: list[tuple[int, int]] = []
        self._known: dict[tuple[int, int], int] = {}
        self._infos: dict[int, Info] = {}
        self._beyond: dict[int, frozenset[int]] = {}
        self._starts: dict[int, int] = {}
        self._inner: dict[int, int] = {}
        self._rules: dict[int, int] = {}
        self.rule_count = len(grammar.bodies)
        """Numbers of rules from here on are those of `called`: that many less, a rule that ends for who called it."""
        self._shapes: dict[int, tuple[tuple[int, ...], int]] = {}
        self._counted: dict[int, tuple[CharSet, int, int] | None] = {}

    def cell(self, node: int, after: int) -> int:
        """The state at `node` with the state `after` next."""
        key = (node, after)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = len(self._cells)
            if found >= MAX_CELLS:
                raise BudgetError(f"the grammar has more than {MAX_CELLS} states on this text")
            self._cells.append(key)
        return found

    def start(self, rule: int) -> int:
        """The state where a rule begins."""
        found = self._starts.get(rule)
        if found is None:
            end = self.cell(self.pool.final(rule), -1)
            found = self._starts[rule] = self.cell(self._grammar.bodies[rule], end)
        return found

    def called(self, rule: int) -> tuple[int, int]:
        """A state that calls a rule, and the one after it, in which nothing is known but that the rule has ended."""
        after = self.cell(self.pool.final(self.rule_count + rule), -1)
        state = self.cell(self.pool.call(rule), after)
        self._infos.setdefault(state, Info(calls=[(rule, after)]))
        return state, after

    def body(self, rule: int) -> int:
        """The node of a rule's body."""
        return self._grammar.bodies[rule]

    def counted(self, state: int) -> tuple[CharSet, int, int] | None:
        """(set, how often at most, state after) if the state is a long counted run of one character."""
        if state not in self._counted:
            self._counted[state] = self._find_counted(state)
        return self._counted[state]

    def _find_counted(self, state: int) -> tuple[CharSet, int, int] | None:
        node, after = self._cells[self._peeled(state)]
        kind, *rest = self.pool[node]
        if kind != REP or rest[1] != 0 or rest[2] is None or rest[2] < COUNTED_FROM:
            return None
        inner = self.pool[rest[0]]
        return (inner[1], rest[2], after) if inner[0] == CHARS else None

    def _peeled(self, state: int) -> int:
        """The same state without what stands around its first part: sequences, rules that are put where they are."""
        found = self._inner.get(state)
        if found is None:
            found = state
            for _ in range(_PEELED):
                node, after = self._cells[found]
                kind, *rest = self.pool[node]
                if kind == SEQ:
                    for item in reversed(rest[0]):
                        after = self.cell(item, after)
                    found = after
                elif kind == CALL and self._stands_for(rest[0], after):
                    found = self.cell(self.body(rest[0]), after)
                else:
                    break
            self._inner[state] = found
        return found

    def letter(self, state: int) -> tuple[int, int] | None:
        """(byte, state after it) of a state within a word, where one ASCII character may come and nothing else."""
        node, after = self._cells[state]
        kind, *rest = self.pool[node]
        if kind == TEXT:
            text, at = rest
            byte = ord(text[at])
            return (byte, self.cell(self.pool.text(text, at + 1), after)) if byte < 0x80 else None
        if kind == DFA:
            dfa, number = rest
            moves = dfa.step(number)
            if len(moves) != 1 or dfa.accepting(number):
                return None
            (chars, target), = moves
            bits = chars.ascii
            if chars.wide or bits & bits - 1:
                return None
            return bits.bit_length() - 1, self.cell(self.pool.dfa(dfa, target), after)
        return None

    def loop(self, state: int) -> tuple[int, bool]:
        """(what a state repeats any number of times before what is after it, whether that is the rule's end).

        (-1, False) if it is no such loop.
        """
        node, after = self._cells[self._peeled(state)]
        kind, *rest = self.pool[node]
        return (int(rest[0]), self.pool[self._cells[after][0]][0] == FINAL) if kind == STAR else (-1, False)

    def shape(self, state: int) -> tuple[tuple[int, ...], int]:
        """What tells states apart but for how often the first counted repetition may go on, and that number.

        Of states alike in this, one with the higher number reads all that the others read. 0: nothing is counted.
        """
        found = self._shapes.get(state)
        if found is None:
            nodes: list[int] = []
            often = 0
            at = state
            while at >= 0:
                node, at = self._cells[at]
                kind, *rest = self.pool[node]
                if kind == REP and rest[1] == 0 and rest[2] is not None:
                    nodes += (-1, rest[0], at)
                    often = rest[2]
                    break
                nodes.append(node)
            found = self._shapes[state] = (tuple(nodes), often)
        return found

    def ended(self, state: int) -> int:
        """The rule that ends in a state in which nothing else can happen; -1 for other states."""
        info = self.info(state)
        return -1 if info.edges or info.calls or info.tokens or info.schemas else info.final

    def rule(self, state: int) -> int:
        """The rule at whose end a state's way through it ends."""
        found = self._rules.get(state)
        if found is None:
            found = self._rules[state] = int(self.pool[self.parts(state)[-1]][1])
        return found

    def parts(self, state: int) -> list[int]:
        """The nodes from a state to the end of its rule, the FINAL one last."""
        found = []
        while state >= 0:
            node, state = self._cells[state]
            found.append(node)
        return found

    def info(self, state: int) -> Info:
        """What can come next in a state."""
        found = self._infos.get(state)
        if found is None:
            found = self._infos[state] = self._explore(state)
        return found

    def beyond(self, state: int) -> frozenset[int]:
        """The states that a text comes to from a state without reading anything, itself among them: whatever can come
        next in one of them can come next in the state. None where they are few.
        """
        self.info(state)
        return self._beyond.get(state, _NONE)

    def _explore(self, state: int) -> Info:
        pool, cells, analysis = self.pool, self._cells, self.analysis
        info = Info()
        edges: dict[tuple[CharSet, int], None] = {}
        calls: dict[tuple[int, int], None] = {}
        seen = {state}
        longest: dict[tuple[int, int], int] = {}
        waiting = [state]
        while waiting:
            here = waiting.pop()
            node, after = cells[here]
            kind, *rest = pool[node]
            following: list[int] = []
            if kind == CHARS:
                edges[rest[0], after] = None
            elif kind == TEXT:
                text, at = rest
                edges[CharSet.char(ord(text[at])), self.cell(pool.text(text, at + 1), after)] = None
            elif kind == SEQ:
                if analysis.cost.get(node) != NEVER:
                    target = after
                    for item in reversed(rest[0]):
                        target = self.cell(item, target)
                    following.append(target)
            elif kind == ALT:
                following += [self.cell(item, after) for item in rest[0]]
            elif kind == STAR:
                following += [after, self.cell(rest[0], here)]
            elif kind == REP:
                following += self._repeated(here, longest)
            elif kind == DFA:
                dfa, number = rest
                for chars, target in dfa.step(number):
                    edges[chars, self.cell(pool.dfa(dfa, target), after)] = None
                if dfa.accepting(number):
                    following.append(after)
            elif kind == CALL:
                following += self._called(rest[0], after, calls)
            elif kind == FINAL:
                info.final = rest[0]
            elif kind == JSON:
                info.schemas.append((rest[0], after))
            elif kind == TOKEN:
                info.tokens.append(((rest[0], rest[1]), after))
            else:  # EMPTY
                following.append(after)
            for target in following:
                if target not in seen:
                    seen.add(target)
                    waiting.append(target)
        info.edges = list(edges)
        info.calls = list(calls)
        if len(seen) >= SEVERAL:
            self._beyond[state] = frozenset(seen)
        return info

    def _repeated(self, here: int, longest: dict[tuple[int, int], int]) -> list[int]:
        node, after = self._cells[here]
        _, item, low, high = self.pool[node]
        if self.analysis.cost.get(item, 1) == NEVER:
            return [after] if low == 0 else []
        if self.analysis.cost.get(item, 1) == 0:
            low = 0
        if low == 0 and high is not None:
            # Of runs that go on from here, the one with most to come says all that the others say.
            if longest.get((item, after), 0) >= high:
                return [after]
            longest[item, after] = high
        more = self.pool.rep(item, max(low - 1, 0), None if high is None else high - 1)
        following = [self.cell(item, self.cell(more, after))]
        return [after, *following] if low == 0 else following

    def _stands_for(self, rule: int, after: int) -> bool:
        """Whether a rule's body is put where it is called: it is small, or the call ends another rule (a loop)."""
        if rule in self.analysis.inline:
            return True
        return rule in self.analysis.recursive and self.pool[self._cells[after][0]][0] == FINAL

    def _called(self, rule: int, after: int, calls: dict[tuple[int, int], None]) -> list[int]:
        analysis = self.analysis
        body = self._grammar.bodies[rule]
        if analysis.cost[body] == NEVER:
            return []
        if self._stands_for(rule, after):
            return [self.cell(body, after)]
        calls[rule, after] = None
        return [after] if analysis.cost[body] == 0 else []

    def node_cost(self, node: int) -> int:
        """About the least number of characters of a node's texts."""
        known = self.analysis.cost.get(node)
        if known is not None:
            return known
        kind, *rest = self.pool[node]
        if kind == CHARS:
            return 1
        if kind == TEXT:
            return len(rest[0]) - int(rest[1])
        if kind == DFA:
            return int(rest[0].shortest(rest[1]))
        if kind == REP:
            return self.node_cost(int(rest[0])) * int(rest[1])
        if kind == SEQ:
            return sum([self.node_cost(int(item)) for item in rest[0]])
        return 0  # EMPTY, FINAL, STAR: all others were there at the beginning
