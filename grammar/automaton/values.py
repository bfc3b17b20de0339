"""The frame of a value, what waits on the stack while a container in it is read, and what follows the whole text."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from .answers import Answer, Open
from .codes import ARRAY_CLOSE, ARRAY_OPEN, OBJECT_OPEN
from .frames import After, Builder, FrameHandler, Position, Texts
from .specs import ValueStart


class ValueHandler(FrameHandler):
    """A value of `position` is being read; `after` says what follows it."""

    __slots__ = ("after", "builder", "position", "start")

    def __init__(self, builder: Builder, position: Position, start: ValueStart, after: After) -> None:
        self.builder = builder
        self.position = position
        self.start = start
        self.after = after

    def told(self, label: int) -> bool:
        return label in (OBJECT_OPEN, ARRAY_OPEN)

    def step(self, label: int, texts: Texts | None) -> Answer:
        if label in (OBJECT_OPEN, ARRAY_OPEN):
            depth = self.after.depth + 1 if self.builder.options.pretty else 0
            containers = self.builder.containers
            inside = (containers.open_object if label == OBJECT_OPEN else containers.open_array)(
                self.builder, self.position, depth
            )
            return None if inside is None else Open(*inside, back_frame(self.builder, self.after))
        if label == ARRAY_CLOSE:  # the array around ended before its first item
            return self.after.close(texts)
        return self.after.end(self.start.tags_of(label), texts)


class BackHandler(FrameHandler):
    """A container is being read; when it ends, `after` follows. Labels are those of `Builder.close`."""

    __slots__ = ("after", "builder")

    def __init__(self, builder: Builder, after: After) -> None:
        self.builder = builder
        self.after = after

    def step(self, label: int, texts: Texts | None) -> Answer:
        return self.after.end(self.builder.closed[label], texts)


def back_frame(builder: Builder, after: After) -> int:
    """The frame that waits on the stack for the end of a container that `after` follows."""
    key: Hashable = (builder.number, "back", after.key)
    return builder.tables.find(key) or builder.tables.frame(
        key, BackHandler(builder, after), labels=1, scopes=after.scopes
    )


def value_frame(
    builder: Builder,
    position: Position,
    after: After,
    *,
    leading: bool = True,
    first_item: bool = False,
    closable: bool = False,
) -> tuple[int, int]:
    """(row, frame) where a value of `position` begins."""
    depth = after.depth if builder.options.pretty else 0
    start = builder.start(position, leading=leading, first_item=first_item, closable=closable, depth=depth)
    key: Hashable = (builder.number, "value", position.number, leading, first_item, closable, after.key)
    frame = builder.tables.find(key) or builder.tables.frame(
        key,
        ValueHandler(builder, position, start, after),
        labels=start.labels,
        low=start.low,
        high=start.high,
        scopes=after.scopes,
    )
    return start.row, frame


class End:
    """Nothing follows the value of the whole text."""

    key: Hashable = "end"
    scopes = 0
    depth = 0
    closing_tags = 0

    def __init__(self, builder: Builder) -> None:
        self._tables = builder.tables

    def end(self, tags: int, texts: Texts | None) -> Answer:
        return self._tables.end_row, self._tables.end_frame

    def close(self, texts: Texts | None) -> Answer:
        return None

    def endings(self, tags: int) -> Iterable[tuple[int, int]]:
        return ((0, 0),)
