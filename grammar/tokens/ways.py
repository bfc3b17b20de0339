"""Ways out: bytes that finish a text from where it stands, known anew after every token at little cost.

Finding a shortest way takes from half a millisecond to many. But most tokens either go along the way that was known,
or stay in a lexeme from which that way is joined again, so that a byte or two tell that its rest still leads out.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

from ..automaton.stepper import Configuration, ends
from ..automaton.tables import Tables
from .steps import Stepper
from .vocabulary import Vocabulary


class Way:
    """A way out, immutable: `data` is accepted byte by byte from `places[0]`, and after it the text may end.

    `places`: the configurations before each byte of `data` and after the last.
    """

    def __init__(self, data: bytes, places: tuple[Configuration, ...], vocabulary: Vocabulary) -> None:
        self.data = data
        self.places = places
        self._vocabulary = vocabulary

    @cached_property
    def tokens(self) -> tuple[int, ...] | None:
        """The fewest tokens that spell the way; None if no tokens do."""
        found = self._vocabulary.tokenize(self.data)
        return None if found is None else tuple(found)

    def fits(self, count: int) -> bool:
        """Whether `count` tokens suffice."""
        if not self.data:
            return count >= 0
        if len(self.data) <= count and self._vocabulary.single_bytes.issuperset(self.data):
            return True  # no need to know how few
        return self.tokens is not None and len(self.tokens) <= count

    def after(self, start: int) -> Way:
        """The way without its first `start` bytes."""
        return Way(self.data[start:], self.places[start:], self._vocabulary) if start else self

    def step(self) -> tuple[int, Way]:
        """The first token of the way and the rest, which takes one token less. Raises IndexError at its end."""
        if self.tokens is None:
            raise IndexError("no tokens spell this way out")
        first = self.tokens[0]
        data = self._vocabulary.tokens[first]
        assert data is not None
        return first, self.after(len(data))

    @cached_property
    def _places(self) -> dict[Configuration, int]:
        return {place: i for i, place in enumerate(self.places)}

    def joined(self, at: Configuration, tables: Tables, stepper: Stepper) -> Way | None:
        """The rest of this way from another configuration, if one byte leads back onto it; None if none does."""
        known = self._places.get(at)
        if known is not None:
            return self.after(known)
        tried: dict[int, Configuration | None] = {}
        for i, byte in enumerate(self.data):
            if byte not in tried:
                tried[byte] = stepper.run(at, _BYTES[byte])
            following = tried[byte]
            if following is None:
                continue
            place = self.places[i + 1]
            if following == place:
                return Way(self.data[i:], (at, *self.places[i + 1 :]), self._vocabulary)
            if following[:3] == place[:3]:
                # The same but for recorded text, which may decide: all of the rest is tried.
                way = trace(at, self.data[i:], tables, stepper, self._vocabulary)
                if way is not None:
                    return way
        return None


def trace(at: Configuration, data: bytes, tables: Tables, stepper: Stepper, vocabulary: Vocabulary) -> Way | None:
    """The way out by `data`; None if it does not lead to where the text may end."""
    places = [at]
    for byte in data:
        following = stepper.run(places[-1], _BYTES[byte])
        if following is None:
            return None
        places.append(following)
    return Way(data, tuple(places), vocabulary) if ends(tables, places[-1]) else None


_BYTES: Final = tuple(bytes((byte,)) for byte in range(256))
