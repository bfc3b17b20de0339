"""How long the shortest values are, so that a text can be brought to its end by the nearest way.

Lengths are characters of compact JSON. They are least fixpoints like emptiness: the shortest value never contains
another of its own kind. Where an exact minimum would need a search over orders, a well-founded choice is enough: what
matters is that following the least cost always comes nearer to the end.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Protocol

from ..regular import Dfa, NumberSpec
from ..schema.values import Canonical
from .arrays import ArrayProgress, ArrayView, Seen
from .brief import shortest
from .clauses import ArrayClause, ObjectClause
from .cycles import Fixpoint
from .goals import Goal, Goals
from .objects import ObjectView, Progress, bits
from .scalars import Numbers, Strings

FAR = 1 << 30
FEW = 32
CLAUSE_STEPS = 30
"""What a look at a clause of objects costs, in steps of the effort."""
TOO_MANY = 16_000  # items that must come: no text so long is written


class Forms(Protocol):
    """What costs are computed from."""

    goals: Goals

    def strings(self, goal: Goal) -> Strings: ...
    def numbers(self, goal: Goal) -> Numbers: ...
    def literals(self, goal: Goal) -> frozenset[str]: ...
    def objects(self, goal: Goal) -> tuple[ObjectClause, ...]: ...
    def arrays(self, goal: Goal) -> tuple[ArrayClause, ...]: ...
    def values(self, goal: Goal, limit: int) -> list[Canonical] | None: ...


class Views(Protocol):
    """Where views of clauses and automata of numbers come from."""

    def object_view(self, clause: ObjectClause) -> ObjectView: ...
    def array_view(self, clause: ArrayClause) -> ArrayView: ...
    def number_dfa(self, spec: NumberSpec) -> Dfa: ...


class Costs:
    """Lengths of shortest values and of shortest ways to finish containers."""

    def __init__(self, forms: Forms, views: Views) -> None:
        self._forms = forms
        self._views = views
        self._memo: Fixpoint[Hashable, int] = Fixpoint(
            forms.goals.depth, FAR
        )  # one for all, since their cycles run through each other

    def value(self, goal: Goal) -> int:
        """The length of a shortest value of `goal`; FAR if there is none."""
        return shortest(goal) or self._memo.get(goal, lambda: self._value(goal))

    def object(self, view: ObjectView, progress: Progress) -> int:
        """The length of a shortest way to finish an object from here, its brace included."""
        return self._memo.get((view, progress), lambda: self._object(view, progress))

    def property(self, view: ObjectView, progress: Progress, symbol: int) -> int:
        """The same, when a property with this key comes next."""
        best = FAR
        for goal, after in view.options(progress, symbol):
            if after.rivals and best < FAR:
                break  # to differ at once costs a character more than to differ later, and is one way, not hundreds
            best = min(best, self.value(goal) + self.object(view, after))
        return min(FAR, 4 + view.key_length(symbol) + best)

    def array(self, view: ArrayView, progress: ArrayProgress, seen: Seen) -> int:
        """The length of a shortest way to finish an array from here, its bracket included."""
        return self._memo.get((view, progress, seen), lambda: self._array(view, progress, seen))

    def _value(self, goal: Goal) -> int:
        best = min((len(name) for name in self._forms.literals(goal)), default=FAR)
        for language in self._forms.strings(goal):
            best = min(best, 2 + max(language.low, language.dfa.near(language.dfa.start or 0)))
        for spec in self._forms.numbers(goal):
            dfa = self._views.number_dfa(spec)
            if dfa.start is not None:
                best = min(best, dfa.shortest(dfa.start))
        if best <= 2:
            return best
        for array in self._forms.arrays(goal):
            view = self._views.array_view(array)
            if view.satisfiable():
                best = min(best, 1 + self.array(view, view.start, ()))
        for clause in self._forms.objects(goal):
            self._forms.goals.effort.pass_time(CLAUSE_STEPS)
            shape = self._views.object_view(clause)
            if shape.satisfiable():
                best = min(best, 1 + self.object(shape, shape.start))
        return best

    def _object(self, view: ObjectView, progress: Progress) -> int:
        if view.closable(progress):
            return 1
        if view.plain and not progress.against:
            return min(FAR, 1 + self._missing(view, progress))
        allowed = view.allowed(progress)
        pending = view.pending(progress) & allowed
        if pending:  # the order of what must come does not matter, so one of them stands for all
            return self.property(view, progress, bits(pending)[0])
        if progress.denied:
            return self._undenied(view, progress)
        if progress.rivals:
            return min((self.property(view, progress, symbol) for symbol in bits(allowed)), default=FAR)
        now = view.fewest(progress)
        return min(
            (
                self.property(view, progress, symbol)
                for symbol in bits(allowed)
                if any(view.fewest(after) < now for _, after in view.options(progress, symbol))
            ),
            default=FAR,
        )

    def _undenied(self, view: ObjectView, progress: Progress) -> int:
        """Where no key must come, but a denied clause holds: by a property that rids the object of one such clause."""
        met = view.met(progress)
        best: tuple[int, int, int, Progress] | None = None
        for symbol in bits(view.remedies(progress, view.allowed(progress))):
            for goal, after in view.options(progress, symbol):
                length = 4 + view.key_length(symbol) + self.value(goal)
                fewer = (after.denied & met).bit_count(), after.denied.bit_count(), view.fewest(after)
                if after != progress and length < FAR:
                    found = fewer[0], fewer[1] + fewer[2], length, after
                    best = found if best is None else min(best, found)
        return FAR if best is None else min(FAR, best[2] + self.object(view, best[3]))

    def _missing(self, view: ObjectView, progress: Progress) -> int:
        """Of a clause without demands beside required keys and a number: those keys, and the shortest of the others."""
        pending = view.pending(progress)
        total = self._required(view, pending)
        more = view.low - progress.size - pending.bit_count()
        if more > 0:
            others = bits(view.available(progress) & ~pending)  # in schema order they may come after what is pending
            total += more * min((4 + view.key_length(s) + self.value(view.goal(s)) for s in others), default=FAR)
        return total

    def _required(self, view: ObjectView, pending: int) -> int:
        """The sum over keys that must come; where there are many, that of most is known from the property before."""
        if pending.bit_count() <= FEW:
            return sum([self._member(view, symbol) for symbol in bits(pending)])

        def key(left: int) -> Hashable:
            # As bytes: integers of adjacent bits have one of 61 hashes, however many there are.
            return view, left.to_bytes(-(-left.bit_length() // 8), "little")

        def total(left: int) -> int:
            if not left:
                return 0
            first = (left & -left).bit_length() - 1
            return self._memo.get(key(left), lambda: self._member(view, first) + total(left & left - 1))

        if key(pending) not in self._memo:
            left = 0
            for symbol in reversed(bits(pending)):  # one after the other, so that no recursion is deep
                left |= 1 << symbol
                total(left)
        return total(pending)

    def _member(self, view: ObjectView, symbol: int) -> int:
        return 4 + view.key_length(symbol) + (view.brief(symbol) or self.value(view.goal(symbol)))

    def _items(self, view: ArrayView, at: int) -> int:
        """The sum over items that must come from index `at` on, where items are not counted."""
        stop = min(view.low, view.tail)
        rest = view.low - max(at, view.tail)
        total = rest * (1 + self.value(view.goal(view.tail))) if rest > 0 else 0
        if stop - at <= FEW:
            return total + sum([1 + self.value(view.goal(i)) for i in range(at, stop)])

        def following(i: int) -> int:
            if i == stop:
                return 0
            return self._memo.get((view, "from", i), lambda: 1 + self.value(view.goal(i)) + following(i + 1))

        if (view, "from", at) not in self._memo:
            for i in range(stop - 1, at - 1, -1):  # from the end, so that no recursion is deep
                following(i)
        return total + following(at)

    def _array(self, view: ArrayView, progress: ArrayProgress, seen: Seen) -> int:
        if view.still(progress) > TOO_MANY:
            return FAR
        total = 1
        if view.repeats and not progress.repeated:  # an item like one that is there, or two alike
            total += (1 if seen else 2) * (1 + self.value(view.goal(progress.length)))
            progress = progress._replace(repeated=True)
        while not view.closable(progress):
            if view.plain and not progress.rivals:
                return min(FAR, total + self._items(view, progress.length))
            wanted = view.wanted(progress)
            if wanted is not None:
                more = max(0, view.low - progress.length - sum(count for count, _ in wanted))
                items = [*wanted, (more, view.goal(view.tail))] if more else wanted
                return min(FAR, total + sum(count * (1 + self.value(goal)) for count, goal in items))
            options: list[tuple[int, int, ArrayProgress, Goal]] = []
            for goal, after in view.options(progress, seen):
                if after.rivals and options:
                    break  # as with properties
                if (cost := self.value(goal)) < FAR:
                    options.append((view.still(after), cost, after, goal))
            if not options:
                return FAR
            _, cost, progress, goal = min(options, key=lambda option: option[:2])
            total += 1 + cost
            if view.records:
                known = self._forms.values(goal, 1)
                seen = (*seen, *known) if known else seen
        return total
