"""Ways out: bytes that finish a text from where it stands, known anew after every token at little cost.

Finding a shortest way takes from half a millisecond to many. But most tokens either go along the way that was known,
or stay in a lexeme from which that way is joined again, so that a byte or two tell that its rest still leads out.
"""

from __future__ import annotations

from functools import cached_property
from typing import Final

from ..automaton.recorded import array_of, is_other_item, makes_no_difference
from ..automaton.stepper import Configuration, ends
from ..automaton.tables import Tables
from ..automaton.turns import Breath
from .fewest import Fewest
from .steps import Stepper
from .vocabulary import Vocabulary


class Way:
    """A way out, immutable: `data` is accepted byte by byte from `places[0]`, and after it the text may end.

    `places`: the configurations before each byte of `data` and after the last, which mean something in `tables` only.
    """

    def __init__(
        self,
        data: bytes,
        places: tuple[Configuration, ...],
        vocabulary: Vocabulary,
        tables: Tables,
        spelled: tuple[Fewest, int] | None = None,
    ) -> None:
        self.data = data
        self.places = places
        self.tables = tables
        self._vocabulary = vocabulary
        self._spelled = spelled or (Fewest(data, vocabulary), 0)  # shared with the ways that this one ends
        self._index: tuple[dict[Configuration, int], int] | None = None  # of a way that ends as this one does
        self._assumed = False  # whether the places may be those of a text that differs in what was recorded

    @cached_property
    def tokens(self) -> tuple[int, ...] | None:
        """The fewest tokens that spell the way; None if no tokens do."""
        fewest, start = self._spelled
        return fewest.tokens(start)

    def fits(self, count: int) -> bool:
        """Whether `count` tokens suffice."""
        if not self.data:
            return count >= 0
        if len(self.data) <= count and self._vocabulary.single_bytes.issuperset(self.data):
            return True  # no need to know how few
        needed = self._needed()
        return needed is not None and needed <= count

    def _needed(self) -> int | None:
        fewest, start = self._spelled
        return fewest.count(start)

    def after(self, start: int) -> Way:
        """The way without its first `start` bytes."""
        return self._from(self.places[start], start) if start else self

    def _from(self, at: Configuration, start: int) -> Way:
        """The way by the bytes from `start` on, from `at`, after the first of which the places are this way's."""
        way = self._tail(start, (at, *self.places[start + 1 :]))
        if self._index is not None:
            way._index = self._index[0], self._index[1] + start
        return way

    def step(self) -> tuple[int, Way]:
        """The first token of the way and the rest, which takes one token less. Raises IndexError at its end."""
        if self.tokens is None:
            raise IndexError("no tokens spell this way out")
        first = self.tokens[0]
        return first, self.after(self._vocabulary.length(first, self.data))

    def find(self, at: Configuration) -> int | None:
        """After how many bytes of the way, at most, the text is at `at`; None if it never is."""
        if self._index is None:
            self._index = {place: i for i, place in enumerate(self.places)}, 0
        known, start = self._index
        found = known.get(at, -1) - start
        if found > 0:
            return found
        return 0 if at == self.places[0] else None  # the index may be of a way that was joined from elsewhere

    def __contains__(self, at: object) -> bool:
        return isinstance(at, Configuration) and (self.find(at) is not None or self._item(at) is not None)

    def _item(self, at: Configuration) -> int | None:
        """After how many bytes the way is where `at` is in an array, with other items so far, and leads out from `at`
        as well.
        """
        if array_of(self.tables, at) is None:
            return None
        for i, place in enumerate(self.places):
            if place.stack == at.stack and is_other_item(self.tables, place, at, self.data, i):
                return i
        return None

    def joined(self, at: Configuration, tables: Tables, stepper: Stepper) -> Way | None:
        """The rest of this way from another configuration, if one byte leads back onto it; None if none does."""
        known = self.find(at)
        if known is not None:
            return self.after(known)
        if (begun := self._item(at)) is not None:
            return self._through([at], begun, begun, stepper)
        tried: dict[int, Configuration | None] = {}
        for i, byte in enumerate(self.data):
            if byte not in tried:
                tried[byte] = stepper.run(at, _BYTES[byte])
            following = tried[byte]
            if following is None:
                continue
            if following[:3] == self.places[i + 1][:3] and following.stack == self.places[i + 1].stack:
                way = self._rest(at, i, tables, stepper)
                if way is not None:
                    return way
            elif is_other_item(tables, self.places[i + 1], following, self.data, i + 1):
                return self._through([at, following], i, i + 1, stepper)
        return self._rest(at, 0, tables, stepper, exact=True) if self._assumed else None

    def _rest(
        self, at: Configuration, start: int, tables: Tables, stepper: Stepper, *, exact: bool = False
    ) -> Way | None:
        """The way by the bytes from `start` on, from another configuration; recorded text may forbid it.

        `exact`: with the places where that text leads, not those of the text that the way was found for.
        """
        places = [at]
        for i in range(start, len(self.data)):
            following = stepper.run(places[-1], _BYTES[self.data[i]])
            if following is None:
                return None
            if following == self.places[i + 1]:
                if i == start:
                    return self._from(at, start)
                return self._tail(start, (*places, *self.places[i + 1 :]))
            if not exact and i < start + _NEAR:
                place = self.places[i + 1]
                alike = following[:3] == place[:3] and following.stack == place.stack
                if alike and makes_no_difference(tables, place, following, self.data[i + 1 :]):
                    way = self._tail(start, (*places, *self.places[i + 1 :]))
                    way._assumed = True
                    return way
                if is_other_item(tables, place, following, self.data, i + 1):
                    return self._through([*places, following], start, i + 1, stepper)
            places.append(following)
        return self._tail(start, tuple(places)) if ends(tables, places[-1]) else None

    def _through(self, places: list[Configuration], start: int, here: int, stepper: Stepper) -> Way | None:
        """The way by the bytes from `start` on, through `places`, of which the last is the place `here` with other
        items so far: to the end of the next item as it is now, from there as it was.
        """
        first = places[-1]
        while here < len(self.data):
            following = stepper.run(places[-1], _BYTES[self.data[here]])
            if following is None:
                return None
            places.append(following)
            here += 1
            if following.stack == first.stack and array_of(self.tables, following) is not None:
                break
        way = self._tail(start, (*places, *self.places[here + 1 :]))
        way._assumed = True
        return way

    def _tail(self, start: int, places: tuple[Configuration, ...]) -> Way:
        """The way by the bytes from `start` on, through other places."""
        fewest, before = self._spelled
        way = Way(self.data[start:], places, self._vocabulary, self.tables, (fewest, before + start))
        way._assumed = self._assumed
        return way

    def rejoined(self, at: Configuration, data: bytes, stepper: Stepper) -> Way | None:
        """By `data` from `at` onto this way, and on; None where that does not lead onto it."""
        places = [at]
        for byte in data:
            following = stepper.run(places[-1], _BYTES[byte])
            if following is None:
                return None
            places.append(following)
        known = self.find(places[-1])
        if known is None:
            return self._spliced(data, places, stepper)
        return Way(data + self.data[known:], (*places, *self.places[known + 1 :]), self._vocabulary, self.tables)

    def _spliced(self, data: bytes, places: list[Configuration], stepper: Stepper) -> Way | None:
        """By `data`, through `places`, to where the way is in an array, and on."""
        begun = self._item(places[-1])
        rest = None if begun is None else self._through(places[-1:], begun, begun, stepper)
        if rest is None:
            return None
        way = Way(data + rest.data, (*places[:-1], *rest.places), self._vocabulary, self.tables)
        way._assumed = True
        return way


def trace(at: Configuration, data: bytes, tables: Tables, stepper: Stepper, vocabulary: Vocabulary) -> Way | None:
    """The way out by `data`; None if it does not lead to where the text may end."""
    places = [at]
    breath = Breath(tables.pauses)
    for byte in data:
        following = stepper.run(places[-1], _BYTES[byte])
        if following is None:
            return None
        places.append(following)
        breath()
    return Way(data, tuple(places), vocabulary, tables) if ends(tables, places[-1]) else None


_NEAR: Final = 64
"""Bytes after which a way that has left another is not compared with it any more."""
_BYTES: Final = tuple(bytes((byte,)) for byte in range(256))
