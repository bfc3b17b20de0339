"""The byte automaton of plain text: regular expressions and lists of choices, in UTF-8 without any JSON around."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

from ..errors import UnsatisfiableError
from ..regular import Dfa, Language
from .codes import BIG, COUNT, NEED, VALUE_END
from .completion import Completer
from .stepper import ByteAutomaton, Configuration
from .tables import Tables

Bytes = tuple[tuple[int, int], ...]  # one range of bytes after the other
Suffixes = tuple[tuple[Bytes, int], ...]  # what may follow a byte, and the row each leads to

_LIMITS = (0x7F, 0x7FF, 0xFFFF, 0x10FFFF)


class TextAutomaton(ByteAutomaton):
    """A text is one word of a language. Raises UnsatisfiableError if there is none."""

    def __init__(self, tables: Tables, language: Language, name: str) -> None:
        self.tables = tables
        self._completer = Completer(tables)
        # An upper bound is a counter beside the state, where the lower one is none or said by the states themselves.
        normal = language.normal()
        start = normal.dfa.start
        self._counted = normal.high is not None and start is not None and normal.low <= normal.dfa.shortest(start)
        self._dfa: Dfa = normal.dfa if self._counted else language.unbounded().dfa
        high = BIG if normal.high is None or not self._counted else normal.high
        if self._dfa.start is None or self._dfa.shortest(self._dfa.start) > high:
            raise UnsatisfiableError(f"{name} matches no text at all")
        self._rows: dict[int, int] = {}
        self._states: dict[int, int] = {}
        self._inside: dict[Suffixes, int] = {}
        with tables.lock:
            frame = tables.frame(("text", self._dfa, high), self, labels=VALUE_END + 1, high=high)
            self.start = Configuration(self._row(self._dfa.start), frame)

    def completion(self, at: Configuration, known: Container[Configuration] = ()) -> bytes:
        """A shortest way (or nearly) to where the text may end, or to one of the `known` configurations."""
        with self.tables.lock:
            return self._completer.completion(at, known)

    def fill(self, frame: int, label: int) -> tuple[int, int] | None:
        return (self.tables.end_row, self.tables.end_frame) if label == VALUE_END else None

    def resolve(self, frame: int, label: int, texts: tuple[bytes, ...]) -> tuple[int, int] | None:
        return self.fill(frame, label)

    def _row(self, state: int) -> int:
        row = self._rows.get(state)
        if row is None:
            row = self._rows[state] = self.tables.lazy(self._build)
            self._states[row] = state
            if self._counted:
                self.tables.need[row] = self._dfa.shortest(state)
        return row

    def _build(self, row: int) -> None:
        state = self._states[row]
        suffixes: list[tuple[Bytes, int]] = []
        for chars, target in self._dfa.step(state):
            following = self._row(target)
            for first, last in chars.ranges():
                suffixes += ((spelled, following) for spelled in utf8_ranges(first, last))
        self._write(row, suffixes, COUNT if self._counted else 0)
        if self._dfa.accepting(state):
            self.tables.accept[row] = VALUE_END + 1

    def _write(self, row: int, suffixes: Iterable[tuple[Bytes, int]], flag: int) -> None:
        """`flag` says what each byte is checked for: the first of a character counts."""
        values = self.tables.rows[row]
        longer: dict[int, list[tuple[Bytes, int]]] = {}
        for ((first, last), *rest), target in suffixes:
            if rest:
                for byte in range(first, last + 1):
                    longer.setdefault(byte, []).append((tuple(rest), target))
            else:
                values[first : last + 1] = target | flag
        for byte, after in longer.items():
            values[byte] = self._inner(tuple(after)) | flag

    def _inner(self, suffixes: Suffixes) -> int:
        """The row inside a character; equal ones are shared."""
        row = self._inside.get(suffixes)
        if row is None:
            row = self._inside[suffixes] = self.tables.dense()
            self.tables.need[row] = min(self.tables.need[target] for _, target in suffixes)
            self._write(row, suffixes, NEED if self._counted else 0)
        return row


def utf8_ranges(first: int, last: int) -> Iterator[Bytes]:
    """The UTF-8 spellings of the code points `first` to `last` as sequences of byte ranges."""
    for limit in _LIMITS:
        if first > limit:
            continue
        top = min(last, limit)
        yield from _aligned(first, top)
        if top == last:
            return
        first = top + 1


def _aligned(first: int, last: int) -> Iterator[Bytes]:
    # Both have the same length in bytes. Split until all bytes but the leading ones run through their whole range.
    size = len(chr(first).encode())
    for i in range(1, size):
        mask = (1 << 6 * i) - 1
        if first & ~mask != last & ~mask:
            if first & mask:
                yield from _aligned(first, first | mask)
                yield from _aligned((first | mask) + 1, last)
                return
            if last & mask != mask:
                yield from _aligned(first, (last & ~mask) - 1)
                yield from _aligned(last & ~mask, last)
                return
    yield tuple(zip(chr(first).encode(), chr(last).encode(), strict=True))
