"""The nearest end: the shortest way (or nearly) to finish a text from where the automaton stands.

Lexeme by lexeme: the ways to end the current lexeme are found by a search over its rows (A*: Hart, Nilsson, Raphael
1968, led by the code points that a string still needs), each is weighed with what its frame says is still to come after
it, and the lightest is taken.
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from contextlib import AbstractContextManager, nullcontext
from heapq import heappop, heappush
from itertools import count

from ..algebra import FAR
from ..errors import BudgetError
from .around import Around, Endings, Surroundings, least, nothing
from .arrays import ArrayHandler
from .codes import (
    ARRAY_CLOSE,
    ARRAY_OPEN,
    CHECK_LOW,
    FIRST_LABEL,
    LABEL_MASK,
    OBJECT_CLOSE,
    OBJECT_OPEN,
    ROW_MASK,
)
from .frames import FrameHandler
from .objects import ObjectHandler
from .stepper import Configuration, ends, follow, step
from .tables import Tables
from .turns import Breath
from .values import ValueHandler

MAX_ROWS = 50_000
MAX_STEPS = 80_000
MAX_TEXT = 32_768
_MANY_KEYS = 8
_AVOIDED = b" \n\r\t\\"  # where another byte leads to the same key


class Completer:
    """Finds ways out. Callers hold the tables' lock."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._distinct: dict[int, list[tuple[int, int]]] = {}
        self._surroundings = Surroundings(tables)

    def completion(self, at: Configuration, known: Container[Configuration] = ()) -> bytes:
        """Bytes that lead from `at` to the end of a valid text, or to one of the `known` configurations; b"" if the
        text may end here.

        Raises BudgetError where the way out is absurdly long (`minLength: 10000000`).
        """
        tables = self._tables
        out = bytearray()
        steps, breath = count(1), Breath(tables.pauses)
        item: tuple[ArrayHandler, int, int] | None = None  # an array after its last item, that item's end, the stack
        while not ends(tables, at) and at not in known:
            breath()
            array = tables.handler(at.frame)
            if isinstance(array, ArrayHandler):
                if item is not None and item[2] == at.stack:
                    at = self._repeated(at, array, item, out)
                item = array, len(out), at.stack
            with self._turn(at.frame):
                around = self._surroundings.of(at.stack, list(_endings(tables, at.frame)))
            key = self._required_key(at, around, breath) or self._another_key(at, breath)
            if key is not None:
                out += key[0]
                at = key[1]
                continue
            best: tuple[int, bytes, Configuration] | None = None
            with self._turn(at.frame):
                bound, steady = _bound(tables, at, around)
                fewest = _fewest(tables, at.frame, around)
            if bound > MAX_TEXT:
                raise _too_long()
            for length, path, label, before in self._endings(at, steps, breath):
                if best is not None and length + fewest >= best[0]:
                    break
                if label < 0:
                    continue
                after = follow(tables, before.frame, label, before.texts, before.stack)
                if after is None:
                    continue
                with self._turn(before.frame):
                    rest = _cost(tables, before.frame, label, around)
                total = len(path) + rest
                if best is None or total < best[0]:
                    best = total, path, after
                if total <= bound or (steady and rest <= bound):
                    best = total, path, after
                    break
            if best is None or best[0] + len(out) > MAX_TEXT:
                raise _too_long()
            out += best[1]
            at = best[2]
        return bytes(out)

    def _repeated(
        self, at: Configuration, array: ArrayHandler, item: tuple[ArrayHandler, int, int], out: bytearray
    ) -> Configuration:
        """After as many more of the last item as the array needs, less one."""
        with array.builder.turn:
            array.renew()
            later = array.later(item[0])
            if later is None:
                return at
            more, ahead = later
            if len(out) + more * (len(out) - item[1]) > MAX_TEXT:
                raise _too_long()
            out += out[item[1] :] * more
            row, frame = ahead.frame()
        return at._replace(row=row, frame=frame)

    def require_short(self, start: Configuration) -> None:
        """Raises BudgetError if even the shortest text is absurdly long, as far as that is easily seen."""
        with self._turn(start.frame):
            fewest, _ = _bound(self._tables, start, nothing)
        if fewest > MAX_TEXT:
            raise BudgetError(
                f"every valid text is longer than {MAX_TEXT} bytes",
                remedy="lower minLength, minItems, minContains or minProperties, or shorten constants and patterns",
            )

    def _required_key(
        self, at: Configuration, around: Around, breath: Breath
    ) -> tuple[bytes, Configuration] | None:
        """Where an object must still have a property and the key that is being read can be its: to the end of that key.

        In what order such keys come is no matter, so nothing is searched: the rows say which bytes lead to it.
        """
        tables = self._tables
        handler = tables.handler(at.frame)
        if not isinstance(handler, ObjectHandler):
            return None
        with self._turn(at.frame):
            handler.renew()
            labels = handler.required(around)
        sets = handler.lexeme.text.reach
        reach = int(tables.reach[at.row])
        if reach != -1:
            labels &= sets.mask(reach)
        if not labels:
            return None
        wanted = (labels & -labels).bit_length() - 1
        out = bytearray()
        here: Configuration | None = at
        while here is not None and len(out) < MAX_TEXT:
            breath()
            following: tuple[bool, int] | None = None
            for value, byte in self._edges(here.row):
                if value < 0 and (-value & LABEL_MASK) - 1 == FIRST_LABEL + wanted:
                    return self._key_ended(here, out, byte, wanted)
                reach = int(tables.reach[value & ROW_MASK]) if value > 0 else -1
                if reach != -1 and sets.mask(reach) >> wanted & 1:
                    choice = byte in _AVOIDED, byte
                    following = choice if following is None else min(following, choice)
            if following is None:
                return None
            out.append(following[1])
            here = step(tables, here, following[1])
        return None

    def _key_ended(
        self, here: Configuration, out: bytearray, byte: int, key: int
    ) -> tuple[bytes, Configuration] | None:
        """The way `out` and the last byte of a key, and where that leads; `key`: its label, less the first."""
        texts = tuple(text + bytes((byte,)) for text in here.texts)
        after = follow(self._tables, here.frame, FIRST_LABEL + key, texts, here.stack)
        return None if after is None else (bytes(out) + bytes((byte,)), after)

    def _another_key(self, at: Configuration, breath: Breath) -> tuple[bytes, Configuration] | None:
        """Where an object of many undeclared keys must have another one: to the end of one that is not used.

        A search would try all that are used first.
        """
        handler = self._tables.handler(at.frame)
        if not isinstance(handler, ObjectHandler) or handler.used is None or len(handler.used) < _MANY_KEYS:
            return None
        text = handler.lexeme.text
        others = handler.stage.symbols >> len(handler.shape.alphabet.names) & 1
        if handler.stage.closing_tags or not others or text.patterned or text.signatures != (0,):
            return None
        if b'"' in at.texts[-1]:  # in the midst of a key
            return None
        for number in range(len(handler.used), len(handler.used) + _MANY_KEYS):
            if (found := self._spelled(at, _name(number), breath)) is not None:
                return found
        return None

    def _spelled(self, at: Configuration, name: bytes, breath: Breath) -> tuple[bytes, Configuration] | None:
        """To the end of the undeclared key `name`; None if it is declared, used, or cannot come."""
        tables = self._tables
        out = bytearray()

        def take(here: Configuration | None, choices: bytes) -> Configuration | None:
            if here is not None:
                for byte in choices:
                    following = step(tables, here, byte)
                    if following is not None:
                        out.append(byte)
                        return following
            return None

        here: Configuration | None = at
        while here is not None and not out.endswith(b'"'):
            breath()
            here = take(here, b'", \n')
        for byte in name + b'"':
            here = take(here, bytes((byte,)))
        while here is not None and len(out) < MAX_TEXT:
            for value, byte in self._edges(here.row):
                if value < 0:
                    if (-value & LABEL_MASK) - 1 != FIRST_LABEL:
                        return None
                    return self._key_ended(here, out, byte, 0)
            here = take(here, b":")
        return None

    def _endings(
        self, at: Configuration, steps: Iterator[int], breath: Breath
    ) -> Iterator[tuple[int, bytes, int, Configuration]]:
        """(length, path, label, configuration before the label) for the labels that the lexeme can end with, nearest
        first: no later path is shorter than `length`.

        Of the characters that lead the same way, the first stands for all. Each new length is announced with the
        label -1, since the search may go on for long without finding a label.
        """
        tables = self._tables
        low = int(tables.low[at.frame])
        seen = {(at.row, min(at.length, low))}
        # The fewest bytes of a path in sum, then what is left of them: of equal paths the one that has come farthest.
        left = self._left(at, low)
        queue = [(left, left, 0, b"", at)]
        labels: set[int] = set()
        longest = number = 0
        while queue:
            total, _, _, path, here = heappop(queue)
            step_number = next(steps)
            if step_number > MAX_STEPS:
                raise BudgetError("the shortest way to end this text takes too long to find")
            breath()
            if total > longest:
                longest = total
                yield total, path, -1, here
            edges = self._edges(here.row)
            accepted = int(tables.accept[here.row]) - 1
            if accepted >= 0 and accepted not in labels:
                labels.add(accepted)
                longest = 0  # announced anew: what was found may be near enough
                yield len(path), path, accepted, here
            for value, byte in edges:
                if value < 0:
                    label = (-value & LABEL_MASK) - 1
                    if label in labels or (-value & CHECK_LOW and here.length < low):
                        continue
                    labels.add(label)
                    longest = 0
                    spelled = bytes((byte,))
                    before = here._replace(texts=tuple(text + spelled for text in here.texts))
                    yield len(path), path + spelled, label, before
                else:
                    following = step(tables, here, byte)
                    if following is None or (following.row, min(following.length, low)) in seen:
                        continue
                    spelled = bytes((byte,))
                    if here.length < following.length < low and following.row == here.row and not tables.need[here.row]:
                        # A string that is too short and may go on like this: on to where it is long enough.
                        more = low - following.length
                        spelled += spelled * more
                        texts = tuple(text + spelled[1:] for text in following.texts)
                        following = following._replace(length=low, texts=texts)
                        if (following.row, low) in seen:
                            continue
                    seen.add((following.row, min(following.length, low)))
                    if len(seen) > MAX_ROWS:
                        return
                    number += 1
                    left = self._left(following, low)
                    heappush(queue, (len(path) + len(spelled) + left, left, number, path + spelled, following))

    def _turn(self, frame: int) -> AbstractContextManager[None]:
        """While the algebra of the frame's grammar is asked."""
        handler = self._tables.handler(frame)
        return handler.builder.turn if isinstance(handler, FrameHandler) else nullcontext()

    def _left(self, at: Configuration, low: int) -> int:
        """At least so many bytes to the end of the lexeme; `low`: the code points that it must have."""
        need = max(int(self._tables.need[at.row]), low - at.length)
        return need + 1 if need > 0 else 0  # it does not count the last byte: a string's quote, a number's digit

    def _edges(self, row: int) -> list[tuple[int, int]]:
        """The distinct values of a row with the first byte of each, in the order of bytes."""
        found = self._distinct.get(row)
        if found is None:
            values = self._tables.values(row).tolist()
            first = dict(zip(reversed(values), range(len(values) - 1, -1, -1), strict=True))
            edges = [(value, byte) for value, byte in first.items() if value < 0 or value & ROW_MASK]
            found = self._distinct[row] = sorted(edges, key=lambda edge: edge[1])
        return found


