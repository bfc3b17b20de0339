"""Numbers that the walking kernel and its callers agree on: items, results, modes. See `kernels` for their use."""

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

PATH_ROWS: Final = DEPTH_MASK + 2
MAX_WORDS: Final = (1 << 30) - 1
"""Of a wide `allow`, how many words there are; the bit above says whether unclaimed keys may come."""
