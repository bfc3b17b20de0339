"""Where a pre-tokenizer may cut a text, as an automaton over classes of characters.

A pre-tokenizer cuts a text into the leftmost matches of a regular expression, the first alternative first, as
backtracking finds them. The automaton follows that without going back: a place holds the threads of a match that is
under way, in their order (as Pike's machine has them), and those that were passed over where a cut was made before
them: if one of these matches after all, the cut was wrong. Whether to cut is the caller's guess at each character.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ..errors import UnsupportedError
from ..regular import nodes
from ..regular.charset import CharSet, partition
from ..regular.ecma import parse
from ..regular.unicode import property_set

GPT2: Final = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""What the tokenizers library cuts by where a byte-level pre-tokenizer has `use_regex`: the published one of GPT-2."""
_LAZY: Final = re.compile(r"(?<!\\)(?:[*+?]|\{[0-9,]+\})[+?]")
_SHORT: Final = re.compile(r"\\(.)", re.DOTALL)
_SPACES: Final = {"s": r"\p{White_Space}", "S": r"\P{White_Space}"}
_NUMERIC: Final = property_set("N")
MAX_PLACES: Final = 5_000

Int16s = npt.NDArray[np.int16]
Leaf = tuple[int, int]
"""(instruction, the classes that may come next, the end of a piece among them, as bits)."""


class Place(NamedTuple):
    """threads: of the match under way; passed: those that must not match; last: the kind of the last character."""

    threads: tuple[Leaf, ...]
    passed: frozenset[Leaf]
    last: int


class Cuts(NamedTuple):
    """What a pre-tokenizer does: `pattern` cuts each piece further.

    digits  "": pieces do not end at digits, "each": each digit is one, "runs": runs of digits are
    spaces  each space begins a piece
    """

    pattern: str | None = None
    digits: str = ""
    spaces: bool = False