def _name(number: int) -> bytes:
    """A short name for each number."""
    name = b""
    while number >= 0:
        name = bytes((0x61 + number % 26,)) + name
        number = number // 26 - 1
    return name


def _too_long() -> BudgetError:
    return BudgetError(f"the shortest way to end this text is longer than {MAX_TEXT} bytes")


def _endings(tables: Tables, frame: int) -> Endings:
    """All ways in which the container around may end, whatever the lexeme is."""
    handler = tables.handler(frame)
    if isinstance(handler, FrameHandler):
        handler.renew()
    if isinstance(handler, ValueHandler):
        return handler.after.endings(handler.position.all_tags)
    return handler.endings() if isinstance(handler, ObjectHandler | ArrayHandler) else ()


def _bound(tables: Tables, at: Configuration, around: Around) -> tuple[int, bool]:
    """What the frame says in advance about the bytes still to come up to the end of the container around and, where
    that depends on how it ends, beyond; 0 if nothing.

    A way out that is no longer needs no comparison with others. True beside it: nor does a lexeme after which no more
    than this is to come, since the container then comes nearer to its end.
    """
    handler = tables.handler(at.frame)
    if isinstance(handler, ObjectHandler):
        return least(handler.endings(), around), True
    if isinstance(handler, ValueHandler) and at.row == handler.start.row and not tables.value(at.row, ord("]")):
        costs = handler.builder.costs
        parts = handler.position.parts
        return least(_before(((costs.value(goal), tags) for goal, tags in parts), handler), around), False
    return 0, False


