"""Numbers that the walking kernel and its callers agree on: items, results, modes. See `kernels` for their use.

An item is seven numbers: node, kind, frame, row or label, n, base row, stack.

    AFTER   the lexeme ended with this node's byte and the label; go on below the node in the transition's row
    AFTER_LOW  the same, dead if n is below the frame's low (kept exits only)
    BEFORE  the lexeme ended before this node's byte with the label; the transition's row reads the byte again
    BELOW   go on below the node in the row (it was lazy, or this is the root)
    BELOW_OWN  the same for a row whose lexeme may have ended, without what may come after that end
    AT      the row reads the node's byte (it was lazy)

A frame below zero in an item stands for `frame0`, its stack for `stack0`, and its n is relative to `count0`: exits of a
context-free walk are kept in this form and finished under any frame.

Stacks that a walk makes are its own, from `stacks.TEMPORARY` on. How far down it came in the stack that it began
with is noted (LOWEST): the mask is the same for all stacks that are alike down to there.
"""

from __future__ import annotations

from typing import Final

from .trie import DEPTH_MASK

# Kinds of items.
BELOW: Final = 0
AFTER: Final = 1
BEFORE: Final = 2
AFTER_LOW: Final = 3
AT: Final = 4
BELOW_OWN: Final = 5

# Columns of an item.
ITEM: Final = 7
NODE: Final = 0
KIND: Final = 1
FRAME: Final = 2
PLACE: Final = 3
COUNTED: Final = 4
BASE_ROW: Final = 5
STACK: Final = 6
ANY_FRAME: Final = -1

# Results in `counters`.
CHANGED: Final = 0
PENDING: Final = 1
MISSES: Final = 2
VISITED: Final = 3
EXITS: Final = 4
DEPENDENT: Final = 5
LOWEST: Final = 6
OPENED: Final = 7
COUNTERS: Final = 16

# Bits of `mode`.
FIRST: Final = 1
"""Begin a new mask; otherwise go on with the one that the last call left."""
CONTEXT_FREE: Final = 4
"""Keep lexeme ends as exits instead of following them."""
PLAIN_BASE: Final = 8
"""The base row holds every plain token already (see `trie.PLAIN`): bulk skips of plain subtrees set no bits."""
COSTS: Final = 16
"""Note each token's cost: code points counted and those that its last row still needs."""

MORE: Final = 32
"""More items will follow once these are done."""

PATH_ROWS: Final = DEPTH_MASK + 2
MAX_WORDS: Final = (1 << 30) - 1
"""Of a wide `allow`, how many words there are; the bit above says whether unclaimed keys may come."""
