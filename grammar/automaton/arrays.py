"""The frame between the items of an array."""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from ..algebra import MAX_DISTINCT, ArrayProgress, ArrayView, Goal, Literal, bits
from ..schema.expr import Types
from ..schema.values import Canonical, canonical, parse_json
from .alternatives import merged
from .answers import DEPENDS, Answer
from .codes import ARRAY_CLOSE, FIRST_LABEL, ITEM_NEXT, OBJECT_OPEN
from .frames import Builder, FrameHandler, Position, Texts
from .values import value_frame

Alternative = tuple[ArrayView, ArrayProgress, int]  # view, its progress, tags
_OBJECTS: Literal = (Types(frozenset(("object",))), True)
Groups = tuple[tuple[Alternative, ...], ...]
Seen = tuple[Canonical, ...] | None  # items so far, where they matter; None: the last is not known (masks only)


class ArrayHandler(FrameHandler):
    """Some alternatives of an array after an item. `depth`: levels of indentation of an item (pretty mode only).

    Where the last item is not known, a next one may begin, and no more is said of it, unless it is a string that no
    value shuts off the beginning of.
    """

    __slots__ = ("_foreseen", "_frame", "_values", "alternatives", "builder", "closing_tags", "depth", "number", "seen")

    def __init__(
        self, builder: Builder, number: int, alternatives: tuple[Alternative, ...], seen: Seen, depth: int
    ) -> None:
        self.builder = builder
        self.number = number
        self.alternatives = alternatives
        self.seen = seen
        self.depth = depth
        self.closing_tags = 0  # the alternatives that may end here
        for view, progress, own in alternatives:
            if view.closable(progress):
                self.closing_tags |= own
        self._values: tuple[Position, AfterItem] | bool | None = False  # False: not looked for yet
        self._frame: tuple[int, int] | None = None
        self._foreseen: bool | None = None

    def is_like(self, other: ArrayHandler) -> bool:
        """Whether the two differ at most in the items so far, and only as none of them may come again."""
        mine, its = self.alternatives, other.alternatives
        return (
            self.depth == other.depth
            and len(mine) == len(its)
            and all(a[0] is b[0] and a[1:] == b[1:] and not a[0].repeats for a, b in zip(mine, its, strict=True))
        )

    def later(self, before: ArrayHandler) -> tuple[int, ArrayHandler] | None:
        """How many more items like the last one, with which `before` became this, may come at once since more must
        come, and what this is after them; None if none. The array must have one more after them at least.
        """
        if len(self.alternatives) != 1 or len(before.alternatives) != 1 or self.depth != before.depth:
            return None
        (view, progress, tags), (other, past, its) = self.alternatives[0], before.alternatives[0]
        more = view.low - 1 - progress.length
        if view is not other or tags != its or more < 1 or view.records or not view.plain or past.length < view.tail:
            return None
        if progress.rivals or progress != past._replace(length=past.length + 1):
            return None
        ahead = progress._replace(length=progress.length + more)
        return more, _handler(self.builder, ((view, ahead, tags),), self.seen, self.depth)

    @staticmethod
    def open(builder: Builder, position: Position, depth: int) -> tuple[int, int] | None:
        """(row, frame) after `[`: the first item or `]`."""
        alternatives = tuple([(view, view.start, tags) for view, tags in position.arrays])
        if not alternatives:
            return None
        handler = _handler(builder, alternatives, (), depth)
        return handler.item(first=True) or handler.frame()

    def close(self) -> Answer:
        """`]` came."""
        return self.builder.close(self.closing_tags)

    def frame(self) -> tuple[int, int]:
        """(row, frame) after an item: a comma, `]`, or either."""
        if self._frame is None:
            may_continue = self.values() is not None
            row = self.builder.lexemes.after_item(may_continue, bool(self.closing_tags), self.depth)
            key: Hashable = (self.builder.number, "array", self.number)
            self._frame = row, self.builder.tables.frame(key, self, labels=FIRST_LABEL + 1)
        return self._frame

    def item(self, *, first: bool) -> tuple[int, int] | None:
        """(row, frame) of the next item; None if none may come."""
        values = self.values()
        if values is None:
            return None
        position, after = values
        if self.seen is None and not _loose(self.builder, position):
            start = self.builder.start(position).row
            return self.builder.lexemes.spacing.begun(start, objects=self._endless(_OBJECTS)), self.frame()[1]
        return value_frame(
            self.builder, position, after, first_item=first, closable=first and bool(self.closing_tags)
        )

    @property
    def foreseen(self) -> bool:
        """Whether it makes no difference to what may come next that the last item is not known."""
        if self._foreseen is None:
            values = self.values()
            self._foreseen = values is None or _loose(self.builder, values[0]) or self._endless()
        return self._foreseen

    def _endless(self, *asked: Literal) -> bool:
        """Whether there is a further value, one that meets what is `asked`, whichever have come."""
        algebra = self.builder.algebra
        return any(
            view.unique
            and view.plain
            and algebra.values(algebra.goals.both(view.goal(progress.length), asked), MAX_DISTINCT) is None
            for view, progress, _ in self.alternatives
            if next(view.options(progress, ()), None) is not None
        )

    def endings(self) -> Iterator[tuple[int, int]]:
        """The ways in which the array may end; see `around.Endings`."""
        costs = self.builder.costs
        return ((costs.array(view, progress, self.seen or ()), tags) for view, progress, tags in self.alternatives)

    def values(self) -> tuple[Position, AfterItem] | None:
        """The values that the next item may have, and what follows them; None if none may come."""
        if isinstance(self._values, bool):
            self._values = self._find_values()
        return self._values

    def _find_values(self) -> tuple[Position, AfterItem] | None:
        parts: dict[Goal, int] = {}
        groups: list[list[Alternative]] = []
        for view, progress, tags in self.alternatives:
            for goal, following in view.options(progress, self.seen or ()):
                if goal not in parts:
                    parts[goal] = 1 << len(groups)
                    groups.append([])
                groups[parts[goal].bit_length() - 1].append((view, following, tags))
        if not parts:
            return None
        position = self.builder.position(parts)
        return position, AfterItem(self, tuple([tuple(group) for group in groups]))

    def step(self, label: int, texts: Texts | None) -> Answer:
        if label == ITEM_NEXT:
            return self.item(first=False)
        if label == ARRAY_CLOSE:
            return self.close()
        if self.seen is not None:
            return None
        if label == OBJECT_OPEN:  # with endless others, one that is not empty differs from all that came
            depth = self.depth + 1 if self.builder.options.pretty else 0
            return self.builder.lexemes.unread(depth, some=True).first, self.frame()[1]
        return DEPENDS


