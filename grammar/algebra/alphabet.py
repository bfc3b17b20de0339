"""The keys of objects as symbols: every key that some clause names, and classes of all other keys.

Clauses over the same object share one alphabet. Keys that no clause names fall into classes by the patterns they match
(a *signature*: bit i says "matches test i"). A class of few keys is turned into names, so that every class that is left
is a well without bottom: a key of it can always be found that was not used yet.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ..errors import BudgetError
from ..regular import ANY, Dfa, Language, complement, intersect, pattern, words
from ..schema.expr import Keys
from .clauses import KeySet, Named, ObjectClause

MAX_FINITE = 1024
MAX_SIGNATURES = 256


@dataclass(frozen=True, slots=True)
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

    def members(self, keys: KeySet) -> int:
        """The symbols in a key set, as bits."""
        mask = (1 << self.size) - 1
        for test in keys:
            inside = 0
            bits = self._bits(test)
            names = frozenset(test.names) if isinstance(test, Keys) else frozenset()
            for i, name in enumerate(self.names):
                if name in names or any(self.tests[j].contains(name) for j in bits):
                    inside |= 1 << i
            for i, signature in enumerate(self.signatures, len(self.names)):
                if any(signature >> j & 1 for j in bits):
                    inside |= 1 << i
            mask &= ~inside if test.negated else inside
        return mask

    def _bits(self, test: Keys | Named) -> list[int]:
        wanted = [pattern(source) for source in test.patterns] if isinstance(test, Keys) else list(test.languages)
        return [self.tests.index(language) for language in wanted]


def alphabet(clauses: Iterable[ObjectClause]) -> Alphabet:
    """The alphabet that tells apart all that the clauses tell apart. Names keep the order of declaration."""
    declared: dict[str, None] = {}
    names: dict[str, None] = {}
    tests: dict[Language, None] = {}
    for clause in clauses:
        sets = [(each.keys, each.declared) for each in clause.each] + [(some.keys, False) for some in clause.some]
        for keys, is_declared in sets:
            for test in keys:
                if isinstance(test, Keys):
                    (declared if is_declared else names).update(dict.fromkeys(test.names))
                    tests.update(dict.fromkeys(pattern(source) for source in test.patterns))
                else:
                    tests.update(dict.fromkeys(test.languages))
    ordered = tuple({**declared, **names})
    if not tests:
        return Alphabet(ordered, (), (0,))
    return _classified(ordered, tuple(tests))


def _classified(names: tuple[str, ...], tests: tuple[Language, ...]) -> Alphabet:
    start = complement(words(names)) if names else (ANY,)
    classes: list[tuple[int, list[Language]]] = [(0, list(start))]
    for i, test in enumerate(tests):
        refined: list[tuple[int, list[Language]]] = []
        others = complement(test)
        for signature, parts in classes:
            inside = [met for part in parts if not (met := intersect(part, test)).is_empty]
            outside = parts
            if inside:  # else none of them matches, and mostly so: what patterns match differs in its first characters
                outside = [met for part in parts for other in others if not (met := intersect(part, other)).is_empty]
            refined += [(signature | 1 << i, inside)] if inside else []
            refined += [(signature, outside)] if outside else []
        classes = refined
        if len(classes) > MAX_SIGNATURES:
            raise BudgetError(
                f"{len(tests)} key patterns overlap in more than {MAX_SIGNATURES} ways", keyword="patternProperties"
            )
    extra: dict[str, None] = {}
    signatures = []
    for signature, parts in classes:
        listed = [part.words(MAX_FINITE) for part in parts]
        if all(found is not None for found in listed):
            extra.update(dict.fromkeys(word for found in listed for word in found or ()))
        else:
            signatures.append(signature)
    return Alphabet((*names, *extra), tests, tuple(signatures))
