"""The nearest end: the shortest way (or nearly) to finish a text from where the automaton stands.

Lexeme by lexeme: all ways to end the current lexeme are found by breadth-first search over its rows, each is weighed
with what its frame says is still to come after it, and the lightest is taken.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush

import numpy as np

from ..algebra import FAR
from ..errors import BudgetError
from .arrays import ArrayHandler
from .codes import ARRAY_CLOSE, ARRAY_OPEN, CHECK_LOW, LABEL_MASK, OBJECT_CLOSE, OBJECT_OPEN, ROW_MASK
from .objects import ObjectHandler
from .stepper import Configuration, ends, follow, step
from .tables import Tables
from .values import ValueHandler

MAX_ROWS = 20_000
MAX_TEXT = 4_000_000


def completion(tables: Tables, at: Configuration) -> bytes:
    """Bytes that lead from `at` to the end of a valid text; b"" if it may end here.

    Raises BudgetError where the way out is absurdly long (`minLength: 10000000`).
    """
    out = bytearray()
    while not ends(tables, at):
        best: tuple[int, bytes, Configuration] | None = None
        for path, label, before in _endings(tables, at):
            if best is not None and len(path) >= best[0]:
                break
            after = follow(tables, before.frame, label, before.texts)
            if after is None:
                continue
            total = len(path) + _cost(tables, before.frame, label)
            if best is None or total < best[0]:
                best = total, path, after
        if best is None:
            raise BudgetError("the shortest way to end this text is too long to search for")
        out += best[1]
        at = best[2]
        if len(out) > MAX_TEXT:
            raise BudgetError("the shortest way to end this text is too long to write")
    return bytes(out)


def _endings(tables: Tables, at: Configuration) -> Iterator[tuple[bytes, int, Configuration]]:
    """(path, label, configuration before the label) for each label that the lexeme can end with, shortest path first.

    Of the characters that lead the same way, the first stands for all.
    """
    seen = {(at.row, at.length)}
    queue: list[tuple[int, int, bytes, Configuration]] = [(0, 0, b"", at)]
    labels: set[int] = set()
    ticket = 0
    low = int(tables.low[at.frame])
    while queue:
        _, _, path, here = heappop(queue)
        values = tables.values(here.row)
        accepted = int(tables.accept[here.row]) - 1
        if accepted >= 0 and accepted not in labels:
            labels.add(accepted)
            yield path, accepted, here
        distinct, first = np.unique(values, return_index=True)
        for value, byte in sorted(zip(distinct.tolist(), first.tolist(), strict=True), key=lambda pair: pair[1]):
            if value < 0:
                label = (-value & LABEL_MASK) - 1
                if label in labels or (-value & CHECK_LOW and here.length < low):
                    continue
                labels.add(label)
                texts = tuple(text + bytes((byte,)) for text in here.texts)
                yield path + bytes((byte,)), label, here._replace(texts=texts)
            elif value & ROW_MASK:
                following = step(tables, here, byte)
                if following is None or (following.row, min(following.length, low)) in seen:
                    continue
                seen.add((following.row, min(following.length, low)))
                if len(seen) > MAX_ROWS:
                    return
                ticket += 1
                heappush(queue, (len(path) + 1, ticket, path + bytes((byte,)), following))


def _cost(tables: Tables, frame: int, label: int) -> int:
    """About how many bytes are still to come after `frame`'s lexeme ended with `label`."""
    handler = tables.handler(frame)
    if isinstance(handler, ValueHandler):
        costs = handler.builder.costs
        if label == OBJECT_OPEN:
            shape = handler.position.objects
            return min((costs.object(shape.views[i], shape.views[i].start) for i, _ in shape.start), default=FAR)
        if label == ARRAY_OPEN:
            return min((costs.array(view, view.start, ()) for view, _ in handler.position.arrays), default=FAR)
        if label == ARRAY_CLOSE:
            return 0
        return handler.after.cost(handler.start.tags_of(label))
    if isinstance(handler, ObjectHandler):
        if label == OBJECT_CLOSE:
            return 0
        symbol = handler.builder.symbol_of(handler.shape, handler.lexeme, label)
        if symbol is None:
            return FAR
        costs = handler.builder.costs
        here = [
            costs.property(handler.shape.views[i], progress, symbol)
            for i, progress, _ in handler.alternatives
            if handler.shape.views[i].allowed(progress) >> symbol & 1
        ]
        return min(here, default=FAR)
    if isinstance(handler, ArrayHandler):
        return 0 if label == ARRAY_CLOSE else handler.cost()
    return 0
