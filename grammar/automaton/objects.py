"""The frame between the properties of an object."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Iterator

from ..algebra import Goal, bits
from .alternatives import merged
from .answers import DEPENDS, Answer
from .codes import OBJECT_CLOSE
from .frames import Alternative, Builder, FrameHandler, Groups, Outcome, Position, Shape, Stage, Texts, Used
from .specs import KeyLexeme
from .values import value_frame


class ObjectHandler(FrameHandler):
    """Some alternatives of an object, each as far as it has come.

    used   undeclared keys that came already; None: one of them is not known (masks only), and `lexeme` ends where the
           next key has begun
    depth  levels of indentation of a member (pretty mode only, else 0)
    """

    __slots__ = ("builder", "depth", "lexeme", "shape", "stage", "used")

    def __init__(self, builder: Builder, shape: Shape, stage: Stage, lexeme: KeyLexeme, used: Used, depth: int) -> None:
        self.builder = builder
        self.shape = shape
        self.stage = stage
        self.lexeme = lexeme
        self.used = used
        self.depth = depth

    @property
    def alternatives(self) -> tuple[Alternative, ...]:
        return self.stage.alternatives

    def endings(self) -> Iterator[tuple[int, int]]:
        """The ways in which the object may end; see `around.Endings`."""
        costs, views = self.builder.costs, self.shape.views
        return ((costs.object(views[i], progress), tags) for i, progress, tags in self.alternatives)

    def required(self, around: Callable[[int], int]) -> int:
        """The keys that must still come on the shortest way to the end and may come next, as bits by label.

        `around`: what is still to come around the object (see `around.Around`).
        """
        if self.used is None:
            return 0
        views = self.shape.views
        ways = zip(self.endings(), self.alternatives, strict=True)
        _, i, progress = min((cost + around(tags), i, progress) for (cost, tags), (i, progress, _) in ways)
        symbols = views[i].pending(progress) & views[i].allowed(progress)
        return self.builder.labels_of(self.shape, self.lexeme, symbols)

    @classmethod
    def open(cls, builder: Builder, position: Position, depth: int) -> tuple[int, int] | None:
        """(row, frame) after `{`."""
        shape = position.objects
        if not shape.start:
            return None
        stage = _stage(shape, tuple((i, shape.views[i].start, tags) for i, tags in shape.start))
        first, _, frame = _frame(builder, shape, stage, (), depth)
        return first, frame

    def after_key(self, symbol: int, used: Used) -> tuple[int, int] | None:
        """(row, frame) of the value after a key."""
        known = self.stage.steps.get(symbol)
        if known is None:
            known = self.stage.steps[symbol] = self._values(symbol)
        position, outcome = known
        if position is None:
            return None
        after = outcome.afters.get((used, self.depth))
        if after is None:
            after = _AfterProperty(self.builder, self.shape, outcome, used, self.depth)
            outcome.afters[used, self.depth] = after
        return value_frame(self.builder, position, after)

    def told(self, label: int) -> bool:
        if self.used is None or label == OBJECT_CLOSE:
            return self.used is not None
        symbol = self.builder.symbol_of(self.shape, self.lexeme, label)
        return symbol is not None and symbol < len(self.shape.alphabet.names)

    def step(self, label: int, texts: Texts | None) -> Answer:
        if label == OBJECT_CLOSE:
            return self.builder.close(self.stage.closing_tags)
        if self.used is None:
            return DEPENDS
        symbol = self.builder.symbol_of(self.shape, self.lexeme, label)
        if symbol is None:
            return None
        if symbol < len(self.shape.alphabet.names):
            return self.after_key(symbol, self.used)
        if texts is not None:
            return self.after_key(symbol, (*self.used, _key_of(texts[-1])))
        # The mask goes on without knowing which key it was, until it is in a second key: few tokens reach so far.
        return self.after_key(symbol, None)

    def _values(self, symbol: int) -> tuple[Position | None, Outcome]:
        """The values that may follow a key, and the alternatives that each leads to."""
        parts: dict[Goal, int] = {}
        groups: list[list[Alternative]] = []
        for i, progress, tags in self.stage.alternatives:
            view = self.shape.views[i]
            if not view.allowed(progress) >> symbol & 1:
                continue
            for goal, following in view.options(progress, symbol):
                if goal not in parts:
                    parts[goal] = 1 << len(groups)
                    groups.append([])
                groups[parts[goal].bit_length() - 1].append((i, following, tags))
        outcome = self.shape.outcome(tuple([tuple(dict.fromkeys(group)) for group in groups]))
        return self.builder.position(parts) if parts else None, outcome


def _stage(shape: Shape, alternatives: tuple[Alternative, ...]) -> Stage:
    """The stage of these alternatives."""
    stage = shape.stages.get(alternatives)
    if stage is None:
        tags = symbols = 0
        for i, progress, own in alternatives:
            view = shape.views[i]
            symbols |= view.allowed(progress)
            if view.closable(progress):
                tags |= own
        stage = shape.stages[alternatives] = Stage(len(shape.stages), alternatives, symbols, tags)
    return stage


def _frame(builder: Builder, shape: Shape, stage: Stage, used: Used, depth: int) -> tuple[int, int, int]:
    """The row after `{`, the row after a value, and the frame, where a key may come or the end of the object."""
    known = stage.frames.get((used, depth))
    if known is None:
        if used is None:
            lexeme = builder.lexemes.unread(depth, some=bool(stage.symbols))
            allow = -1
        else:
            lexeme = builder.keys(shape, used, depth)
            allow = lexeme.allow(builder.labels_of(shape, lexeme, stage.symbols))
        frame = builder.tables.frame(
            (builder.number, "object", shape.number, stage.number, used, depth),
            ObjectHandler(builder, shape, stage, lexeme, used, depth),
            labels=lexeme.labels,
            allow=allow,
            scopes=shape.records,
        )
        closable = bool(stage.closing_tags)
        first, after = (lexeme.first, lexeme.next) if closable else (lexeme.first_open, lexeme.next_open)
        known = stage.frames[used, depth] = first, after, frame
    return known


class _AfterProperty:
    """After a property's value its object goes on, with the alternatives that accepted the value."""

    __slots__ = ("_builder", "_outcome", "_shape", "_used", "depth", "key")
    scopes = 0
    closing_tags = 0

    def __init__(self, builder: Builder, shape: Shape, outcome: Outcome, used: Used, depth: int) -> None:
        self._builder = builder
        self._shape = shape
        self._outcome = outcome
        self._used = used
        self.depth = depth
        self.key: Hashable = ("property", shape.number, outcome.number, used, depth)

    def close(self, texts: Texts | None) -> Answer:
        return None

    def endings(self, tags: int) -> Iterator[tuple[int, int]]:
        costs, shape = self._builder.costs, self._shape
        for group in bits(tags):
            for i, progress, own in self._outcome.groups[group]:
                yield costs.object(shape.views[i], progress), own

    def end(self, tags: int, texts: Texts | None) -> Answer:
        shape, outcome = self._shape, self._outcome
        stage = outcome.stages.get(tags)
        if stage is None:
            stage = outcome.stages[tags] = _stage(shape, _merged(shape, outcome.groups, tags))
        _, after, frame = _frame(self._builder, shape, stage, self._used, self.depth)
        return after, frame


def _merged(shape: Shape, groups: Groups, tags: int) -> tuple[Alternative, ...]:
    """The alternatives of the groups in `tags`."""
    views = shape.views
    return merged(
        (alternative for group in bits(tags) for alternative in groups[group]),
        lambda i, better, worse: views[i].dominates(better, worse),
    )


def _key_of(text: bytes) -> str:
    """The key in the text of a key lexeme: white space, perhaps a comma, the string, a colon."""
    start, end = text.index(b'"'), text.rindex(b'"')
    key: str = json.loads(text[start : end + 1])
    return key


__all__ = ["Builder", "ObjectHandler"]
