"""What a row reads: disjoint classes of characters, from those of its states."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from ..automaton.codes import BYTE_CLASSES, NEVER_LOOPS
from ..automaton.text import Bytes, utf8_ranges
from ..regular import CharSet, partition

Ranges = tuple[tuple[int, int], ...]
States = frozenset[tuple[int, int]]
"""(state, place of its context in the frame's tuple; in labels also, below zero, minus the context, minus one)."""
Blocks = list[tuple[int, Ranges, int]]
"""Classes of characters, as bits of the ASCII ones and ranges of the others, and what they lead to."""

ASCII: Final = CharSet.of((0, 0x7F))
SPARSE_UP_TO: Final = 12


@lru_cache(4096)
def bytes_of(bits: int) -> npt.NDArray[np.intp]:
    """The numbers of the bits that are set."""
    chosen = np.frombuffer(bits.to_bytes(32, "little"), np.uint8)
    return np.flatnonzero(np.unpackbits(chosen, bitorder="little"))


@lru_cache(4096)
def classes_of(bits: int) -> int:
    """The classes of ASCII characters, given as bits, in a row's summary of loops."""
    classes = 0
    for byte in bytes_of(bits).tolist():
        if BYTE_CLASSES[byte] != NEVER_LOOPS:
            classes |= 1 << BYTE_CLASSES[byte]
    return classes


@lru_cache(1024)
def spellings(ranges: Ranges) -> tuple[Bytes, ...]:
    """The UTF-8 spellings of characters."""
    return tuple([spelling for first, last in ranges for spelling in utf8_ranges(first, last)])


def values_of_few(blocks: Blocks, events: int) -> dict[int, int] | None:
    """What bytes lead to, without those of `events`; None if there are many, or longer characters among them."""
    few: dict[int, int] = {}
    for bits, ranges, value in blocks:
        if ranges or len(few) + bits.bit_count() > SPARSE_UP_TO:
            return None
        bits &= ~events
        while bits:
            few[(bits & -bits).bit_length() - 1] = value
            bits &= bits - 1
    return few


def split(edges: dict[CharSet, set[tuple[int, int]]]) -> list[tuple[int, Ranges, States]]:
    """Disjoint classes of characters, as bits of the ASCII ones and ranges of the others, with all targets of each."""
    if len(edges) == 1:
        return [(chars.ascii, chars.wide, frozenset(targets)) for chars, targets in edges.items()]
    single: dict[int, set[tuple[int, int]]] = {}
    blocks: list[tuple[int, frozenset[tuple[int, int]]]] = []
    wide: dict[CharSet, set[tuple[int, int]]] = {}
    alone = 0
    for chars, targets in edges.items():
        rest = chars.ascii
        if chars.wide:
            wide[chars] = targets
        if rest & rest - 1 == 0:
            if rest:
                single[rest] = single[rest] | targets if rest in single else targets
                alone |= rest
            continue
        refined = []
        for bits, known in blocks:
            common = bits & rest
            if common:
                refined.append((common, known | targets))
                bits ^= common
                rest ^= common
            if bits:
                refined.append((bits, known))
        if rest:
            refined.append((rest, frozenset(targets)))
        blocks = refined
    ascii_: dict[States, int] = {}
    for bits, known in blocks:
        if bits & ~alone:
            ascii_[known] = ascii_.get(known, 0) | bits & ~alone
    for bit, targets in single.items():
        every = frozenset(targets).union(*(known for bits, known in blocks if bits & bit))
        ascii_[every] = ascii_.get(every, 0) | bit
    beyond: dict[States, list[tuple[int, int]]] = {}
    if len(wide) == 1:
        (chars, targets), = wide.items()
        beyond[frozenset(targets)] = list(chars.wide)
        wide = {}
    for block in partition(chars - ASCII for chars in wide):
        there = frozenset[tuple[int, int]]().union(*(found for chars, found in wide.items() if chars & block))
        beyond.setdefault(there, []).extend(block.wide)
    return [
        (ascii_.get(targets, 0), tuple(sorted(beyond.get(targets, ()))), targets)
        for targets in dict.fromkeys((*ascii_, *beyond))
    ]