class Splitter:
    """The automaton. Places are numbers; START is where a text begins, and with it a piece."""

    START: Final = 0

    def __init__(self, cuts: Cuts) -> None:
        """Raises UnsupportedError for a pattern that is not followed."""
        self._cuts = cuts
        self._code: list[tuple[Any, ...]] = []
        pattern = r"[\s\S]+" if cuts.pattern is None else cuts.pattern
        if _LAZY.search(pattern):
            raise unsupported(f"the pre-tokenizer's pattern {pattern!r} has lazy or possessive repetitions")
        tree = parse(_SHORT.sub(lambda match: _SPACES.get(match[1], match[0]), pattern))
        self._blocks = partition([*_sets(tree), _NUMERIC, CharSet.char(0x20), CharSet.of((0, 0x10FFFF))])
        self.classes = len(self._blocks)
        self._all = (2 << self.classes) - 1
        self._end = 1 << self.classes
        self._digit = self._bits(_NUMERIC) if cuts.digits else 0
        self._space = self._bits(CharSet.char(0x20)) if cuts.spaces else 0
        self._begin = self._closure([(self._compile(tree, self._emit("match")), self._all)])
        self._reaches: dict[tuple[int, int], tuple[int, ...]] = {}
        self._places: list[Place] = []
        self._known: dict[Place, int] = {}
        self._steps: list[dict[tuple[int, bool], int]] = []
        self._number(Place((), frozenset(), -1))
        self._explore()
        self.tables = np.full((2, len(self._places) + 1, self.classes + 1), -1, np.int16)
        """`step` as a table, int16 [without or with a cut, place, class or nothing]; -1: none, the last place."""
        for place, steps in enumerate(self._steps):
            for (kind, cut), target in steps.items():
                self.tables[int(cut), place, kind] = target
            self.tables[:, place, self.classes] = place

    def class_of(self, character: str) -> int:
        """The class of a character."""
        return next(number for number, block in enumerate(self._blocks) if character in block)

    def reach(self, low: int, high: int) -> tuple[int, ...]:
        """The classes of the characters from `low` to `high`."""
        found = self._reaches.get((low, high))
        if found is None:
            wanted = CharSet.of((low, high))
            found = tuple([number for number, block in enumerate(self._blocks) if block & wanted])
            self._reaches[low, high] = found
        return found

    def step(self, place: int, kind: int, cut: bool) -> int:
        """The place after a character of a class, with a cut before it or not; -1 if no text is cut like that."""
        return self._steps[place].get((kind, cut), -1)

    def run(self, place: int, texts: Sequence[npt.NDArray[np.uint8]], cut: bool) -> Int16s:
        """The places after texts, with a cut before each or not: int16 [n].

        texts: of each character's place in the texts, the classes there: of all texts, then of those that are as long,
        which are the first ones.
        """
        places = np.full(len(texts[0]), place, np.int16)
        for at, column in enumerate(texts):
            count = len(column)
            places[:count] = self.tables[int(cut and at == 0)][places[:count], column]
        return places

    def ends(self, place: int) -> bool:
        """Whether the text may end here, cut as it was."""
        return self._ends(self._places[place])

    # ---- parts

    def _ends(self, at: Place) -> bool:
        return (
            at.last < 0 or self._match(at.threads, self._end) >= 0
        ) and self._match(tuple(at.passed), self._end) < 0

    def _explore(self) -> None:
        """Makes all places, and keeps the steps to those from which a text can end."""
        before: list[list[int]] = [[]]
        at = 0
        while at < len(self._places):
            for kind in range(self.classes):
                for cut in (False, True):
                    after = self._follow(self._places[at], kind, cut)
                    if after is not None:
                        number = self._number(after)
                        self._steps[at][kind, cut] = number
                        if number == len(before):
                            before.append([])
                        before[number].append(at)
            at += 1
        alive = {number for number, place in enumerate(self._places) if self._ends(place)}
        waiting = list(alive)
        while waiting:
            for number in before[waiting.pop()]:
                if number not in alive:
                    alive.add(number)
                    waiting.append(number)
        for steps in self._steps:
            for key in [key for key, target in steps.items() if target not in alive]:
                del steps[key]
        if any((kind, True) not in self._steps[self.START] for kind in range(self.classes)):
            raise unsupported("the pre-tokenizer's pattern leaves characters outside its matches")

    def _number(self, place: Place) -> int:
        found = self._known.get(place)
        if found is None:
            found = self._known[place] = len(self._places)
            if found >= MAX_PLACES:
                raise unsupported("the pre-tokenizer's pattern is too large")
            self._places.append(place)
            self._steps.append({})
        return found

    def _follow(self, at: Place, kind: int, cut: bool) -> Place | None:
        bit = 1 << kind
        last = 1 if self._digit & bit else 0
        if at.last < 0:
            return self._fresh(bit, last) if cut else None
        if self._must_cut(at.last, bit):
            return self._fresh(bit, last) if cut and self._ends(at) else None
        if self._match(tuple(at.passed), bit) >= 0:
            return None
        place = self._match(at.threads, bit)
        if cut:
            if place < 0:
                return None
            passed = self._advance((*at.passed, *at.threads[:place]), bit)
            return self._fresh(bit, last, frozenset(passed))
        threads = self._advance(at.threads if place < 0 else at.threads[:place], bit)
        return Place(threads, frozenset(self._advance(tuple(at.passed), bit)), last) if threads else None

    def _fresh(self, bit: int, last: int, passed: frozenset[Leaf] = frozenset()) -> Place | None:
        threads = self._advance(self._begin, bit)
        return Place(threads, passed, last) if threads else None

    def _must_cut(self, last: int, bit: int) -> bool:
        if bit & self._space:
            return True
        digit = 1 if bit & self._digit else 0
        return bool(self._cuts.digits) and (digit != last or (self._cuts.digits == "each" and digit == 1))

    def _match(self, leaves: tuple[Leaf, ...], bit: int) -> int:
        """The first of the leaves that is a match before a character of this class, or -1."""
        for place, (at, allowed) in enumerate(leaves):
            if allowed & bit and self._code[at][0] == "match":
                return place
        return -1

    def _advance(self, leaves: Iterable[Leaf], bit: int) -> tuple[Leaf, ...]:
        targets = []
        for at, allowed in leaves:
            code = self._code[at]
            if code[0] == "char" and allowed & code[1] & bit:
                targets.append((code[2], self._all))
        return self._closure(targets)

    def _closure(self, starts: Iterable[Leaf]) -> tuple[Leaf, ...]:
        found: dict[Leaf, None] = {}
        seen = set()
        waiting = list(starts)[::-1]
        while waiting:
            leaf = waiting.pop()
            if leaf in seen or not leaf[1]:
                continue
            seen.add(leaf)
            at, allowed = leaf
            code = self._code[at]
            if code[0] == "fork":
                waiting += [(target, allowed) for target in reversed(code[1])]
            elif code[0] == "look":
                waiting.append((code[2], allowed & code[1]))
            else:
                found[leaf] = None
        return tuple(found)

    def _emit(self, *code: Any) -> int:
        self._code.append(code)
        return len(self._code) - 1

    def _compile(self, node: nodes.Node, after: int) -> int:
        """The instruction where `node` begins, `after` which `after` comes."""
        match node:
            case nodes.Chars():
                return self._emit("char", self._bits(node.set), after)
            case nodes.Sequence():
                for part in reversed(node.parts):
                    after = self._compile(part, after)
                return after
            case nodes.Choice():
                return self._emit("fork", [self._compile(part, after) for part in node.parts])
            case nodes.Repeat():
                if node.high is None:
                    loop = self._emit("fork", [])
                    self._code[loop][1].extend((self._compile(node.body, loop), after))
                    after = loop
                else:
                    for _ in range(node.high - node.low):
                        after = self._emit("fork", [self._compile(node.body, after), after])
                for _ in range(node.low):
                    after = self._compile(node.body, after)
                return after
            case nodes.Look() if node.ahead and isinstance(node.body, nodes.Chars):
                bits = self._bits(node.body.set)
                return self._emit("look", self._all & ~bits if node.negative else bits, after)
        raise unsupported("the pre-tokenizer's pattern has assertions about more than the next character")

    def _bits(self, chars: CharSet) -> int:
        return sum(1 << number for number, block in enumerate(self._blocks) if block & chars)


