"""The syntax tree of a regular expression, and the constructors that keep it small.

`sequence`, `choice` and `repeat` apply laws that cost nothing and save positions
later: a repeat of a repeat is one repeat, neighbours that repeat the same set are one repeat, a choice of single
characters is one set.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import Self, TypeAlias
from weakref import WeakValueDictionary

from .charset import ALL, EMPTY_SET, CharSet

# A gap between two characters of a text is known by what stands on its two sides. Before it: nothing (the start of
# the text), a word character or another; after it: nothing (the end), a word character or another. An assertion such
# as `^` or `\b` is the set of gaps it allows: bit 3 * before + after.
START, WORD_BEFORE, OTHER_BEFORE = 0, 1, 2
END, WORD_AFTER, OTHER_AFTER = 0, 1, 2
ANY_GAP = 0b111_111_111
AT_START = 0b000_000_111
AT_END = 0b001_001_001
AT_BOUNDARY = 0b010_101_010
NOT_AT_BOUNDARY = ANY_GAP & ~AT_BOUNDARY


class _Unique:
    """A node that exists once: equal content is one object, so that deep trees compare and hash without recursion.

    `height` is the longest way down to a leaf. Nodes are never changed.
    """

    __slots__ = ("__weakref__", "height")
    height: int

    @classmethod
    def _of(cls, children: tuple[_Unique, ...], *fields: object) -> Self:
        key = (cls, *fields)
        found = _nodes.get(key)
        if found is None:
            with _making:
                found = _nodes.get(key)
                if found is None:
                    found = object.__new__(cls)
                    for name, value in zip(cls.__slots__, fields, strict=True):
                        setattr(found, name, value)
                    found.height = 1 + max((child.height for child in children), default=0)
                    _nodes[key] = found
        return found  # type: ignore[return-value]

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(repr(getattr(self, name)) for name in self.__slots__)})"


_nodes: WeakValueDictionary[tuple[object, ...], _Unique] = WeakValueDictionary()
_making = threading.Lock()


class Chars(_Unique):
    """One character of a set; the empty set matches nothing."""

    __slots__ = ("set",)
    set: CharSet

    def __new__(cls, set: CharSet) -> Chars:
        return cls._of((), set)


class Sequence(_Unique):
    """One part after the other; no parts: the empty string."""

    __slots__ = ("parts",)
    parts: tuple[Node, ...]

    def __new__(cls, parts: tuple[Node, ...]) -> Sequence:
        return cls._of(parts, parts)


class Choice(_Unique):
    """One of the parts, of which there are at least two."""

    __slots__ = ("parts",)
    parts: tuple[Node, ...]

    def __new__(cls, parts: tuple[Node, ...]) -> Choice:
        return cls._of(parts, parts)


class Repeat(_Unique):
    """`low` to `high` times the body; `high` None is unbounded. Greedy or lazy is the same language."""

    __slots__ = ("body", "high", "low")
    body: Node
    low: int
    high: int | None

    def __new__(cls, body: Node, low: int, high: int | None) -> Repeat:
        return cls._of((body,), body, high, low)


class Assert(_Unique):
    """The empty string, at a gap that `gaps` allows: `^ $ \\b \\B` and what their combination gives."""

    __slots__ = ("gaps",)
    gaps: int

    def __new__(cls, gaps: int) -> Assert:
        return cls._of((), gaps)


class Look(_Unique):
    """A look-ahead (look-behind): the empty string, where `body` matches (does not match) what follows (precedes)."""

    __slots__ = ("ahead", "body", "negative")
    ahead: bool
    negative: bool
    body: Node

    def __new__(cls, ahead: bool, negative: bool, body: Node) -> Look:
        return cls._of((body,), ahead, body, negative)


Node: TypeAlias = Chars | Sequence | Choice | Repeat | Assert | Look

NOTHING = Chars(EMPTY_SET)
EPSILON = Sequence(())
ANYTHING = Repeat(Chars(ALL), 0, None)


def sequence(parts: Iterable[Node]) -> Node:
    """The concatenation of `parts`."""
    flat: list[Node] = []
    last_set: CharSet | None = None  # what the last part repeats, if it repeats a set
    for part in parts:
        for piece in part.parts if isinstance(part, Sequence) else (part,):
            piece_set = _set_of(piece)
            if piece_set is EMPTY_SET:
                return NOTHING
            if piece_set is not None and piece_set is last_set:
                flat[-1] = _join(_as_repeat(flat[-1]), _as_repeat(piece))
            else:
                flat.append(piece)
                last_set = piece_set
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat))


def _set_of(node: Node) -> CharSet | None:
    """The set that `node` is one character of, or repeats; None if it is neither."""
    if isinstance(node, Chars):
        return node.set
    return node.body.set if isinstance(node, Repeat) and isinstance(node.body, Chars) else None


def _as_repeat(node: Node) -> Repeat:
    return node if isinstance(node, Repeat) else Repeat(node, 1, 1)


def _join(left: Repeat, right: Repeat) -> Repeat:
    """Two repeats of the same, one after the other."""
    high = None if left.high is None or right.high is None else left.high + right.high
    return Repeat(left.body, left.low + right.low, high)


def choice(parts: Iterable[Node]) -> Node:
    """The union of `parts`; no parts: nothing."""
    flat: dict[Node, None] = {}
    single = EMPTY_SET
    place: Node | None = None
    for part in parts:
        for piece in part.parts if isinstance(part, Choice) else (part,):
            if isinstance(piece, Chars):
                if piece.set and place is None:
                    place = piece
                    flat[piece] = None
                single = single | piece.set
            else:
                flat[piece] = None
    merged = [Chars(single) if piece is place else piece for piece in flat]
    if not merged:
        return NOTHING
    return merged[0] if len(merged) == 1 else Choice(tuple(merged))


def repeat(body: Node, low: int, high: int | None) -> Node:
    """`body` from `low` to `high` times. Raises ValueError if `high` is below `low`."""
    if high is not None and high < low:
        raise ValueError("the bounds of a repeat are out of order")
    if high == 0 or body == EPSILON:
        return EPSILON
    if isinstance(body, Chars) and not body.set:
        return EPSILON if low == 0 else NOTHING
    if (low, high) == (1, 1):
        return body
    if isinstance(body, (Assert, Look)):
        # Repeating a condition says no more than saying it once, and "perhaps" says nothing at all.
        return body if low else EPSILON
    if isinstance(body, Repeat) and _repeats_multiply(body.low, body.high, low, high):
        total = None if body.high is None or high is None else body.high * high
        return Repeat(body.body, body.low * low, total)
    return Repeat(body, low, high)


def _repeats_multiply(low: int, high: int | None, times: int, times_high: int | None) -> bool:
    """Whether the counts times*low .. times_high*high have no gap: the runs of k and of k+1 repeats must touch.

    The distance between the runs grows with k, so the least k decides; k = 0 stands alone at count 0.
    """
    if times == times_high or (high is None and times > 0):
        return True
    if times == 0:
        return low <= 1
    return high is None or low * (times + 1) <= high * times + 1
