"""What may come next where a rule ends: what called it goes on, and ends in turn, down to where something is read.

Of two contexts in which a rule began one may allow all that the other does after it, or both the same: that is found
here by comparing what comes next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from .cells import Cells
from .lower import START
from .unions import Additive, ByState, Thread, Unions, add

_DEPTH: Final = 4
"""Comparisons within comparisons."""

Facts = tuple[bool, bool, int, bool, list[tuple[int, int]]]
"""Of a state: whether it reads, whether it calls rules, what it ends, whether it is a loop at an end, schemas."""


class Ends:
    """The ends of one grammar's rules."""

    def __init__(self, cells: Cells, unions: Unions, returns: Callable[[int, int], tuple[Thread, ...]]) -> None:
        """`returns`: the threads after a rule, which began in a context, ended."""
        self._cells, self._unions, self._returns = cells, unions, returns
        self._facts: dict[int, Facts] = {}
        self._idle: dict[int, tuple[int, int]] = {}
        self._ended: dict[tuple[int, int], ByState] = {}
        self._has_ended: dict[int, int] = {}  # by rule: the contexts for which `_ended` is known, as bits
        self._together = Additive(unions, self._end)
        self._comparing = 0
        self.nbytes = 0
        """What is known takes so much memory, roughly."""
        unions.compare_by(self._compare)

    def facts(self, state: int) -> Facts:
        """What can happen in a state."""
        return self._facts.get(state) or self._find_facts(state)

    def _find_facts(self, state: int) -> Facts:
        info = self._cells.info(state)
        found = self._facts[state] = (
            bool(info.edges or info.tokens), bool(info.calls), info.final, self._cells.loop(state)[1], info.schemas
        )
        return found

    def close(self, threads: ByState) -> ByState:
        """The threads that do more than end a rule, and those after all rules that end."""
        found, ends = self._sorted_out(threads)
        for rule, bits in ends.items():
            add(found, self._together(bits, rule))
        return found

    def is_idle(self, state: int, targets: tuple[Thread, ...]) -> bool:
        """Whether a thread reads nothing that those after its rule, where it may end at once, do not read as well.

        So it is with a loop at the end of a rule if the same loop comes after it: x*x* is x*.
        """
        loop, last = self._cells.loop(state)
        return last and all(self._cells.loop(target)[0] == loop for target, _ in targets)

    def _sorted_out(self, found: ByState) -> tuple[dict[int, int], dict[int, int]]:
        """(the threads that do more than end a rule, by rule the contexts in which it ends)."""
        own: dict[int, int] = {}
        ends: dict[int, int] = {}
        for state, bits in found.items():
            reads, calls, final, loops, schemas = self.facts(state)
            if START < final < self._cells.rule_count:
                ends[final] = ends.get(final, 0) | bits
                if loops:
                    bits &= ~self._all_idle(state, bits, final)
                if not reads and not calls and not schemas:
                    continue
            if bits:
                own[state] = bits
        return own, ends

    def _end(self, context: int, rule: int) -> ByState:
        """The threads after `rule`, which began in `context`, ended, and those after all that ends with it."""
        found = self._ended.get((context, rule))
        if found is None:
            self._find_ended((context, rule))
            found = self._ended[context, rule]
        return found

    def _find_ended(self, key: tuple[int, int]) -> None:
        """Finds what one rule's end leads to, and with it that of all on which it depends: a least fixpoint, since
        rules that begin at the same place may end with each other.
        """
        members = self._unions.members
        found: dict[tuple[int, int], dict[int, int]] = {}
        inner: dict[tuple[int, int], list[tuple[int, int]]] = {}
        waiting = [key]
        while waiting:
            pair = waiting.pop()
            if pair in found:
                continue
            own, ends = self._sorted_out(self._unions.by_state(self._returns(*pair)))
            inner[pair] = []
            for rule, bits in ends.items():
                known = bits & self._has_ended.get(rule, 0)
                if known:
                    add(own, self._together(known, rule))
                inner[pair] += [(context, rule) for context in self._unions.singles(bits ^ known)]
            found[pair] = own
            waiting += inner[pair]
        changed = any(inner.values())
        while changed:
            changed = False
            for pair in reversed(found):
                own = found[pair]
                for other in inner[pair]:
                    for state, bits in found[other].items():
                        if bits & ~own.get(state, 0):
                            own[state] = own.get(state, 0) | bits
                            changed = True
        for (context, rule), own in found.items():
            self._ended[context, rule] = own
            self._has_ended[rule] = self._has_ended.get(rule, 0) | members(context)
        for own in found.values():
            own.update([(state, self._unions.lean(state, bits)) for state, bits in own.items()])
            self.nbytes += sum([(bits.bit_length() >> 3) + 100 for bits in own.values()]) + 300

    def _all_idle(self, state: int, bits: int, rule: int) -> int:
        """Those of the contexts, as bits, in which a thread is idle."""
        asked, idle = self._idle.get(state, (0, 0))
        if bits & ~asked:
            for context in self._unions.singles(bits & ~asked):
                if self.is_idle(state, self._returns(context, rule)):
                    idle |= self._unions.members(context)
            self._idle[state] = asked | bits, idle
        return idle

    def _compare(self, rule: int, new: int, old: int) -> tuple[bool, bool] | None:
        """See `unions.Compare`.

        Where what was called stands at the end of a rule it may take the caller's place, since whatever may follow it
        may follow the caller: both are the same in `e ::= e "+" e` after each `+`.
        """
        if self._comparing >= _DEPTH:
            return None
        self._comparing += 1
        self.nbytes += (new >> 2) + 100  # what may be noted
        older, newer = self._unions.singles(1 << new | 1 << old)
        try:
            return self._included(rule, newer, older, True), self._included(rule, newer, older, False)
        finally:
            self._comparing -= 1

    def _included(self, rule: int, new: int, old: int, forth: bool) -> bool:
        """Whether all ways on after a rule in the new context are ways in the old one, or back.

        It is found by induction on the length of what follows: what the rule's end leads to is there as well, if one
        context is taken for the other; then the same has to be so for the rules that would end in it.
        """
        own, others = self._unions.members(new), self._unions.members(old)
        assumed = {rule}
        waiting = [rule]
        while waiting:
            each = waiting.pop()
            here, there = self._end(new, each), self._end(old, each)
            if not (here.keys() <= there.keys() if forth else there.keys() <= here.keys()):
                return False
            for state in here if forth else there:
                bits = here[state]
                ended = self._cells.rule(state)
                if bits & own:
                    bits = bits & ~own | others
                    if ended not in assumed:
                        assumed.add(ended)
                        waiting.append(ended)
                few, many = (bits, there[state]) if forth else (there[state], bits)
                if few & ~many and not self._unions.order(ended).holds(many, few):
                    return False
        return True