def _handler(builder: Builder, alternatives: tuple[Alternative, ...], seen: Seen, depth: int) -> ArrayHandler:
    """The handler of these alternatives; equal ones are one."""
    key = (tuple([(id(view), progress, tags) for view, progress, tags in alternatives]), seen, depth)
    found: ArrayHandler | None = builder.arrays.get(key)
    if found is None:
        found = builder.arrays[key] = ArrayHandler(builder, len(builder.arrays), alternatives, seen, depth)
    return found


class AfterItem:
    """After an item its array goes on, with the alternatives that accepted the item."""

    __slots__ = ("_ends", "_groups", "array", "closing_tags", "depth", "key", "scopes")

    def __init__(self, array: ArrayHandler, groups: Groups) -> None:
        self.array = array
        self._groups = groups
        self._ends: dict[int, ArrayHandler] = {}  # where items need not be remembered: what follows, by tags
        self.scopes = int(any(view.records for view, _, _ in array.alternatives))
        self.depth = array.depth
        self.closing_tags = array.closing_tags
        self.key: Hashable = ("item", array.number)

    @property
    def unique(self) -> bool:
        """Whether all that the item's value must not be is one of the other items."""
        return not any(view.repeats for view, _, _ in self.array.alternatives)

    def endings(self, tags: int) -> Iterator[tuple[int, int]]:
        costs = self.array.builder.costs
        seen = self.array.seen or ()
        for group in bits(tags):
            for view, after, own in self._groups[group]:
                yield costs.array(view, after, seen), own

    def end(self, tags: int, texts: Texts | None) -> Answer:
        array = self.array
        if not self.scopes:
            known = self._ends.get(tags)
            if known is None:
                known = self._ends[tags] = _handler(array.builder, self._merged(tags), (), array.depth)
            return known.frame()
        if texts is not None:
            seen = (*(array.seen or ()), _item_of(texts[-1]))
            return _handler(array.builder, self._merged(tags), seen, array.depth).frame()
        if array.seen is None:
            return DEPENDS
        unknown = _handler(array.builder, self._merged(tags), None, array.depth)
        return unknown.frame() if unknown.foreseen else DEPENDS

    def close(self, texts: Texts | None) -> Answer:
        """`]` came instead of the first item."""
        return self.array.close()

    def _merged(self, tags: int) -> tuple[Alternative, ...]:
        return merged((each for group in bits(tags) for each in self._groups[group]), ArrayView.dominates)


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
