"""Free text with triggers (structural tags): automata that find the first trigger in a text.

The texts up to and with the first occurrence of a trigger are a regular language, found with Aho and Corasick's
automaton (Communications of the ACM 18(6), 1975); so are those without any. Free text with tags is

    (up to a trigger, the rest of a tag's begin, its content, its end)* without a trigger

in which everything is ordinary but these languages.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from ..errors import BudgetError
from ..regular import ALL, ANY, CharSet, Language
from ..regular.charset import WORD
from ..regular.dfa import LazyDfa, interned
from .ir import Free
from .nodes import Pool

_NONE: Final = -1
_ON, _OTHER, _WANTED = 0, 1, 2
_State = tuple[int, bool, int]


class _Search:
    """Aho and Corasick's automaton of some words: nodes are their beginnings.

    paths   the beginning that each node is
    found   the words that end in a node
    """

    def __init__(self, words: tuple[str, ...]) -> None:
        self.words = words
        self.paths = [""]
        self.found: list[frozenset[int]] = [frozenset()]
        self._children: list[dict[str, int]] = [{}]
        for number, word in enumerate(words):
            node = 0
            for at, char in enumerate(word, 1):
                following = self._children[node].get(char)
                if following is None:
                    following = self._children[node][char] = len(self.paths)
                    self._children.append({})
                    self.paths.append(word[:at])
                    self.found.append(frozenset())
                node = following
            self.found[node] |= {number}
        self._fall = [0] * len(self.paths)
        waiting = list(self._children[0].values())
        for node in waiting:  # breadth first: it grows on the way
            for char, child in self._children[node].items():
                waiting.append(child)
                self._fall[child] = self._step(self._fall[node], char)
            self.found[node] |= self.found[self._fall[node]]

    def _step(self, node: int, char: str) -> int:
        while node and char not in self._children[node]:
            node = self._fall[node]
        return self._children[node].get(char, 0)

    def moves(self, node: int) -> list[tuple[CharSet, int]]:
        """Disjoint classes of all characters, and the node that each leads to."""
        known: dict[str, int] = {}
        at = node
        while True:
            for char, child in self._children[at].items():
                known.setdefault(char, child)
            if not at:
                break
            at = self._fall[at]
        merged: dict[int, list[str]] = {}
        for char, child in known.items():
            merged.setdefault(child, []).append(char)
        moves = [(CharSet.chars(chars), child) for child, chars in merged.items()]
        return [*moves, (ALL - CharSet.chars(known), 0)]


MAX_TRIGGERS: Final = 128
_search: Final = lru_cache(16)(_Search)
"""One for all tags of a free text."""


class UntilDfa(LazyDfa[_State]):
    """The texts that end with `triggers[wanted]` and hold no trigger before that; for _NONE those without a trigger.

    None of them holds any of `excludes`. `whole`: a trigger counts only where the word does not begin before it, nor,
    unless `open` says that tags go on so, goes on after it. A state is the search's node, whether a word character
    stands before what the node has read, and whether a trigger ended just now (_ON: none, _WANTED, _OTHER).
    """

    def __init__(
        self, triggers: tuple[str, ...], excludes: tuple[str, ...], wanted: int, whole: bool, open: bool
    ) -> None:
        what = "free text" if wanted == _NONE else f"free text up to {triggers[wanted]!r}"
        super().__init__(("until", triggers, excludes, wanted, whole, open), what, (0, False, _ON))
        self._words = _search(triggers + excludes)
        self._triggers = len(triggers)
        self._wanted, self._whole, self._open = wanted, whole, open

    def _moves(self, state: _State) -> Iterable[tuple[CharSet, _State]]:
        node, before, ended = state
        path = self._words.paths[node]
        allowed = ALL
        if ended != _ON:
            if not self._whole or self._open or path[-1] not in WORD:
                return
            allowed = WORD  # the word goes on, so this was no trigger
        for chars, target in self._words.moves(node):
            depth = len(self._words.paths[target])
            for part in (chars & allowed & WORD, chars & allowed - WORD):
                if not part:
                    continue
                if depth > len(path):
                    inside = before
                elif depth:
                    inside = path[len(path) - depth] in WORD
                else:
                    inside = part.sample() in WORD
                ends = self._ended(target, inside)
                if ends is not None:
                    yield part, (target, inside, ends)

    def _ended(self, target: int, inside: bool) -> int | None:
        """What ended with the move to `target`; None: something excluded."""
        found = self._words.found[target]
        if any(word >= self._triggers for word in found):
            return None
        counting = [word for word in found if self._counts(target, word, inside)]
        return _WANTED if self._wanted in counting else _OTHER if counting else _ON

    def _counts(self, target: int, word: int, inside: bool) -> bool:
        text, path = self._words.words[word], self._words.paths[target]
        if not self._whole or text[0] not in WORD:
            return True
        return not (inside if len(path) == len(text) else path[-len(text) - 1] in WORD)

    def _accepts(self, state: _State) -> bool:
        return state[2] == (_ON if self._wanted == _NONE else _WANTED)


def text_without(excludes: tuple[str, ...]) -> Language:
    """The texts that hold none of `excludes`."""
    return Language(_until((), excludes, _NONE, False, False)) if excludes else ANY


def _until(triggers: tuple[str, ...], excludes: tuple[str, ...], wanted: int, whole: bool, open: bool) -> UntilDfa:
    return interned(
        ("until", triggers, excludes, wanted, whole, open), lambda: UntilDfa(triggers, excludes, wanted, whole, open)
    )


def free_text(pool: Pool, free: Free, contents: list[int]) -> int:
    """The node of free text; `contents` are the nodes of its tags' contents. Raises BudgetError for many triggers."""
    if len(free.triggers) > MAX_TRIGGERS:
        raise BudgetError(
            f"free text with {len(free.triggers)} triggers exceeds {MAX_TRIGGERS}",
            remedy="let one trigger begin many tags, as < does",
        )

    def until(wanted: int, open: bool) -> int:
        dfa = _until(free.triggers, free.excludes, wanted, free.whole_words, open)
        return pool.dfa(dfa, dfa.start)

    segments = []
    goes_on = any(
        tag.begin[len(trigger) : len(trigger) + 1] in WORD
        for trigger in free.triggers
        for tag in free.tags
        if tag.begin.startswith(trigger) and len(tag.begin) > len(trigger)
    )
    for number, trigger in enumerate(free.triggers):
        tags = [
            pool.seq((pool.text(tag.begin[len(trigger) :]), content, pool.text(tag.end)))
            for tag, content in zip(free.tags, contents, strict=True)
            if tag.begin.startswith(trigger)
        ]
        segments.append(pool.seq((until(number, goes_on), pool.alt(tags))))
    segment = pool.alt(segments)
    rest = until(_NONE, goes_on)
    if free.stop_after_first:
        return segment if free.at_least_one else pool.alt((segment, rest))
    more = pool.seq((pool.star(segment), rest))
    return pool.seq((segment, more)) if free.at_least_one else more
