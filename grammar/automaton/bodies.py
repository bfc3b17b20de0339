"""Which rows read a string: the free body, a choice of words, a pattern, or several of them at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import reduce
from operator import or_

from ..frozen import frozen
from ..regular.dfa import Dfa
from ..regular.language import Language, union
from ..regular.words import finite_words, missing_words, words_dfa
from .codes import BIG
from .products import Part
from .strings import ProductRows, StringRows, closing_value
from .trie import Base, WordRows

Bounds = tuple[int, int | None]
LabelOf = Callable[[int], int]


@frozen(eq=False)
class _Sorted:
    """The parts of a string position: single words with their tags, and languages that are not lists of words."""

    words: dict[str, int]
    languages: dict[Language, int]

    @property
    def bounds(self) -> set[Bounds]:
        return {(language.low, language.high) for language in self.languages}

    def choice(self, high: int | None) -> tuple[dict[str, int], int] | None:
        """The tags of single words, and those of any other string of at most `high` characters; None where the
        languages allow more than all strings but a few, each of which may go on to others.
        """
        tags_of, free = dict(self.words), 0
        lacking: dict[str, set[Language]] = {}
        for language, tags in self.languages.items():
            missing = missing_words(language.dfa)
            if missing is None or (high is not None and any(len(word) >= high for word in missing)):
                return None
            free |= tags
            for word in missing:
                lacking.setdefault(word, set()).add(language)
        for word, tags in tags_of.items() if free else ():
            if word not in lacking:
                tags_of[word] = tags | free
        for word, without in lacking.items():
            having = [tags for language, tags in self.languages.items() if language not in without]
            tags_of[word] = reduce(or_, having, tags_of.get(word, 0))
        return tags_of, free

    def words_within(self, low: int, high: int | None) -> bool:
        return all(low <= len(word) <= (BIG if high is None else high) for word in self.words)


class Bodies:
    """Chooses the rows of string positions."""

    def __init__(self, strings: StringRows) -> None:
        self.strings = strings
        self._choices: dict[tuple[tuple[tuple[str, int], ...], int], int] = {}

    def start(self, parts: Iterable[tuple[Language, int]], label_of: LabelOf) -> tuple[int, int, int]:
        """The row after the opening quote (0: there is no word) and the bounds that the frame's counter must check."""
        given = _sorted(parts)
        if not given.words and not given.languages:
            return 0, 0, BIG
        low, high = 0, None
        # one bound for all is a counter beside the state; bounds that differ become states
        common = len(given.bounds) <= 1
        if given.bounds and common:
            low, high = next(iter(given.bounds))
            common = given.words_within(low, high)
        if common and (choice := given.choice(high)) is not None:
            row = self._choice(*choice, label_of)
        else:
            if not common:
                low, high = 0, None
            row = self._product(given, common, label_of, high is not None)
        return row, low, BIG if high is None else high

    def _choice(self, words: dict[str, int], free: int, label_of: LabelOf) -> int:
        """A list of words, each with its tags (0: it may not come); `free`: those of any other string (0: none may)."""
        body = self.strings.body(label_of(free)) if free else 0
        chosen = [word for word in sorted(words) if words[word] != free]
        labelled = tuple([(word, label_of(words[word]) if words[word] else -1) for word in chosen])
        if not labelled and free:
            return body
        row = self._choices.get((labelled, body))
        if row is None:
            rows = WordRows(
                self.strings.tables,
                self.strings.chars.spelling,
                [word for word, _ in labelled],
                [closing_value(label) if label >= 0 else 0 for _, label in labelled],
                Base(body, body) if free else None,
            )
            row = self._choices[labelled, body] = rows.root
        return row

    def _product(self, given: _Sorted, common: bool, label_of: LabelOf, bounded: bool) -> int:
        tags_of: dict[Dfa, int] = {}
        by_tags: dict[int, list[str]] = {}
        for word, tags in given.words.items():
            by_tags.setdefault(tags, []).append(word)
        for tags, words in by_tags.items():
            tags_of[words_dfa(words)] = tags
        for language, tags in given.languages.items():
            dfa = language.dfa if common else language.unbounded().dfa
            if dfa.start is not None:
                tags_of[dfa] = tags_of.get(dfa, 0) | tags
        parts = tuple(Part(dfa, tags) for dfa, tags in tags_of.items())
        if len(parts) == 1:
            only = parts[0]
            return self.strings.language(only.dfa, label_of(only.tags), bounded).row(_start(only.dfa))
        return ProductRows(self.strings, parts, label_of, bounded).start()


def _sorted(parts: Iterable[tuple[Language, int]]) -> _Sorted:
    words: dict[str, int] = {}
    languages: dict[Language, int] = {}
    for language, tags in parts:
        listed = finite_words(language.dfa)
        if listed is None:
            normal = language.normal()
            if normal.dfa.start is not None:
                languages[normal] = languages.get(normal, 0) | tags
        else:
            high = BIG if language.high is None else language.high
            for word in listed:
                if language.low <= len(word) <= high:
                    words[word] = words.get(word, 0) | tags
    return _Sorted(words, languages if len(languages) < 2 else _simplified(languages))


def _simplified(languages: dict[Language, int]) -> dict[Language, int]:
    """The same languages without those that make no difference: bounds that differ would cost a state a character."""
    joined: list[tuple[Language, int]] = []
    for language, tags in languages.items():
        found = language
        while True:
            for index, (other, own) in enumerate(joined):
                if own == tags and other.dfa is found.dfa and _touch(found, other):
                    found = union(found, other)
                    del joined[index]
                    break
            else:
                break
        joined.append((found, tags))
    kept: dict[Language, int] = {}
    for language, tags in joined:
        kept[language] = kept.get(language, 0) | tags
    for language, tags in list(kept.items()):
        if any(
            other is not language
            and not tags & ~own
            and other.dfa.universal(_start(other.dfa))
            and _inside(language, other)
            for other, own in kept.items()
        ):
            del kept[language]
    return kept


def _touch(a: Language, b: Language) -> bool:
    first, second = (a, b) if a.low <= b.low else (b, a)
    return first.high is None or second.low <= first.high + 1


def _inside(inner: Language, outer: Language) -> bool:
    """Whether the bounds of `inner` lie within those of `outer`."""
    return inner.low >= outer.low and (outer.high is None or (inner.high is not None and inner.high <= outer.high))


def _start(dfa: Dfa) -> int:
    start = dfa.start
    if start is None:
        raise ValueError(f"the language of {dfa.name} is empty")
    return start
