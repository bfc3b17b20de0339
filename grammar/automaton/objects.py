"""The frame between the properties of an object."""

from __future__ import annotations

import json
from collections.abc import Hashable

from ..algebra import Goal, Progress, bits
from .codes import OBJECT_CLOSE
from .frames import Builder, FrameHandler, Shape, Step, Texts
from .tables import DEPENDS
from .values import Containers, ValueHandler, value_frame

Alternative = tuple[int, Progress, int]  # view, its progress, tags
Used = tuple[str, ...] | None  # undeclared keys of the object; None: one of them is not known (masks only)


class ObjectHandler(FrameHandler):
    """Some alternatives of an object, each as far as it has come. `value` is the value that the object is."""

    __slots__ = ("_containers", "alternatives", "builder", "lexeme", "shape", "used", "value")

    def __init__(
        self,
        builder: Builder,
        shape: Shape,
        alternatives: tuple[Alternative, ...],
        value: ValueHandler,
        used: Used,
        containers: Containers,
    ) -> None:
        self.builder = builder
        self.shape = shape
        self.alternatives = alternatives
        self.value = value
        self.used = used
        self.lexeme = builder.keys(shape, used or (), self._depth(value))
        self._containers = containers

    @classmethod
    def open(cls, value: ValueHandler, containers: Containers) -> Step:
        """The frame after `{`."""
        shape = value.position.objects
        alternatives = tuple((i, shape.views[i].start, tags) for i, tags in shape.start)
        if not alternatives:
            return None
        return cls._frame(value.builder, shape, alternatives, value, (), containers, first=True)

    def closing_tags(self) -> int:
        """The alternatives that may end here."""
        tags = 0
        for i, progress, own in self.alternatives:
            if self.shape.views[i].closable(progress):
                tags |= own
        return tags

    def allowed(self) -> int:
        """The symbols that some alternative lets come next."""
        mask = 0
        for i, progress, _ in self.alternatives:
            mask |= self.shape.views[i].allowed(progress)
        return mask

    def after_key(self, symbol: int, used: Used) -> tuple[int, int] | None:
        """(row, frame) of the value after a key."""
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
            return None
        after = _AfterProperty(self, tuple(tuple(dict.fromkeys(group)) for group in groups), used)
        return value_frame(self.builder, self.builder.position(parts), after, self._containers)

    def step(self, label: int, texts: Texts | None) -> Step:
        if label == OBJECT_CLOSE:
            return self.value.end(self.closing_tags(), texts)
        symbol = self.builder.symbol_of(self.shape, self.lexeme, label)
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

    @staticmethod
    def _depth(value: ValueHandler) -> int:
        return value.after.depth + 1 if value.builder.options.pretty else 0

    @classmethod
    def _frame(
        cls,
        builder: Builder,
        shape: Shape,
        alternatives: tuple[Alternative, ...],
        value: ValueHandler,
        used: Used,
        containers: Containers,
        *,
        first: bool,
    ) -> tuple[int, int]:
        key: Hashable = (builder.number, "object", shape.number, alternatives, value.frame, used)
        handler = cls(builder, shape, alternatives, value, used, containers)
        lexeme = handler.lexeme
        symbols = handler.allowed()
        scopes = value.after.scopes + (1 if shape.alphabet.signatures else 0)
        frame = builder.tables.frame(
            key,
            handler,
            labels=lexeme.labels,
            allow=lexeme.allow(builder.labels_of(shape, lexeme, symbols)),
            scopes=scopes,
        )
        closable = bool(handler.closing_tags())
        if first:
            return (lexeme.first if closable else lexeme.first_open), frame
        return (lexeme.next if closable else lexeme.next_open), frame


class _AfterProperty:
    """After a property's value its object goes on, with the alternatives that accepted the value."""

    __slots__ = ("_groups", "_object", "_used", "depth", "key", "scopes")

    def __init__(self, handler: ObjectHandler, groups: tuple[tuple[Alternative, ...], ...], used: Used) -> None:
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
        merged: dict[tuple[int, Progress], int] = {}
        for group in bits(tags):
            for i, progress, own in self._groups[group]:
                merged[i, progress] = merged.get((i, progress), 0) | own
        alternatives = tuple(
            (i, progress, own)
            for (i, progress), own in merged.items()
            if not any(
                i == j
                and progress != other
                and own & ~theirs == 0
                and handler.shape.views[i].dominates(other, progress)
                for (j, other), theirs in merged.items()
            )
        )
        return ObjectHandler._frame(
            handler.builder, handler.shape, alternatives, handler.value, self._used, handler._containers, first=False
        )


def _key_of(text: bytes) -> str:
    """The key in the text of a key lexeme: white space, perhaps a comma, the string, a colon."""
    start, end = text.index(b'"'), text.rindex(b'"')
    key: str = json.loads(text[start : end + 1])
    return key


__all__ = ["Builder", "ObjectHandler"]
