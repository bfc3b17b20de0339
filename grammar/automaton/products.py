"""Several automata followed at once, each standing for a set of alternatives (its tags)."""

from __future__ import annotations

from ..frozen import frozen
from ..regular.charset import CharSet
from ..regular.dfa import Dfa
from .codes import BIG

ProductState = tuple[tuple[int, int], ...]
"""The parts that are alive, by number, each with its state: of hundreds of constants few are after one character."""
NONE_ALIVE: ProductState = ()


@frozen
class Part:
    """An automaton and the tags of the alternatives that it stands for."""

    dfa: Dfa
    tags: int


def begin(parts: tuple[Part, ...]) -> ProductState:
    """The state before the first character."""
    return tuple([(index, part.dfa.start) for index, part in enumerate(parts) if part.dfa.start is not None])


def combined(parts: tuple[Part, ...], state: ProductState) -> list[tuple[CharSet, ProductState]]:
    """Disjoint classes and the states they lead to; at least one part is alive in each."""
    if len(state) == 1:
        ((index, own),) = state
        return [(chars, ((index, target),)) for chars, target in parts[index].dfa.step(own)]
    found: list[tuple[CharSet, ProductState]] = []
    for index, own in state:
        split: list[tuple[CharSet, ProductState]] = []
        steps = parts[index].dfa.step(own)
        fresh = [chars for chars, _ in steps]  # of each step what no part before reads
        for chars, targets in found:
            rest = chars
            for i, (chosen, target) in enumerate(steps):
                common = rest & chosen
                if common:
                    split.append((common, (*targets, (index, target))))
                    rest = rest - common
                    fresh[i] = fresh[i] - common
                    if not rest:
                        break
            if rest:
                split.append((rest, targets))
        split += [(rest, ((index, target),)) for rest, (_, target) in zip(fresh, steps, strict=True) if rest]
        found = split
    merged: dict[ProductState, CharSet] = {}
    for chars, targets in found:
        merged[targets] = merged[targets] | chars if targets in merged else chars
    return [(chars, targets) for targets, chars in merged.items()]


def tags_of(parts: tuple[Part, ...], state: ProductState) -> int:
    """The union of the tags of the parts that accept."""
    tags = 0
    for index, own in state:
        part = parts[index]
        if part.dfa.accepting(own):
            tags |= part.tags
    return tags


def shortest(parts: tuple[Part, ...], state: ProductState, *, exact: bool) -> int:
    """The number of code points to where some part accepts: the least, or about that."""
    alive = [(parts[index].dfa, own) for index, own in state]
    return min([dfa.shortest(own) if exact else dfa.near(own) for dfa, own in alive], default=BIG)
