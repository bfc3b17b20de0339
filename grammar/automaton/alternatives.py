"""Alternatives of a container that were followed apart and meet again."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

K = TypeVar("K", bound=Hashable)
P = TypeVar("P", bound=Hashable)


def merged(
    alternatives: Iterable[tuple[K, P, int]], dominates: Callable[[K, P, P], bool]
) -> tuple[tuple[K, P, int], ...]:
    """Alternatives (clause, progress, tags), equal ones as one, without those that another makes superfluous.

    `dominates(clause, better, worse)`: whatever can follow `worse` can follow `better` as well.
    """
    by_clause: dict[K, dict[P, int]] = {}
    for clause, progress, tags in alternatives:
        ways = by_clause.setdefault(clause, {})
        ways[progress] = ways.get(progress, 0) | tags
    return tuple(
        (clause, progress, tags)
        for clause, ways in by_clause.items()
        for progress, tags in ways.items()
        if len(ways) == 1
        or not any(
            other != progress and tags & ~theirs == 0 and dominates(clause, other, progress)
            for other, theirs in ways.items()
        )
    )
