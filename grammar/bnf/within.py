"""Contexts as they are seen from within, where the threads from before all that goes on wait on the stack, and what
becomes of them when these come back.

Where a rule ends for all that goes on in it, that is a step back to contexts that were there before. Where it may have
ended or not, the contexts in which it is still open come along, and more of them with every frame that is taken from
the stack: grammars in which there are many are not seen from within.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final

from ..errors import BudgetError
from ..regular import CharSet
from .analysis import first_bytes
from .cells import Cells, Info
from .lower import START
from .unions import Thread, Unions, add

if TYPE_CHECKING:
    from .contexts import Contexts

OUTSIDE: Final = 1
"""The context of what waits on the stack: whatever it is, rules that were called from there have `Cells.called` end."""
MAX_AROUND: Final = 1 << 13
"""Contexts that were seen from within and came along, for a whole grammar."""
_HIGH: Final = 8
_MANY: Final = 16
_AHEAD: Final = 2

Outer = tuple[Thread, ...]
"""The threads that wait outside: all that called, in one place of the text, what goes on within."""


class Within:
    """The contexts of one grammar that are seen from within."""

    def __init__(self, contexts: Contexts, cells: Cells, unions: Unions) -> None:
        self._contexts, self._cells, self._unions = contexts, cells, unions
        self._insides: dict[frozenset[int], tuple[Outer, dict[int, int]] | tuple[()]] = {}
        self._around: dict[tuple[int, Outer], int] = {}
        self._staying: dict[tuple[int, int], bool] = {}
        self.is_worth_it = True
        """Whether contexts should be seen from within. Not where many come along with what comes back."""

    @property
    def nbytes(self) -> int:
        """What it takes in memory, roughly."""
        return 300 * len(self._around)

    def seen(self, contexts: frozenset[int]) -> tuple[Outer, dict[int, int]] | None:
        """(the threads before all that began in these contexts, what each of them is with those threads outside).

        None if not all began in one place, or if that is outside already. Where a thread's rule calls itself before a
        loop, contexts tell more (see `Ends.is_idle`), and a rule that begins with itself may go on wherever it ends.
        """
        if not self.is_worth_it:
            return None
        found = self._insides.get(contexts)
        if found is None:
            found = self._insides[contexts] = self._find_inside(sorted(contexts)) or ()
        return found or None

    def _find_inside(self, contexts: list[int]) -> tuple[Outer, dict[int, int]] | None:
        oldest, *others = contexts
        kernel = self._contexts.kernel(oldest)
        called: set[int] = set()
        for state, context in kernel:
            if context == OUTSIDE or state == self._cells.start(START) or self._contexts.looped(state)[0] >= 0:
                return None
            for rule, after in self._cells.info(state).calls:
                if rule == self._cells.rule(state) and self._stays_open(rule, after):
                    return None
                called.add(rule)
        if not called or any(map(self._begins_with_itself, called)):
            return None
        calling = tuple(sorted([(self._cells.called(rule)[0], OUTSIDE) for rule in called]))
        inside = {oldest: self._contexts.intern(calling)}
        for context in others:  # older ones first: those that it stands in
            within = self._contexts.kernel(context)
            if not all(outer in inside for _, outer in within):
                return None
            inside[context] = self._contexts.intern(tuple(sorted([(place, inside[outer]) for place, outer in within])))
        return kernel, inside

    def _begins_with_itself(self, rule: int) -> bool:
        return bool(self._contexts.reached(self._cells.start(rule)) >> rule & 1)

    def _stays_open(self, rule: int, after: int) -> bool:
        """Whether a rule called from within itself may go on, where it may have ended, by characters that may as well
        come after the call: then every call that is open may have ended or not.
        """
        found = self._staying.get((rule, after))
        if found is None:
            states = self._going_on(rule)
            found = self._staying[rule, after] = bool(states) and self._read_alike(states, after, _AHEAD)
        return found

    def _read_alike(self, states: Iterable[int], after: int, ahead: int) -> bool:
        """Whether some characters, and more of them than are looked at, may come in states and in another one too."""
        other = self._cells.info(after)
        for state in states:
            info = self._cells.info(state)
            if not self._first(info) & self._first(other):
                continue
            if not ahead or info.calls or other.calls:
                return True
            for chars, target in info.edges:
                for others, beyond in other.edges:
                    if chars & others and (
                        self._cells.info(target).final >= 0
                        or self._cells.info(beyond).final >= 0
                        or self._read_alike((target,), beyond, ahead - 1)
                    ):
                        return True
        return False

    def _going_on(self, rule: int) -> set[int]:
        """The states in which a rule may go on where it may have ended: by what its own body shows."""
        found = set[int]()
        start = frozenset((self._cells.start(rule),))
        seen = {start}
        waiting = [start]
        for states in waiting:  # grows on the way
            infos = [self._cells.info(state) for state in states]
            if any(info.final == rule for info in infos):
                found |= states
            after: dict[CharSet | int, set[int]] = {}
            for info in infos:
                for called, target in info.calls:
                    after.setdefault(called, set()).add(target)
                for chars, target in info.edges:
                    alike = [each for each in after if isinstance(each, CharSet) and each & chars]
                    targets = {target}.union(*[after.pop(each) for each in alike])
                    after[reduce(or_, alike, chars)] = targets
            new = {frozenset(targets) for targets in after.values()} - seen
            if len(seen) < _MANY:
                seen |= new
                waiting += new
        return found

    def _first(self, info: Info) -> int:
        """The bytes that are read next, here or in what begins here, as bits."""
        found = 0
        for chars, _ in info.edges:
            found |= first_bytes(chars)
        for rule, _ in info.calls:
            found |= self._cells.analysis.first_of(rule)
        return found

    def around(self, threads: Iterable[Thread], outers: Outer) -> tuple[Thread, ...]:
        """Threads that were seen from within, with what is outside of them."""
        found: dict[int, int] = {}
        for place, inner in threads:
            if inner != OUTSIDE:
                add(found, {place: self._around_all(inner, outers)})
                continue
            rule = self._cells.rule(place) - self._cells.rule_count
            for state, context in outers:
                calls = self._cells.info(state).calls
                add(found, self._unions.by_state([(after, context) for called, after in calls if called == rule]))
        return self._contexts.threads(found)

    def _around_all(self, inner: int, outers: Outer) -> int:
        """The contexts, as bits, that are these with what is outside of them."""
        unions, kernel_of = self._unions, self._contexts.kernel
        missing = set[int]()
        waiting = [inner]
        while waiting:
            for single in unions.singles(unions.members(waiting.pop())):
                if single not in missing and single != OUTSIDE and (single, outers) not in self._around:
                    missing.add(single)
                    waiting += [other for _, other in kernel_of(single)]
        if len(missing) > _HIGH:
            self.is_worth_it = False
        if len(self._around) > MAX_AROUND:
            raise BudgetError(
                f"the grammar is too ambiguous: in more than {MAX_AROUND} places of a text rules may have ended or not",
                remedy="let the rules tell what they read apart, and their ends show",
            )
        for single in sorted(missing):  # older ones first: those that it stands in
            kernel: dict[int, int] = {}
            for place, other in kernel_of(single):
                outside = other == OUTSIDE
                add(kernel, unions.by_state(outers) if outside else {place: self._known_around(other, outers)})
            self._around[single, outers] = unions.members(self._contexts.intern(self._contexts.threads(kernel)))
        return self._known_around(inner, outers)

    def _known_around(self, inner: int, outers: Outer) -> int:
        bits = 0
        for single in self._unions.singles(self._unions.members(inner)):
            bits |= self._around[single, outers]
        return bits
