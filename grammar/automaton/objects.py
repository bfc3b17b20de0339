"""The frame between the properties of an object."""

from __future__ import annotations

import json
from collections.abc import Hashable

from ..algebra import Goal, Progress, bits
from .codes import OBJECT_CLOSE
from .frames import Alternative, Builder, Face, FrameHandler, Groups, Position, Shape, Step, Texts, Used
from .tables import DEPENDS
from .values import Containers, ValueHandler, value_frame


class ObjectHandler(FrameHandler):
    """Some alternatives of an object, each as far as it has come. `value` is the value that the object is."""

    __slots__ = ("_containers", "alternatives", "builder", "face", "shape", "used", "value")

    def __init__(
        self,
        shape: Shape,
        alternatives: tuple[Alternative, ...],
        value: ValueHandler,
        used: Used,
        face: Face,
        containers: Containers,
    ) -> None:
        self.builder = value.builder
        self.shape = shape
        self.alternatives = alternatives
        self.value = value
        self.used = used
        self.face = face
        self._containers = containers

    @classmethod
    def open(cls, value: ValueHandler, containers: Containers) -> Step:
        """The frame after `{`."""
        shape = value.position.objects
        alternatives = tuple((i, shape.views[i].start, tags) for i, tags in shape.start)
        if not alternatives:
            return None
        return cls.frame(shape, alternatives, value, (), containers, first=True)

    def after_key(self, symbol: int, used: Used) -> tuple[int, int] | None:
        """(row, frame) of the value after a key."""
        known = self.shape.steps.get((self.alternatives, symbol))
        if known is None:
            known = self.shape.steps[self.alternatives, symbol] = self._values(symbol)
        position, groups = known
        if position is None:
            return None
        return value_frame(self.builder, position, _AfterProperty(self, groups, used), self._containers)

    def step(self, label: int, texts: Texts | None) -> Step:
        if label == OBJECT_CLOSE:
            return self.value.end(self.face.closing_tags, texts)
        symbol = self.builder.symbol_of(self.shape, self.face.lexeme, label)
        if symbol is None:
            return None
        if symbol < len(self.shape.alphabet.names):
            return self.after_key(symbol, self.used)
        if texts is not None:
            return self.after_key(symbol, (*(self.used or ()), _key_of(texts[-1])))
        # A key that was used shuts off only itself, and where no pattern limits the others every beginning of a key
        # stays good: so the mask may go on without knowing which key it was, until a second such key ends.
        if self.used is None or self.shape.alphabet.tests:
            return DEPENDS
        return self.after_key(symbol, None)

    def _values(self, symbol: int) -> tuple[Position | None, Groups]:
        """The values that may follow a key, and the alternatives that each leads to."""
        parts: dict[Goal, int] = {}
        groups: list[list[Alternative]] = []
        for i, progress, tags in self.alternatives:
            view = self.shape.views[i]
            if not view.allowed(progress) >> symbol & 1:
                continue
            for goal, following in view.options(progress, symbol):
                if goal not in parts:
                    parts[goal] = 1 << len(groups)
                    groups.append([])
                groups[parts[goal].bit_length() - 1].append((i, following, tags))
        if not parts:
            return None, ()
        return self.builder.position(parts), tuple(tuple(dict.fromkeys(group)) for group in groups)

    @classmethod
    def frame(
        cls,
        shape: Shape,
        alternatives: tuple[Alternative, ...],
        value: ValueHandler,
        used: Used,
        containers: Containers,
        *,
        first: bool,
    ) -> tuple[int, int]:
        """(row, frame) where a key may come, or the end of the object."""
        builder = value.builder
        depth = value.after.depth + 1 if builder.options.pretty else 0
        face = shape.faces.get((alternatives, used, depth))
        if face is None:
            face = shape.faces[alternatives, used, depth] = _face(builder, shape, alternatives, used, depth)
        key: Hashable = (builder.number, "object", shape.number, alternatives, value.frame, used)
        frame = builder.tables.find(key)
        if not frame:
            frame = builder.tables.frame(
                key,
                cls(shape, alternatives, value, used, face, containers),
                labels=face.lexeme.labels,
                allow=face.allow,
                scopes=value.after.scopes + shape.records,
            )
        return (face.first if first else face.next), frame


def _face(builder: Builder, shape: Shape, alternatives: tuple[Alternative, ...], used: Used, depth: int) -> Face:
    """All that the frame of these alternatives needs and that does not depend on what is around it."""
    tags = symbols = 0
    for i, progress, own in alternatives:
        view = shape.views[i]
        symbols |= view.allowed(progress)
        if view.closable(progress):
            tags |= own
    lexeme = builder.keys(shape, used or (), depth)
    allow = lexeme.allow(builder.labels_of(shape, lexeme, symbols))
    if tags:
        return Face(lexeme, lexeme.first, lexeme.next, allow, tags)
    return Face(lexeme, lexeme.first_open, lexeme.next_open, allow, tags)


class _AfterProperty:
    """After a property's value its object goes on, with the alternatives that accepted the value."""

    __slots__ = ("_groups", "_object", "_used", "depth", "key", "scopes")

    def __init__(self, handler: ObjectHandler, groups: Groups, used: Used) -> None:
        self._object = handler
        self._groups = groups
        self._used = used
        self.key: Hashable = ("property", handler.shape.number, groups, handler.value.frame, used)
        self.scopes = handler.value.after.scopes
        self.depth = handler.value.after.depth + 1

    def close(self, texts: Texts | None) -> Step:
        return None

    def cost(self, tags: int) -> int:
        """About how many bytes finish the object after the value was accepted by `tags`."""
        handler = self._object
        return min(
            handler.builder.costs.object(handler.shape.views[i], progress)
            for group in bits(tags)
            for i, progress, _ in self._groups[group]
        )

    def end(self, tags: int, texts: Texts | None) -> Step:
        handler = self._object
        shape = handler.shape
        alternatives = shape.merges.get((self._groups, tags))
        if alternatives is None:
            alternatives = shape.merges[self._groups, tags] = _merged(shape, self._groups, tags)
        return ObjectHandler.frame(shape, alternatives, handler.value, self._used, handler._containers, first=False)


def _merged(shape: Shape, groups: Groups, tags: int) -> tuple[Alternative, ...]:
    """The alternatives of the groups in `tags`, equal ones as one, without those that another makes superfluous."""
    merged: dict[tuple[int, Progress], int] = {}
    for group in bits(tags):
        for i, progress, own in groups[group]:
            merged[i, progress] = merged.get((i, progress), 0) | own
    return tuple(
        (i, progress, own)
        for (i, progress), own in merged.items()
        if not any(
            i == j and progress != other and own & ~theirs == 0 and shape.views[i].dominates(other, progress)
            for (j, other), theirs in merged.items()
        )
    )


def _key_of(text: bytes) -> str:
    """The key in the text of a key lexeme: white space, perhaps a comma, the string, a colon."""
    start, end = text.index(b'"'), text.rindex(b'"')
    key: str = json.loads(text[start : end + 1])
    return key


__all__ = ["Builder", "ObjectHandler"]
