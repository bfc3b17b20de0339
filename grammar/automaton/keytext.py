"""The text of a key: declared names as a trie over the bodies of undeclared keys, filtered by what a frame allows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np

from ..frozen import frozen
from ..regular.charset import CharSet
from ..regular.dfa import Dfa
from .charrows import Marks
from .codes import DENSE, EDGE_SHIFT, ROW_MASK
from .keybodies import KeyBodies, KeyBody
from .keyclasses import KeyClasses
from .keyreach import KeyReach
from .spelling import QUOTE
from .trie import Base, Tree, WordRows, grow, over, spellings
from .trieshape import is_plain, trie_shape
from .turns import Breath


@frozen(eq=False)
class KeyText:
    """Rows that read a key after its opening quote, to the colon and its label.

    `root` is 0 where no key can come at all, `patterned` whether patterns tell undeclared keys apart.
    """

    root: int
    reach: KeyReach
    names: tuple[str, ...]
    signatures: tuple[int, ...]
    patterned: bool
    used: frozenset[str] = frozenset()
    origin: int = 0


class KeyTexts:
    """Makes the texts of keys, once for equal names and patterns."""

    def __init__(self, bodies: KeyBodies) -> None:
        self.bodies = bodies
        self.tables = bodies.tables
        self.spelling = bodies.chars.spelling
        self._texts: dict[tuple[tuple[str, ...], tuple[Dfa, ...], bool], KeyText] = {}
        self._extended: dict[tuple[int, frozenset[str]], KeyText] = {}

    def text(self, names: tuple[str, ...], patterns: tuple[Dfa, ...], other: bool) -> KeyText:
        """The rows of these names and classes of other keys."""
        key = (names, patterns, other)
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = self._text(names, patterns, other)
        return text

    def _text(self, names: tuple[str, ...], patterns: tuple[Dfa, ...], other: bool) -> KeyText:
        classes = self.bodies.classes(patterns, other)
        signatures = classes.signatures
        reach = KeyReach(self.tables, len(signatures) + len(names), 0 in signatures)
        body = self.bodies.body(classes, reach) if patterns else None
        root = 0
        if body is not None and classes.start is not None:
            root = body.row(classes.start)
        elif other:
            root = self.bodies.free()
        if names and (patterns or reach.words):
            root = _Names(self, names, classes, body, reach).root() or root
        elif names:
            root = self._later(names, classes, reach) or root
        return KeyText(root, reach, names, signatures, bool(patterns), origin=root)

    def _later(self, names: tuple[str, ...], classes: KeyClasses, reach: KeyReach) -> int:
        """The root of names, whose rows are made when one of them is read: the first token seldom goes so far."""
        tables = self.tables

        def build(row: int) -> None:
            made = _Names(self, names, classes, None, reach).root()
            base, packed = tables.form[made].tolist()
            tables.form[row, 1] = 0 if base == DENSE else packed
            tables.form[row, 0] = made + 1 if base == DENSE else base

        first = len(classes.signatures)
        mask = sum([1 << label for label, name in enumerate(names, first) if _written(name)])
        if not mask:
            return 0
        root = tables.lazy(build, light=True)
        if first:
            tables.wide[root] = self.bodies.free()
        tables.reach[root] = reach.value(mask | first)
        return root

    def extended(self, text: KeyText, name: str) -> KeyText:
        """The same keys without `name`, an undeclared one that was used: a copy of the rows that spell it."""
        used = text.used | {name}
        key = (text.origin, used)
        extended = self._extended.get(key)
        if extended is None:
            root = _Without(self, text, name).root()
            extended = replace(text, root=root, used=used)
            self._extended[key] = extended
        return extended


class _Names:
    """The trie of declared names over whatever else a key may be."""

    def __init__(
        self, texts: KeyTexts, names: tuple[str, ...], classes: KeyClasses, body: KeyBody | None, reach: KeyReach
    ) -> None:
        self._texts = texts
        self._classes = classes
        self._body = body
        self._reach = reach
        self._breath = Breath(texts.tables.pauses)
        reach.require_room(2 * len(names))  # before any work: for their colons and for their nodes
        order = sorted([i for i, name in enumerate(names) if _written(name)], key=names.__getitem__)
        self._labels = [len(classes.signatures) + i for i in order]
        self._words = [names[i] for i in order]
        self._shape = trie_shape(self._words, self._breath)

    def root(self) -> int:
        texts, reach, shape = self._texts, self._reach, self._shape
        if not self._words:
            return 0
        states = self._states()
        closing = texts.bodies.closing(self._labels, reach)
        self._breath()
        if states is not None:
            reaches = [reach.value(mask) for mask in self._masks(states)]
        else:
            reaches = self._wide_reaches() if reach.words else self._reaches()
        self._breath()
        rows = WordRows(
            texts.tables,
            texts.spelling,
            self._words,
            closing,
            self._base(states),
            Marks(reach.flag, reach.flag, reach.union),
            shape,
            np.array(reaches, np.int64),
        )
        return rows.root

    def _base(self, states: list[int | None] | None) -> Base | None:
        bodies, flag = self._texts.bodies, self._reach.flag

        def inside(row: int, byte: int) -> int:
            value = bodies.tables.value(row, byte)
            return bodies.flagged(value & ROW_MASK, flag) if value > 0 else 0

        if states is None:
            if not self._classes.signatures:
                return None
            free = bodies.free()
            return Base(bodies.flagged(free, flag), free, inside=inside)
        body = self._body
        assert body is not None
        found = [0 if state is None else bodies.flagged(body.row(state), flag) for state in states]
        rows = np.array(found, np.int32)
        # Whether a frame allows the class of a wide row is seen only where a reach is one word.
        return Base(wide=0 if self._reach.words else bodies.tables.wide[rows], rows=rows, inside=inside)

    def _states(self) -> list[int | None] | None:
        """The state of the patterns in each node, or None if there are no patterns."""
        if self._body is None:
            return None
        states: list[int | None] = [None] * self._shape.size
        states[0] = self._classes.start
        for node, children in enumerate(self._children()):
            state = states[node]
            if state is not None:
                for child in children:
                    states[child] = self._classes.next(state, chr(self._shape.char[child]))
        return states

    def _children(self) -> Iterable[list[int]]:
        following = self._shape.has_next().tolist()
        for node in range(self._shape.size):
            branches = self._shape.branches.get(node, [])
            yield [node + 1, *branches] if following[node] else branches

    def _reaches(self) -> list[int]:
        """For each node the reach: the labels of the names below it, and always that of other keys, if any may come."""
        shape = self._shape
        free = self._reach.value(1) if self._classes.signatures else 0
        reaches = [free]
        for label, count, path in zip(self._labels, shape.lengths, shape.paths, strict=True):
            own = 1 << label
            for node in path:
                reaches[node] |= own
            reaches += [own | free] * count
        return reaches

    def _wide_reaches(self) -> list[int]:
        """The same where a reach is more than a word: those of names alone are written in bulk."""
        reach, shape = self._reach, self._shape
        free = 1 if self._classes.signatures else 0
        own = reach.singles(self._labels, free)
        reaches = [reach.value(free)]
        owner = [-1]
        for index, count in enumerate(shape.lengths):
            reaches += [own[index]] * count
            owner += [index] * count
        shared: dict[int, int] = {}
        for label, path, end in zip(self._labels, shape.paths, shape.ends, strict=True):
            for node in path:
                shared[node] = shared.get(node, free) | 1 << label
            if owner[end] < 0:
                shared[end] = shared.get(end, free) | 1 << label
        for node, mask in shared.items():
            if owner[node] >= 0:
                mask |= 1 << self._labels[owner[node]]
            reaches[node] = reach.value(mask)
        return reaches

    def _masks(self, states: list[int | None]) -> list[int]:
        """For each node the labels that can still come; a class counts only if it has a key besides the names."""
        classes = self._classes
        named = dict(zip(self._shape.ends, self._labels, strict=True))
        masks = [0] * self._shape.size
        children = list(self._children())
        for node in reversed(range(self._shape.size)):
            state = states[node]
            mask = 0
            if node in named:
                mask |= 1 << named[node]
            elif state is not None and (ending := classes.ending(state)) is not None:
                mask |= 1 << ending
            for child in children[node]:
                mask |= masks[child]
            if state is not None:
                taken = CharSet.chars(chr(self._shape.char[child]) for child in children[node])
                for chars, target in classes.steps(state):
                    if chars - taken:
                        mask |= classes.live(target)
            masks[node] = mask
        return masks


class _Without:
    """Copies of the rows that spell one key, in which that key cannot end."""

    def __init__(self, texts: KeyTexts, text: KeyText, name: str) -> None:
        self._texts = texts
        self._tables = texts.tables
        self._text = text
        self._name = name
        self._made: dict[tuple[int, int], int] = {}

    def root(self) -> int:
        """The copy of the root."""
        name = self._name
        if self._texts.spelling == "natural" and not self._text.patterned and is_plain(name):
            return self._plain_root()
        # From the end of the name to its beginning, since a row needs those after it and names may be thousands long.
        reached = [{self._text.root}]
        for char in self._name:
            following: set[int] = set()
            for spelled in spellings(ord(char), self._texts.spelling):
                for row in reached[-1]:
                    after = row
                    for byte in spelled:
                        value = self._tables.value(after, byte) if after else 0
                        after = value & ROW_MASK if value > 0 else 0
                    if after:
                        following.add(after)
            reached.append(following)
        for position in range(len(self._name), -1, -1):
            for row in reached[position]:
                self.row(position, row)
        return self.row(0, self._text.root)

    def _plain_root(self) -> int:
        """The same where each character is one byte: one row after the other, most of them the body of other keys."""
        tables, reach = self._tables, self._text.reach
        path = [self._text.root]
        for char in self._name:
            path.append(tables.value(path[-1], ord(char)) & ROW_MASK)
        count, body = len(path), path[-1]
        dense = tables.form[body, 0] == DENSE  # it is so unless the name begins one that was declared or used
        alike = next(i for i, row in enumerate(path) if row == body) if dense else count
        first = tables.sparse(count)
        reaches = tables.reach[path]
        tables.reach[first : first + count], tables.wide[first : first + count] = reaches, tables.wide[path]
        if dense:
            own = count - alike
            offset = tables.add_edges(own)
            edges = slice(offset, offset + own - 1)
            tables.edge_byte[edges] = np.frombuffer(self._name[alike:].encode(), np.uint8)
            after = np.arange(first + alike + 1, first + count, dtype=np.int32)
            tables.edge_next[edges] = after | reach.flag_of(int(reaches[-1]))
            tables.put_edge(offset + own - 1, QUOTE, 0)
            form = tables.form[first + alike : first + count]
            form[:, 0] = body + 1
            form[:, 1] = np.arange(offset, offset + own, dtype=np.int32) << EDGE_SHIFT | 1
        else:
            alike -= 1
            over(tables, first + alike, body, [(QUOTE, 0)])
        for i in range(alike - 1, -1, -1):
            value = first + i + 1 | reach.flag_of(int(reaches[i + 1]))
            over(tables, first + i, path[i], [(ord(self._name[i]), value)])
        return first

    def row(self, position: int, row: int) -> int:
        """The copy of `row`, in which `position` characters of the name were read."""
        made = self._made.get((position, row))
        if made is None:
            if position == len(self._name):
                made = self._copy(row, [(QUOTE, 0)])
            else:
                tree: Tree = {}
                for spelled in spellings(ord(self._name[position]), self._texts.spelling):
                    grow(tree, spelled, position + 1)
                made = self._within(row, tree)
            self._made[position, row] = made
        return made

    def _within(self, row: int, tree: Tree) -> int:
        edges: list[tuple[int, int]] = []
        done: dict[int, tuple[int, int]] = {}
        for byte, below in tree.items():
            value = self._tables.value(row, byte)
            if value <= 0:
                continue
            after = value & ROW_MASK
            key = id(below) if not isinstance(below, int) else -below
            known, copy = done.get(key, (0, 0))
            if known != after:
                copy = self.row(below, after) if isinstance(below, int) else self._within(after, below)
                done[key] = (after, copy)
            edges.append((byte, copy | self._text.reach.flag_of(int(self._tables.reach[copy]))))
        return self._copy(row, edges)

    def _copy(self, row: int, edges: list[tuple[int, int]]) -> int:
        tables = self._tables
        copy = tables.sparse()
        over(tables, copy, row, edges)
        tables.wide[copy] = tables.wide[row]
        tables.reach[copy] = self._reach(copy, row)
        return copy

    def _reach(self, copy: int, row: int) -> int:
        if not self._text.patterned:  # endless other keys go on from everywhere
            return int(self._tables.reach[row])
        values = self._tables.values(copy)
        return self._text.reach.union(set((values[values > 0] & ROW_MASK).tolist()))


def _written(name: str) -> bool:
    """Whether a text can hold the name: one with a lone surrogate is in none."""
    return name.isascii() or not any("\ud800" <= char <= "\udfff" for char in name)
