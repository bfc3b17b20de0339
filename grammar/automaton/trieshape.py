"""The trie of a sorted list of words, over code points, as flat lists: the shape alone, no rows yet."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt

from ..frozen import frozen


@frozen(eq=False)
class TrieShape:
    """Nodes are numbered so that a word's own part is consecutive: most nodes have just the next one below them.

    char        code point that leads to each node (node 0 is the root, 0)
    lengths     how many nodes each word adds, in order; node 0 belongs to none
    ends        the node of each word
    branches    further children of a node, besides `node + 1` where that is its child
    paths       for each word the nodes, from the root on, that it shares with the word before it
    plain       whether all characters are printable ASCII that stands for itself in a JSON string
    """

    char: npt.NDArray[np.int32]
    lengths: list[int]
    ends: list[int]
    branches: dict[int, list[int]]
    paths: list[list[int]]
    plain: bool

    @property
    def size(self) -> int:
        return len(self.char)

    def has_next(self) -> npt.NDArray[np.bool_]:
        """For each node whether `node + 1` is its child: not for the root and the ends of words."""
        found = np.ones(self.size, np.bool_)
        found[0] = False
        found[self.ends] = False
        return found

    def ahead(self) -> npt.NDArray[np.int32]:
        """For each node how many characters are left to the nearest end of a word."""
        # Between nodes that branch or end a word the next node is the only one below.
        ends = set(self.ends)
        marks = sorted({0, *ends, *self.branches})
        left = [0] * len(marks)
        for i in range(len(marks) - 1, -1, -1):
            node = marks[i]
            if node not in ends:
                below = self.branches.get(node, [])
                below = [node + 1, *below] if node else below
                for child in below:
                    at = bisect_left(marks, child)
                    length = 1 + left[at] + marks[at] - child
                    left[i] = min(left[i] or length, length)
        nodes = np.arange(self.size, dtype=np.int32)
        places = np.searchsorted(marks, nodes)
        found: npt.NDArray[np.int32] = (np.array(left, np.int32) + np.array(marks, np.int32))[places] - nodes
        return found


def trie_shape(words: Sequence[str], breath: Callable[[], None] = lambda: None) -> TrieShape:
    """`words` sorted by code point and distinct. The work is one comparison a word, besides copying its text.

    `breath` is called after every few words.
    """
    # The path of the word before, as stretches of consecutive nodes: (depth, node) at which each begins.
    stretches = [(0, 0)]
    pieces = ["\0"]
    lengths: list[int] = []
    ends: list[int] = []
    branches: dict[int, list[int]] = {}
    paths: list[list[int]] = []
    root = [0]
    size = 1
    previous = ""
    for index, word in enumerate(words):
        if not index & 63:
            breath()
        if word[:1] != previous[:1]:  # nearly always
            common = last = 0
            del stretches[1:]
            paths.append(root)
        else:
            common = _common(previous, word)
            while stretches[-1][0] > common:
                stretches.pop()
            depth, node = stretches[-1]
            last = node + common - depth
            paths.append(_nodes(stretches, common))
        own = len(word) - common
        if own:
            if last in branches:
                branches[last].append(size)
            else:
                branches[last] = [size]
            pieces.append(word[common:] if common else word)
            stretches.append((common + 1, size))
            size += own
            last = size - 1
        lengths.append(own)
        ends.append(last)
        previous = word
    text = "".join(pieces)
    char = np.frombuffer(text.encode("utf-32-le"), np.int32)
    plain = is_plain(text[1:])
    return TrieShape(char, lengths, ends, branches, paths, plain)


def is_plain(text: str) -> bool:
    """Whether all characters are printable ASCII that stands for itself in a JSON string."""
    return text.isascii() and text.isprintable() and '"' not in text and "\\" not in text


def _nodes(stretches: list[tuple[int, int]], depth: int) -> list[int]:
    """The nodes of a path down to `depth`."""
    nodes: list[int] = []
    ends = [start for start, _ in stretches[1:]] + [depth + 1]
    for (start, node), end in zip(stretches, ends, strict=True):
        nodes.extend(range(node, node + end - start))
    return nodes


def _common(a: str, b: str) -> int:
    if b.startswith(a):
        return len(a)
    count = 0
    for x, y in zip(a, b, strict=False):
        if x != y:
            break
        count += 1
    return count
