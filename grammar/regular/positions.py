"""Position automata (Glushkov): regular expressions as sets of positions held in Python integers.

Every character of the expression is a position; a state of the automaton is the set of positions just read. A set of
positions is an integer, so a step is a few word operations. There are no empty moves: what may follow a position is
computed once, bottom up.

Assertions about the characters on both sides of a gap (`^ $ \\b \\B`) vanish in this construction: positions are split
into word characters and others, so a gap between two positions has a known kind, and a move exists or not. Look-arounds
stay as conditions on moves (`Positions.conditional`) for the automaton of `lookaround`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import BudgetError
from . import nodes
from .charset import EMPTY_SET, WORD, CharSet
from .dfa import INFINITE
from .nodes import ANY_GAP, Assert, Chars, Choice, Look, Node, Repeat, Sequence

MAX_POSITIONS = 30_000
MAX_LINKS = 1_500_000
_MAX_UNIVERSAL = 500
_MANY_BITS = 256

# A condition on a gap: the lower nine bits are the kinds of gap allowed, the bits above name look-arounds that must
# hold there. Conditions at the same gap are conjoined.
Condition = int
ALWAYS: Condition = ANY_GAP
_LOOKS = 9


def both(a: Condition, b: Condition) -> Condition:
    """The conjunction of two conditions."""
    return (a & b & ANY_GAP) | ((a | b) & ~ANY_GAP)


@dataclass(slots=True)
class Fragment:
    """The positions of a part: conditions under which it is empty, and by condition those it can begin and end with."""

    empty: list[Condition]
    first: dict[Condition, int]
    last: dict[Condition, int]


Ends = tuple[int, dict[int, list[Condition]]]


@dataclass(slots=True)
class Positions:
    """A whole expression. The first `starts` positions hold no character: a text starts there.

    `follow[p]` is (shift, bits): the positions that may come after p are bits << shift. Shifted, because positions
    mostly lead to their neighbours, and an expression may have tens of thousands.
    `ends[k]` are the positions after which the expression may end where a gap's other side is k (`END`, ...), and those
    that may under look-arounds; `conditional` are more moves, under look-arounds.
    """

    sets: list[CharSet]
    follow: list[tuple[int, int]]
    ends: list[Ends]
    words: int  # positions of word characters, if the expression asks for them
    exact: bool  # every position is on a way from the start to an end
    universal: int  # positions from where every text is accepted
    conditional: dict[int, list[tuple[Condition, int]]]

    @property
    def last(self) -> int:
        """The positions a text may end with."""
        return self.ends[nodes.END][0]

    def after(self, bits: int) -> int:
        """The positions that may come after some, look-arounds aside, whatever the next character."""
        following = 0
        for position in bits_of(bits):
            shift, targets = self.follow[position]
            following |= targets << shift
        return following


class Builder:
    """Builds `Positions` from a tree. `looks` numbers the look-arounds met, for `conditional`."""

    def __init__(self, name: str, *, split: bool, looks: dict[Look, int] | None = None, anywhere: bool = False) -> None:
        """`anywhere`: the expression starts at any gap, not just at the start of the text; its starts are then the
        positions START, WORD_BEFORE and OTHER_BEFORE, by the kind of gap."""
        self.name = name
        self.split = split
        self.starts = 0b111 if anywhere else 1
        self.sets: list[CharSet] = [EMPTY_SET] * self.starts.bit_count()
        self.follow: list[tuple[int, int]] = [(0, 0)] * len(self.sets)
        self.conditional: dict[int, list[tuple[Condition, int]]] = {}
        self.looks = {} if looks is None else looks
        self.words = self.starts & 1 << nodes.WORD_BEFORE
        self.links = 0
        self.pruned = False

    def whole(self, node: Node) -> Positions:
        """The position automaton of all of `node`: the text from end to end."""
        part = self.part(node)
        self.link({ALWAYS: self.starts}, part.first)
        final = dict(part.last)
        for condition in part.empty:
            _add(final, condition, {ALWAYS: self.starts})
        plain = final.keys() <= {ALWAYS}
        ends: list[Ends] = [(final.get(ALWAYS, 0), {})] * 3 if plain else [self.ends(final, kind) for kind in range(3)]
        universal = self.universal(node, ends[nodes.END][0])
        exact = plain and not self.pruned and not self.conditional
        return Positions(self.sets, self.follow, ends, self.words, exact, universal, self.conditional)

    def ends(self, final: dict[Condition, int], after: int) -> Ends:
        """Of the positions that may end the expression by condition, those that may before a gap's other side."""
        last = 0
        conditional: dict[int, list[Condition]] = {}
        for condition, bits in final.items():
            if condition == ALWAYS:
                last |= bits
                continue
            for position in bits_of(bits):
                if condition >> 3 * self.kind(position) + after & 1:
                    if condition & ~ANY_GAP:
                        conditional.setdefault(position, []).append(condition | ANY_GAP)
                    else:
                        last |= 1 << position
        return last, conditional

    def kind(self, position: int) -> int:
        """The kind of a gap after `position`."""
        if position == 0:
            return nodes.START
        return nodes.WORD_BEFORE if self.words >> position & 1 else nodes.OTHER_BEFORE

    def universal(self, node: Node, last: int) -> int:
        """The positions of a trailing "anything", from where every text is accepted, and those as good as they."""
        end = node.parts[-1] if isinstance(node, Sequence) and node.parts else node
        if end != nodes.ANYTHING:
            return 0
        count = 2 if self.split else 1
        found = loop = ((1 << count) - 1) << len(self.sets) - count
        if last.bit_count() <= _MAX_UNIVERSAL:
            for position in bits_of(last):
                shift, bits = self.follow[position]
                if (bits << shift) & loop == loop:
                    found |= 1 << position
        return found

    def part(self, node: Node) -> Fragment:
        if isinstance(node, Chars):
            return self.chars(node.set)
        if isinstance(node, Sequence):
            if not node.parts:
                return Fragment([ALWAYS], {}, {})
            found = self.part(node.parts[0])
            for piece in node.parts[1:]:
                found = self.joined(found, self.part(piece))
            return found
        if isinstance(node, Choice):
            return self.union([self.part(piece) for piece in node.parts])
        if isinstance(node, Repeat):
            return self.repeated(node)
        self.pruned = True
        if isinstance(node, Assert):
            return Fragment([node.gaps] if node.gaps else [], {}, {})
        number = self.looks.setdefault(node, len(self.looks))
        return Fragment([ALWAYS | 1 << _LOOKS + number], {}, {})

    def chars(self, chars: CharSet) -> Fragment:
        pieces = [chars & WORD, chars - WORD] if self.split else [chars]
        bits = 0
        for piece in pieces:
            if piece:
                position = len(self.sets)
                self.reserve(1)
                self.sets.append(piece)
                self.follow.append((0, 0))
                bits |= 1 << position
                if self.split and piece & WORD is piece:
                    self.words |= 1 << position
        self.pruned = self.pruned or not bits
        ends = {ALWAYS: bits} if bits else {}
        return Fragment([], ends, ends)

    def reserve(self, count: int) -> None:
        if len(self.sets) + count > MAX_POSITIONS:
            raise BudgetError(f"{self.name} needs more than {MAX_POSITIONS} positions")

    def joined(self, left: Fragment, right: Fragment) -> Fragment:
        self.link(left.last, right.first)
        first, last = left.first, right.last
        if left.empty:
            first = dict(first)
            for condition in left.empty:
                _add(first, condition, right.first)
        if right.empty:
            last = dict(last)
            for condition in right.empty:
                _add(last, condition, left.last)
        return Fragment(_conjunctions(left.empty, right.empty) if left.empty and right.empty else [], first, last)

    def union(self, parts: list[Fragment]) -> Fragment:
        found = Fragment([], {}, {})
        for part in parts:
            found.empty += [condition for condition in part.empty if condition not in found.empty]
            _add(found.first, ALWAYS, part.first)
            _add(found.last, ALWAYS, part.last)
        if ALWAYS in found.empty:
            found.empty = [ALWAYS]
        return found

    def repeated(self, node: Repeat) -> Fragment:
        """Copies in a row. An empty pass counts only towards the least number of passes, as ECMA-262 has it."""
        start = len(self.sets)
        body = self.part(node.body)
        end = len(self.sets)
        low, high = node.low, node.high
        if body.empty == [ALWAYS]:
            low = 0
        solid = Fragment([], body.first, body.last)
        required = body if body.empty and low else solid
        if high is None and (not low or required.empty):
            copies, optional = low, 1
        else:
            copies, optional = low, (0 if high is None else high - low)
        size = end - start
        self.reserve(size * (copies + optional - 1))
        body_follow = self.follow[start:end]
        body_conditional = {p: c for p, c in self.conditional.items() if start <= p < end}
        found: Fragment | None = None
        for index in range(copies):
            shift = self.copy(start, end, index, body_follow, body_conditional)
            current = _shifted(required, shift)
            found = current if found is None else self.joined(found, current)
        if high is None and not optional and found is not None:
            tail = _shifted(solid, size * (copies - 1))
            self.link(tail.last, tail.first)
        if not optional:
            return found if found is not None else Fragment([ALWAYS], {}, {})
        # x{0,n} as (x(x(x)?)?)?: a copy is entered only from the one before, so no set of positions grows with n.
        tails: dict[Condition, int] = {}
        head: dict[Condition, int] = {}
        previous: dict[Condition, int] | None = None
        for index in range(copies, copies + optional):
            shift = self.copy(start, end, index, body_follow, body_conditional)
            current = _shifted(solid, shift)
            if previous is None:
                head = current.first
            else:
                self.link(previous, current.first)
            _add(tails, ALWAYS, current.last)
            previous = current.last
        if high is None and previous is not None:
            self.link(previous, head)
        return self.optional_tail(found, Fragment([ALWAYS], head, tails))

    def optional_tail(self, found: Fragment | None, tail: Fragment) -> Fragment:
        return tail if found is None else self.joined(found, tail)

    def copy(
        self, start: int, end: int, index: int, follow: list[tuple[int, int]],
        conditional: dict[int, list[tuple[Condition, int]]],
    ) -> int:
        """Appends copy `index` of the positions start..end (copy 0 is the original); the shift to it."""
        if index == 0:
            return 0
        shift = len(self.sets) - start
        self.sets += self.sets[start:end]
        self.follow += [(base + shift, bits) for base, bits in follow]
        for position, moves in conditional.items():
            self.conditional[position + shift] = [(condition, bits << shift) for condition, bits in moves]
        self.words |= (self.words >> start & ((1 << end - start) - 1)) << start + shift
        return shift

    def link(self, last: dict[Condition, int], first: dict[Condition, int]) -> None:
        """Lets every position of `first` follow every one of `last`, where the conditions allow the gap between."""
        for before_condition, ends in last.items():
            for after_condition, begins in first.items():
                condition = both(before_condition, after_condition)
                if condition == ALWAYS:
                    self.connect(ends, begins)
                    continue
                for kind in range(3):
                    allowed = condition >> 3 * kind
                    targets = (begins & self.words if allowed >> nodes.WORD_AFTER & 1 else 0) | (
                        begins & ~self.words if allowed >> nodes.OTHER_AFTER & 1 else 0
                    )
                    if kind == nodes.START:
                        sources = ends & 1
                    else:
                        sources = ends & ~1 & (self.words if kind == nodes.WORD_BEFORE else ~self.words)
                    if targets and sources:
                        self.connect(sources, targets, condition & ~ANY_GAP)

    def connect(self, sources: int, targets: int, looks: Condition = 0) -> None:
        self.links += sources.bit_count()
        if self.links > MAX_LINKS:
            raise BudgetError(f"{self.name} needs more than {MAX_LINKS} links between its positions")
        shift = (targets & -targets).bit_length() - 1
        for source in bits_of(sources):
            if looks:
                self.conditional.setdefault(source, []).append((looks | ANY_GAP, targets))
                continue
            base, bits = self.follow[source]
            if not bits:
                self.follow[source] = (shift, targets >> shift)
            else:
                low = min(base, shift)
                self.follow[source] = (low, bits << base - low | targets >> low)


