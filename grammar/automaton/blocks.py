"""Rows for the inside of a character: templates flattened into arrays, so that a whole character is made at a time.

The targets of a state's classes differ from state to state; the shape of the bytes does not. A `Block` is that shape as
arrays: making its rows is a few array operations, however many rows they are. Blocks of equal shape are one object.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from ..frozen import frozen
from ..regular.charset import ALL, EMPTY_SET, CharSet
from .codes import EDGE_SHIFT
from .specs import Spelling
from .spelling import Span, Template, template

_SPARSE_UP_TO: Final = 24
_EAGER_NODES: Final = 64
_SMALL_LEAD: Final = 16
_SINGLE: Final = CharSet.of((0x20, 0x21), (0x23, 0x5B), (0x5D, 0x7E))
"""Characters that have no other natural spelling than their one byte."""

Int16s = npt.NDArray[np.int16]
Indexes = npt.NDArray[np.intp]


@frozen(eq=False)
class Block:
    """Nodes of a template that lead to the same classes. Those of dense rows come first.

    Values index a vector: 0, then the targets of the classes, then the block's own rows.
    """

    classes: int
    dense: Int16s  # [dense nodes, 256]
    edge_byte: npt.NDArray[np.int32]
    edge_value: Int16s
    counts: npt.NDArray[np.int32]  # edges of each sparse node
    forms: npt.NDArray[np.int32]  # [sparse nodes, 2], `Tables.form` for edges from offset 0 on
    order: npt.NDArray[np.int32]  # 0, 1, ... for all nodes
    node_classes: tuple[tuple[int, ...], ...]
    utf8: Indexes  # nodes that read continuation bytes

    @property
    def nodes(self) -> int:
        """How many rows the block makes."""
        return len(self.node_classes)


@frozen
class Group:
    """A block as a template uses it: for these of its classes; made `lazily`, or at once with the state's row."""

    block: Block
    classes: tuple[int, ...]
    lazily: bool


@frozen(eq=False)
class Layout:
    """A template ready to be made into rows.

    `root` indexes a vector: 0, then the targets of all classes, then the rows of `entries` (group, node of its block).
    `bytes` are the places where it is not 0, `loops` the classes of bytes (`codes.byte_class`) of each class.
    """

    root: Int16s
    bytes: npt.NDArray[np.int32]
    groups: tuple[Group, ...]
    entries: tuple[tuple[int, int], ...]
    loops: tuple[int, ...]


@lru_cache(maxsize=4096)
def layout(partition: tuple[CharSet, ...], spelling: Spelling) -> Layout:
    """The rows that a state with these classes needs, the targets left open."""
    # Of the characters that are a byte each, nothing but the root tells; patterns mostly differ in these alone.
    single = _SINGLE if spelling == "natural" else EMPTY_SET
    others = {index: rest for index, chars in enumerate(partition) if (rest := chars - single)}
    inner = _layout(tuple(others.values()), spelling)
    classes = list(others)
    first = 1 + len(partition)
    places = np.array([0, *[1 + c for c in classes], *range(first, first + len(inner.entries))])
    root = places[inner.root].astype(np.int16)
    for index, chars in enumerate(partition):
        for low, high in (chars & single).ranges():
            root[low : high + 1] = 1 + index
    groups = tuple([Group(g.block, tuple([classes[c] for c in g.classes]), g.lazily) for g in inner.groups])
    loops = tuple([loop_classes(chars) for chars in partition])
    return Layout(root, np.flatnonzero(root).astype(np.int32), groups, inner.entries, loops)


@lru_cache(maxsize=4096)
def _layout(partition: tuple[CharSet, ...], spelling: Spelling) -> Layout:
    """The same, made from the template of all the characters."""
    shape = template(partition, spelling)
    groups: list[Group] = []
    entries: list[tuple[int, int]] = []
    place: dict[int, int] = {}
    for used, nodes in _grouped(shape):
        block, index = _block(shape, nodes, used)
        groups.append(Group(block, used, (len(nodes) == 1 and len(used) > 1) or block.nodes > _EAGER_NODES))
        for node in nodes:
            place[node] = 1 + len(partition) + len(entries)
            entries.append((len(groups) - 1, index[node]))
    root = np.zeros(256, np.int16)
    for first, last, child in shape.root:
        root[first : last + 1] = place[child] if child >= 0 else 1 + ~child
    return Layout(root, np.flatnonzero(root).astype(np.int32), tuple(groups), tuple(entries), ())


