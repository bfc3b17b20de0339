"""Automata of patterns with look-arounds, determinised as they are walked.

A look-behind asks about the text before a gap, so a tracker runs beside the pattern from the start of the text and
knows at each gap whether the look-behind holds there. A look-ahead asks about the text to come, so whoever passes it
takes an obligation along: a run of the look-ahead that must (must not) succeed. What is alive is therefore not a set of
positions but, for each set of obligations, a set of positions; a look-behind that itself looks ahead holds "under
obligations", in disjunctive normal form. Both may be nested in each other in any way.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from typing import NamedTuple, TypeAlias

from ..errors import BudgetError
from . import nodes
from .charset import ALL, WORD, CharSet, partition
from .dfa import INFINITE, LazyDfa, lazy
from .nodes import ANY_GAP, ANYTHING, Look, Node
from .positions import Builder, Positions, bits_of, distances, integer_of

_MAX_ALTERNATIVES = 64
_MAX_LOOKS = 40
_REMEMBERED = 1024


class Obligation(NamedTuple):
    """Look-ahead `look`, begun earlier, is where `runs` says, and must match (or not) what is to come."""

    look: int
    wanted: bool
    runs: Runs


Obligations: TypeAlias = frozenset[Obligation]
Runs: TypeAlias = frozenset[tuple[Obligations, int]]
_FREE: Obligations = frozenset()
_NO_RUNS: Runs = frozenset()


class LookState(NamedTuple):
    """The pattern's runs, and those of each look-behind, in order of their numbers."""

    main: Runs
    trackers: tuple[Runs, ...]


class _Machine:
    """Positions, with the positions of each block of characters, and a mask of those with moves under conditions."""

    def __init__(self, positions: Positions) -> None:
        self.positions = positions
        self.blocks: list[int] = []
        self.conditional = integer_of(list(positions.conditional), len(positions.sets))
        self.universal: Runs = frozenset([(_FREE, positions.universal)])
        self._followers: dict[int, int] = {}
        self._nearest: dict[int, int] = {}

    @lazy
    def _distances(self) -> list[int]:
        return distances(self.positions)

    def nearest(self, bits: int) -> int:
        """The least distance of positions to an end, whatever look-arounds say."""
        found = self._nearest.get(bits)
        if found is None:
            known = self._distances
            if len(self._nearest) >= _REMEMBERED:
                self._nearest.clear()
            found = self._nearest[bits] = min([known[p] for p in bits_of(bits)])
        return found

    def followers(self, bits: int) -> int:
        """`Positions.after`, remembered: asked for with each block of characters in turn."""
        found = self._followers.get(bits)
        if found is None:
            if len(self._followers) >= _REMEMBERED:
                self._followers.clear()
            found = self._followers[bits] = self.positions.after(bits)
        return found


