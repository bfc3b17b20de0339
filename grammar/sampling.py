"""Random texts of a grammar: a walk over the byte automaton, then the nearest way out."""

from __future__ import annotations

import random
from typing import Protocol

from .automaton.codes import ROW_MASK
from .automaton.stepper import Configuration, ends, step
from .automaton.tables import Tables
from .automaton.tokencodes import shown
from .errors import BudgetError

MAX_WALK = 400
_LIKED = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789 ")


class ByteAutomaton(Protocol):
    """What a walk needs."""

    tables: Tables
    start: Configuration

    def completion(self, at: Configuration) -> bytes: ...


def sample(automaton: ByteAutomaton, seed: int, *, longest: int = MAX_WALK) -> str:
    """A random text of the automaton, at most about `longest` bytes before it turns to the nearest end."""
    generator = random.Random(seed)
    tables = automaton.tables
    out = bytearray()
    with tables.lock:
        at = automaton.start
        budget = generator.randint(1, longest)
        while len(out) < budget:
            if ends(tables, at) and generator.random() < 0.5:
                break
            try:
                following = _any_step(tables, at, generator)
            except BudgetError:  # what could come next is too much to follow: this is far enough
                break
            if following is None:
                break
            byte, at = following
            out.append(byte)
        out += automaton.completion(at)
    return shown(bytes(out))


def _any_step(tables: Tables, at: Configuration, generator: random.Random) -> tuple[int, Configuration] | None:
    """A random allowed byte. What the byte leads to is drawn first, so that a quote is as likely as all letters."""
    groups: dict[int, list[int]] = {}
    for byte, value in enumerate(tables.values(at.row).tolist()):
        if value or int(tables.accept[at.row]):
            groups.setdefault(value & ROW_MASK if value > 0 else value, []).append(byte)
    order = list(groups.values())
    generator.shuffle(order)
    for group in order:
        liked = [byte for byte in group if byte in _LIKED]
        candidates = liked if liked and generator.random() < 0.9 else group
        for byte in generator.sample(candidates, min(len(candidates), 8)):
            following = step(tables, at, byte)
            if following is not None:
                return byte, following
    for group in order:
        for byte in group:
            following = step(tables, at, byte)
            if following is not None:
                return byte, following
    return None