def loop_classes(chars: CharSet) -> int:
    """The classes of bytes (`codes.byte_class`) of characters that stand for themselves; 0x80 and above all or not."""
    plain = chars.ascii & ~(1 << 0x22 | 1 << 0x5C)
    high = chars.wide == ALL.wide
    return plain >> 32 & (1 << 95) - 1 | high << 95 | (plain >> 127) << 100


def _grouped(shape: Template) -> list[tuple[tuple[int, ...], list[int]]]:
    """Children of the root that share a block: all that lead to the same classes, unless one is big or an escape.

    Those of several classes differ from state to state and are made lazily, each on its own.
    """
    members: dict[tuple[tuple[int, ...], int], list[int]] = {}
    for node in dict.fromkeys(child for _, _, child in shape.root if child >= 0):
        used = shape.classes[node]
        size = len(_closure(shape, [node]))
        alone = size > _EAGER_NODES or (len(used) > 1 and (node == shape.escape or size > _SMALL_LEAD))
        members.setdefault((used, node if alone else -1), []).append(node)
    return [(used, nodes) for (used, _), nodes in members.items()]


def _closure(shape: Template, nodes: list[int]) -> list[int]:
    seen = dict.fromkeys(nodes)
    queue = list(nodes)
    for node in queue:
        for _, _, child in shape.nodes[node]:
            if child >= 0 and child not in seen:
                seen[child] = None
                queue.append(child)
    return sorted(seen)


def _block(shape: Template, nodes: list[int], used: tuple[int, ...]) -> tuple[Block, dict[int, int]]:
    """The block of the nodes below `nodes`, and where each node is in it."""
    closure = _closure(shape, nodes)
    closure.sort(key=lambda node: _width(shape.nodes[node]) <= _SPARSE_UP_TO)
    index = {node: i for i, node in enumerate(closure)}
    local = {~c: 1 + i for i, c in enumerate(used)}
    spans = tuple(
        tuple((a, b, local[c] if c < 0 else 1 + len(used) + index[c]) for a, b, c in shape.nodes[node])
        for node in closure
    )
    node_classes = tuple(tuple(used.index(c) for c in shape.classes[node]) for node in closure)
    return _flattened(spans, node_classes, len(used)), index


def _width(spans: tuple[Span, ...]) -> int:
    return sum(last - first + 1 for first, last, _ in spans)


@lru_cache(maxsize=4096)
def _flattened(nodes: tuple[tuple[Span, ...], ...], node_classes: tuple[tuple[int, ...], ...], classes: int) -> Block:
    wide = sum(_width(spans) > _SPARSE_UP_TO for spans in nodes)
    dense = np.zeros((wide, 256), np.int16)
    for i, spans in enumerate(nodes[:wide]):
        for first, last, value in spans:
            dense[i, first : last + 1] = value
    edges = [[(byte, value) for a, b, value in spans for byte in range(a, b + 1)] for spans in nodes[wide:]]
    counts = np.array([len(part) for part in edges], np.int32)
    flat = np.array([edge for part in edges for edge in part], np.int32).reshape(-1, 2)
    return Block(
        classes,
        dense,
        np.ascontiguousarray(flat[:, 0]),
        flat[:, 1].astype(np.int16),
        counts,
        np.stack([np.ones_like(counts), (np.cumsum(counts) - counts) << EDGE_SHIFT | counts], 1).astype(np.int32),
        np.arange(len(nodes), dtype=np.int32),
        node_classes,
        np.array([i for i, spans in enumerate(nodes) if spans[0][0] >= 0x80], np.intp),
    )
