"""Canonical tokens: of the ways to spell a text in tokens the one that the tokenizer itself takes.

A model was trained on what its tokenizer makes of texts, so other spellings of the same text are improbable to it, for
no reason of the text's. `Canonical` follows a sequence of tokens and says which ones a tokenizer could have given next:
those after which some text goes on such that the tokenizer, given the whole text, gives just these tokens. The
tokenizer is a BPE with ranked merges, over bytes with a pre-tokenizer before it, or over characters with byte fallback.

Normalisers are not followed: what is split is the text as the tokens spell it. Neither is a space that a tokenizer puts
before a text: what is generated stands in the middle of one.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from .canonical_merges import Merges
from .canonical_split import Splitter, read_cuts, unsupported
from .reading import BYTE_TOKEN, SPACE, uses
from .vocabulary import tokenizer_text

if TYPE_CHECKING:
    from .vocabulary import Vocabulary

Int32s = npt.NDArray[np.int32]
FREE, INSIDE, CUT = 0, 1, 2
"""Whether a piece of the pre-tokenizer may end after a token, may not, or must."""
_OFF: Final = -1
_ROWS: Final = 512
_STATES: Final = 50_000


class Guess(NamedTuple):
    """One way in which the text may be cut so far.

    place   of the splitter
    mode    FREE, INSIDE or CUT
    whole   where the piece so far stands among the tokens that are taken whole (see `_Wholes`), or _OFF
    """

    place: int
    mode: int
    whole: int


class Spelled:
    """A sequence of tokens as far as it matters for what may follow.

    last     the last token, -1 at the beginning
    guesses  how the text may be cut
    open     bytes of a character that is not complete
    ends     whether the text may end here
    """

    __slots__ = ("ends", "guesses", "last", "moves", "number", "open")

    def __init__(self, number: int, last: int, guesses: frozenset[Guess], open_: bytes, ends: bool) -> None:
        self.number = number
        self.last = last
        self.guesses = guesses
        self.open = open_
        self.ends = ends
        self.moves: dict[int, Spelled | None] = {}


class Canonical:
    """What a tokenizer would give next. Safe for threads."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        """Raises UnsupportedError for a tokenizer of another kind, or a vocabulary that does not know its own."""
        if vocabulary.tokenizer is None:
            raise unsupported("the vocabulary was made without its tokenizer")
        description = json.loads(tokenizer_text(vocabulary.tokenizer)[0])
        model = description["model"]
        if model.get("type", "BPE") != "BPE" or model.get("dropout"):
            raise unsupported(f"the tokenizer is a {model.get('type')}, not a BPE whose merges are always the same")
        if model.get("continuing_subword_prefix") or model.get("end_of_word_suffix"):
            raise unsupported("the tokenizer marks the parts of words")
        if max(model["vocab"].values(), default=0) >= vocabulary.size:
            raise unsupported("the tokenizer has more tokens than the vocabulary")
        self._lock = threading.RLock()
        self._vocabulary = vocabulary
        self._tokens, self._size, self.words = vocabulary.tokens, vocabulary.size, vocabulary.words
        self._fallback: frozenset[str] | None = None  # over characters: those that need no bytes
        byte_level = uses(description, "ByteLevel")
        self._split = Splitter(read_cuts(description.get("pre_tokenizer"), spaced=not byte_level))
        merges = self._read(model, byte_level)
        self._beside: OrderedDict[int, Int32s] = OrderedDict()
        self._merges = merges
        self._wholes = _Wholes()
        if model.get("ignore_merges"):
            for token in np.flatnonzero(~merges.made).tolist():
                if token in self._pieces and (data := self._tokens[token]):
                    self._wholes.add(data, token)
        first = merges.made.copy()
        first[list(self._wholes.tokens)] = True
        self._first = self._packed(first)
        self._special = self._packed(np.array([token is None for token in self._tokens]))
        self._classes: dict[str, int] = {}
        self._keys: dict[tuple[str, bytes], int] = {}
        self._continuing: list[int] = []
        self._key_of = np.full(self._size, -1, np.int64)
        for token, data in enumerate(self._tokens):
            if data and first[token]:
                self._add_key(token, data)
        self._sort_keys()
        self._alive: dict[tuple[int, bool], Int32s] = {}
        self._rows: OrderedDict[int, Int32s] = OrderedDict()
        self._states: dict[tuple[int, frozenset[Guess], bytes], Spelled] = {}
        self._made = 0
        self.start = self._state(-1, frozenset((Guess(Splitter.START, CUT, _Wholes.ROOT),)), b"")
        """Where a text begins, or goes on after a special token."""

    def after(self, at: Spelled, token: int) -> Spelled | None:
        """After one more token; None if the tokenizer would not give it there, whatever follows."""
        try:
            return at.moves[token]
        except KeyError:
            with self._lock:
                found = at.moves[token] = self._after(at, token)
                return found

    def anew(self, token: int) -> Spelled:
        """After a token that the tokenizer would not have given: as if the text began with it, or after it."""
        return self.after(self.start, token) or self.start

    def row(self, at: Spelled) -> Int32s:
        """The tokens that `after` takes, int32 [words]; special tokens where the text may end. Not to be changed."""
        with self._lock:
            found = self._rows.get(at.number)
            if found is None:
                found = self._rows[at.number] = self._row(at)
                if len(self._rows) > _ROWS:
                    self._rows.popitem(last=False)
            return found

    def spell(self, at: Spelled, data: bytes) -> list[int] | None:
        """The tokens that spell `data` to its end, where the text may end; None if there are none from here on."""
        before: list[dict[Spelled, tuple[Spelled, int, int]]] = [{} for _ in range(len(data) + 1)]
        before[0][at] = (at, -1, -1)
        for place in range(len(data)):
            for state in before[place]:
                for token, end in self._vocabulary.beginning(data, place):
                    following = self.after(state, token)
                    if following is not None:
                        before[end].setdefault(following, (state, token, place))
        last = next((state for state in before[-1] if state.ends), None)
        if last is None:
            return None
        found: list[int] = []
        place = len(data)
        while place:
            last, token, place = before[place][last]
            found.append(token)
        return found[::-1]

    # ---- parts

    def _read(self, model: Mapping[str, Any], byte_level: bool) -> Merges:
        vocabulary: dict[str, int] = model["vocab"]
        self._pieces = frozenset(vocabulary.values())
        symbols = [number for piece, number in vocabulary.items() if len(piece) == 1]
        if not byte_level:
            letters = frozenset(piece.replace(SPACE, " ") for piece in vocabulary if len(piece) == 1)
            self._fallback = letters
            for piece, number in vocabulary.items():
                match = BYTE_TOKEN.fullmatch(piece)
                if match and model.get("byte_fallback") and chr(int(match[1], 16)) not in letters - _BEYOND_ASCII:
                    symbols.append(number)
        merges = []
        for merge in model["merges"]:
            left, right = merge.split(" ", 1) if isinstance(merge, str) else merge
            merges.append((vocabulary[left], vocabulary[right], vocabulary[left + right]))
        return Merges(self._size, [number for number in symbols if number < self._size], merges)

    def _packed(self, chosen: npt.NDArray[np.bool_]) -> Int32s:
        row = np.zeros(self.words * 4, np.uint8)
        packed = np.packbits(chosen, bitorder="little")
        row[: len(packed)] = packed
        return row.view(np.int32)

    def _add_key(self, token: int, data: bytes) -> None:
        split = _characters(data)
        if split is None:
            if 0x80 <= data[0] < 0xC0:
                self._continuing.append(token)
            return
        text, partial = split
        if self._fallback is not None and partial and not self._needs_bytes(partial):
            return
        key = (self._classed(text), partial)
        self._key_of[token] = self._keys.setdefault(key, len(self._keys))

    def _sort_keys(self) -> None:
        """Puts the longest texts first, and makes columns of their classes for `Splitter.run`."""
        keys = sorted(self._keys, key=lambda key: len(key[0]), reverse=True)
        place = np.empty(len(keys) + 1, np.int64)
        for number, key in enumerate(keys):
            place[self._keys[key]] = number
        place[-1] = len(keys)
        self._key_of = place[self._key_of]
        self._keys = {key: number for number, key in enumerate(keys)}
        self._partial = [(number, partial, not text) for number, (text, partial) in enumerate(keys) if partial]
        # A key without text stays where it is: it has a class that leads nowhere else.
        texts = [text or chr(self._split.classes) for text, _ in keys]
        self._columns = []
        for at in range(len(texts[0]) if texts else 0):
            self._columns.append(np.array([ord(text[at]) for text in texts if len(text) > at], np.uint8))

    def _classed(self, text: str) -> str:
        known = self._classes
        for character in text:
            if character not in known:
                known[character] = self._split.class_of(character)
        return "".join([chr(known[character]) for character in text])

    def _needs_bytes(self, partial: bytes) -> bool:
        """Whether some character that begins like this is spelled in bytes, since no token is it."""
        assert self._fallback is not None
        low, high = _range(partial)
        return sum(low <= ord(character) <= high for character in self._fallback) < high - low + 1

    def _run(self, place: int, classes: str, partial: bytes, cut: bool) -> int:
        """The place after characters of these classes, cut before the first if at all, and before a partial one; -1."""
        for kind in classes:
            place = self._split.step(place, ord(kind), cut)
            if place < 0:
                return -1
            cut = False
        if partial and not any(self._split.step(place, kind, cut) >= 0 for kind in self._split.reach(*_range(partial))):
            return -1
        return place

    def _after(self, at: Spelled, token: int) -> Spelled | None:
        if not 0 <= token < self._size:
            return None
        data = self._tokens[token]
        if data is None:
            return self.start if at.ends else None
        split = _characters(at.open + data)
        whole = token in self._wholes.tokens
        if split is None or not (whole or self._merges.made[token]):
            return None
        if self._fallback is not None and not self._spelled_in_bytes(at.open, split):
            return None
        text, partial = split
        classes = self._classed(text)
        beside = at.last >= 0 and self._merges.stay(at.last, token)
        guesses: set[Guess] = set()
        for place, mode, begun in at.guesses:
            if mode != INSIDE and not (at.open and not beside):
                self._guess(guesses, place, classes, partial, True, token, data, _Wholes.ROOT if not at.open else begun)
            if mode != CUT and beside:
                self._guess(guesses, place, classes, partial, False, token, data, begun)
        return self._state(token, frozenset(guesses), partial) if guesses else None

    def _guess(
        self, guesses: set[Guess], place: int, classes: str, partial: bytes, cut: bool, token: int, data: bytes,
        begun: int,
    ) -> None:
        after = self._run(place, classes, partial, cut)
        if after < 0:
            return
        if token in self._wholes.tokens:
            if begun == _Wholes.ROOT and cut and not partial:
                guesses.add(Guess(after, CUT, _OFF))
            return
        whole = self._wholes.walk(begun, data)
        if partial:
            guesses.add(Guess(after, CUT if cut and not classes else INSIDE, whole))
        else:
            guesses.add(Guess(after, INSIDE if whole in self._wholes.ends else FREE, whole))

    def _spelled_in_bytes(self, before: bytes, split: tuple[str, bytes]) -> bool:
        """Whether a character is in bytes only where it has to be."""
        assert self._fallback is not None
        text, partial = split
        if partial and not self._needs_bytes(partial):
            return False
        return not before or not text or text[0] not in self._fallback

    def _state(self, last: int, guesses: frozenset[Guess], open_: bytes) -> Spelled:
        key = (last, guesses, open_)
        found = self._states.get(key)
        if found is None:
            if len(self._states) >= _STATES:
                self._states.clear()
            self._made += 1
            ends = not open_ and any(mode != INSIDE and self._split.ends(place) for place, mode, _ in guesses)
            found = self._states[key] = Spelled(self._made, last, guesses, open_, ends)
        return found

    def _row_beside(self, token: int) -> Int32s:
        found = self._beside.get(token)
        if found is None:
            found = self._beside[token] = self._packed(self._merges.beside(token))
            if len(self._beside) > _ROWS:
                self._beside.popitem(last=False)
        return found

    def _row(self, at: Spelled) -> Int32s:
        row = np.zeros(self.words, np.int32)
        if at.open:
            taken = np.zeros(self._size, np.bool_)
            taken[[token for token in self._continuing if self.after(at, token) is not None]] = True
            return self._packed(taken)
        for place, mode, _ in at.guesses:
            if mode != INSIDE:
                row |= self._living(place, True) & self._first
            if mode != CUT:
                row |= self._living(place, False) & self._row_beside(at.last)
        return row | self._special if at.ends else row

    def _living(self, place: int, cut: bool) -> Int32s:
        """The tokens whose text may go on from a place, with a cut before it or none."""
        found = self._alive.get((place, cut))
        if found is None:
            places = self._split.run(place, self._columns, cut)
            alive = np.append(places >= 0, False)
            for number, partial, empty in self._partial:
                # A character that is not complete is cut from what is before it, if at all, where the token begins.
                kinds = list(self._split.reach(*_range(partial)))
                alive[number] &= (self._split.tables[int(cut and empty)][places[number], kinds] >= 0).any()
            found = self._alive[place, cut] = self._packed(alive[self._key_of])
        return found


class _Wholes:
    """The tokens that no merges make: a tokenizer with `ignore_merges` takes them where a piece is just one of them."""

    ROOT: Final = 0

    def __init__(self) -> None:
        self.tokens: set[int] = set()
        self.ends: set[int] = set()
        self._nodes: list[dict[int, int]] = [{}]

    def add(self, data: bytes, token: int) -> None:
        self.tokens.add(token)
        node = self.ROOT
        for byte in data:
            following = self._nodes[node].get(byte)
            if following is None:
                following = self._nodes[node][byte] = len(self._nodes)
                self._nodes.append({})
            node = following
        self.ends.add(node)

    def walk(self, node: int, data: bytes) -> int:
        """Where a piece stands that goes on with `data`; _OFF where no token begins like that."""
        for byte in data:
            if node == _OFF:
                break
            node = self._nodes[node].get(byte, _OFF)
        return node


_BEYOND_ASCII: Final = frozenset(map(chr, range(0x80, 0x100)))


def _characters(data: bytes) -> tuple[str, bytes] | None:
    """The characters of UTF-8 and what is left of one that is not complete; None if it is no UTF-8."""
    try:
        return data.decode(), b""
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return None
        return data[: error.start].decode(), data[error.start :]


def _range(partial: bytes) -> tuple[int, int]:
    """The first and the last character that begin with these bytes of UTF-8."""
    length = 2 if partial[0] < 0xE0 else 3 if partial[0] < 0xF0 else 4
    low = partial[0] & (0xFF >> length + 1)
    for byte in partial[1:]:
        low = low << 6 | byte & 0x3F
    rest = 6 * (length - len(partial))
    least = {2: 0x80, 3: 0x800, 4: 0x10000}[length]
    return max(low << rest, least), min((low + 1 << rest) - 1, 0x10FFFF)
