"""Where recorded text makes no difference: most of what it might forbid is seen from the texts themselves.

A text that goes on as another did, from the same place but for what was recorded, is allowed if that was, unless it
says twice what may be said once. To follow it byte by byte would make all that comes after it anew for each text.
"""

from __future__ import annotations

from ..errors import GrammarError
from ..schema.values import canonical, parse_first
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


def is_other_item(tables: Tables, known: Configuration, other: Configuration, rest: bytes) -> bool:
    """Whether `rest`, which leads from `known` to where a text may end, leads there from `other` as well, the same
    place of an array with other items so far. False also where that is not plain to see.
    """
    if known.stack != other.stack or known.texts != other.texts or known.length != other.length:
        return False
    mine, its = array_of(tables, known), array_of(tables, other)
    if mine is None or its is None or its.seen is None or not mine.is_like(its):
        return False
    if type(tables.handler(known.frame)) is not type(tables.handler(other.frame)):
        return False
    so_far = set(its.seen)
    source, at = rest.decode(), 0
    try:
        if isinstance(tables.handler(known.frame), ArrayHandler):
            at = _white(source, at)
            if source[at] != ",":
                return source[at] == "]"
            at += 1
        while True:
            value, at = parse_first(source, _white(source, at))
            if canonical(value) in so_far:
                return False
            at = _white(source, at)
            if source[at] != ",":
                return source[at] == "]"
            at += 1
    except (GrammarError, ValueError, IndexError):
        return False


def _differ(text: bytes) -> bool:
    """Whether the first of the items that a text goes on with, up to the end of their array, is none of the others."""
    try:
        source = text.decode()
        value, at = parse_first(source, _white(source, 0))
        first = canonical(value)
        while (at := _white(source, at)) < len(source) and source[at] == ",":
            value, at = parse_first(source, _white(source, at + 1))
            if canonical(value) == first:
                return False
    except (GrammarError, ValueError):  # half a character, a number too long to be looked at
        return False
    return True


def _white(source: str, at: int) -> int:
    while at < len(source) and source[at] in _WHITE:
        at += 1
    return at
