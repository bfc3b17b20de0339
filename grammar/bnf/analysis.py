"""What is known of a grammar before any text: shortest texts, first and following bytes, recursion.

All of it is found over nodes, iteratively, in time that is linear in their number or nearly: a chain of thousands of
rules is no deeper here than any other grammar.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import Final

from ..automaton.codes import TOKEN_BYTE
from ..courtesy import COURTESY
from ..regular import CharSet, Dfa
from .lower import Lowered
from .nodes import ALT, CALL, CHARS, DFA, EMPTY, JSON, REP, SEQ, STAR, TEXT, TOKEN

NEVER: Final = 1 << 41
"""The cost of what derives no text."""
LONG: Final = 1 << 40
"""The highest cost there is: what is longer costs as much."""
_INLINE: Final = 200
_INLINE_ONCE: Final = 4_000
_WIDE: Final = 48
_FEW_STATES: Final = 64
_MANY: Final = 2_000
"""Nodes of grammars so large that to look at all of them takes a while."""
JSON_FIRST: Final = sum(1 << byte for byte in b' \t\n\r"-0123456789tfn[{')


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
        self._pool = grammar.pool
        self._known_children: dict[int, tuple[int, ...]] = {}
        self._many = len(grammar.pool) > _MANY
        self._order = self._reachable()
        self.cheapest: dict[int, int] = {}
        self.cost = self._costs(json_costs)
        self.first = self._firsts()
        self.follow = self._follows()
        self.recursive = self._recursive()
        self.inline = self._inlined()

    def nullable(self, node: int) -> bool:
        """Whether a node that was there at the beginning derives the empty text."""
        return self.cost[node] == 0

    def first_of(self, rule: int) -> int:
        """The bytes that a rule's texts may begin with, as bits."""
        return self.first[self._grammar.bodies[rule]]

    def _children(self, node: int) -> tuple[int, ...]:
        if self._many:
            COURTESY.pause()  # every pass is over all nodes
        found = self._known_children.get(node)
        if found is None:
            kind, *rest = self._pool[node]
            if kind in (SEQ, ALT):
                found = rest[0]
            elif kind in (STAR, REP):
                found = (rest[0],)
            else:
                found = (self._grammar.bodies[rest[0]],) if kind == CALL else ()
            self._known_children[node] = found
        return found

    def _reachable(self) -> list[int]:
        """The nodes of all rules, used or not."""
        seen = dict.fromkeys(self._grammar.bodies)
        waiting = list(seen)
        while waiting:
            for child in self._children(waiting.pop()):
                if child not in seen:
                    seen[child] = None
                    waiting.append(child)
        return list(seen)

    def _costs(self, json_costs: list[int]) -> dict[int, int]:
        """Knuth's generalisation of Dijkstra's algorithm (Information Processing Letters 6(1), 1977)."""
        pool = self._pool
        cost = dict.fromkeys(self._order, NEVER)
        parents: dict[int, list[int]] = {}
        missing: dict[int, int] = {}
        sums: dict[int, int] = {}
        heap: list[tuple[int, int, int]] = []
        for node in self._order:
            kind, *rest = pool[node]
            for child in self._children(node):
                parents.setdefault(child, []).append(node)
            if kind == SEQ:
                missing[node] = len(rest[0])
                sums[node] = 0
            known = {EMPTY: 0, CHARS: 1, STAR: 0, TOKEN: 1}.get(kind)
            if kind == TEXT:
                known = len(rest[0]) - rest[1]
            elif kind == DFA:
                known = rest[0].shortest(rest[1])
            elif kind == JSON:
                known = json_costs[rest[0]]
            elif kind == REP and rest[1] == 0:
                known = 0
            if known is not None:
                heappush(heap, (known, node, node))
        while heap:
            value, node, child = heappop(heap)
            if cost[node] != NEVER:
                continue
            cost[node] = value
            self.cheapest[node] = child
            for parent in parents.get(node, ()):
                if cost[parent] != NEVER:
                    continue
                kind, *rest = pool[parent]
                if kind == SEQ:
                    missing[parent] -= 1
                    sums[parent] += value
                    if not missing[parent]:
                        heappush(heap, (min(sums[parent], LONG), parent, node))
                else:
                    heappush(heap, (min(value * rest[1], LONG) if kind == REP else value, parent, node))
        return cost

    def _firsts(self) -> dict[int, int]:
        first = dict.fromkeys(self._order, 0)
        parents: dict[int, list[int]] = {}
        waiting: deque[int] = deque()
        for node in self._order:
            if self.cost[node] == NEVER:
                continue
            kind, *rest = self._pool[node]
            for child in self._children(node):
                parents.setdefault(child, []).append(node)
                if kind == SEQ and self.cost[child]:
                    break
            own = 0
            if kind == CHARS:
                own = first_bytes(rest[0])
            elif kind == TEXT:
                own = 1 << rest[0][rest[1]].encode("utf-8", "surrogatepass")[0]
            elif kind == DFA:
                for chars, _ in rest[0].step(rest[1]):
                    own |= first_bytes(chars)
            elif kind == JSON:
                own = JSON_FIRST
            elif kind == TOKEN:
                own = 1 << TOKEN_BYTE
            if own:
                first[node] = own
                waiting.append(node)
        _spread(first, parents, waiting)
        return first

    def _follows(self) -> list[int]:
        """By rule: what may come after it, in any place."""
        follow = dict.fromkeys(self._order, 0)
        children: dict[int, list[int]] = {}
        for node in self._order:
            if self.cost[node] == NEVER:
                continue
            kind, *rest = self._pool[node]
            if kind != SEQ:
                children[node] = list(self._children(node))
                if kind in (STAR, REP):
                    follow[rest[0]] |= self.first[rest[0]]
                continue
            after, open_end = 0, True
            for child in reversed(rest[0]):
                follow[child] |= after
                if open_end:
                    children.setdefault(node, []).append(child)
                if self.cost[child]:
                    after, open_end = 0, False
                after |= self.first[child]
        _spread(follow, children, deque(node for node in self._order if follow[node]))
        return [follow[body] for body in self._grammar.bodies]

    def _calls(self) -> list[list[int]]:
        """By rule: the rules that it calls, those that derive no text left out."""
        grammar, pool = self._grammar, self._pool
        result = []
        for body in grammar.bodies:
            called: dict[int, None] = {}
            seen = {body}
            waiting = [body]
            while waiting:
                node = waiting.pop()
                if pool[node][0] == CALL:
                    called[pool[node][1]] = None
                    continue
                for child in self._children(node):
                    if child not in seen:
                        seen.add(child)
                        waiting.append(child)
            result.append(list(called))
        return result

    def _recursive(self) -> frozenset[int]:
        """Tarjan's strongly connected components, without recursion; `_components` keeps callees before callers."""
        calls = self._called = self._calls()
        self._components: list[list[int]] = []
        index: dict[int, int] = {}
        low: dict[int, int] = {}
        stack: list[int] = []
        on_stack: set[int] = set()
        recursive = set()
        for root in range(len(calls)):
            if root in index:
                continue
            work = [(root, 0)]
            while work:
                rule, at = work.pop()
                if at == 0:
                    index[rule] = low[rule] = len(index)
                    stack.append(rule)
                    on_stack.add(rule)
                else:
                    low[rule] = min(low[rule], low[calls[rule][at - 1]])
                while at < len(calls[rule]):
                    target = calls[rule][at]
                    at += 1
                    if target not in index:
                        work.append((rule, at))
                        work.append((target, 0))
                        break
                    if target in on_stack:
                        low[rule] = min(low[rule], index[target])
                else:
                    if low[rule] == index[rule]:
                        component = []
                        while True:
                            member = stack.pop()
                            on_stack.discard(member)
                            component.append(member)
                            if member == rule:
                                break
                        self._components.append(component)
                        if len(component) > 1 or rule in calls[rule]:
                            recursive |= set(component)
        return frozenset(recursive)

    def _inlined(self) -> frozenset[int]:
        pool, bodies = self._pool, self._grammar.bodies
        uses: dict[int, int] = {}
        for node in self._order:
            for child in self._children(node):
                if pool[child][0] == CALL:
                    uses[pool[child][1]] = uses.get(pool[child][1], 0) + 1
        size: dict[int, int] = {}
        wide: dict[int, bool] = {}
        inline: set[int] = set()
        for component in self._components:
            for rule in component:
                own, loops = self._measure(bodies[rule], inline, size, wide)
                often = uses.get(rule, 0) > 1
                size[rule], wide[rule] = own, loops
                # What has a wide loop is better shared, if its end shows: then its rows are one for all its callers.
                shared = often and loops and not self._goes_on(bodies[rule]) & self.follow[rule]
                if rule not in self.recursive and own <= (_INLINE if often else _INLINE_ONCE) and not shared:
                    inline.add(rule)
        return frozenset(inline)

    def _goes_on(self, body: int) -> int:
        """The bytes by which texts of a body may go on where they might have ended, as bits."""
        pool = self._pool
        bits = 0
        seen = {body}
        waiting = [body]
        while waiting:
            node = waiting.pop()
            kind, *rest = pool[node]
            inner: list[int] = []
            if kind == SEQ:
                for item in reversed(rest[0]):
                    inner.append(item)
                    if self.cost[item]:
                        break
                    bits |= self.first[item]
            elif kind == DFA:
                bits |= _goes_on_after_words(rest[0], rest[1])
            else:
                inner += self._children(node)
                if kind in (STAR, REP):
                    bits |= self.first[rest[0]]
            for item in inner:
                if item not in seen:
                    seen.add(item)
                    waiting.append(item)
        return bits

    def _measure(
        self, body: int, inline: set[int], size: dict[int, int], wide: dict[int, bool]
    ) -> tuple[int, bool]:
        """About how many states a body makes, and whether it has a loop over many characters."""
        pool = self._pool
        total, loops = 0, False
        waiting = [(body, False)]
        while waiting and total <= _INLINE_ONCE:
            node, looped = waiting.pop()
            kind, *rest = pool[node]
            if kind == CALL:
                if rest[0] in inline:
                    total += size[rest[0]]
                    loops = loops or wide[rest[0]]
                else:
                    total += 1
                continue
            if kind == CHARS:
                total += 1
                loops = loops or (looped and len(rest[0]) >= _WIDE)
            elif kind == TEXT:
                total += len(rest[0])
            elif kind in (DFA, JSON):
                total += 4
                loops = True
            elif kind == REP:
                total += min(rest[2] or rest[1], 64)
            waiting += [(child, looped or kind in (STAR, REP)) for child in self._children(node)]
        return total, loops


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
            return (1 << 256) - 1
    return bits


def _spread(value: dict[int, int], targets: dict[int, list[int]], waiting: deque[int]) -> None:
    """Each node's bits are among those of its targets, and of theirs: until nothing changes."""
    queued = set(waiting)
    while waiting:
        node = waiting.popleft()
        queued.discard(node)
        bits = value[node]
        for target in targets.get(node, ()):
            if bits & ~value[target]:
                value[target] |= bits
                if target not in queued:
                    queued.add(target)
                    waiting.append(target)


def first_bytes(chars: CharSet) -> int:
    """The bytes that characters of a set begin with in UTF-8, as bits."""
    bits = chars.ascii
    for low, high in chars.wide:
        lead, last = chr(low).encode()[0], chr(high).encode()[0]
        bits |= (1 << last + 1) - (1 << lead)
    return bits
