"""The automaton of a position automaton: sets of positions, determinised as they are reached."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable

from .charset import ALL, EMPTY_SET, CharSet, partition
from .dfa import INFINITE, LazyDfa, Step, lazy
from .positions import Positions, bits_of, distances, integer_of

_MAX_LONGEST = 4096
_MAX_PASSES = 40
_MAX_BYTES = 100_000_000


class PositionDfa(LazyDfa[int]):
    """States are the sets of positions just read, as integers; no state is dead, since no position is.

    Where the positions are `plain` (few, and certainly all of them on a way from the start to an end), they are built
    when a text comes to them: many patterns are of keys and values that no text of a request has.
    """

    def __init__(self, key: Hashable, name: str, build: Callable[[], Positions], *, plain: bool) -> None:
        super().__init__(key, name, 1)
        self._build = build
        self._plain = plain
        if not plain:
            self._most_states = min(self._most_states, _MAX_BYTES // (len(self._positions.sets) // 8 + 500))

    @lazy
    def _positions(self) -> Positions:
        return self._build()

    @lazy
    def _universal(self) -> int:
        return self._positions.universal

    def _accepts(self, state: int) -> bool:
        return bool(state & self._positions.last)

    def universal(self, state: int) -> bool:
        return bool(self._states[state] & self._universal)

    @lazy
    def alphabet(self) -> CharSet:
        found = EMPTY_SET
        for chars in dict.fromkeys(self._positions.sets):
            found = found | chars
        return found

    @lazy
    def _blocks(self) -> list[tuple[CharSet, int]]:
        """A partition of the characters, each block with the positions that hold it."""
        sets = self._positions.sets
        members: dict[CharSet, list[int]] = {}
        alive = self._alive
        for position, chars in enumerate(sets):
            if chars and (alive is None or alive >> position & 1):
                members.setdefault(chars, []).append(position)
        of_set = {chars: integer_of(found, len(sets)) for chars, found in members.items()}
        blocks = []
        for block in partition(of_set):
            bits = 0
            for chars, positions in of_set.items():
                if chars & block:
                    bits |= positions
            blocks.append((block, bits))
        return blocks

    def _moves(self, state: int) -> Iterable[tuple[CharSet, int]]:
        if state & self._universal:
            return ((ALL, state),)
        following = self._positions.after(state)
        return [(block, self._target(following & bits)) for block, bits in self._blocks if following & bits]

    def _target(self, state: int) -> int:
        return self._universal if state & self._universal else state

    def step(self, state: int) -> Step:
        found = self._live_moves[state]
        if found is None:
            with self._lock:
                found = self._live_moves[state] = self._raw(state)
        return found

    @lazy
    def _start(self) -> int | None:
        return self._number(1) if self._plain or self._alive is None or self._alive & 1 else None

    @lazy
    def _alive(self) -> int | None:
        """The positions from where an end can be reached; None if that is all of them."""
        if self._positions.exact:
            return None
        distances = self._position_distances
        return integer_of([p for p, d in enumerate(distances) if d < INFINITE], len(distances))

    @lazy
    def _position_distances(self) -> list[int]:
        return distances(self._positions)

    def shortest(self, state: int) -> int:
        found = self._distances.get(state)
        if found is None:
            distances = self._position_distances
            found = self._distances[state] = min(distances[p] for p in bits_of(self._states[state]))
        return found

    def near(self, state: int) -> int:
        return self.shortest(state)

    def longest(self, state: int) -> int:
        known = self._position_longest
        return max(known[p] for p in bits_of(self._states[state])) if known else INFINITE

    @lazy
    def _position_longest(self) -> list[int]:
        """The longest way from each position to an end; INFINITE on or before a loop. Empty: too many to say."""
        follow, count = self._positions.follow, len(self._positions.sets)
        if count > _MAX_LONGEST or self._alive is not None:
            return []
        found = [-1] * count
        stack = [0]
        pending: set[int] = set()
        while stack:
            position = stack[-1]
            shift, bits = follow[position]
            targets = [p + shift for p in bits_of(bits)]
            if position in pending:
                stack.pop()
                if found[position] < 0:
                    found[position] = max((min(found[t] + 1, INFINITE) for t in targets), default=0)
                    if any(found[t] < 0 for t in targets):
                        found[position] = INFINITE
                continue
            pending.add(position)
            for target in targets:
                if found[target] < 0:
                    if target in pending:
                        found[position] = INFINITE  # a loop: it and all before it have no longest way
                    else:
                        stack.append(target)
        return found

    @lazy
    def countable(self) -> bool:
        return self._positions_gap_free() or super().countable

    def _positions_gap_free(self) -> bool:
        """Whether each position ends at every length from its shortest up; then so does every set of them.

        The reasoning is that of `dfa._gap_free`, over positions.
        """
        if self._alive is not None:
            return False
        positions = self._positions
        follow = [bits << shift for shift, bits in positions.follow] if len(positions.sets) <= _MAX_LONGEST else []
        if not follow:
            return False
        good = positions.last
        for _ in range(_MAX_PASSES):
            before = good
            for position in reversed(bits_of(good)):
                if not follow[position] & good:
                    good ^= 1 << position
            if good == before:
                break
        else:
            return False
        level, distance = good, 0
        distances = self._position_distances
        order = sorted(range(len(follow)), key=distances.__getitem__)
        here = 0
        for position in order:
            if distances[position] == 0:
                if not good >> position & 1:
                    return False
                continue
            if distances[position] > distance + 1:
                level, here, distance = here, 0, distance + 1
            if not follow[position] & level:
                return False
            here |= 1 << position
        return True