def _add(into: dict[Condition, int], condition: Condition, more: dict[Condition, int]) -> None:
    for other, bits in more.items():
        joint = both(condition, other)
        if joint & ANY_GAP:
            into[joint] = into.get(joint, 0) | bits


def _shifted(part: Fragment, shift: int) -> Fragment:
    if not shift:
        return part
    first = {c: bits << shift for c, bits in part.first.items()}
    return Fragment(part.empty, first, {c: bits << shift for c, bits in part.last.items()})


def _conjunctions(left: list[Condition], right: list[Condition]) -> list[Condition]:
    found = list(dict.fromkeys(c for a in left for b in right if (c := both(a, b)) & ANY_GAP))
    return [ALWAYS] if ALWAYS in found else found


def bits_of(bits: int) -> list[int]:
    """The numbers of the one bits, rising."""
    if bits >> _MANY_BITS:
        data = np.frombuffer(bits.to_bytes(bits.bit_length() + 7 >> 3, "little"), np.uint8)
        ones: list[int] = np.flatnonzero(np.unpackbits(data, bitorder="little")).tolist()
        return ones
    found = []
    while bits:
        lowest = bits & -bits
        found.append(lowest.bit_length() - 1)
        bits ^= lowest
    return found


def distances(positions: Positions) -> list[int]:
    """The least number of characters from each position to an end, whatever look-arounds say; INFINITE: there is none.

    Breadth first from the ends. Positions with the same followers are one node, so that links stay few.
    """
    groups: dict[tuple[int, int], list[int]] = {}
    for position, following in enumerate(positions.follow):
        groups.setdefault(following, []).append(position)
    for position, moves in positions.conditional.items():
        for _, bits in moves:
            groups.setdefault((0, bits), []).append(position)
    into: dict[int, list[list[int]]] = {}
    for (shift, bits), members in groups.items():
        for target in bits_of(bits):
            into.setdefault(target + shift, []).append(members)
    found = [INFINITE] * len(positions.sets)
    last, conditional = positions.ends[nodes.END]
    level = [*bits_of(last), *conditional]
    distance = 0
    while level:
        before: list[int] = []
        for position in level:
            if found[position] == INFINITE:
                found[position] = distance
                for members in into.get(position, ()):
                    before += members
                    members.clear()
        level, distance = before, distance + 1
    return found


def integer_of(positions: list[int], count: int) -> int:
    """The integer with these bits, in linear time."""
    found = bytearray(count // 8 + 1)
    for position in positions:
        found[position >> 3] |= 1 << (position & 7)
    return int.from_bytes(found, "little")
