"""Finite sets of words: a trie that exists only where it is walked."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

from .charset import CharSet
from .dfa import EMPTY_DFA, Dfa, LazyDfa, Step, interned, lazy
from .products import EPSILON_DFA, ComplementDfa

Range = tuple[int, int, int]


class WordsDfa(LazyDfa[Range]):
    """A state is (from, to, depth): words from..to of the sorted list, alike in their first `depth` characters."""

    def __init__(self, words: tuple[str, ...]) -> None:
        super().__init__(("words", words), f"a choice of {len(words)} words", (0, len(words), 0))
        self.words = words

    def _moves(self, state: Range) -> Iterable[tuple[CharSet, Range]]:
        at, end, depth = state
        at += len(self.words[at]) == depth
        moves = []
        while at < end:
            word = self.words[at]
            char = word[depth]
            # The last word that begins so far like this one: every other first differing character is greater.
            stop = bisect_right(self.words, char, at, end, key=lambda w: w[depth]) if end - at > 1 else end
            moves.append((CharSet.char(ord(char)), (at, stop, depth + 1)))
            at = stop
        return moves

    def step(self, state: int) -> Step:
        found = self._live_moves[state]
        if found is None:
            with self._lock:
                found = self._live_moves[state] = self._raw(state)
        return found

    @lazy
    def countable(self) -> bool:
        return False  # there is a longest word

    def _accepts(self, state: Range) -> bool:
        return len(self.words[state[0]]) == state[2]

    def shortest(self, state: int) -> int:
        found = self._distances.get(state)
        if found is None:
            at, end, depth = self._states[state]
            found = self._distances[state] = min(map(len, self.words[at:end])) - depth
        return found

    def near(self, state: int) -> int:
        return self.shortest(state)

    def longest(self, state: int) -> int:
        at, end, depth = self._states[state]
        return max(map(len, self.words[at:end])) - depth


def words_dfa(values: Iterable[str]) -> Dfa:
    """The automaton of a finite set of words. Words that hold a surrogate are left out: no text holds one."""
    words = tuple(sorted({word for word in values if word.isascii() or not _has_surrogate(word)}))
    if not words:
        return EMPTY_DFA
    if words == ("",):
        return EPSILON_DFA
    return interned(("words", words), lambda: WordsDfa(words))


def _has_surrogate(word: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in word)


def finite_words(dfa: Dfa) -> tuple[str, ...] | None:
    """The words of an automaton made from words, sorted; None for any other."""
    if dfa is EMPTY_DFA:
        return ()
    if dfa is EPSILON_DFA:
        return ("",)
    return dfa.words if isinstance(dfa, WordsDfa) else None


def missing_words(dfa: Dfa) -> tuple[str, ...] | None:
    """The few words that an automaton lacks where it is the complement of a list; None for others."""
    if isinstance(dfa, ComplementDfa):
        return finite_words(dfa.part)
    return () if dfa.start is not None and dfa.universal(dfa.start) else None