class LookDfa(LazyDfa[LookState]):
    """The texts that `tree` matches from end to end. `split`: word characters matter (see `positions`)."""

    def __init__(self, key: Hashable, name: str, tree: Node, split: bool) -> None:
        looks: dict[Look, int] = {}
        self._main = _Machine(Builder(name, split=split, looks=looks).whole(tree))
        self._machines: list[_Machine] = []
        self._looks: list[Look] = []
        while len(self._looks) < len(looks):  # building a look-around may meet more of them
            if len(looks) > _MAX_LOOKS:
                raise BudgetError(f"{name} has more than {_MAX_LOOKS} look-arounds")
            look = list(looks)[len(self._looks)]
            self._looks.append(look)
            body = nodes.sequence([look.body, ANYTHING] if look.ahead else [ANYTHING, look.body])
            builder = Builder(name, split=split, looks=looks, anywhere=look.ahead)
            self._machines.append(_Machine(builder.whole(body)))
        self._behind = {n: i for i, n in enumerate(n for n, look in enumerate(self._looks) if not look.ahead)}
        self._blocks = self._partition()
        self._kinds = [
            nodes.WORD_AFTER if split and block & WORD is block else nodes.OTHER_AFTER for block in self._blocks
        ]
        start: Runs = frozenset([(_FREE, 1)])
        super().__init__(key, name, LookState(start, (start,) * len(self._behind)))

    def _partition(self) -> list[CharSet]:
        machines = [self._main, *self._machines]
        blocks = partition(chars for machine in machines for chars in machine.positions.sets if chars)
        for machine in machines:
            sets = machine.positions.sets
            for block in blocks:
                members = [p for p, chars in enumerate(sets) if chars & block]
                machine.blocks.append(integer_of(members, len(sets)))
        return blocks

    # States

    def _moves(self, state: LookState) -> Iterable[tuple[CharSet, LookState]]:
        if state.main == self._main.universal:
            return [(ALL, state)]
        moves = []
        for block, chars in enumerate(self._blocks):
            main = self._step(self._main, state.main, block, state.trackers)
            if main == self._main.universal:
                moves.append((chars, LookState(main, ())))
            elif main:
                trackers = tuple(
                    self._step(self._machines[number], state.trackers[index], block, state.trackers)
                    for number, index in self._behind.items()
                )
                moves.append((chars, LookState(main, trackers)))
        return moves

    def _accepts(self, state: LookState) -> bool:
        return state.main == self._main.universal or self._ends(self._main, state.main, state.trackers)

    def universal(self, state: int) -> bool:
        return self._states[state].main == self._main.universal

    def _at_least(self, state: LookState) -> int:
        if self._accepts(state):
            return 0
        return max(1, min([self._main.nearest(bits) for _, bits in state.main], default=INFINITE))

    # Runs

    def _step(self, machine: _Machine, runs: Runs, block: int, trackers: tuple[Runs, ...]) -> Runs:
        """Where `runs` are after a character of a block; `trackers` are as of the gap before it."""
        positions = machine.positions
        here = machine.blocks[block]
        found: dict[Obligations, int] = {}
        for obligations, bits in runs:
            remaining = self._advance(obligations, block, trackers)
            if remaining is None:
                continue
            following = machine.followers(bits) & here
            if following:
                found[remaining] = found.get(remaining, 0) | following
            for position in bits_of(bits & machine.conditional):
                for condition, targets in positions.conditional[position]:
                    if targets & here:
                        for added in self._hold(machine, position, condition, self._kinds[block], trackers):
                            more = self._advance(added, block, trackers)
                            if more is not None:
                                joint = remaining | more
                                found[joint] = found.get(joint, 0) | targets & here
        return self._reduced(machine, found)

    def _reduced(self, machine: _Machine, found: dict[Obligations, int]) -> Runs:
        """Without the runs that others with fewer obligations make superfluous."""
        universal = machine.positions.universal
        for obligations, bits in found.items():
            if bits & universal:
                if not obligations:
                    return machine.universal
                found[obligations] = universal
        if len(found) > 1:
            for fewer, bits in list(found.items()):
                for more in found:
                    if fewer < more:
                        found[more] &= ~bits
        return frozenset((obligations, bits) for obligations, bits in found.items() if bits)

    def _advance(self, obligations: Obligations, block: int, trackers: tuple[Runs, ...]) -> Obligations | None:
        """The obligations after one more character; None if one is broken."""
        if not obligations:
            return obligations
        found = []
        for look, wanted, runs in obligations:
            machine = self._machines[look]
            after = self._step(machine, runs, block, trackers)
            matched = after == machine.universal
            if matched or not after:
                if matched != wanted:
                    return None
            else:
                found.append(Obligation(look, wanted, after))
        return frozenset(found)

    # Conditions at a gap

    def _hold(
        self, machine: _Machine, position: int, condition: int, after: int, trackers: tuple[Runs, ...]
    ) -> list[Obligations]:
        """The sets of obligations any of which makes the look-arounds of `condition` hold after `position`."""
        alternatives = [_FREE]
        for look in bits_of(condition >> ANY_GAP.bit_length()):
            alternatives = _conjunction(alternatives, self._holds(machine, position, look, after, trackers))
        return alternatives

    def _holds(
        self, machine: _Machine, position: int, number: int, after: int, trackers: tuple[Runs, ...]
    ) -> list[Obligations]:
        look = self._looks[number]
        if look.ahead:
            start = frozenset([(_FREE, 1 << _kind(machine.positions, position))])
            return [frozenset([Obligation(number, not look.negative, start)])]
        tracker = self._machines[number]
        seen = list(self._ended(tracker, trackers[self._behind[number]], after, trackers))
        if not look.negative:
            return list(dict.fromkeys(seen))
        alternatives = [_FREE]
        for obligations in set(seen):
            denied = [frozenset([Obligation(o.look, not o.wanted, o.runs)]) for o in obligations]
            alternatives = _conjunction(alternatives, denied)
        return alternatives

    def _ended(
        self, machine: _Machine, runs: Runs, after: int, trackers: tuple[Runs, ...]
    ) -> Iterator[Obligations]:
        """Under which obligations `runs` have come to an end, at a gap before a character of kind `after`."""
        last, conditional = machine.positions.ends[after]
        for obligations, bits in runs:
            if bits & last:
                yield obligations
            for position, conditions in conditional.items():
                if bits >> position & 1:
                    for condition in conditions:
                        for added in self._hold(machine, position, condition, after, trackers):
                            yield obligations | added

    def _ends(self, machine: _Machine, runs: Runs, trackers: tuple[Runs, ...]) -> bool:
        """Whether `runs` accept at the end of the text, all obligations met."""
        return any(
            all(self._ends(self._machines[o.look], o.runs, trackers) == o.wanted for o in obligations)
            for obligations in self._ended(machine, runs, nodes.END, trackers)
        )


def _kind(positions: Positions, position: int) -> int:
    """The start of a look-ahead for a gap after `position`: they are numbered by the kind of gap."""
    if position == 0:
        return nodes.START
    return nodes.WORD_BEFORE if positions.words >> position & 1 else nodes.OTHER_BEFORE


def _conjunction(left: list[Obligations], right: list[Obligations]) -> list[Obligations]:
    found = list(dict.fromkeys(a | b for a in left for b in right))
    if len(found) > _MAX_ALTERNATIVES:
        raise BudgetError("a look-behind that looks ahead has too many ways to hold")
    return found
