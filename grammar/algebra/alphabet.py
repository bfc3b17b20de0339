"""The keys of objects as symbols: every key that some clause names, and classes of all other keys.

Clauses over the same object share one alphabet. Keys that no clause names fall into classes by the patterns they match
(a *signature*: bit i says "matches test i"). A class of few keys is turned into names, so that every class that is left
is a well without bottom: a key of it can always be found that was not used yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain

from ..errors import BudgetError
from ..regular import ANY, Dfa, Language, complement, intersect, pattern
from ..regular.dfa import lazy
from ..schema.expr import Keys
from .clauses import Each, KeySet, ObjectClause, Some

MAX_FINITE = 1024
MAX_SIGNATURES = 256
_SHORT = 64  # characters of a word
_SOON = 16  # pairs of states
MAX_WORK = 200_000  # states of products, each by how many automata it is of
_CACHED = 256


@dataclass(frozen=True)
class Alphabet:
    """Symbols 0..len(names)-1 are single keys, the rest classes; `signatures[i]` belongs to symbol `len(names) + i`."""

    names: tuple[str, ...]
    tests: tuple[Language, ...]
    signatures: tuple[int, ...]

    @property
    def size(self) -> int:
        return len(self.names) + len(self.signatures)

    @property
    def class_mask(self) -> int:
        """The symbols that are classes, as bits."""
        return ((1 << len(self.signatures)) - 1) << len(self.names)

    @property
    def dfas(self) -> tuple[Dfa, ...]:
        """The tests as automata, length bounds built in."""
        return tuple(test.unbounded().dfa for test in self.tests)

    def key_length(self, symbol: int) -> int:
        """The length of the key; about that of a short one of the class, as far as its bounds tell."""
        if symbol < len(self.names):
            return len(self.names[symbol])
        signature = self.signatures[symbol - len(self.names)]
        return max([1, *(test.low for i, test in enumerate(self.tests) if signature >> i & 1)])

    @lazy
    def index(self) -> dict[str, int]:
        """The symbols of the names."""
        return {name: i for i, name in enumerate(self.names)}

    @lazy
    def _matched(self) -> dict[Language, int]:
        """By test, the symbols that pass it, as bits: asked for by every clause."""
        found: dict[Language, int] = {}
        for i, test in enumerate(self.tests):
            inside = 0
            for symbol, name in enumerate(self.names):
                if test.contains(name):
                    inside |= 1 << symbol
            for symbol, signature in enumerate(self.signatures, len(self.names)):
                inside |= (signature >> i & 1) << symbol
            found[test] = inside
        return found

    def members(self, keys: KeySet) -> int:
        """The symbols in a key set, as bits."""
        mask = (1 << self.size) - 1
        for test in keys:
            inside = 0
            if isinstance(test, Keys):
                for name in test.names:
                    inside |= 1 << self.index[name]
                for source in test.patterns:
                    inside |= self._matched[pattern(source)]
            else:
                for language in test.languages:
                    inside |= self._matched[language]
            mask &= ~inside if test.negated else inside
        return mask


def alphabet(clauses: Iterable[ObjectClause]) -> Alphabet:
    """The alphabet that tells apart all that the clauses tell apart. Names keep the order of declaration."""
    declared: dict[str, None] = {}
    names: dict[str, None] = {}
    tests: dict[Language, None] = {}
    for clause in clauses:
        others: list[tuple[Each | Some, dict[str, None]]] = []
        for each in clause.each:
            own = declared if each.declared else names
            if each.name is not None:  # nearly every part
                own[each.name] = None
            else:
                others.append((each, own))
        parts: list[Each | Some] = [*clause.some]
        for denied in clause.denied:
            parts += [*denied.each, *denied.some]
        for part in parts:
            if part.name is not None:
                names[part.name] = None
            else:
                others.append((part, names))
        for members in clause.excluded:
            names.update((name, None) for name, _ in members)
        for part, own in others:
            for test in part.keys:
                if isinstance(test, Keys):
                    own.update(dict.fromkeys(test.names))
                    tests.update(dict.fromkeys(pattern(source) for source in test.patterns))
                else:
                    tests.update(dict.fromkeys(test.languages))
    ordered = tuple({**declared, **names})
    if not tests:
        return Alphabet(ordered, (), (0,))
    return _classified(ordered, tuple(tests))


def _classified(names: tuple[str, ...], tests: tuple[Language, ...]) -> Alphabet:
    known = frozenset(names)
    extra: dict[str, None] = {}
    signatures = []
    for signature, words in _classes(tests):
        others = None if words is None else [word for word in words if word not in known]
        if others is None or len(others) > MAX_FINITE:
            signatures.append(signature)
        else:
            extra.update(dict.fromkeys(others))
    return Alphabet((*names, *extra), tests, tuple(signatures))


_Part = tuple[Language, str | None]
"""Of a class of keys: a language that is not empty, and a word of it if one is known."""


def _apart(a: Dfa, b: Dfa) -> bool:
    """Whether two automata part after a few characters, so that no word is in both."""
    if a.start is None or b.start is None:
        return True
    pairs = {(a.start, b.start): None}
    for here, there in (queue := list(pairs)):
        if a.accepting(here) and b.accepting(there):
            return False
        steps = b.step(there)
        for chars, target in a.step(here):
            for others, other in steps:
                if (target, other) not in pairs and chars & others:
                    pairs[target, other] = None
                    queue.append((target, other))
        if len(pairs) > _SOON:
            return False
    return True


def _some_word(language: Language) -> str | None:
    """A short word of a language; None if there is none, or none is found soon."""
    normal = language.normal()
    start = normal.dfa.start
    if start is None or normal.low or normal.dfa.near(start) > _SHORT:
        return None
    try:
        return normal.dfa.shortest_word(start)
    except BudgetError:
        return None


def _overlap(count: int) -> BudgetError:
    return BudgetError(
        f"{count} key patterns overlap in too many ways",
        keyword="patternProperties",
        remedy="anchor them with ^, so that a key matches few of them",
    )


@lru_cache(_CACHED)
def _classes(tests: tuple[Language, ...]) -> tuple[tuple[int, tuple[str, ...] | None], ...]:
    """The signatures that keys have, each with its keys if they are few. The names that clauses mention are not left
    out: of a class without bottom they are none.
    """
    work = 0

    def met(part: _Part, other: Language, likely: str | None) -> Iterator[_Part]:
        """What of a part is in another language, if anything is; `likely` may be a word of both."""
        nonlocal work
        language, known = part
        both = intersect(language, other)
        for word in (known, likely):
            if word is not None and language.contains(word) and other.contains(word):
                yield both, word
                return
        empty = both.is_empty
        work += both.dfa.built * (i + 1)
        if work > MAX_WORK:
            raise _overlap(len(tests))
        if not empty:
            yield both, None

    classes: list[tuple[int, list[_Part]]] = [(0, [(ANY, "")])]
    for i, test in enumerate(tests):
        # The tests before that share no word with this one, as far as that is seen at once.
        apart = sum(_apart(before.dfa, test.dfa) << j for j, before in enumerate(tests[:i]))
        likely = _some_word(test)
        others = complement(test)
        refined: list[tuple[int, list[_Part]]] = []
        for signature, parts in classes:
            inside = [] if signature & apart else [each for part in parts for each in met(part, test, likely)]
            outside = parts
            if inside:  # else none of them matches, and mostly so: what patterns match differs in its first characters
                outside = [each for part in parts for other in others for each in met(part, other, None)]
            refined += [(signature | 1 << i, inside)] if inside else []
            refined += [(signature, outside)] if outside else []
        classes = refined
        if len(classes) > MAX_SIGNATURES:
            raise _overlap(len(tests))
    out: list[tuple[int, tuple[str, ...] | None]] = []
    for signature, parts in classes:
        listed = [part.words(2 * MAX_FINITE) for part, _ in parts]
        few = None if None in listed else tuple(dict.fromkeys(chain.from_iterable(found or () for found in listed)))
        out.append((signature, few))
    return tuple(out)
