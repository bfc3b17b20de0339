"""Several automata followed at once, each standing for a set of alternatives (its tags)."""

from __future__ import annotations

from dataclasses import dataclass

from ..regular.charset import CharSet
from ..regular.dfa import Dfa
from .codes import BIG

ProductState = tuple[int | None, ...]
"""One state for each part, None where the part is dead."""


@dataclass(frozen=True, slots=True)
class Part:
    """An automaton and the tags of the alternatives that it stands for."""

    dfa: Dfa
    tags: int


def combined(parts: tuple[Part, ...], state: ProductState) -> list[tuple[CharSet, ProductState]]:
    """Disjoint classes and the states they lead to; at least one part is alive in each."""
    if len(parts) == 1:
        return [(chars, (target,)) for chars, target in parts[0].dfa.step(state[0])] if state[0] is not None else []
    found: list[tuple[CharSet, ProductState]] = []
    for index, (part, current) in enumerate(zip(parts, state, strict=True)):
        if current is None:
            found = [(chars, (*targets, None)) for chars, targets in found]
            continue
        nothing: ProductState = (None,) * index
        split: list[tuple[CharSet, ProductState]] = []
        steps = part.dfa.step(current)
        for chars, targets in found:
            rest = chars
            for own, target in steps:
                common = rest & own
                if common:
                    split.append((common, (*targets, target)))
                    rest = rest - common
                    if not rest:
                        break
            if rest:
                split.append((rest, (*targets, None)))
        for own, target in steps:
            rest = own
            for chars, _ in found:
                rest = rest - chars
                if not rest:
                    break
            if rest:
                split.append((rest, (*nothing, target)))
        found = split
    merged: dict[ProductState, CharSet] = {}
    for chars, targets in found:
        merged[targets] = merged[targets] | chars if targets in merged else chars
    return [(chars, targets) for targets, chars in merged.items()]


def tags_of(parts: tuple[Part, ...], state: ProductState) -> int:
    """The union of the tags of the parts that accept."""
    tags = 0
    for part, current in zip(parts, state, strict=True):
        if current is not None and part.dfa.accepting(current):
            tags |= part.tags
    return tags


def shortest(parts: tuple[Part, ...], state: ProductState, *, exact: bool) -> int:
    """The number of code points to where some part accepts: the least, or about that."""
    alive = [(part.dfa, own) for part, own in zip(parts, state, strict=True) if own is not None]
    return min([dfa.shortest(own) if exact else dfa.near(own) for dfa, own in alive], default=BIG)
