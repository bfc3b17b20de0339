"""The frame between the items of an array."""

from __future__ import annotations

from collections.abc import Hashable

from ..algebra import ArrayProgress, ArrayView, Goal, bits
from ..schema.values import Canonical, canonical, parse_json
from .codes import ARRAY_CLOSE, ITEM_NEXT
from .frames import Builder, FrameHandler, Position, Step, Texts
from .tables import DEPENDS
from .values import Containers, ValueHandler, value_frame

Alternative = tuple[ArrayView, ArrayProgress, int]  # view, its progress, tags
Groups = tuple[tuple[Alternative, ...], ...]
Seen = tuple[Canonical, ...] | None  # items so far, where they matter; None: the last is not known (masks only)


class ArrayHandler(FrameHandler):
    """Some alternatives of an array after an item. `value` is the value that the array is."""

    __slots__ = ("_containers", "alternatives", "builder", "seen", "value")

    def __init__(
        self, alternatives: tuple[Alternative, ...], value: ValueHandler, seen: Seen, containers: Containers
    ) -> None:
        self.builder: Builder = value.builder
        self.alternatives = alternatives
        self.value = value
        self.seen = seen
        self._containers = containers

    @classmethod
    def open(cls, value: ValueHandler, containers: Containers) -> Step:
        """The frame after `[`: the first item or `]`."""
        alternatives = tuple((view, view.start, tags) for view, tags in value.position.arrays)
        if not alternatives:
            return None
        handler = cls(alternatives, value, (), containers)
        item = handler.item(first=True)
        return item if item is not None else handler.frame()

    def closing_tags(self) -> int:
        """The alternatives that may end here."""
        tags = 0
        for view, progress, own in self.alternatives:
            if view.closable(progress):
                tags |= own
        return tags

    def close(self, texts: Texts | None) -> Step:
        """`]` came."""
        return self.value.end(self.closing_tags(), texts)

    def frame(self) -> tuple[int, int]:
        """(row, frame) after an item: a comma, `]`, or either."""
        builder = self.builder
        may_close = bool(self.closing_tags())
        may_continue = self._values()[0] is not None
        depth = self.value.after.depth + 1 if builder.options.pretty else 0
        row = builder.lexemes.after_item(may_continue, may_close, depth)
        key: Hashable = (builder.number, "array", self._identity(), self.value.frame, self.seen)
        frame = builder.tables.frame(key, self, labels=ITEM_NEXT + 1, scopes=self.value.after.scopes)
        return row, frame

    def item(self, *, first: bool) -> tuple[int, int] | None:
        """(row, frame) of the next item; None if none may come."""
        position, groups = self._values()
        if position is None:
            return None
        after = _AfterItem(self, position, groups)
        closable = first and bool(self.closing_tags())
        return value_frame(self.builder, position, after, self._containers, first_item=first, closable=closable)

    def cost(self) -> int:
        """About how many bytes finish the array from here."""
        costs = self.builder.costs
        return min(costs.array(view, progress, self.seen or ()) for view, progress, _ in self.alternatives)

    def _values(self) -> tuple[Position | None, Groups]:
        """The values that the next item may have, and the alternatives that each leads to."""
        if self.seen:
            return self._find_values()
        key = self._identity()
        known = self.builder.items.get(key)
        if known is None:
            known = self.builder.items[key] = self._find_values()
        return known

    def _find_values(self) -> tuple[Position | None, Groups]:
        parts: dict[Goal, int] = {}
        groups: list[list[Alternative]] = []
        for view, progress, tags in self.alternatives:
            for goal, following in view.options(progress, self.seen or ()):
                if goal not in parts:
                    parts[goal] = 1 << len(groups)
                    groups.append([])
                groups[parts[goal].bit_length() - 1].append((view, following, tags))
        position = self.builder.position(parts) if parts else None
        return position, tuple(tuple(group) for group in groups)

    def _identity(self) -> Hashable:
        return tuple((id(view), progress, tags) for view, progress, tags in self.alternatives)

    def step(self, label: int, texts: Texts | None) -> Step:
        if label == ITEM_NEXT:
            return self.item(first=False)
        if label == ARRAY_CLOSE:
            return self.close(texts)
        return None


class _AfterItem:
    """After an item its array goes on, with the alternatives that accepted the item."""

    __slots__ = ("_array", "_groups", "_loose", "_records", "depth", "key", "scopes")

    def __init__(self, array: ArrayHandler, position: Position, groups: Groups) -> None:
        self._array = array
        self._groups = groups
        self._records = any(view.records for view, _, _ in array.alternatives)
        self._loose = self._records and _loose(array.builder, position)
        around = array.value.after
        self.scopes = around.scopes + self._records
        self.depth = around.depth + 1
        identity = tuple(tuple((id(view), progress, own) for view, progress, own in group) for group in groups)
        self.key: Hashable = ("item", array._identity(), identity, array.value.frame, array.seen)

    def cost(self, tags: int) -> int:
        """About how many bytes finish the array after the item was accepted by `tags`."""
        costs = self._array.builder.costs
        seen = self._array.seen or ()
        return min(costs.array(view, after, seen) for group in bits(tags) for view, after, _ in self._groups[group])

    def end(self, tags: int, texts: Texts | None) -> Step:
        array = self._array
        seen = array.seen
        if self._records:
            if texts is not None:
                seen = (*(seen or ()), _item_of(texts[self.scopes - 1]))
            elif self._loose and seen is not None:
                seen = None
            else:
                return DEPENDS
        merged: dict[tuple[ArrayView, ArrayProgress], int] = {}
        for group in bits(tags):
            for view, progress, own in self._groups[group]:
                merged[view, progress] = merged.get((view, progress), 0) | own
        alternatives = tuple(
            (view, progress, own)
            for (view, progress), own in merged.items()
            if not any(
                view is same and progress != other and own & ~theirs == 0 and view.dominates(other, progress)
                for (same, other), theirs in merged.items()
            )
        )
        return ArrayHandler(alternatives, array.value, seen, array._containers).frame()

    def close(self, texts: Texts | None) -> Step:
        """`]` came instead of the first item."""
        return self._array.close(texts)


def _loose(builder: Builder, position: Position) -> bool:
    """Whether excluding a value shuts off no beginning of another: items are strings that can go on from anywhere."""
    algebra = builder.algebra
    return (
        not position.arrays
        and not position.objects.start
        and all(
            all(language.high is None and language.dfa.countable for language in algebra.strings(goal))
            and not algebra.numbers(goal)
            and not algebra.literals(goal)
            for goal, _ in position.parts
        )
    )


def _item_of(text: bytes) -> Canonical:
    """The value of an item from its text with the white space around it."""
    return canonical(parse_json(text.decode()))
