"""What is wrong with a grammar's rules, and what is odd: found before any automaton is made."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from ..errors import GrammarTextError
from .analysis import NEVER, Analysis
from .ir import Grammar, Place
from .lower import START, Lowered


@dataclass(frozen=True, slots=True)
class GrammarReport:
    """What the compiler found in a grammar.

    used      names of rules that the start leads to, in the grammar's order
    unused    names of the others
    captures  names of captured parts
    warnings  one line for each thing that is allowed and odd
    """

    used: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()
    captures: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


def report(grammar: Grammar, lowered: Lowered) -> GrammarReport:
    """What the rules of a grammar are used for."""
    used = {START}
    waiting = [START]
    while waiting:
        for rule in lowered.calls[waiting.pop()]:
            if rule not in used:
                used.add(rule)
                waiting.append(rule)
    unused = tuple([name for rule, name in enumerate(lowered.names) if rule not in used])
    return GrammarReport(
        used=tuple([name for rule, name in enumerate(lowered.names) if rule in used and rule != START]),
        unused=unused,
        captures=tuple(lowered.captures),
        warnings=tuple([_unused(grammar, name) for name in unused]),
    )


def check_productive(grammar: Grammar, lowered: Lowered, analysis: Analysis, used: Collection[str]) -> None:
    """Raises GrammarTextError for a rule in use that derives no text, as `root ::= root`."""
    for rule, body in enumerate(lowered.bodies):
        if analysis.cost[body] == NEVER and rule not in lowered.apart and lowered.names[rule] in used:
            place = grammar.places.get(lowered.names[rule], Place())
            raise GrammarTextError(
                f"the rule {lowered.names[rule]!r} derives no text: none of its alternatives ever ends",
                line=place.line,
                column=place.column,
            )


def _unused(grammar: Grammar, name: str) -> str:
    place = grammar.places.get(name, Place())
    where = f"line {place.line}, column {place.column}: " if place.line else ""
    return f"{where}the rule {name!r} is never used"
