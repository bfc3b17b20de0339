"""What is wrong with a grammar's rules, and what is odd: found before any automaton is made."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import BudgetError, GrammarTextError
from .analysis import NEVER, Analysis
from .ir import Capture, Grammar, Node, Place, Reference
from .lower import Lowered
from .walk import children

MAX_NODES = 500_000


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


def check_references(grammar: Grammar) -> GrammarReport:
    """Raises GrammarTextError for a rule that is not defined, BudgetError for a grammar that is absurdly large."""
    rules = grammar.rules
    if grammar.start not in rules:
        raise GrammarTextError(
            f"the rule to start with, {grammar.start!r}, is not defined", remedy="define it, or name another with start"
        )
    called: dict[str, list[str]] = {}
    captures: dict[str, None] = {}
    count = 0
    for name, rule in rules.items():
        called[name] = []
        waiting: list[Node] = [rule]
        while waiting:
            node = waiting.pop()
            count += 1
            if count > MAX_NODES:
                raise BudgetError(f"the grammar has more than {MAX_NODES} parts")
            if isinstance(node, Reference):
                if node.name not in rules:
                    raise _error(f"the rule {node.name!r} is not defined", node.place)
                called[name].append(node.name)
            elif isinstance(node, Capture):
                captures[node.name] = None
            waiting += children(node)
    used = {grammar.start}
    names = [grammar.start]
    while names:
        for name in called[names.pop()]:
            if name not in used:
                used.add(name)
                names.append(name)
    unused = tuple(name for name in rules if name not in used)
    return GrammarReport(
        used=tuple(name for name in rules if name in used),
        unused=unused,
        captures=tuple(captures),
        warnings=tuple(_unused(grammar, name) for name in unused),
    )


def check_productive(grammar: Grammar, lowered: Lowered, analysis: Analysis, report: GrammarReport) -> None:
    """Raises GrammarTextError for a rule in use that derives no text, as `root ::= root`."""
    numbers = {name: number for number, name in enumerate(lowered.names)}
    for name in report.used:
        number = numbers[name]
        if analysis.cost[lowered.bodies[number]] == NEVER and number not in lowered.apart:
            raise _error(
                f"the rule {name!r} derives no text: none of its alternatives ever ends",
                grammar.places.get(name, Place()),
            )


def _unused(grammar: Grammar, name: str) -> str:
    place = grammar.places.get(name, Place())
    where = f"line {place.line}, column {place.column}: " if place.line else ""
    return f"{where}the rule {name!r} is never used"


def _error(message: str, place: Place) -> GrammarTextError:
    return GrammarTextError(message, line=place.line, column=place.column)
