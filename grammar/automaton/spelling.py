"""How a character is written inside a JSON string (RFC 8259, section 7): from classes of code points to bytes.

A state of a string automaton has classes of code points, each with a target. `template` lays the classes out as bytes:
the raw UTF-8 form (RFC 3629), the short escapes and `\\uXXXX`, where a code point beyond the basic plane takes a
surrogate pair and a lone surrogate is nothing. What it says depends on the classes alone, so states that have the same
classes share it, whatever their targets.

    natural   what JSON writers produce: raw text; `\\"`, `\\\\` and the short escapes of control characters; `\\uXXXX`
              for control and non-ASCII characters only
    any       every spelling that JSON allows
"""

from __future__ import annotations

from functools import lru_cache

from ..frozen import frozen
from ..regular.charset import CharSet
from .specs import Spelling

QUOTE, BACKSLASH = 0x22, 0x5C
SHORT_ESCAPES = {0x22: 0x22, 0x5C: 0x5C, 0x08: 0x62, 0x0C: 0x66, 0x0A: 0x6E, 0x0D: 0x72, 0x09: 0x74}
"""Code point to the byte after the backslash; `\\/` is in no writer's default."""
LAST = 0x10FFFF
_HIGH, _LOW = 0xD800, 0xDC00


def escapable(point: int, spelling: Spelling) -> bool:
    """True if `\\uXXXX` may stand for this code point."""
    return spelling == "any" or point < 0x20 or point >= 0x7F


@frozen
class Template:
    """The bytes of one state as a small graph. A child is a node's number, or `~c`: a character of class c was read.

    `root` and each of `nodes` hold (first byte, last byte, child), disjoint and in order; `escape` is the node after a
    backslash, or None. Children come before their parents in `nodes`. `classes` are those of the characters that a node
    is inside of.
    """

    root: tuple[tuple[int, int, int], ...]
    nodes: tuple[tuple[tuple[int, int, int], ...], ...]
    escape: int | None
    classes: tuple[tuple[int, ...], ...]


@lru_cache(maxsize=4096)
def template(partition: tuple[CharSet, ...], spelling: Spelling) -> Template:
    """The bytes for disjoint classes of code points."""
    builder = _Builder()
    spans = sorted((first, last, ~index) for index, chars in enumerate(partition) for first, last in chars.ranges())
    root: list[tuple[int, int, int]] = []
    for first, last, child in spans:
        for low, high in ((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7F)):
            if first <= high and last >= low:
                root.append((max(first, low), min(last, high), child))
    escape = builder.escapes(spans, spelling)
    if escape is not None:
        root.append((BACKSLASH, BACKSLASH, escape))
    root.extend(builder.utf8_leads(spans))
    classes: list[set[int]] = []
    for spans_of_node in builder.nodes:
        found: set[int] = set()
        for _, _, child in spans_of_node:
            found |= {~child} if child < 0 else classes[child]
        classes.append(found)
    return Template(_joined(root), tuple(builder.nodes), escape, tuple(tuple(sorted(each)) for each in classes))


Span = tuple[int, int, int]


def _clip(spans: list[Span], low: int, high: int) -> list[Span]:
    return [(max(a, low), min(b, high), c) for a, b, c in spans if a <= high and b >= low]


