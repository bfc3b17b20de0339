"""Sets of contexts as bits: what began in several places and goes on alike is one, below which all of them wait.

A set is a context itself, a *union*, as the nodes of graph-structured stacks have several below them (Tomita,
Computational Linguistics 13(1), 1987). Members whose every way on another member has too are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeVar

import numpy as np

from ..errors import BudgetError

MAX_MEMBERS: Final = 1 << 14
"""Contexts in a union: ways to read a text that end in one place of it."""
_SPARSE: Final = 64
_RECENT: Final = 32
_MANY: Final = 4096
_FEW: Final = 8

Thread = tuple[int, int]
"""(state, context)."""
ByState = Mapping[int, int]
"""By state: the contexts that it is in, as bits."""
Compare = Callable[[int, int, int], tuple[bool, bool] | None]
"""Of a rule and two contexts, by their places: whether all ways on after the rule in the first one are some in the
second one, and the other way round. None: to be asked again later.
"""
RESERVED: Final = 3
"""The first two contexts, as bits: no other ones stand beside them."""
_NEIGHBOURS: Final = 2
_NOTHING: Final[ByState] = {}
T = TypeVar("T")


class Order:
    """What is known of the contexts in which one rule began: where all ways on after it are some of another's.

    A context is compared once, when it is first in a union, with those next to it.
    """

    def __init__(self, compare: Compare, rule: int, replace: Callable[[int], None]) -> None:
        """`replace`: is told which contexts another one stands for, as bits."""
        self._compare, self._rule, self._replace = compare, rule, replace
        self._less: dict[int, int] = {}
        self._more: dict[int, int] = {}
        self._same: dict[int, int] = {}
        self._with_less = self._with_more = self._with_same = self._in_less = self._in_more = 0
        self._compared = RESERVED
        self._known: dict[int, int] = {}
        self._recent: list[tuple[int, int]] = []

    def lean(self, bits: int) -> int:
        """The members that the others do not make needless."""
        found = self._known.get(bits)
        if found is None:
            if len(self._known) > _MANY:
                self._known.clear()
            found = self._without_needless(bits)
            if bits & bits - 1 and bits & ~self._compared:
                return found
            self._known[bits] = found
            if found not in self._known:
                self._known[found] = found
                self._recent.insert(0, (found, found))
                del self._recent[_RECENT:]
        return found

    def holds(self, bits: int, others: int) -> bool:
        """Whether all that goes on in `others` is seen to go on in `bits` as well."""
        others &= ~bits
        if others & ~(self._in_less | self._with_more) or others.bit_count() > _FEW:
            return False
        large, some = 0, bits & self._with_less
        for _ in range(_FEW):  # the newest ones
            if not some or not others & ~large:
                break
            place = some.bit_length() - 1
            some ^= 1 << place
            large |= self._less[place]
        return all(self._more.get(place, 0) & bits for place in positions(others & ~large))

    def _without_needless(self, bits: int) -> int:
        if bits & bits - 1:
            for place in positions(bits & ~self._compared):
                if self._note(place, bits & (1 << place) - 1 & ~RESERVED):
                    self._compared |= 1 << place
        for place in positions(bits & self._with_same):
            bits = bits & ~(1 << place) | self._same[place]
        lean, _ = _largest(self._recent, bits, 0)  # of its members the others among it leave all
        others = bits & ~lean
        some = (bits if others & self._in_less else others) & self._with_less
        while some:
            place = some.bit_length() - 1
            kept = ~self._less[place]
            bits &= kept
            some &= kept ^ 1 << place
        some = (bits if others & self._in_more else others) & self._with_more
        for place in reversed(positions(some & bits)):
            if bits & self._more[place]:
                bits ^= 1 << place
        return bits

    def _note(self, place: int, older: int) -> bool:
        """Compares a context with the next older ones, and the oldest one. False: that is to be done later."""
        less = more = 0
        chosen = older & -older
        for _ in range(_NEIGHBOURS):
            if older:
                chosen |= 1 << older.bit_length() - 1
                older ^= 1 << older.bit_length() - 1
        for other in reversed(positions(chosen)):
            found = self._compare(self._rule, place, other)
            if found is None:
                return False
            within, around = found
            if within and around:
                self._same[place] = self._same.get(other, 1 << other)
                self._with_same |= 1 << place
                self._replace(1 << place)
                return True
            if within:
                more |= 1 << other | self._more.get(other, 0)
            if around:
                less |= 1 << other | self._less.get(other, 0)
        if less:
            self._less[place] = less
            self._with_less |= 1 << place
            self._in_less |= less
        if more:
            self._more[place] = more
            self._with_more |= 1 << place
            self._in_more |= more
        return True


class Unions:
    """The numbers of contexts, and their members: one that is no union has a bit of its own, and is its only member."""

    def __init__(self, rule: Callable[[int], int]) -> None:
        """`rule`: the rule at whose end a state's way ends."""
        self._rule = rule
        self._compare: Compare = _tell_nothing
        self._members: list[int] = []
        self._singles: list[int] = []
        self._known: dict[int, int] = {}
        self._orders: dict[int, Order] = {}
        self._replaced = 0  # the contexts for which others stand in some rule, as bits
        self.nbytes = 0
        """What the sets take in memory, roughly."""

    def __len__(self) -> int:
        return len(self._members)

    def add(self) -> int:
        """A new context that is no union."""
        bits = 1 << len(self._singles)
        self._singles.append(len(self._members))
        return self._new(bits)

    def members(self, context: int) -> int:
        """The members of a context, as bits."""
        return self._members[context]

    def singles(self, bits: int) -> Iterator[int]:
        """The contexts whose bits are set, oldest first."""
        return map(self._singles.__getitem__, positions(bits))

    def is_union(self, context: int) -> bool:
        """Whether a context has several members."""
        bits = self._members[context]
        return bits & bits - 1 != 0

    def by_state(self, threads: Iterable[Thread]) -> dict[int, int]:
        """Threads by state."""
        found: dict[int, int] = {}
        for state, context in threads:
            found[state] = found.get(state, 0) | self._members[context]
        return found

    def of(self, state: int, bits: int) -> int:
        """The context that stands for these in a state."""
        bits = self.lean(state, bits)
        found = self._known.get(bits)
        return self._new(bits) if found is None else found

    def lean(self, state: int, bits: int) -> int:
        """The contexts but for those that others make needless in a state."""
        if not bits & bits - 1 and not bits & self._replaced:
            return bits
        return self.order(self._rule(state)).lean(bits)

    def compare_by(self, compare: Compare) -> None:
        """Sets how contexts are compared."""
        self._compare = compare

    def order(self, rule: int) -> Order:
        """What is known of a rule."""
        found = self._orders.get(rule)
        if found is None:
            found = self._orders[rule] = Order(self._compare, rule, self._replace)
        return found

    def _replace(self, bits: int) -> None:
        self._replaced |= bits

    def _new(self, bits: int) -> int:
        if bits.bit_count() > MAX_MEMBERS:
            raise BudgetError(
                f"the grammar is too ambiguous: {MAX_MEMBERS} ways to read the text are open at once",
                remedy="let the rules tell what they read apart, as by precedence",
            )
        found = self._known[bits] = len(self._members)
        self._members.append(bits)
        self.nbytes += (bits.bit_length() >> 3) + 200
        return found


