"""What one wide row allows whatever the frame: kept as a mask row, with the ways on where the lexeme ends.

A string's body allows a hundred thousand tokens; walking them for each place that has a string would be the whole cost
of a mask. So the walk is done once per row, without a frame. Lexeme ends that it meets become *exits*; what remains
of their tokens after the end makes a small trie for each label, and under a given frame only that trie is walked. It
is far smaller than the places where its tokens end in the vocabulary's trie, since the ends of `a",` and `b",` meet.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import groupby
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..automaton.codes import BIG, LABEL_MASK, ROW_MASK
from ..automaton.tables import Tables
from .plaintext import PlainText
from .rows import EMPTY, NONE, PLAIN_TOKENS, BaseRow, MaskRows, set_bits
from .trie import BYTE_MASK, DEPTH_MASK, DEPTH_SHIFT, END_SHIFT, PLAIN
from .vocabulary import MAIN, Vocabulary
from .walkcodes import AFTER_LOW, BEFORE, BELOW, BELOW_OWN, CONTEXT_FREE, COSTS, COUNTED, KIND, NODE, PLACE, PLAIN_BASE
from .walker import Walker

_MANY_TOKENS: Final = 30_000
"""Beyond so many tokens below its exits a part keeps no tries of what remains: building them would cost more."""
_PATIENCE: Final = 12
"""These tries are made only for a part that was used so often: making them takes many walks."""
_MOST_ALIKE: Final = 12
"""Rows that one leads to, beyond which it is not looked for one alike."""
_MANY_PARTS: Final = 4096
_MANY_PRICED: Final = 48
"""Parts that keep their costs, a quarter of a megabyte each; older ones are made anew if they are needed again."""


def _stretches(values: npt.NDArray[np.int32]) -> Iterator[tuple[int, int, int]]:
    """(value, from where, how often) of the values that are not zero, each as far as it goes on."""
    at = 0
    for value, group in groupby(values.tolist()):
        often = len(list(group))
        if value:
            yield value, at, often
        at += often


@dataclass
class Part:
    """The context-free part of a wide row's masks.

    Where the row's lexeme may have ended already, what follows that end is not in it.

    base      the tokens that stay inside the lexeme
    folded    the same and the tokens that end with the lexeme, where all its ends have one label
    exits     int32 [k, 7], items with open frame, see `kernels`
    remains   (label, root) of tries of what remains of the exits' tokens; None where exits are walked one by one
    longest   the most code points that an exit has counted
    cost      uint16 or uint32 [size], code points to the nearest end by way of each token, the highest value: never
    dearest   the highest cost of an allowed token
    nodes     the tries' nodes, see `tries`
    bounded   rows of the tokens that cost little, by how many these are
    """

    base: BaseRow
    exits: npt.NDArray[np.int32]
    remains: tuple[tuple[int, int], ...] | None
    longest: int
    checks_low: bool
    cost: npt.NDArray[Any] | None
    dearest: int
    nodes: npt.NDArray[np.int64]
    folded: BaseRow | None = None
    uses: int = 0
    bounded: dict[int, BaseRow] = field(default_factory=dict)
    _counts: dict[int, int] = field(default_factory=dict)

    @cached_property
    def bytes(self) -> npt.NDArray[np.int64]:
        """The byte of each exit's node."""
        return self.nodes[self.exits[:, NODE]] & BYTE_MASK

    @cached_property
    def early(self) -> list[tuple[int, npt.NDArray[np.int64]]]:
        """By label: which exits are those where the lexeme ended before the node's byte."""
        places, before = self.exits[:, PLACE], self.exits[:, KIND] == BEFORE
        return [(label, np.flatnonzero(before & (places == label))) for label in sorted(set(places[before].tolist()))]

    def affordable(self, rest: int) -> int:
        """How many tokens leave an end within reach of `rest` code points; -1: all."""
        if self.cost is None or rest >= self.dearest:
            return -1
        count = self._counts.get(rest)
        if count is None:
            count = self._counts[rest] = int(np.count_nonzero(self.cost <= rest))
        return count

    def free(self, low: int, high: int, count: int) -> bool:
        """Whether no exit can violate these bounds."""
        return (high == BIG or count + self.longest <= high) and (not self.checks_low or count >= low)