def read_cuts(pre_tokenizer: Any, *, spaced: bool) -> Cuts:
    """What the `pre_tokenizer` of a tokenizer.json cuts by. `spaced`: the text has no spaces when it comes there.

    Raises UnsupportedError for one of another kind.
    """
    cuts = Cuts()
    parts = [] if pre_tokenizer is None else pre_tokenizer.get("pretokenizers", [pre_tokenizer])
    for part in parts:
        kind = part.get("type")
        if kind == "Digits" and cuts.pattern is None and not cuts.digits:
            cuts = cuts._replace(digits="each" if part.get("individual_digits") else "runs")
        elif kind == "ByteLevel" and not part.get("add_prefix_space"):
            if part.get("use_regex", True):
                cuts = _with_pattern(cuts, GPT2)
        elif kind == "Split" and part.get("behavior") == "Isolated" and not part.get("invert"):
            if "Regex" not in part["pattern"]:
                raise unsupported("the pre-tokenizer cuts at a text")
            cuts = _with_pattern(cuts, part["pattern"]["Regex"])
        elif kind == "Split" and spaced and part["pattern"] == {"String": " "}:
            continue  # there are none left
        elif kind == "Metaspace" and len(parts) == 1:
            cuts = cuts._replace(spaces=bool(part.get("split", True)))
        else:
            raise unsupported(f"the pre-tokenizer {kind!r} with these options is not followed")
    return cuts


def _with_pattern(cuts: Cuts, pattern: str) -> Cuts:
    if cuts.pattern is not None:
        raise unsupported("the pre-tokenizer cuts by two patterns")
    return cuts._replace(pattern=pattern)


def _sets(node: nodes.Node) -> list[CharSet]:
    found = []
    waiting = [node]
    while waiting:
        current = waiting.pop()
        match current:
            case nodes.Chars():
                found.append(current.set)
            case nodes.Sequence() | nodes.Choice():
                waiting += current.parts
            case nodes.Repeat() | nodes.Look():
                waiting.append(current.body)
    return found


def unsupported(why: str) -> UnsupportedError:
    """The error for a tokenizer that is not followed."""
    return UnsupportedError(f"canonical tokens: {why}", keyword="canonical", remedy="leave the option canonical out")
