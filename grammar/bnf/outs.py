"""How far it is from a place in the rules to the end of the text, and what leads there."""

from __future__ import annotations

from collections.abc import Callable

from .analysis import NEVER
from .cells import Cells
from .lower import START
from .unions import Thread, Unions

Pair = tuple[int, int]
"""(context, rule that began in it)."""
Out = tuple[int, Thread | None]


class Outs:
    """The costs of one grammar's contexts."""

    def __init__(self, cells: Cells, unions: Unions, returns: Callable[[int, int], tuple[Thread, ...]]) -> None:
        self._cells, self._unions, self._returns = cells, unions, returns
        self._costs: dict[Pair, Out] = {}

    def cost(self, thread: Thread) -> int:
        """About the least number of characters from a thread to the end of the text."""
        local, rule = self._local(thread[0])
        return local + self._out(thread[1], rule)[0]

    def nodes(self, thread: Thread) -> tuple[list[int], int]:
        """The nodes whose shortest texts, one after the other, lead from a thread to the end of the text, or outside;
        and the state that is there.
        """
        found: list[int] = []
        at: Thread | None = thread
        while at is not None:
            state = at[0]
            parts = self._cells.parts(state)
            found += parts[:-1]
            at = self._out(at[1], self._cells.pool[parts[-1]][1])[1]
        return found, state

    def _local(self, state: int) -> tuple[int, int]:
        """The cost from a state to the end of its rule, and that rule."""
        parts = self._cells.parts(state)
        return sum(self._cells.node_cost(node) for node in parts[:-1]), self._cells.pool[parts[-1]][1]

    def _is_last(self, rule: int) -> bool:
        return rule == START or rule >= self._cells.rule_count

    def _out(self, context: int, rule: int) -> Out:
        """The cost after `rule`, which began in `context`, to the end of the text or outside, and the next thread."""
        if self._is_last(rule):
            return 0, None
        found = self._costs.get((context, rule))
        if found is None:
            singles = list(self._unions.singles(self._unions.members(context)))
            for single in singles:
                if (single, rule) not in self._costs:
                    self._relax((single, rule))
            found = self._costs[context, rule] = min([self._costs[single, rule] for single in singles], key=_cost)
        return found

    def _relax(self, key: Pair) -> None:
        """Finds the costs of a pair.

        Contexts refer to older ones, or to themselves where a rule begins with others; the cheapest way goes through
        each (context, rule) once, so it is found by relaxing, oldest first.
        """
        order: dict[Pair, list[tuple[int, list[Pair], Thread]]] = {}
        waiting = [key]
        while waiting:
            pair = waiting.pop()
            if pair in order or pair in self._costs:
                continue
            ways = order[pair] = []
            for thread in self._returns(*pair):
                local, outer = self._local(thread[0])
                targets: list[Pair] = []
                if not self._is_last(outer):
                    targets += [(each, outer) for each in self._unions.singles(self._unions.members(thread[1]))]
                ways.append((local, targets, thread))
                waiting += targets
        best: dict[Pair, Out] = dict.fromkeys(order, (NEVER, None))
        pairs = sorted(order)
        changed = True
        while changed:
            changed = False
            for pair in pairs:
                for local, targets, thread in order[pair]:
                    beyond = min([(best.get(each) or self._costs[each])[0] for each in targets], default=0)
                    if local + beyond < best[pair][0]:
                        best[pair] = (local + beyond, thread)
                        changed = True
        self._costs.update(best)


def _cost(out: Out) -> int:
    return out[0]
