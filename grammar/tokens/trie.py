"""The byte trie of a vocabulary as depth-first arrays: what the walking kernel reads.

Nodes are numbered in depth-first order, so a subtree is a range and skipping it is one assignment. A node is one
64-bit word, because the walk is bound by cache misses: its byte, its depth, its tokens and its subtree's end come with
one load. All arrays are built level by level with numpy; no Python loop runs over nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ..automaton.codes import NEVER_LOOPS, byte_class
from ..errors import VocabularyError

Int32s = npt.NDArray[np.int32]
Int64s = npt.NDArray[np.int64]
Levels = list[tuple[Int64s, Int64s]]

# A node's word, low bits first: byte, depth, two flags, the first token's id plus one (0: none), the subtree's end.
BYTE_MASK: Final = 0xFF
DEPTH_SHIFT: Final = 8
DEPTH_MASK: Final = 0x3FF
MANY: Final = 1 << 18
"""Several ids share this node's bytes: they are `order[first[node]:first[node + 1]]`."""
PLAIN: Final = 1 << 19
"""The path here is the well-formed beginning of a text of characters that stand for themselves in a JSON string."""
TOKEN_SHIFT: Final = 20
TOKEN_MASK: Final = (1 << 21) - 1
END_SHIFT: Final = 41

MAX_DEPTH: Final = DEPTH_MASK
"""Longest token in bytes; a longer one is never allowed in constrained text."""
MAX_TOKENS: Final = TOKEN_MASK
MAX_NODES: Final = (1 << 22) - 1

_ILL_FORMED: Final = -1
_PLAIN_CLASSES: Final = 96  # `byte_class` numbers the characters that stand for themselves below this