def _before(values: Endings, handler: ValueHandler) -> Endings:
    """The ways to end a value and then the container around."""
    return ((first + cost, outer) for first, tags in values for cost, outer in handler.after.endings(tags))


def _fewest(tables: Tables, frame: int, around: Around) -> int:
    """A lower bound of `_cost` over the labels of a frame."""
    handler = tables.handler(frame)
    if isinstance(handler, ValueHandler):
        return least(handler.after.endings(handler.position.all_tags), around)
    # After a key: a value and a brace. Where the brace itself may come, it is the first that is found.
    return 2 if isinstance(handler, ObjectHandler) else 0


def _cost(tables: Tables, frame: int, label: int, around: Around) -> int:
    """About how many bytes are still to come after `frame`'s lexeme ended with `label`: in the container around and,
    where that depends on how it ends, beyond."""
    handler = tables.handler(frame)
    if isinstance(handler, ValueHandler):
        costs = handler.builder.costs
        if label == OBJECT_OPEN:
            shape = handler.position.objects
            inner = [(costs.object(shape.views[i], shape.views[i].start), tags) for i, tags in shape.start]
            return least(_before(inner, handler), around)
        if label == ARRAY_OPEN:
            inner = [(costs.array(view, view.start, ()), tags) for view, tags in handler.position.arrays]
            return least(_before(inner, handler), around)
        if label == ARRAY_CLOSE:
            return around(handler.after.closing_tags)
        return least(handler.after.endings(handler.start.tags_of(label)), around)
    if isinstance(handler, ObjectHandler):
        if label == OBJECT_CLOSE:
            return around(handler.stage.closing_tags)
        symbol = handler.builder.symbol_of(handler.shape, handler.lexeme, label)
        if symbol is None:
            return FAR
        views = [(handler.shape.views[i], progress, tags) for i, progress, tags in handler.alternatives]
        here = [
            # the key is read
            (handler.builder.costs.property(view, progress, symbol) - 4 - view.key_length(symbol), tags)
            for view, progress, tags in views
            if view.allowed(progress) >> symbol & 1
        ]
        return least(here, around)
    if isinstance(handler, ArrayHandler):
        return around(handler.closing_tags) if label == ARRAY_CLOSE else least(handler.endings(), around)
    return 0
