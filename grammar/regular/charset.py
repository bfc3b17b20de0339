"""Sets of Unicode code points.

The universe is what a JSON string can hold: every code point but the surrogates U+D800 to U+DFFF. A set is kept in
two parts, because nearly every set of a real pattern is plain in one of them: `ascii`, a 128-bit integer whose bit
*c* stands for code point *c*, and `wide`, sorted disjoint ranges from U+0080 up, most often none or all.
Sets are interned: two sets of the same code points are one object, so comparison and hashing cost nothing.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from functools import lru_cache
from weakref import WeakValueDictionary

Ranges = tuple[tuple[int, int], ...]

LAST_CODE_POINT = 0x10FFFF
_ASCII_ALL = (1 << 128) - 1
_WIDE_ALL: Ranges = ((0x80, 0xD7FF), (0xE000, LAST_CODE_POINT))
_CACHED_OPERATIONS = 1 << 14


class CharSet:
    """An immutable set of code points; build one with `of`, `char` or `chars`, never with the constructor.

    Operators: `&`, `|`, `-`, `~`, `in` (a code point or a one-character string), `len`, truth. Equal sets are
    identical objects.
    """

    __slots__ = ("__weakref__", "_ranges", "ascii", "wide")

    ascii: int
    wide: Ranges
    _ranges: Ranges | None

    def __init__(self, ascii_: int, wide: Ranges) -> None:
        self.ascii = ascii_
        self.wide = wide
        self._ranges = None

    @staticmethod
    def of(*ranges: tuple[int, int]) -> CharSet:
        """The set of the inclusive ranges, which may overlap and come in any order. Surrogates are left out."""
        ascii_ = 0
        wide: list[tuple[int, int]] = []
        for low, high in ranges:
            if low < 0x80:
                ascii_ |= (1 << min(high, 0x7F) + 1) - (1 << low)
            if high >= 0x80:
                wide.append((max(low, 0x80), high))
        return _intern(ascii_, _without_surrogates(_merge(wide)) if wide else ())

    @staticmethod
    def char(code_point: int) -> CharSet:
        """The set of one code point (the empty set for a surrogate)."""
        if code_point < 0x80:
            return _ASCII_CHARS[code_point]
        return CharSet.of((code_point, code_point))

    @staticmethod
    def chars(text: Iterable[str]) -> CharSet:
        """The set of the characters of `text`."""
        return CharSet.of(*((ord(c), ord(c)) for c in text))

    def ranges(self) -> Ranges:
        """All code points as sorted, disjoint, inclusive ranges; U+D7FF and U+E000 are never joined."""
        if self._ranges is None:
            narrow = []
            bits, base = self.ascii, 0
            while bits:
                zeros = (bits & -bits).bit_length() - 1
                bits >>= zeros
                ones = (~bits & (bits + 1)).bit_length() - 1
                bits >>= ones
                narrow.append((base + zeros, base + zeros + ones - 1))
                base += zeros + ones
            self._ranges = _merge([*narrow, *self.wide])
        return self._ranges

    def sample(self) -> str:
        """One character of the set, a letter or digit where there is one. Raises ValueError if the set is empty."""
        for preferred in (_LETTERS, _PRINTABLE, self.ascii):
            if found := self.ascii & preferred:
                return chr((found & -found).bit_length() - 1)
        if not self.wide:
            raise ValueError("the empty set has no sample")
        return chr(self.wide[0][0])

    def __iter__(self) -> Iterator[int]:
        for low, high in self.ranges():
            yield from range(low, high + 1)

    def __contains__(self, item: int | str) -> bool:
        code_point = ord(item) if isinstance(item, str) else item
        if code_point < 0x80:
            return bool(self.ascii >> code_point & 1)
        low, high = 0, len(self.wide)
        while low < high:
            middle = (low + high) // 2
            if self.wide[middle][1] < code_point:
                low = middle + 1
            else:
                high = middle
        return low < len(self.wide) and self.wide[low][0] <= code_point

    def __bool__(self) -> bool:
        return self is not EMPTY_SET

    def __len__(self) -> int:
        return self.ascii.bit_count() + sum(high - low + 1 for low, high in self.wide)

    def __and__(self, other: CharSet) -> CharSet:
        if self is other or other is ALL:
            return self
        if self is ALL:
            return other
        return _and(self, other)

    def __or__(self, other: CharSet) -> CharSet:
        if self is other or not other:
            return self
        return _or(self, other) if self else other

    def __invert__(self) -> CharSet:
        return _not(self)

    def __sub__(self, other: CharSet) -> CharSet:
        return _and(self, _not(other))

    def __repr__(self) -> str:
        shown = [f"{low:x}" if low == high else f"{low:x}-{high:x}" for low, high in self.ranges()[:8]]
        return f"CharSet({' '.join(shown)}{' ...' if len(self.ranges()) > 8 else ''})"


def partition(sets: Iterable[CharSet]) -> list[CharSet]:
    """The coarsest blocks such that each of `sets` is a union of some; code points in none of them are in no block."""
    blocks: list[CharSet] = []
    for current in dict.fromkeys(sets):
        refined: list[CharSet] = []
        rest = current
        for block in blocks:
            common = block & rest
            if not common:
                refined.append(block)
                continue
            refined.append(common)
            if common is not block:
                refined.append(block - common)
            rest = rest - common
        if rest:
            refined.append(rest)
        blocks = refined
    return blocks


_interned: WeakValueDictionary[tuple[int, Ranges], CharSet] = WeakValueDictionary()
_interning = threading.Lock()


def _intern(ascii_: int, wide: Ranges) -> CharSet:
    key = (ascii_, wide)
    found = _interned.get(key)
    if found is None:
        with _interning:
            found = _interned.get(key)
            if found is None:
                found = _interned[key] = CharSet(ascii_, wide)
    return found


@lru_cache(_CACHED_OPERATIONS)
def _and(a: CharSet, b: CharSet) -> CharSet:
    return _intern(a.ascii & b.ascii, _intersect(a.wide, b.wide))


@lru_cache(_CACHED_OPERATIONS)
def _or(a: CharSet, b: CharSet) -> CharSet:
    wide = a.wide if not b.wide or a.wide == b.wide else b.wide if not a.wide else _merge([*a.wide, *b.wide])
    return _intern(a.ascii | b.ascii, wide)


@lru_cache(_CACHED_OPERATIONS)
def _not(a: CharSet) -> CharSet:
    return _intern(a.ascii ^ _ASCII_ALL, _complement(a.wide))


def _merge(ranges: list[tuple[int, int]]) -> Ranges:
    """Sorts and joins ranges that touch, except over the gap of the surrogates."""
    ranges.sort()
    merged: list[tuple[int, int]] = []
    for low, high in ranges:
        if merged and low <= merged[-1][1] + 1:
            if high > merged[-1][1]:
                merged[-1] = (merged[-1][0], high)
        else:
            merged.append((low, high))
    return tuple(merged)


def _intersect(a: Ranges, b: Ranges) -> Ranges:
    if not a or not b:
        return ()
    if a == b or b == _WIDE_ALL:
        return a
    if a == _WIDE_ALL:
        return b
    found: list[tuple[int, int]] = []
    i = j = 0
    while i < len(a) and j < len(b):
        low, high = max(a[i][0], b[j][0]), min(a[i][1], b[j][1])
        if low <= high:
            found.append((low, high))
        if a[i][1] < b[j][1]:
            i += 1
        else:
            j += 1
    return tuple(found)


def _without_surrogates(ranges: Ranges) -> Ranges:
    if all(high < 0xD800 or low > 0xDFFF for low, high in ranges):
        return ranges
    parts = [(low, min(high, 0xD7FF)) for low, high in ranges if low < 0xD800]
    parts += [(max(low, 0xE000), high) for low, high in ranges if high > 0xDFFF]
    return tuple(parts)


def _complement(wide: Ranges) -> Ranges:
    if not wide:
        return _WIDE_ALL
    if wide == _WIDE_ALL:
        return ()
    gaps: list[tuple[int, int]] = []
    start = 0x80
    for low, high in wide:
        if start < low:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= LAST_CODE_POINT:
        gaps.append((start, LAST_CODE_POINT))
    return _without_surrogates(tuple(gaps))


def _bits(text: str) -> int:
    return sum(1 << ord(c) for c in text)


_LETTERS = _bits("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789")
_PRINTABLE = (1 << 0x7F) - (1 << 0x21)

EMPTY_SET = _intern(0, ())
ALL = _intern(_ASCII_ALL, _WIDE_ALL)
_ASCII_CHARS = tuple([_intern(1 << code_point, ()) for code_point in range(0x80)])
DIGIT = CharSet.of((0x30, 0x39))
WORD = DIGIT | CharSet.of((0x41, 0x5A), (0x61, 0x7A), (0x5F, 0x5F))
LINE_END = CharSet.of((0x0A, 0x0A), (0x0D, 0x0D), (0x2028, 0x2029))
SPACE = LINE_END | CharSet.of(
    (0x09, 0x0C), (0x20, 0x20), (0xA0, 0xA0), (0x1680, 0x1680), (0x2000, 0x200A), (0x202F, 0x202F), (0x205F, 0x205F),
    (0x3000, 0x3000), (0xFEFF, 0xFEFF),
)