class Parts:
    """The context-free parts of one arena. Not thread-safe: callers hold the arena's lock."""

    def __init__(
        self, vocabulary: Vocabulary, tables: Tables, rows: MaskRows, walker: Walker, plain: PlainText
    ) -> None:
        self._vocabulary, self._tables, self._rows, self._walker = vocabulary, tables, rows, walker
        self._plain = plain
        self._parts: dict[tuple[int, int, int], Part] = {}
        self._alike: dict[tuple[bytes, int], tuple[Part, list[int]]] = {}
        self._large: set[int] = set()  # rows that lead to too many others
        self._unions: dict[tuple[BaseRow, BaseRow], BaseRow] = {}
        self._priced: list[Part] = []
        self._write_plain()

    def get(self, row: int, allow: int, *, bounded: bool, root: int = MAIN) -> Part:
        """The part of `row` where keys are filtered by `allow`; `bounded` asks for costs too.

        `root`: the node after whose bytes a text stands in the row; the token there is of the part.
        """
        part = self._parts.get((row, allow, root))
        if part is None or part.base.table_row == NONE or (bounded and part.cost is None):
            if len(self._parts) >= _MANY_PARTS:
                self._parts = {key: part for key, part in self._parts.items() if part.base.table_row != NONE}
            part = self._parts[row, allow, root] = self._make(row, allow, bounded, root)
            if bounded:
                self._priced.append(part)
                if len(self._priced) > _MANY_PRICED:
                    self._priced.pop(0).cost = None
        self._rows.used[part.base.table_row] = 1
        return part

    def remains(self, part: Part) -> tuple[tuple[int, int], ...] | None:
        """The tries of what remains for a further mask; None where its exits are better walked one by one."""
        if part.remains is None and part.uses <= _PATIENCE:
            part.uses += 1
            if part.uses > _PATIENCE:
                part.remains = self._split(part.exits, _MANY_TOKENS)
        return part.remains

    def within(self, part: Part, rest: int) -> BaseRow:
        """The row of the tokens that leave an end within reach of `rest` code points."""
        cost, count = part.cost, part.affordable(rest)
        if cost is None or count < 0:
            return part.base
        known = part.bounded.get(count)
        if known is None or known.table_row == NONE:
            known = part.bounded[count] = BaseRow()
            self._pack(self._rows.claim(known), cost <= rest)
        self._rows.used[known.table_row] = 1
        return known

    def folded(self, part: Part) -> BaseRow:
        """The row of the part's tokens and those that end with the lexeme; only where `remains` has one label."""
        known = part.folded
        if known is None or known.table_row == NONE:
            known = part.folded = BaseRow()
            below = part.base.table_row  # in a full table the new row may take its place, with all that it holds
            row = self._rows.table[self._rows.claim(known)]
            row[:] = self._rows.table[below]
            assert part.remains is not None
            set_bits(row, self._vocabulary.tries.own(part.remains[0][1]))
        self._rows.used[known.table_row] = 1
        return known

    def union(self, one: BaseRow, other: BaseRow) -> BaseRow:
        """The row of the tokens of either row; none, where one of them was given away."""
        if NONE in (one.table_row, other.table_row):
            return BaseRow()
        known = self._unions.get((one, other))
        if known is None or known.table_row == NONE:
            if len(self._unions) >= _MANY_PARTS:
                self._unions = {key: row for key, row in self._unions.items() if row.table_row != NONE}
            known = self._unions[one, other] = BaseRow()
            table, below = self._rows.table, (one.table_row, other.table_row)
            row = table[self._rows.claim(known)]  # in a full table it may take the place of one of them
            np.bitwise_or(table[below[0]], table[below[1]], out=row)
        self._rows.used[known.table_row] = 1
        return known

    def _make(self, row: int, allow: int, bounded: bool, root: int) -> Part:
        self._tables.build_row(row)
        alike = None if bounded or allow != -1 else self._content(row)
        if alike is not None:
            return self._copied(row, root, *alike)
        part = self._walked(row, allow, bounded, root)
        part.exits = self._living(row, part.exits)
        return part

    def _copied(self, row: int, root: int, content: bytes, labels: list[int]) -> Part:
        """The part of a row from that of another one that differs in labels only."""
        known = self._alike.get((content, root))
        if known is None or known[0].base.table_row == NONE:
            known = self._alike[content, root] = self._walked(row, -1, False, root), labels
        part, others = known
        places = np.zeros(max(others, default=0) + 1, np.int32)
        places[others] = labels
        exits = part.exits.copy()
        exits[:, PLACE] = places[exits[:, PLACE]]
        return replace(part, exits=self._living(row, exits), remains=None, folded=None, uses=0, bounded={}, _counts={})

    def _content(self, row: int) -> tuple[bytes, list[int]] | None:
        """(what rows have in common that allow the same, but for their labels; the labels). None: it is not all built,
        or too much.
        """
        tables = self._tables
        numbers = {row: 1}
        labels: dict[int, int] = {}
        content: list[int] = []
        waiting = [row]
        for current in waiting:  # grows on the way
            if tables.is_lazy(current) or int(tables.reach[current]) != -1:
                return None
            values = tables.values(current)
            label = int(tables.accept[current])
            content.append(labels.setdefault(label - 1, len(labels)) if label else -1)
            for value, at, often in _stretches(values):
                if value > ROW_MASK or -value > LABEL_MASK:
                    return None
                if value > 0:
                    if value not in numbers:
                        numbers[value] = len(numbers) + 1
                        waiting.append(value)
                        if len(waiting) > _MOST_ALIKE or value in self._large:
                            self._large.add(row)
                            return None
                    value = numbers[value]
                elif value < 0:
                    value = -1 - labels.setdefault(-1 - value, len(labels))
                content += (value, at, often)
        return repr(content).encode(), list(labels)

    def _walked(self, row: int, allow: int, bounded: bool, root: int) -> Part:
        tables, walker = self._tables, self._walker
        plain = root == MAIN and self._plain.refuses_none(row)
        free = plain and bounded and self._plain.leads_back(row)
        mode = CONTEXT_FREE
        costs = None
        if bounded:
            mode |= COSTS
            plain = free
        if plain:
            mode |= PLAIN_BASE
            tries = self._vocabulary.tries
            last = tries.first[self._vocabulary.node_count]
            costs = tries.order[:last], tries.lengths[:last] + tables.need[row]
        kind = BELOW_OWN if tables.accept[row] else BELOW
        changes = walker.walk(
            [(root, kind, 0, row, 0, 0)],
            base=PLAIN_TOKENS if plain else EMPTY,
            mode=mode,
            free_row=row if free else 0,
            allow=allow,
            costs=costs,
        )
        exits = walker.exits()
        base = BaseRow()
        mask = self._rows.table[self._rows.claim(base)]
        mask[:] = self._rows.table[PLAIN_TOKENS if plain else EMPTY]
        mask[changes.words] = changes.values
        if root != MAIN:
            set_bits(mask, self._vocabulary.tries.own(root))
        cost, dearest = self._costs(mask) if bounded else (None, 0)
        return Part(
            base=base,
            exits=exits,
            remains=None,
            longest=int(exits[:, COUNTED].max(initial=0)),
            checks_low=bool((exits[:, KIND] == AFTER_LOW).any()),
            cost=cost,
            dearest=dearest,
            nodes=self._vocabulary.tries.nodes,
        )

    def _living(self, row: int, exits: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """The exits but for those where the lexeme ended before a byte that comes nowhere after such an end."""
        bytes_after = self._tables.apart.get(row)
        if bytes_after is None or not len(exits):
            return exits
        labels = exits[:, PLACE]
        bytes_ = self._vocabulary.tries.nodes[exits[:, NODE]] & BYTE_MASK
        living = exits[:, KIND] != BEFORE
        for label in set(labels[~living].tolist()):
            after = np.frombuffer(bytes_after(label).to_bytes(32, "little"), np.uint8)
            living |= (labels == label) & (np.unpackbits(after, bitorder="little") != 0)[bytes_]
        kept: npt.NDArray[np.int32] = exits[living]
        return kept

    def _costs(self, mask: npt.NDArray[np.int32]) -> tuple[npt.NDArray[Any], int]:
        """The costs of the last walk as a part keeps them, and the highest one of an allowed token."""
        refused = np.unpackbits(mask.view(np.uint8), bitorder="little", count=self._vocabulary.size).astype(np.int32)
        refused -= 1
        cost = self._walker.cost | refused  # -1 where a token is not allowed
        dearest = int(cost.max(initial=0))
        return cost.astype(np.uint16 if dearest < np.iinfo(np.uint16).max else np.uint32), dearest

    def _split(self, exits: npt.NDArray[np.int32], most: int) -> tuple[tuple[int, int], ...] | None:
        """Tries of what remains after the exits of each label; None if these are more than `most` tokens."""
        tries = self._vocabulary.tries
        ends = tries.nodes[exits[:, NODE]] >> END_SHIFT
        if int((tries.first[ends] - tries.first[exits[:, NODE]]).sum()) > most:
            return None
        split: list[tuple[int, int]] = []
        for label in sorted(set(exits[:, PLACE].tolist())):
            root = self._remaining(exits[exits[:, PLACE] == label])
            if root is None:
                return None
            split.append((label, root))
        return tuple(split)

    def _remaining(self, exits: npt.NDArray[np.int32]) -> int | None:
        """The trie of what remains of the tokens below the exits, once the lexeme has ended."""
        tries, texts = self._vocabulary.tries, self._vocabulary.tokens
        nodes, kinds = exits[:, NODE], exits[:, KIND] == BEFORE
        ids: list[int] = []
        rests: list[bytes] = []
        key = hashlib.blake2b(nodes.tobytes() + kinds.tobytes(), digest_size=20).digest()
        if not tries.knows(key):
            depths = (tries.nodes[nodes] >> DEPTH_SHIFT & DEPTH_MASK) - kinds
            for node, depth in zip(nodes.tolist(), depths.tolist(), strict=True):
                below = tries.below(node).tolist()
                ids += below
                rests += [(texts[token] or b"")[depth:] for token in below]
        return tries.get(key, rests, ids)

    def _write_plain(self) -> None:
        tries, count = self._vocabulary.tries, self._vocabulary.node_count
        plain = np.repeat(tries.nodes[:count] & PLAIN != 0, np.diff(tries.first[: count + 1]))
        row = self._rows.table[PLAIN_TOKENS]
        row[:] = 0
        set_bits(row, tries.order[: len(plain)][plain])

    def _pack(self, row: int, allowed: npt.NDArray[np.bool_]) -> None:
        packed = np.packbits(allowed, bitorder="little")
        mask = self._rows.table[row].view(np.uint8)
        mask[: len(packed)] = packed
        mask[len(packed) :] = 0