@dataclass(frozen=True)
class Trie:
    """A byte trie with N nodes over some tokens.

    nodes       int64 [N]     packed words, see above; node 0 is the root, with the tokens that have no bytes left
    roots       int32 [256]   the root's child for each byte, 0: none
    first       int32 [N + 1] where a node's tokens begin in `order`; a subtree's are `order[first[node]:first[end]]`
    order       int32 [T]     token ids in depth-first order
    summary     int64 [N, 2]  128 bits: the classes of bytes that occur below the node (`automaton.codes.byte_class`);
                              NEVER_LOOPS is among them where the bytes below are not well-formed UTF-8
    characters  int32 [N]     code points begun on the path from the root
    lengths     int32 [T]     the same for the tokens of `order`
    """

    nodes: Int64s
    roots: Int32s
    first: Int32s
    order: Int32s
    summary: Int64s
    characters: Int32s
    lengths: Int32s

    def arrays(self) -> dict[str, npt.NDArray[Any]]:
        """The arrays by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def end(self, node: int) -> int:
        """The first node after the subtree of `node`."""
        return int(self.nodes[node]) >> END_SHIFT

    def tokens_below(self, node: int) -> Int32s:
        """Ids of the tokens whose bytes begin with the path to `node`."""
        return self.order[self.first[node] : self.first[self.end(node)]]


def build_trie(tokens: Sequence[bytes], ids: Sequence[int]) -> Trie:
    """The trie of `tokens`, where `tokens[i]` is spelled by the id `ids[i]`; equal bytes and b"" are welcome.

    Raises VocabularyError beyond MAX_TOKENS, MAX_NODES or MAX_DEPTH.
    """
    ranks = sorted(range(len(tokens)), key=tokens.__getitem__)
    lengths = np.fromiter((len(tokens[i]) for i in ranks), np.int64, len(ranks))
    buffer = np.frombuffer(b"".join([tokens[i] for i in ranks]) + b"\0", np.uint8)
    order = np.asarray(ids, np.int64)[np.asarray(ranks, np.int64)]
    starts = np.cumsum(lengths) - lengths
    shared = _shared_prefixes(buffer, starts, lengths)

    # Each token adds the nodes of its bytes beyond what it shares with the one before it in sorted order.
    fresh = lengths - shared
    added = np.cumsum(fresh)
    count = 1 + (int(added[-1]) if len(added) else 0)
    _check_limits(len(order), count, int(lengths.max(initial=0)))
    within = np.arange(count - 1) - np.repeat(added - fresh, fresh)
    byte = np.zeros(count, np.int64)
    depth = np.zeros(count, np.int64)
    byte[1:] = buffer[np.repeat(starts + shared, fresh) + within]
    depth[1:] = np.repeat(shared, fresh) + within + 1

    own = np.bincount(added, minlength=count)[:count]  # a token's node is the last one made for its bytes
    first = np.zeros(count + 1, np.int64)
    np.cumsum(own, out=first[1:])

    levels = _levels(depth)
    outstanding, characters = _utf8(byte, levels)
    ill_formed = outstanding == _ILL_FORMED
    summary = _summaries(byte, ill_formed, levels)
    plain = _plain(byte, outstanding, levels)
    end = np.arange(count) + _subtree_sizes(count, levels)

    token = np.where(own > 0, order[np.minimum(first[:-1], max(len(order) - 1, 0))] + 1, 0) if len(order) else own
    nodes = byte | depth << DEPTH_SHIFT | token << TOKEN_SHIFT | end << END_SHIFT
    nodes |= np.where(own > 1, MANY, 0) | np.where(plain, PLAIN, 0)
    roots = np.zeros(256, np.int32)
    children = np.flatnonzero(depth == 1)
    roots[byte[children]] = children
    return Trie(
        nodes=nodes,
        roots=roots,
        first=first.astype(np.int32),
        order=order.astype(np.int32),
        summary=summary,
        characters=characters.astype(np.int32),
        lengths=characters[added].astype(np.int32),
    )


def _check_limits(tokens: int, nodes: int, depth: int) -> None:
    for what, value, limit in (
        ("tokens", tokens, MAX_TOKENS),
        ("trie nodes", nodes, MAX_NODES),
        ("bytes in one token", depth, MAX_DEPTH),
    ):
        if value > limit:
            raise VocabularyError(f"the vocabulary has {value} {what}; at most {limit} are supported")


def _shared_prefixes(buffer: npt.NDArray[np.uint8], starts: Int64s, lengths: Int64s) -> Int64s:
    """Length of the common prefix of each token with the one before it in sorted order."""
    shared = np.zeros(len(starts), np.int64)
    active = np.arange(1, len(starts))
    position = 0
    while len(active):
        active = active[(lengths[active] > position) & (lengths[active - 1] > position)]
        active = active[buffer[starts[active] + position] == buffer[starts[active - 1] + position]]
        position += 1
        shared[active] = position
    return shared


def _levels(depth: Int64s) -> Levels:
    """For each depth from 1: its nodes in order, and their parents. Children of one parent stand together."""
    by_depth = np.argsort(depth, kind="stable")
    bounds = np.searchsorted(depth[by_depth], np.arange(int(depth.max()) + 2))
    levels = []
    above = by_depth[bounds[0] : bounds[1]]
    for low, high in pairwise(bounds[1:]):
        nodes = by_depth[low:high]
        levels.append((nodes, above[np.searchsorted(above, nodes) - 1]))
        above = nodes
    return levels


def _families(parents: Int64s) -> tuple[Int64s, Int64s]:
    """Each parent once, and where its children begin."""
    begins = np.flatnonzero(np.diff(parents, prepend=-1))
    return parents[begins], begins


def _subtree_sizes(count: int, levels: Levels) -> Int64s:
    sizes = np.ones(count, np.int64)
    for nodes, parents in reversed(levels):
        family, begins = _families(parents)
        sizes[family] += np.add.reduceat(sizes[nodes], begins)
    return sizes


def _utf8(byte: Int64s, levels: Levels) -> tuple[Int64s, Int64s]:
    """Continuation bytes outstanding after each node (-1: not well-formed from the root on), and code points begun.

    Leads whose second byte is restricted (E0, ED, F0, F4) count as ill-formed: their subtrees are walked byte by
    byte rather than skipped, so the restriction is the automaton's affair.
    """
    lead = np.full(256, _ILL_FORMED)
    lead[:0x80] = 0
    lead[0xC2:0xE0] = 1
    lead[0xE1:0xF0] = 2
    lead[0xED] = _ILL_FORMED
    lead[0xF1:0xF4] = 3
    outstanding = np.zeros(len(byte), np.int64)
    characters = np.zeros(len(byte), np.int64)
    for nodes, parents in levels:
        value, before = byte[nodes], outstanding[parents]
        continued = np.where(value & 0xC0 == 0x80, before - 1, _ILL_FORMED)
        after = np.where(before > 0, continued, np.where(before == 0, lead[value], _ILL_FORMED))
        outstanding[nodes] = after
        characters[nodes] = characters[parents] + (value & 0xC0 != 0x80)
    return outstanding, characters


def _summaries(byte: Int64s, ill_formed: npt.NDArray[np.bool_], levels: Levels) -> Int64s:
    bits = [1 << byte_class(value) for value in range(256)]
    words = np.array([[bit & (1 << 64) - 1, bit >> 64] for bit in bits], np.uint64).view(np.int64)
    own = words[byte]
    own[ill_formed, 1] |= 1 << NEVER_LOOPS - 64
    summary = np.zeros((len(byte), 2), np.int64)
    for nodes, parents in reversed(levels):
        family, begins = _families(parents)
        summary[family] = np.bitwise_or.reduceat(summary[nodes] | own[nodes], begins, axis=0)
    return summary


def _plain(byte: Int64s, outstanding: Int64s, levels: Levels) -> npt.NDArray[np.bool_]:
    stands_for_itself = np.array([byte_class(value) < _PLAIN_CLASSES for value in range(256)])
    plain = np.ones(len(byte), np.bool_)
    for nodes, parents in levels:
        plain[nodes] = plain[parents] & stands_for_itself[byte[nodes]] & (outstanding[nodes] >= 0)
    return plain
