"""Sets of stacks: who called a rule, and what becomes of it when the rule ends.

A thread is (state, context). All rules that begin at one place in the text share contexts that hold the threads from
before them (their *kernel*): Earley's sets (Communications of the ACM 13(2), 1970), with states for items. What rules
call each other there before any character is read follows from the grammar alone, so left recursion adds nothing to a
context. Contexts are interned by their kernels: a loop in the text that comes back to the same stacks comes back to
the same contexts.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ..algebra import bits as bits_of
from ..errors import BudgetError
from .analysis import NEVER
from .cells import Cells, by_state
from .lower import START

ROOT: Final = 0
"""The context of the whole text."""
OUTSIDE: Final = 1
"""The context of what waits on the stack: whatever it is, rules that were called from there have `Cells.called` end."""
MAX_THREADS: Final = 1 << 14
"""Ways to read a text that end in one place of it."""
MAX_PLACES: Final = 768
"""Places in the rules where a text can go on; however many ways lead there."""

Thread = tuple[int, int]
Outer = tuple[Thread, ...]
"""The threads that wait outside: all that called, in one place of the text, what goes on within."""
Facts = tuple[bool, bool, int, bool, list[tuple[int, int]]]
"""Of a state: whether it reads, whether it calls rules, what it ends, whether it is a loop at an end, schemas."""


@dataclass(frozen=True, slots=True)
class Closed:
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
        self._kernels: list[tuple[Thread, ...]] = [(), ()]
        self._known: dict[tuple[Thread, ...], int] = {(): ROOT}
        self.size = 0
        """Threads in all kernels: where a text can be read in many ways, kernels are large."""
        self._reach: dict[int, int] = {}
        self._beginnings: dict[int, tuple[bool, tuple[int, ...]] | None] = {}
        self._facts: dict[int, Facts] = {}
        self._afters: dict[tuple[int, int], tuple[tuple[int, ...], bool]] = {}
        self._loops: dict[int, tuple[int, int]] = {}
        self._callers: dict[int, int] = {}
        self._calling: dict[tuple[tuple[int, int], ...], int] = {}
        self._returns: dict[tuple[int, int], tuple[Thread, ...]] = {}
        self._costs: dict[tuple[int, int], tuple[int, Thread | None]] = {}
        self._unions: dict[tuple[int, ...], int] = {}
        self._parts: dict[int, int] = {}  # of unions: the contexts that they are unions of, as bits
        self._insides: dict[frozenset[int], tuple[Outer, dict[int, int]] | tuple[()]] = {}

    def __len__(self) -> int:
        return len(self._kernels)

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
                    context = self._intern(threads)
                    live += tuple([(start, context) for start in starts])
                return Closed(live, (), False)
        kernel = dict.fromkeys(threads)
        waiting = list(kernel)
        ended = False
        left: dict[int, None] = {}
        calling: list[Thread] = []
        reading: list[Thread] = []
        facts_of = self._facts
        schemas: dict[tuple[int, Thread], None] = {}
        finished: dict[int, set[Thread]] = {}  # by rule: the calls of it that have ended here
        while waiting:
            ends: dict[int, list[int]] = {}
            for thread in waiting:
                state, context = thread
                reads, calls, final, loops, beginning_schemas = facts_of.get(state) or self._find_facts(state)
                if final == START:
                    ended = True
                elif final >= self._cells.rule_count:
                    left[state] = None
                elif final >= 0:
                    ends.setdefault(final, []).append(context)
                    if loops and self._says_no_more(state, self.returns(context, final)):
                        continue
                if reads:
                    reading.append(thread)
                for number, after in beginning_schemas:
                    schemas[number, (after, context)] = None
                if calls:
                    calling.append(thread)
            waiting = []
            for rule, contexts in ends.items():
                for target in self._after_all(rule, contexts, finished.setdefault(rule, set())):
                    if target not in kernel:
                        kernel[target] = None
                        waiting.append(target)
            if len(kernel) > MAX_THREADS:
                raise _too_ambiguous()
        reading, calling = list(self._merged(reading)), list(self._merged(calling))
        if max(len(reading), len(calling)) > MAX_PLACES:
            raise _too_ambiguous()
        if calling:
            for rule, context in self._entered(calling):
                start = self._cells.start(rule)
                facts = info(start)
                if facts.edges or facts.tokens:
                    reading.append((start, context))
                for number, after in facts.schemas:
                    schemas[number, (after, context)] = None
        return Closed(tuple(dict.fromkeys(reading)), tuple(schemas), ended, tuple(left))

    def _after_all(self, rule: int, contexts: list[int], before: set[Thread]) -> Sequence[Thread]:
        """The threads after a rule that ended in all these contexts, but for those after its calls from threads of
        `before`, which take in these calls.
        """
        kernels = [self._kernels[context] for context in contexts]
        if len(contexts) == 1 and before.isdisjoint(kernels[0]):
            before.update(kernels[0])
            return self._merged(self.returns(contexts[0], rule))
        kernel = set[Thread]().union(*kernels) - before
        before |= kernel
        return self._merged(self.returns(self._intern(self._without_less(kernel)), rule)) if kernel else ()

    def _merged(self, threads: Sequence[Thread]) -> Sequence[Thread]:
        """The same threads, but one for each state: what began in several contexts goes on in all of them at once, in
        the context that holds what was before any (as the nodes of graph-structured stacks have several below them:
        Tomita, Computational Linguistics 13(1), 1987).
        """
        if len(threads) < 2 or len({state for state, _ in threads}) == len(threads):
            return threads
        merged = []
        for state, contexts in self._by_state(threads).items():
            if len(contexts) == 1 or min(contexts) <= OUTSIDE:
                merged += [(state, context) for context in contexts]
            else:
                merged.append((state, self._union(tuple(sorted(contexts)))))
        return merged

    def _union(self, contexts: tuple[int, ...]) -> int:
        """The context of what began in any of these."""
        found = self._unions.get(contexts)
        if found is None:
            kernel = set[Thread]().union(*[self._kernels[context] for context in contexts])
            found = self._unions[contexts] = self._intern(self._without_less(kernel))
            for context in contexts:
                if context != found:
                    self._parts[found] = self._parts.get(found, 0) | 1 << context | self._parts.get(context, 0)
        return found

    def _without_less(self, threads: Iterable[Thread]) -> tuple[Thread, ...]:
        """A kernel of threads, in order, without those of which others are unions."""
        by_state = self._by_state(threads)
        return tuple(sorted([(state, context) for state, contexts in by_state.items() for context in contexts]))

    def _by_state(self, threads: Iterable[Thread]) -> dict[int, list[int]]:
        """The contexts of threads by state, without those of which others are unions."""
        found = by_state(threads)
        for state, contexts in found.items():
            if len(contexts) > 1:
                less, kept = 0, []
                for context in sorted(set(contexts), reverse=True):  # unions are younger, mostly
                    if not less >> context & 1:
                        kept.append(context)
                        less |= self._parts.get(context, 0)
                found[state] = kept
        return found

    def _find_facts(self, state: int) -> Facts:
        info = self._cells.info(state)
        found = self._facts[state] = (
            bool(info.edges or info.tokens), bool(info.calls), info.final, self._cells.loop(state)[1], info.schemas
        )
        return found

    def _says_no_more(self, state: int, targets: tuple[Thread, ...]) -> bool:
        """Whether a thread reads nothing that those after its rule, where it may end at once, do not read as well.

        So it is with a loop at the end of a rule if the same loop comes after it: x*x* is x*.
        """
        loop, last = self._cells.loop(state)
        return last and all(self._cells.loop(target)[0] == loop for target, _ in targets)

    def beginning(self, state: int) -> tuple[bool, tuple[int, ...]] | None:
        """Of a state where nothing ends and no schema begins: whether it reads, and where the rules begin that do."""
        if state not in self._beginnings:
            facts = [self._cells.info(state)]
            starts = [self._cells.start(rule) for rule in bits_of(self._reached(state))]
            facts += map(self._cells.info, starts)
            plain = facts[0].final < 0 and not any(each.schemas for each in facts)
            reading = tuple(
                start for start, each in zip(starts, facts[1:], strict=True) if each.edges or each.tokens
            )
            self._beginnings[state] = (bool(facts[0].edges or facts[0].tokens), reading) if plain else None
        return self._beginnings[state]

    def returns(self, context: int, rule: int) -> tuple[Thread, ...]:
        """The threads after `rule`, which began in `context`, ended."""
        key = (context, rule)
        found = self._returns.get(key)
        if found is None:
            found = self._returns[key] = tuple(self._find_returns(context, rule))
        return found

    def _find_returns(self, context: int, rule: int) -> dict[Thread, None]:
        found: dict[Thread, None] = {}
        kernel = self._kernels[context]
        if len(kernel) == 1:  # the usual case: what is after the rule there is known from the state alone
            state, outer = kernel[0]
            targets, others = self._after(state, rule)
            if not others:
                return dict.fromkeys([(target, outer) for target in targets])
        for state, outer in kernel:
            for called, after in self._cells.info(state).calls:
                if called == rule:
                    found[after, outer] = None
        # Rules that began at the same place, and call this one before they read anything.
        entered = 0
        for state, _ in kernel:
            entered |= self._reached(state)
        for other in bits_of(entered):
            for called, after in self._cells.info(self._cells.start(other)).calls:
                if called == rule:
                    found[after, self._within(kernel, other)] = None
        return found

    def _after(self, state: int, rule: int) -> tuple[tuple[int, ...], bool]:
        """(where a rule leads that a state calls, whether other rules that begin with it call it as well)."""
        found = self._afters.get((state, rule))
        if found is None:
            info, start = self._cells.info, self._cells.start
            after = tuple(dict.fromkeys([after for called, after in info(state).calls if called == rule]))
            others = any(
                called == rule for other in bits_of(self._reached(state)) for called, _ in info(start(other)).calls
            )
            found = self._afters[state, rule] = (after, others)
        return found

    def _entered(self, calling: Sequence[Thread]) -> list[tuple[int, int]]:
        """The rules that begin, each with its context."""
        reached = [self._reached(state) for state, _ in calling]
        first = reached[0]
        kernel = tuple(sorted(calling))
        if all(bits == first for bits in reached):
            context = self._intern(kernel)
            return [(rule, context) for rule in bits_of(first)]
        every = 0
        for bits in reached:
            every |= bits
        return [(rule, self._within(kernel, rule)) for rule in bits_of(every)]

    def _within(self, kernel: tuple[Thread, ...], rule: int) -> int:
        """The context of `rule` among what began after `kernel`: the part of the kernel that leads to it."""
        return self._intern(tuple([thread for thread in kernel if self._reached(thread[0]) >> rule & 1]))

    def seen_from_within(self, contexts: frozenset[int]) -> tuple[Outer, dict[int, int]] | None:
        """(the threads before all that began in these contexts, what each of them is with those threads outside).

        None if not all began in one place, or if that is outside already. Where a thread's rule calls itself before a
        loop, contexts tell more (see `_same_as`), and a rule that begins with itself may go on wherever it ends.
        """
        found = self._insides.get(contexts)
        if found is None:
            found = self._insides[contexts] = self._find_inside(sorted(contexts)) or ()
        return found or None

    def _find_inside(self, contexts: list[int]) -> tuple[Outer, dict[int, int]] | None:
        oldest, *others = contexts
        kernel = self._kernels[oldest]
        called: set[int] = set()
        for state, context in kernel:
            if context == OUTSIDE or state == self._cells.start(START) or self._looped(state)[0] >= 0:
                return None
            called.update([rule for rule, _ in self._cells.info(state).calls])
        if not called or any(map(self._begins_with_itself, called)):
            return None
        inside = {oldest: self._intern(tuple(sorted([(self._cells.called(rule)[0], OUTSIDE) for rule in called])))}
        for context in others:  # older ones first: those that it stands in
            within = self._kernels[context]
            if not all(outer in inside for _, outer in within):
                return None
            inside[context] = self._intern(tuple(sorted([(place, inside[outer]) for place, outer in within])))
        return kernel, inside

    def _begins_with_itself(self, rule: int) -> bool:
        return bool(self._reached(self._cells.start(rule)) >> rule & 1)

    def around(self, threads: Iterable[Thread], outers: Outer) -> tuple[Thread, ...]:
        """Threads that were seen from within, with what is outside of them."""
        seen: dict[int, int] = {}
        waiting = [inner for _, inner in threads]
        while waiting:
            inner = waiting.pop()
            if inner not in seen and inner != OUTSIDE:
                seen[inner] = -1
                waiting += [other for _, other in self._kernels[inner]]
        for inner in sorted(seen):  # older ones first: those that it stands in
            kernel: set[Thread] = set()
            for place, other in self._kernels[inner]:
                if other == OUTSIDE:
                    kernel.update(outers)
                else:
                    kernel.add((place, seen[other]))
            seen[inner] = self._intern(tuple(sorted(kernel)))
        found: dict[Thread, None] = {}
        for place, inner in threads:
            if inner != OUTSIDE:
                found[place, seen[inner]] = None
                continue
            rule = self._cells.rule(place) - self._cells.rule_count
            for state, context in outers:
                calls = self._cells.info(state).calls
                found |= dict.fromkeys([(after, context) for called, after in calls if called == rule])
        return tuple(found)

    def begun(self, thread: Thread) -> int:
        """The context of what begins after one thread."""
        return self._intern((thread,))

    def _intern(self, kernel: tuple[Thread, ...]) -> int:
        found = self._known.get(kernel)
        if found is None:
            callers = tuple([(self._caller(state), context) for state, context in kernel])
            found = self._same_as(kernel) if callers == kernel else self._intern(tuple(sorted(set(callers))))
            if found < 0:
                found = len(self._kernels)
                self._kernels.append(kernel)
                self.size += len(kernel)
            self._known[kernel] = found
        return found

    def _caller(self, state: int) -> int:
        """A state that calls what this one does: to contexts they are one, as a loop at its first turn and later."""
        found = self._callers.get(state)
        if found is None:
            found = self._callers[state] = self._calling.setdefault(tuple(sorted(self._cells.info(state).calls)), state)
        return found

    def _same_as(self, kernel: tuple[Thread, ...]) -> int:
        """An older context in which what begins after the kernel may as well stand; -1 if there is none.

        So it is where a rule calls itself before a loop at its end, and the same loop comes after the rule: what was
        called may take the place of the caller.
        """
        if len(kernel) != 1:
            return -1
        (state, context), = kernel
        loop = self._loops.get(state)
        if loop is None:
            loop = self._loops[state] = self._looped(state)
        rule, after = loop
        if rule < 0:
            return -1
        targets = self.returns(context, rule)
        return context if targets and self._says_no_more(after, targets) else -1

    def _looped(self, state: int) -> tuple[int, int]:
        """(rule, state after it) if the state's rule calls only itself before a loop at its end; else (-1, -1)."""
        calls = self._cells.info(state).calls
        if len(calls) == 1 and self._reached(state) == 1 << calls[0][0]:
            rule, after = calls[0]
            if self._cells.rule(after) == rule and self._cells.loop(after)[1]:
                return rule, after
        return -1, -1

    def _reached(self, state: int) -> int:
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

    # ---- ways out

    def cost(self, thread: Thread) -> int:
        """About the least number of characters from a thread to the end of the text."""
        local, rule = self._local(thread[0])
        return local + self._out(thread[1], rule)[0]

    def nodes_out(self, thread: Thread) -> tuple[list[int], int]:
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

    def _out(self, context: int, rule: int) -> tuple[int, Thread | None]:
        """The cost after `rule`, which began in `context`, to the end of the text or outside, and the next thread.

        Contexts refer to older ones, or to themselves where a rule begins with others; the cheapest way goes through
        each (context, rule) once, so it is found by relaxing, oldest first.
        """
        if self._is_last(rule):
            return 0, None
        key = (context, rule)
        found = self._costs.get(key)
        if found is not None:
            return found
        order: dict[tuple[int, int], tuple[tuple[int, tuple[int, int], Thread], ...]] = {}
        waiting = [key]
        while waiting:
            pair = waiting.pop()
            if pair in order or pair in self._costs:
                continue
            ways = []
            for thread in self.returns(*pair):
                local, outer = self._local(thread[0])
                target = (thread[1], outer)
                ways.append((local, target, thread))
                if not self._is_last(outer):
                    waiting.append(target)
            order[pair] = tuple(ways)
        best = dict.fromkeys(order, (NEVER, None))  # type: dict[tuple[int, int], tuple[int, Thread | None]]
        pairs = sorted(order)
        changed = True
        while changed:
            changed = False
            for pair in pairs:
                for local, target, thread in order[pair]:
                    beyond = (
                        0 if self._is_last(target[1]) else best[target][0] if target in best else self._costs[target][0]
                    )
                    if local + beyond < best[pair][0]:
                        best[pair] = (local + beyond, thread)
                        changed = True
        self._costs.update(best)
        return self._costs[key]


def _too_ambiguous() -> BudgetError:
    return BudgetError(
        f"the grammar is too ambiguous: more than {MAX_PLACES} places in its rules, or {MAX_THREADS} ways to read the "
        "text, are open at once",
        remedy="let the rules tell what they read apart, as by precedence",
    )
