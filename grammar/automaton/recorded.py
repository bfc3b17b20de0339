"""Where recorded text makes no difference: most of what it might forbid is seen from the texts themselves.

A text that goes on as another did, from the same place but for what was recorded, is allowed if that was, unless it
says twice what may be said once. To follow it byte by byte would make all that comes after it anew for each text.
"""

from __future__ import annotations

from ..errors import GrammarError
from ..schema.values import canonical, parse_first
from .arrays import AfterItem
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
