"""Which rules come again within themselves."""

from __future__ import annotations

from collections.abc import Sequence


def components(calls: Sequence[Sequence[int]]) -> list[list[int]]:
    """The rules, by number, in groups that call each other, callees before callers. `calls`: by rule.

    Tarjan's algorithm (SIAM Journal on Computing 1(2), 1972), without recursion.
    """
    found: list[list[int]] = []
    reached = 0
    order = [0] * len(calls)  # when each was reached, from 1
    low = [0] * len(calls)
    grouped = len(calls) + 1  # the order of those that are in a group: later than all others
    stack: list[int] = []
    for root in range(len(calls)):
        work = [] if order[root] else [(root, 0)]
        while work:
            rule, at = work.pop()
            called = calls[rule]
            if at == 0:
                reached += 1
                order[rule] = low[rule] = reached
                stack.append(rule)
            else:
                low[rule] = min(low[rule], low[called[at - 1]])
            while at < len(called):
                target = called[at]
                at += 1
                if not order[target]:
                    work += ((rule, at), (target, 0))
                    break
                low[rule] = min(low[rule], order[target])
            else:
                if low[rule] == order[rule]:
                    group: list[int] = []
                    while not group or group[-1] != rule:
                        group.append(stack.pop())
                        order[group[-1]] = grouped
                    found.append(group)
    return found


def recursive(calls: Sequence[Sequence[int]], groups: Sequence[Sequence[int]]) -> frozenset[int]:
    """The rules that come again within themselves. `groups`: what `components` finds."""
    return frozenset([rule for group in groups for rule in group if len(group) > 1 or rule in calls[rule]])
