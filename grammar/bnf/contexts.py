"""Sets of stacks: who called a rule, and what becomes of it when the rule ends.

A thread is (state, context). All rules that begin at one place in the text share contexts that hold the threads from
before them (their *kernel*): Earley's sets (Communications of the ACM 13(2), 1970), with states for items. What rules
call each other there before any character is read follows from the grammar alone, so left recursion adds nothing to a
context. Threads in the same state are one, in a union of their contexts (see `unions`). Contexts are interned by their
kernels, and those in which a rule goes on alike are one for it (see `ends`): a loop in the text that comes back to the
same stacks comes back to the same contexts, whichever way it was read.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from ..algebra import bits as bits_of
from ..errors import BudgetError
from .cells import Cells
from .ends import Ends
from .lower import START
from .outs import Outs
from .unions import Additive, ByState, Thread, Unions
from .within import OUTSIDE, Within

ROOT: Final = 0
"""The context of the whole text."""
MAX_PLACES: Final = 768
"""Places in the rules where a text can go on; however many ways lead there."""


class Closed(NamedTuple):
    """All that may come next in a place of the text.

    live     threads that read characters or tokens
    schemas  (schema, thread after it) for the embedded schemas that may begin here
    ended    whether the text may end here
    left     states after rules that were called from outside and may have ended
    """

    live: tuple[Thread, ...]
    schemas: tuple[tuple[int, Thread], ...]
    ended: bool
    left: tuple[int, ...] = ()


class Contexts:
    """The contexts of one grammar."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self._unions = Unions(cells.rule)
        self._unions.add()
        self._unions.add()
        self._kernels: dict[int, tuple[Thread, ...]] = {ROOT: (), OUTSIDE: ()}
        self._known: dict[tuple[Thread, ...], int] = {(): ROOT}
        self._reach: dict[int, int] = {}
        self._beginnings: dict[int, tuple[bool, tuple[int, ...]] | None] = {}
        self._afters: dict[tuple[int, int], tuple[tuple[int, ...], bool]] = {}
        self._loops: dict[int, tuple[int, int]] = {}
        self._callers: dict[int, int] = {}
        self._alike: dict[tuple[tuple[int, int], ...], int] = {}
        self._returns: dict[tuple[int, int], tuple[Thread, ...]] = {}
        self._after_all = Additive(self._unions, self._after_one)
        self._calling = Additive(self._unions, lambda context, _: self._unions.by_state(self.kernel(context)))
        self._nbytes = 0
        self.within = Within(self, cells, self._unions)
        self._ends = Ends(cells, self._unions, self.returns)
        self.outs = Outs(cells, self._unions, self.returns)

    def __len__(self) -> int:
        return len(self._unions)

    @property
    def nbytes(self) -> int:
        """What all contexts take in memory, roughly."""
        return self._nbytes + self._unions.nbytes + self._ends.nbytes + self.within.nbytes

    def close(self, threads: tuple[Thread, ...]) -> Closed:
        """What may come next: rules that ended give way to what called them, rules that begin are entered."""
        info = self._cells.info
        if len(threads) == 1:
            only = threads[0]
            beginning = self.beginning(only[0])
            if beginning is not None:
                reads, starts = beginning
                live: tuple[Thread, ...] = (only,) if reads else ()
                if starts:
                    context = self.intern(threads)
                    live += tuple([(start, context) for start in starts])
                return Closed(live, (), False)
        found = self._ends.close(self._unions.by_state(threads))
        ended = False
        left: list[int] = []
        calling: list[Thread] = []
        reading: list[Thread] = []
        schemas: dict[tuple[int, Thread], None] = {}
        for state, bits in found.items():
            reads, calls, final, _, beginning_schemas = self._ends.facts(state)
            if final == START:
                ended = True
            elif final >= self._cells.rule_count:
                left.append(state)
            thread = state, self._unions.of(state, bits)
            if reads:
                reading.append(thread)
            for number, after in beginning_schemas:
                schemas[number, (after, thread[1])] = None
            if calls:
                calling.append(thread)
        if max(len(reading), len(calling)) > MAX_PLACES:
            raise BudgetError(
                f"the grammar is too ambiguous: more than {MAX_PLACES} places in its rules are open at once",
                remedy="let the rules tell what they read apart, as by precedence",
            )
        if calling:
            for rule, context in self._entered(calling):
                start = self._cells.start(rule)
                facts = info(start)
                if facts.edges or facts.tokens:
                    reading.append((start, context))
                for number, after in facts.schemas:
                    schemas[number, (after, context)] = None
        return Closed(tuple(dict.fromkeys(reading)), tuple(schemas), ended, tuple(left))

    def threads(self, found: ByState) -> tuple[Thread, ...]:
        """One thread for each state: what began in several contexts goes on in all of them at once."""
        return tuple(sorted([(state, self._unions.of(state, bits)) for state, bits in found.items()]))

    def returns(self, context: int, rule: int) -> tuple[Thread, ...]:
        """The threads after `rule`, which began in `context`, ended."""
        key = (context, rule)
        found = self._returns.get(key)
        if found is None:
            if self._unions.is_union(context):
                found = self.threads(self._after_all(self._unions.members(context), rule))
            else:
                found = self._find_returns(context, rule)
            self._returns[key] = found
        return found

    def _after_one(self, context: int, rule: int) -> ByState:
        return self._unions.by_state(self.returns(context, rule))

    def _find_returns(self, context: int, rule: int) -> tuple[Thread, ...]:
        kernel = self._kernels[context]
        if len(kernel) == 1:  # the usual case: what is after the rule there is known from the state alone
            state, outer = kernel[0]
            targets, others = self._after(state, rule)
            if not others:
                return tuple([(target, outer) for target in targets])
        found: list[Thread] = []
        for state, outer in kernel:
            found += [(after, outer) for called, after in self._cells.info(state).calls if called == rule]
        # Rules that began at the same place, and call this one before they read anything.
        entered = 0
        for state, _ in kernel:
            entered |= self.reached(state)
        for other in bits_of(entered):
            for called, after in self._cells.info(self._cells.start(other)).calls:
                if called == rule:
                    found.append((after, self._within(kernel, other)))
        return self.threads(self._unions.by_state(found))

    def _after(self, state: int, rule: int) -> tuple[tuple[int, ...], bool]:
        """(where a rule leads that a state calls, whether other rules that begin with it call it as well)."""
        found = self._afters.get((state, rule))
        if found is None:
            info, start = self._cells.info, self._cells.start
            after = tuple(dict.fromkeys([after for called, after in info(state).calls if called == rule]))
            others = any(
                called == rule for other in bits_of(self.reached(state)) for called, _ in info(start(other)).calls
            )
            found = self._afters[state, rule] = (after, others)
        return found

    def beginning(self, state: int) -> tuple[bool, tuple[int, ...]] | None:
        """Of a state where nothing ends and no schema begins: whether it reads, and where the rules begin that do."""
        if state not in self._beginnings:
            facts = [self._cells.info(state)]
            starts = [self._cells.start(rule) for rule in bits_of(self.reached(state))]
            facts += map(self._cells.info, starts)
            plain = facts[0].final < 0 and not any(each.schemas for each in facts)
            reading = tuple(
                start for start, each in zip(starts, facts[1:], strict=True) if each.edges or each.tokens
            )
            self._beginnings[state] = (bool(facts[0].edges or facts[0].tokens), reading) if plain else None
        return self._beginnings[state]

    def _entered(self, calling: list[Thread]) -> list[tuple[int, int]]:
        """The rules that begin, each with its context."""
        reached = [self.reached(state) for state, _ in calling]
        first = reached[0]
        kernel = tuple(sorted(calling))
        if all(bits == first for bits in reached):
            context = self.intern(kernel)
            return [(rule, context) for rule in bits_of(first)]
        every = 0
        for bits in reached:
            every |= bits
        return [(rule, self._within(kernel, rule)) for rule in bits_of(every)]

    def _within(self, kernel: tuple[Thread, ...], rule: int) -> int:
        """The context of `rule` among what began after `kernel`: the part of the kernel that leads to it."""
        return self.intern(tuple([thread for thread in kernel if self.reached(thread[0]) >> rule & 1]))

    # ---- contexts

    def begun(self, thread: Thread) -> int:
        """The context of what begins after one thread."""
        return self.intern((thread,))

    def kernel(self, context: int) -> tuple[Thread, ...]:
        """The threads from before what began in a context."""
        found = self._kernels.get(context)
        if found is None:
            found = self._kernels[context] = self.threads(self._calling(self._unions.members(context), 0))
        return found

    def intern(self, kernel: tuple[Thread, ...]) -> int:
        found = self._known.get(kernel)
        if found is None:
            callers = tuple([(self._caller(state), context) for state, context in kernel])
            if callers == kernel:
                found = self._new(kernel)
            else:
                found = self.intern(self.threads(self._unions.by_state(callers)))
            self._known[kernel] = found
        return found

    def _caller(self, state: int) -> int:
        """A state that calls what this one does: to contexts they are one, as a loop at its first turn and later."""
        found = self._callers.get(state)
        if found is None:
            found = self._callers[state] = self._alike.setdefault(tuple(sorted(self._cells.info(state).calls)), state)
        return found

    def _new(self, kernel: tuple[Thread, ...]) -> int:
        found = self._same_as(kernel)
        if found < 0:
            found = self._unions.add()
            self._kernels[found] = kernel
            self._nbytes += 300 + 100 * len(kernel)
        return found

    def _same_as(self, kernel: tuple[Thread, ...]) -> int:
        """An older context in which what begins after the kernel may as well stand; -1 if there is none.

        So it is where a rule calls itself before a loop at its end, and the same loop comes after the rule: what was
        called may take the place of the caller.
        """
        if len(kernel) > 1:
            return -1
        (state, context), = kernel
        rule, after = self.looped(state)
        if rule < 0:
            return -1
        targets = self.returns(context, rule)
        return context if targets and self._ends.is_idle(after, targets) else -1

    def reached(self, state: int) -> int:
        """The rules that begin where the state stands, as bits."""
        found = self._reach.get(state)
        if found is None:
            found = 0
            waiting = [rule for rule, _ in self._cells.info(state).calls]
            while waiting:
                rule = waiting.pop()
                if not found >> rule & 1:
                    found |= 1 << rule
                    waiting += [called for called, _ in self._cells.info(self._cells.start(rule)).calls]
            self._reach[state] = found
        return found

    def looped(self, state: int) -> tuple[int, int]:
        """(rule, state after it) if the state's rule calls only itself before a loop at its end; else (-1, -1)."""
        found = self._loops.get(state)
        if found is None:
            found = -1, -1
            calls = self._cells.info(state).calls
            if len(calls) == 1 and self.reached(state) == 1 << calls[0][0]:
                rule, after = calls[0]
                if self._cells.rule(after) == rule and self._cells.loop(after)[1]:
                    found = rule, after
            self._loops[state] = found
        return found
