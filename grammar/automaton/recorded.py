"""Where recorded text makes no difference: most of what it might forbid is seen from the texts themselves.

A text that goes on as another did, from the same place but for what was recorded, is allowed if that was, unless it
says twice what may be said once. To follow it byte by byte would make all that comes after it anew for each text.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..errors import GrammarError
from ..schema.values import Canonical, canonical, parse_first
from .arrays import AfterItem, ArrayHandler
from .stepper import Configuration
from .tables import Tables
from .values import BackHandler, ValueHandler

_WHITE = " \t\r\n"


def makes_no_difference(tables: Tables, known: Configuration, other: Configuration, rest: bytes) -> bool:
    """Whether `rest`, which leads from `known` to where a text may end, leads there from `other` as well, which differs
    in recorded texts only. False also where that is not plain to see.
    """
    stacks = tables.stacks
    frames = [known.frame]
    stack = known.stack
    while stack:
        frames.append(int(stacks.top[stack]))
        stack = int(stacks.rest[stack])
    scope = len(known.texts)
    for frame in frames:  # innermost first, as their texts stand last
        own = int(tables.scopes[frame])
        scope -= own
        if known.texts[scope : scope + own] == other.texts[scope : scope + own]:
            continue
        handler = tables.handler(frame)
        after = handler.after if isinstance(handler, ValueHandler | BackHandler) else None
        if own != 1 or not isinstance(after, AfterItem) or not after.unique:
            return False
        if not _differ(other.texts[scope] + rest):
            return False
    return True


def array_of(tables: Tables, at: Configuration) -> ArrayHandler | None:
    """The array whose next item begins at a place, or which goes on or ends there; None anywhere else."""
    handler = tables.handler(at.frame)
    if isinstance(handler, ValueHandler):
        after = handler.after
        return after.array if isinstance(after, AfterItem) and at.row == handler.start.row else None
    return handler if isinstance(handler, ArrayHandler) and at.row == handler.frame()[0] else None


def is_other_item(tables: Tables, known: Configuration, other: Configuration, data: bytes, start: int) -> bool:
    """Whether the bytes of `data` from `start` on, which lead from `known` to where a text may end, lead there from
    `other` as well, the same place of an array with other items so far. False also where that is not plain to see.
    """
    if known.stack != other.stack or known.texts != other.texts or known.length != other.length:
        return False
    mine, its = array_of(tables, known), array_of(tables, other)
    if mine is None or its is None or its.seen is None or not mine.is_like(its):
        return False
    between = isinstance(tables.handler(known.frame), ArrayHandler)
    if isinstance(tables.handler(other.frame), ArrayHandler) is not between:
        return False
    so_far = set(its.seen)
    try:
        source = data[start:].decode()
        if between:
            at = _white(source, 0)
            if source[at] == "]":
                return True
            if source[at] != ",":
                return False
            source = source[at + 1 :]
        return all(item not in so_far for item in _items(source))
    except (GrammarError, ValueError, IndexError):
        return False


def _differ(text: bytes) -> bool:
    """Whether the first of the items that a text goes on with, up to the end of their array, is none of the others."""
    try:
        items = _items(text.decode())
        first = next(items)
        return all(item != first for item in items)
    except (GrammarError, ValueError, IndexError):  # half a character, a number too long to be looked at
        return False


def _items(source: str) -> Iterator[Canonical]:
    """The items that a text begins with, up to the end of their array. Raises ValueError where it does not end so."""
    at = 0
    while True:
        value, at = parse_first(source, _white(source, at))
        yield canonical(value)
        at = _white(source, at)
        if source[at] != ",":
            break
        at += 1
    if source[at] != "]":
        raise ValueError(source[at])


def _white(source: str, at: int) -> int:
    while at < len(source) and source[at] in _WHITE:
        at += 1
    return at