class Additive:
    """A function of contexts that for a union is what it is for all members together.

    The last unions are remembered: where a text can be read in many ways, the next one is one of them and a few more.
    """

    def __init__(self, unions: Unions, of_single: Callable[[int, int], ByState]) -> None:
        self._unions, self._of_single = unions, of_single
        self._recent: dict[int, list[tuple[int, ByState]]] = {}

    def __call__(self, bits: int, rule: int) -> ByState:
        """What it is for all contexts of a set."""
        if not bits & bits - 1:
            return self._of_single(next(self._unions.singles(bits)), rule)
        recent = self._recent.setdefault(rule, [])
        most, begun = _largest(recent, bits, _NOTHING)
        if most == bits:
            return begun
        together = dict(begun)
        for context in self._unions.singles(bits & ~most):
            add(together, self._of_single(context, rule))
        recent.insert(0, (bits, together))
        del recent[_RECENT:]
        return together


def _tell_nothing(rule: int, new: int, old: int) -> None:
    return None


def _largest(recent: list[tuple[int, T]], bits: int, nothing: T) -> tuple[int, T]:
    """Of sets with what is known of them, the largest one that is a part of `bits`."""
    most, begun = 0, nothing
    for known, found in recent:
        if not known & ~bits and known.bit_count() > most.bit_count():
            most, begun = known, found
    return most, begun


def add(found: dict[int, int], more: ByState) -> None:
    """Adds the contexts of each state."""
    for state, bits in more.items():
        found[state] = found.get(state, 0) | bits


def positions(bits: int) -> list[int]:
    """The positions of the set bits, lowest first."""
    if bits.bit_count() > _SPARSE:
        data = np.frombuffer(bits.to_bytes(bits.bit_length() + 7 >> 3, "little"), np.uint8)
        return np.flatnonzero(np.unpackbits(data, bitorder="little")).tolist()
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found