class _Builder:
    """Nodes with equal content are one node."""

    def __init__(self) -> None:
        self.nodes: list[tuple[Span, ...]] = []
        self._known: dict[tuple[Span, ...], int] = {}
        self._whole: dict[tuple[int, int, int], int] = {}

    def node(self, entries: tuple[Span, ...]) -> int:
        known = self._known.get(entries)
        if known is None:
            known = self._known[entries] = len(self.nodes)
            self.nodes.append(entries)
        return known

    def digits(self, spans: list[Span], start: int, places: int, base: int) -> list[Span]:
        """Digits (first, last, child) for numbers of `places` digits, the block of them that begins at `start`.

        Blocks that one span covers are one shared node, so the work follows the number of spans.
        """
        if places == 1:
            return [(first - start, last - start, child) for first, last, child in spans]
        unit = base ** (places - 1)
        found: list[Span] = []
        broken: dict[int, list[Span]] = {}
        for first, last, child in spans:
            a, b = (first - start) // unit, (last - start) // unit
            head, tail = start + a * unit, start + (b + 1) * unit - 1
            if a == b and (first > head or last < tail):
                broken.setdefault(a, []).append((first, last, child))
                continue
            if first > head:
                broken.setdefault(a, []).append((first, head + unit - 1, child))
                a += 1
            if last < tail:
                broken.setdefault(b, []).append((tail - unit + 1, last, child))
                b -= 1
            if a <= b:
                found.append((a, b, self.whole(child, places - 1, base)))
        for digit, part in broken.items():
            found.append((digit, digit, self.number(part, start + digit * unit, places - 1, base)))
        return found

    def number(self, spans: list[Span], start: int, places: int, base: int) -> int:
        return self.written(self.digits(spans, start, places, base), base)

    def whole(self, child: int, places: int, base: int) -> int:
        if places == 0:
            return child
        known = self._whole.get((child, places, base))
        if known is None:
            inner = self.whole(child, places - 1, base)
            known = self._whole[child, places, base] = self.written([(0, base - 1, inner)], base)
        return known

    def written(self, digits: list[Span], base: int) -> int:
        """Digits as bytes: continuation bytes for base 64, hexadecimal digits of either case for base 16."""
        if base == 64:
            entries = [(0x80 + first, 0x80 + last, child) for first, last, child in digits]
        else:
            entries = []
            for first, last, child in digits:
                if first <= 9:
                    entries.append((0x30 + first, 0x30 + min(last, 9), child))
                if last >= 10:
                    low, high = max(first, 10) - 10, last - 10
                    entries += [(0x41 + low, 0x41 + high, child), (0x61 + low, 0x61 + high, child)]
        return self.node(_joined(entries))

    def utf8_leads(self, spans: list[Span]) -> list[Span]:
        leads: list[Span] = []
        for low, high, places, mark in ((0x80, 0x7FF, 2, 0xC0), (0x800, 0xFFFF, 3, 0xE0), (0x10000, LAST, 4, 0xF0)):
            part = _clip(spans, low, high)
            if part:
                leads += [(mark + a, mark + b, child) for a, b, child in self.digits(part, 0, places, 64)]
        return leads

    def escapes(self, spans: list[Span], spelling: Spelling) -> int | None:
        short = dict(SHORT_ESCAPES)
        if spelling == "any":
            short[0x2F] = 0x2F
        entries = [
            (byte, byte, child)
            for point, byte in short.items()
            for first, last, child in spans
            if first <= point <= last
        ]
        code = self.code(spans if spelling == "any" else _clip(spans, 0, 0x1F) + _clip(spans, 0x7F, LAST))
        if code is not None:
            entries.append((0x75, 0x75, code))
        return self.node(tuple(sorted(entries))) if entries else None

    def code(self, spans: list[Span]) -> int | None:
        """The node after `\\u`: four digits, or a high surrogate's four, `\\u` and a low surrogate's."""
        units = _clip(spans, 0, 0xFFFF)
        blocks: dict[int, list[Span]] = {}
        for first, last, child in _clip(spans, 0x10000, LAST):
            a, b = (first - 0x10000) >> 10, (last - 0x10000) >> 10
            whole_from = a + (1 if (first - 0x10000) & 0x3FF else 0)
            whole_to = b - (0 if (last - 0x10000) & 0x3FF == 0x3FF else 1)
            if whole_from <= whole_to:
                units.append((_HIGH + whole_from, _HIGH + whole_to, self.second([(0, 0x3FF, child)])))
            for block in {a, b} - set(range(whole_from, whole_to + 1)):
                start = 0x10000 + (block << 10)
                piece = (max(first, start) - start, min(last, start + 0x3FF) - start, child)
                blocks.setdefault(block, []).append(piece)
        units += [(_HIGH + block, _HIGH + block, self.second(part)) for block, part in blocks.items()]
        return self.number(sorted(units), 0, 4, 16) if units else None

    def second(self, offsets: list[Span]) -> int:
        """The node before a low surrogate's `\\u`, for ten-bit offsets."""
        digits = self.number([(_LOW + a, _LOW + b, child) for a, b, child in offsets], 0, 4, 16)
        return self.node(((BACKSLASH, BACKSLASH, self.node(((0x75, 0x75, digits),))),))


def _joined(entries: list[Span]) -> tuple[Span, ...]:
    joined: list[Span] = []
    for first, last, child in sorted(entries):
        if joined and joined[-1][1] == first - 1 and joined[-1][2] == child:
            joined[-1] = (joined[-1][0], last, child)
        else:
            joined.append((first, last, child))
    return tuple(joined)
