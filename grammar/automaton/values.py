"""The frame of a value, and what follows the whole text."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from .codes import ARRAY_CLOSE, ARRAY_OPEN, OBJECT_OPEN
from .frames import After, Builder, FrameHandler, Position, Step, Texts
from .specs import ValueStart

if TYPE_CHECKING:
    from .arrays import ArrayHandler
    from .objects import ObjectHandler


class ValueHandler(FrameHandler):
    """A value of `position` is being read; `after` says what follows it."""

    __slots__ = ("_containers", "after", "builder", "frame", "position", "start")

    def __init__(
        self, builder: Builder, position: Position, start: ValueStart, after: After, containers: Containers
    ) -> None:
        self.builder = builder
        self.position = position
        self.start = start
        self.after = after
        self.frame = 0
        self._containers = containers

    def end(self, tags: int, texts: Texts | None) -> Step:
        """The container opened in this value ended, accepted by the alternatives in `tags`."""
        return self.after.end(tags, texts) if tags else None

    def step(self, label: int, texts: Texts | None) -> Step:
        if label == OBJECT_OPEN:
            return self._containers.open_object(self)
        if label == ARRAY_OPEN:
            return self._containers.open_array(self)
        if label == ARRAY_CLOSE:  # the array around ended before its first item
            return self.after.close(texts)
        return self.after.end(self.start.tags_of(label), texts)


class Containers:
    """Opens the containers inside values: `JsonAutomaton` knows both kinds of handler, the handlers know neither."""

    def __init__(self, objects: type[ObjectHandler], arrays: type[ArrayHandler]) -> None:
        self._objects = objects
        self._arrays = arrays

    def open_object(self, value: ValueHandler) -> Step:
        """The frame after `{`."""
        return self._objects.open(value, self)

    def open_array(self, value: ValueHandler) -> Step:
        """The frame after `[`."""
        return self._arrays.open(value, self)


def value_frame(
    builder: Builder,
    position: Position,
    after: After,
    containers: Containers,
    *,
    leading: bool = True,
    first_item: bool = False,
    closable: bool = False,
) -> tuple[int, int]:
    """(row, frame) where a value of `position` begins."""
    depth = after.depth if builder.options.pretty else 0
    start = builder.start(position, leading=leading, first_item=first_item, closable=closable, depth=depth)
    key: Hashable = (builder.number, "value", position.number, leading, first_item, closable, after.key)
    frame = builder.tables.find(key)
    if not frame:
        handler = ValueHandler(builder, position, start, after, containers)
        frame = handler.frame = builder.tables.frame(
            key, handler, labels=start.labels, low=start.low, high=start.high, scopes=after.scopes
        )
    return start.row, frame


class End:
    """Nothing follows the value of the whole text."""

    key: Hashable = "end"
    scopes = 0
    depth = 0

    def __init__(self, builder: Builder) -> None:
        self._tables = builder.tables

    def end(self, tags: int, texts: Texts | None) -> Step:
        return self._tables.end_row, self._tables.end_frame

    def close(self, texts: Texts | None) -> Step:
        return None

    def cost(self, tags: int) -> int:
        return 0
