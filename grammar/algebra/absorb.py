"""Keeping unions of object clauses small: drop what is implied, then clauses that another contains.

`oneOf` with a discriminator that may be absent needs this: "is present and not x" is implied by "is present and y", and
once the implied half is gone, all the clauses that also exclude the other branches in other ways are seen to be
contained in the one that needs no more exclusion.

And the branches of `oneOf` that each require a key of their own exclude each other by "is absent, or is present and not
x", which is one clause, "is not x": as two they would double with every branch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from operator import is_

from ..courtesy import COURTESY
from .clauses import Each, ObjectClause
from .goals import Literal
from .kinds import Kinds

WORTH_IT = 1
TOO_MANY = 2048
TOO_MANY_PAIRS = 256
FEW = 32
"""Clauses that are compared with each other one by one."""


def joined(clauses: Sequence[ObjectClause]) -> tuple[ObjectClause, ...]:
    """A union of fewer clauses that allows the same objects: what holds whether a key is there or not is said once.

    Where all else that A, which forbids the key, demands is demanded by B, which requires it, B need not require it:
    without the key such an object is one of A's. The clauses must have no annotations.
    """
    absent: dict[str, list[tuple[ObjectClause, frozenset[tuple[object, ...]]]]] = {}
    if len(clauses) <= TOO_MANY_PAIRS:
        for clause in clauses:
            for each in clause.each:
                if each.name is not None and each.forbids:
                    absent.setdefault(each.name, []).append((clause, clause.demands - {each.identity}))
    if not absent:
        return tuple(clauses)
    out: list[ObjectClause] = []
    dropped: set[int] = set()
    for clause in clauses:
        for some in clause.some:
            for without, rest in absent.get(some.name or "", ()) if not some.literals else ():
                same = (without.low, without.high) == (clause.low, clause.high)
                if same and rest <= clause.demands - {some.identity}:  # which a clause that forbids and requires is not
                    clause = replace(clause, some=tuple([other for other in clause.some if other is not some]))
                    named = {each.identity for each in clause.each if each.name == some.name}
                    if clause.demands - named <= without.demands:
                        dropped.add(id(without))
                    break
        out.append(clause)
    return tuple([clause for clause in out if id(clause) not in dropped])


def absorbed(kinds: Kinds, clauses: Sequence[ObjectClause]) -> tuple[ObjectClause, ...]:
    """A union of fewer clauses that allows the same objects. The clauses must have no annotations."""
    if not WORTH_IT < len(clauses) <= TOO_MANY:
        return tuple(clauses)
    simpler = {clause.identity: clause for clause in (_simplified(kinds, clause) for clause in clauses)}
    by_size = sorted(simpler.values(), key=lambda clause: len(clause.demands))
    # What contains a clause demands no more than it does, so it is found under the rarest of its own demands.
    many = len(by_size) > FEW and len(by_size) > 2 * len(by_size[-1].demands)
    counts = Counter(chain.from_iterable(clause.demands for clause in by_size)) if many else None
    filed: dict[object, list[ObjectClause]] = {None: []}
    kept: list[ObjectClause] = []
    for clause in by_size:
        COURTESY.pause()
        demands, low, high = clause.demands, clause.low, clause.high
        for wider in chain.from_iterable(filed.get(key, ()) for key in (None, *demands)) if counts else kept:
            if (
                wider.demands <= demands
                and wider.low <= low
                and (wider.high is None or (high is not None and high <= wider.high))
            ):
                break
        else:
            kept.append(clause)
            if counts:
                filed.setdefault(min(demands, key=counts.__getitem__, default=None), []).append(clause)
    return tuple(kept)


def _simplified(kinds: Kinds, clause: ObjectClause) -> ObjectClause:
    """The clause without "is not x" for properties that cannot be x anyway."""
    COURTESY.pause()
    by_name: dict[str, list[Literal]] = {}
    negative = False
    for each in clause.each:
        name = each.name
        if name is not None:
            by_name.setdefault(name, []).extend(each.literals)
            negative = negative or any(not sign for _, sign in each.literals)
    if not negative:
        return clause
    changed: list[Each] = []
    for each in clause.each:
        name = each.name
        if name is None or all(sign for _, sign in each.literals):
            changed.append(each)
            continue
        literals = []
        for literal in each.literals:
            expr, sign = literal
            others = [other for other in by_name[name] if other is not literal]
            if sign or not kinds.clash([*others, (expr, True)]):
                literals.append(literal)
            else:
                by_name[name].remove(literal)
        if literals or each.declared:
            kept = tuple(literals)
            changed.append(each if len(kept) == len(each.literals) else Each(each.keys, kept, each.declared))
    if len(changed) == len(clause.each) and all(map(is_, changed, clause.each)):
        return clause  # with what it knows of itself
    return replace(clause, each=tuple(changed))
