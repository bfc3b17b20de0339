"""What is known of a grammar before any text: shortest texts, first and following bytes, recursion.

All of it is found over nodes, iteratively, in time that is linear in their number or nearly: a chain of thousands of
rules is no deeper here than any other grammar.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from typing import Final

from ..automaton.codes import TOKEN_BYTE
from ..courtesy import COURTESY
from ..regular import CharSet, Dfa
from .components import recursive
from .lower import Lowered
from .nodes import ALT, CALL, CHARS, DFA, EMPTY, JSON, REP, SEQ, STAR, TEXT, TOKEN

NEVER: Final = 1 << 41
"""The cost of what derives no text."""
LONG: Final = 1 << 40
"""The highest cost there is: what is longer costs as much."""
_LISTS: Final = (SEQ, ALT)
_LOOPS: Final = (STAR, REP)
_SINGLE: Final = (CHARS, TOKEN)
_NONE: Final = (EMPTY, STAR)
_INLINE: Final = 200
_INLINE_ONCE: Final = 4_000
_WIDE: Final = 48
_FEW_STATES: Final = 64
_LOOKS: Final = 20
_ANY: Final = (1 << 256) - 1
JSON_FIRST: Final = sum(1 << byte for byte in b' \t\n\r"-0123456789tfn[{')


_Measure = tuple[int, bool, bool]
"""About how many states a node makes, whether it has a wide set, and whether it has a loop over one."""


class Analysis:
    """Facts of a lowered grammar.

    cost       least number of characters of a node, NEVER if it derives no text
    cheapest   of the alternatives of a node one of that cost, such that following them never comes back
    first      the bytes that a node's texts may begin with, as bits
    follow     by rule: the bytes that may come after it
    recursive  the rules that can come again within themselves
    inline     the rules whose body is put where they are called, since that is small and makes loops of rows
    """

    def __init__(self, grammar: Lowered, json_costs: list[int]) -> None:
        self._grammar = grammar
        self._nodes = grammar.pool.nodes
        self._children: dict[int, tuple[int, ...]] = {}
        self._parents: dict[int, list[int]] = {}
        self._calls: dict[int, int] = {}  # by rule: the node that calls it
        self._order: list[int] = []
        """All nodes: what is under a node first, and callees before callers; but for rules that call each other."""
        self._find_nodes()
        self._looks = _LOOKS * len(self._order)
        self.recursive = recursive(grammar.calls, grammar.groups)
        self.cheapest: dict[int, int] = {}
        self.cost = self._costs(json_costs)
        self.first = self._firsts()
        self.follow = self._follows()
        self.inline = self._inlined()

    def first_of(self, rule: int) -> int:
        """The bytes that a rule's texts may begin with, as bits."""
        return self.first[self._grammar.bodies[rule]]

    def _find_nodes(self) -> None:
        """The nodes of all rules, used or not, the nodes right under each, and those right above."""
        nodes, bodies, children, parents = self._nodes, self._grammar.bodies, self._children, self._parents
        seen: set[int] = set()
        for group in self._grammar.groups:
            for rule in group:
                body = bodies[rule]
                parents.setdefault(body, [])
                found = [] if body in seen else [body]
                seen.add(body)
                for node in found:  # which grows
                    key = nodes[node]
                    kind = key[0]
                    if kind == CALL:
                        self._calls[key[1]] = node
                        body = bodies[key[1]]
                        children[node] = (body,)
                        parents.setdefault(body, []).append(node)
                        continue
                    under = key[1] if kind in _LISTS else (key[1],) if kind in _LOOPS else ()
                    children[node] = under
                    for child in under:
                        if child in seen:
                            parents[child].append(node)
                        else:
                            parents[child] = [node]
                            seen.add(child)
                            found.append(child)
                self._order += sorted(found)  # nodes are made of those that were made before

    def _costs(self, json_costs: list[int]) -> dict[int, int]:
        """Knuth's generalisation of Dijkstra's algorithm (Information Processing Letters 6(1), 1977).

        What costs the same waits in one list: there are few different costs.
        """
        nodes, parents, cheapest = self._nodes, self._parents, self.cheapest
        cost = dict.fromkeys(self._children, NEVER)
        waiting: dict[int, list[tuple[int, int]]] = {}
        missing: dict[int, int] = {}
        sums: dict[int, int] = {}
        for node, under in self._children.items():
            key = nodes[node]
            kind = key[0]
            if kind == SEQ:
                missing[node] = len(under)
                sums[node] = 0
                continue
            if kind in _SINGLE:
                known = 1
            elif kind == TEXT:
                known = len(key[1]) - key[2]
            elif kind in _NONE or (kind == REP and key[2] == 0):
                known = 0
            elif kind == DFA:
                known = key[1].shortest(key[2])
            elif kind == JSON:
                known = json_costs[key[1]]
            else:
                continue
            waiting.setdefault(known, []).append((node, node))
        values = list(waiting)
        heapify(values)
        while values:
            COURTESY.pause()
            value = heappop(values)
            for node, child in waiting[value]:  # which grows
                if cost[node] != NEVER:
                    continue
                cost[node] = value
                cheapest[node] = child
                for parent in parents[node]:
                    if cost[parent] != NEVER:
                        continue
                    key = nodes[parent]
                    total = value
                    if key[0] == SEQ:
                        sums[parent] += value
                        missing[parent] -= 1
                        if missing[parent]:
                            continue
                        total = min(sums[parent], LONG)
                    elif key[0] == REP:
                        total = min(value * key[2], LONG)
                    if total in waiting:
                        waiting[total].append((parent, node))
                    else:
                        waiting[total] = [(parent, node)]
                        heappush(values, total)
        return cost

    def _firsts(self) -> dict[int, int]:
        nodes, children, cost = self._nodes, self._children, self.cost
        first = dict.fromkeys(self._order, 0)
        for node in self._order:
            if cost[node] == NEVER:
                continue
            key = nodes[node]
            kind = key[0]
            bits = 0
            if kind == CHARS:
                bits = first_bytes(key[1])
            elif kind == TEXT:
                bits = 1 << key[1][key[2]].encode("utf-8", "surrogatepass")[0]
            elif kind == DFA:
                for chars, _ in key[1].step(key[2]):
                    bits |= first_bytes(chars)
            elif kind == JSON:
                bits = JSON_FIRST
            elif kind == TOKEN:
                bits = 1 << TOKEN_BYTE
            else:
                for child in children[node]:
                    bits |= first[child]
                    if kind == SEQ and cost[child]:
                        break
            first[node] = bits
        changed = dict.fromkeys([self._grammar.bodies[rule] for rule in self.recursive])
        while changed:  # what is seen only where a rule comes again
            COURTESY.pause()
            changed = dict.fromkeys([parent for node in changed for parent in self._begun_by(node, first)])
        return first

    def _begun_by(self, node: int, first: dict[int, int]) -> list[int]:
        """Those of the nodes right above a node that learn from it what they may begin with."""
        nodes, cost = self._nodes, self.cost
        bits = first[node]
        learnt = []
        for parent in self._parents[node]:
            before = first[parent]
            if bits | before == before or cost[parent] == NEVER:
                continue
            if nodes[parent][0] == SEQ:
                for part in nodes[parent][1]:
                    if part == node or cost[part]:
                        break
                if part != node:
                    continue
            first[parent] = bits | before
            learnt.append(parent)
        return learnt

    def _follows(self) -> list[int]:
        """By rule: what may come after it, in any place."""
        nodes, children, cost, first = self._nodes, self._children, self.cost, self.first
        inner = [node for node in reversed(self._order) if children[node]]
        place = {node: number for number, node in enumerate(inner)}
        follow = dict.fromkeys([*inner, *self._grammar.bodies], 0)
        waiting = list(range(len(inner)))  # a heap: what is above comes first
        queued = {-1, *waiting}
        while waiting:
            number = heappop(waiting)
            queued.discard(number)
            node = inner[number]
            if cost[node] == NEVER:
                continue
            kind = nodes[node][0]
            after = follow[node]
            for child in reversed(children[node]):
                if kind in _LOOPS:
                    after |= first[child]
                if child in follow:
                    before = follow[child]
                    if after | before != before:
                        follow[child] = after | before
                        if (number := place.get(child, -1)) not in queued:
                            queued.add(number)
                            heappush(waiting, number)
                if kind == SEQ:
                    after = first[child] if cost[child] else after | first[child]
        return [follow[body] for body in self._grammar.bodies]

    def _goes_on(self, body: int) -> int:
        """The bytes by which texts of a body may go on where they might have ended, as bits.

        All of them where too many nodes were looked at to know it, over all bodies.
        """
        nodes, children, cost, first = self._nodes, self._children, self.cost, self.first
        bits = 0
        seen = {body}
        waiting = [body]
        while waiting and self._looks:
            self._looks -= 1
            node = waiting.pop()
            kind = nodes[node][0]
            if kind == DFA:
                bits |= _goes_on_after_words(nodes[node][1], nodes[node][2])
            for child in reversed(children[node]):
                if child not in seen:
                    seen.add(child)
                    waiting.append(child)
                if kind in _LOOPS:
                    bits |= first[child]
                elif kind == SEQ:
                    if cost[child]:
                        break
                    bits |= first[child]
        return _ANY if waiting else bits

    def _inlined(self) -> frozenset[int]:
        bodies, calls, parents = self._grammar.bodies, self._calls, self._parents
        known: dict[int, _Measure] = {}
        inline: dict[int, _Measure] = {}
        for group in self._grammar.groups:
            for rule in group:
                if rule in self.recursive:
                    continue
                body = bodies[rule]
                size, _, loops = measure = self._measured(body, known, inline)
                often = rule in calls and len(parents[calls[rule]]) > 1
                # What has a wide loop is better shared, if its end shows: then its rows are one for all its callers.
                shared = often and loops and not self._goes_on(body) & self.follow[rule]
                if size <= (_INLINE if often else _INLINE_ONCE) and not shared:
                    inline[rule] = measure
        return frozenset(inline)

    def _measured(self, node: int, known: dict[int, _Measure], inline: dict[int, _Measure]) -> _Measure:
        found = known.get(node)
        if found is not None:
            return found
        key = self._nodes[node]
        kind = key[0]
        size, wide, loops = 0, False, False
        if kind == CHARS:
            size, wide = 1, len(key[1]) >= _WIDE
        elif kind == TEXT:
            size = len(key[1])
        elif kind in (DFA, JSON):
            size, loops = 4, True
        elif kind == CALL:
            size, _, loops = inline.get(key[1], (1, False, False))
        else:
            for child in self._children[node]:
                more, wide_too, loops_too = known.get(child) or self._measured(child, known, inline)
                size += more
                wide |= wide_too
                loops |= loops_too
            if kind in _LOOPS:
                loops |= wide
            if kind == REP:
                size += min(key[3] or key[2], 64)
        known[node] = size, wide, loops
        return known[node]


def _goes_on_after_words(dfa: Dfa, start: int) -> int:
    seen = {start}
    waiting = [start]
    bits = 0
    while waiting:
        state = waiting.pop()
        for chars, target in dfa.step(state):
            if dfa.accepting(state):
                bits |= first_bytes(chars)
            if target not in seen:
                seen.add(target)
                waiting.append(target)
        if len(seen) > _FEW_STATES:
            return _ANY
    return bits


def first_bytes(chars: CharSet) -> int:
    """The bytes that characters of a set begin with in UTF-8, as bits."""
    bits = chars.ascii
    for low, high in chars.wide:
        lead, last = chr(low).encode()[0], chr(high).encode()[0]
        bits |= (1 << last + 1) - (1 << lead)
    return bits
