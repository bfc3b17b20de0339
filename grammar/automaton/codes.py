"""Numbers that the tables, the frames and the kernels agree on.

A row value says what one byte does in one row:

    v > 0    go on in row `v & ROW_MASK`; the flags COUNT, REACH, REACH_WIDE, NEED ask for a check on the way
    v < 0    the lexeme ends with this byte, label `(-v & LABEL_MASK) - 1`; the flag CHECK_LOW asks for a check
    v == 0   no word goes on with this byte, unless the row accepts: then the lexeme ended before it (numbers, literals)
"""

from __future__ import annotations

from typing import Final

# Labels of a lexeme's end, dense per frame. The first six mean the same everywhere.
VALUE_END: Final = 0
OBJECT_OPEN: Final = 1
ARRAY_OPEN: Final = 2
OBJECT_CLOSE: Final = 3
ARRAY_CLOSE: Final = 4
ITEM_NEXT: Final = 5
FIRST_LABEL: Final = 6
"""The first label whose meaning a frame decides: a set of alternatives, a key."""

ROW_MASK: Final = 0xFFFFFF
COUNT: Final = 1 << 24
"""The byte begins a code point: n grows by one, and is dead if `n + need[next]` exceeds `high[frame]`."""
REACH: Final = 1 << 25
"""Dead unless `reach[next] & allow[frame]`."""
REACH_WIDE: Final = 1 << 26
"""The same, where both are offsets into `reach_words` (see `Tables.add_reach`)."""
NEED: Final = 1 << 27
"""Dead if `n + need[next]` exceeds `high[frame]`, n itself unchanged: a byte inside a code point that decides between
targets of different need. Rare: only patterns with a length bound have it, where one lead byte leads to both."""
LABEL_MASK: Final = 0xFFFFF
CHECK_LOW: Final = 1 << 20
"""On an end's value (`-v`): dead if n is below `low[frame]`."""

TOKEN_BYTE: Final = 0xFF
"""Stands before three bytes with the id of a token that is taken as such, not as text: no UTF-8 text holds it."""
BIG: Final = 1 << 30
"""No upper bound on a length."""
MAX_LABELS_NARROW: Final = 62
"""A reach set of up to this many labels is one word; of more, several words of as many bits each."""
OTHER_KEY: Final = 1 << 62
"""In `reach` and `allow`: a key that no name and no pattern claims (label FIRST_LABEL). The free key body is one shared
row whose reach is this bit alone, so it stands in the narrow and in the wide form of `allow` alike."""

# States of a transition in `next_row`.
UNKNOWN: Final = 0
REQUESTED: Final = -2
DEAD: Final = -3
TEXT_DEPENDENT: Final = -4
CLOSED: Final = -5
"""The top frame of the stack goes on, with the label that stands in `next_frame`."""

# `form[q, 0]`: how a row is stored; above zero it is sparse, and the number is its base row plus one.
DENSE: Final = 0
LAZY: Final = -1
LAZY_REQUESTED: Final = -2

EDGE_SHIFT: Final = 6
MAX_EDGES: Final = (1 << EDGE_SHIFT) - 1

# `loops`: 128 bits a row, one for each class of bytes that may lead back to the row (see `byte_class`).
LOOPS_SET: Final = 1 << 126
LOOPS_COUNTED: Final = 1 << 125
HIGH_BYTES: Final = 95
NEVER_LOOPS: Final = 104
CONTROLS: Final = (1 << 104) - (1 << 96)
"""The classes of control characters, which may be loops of grammars."""
STRING_LOOPS: Final = (1 << 96) - 1 & ~(1 << 2) & ~(1 << 60) | 1 << 100
"""Every character that stands for itself in a JSON string: all but controls, the quote and the backslash."""


def byte_class(byte: int) -> int:
    """The bit of a byte in a 128-bit summary of bytes: 0 to 94 printable ASCII, 95 all of 0x80 and above.

    The quote and the backslash are in NEVER_LOOPS, with the control characters that JSON has no use for: no row loops
    on them in a way that a subtree of the vocabulary's trie could be skipped for.
    """
    if byte in (0x22, 0x5C):
        return NEVER_LOOPS
    if 0x20 <= byte < 0x7F:
        return byte - 0x20
    if byte >= 0x80:
        return HIGH_BYTES
    return {0x09: 97, 0x0A: 98, 0x0D: 99, 0x7F: 100}.get(byte, NEVER_LOOPS)


BYTE_CLASSES: Final = tuple(byte_class(byte) for byte in range(256))
