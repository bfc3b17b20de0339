"""Languages put together from languages: one after the other, either, repeated, and the shortest match.

Thompson's construction with whole automata for letters, determinised as it is walked: a state is the set of places
(part, state within the part) that the text read so far may be at.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from itertools import pairwise

from ..errors import BudgetError
from ..frozen import frozen
from .charset import CharSet, partition
from .dfa import EMPTY_DFA, Dfa, LazyDfa, interned
from .language import EMPTY, Language, words

_MAX_PARTS = 1_000

Places = frozenset[tuple[int, int]]


@frozen
class Part:
    """A piece of the whole: where it may begin and end, and whether it may be empty."""

    first: tuple[int, ...]
    last: tuple[int, ...]
    empty: bool


class Composer:
    """Builds one language from parts. `name` is for messages. Raises BudgetError beyond 1,000 parts."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._dfas: list[Dfa] = []
        self._follow: list[list[int]] = []

    def leaf(self, language: Language) -> Part:
        """A part that is a language."""
        dfa = language.unbounded().dfa
        if len(self._dfas) >= _MAX_PARTS:
            raise BudgetError(f"{self._name} has more than {_MAX_PARTS} parts once its repetitions are written out")
        number = len(self._dfas)
        self._dfas.append(dfa)
        self._follow.append([])
        return Part((number,), (number,), False)

    def sequence(self, parts: Iterable[Part]) -> Part:
        """One after the other."""
        whole = Part((), (), True)
        for part in parts:
            for end in whole.last:
                self._follow[end] += part.first
            whole = Part(
                whole.first + part.first if whole.empty else whole.first,
                whole.last + part.last if part.empty else part.last,
                whole.empty and part.empty,
            )
        return whole

    def choice(self, parts: Iterable[Part]) -> Part:
        """Any one of them."""
        listed = list(parts)
        return Part(
            tuple(n for part in listed for n in part.first),
            tuple(n for part in listed for n in part.last),
            any(part.empty for part in listed),
        )

    def star(self, part: Part) -> Part:
        """Any number of times."""
        for end in part.last:
            self._follow[end] += part.first
        return Part(part.first, part.last, True)

    def optional(self, part: Part) -> Part:
        """Once or not at all."""
        return Part(part.first, part.last, True)

    def run(self, parts: Iterable[Part]) -> Part:
        """Some of these that stand side by side, in order, or none."""
        listed = list(parts)
        for before, after in pairwise(listed):
            for end in before.last:
                self._follow[end] += after.first
        return replace(self.choice(listed), empty=True)

    def language(self, whole: Part) -> Language:
        """The language of a part that holds all the others."""
        dfas = tuple(self._dfas)
        follow = tuple(tuple(dict.fromkeys(targets)) for targets in self._follow)
        key = ("composed", dfas, follow, whole)
        dfa = interned(key, lambda: _ComposedDfa(key, self._name, dfas, follow, whole))
        return EMPTY if dfa.start is None else Language(dfa)


class _ComposedDfa(LazyDfa[Places]):
    def __init__(
        self, key: Hashable, name: str, dfas: tuple[Dfa, ...], follow: tuple[tuple[int, ...], ...], whole: Part
    ) -> None:
        self.dfas = dfas
        self.follow = follow
        self.last = frozenset(whole.last)
        first = self._entered(whole.first)
        # Place (-1, 0) is the whole's beginning, which accepts if the whole may be empty.
        super().__init__(key, name, frozenset(first | {(-1, 0)}) if whole.empty else frozenset(first))

    def _entered(self, parts: Iterable[int]) -> set[tuple[int, int]]:
        """The places at the beginning of these parts, and of those that follow where a part may be empty."""
        places: set[tuple[int, int]] = set()
        waiting = list(parts)
        seen = set(waiting)
        while waiting:
            part = waiting.pop()
            start = self.dfas[part].start
            if start is None:
                continue
            places.add((part, start))
            if self.dfas[part].accepting(start):
                fresh = [after for after in self.follow[part] if after not in seen]
                seen.update(fresh)
                waiting += fresh
        return places

    def _moves(self, state: Places) -> Iterable[tuple[CharSet, Places]]:
        steps = [(part, self.dfas[part].step(at)) for part, at in state if part >= 0]
        for chars in partition(found for _, step in steps for found, _ in step):
            places: set[tuple[int, int]] = set()
            for part, step in steps:
                for found, target in step:
                    if chars & found:
                        places.add((part, target))
                        if self.dfas[part].accepting(target):
                            places |= self._entered(self.follow[part])
            yield chars, frozenset(places)

    def _accepts(self, state: Places) -> bool:
        return any(part < 0 or (part in self.last and self.dfas[part].accepting(at)) for part, at in state)


class _ShortestDfa(LazyDfa[int]):
    """The words of a language no beginning of which is one of its words."""

    def __init__(self, part: Dfa) -> None:
        super().__init__(("shortest", part), f"the shortest match of {part.name}", part.start)
        self.part = part

    def _moves(self, state: int) -> Iterable[tuple[CharSet, int]]:
        return () if self.part.accepting(state) else self.part.step(state)

    def _accepts(self, state: int) -> bool:
        return self.part.accepting(state)


def shortest_matches(language: Language) -> Language:
    """The words of `language` that have no shorter beginning in it: what a lazy match takes."""
    part = language.unbounded().dfa
    if part is EMPTY_DFA or part.start is None:
        return EMPTY
    if part.accepting(part.start):
        return words([""])
    return Language(interned(("shortest", part), lambda: _ShortestDfa(part)))
