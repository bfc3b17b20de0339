"""Reads ECMA-262 patterns (section "RegExp (Regular Expression) Objects") into syntax trees.

Every pattern that is valid with the `u` flag is read as that flag says: `\\d` and `\\w` are ASCII, `\\u{...}`,
surrogate pairs as one character, `\\p{...}`. Many patterns in the wild are not valid that way (`\\-`, `\\_`, a lone
`]` or `{`); those constructs are read as Annex B does, over code points. `strict=True` refuses them instead.
There are no flags: `.` excludes line ends, `^` and `$` are the ends of the text, case matters except inside `(?i:...)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce
from operator import or_

from ..courtesy import COURTESY
from ..errors import BudgetError, PatternError
from . import nodes
from .charset import ALL, DIGIT, LINE_END, SPACE, WORD, CharSet
from .nodes import Assert, Chars, Look, Node
from .unicode import UnknownPropertyError, fold_case, property_set

_MAX_LENGTH = 125_000
_MAX_HEIGHT = 120
_SYNTAX = frozenset("^$\\.*+?()[]{}|/")
_CLASSES = {"d": DIGIT, "D": ~DIGIT, "w": WORD, "W": ~WORD, "s": SPACE, "S": ~SPACE}
_CONTROLS = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11}
_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_DIGITS = frozenset("0123456789")
_HEX = frozenset("0123456789abcdefABCDEF")
_ASSERTIONS = {"^": nodes.AT_START, "$": nodes.AT_END, "b": nodes.AT_BOUNDARY, "B": nodes.NOT_AT_BOUNDARY}
_LOOKS = {"?=": (True, False), "?!": (True, True), "?<=": (False, False), "?<!": (False, True)}


def parse(
    source: str, *, strict: bool = False, references: bool = False, sets: Mapping[str, CharSet] | None = None
) -> Node:
    """The syntax tree of `source`. `references=True` lets back-references pass, to check syntax alone; `sets` are more
    names for `\\p{...}`, for patterns of this product's own.

    Raises PatternError where `source` is malformed, or holds a back-reference; BudgetError where it is too long or
    nests too deep (groups that hold nothing but a group do not count).
    """
    if len(source) > _MAX_LENGTH:
        raise BudgetError(f"a pattern of {len(source)} characters exceeds the limit of {_MAX_LENGTH}")
    return _Parser(source, strict, references, sets or {}).parse()


class _Group:
    """An open group: the alternatives read so far and the one being read."""

    def __init__(self, position: int, look: tuple[bool, bool] | None, dot: CharSet, folding: bool) -> None:
        self.position = position
        self.look = look
        self.outer = (dot, folding)
        self.alternatives: list[Node] = []
        self.items: list[Node] = []

    def close(self) -> Node:
        self.alternatives.append(nodes.sequence(self.items))
        body = nodes.choice(self.alternatives)
        return body if self.look is None else Look(*self.look, body)


class _Parser:
    def __init__(self, source: str, strict: bool, references: bool, sets: Mapping[str, CharSet]) -> None:
        self.source = source
        self.strict = strict
        self.references = references
        self.sets = sets
        self.at = 0
        self.dot = ~LINE_END
        self.folding = False
        self.groups, self.names = _capture_groups(source)

    def fail(self, message: str, position: int | None = None) -> PatternError:
        return PatternError(message, pattern=self.source, position=self.at if position is None else position)

    def parse(self) -> Node:
        group = _Group(0, None, self.dot, self.folding)
        stack: list[_Group] = []
        source, end = self.source, len(self.source)
        while self.at < end:
            start = self.at
            char = source[start]
            self.at += 1
            COURTESY.pause()
            if char == "|":
                group.alternatives.append(nodes.sequence(group.items))
                group.items = []
                continue
            if char == "(":
                stack.append(group)
                group = self.open_group(start)
                continue
            if char == ")":
                if not stack:
                    raise self.fail("unmatched ')'", start)
                node = group.close()
                self.limit(node)
                self.dot, self.folding = group.outer
                behind = group.look is not None and not group.look[0]
                ahead = group.look is not None and group.look[0]
                group = stack.pop()
                if behind or (ahead and self.strict):
                    self.refuse_quantifier()
            elif char in "^$":
                node = Assert(_ASSERTIONS[char])
                self.refuse_quantifier()
            elif char == "\\" and source[self.at : self.at + 1] in ("b", "B"):
                node = Assert(_ASSERTIONS[source[self.at]])
                self.at += 1
                self.refuse_quantifier()
            else:
                node = self.atom(char, start)
            group.items.append(self.quantified(node))
        if stack:
            raise self.fail("unclosed group", group.position)
        return self.limit(group.close())

    def limit(self, node: Node) -> Node:
        """All that is done with trees is recursive."""
        if node.height > _MAX_HEIGHT:
            raise BudgetError(f"the pattern {self.source[:60]!r} nests deeper than {_MAX_HEIGHT} levels")
        return node

    def open_group(self, start: int) -> _Group:
        source = self.source
        group = _Group(start, None, self.dot, self.folding)
        if not source.startswith("?", self.at):
            return group
        for opening, look in _LOOKS.items():
            if source.startswith(opening, self.at):
                self.at += len(opening)
                group.look = look
                return group
        if source.startswith("?<", self.at):
            self.group_name(start)
            return group
        colon = source.find(":", self.at)
        flags = source[self.at + 1 : colon] if colon > 0 else "?"
        if not set(flags) <= set("ims-") or flags.count("-") > 1 or flags == "-":
            raise self.fail("unknown kind of group '(?...'", start)
        added, _, removed = flags.partition("-")
        if len(set(added + removed)) != len(added + removed):
            raise self.fail("repeated flag", start)
        if "m" in flags:
            raise self.fail("the flag 'm' is not supported", start)
        if "s" in flags:
            self.dot = ALL if "s" in added else ~LINE_END
        if "i" in flags:
            self.folding = "i" in added
        self.at = colon + 1
        return group

    def group_name(self, start: int) -> None:
        end = self.source.find(">", self.at)
        name = self.source[self.at + 2 : end] if end > 0 else ""
        plain = name.replace("$", "_")
        if not plain.isidentifier():
            raise self.fail("a group name must be an identifier", start)
        self.at = end + 1

    def refuse_quantifier(self) -> None:
        if self.source[self.at : self.at + 1] in ("*", "+", "?") or self.braces() is not None:
            raise self.fail("nothing to repeat")

    def quantified(self, node: Node) -> Node:
        start = self.at
        char = self.source[start : start + 1]
        if char == "*":
            low, high = 0, None
        elif char == "+":
            low, high = 1, None
        elif char == "?":
            low, high = 0, 1
        elif char == "{" and (bounds := self.braces()) is not None:
            low, high, self.at = bounds
            self.at -= 1
        else:
            return node
        self.at += 1
        if self.source.startswith("?", self.at):
            self.at += 1
        self.refuse_quantifier()
        try:
            return nodes.repeat(node, low, high)
        except ValueError:
            raise self.fail("the bounds of the quantifier are out of order", start) from None

    def braces(self) -> tuple[int, int | None, int] | None:
        """`{n}`, `{n,}` or `{n,m}` here: its bounds and where it ends."""
        if not self.source.startswith("{", self.at):
            return None
        end = self.source.find("}", self.at, self.at + 40)
        low, comma, high = self.source[self.at + 1 : max(end, 0)].partition(",")
        if not low or not _DIGITS.issuperset(low) or not _DIGITS.issuperset(high):
            return None
        return int(low), (int(low) if not comma else int(high) if high else None), end + 1

    def atom(self, char: str, start: int) -> Node:
        if char == "[":
            return Chars(self.folded(self.character_class(start)))
        if char == ".":
            return Chars(self.dot)
        if char == "\\":
            return Chars(self.folded(self.escape(start, in_class=False)))
        if char in "*+?":
            raise self.fail("nothing to repeat", start)
        if char == "{":
            self.at = start
            if self.strict or self.braces() is not None:
                raise self.fail("nothing to repeat" if not self.strict else "lone '{'", start)
            self.at = start + 1
        elif char in "]}" and self.strict:
            raise self.fail(f"lone {char!r}", start)
        return Chars(self.folded(CharSet.char(ord(char))))

    def folded(self, found: CharSet) -> CharSet:
        return fold_case(found) if self.folding else found

    def character_class(self, start: int) -> CharSet:
        negated = self.source.startswith("^", self.at)
        self.at += negated
        ranges: list[tuple[int, int]] = []
        sets: list[CharSet] = []
        while True:
            if self.at >= len(self.source):
                raise self.fail("unclosed '['", start)
            if self.source[self.at] == "]":
                self.at += 1
                found = reduce(or_, sets, CharSet.of(*ranges))
                return ~found if negated else found
            item_start = self.at
            item = self.class_atom()
            items: tuple[int | CharSet, ...] = (item,)
            if self.source.startswith("-", self.at) and self.source[self.at + 1 : self.at + 2] not in ("]", ""):
                self.at += 1
                high = self.class_atom()
                if isinstance(item, int) and isinstance(high, int):
                    if item > high:
                        raise self.fail("the range is out of order", item_start)
                    ranges.append((item, high))
                    continue
                if self.strict:
                    raise self.fail("a class cannot bound a range", item_start)
                items = (item, ord("-"), high)
            for part in items:
                if isinstance(part, int):
                    ranges.append((part, part))
                else:
                    sets.append(part)

    def class_atom(self) -> int | CharSet:
        """One member of a class: a code point, which may begin a range, or a set."""
        start = self.at
        char = self.source[start]
        self.at += 1
        if char != "\\":
            return ord(char)
        following = self.source[self.at : self.at + 1]
        if following == "b":
            self.at += 1
            return 8
        if following == "-":
            self.at += 1
            return ord("-")
        single: list[int] = []
        found = self.escape(start, in_class=True, single=single)
        return single[0] if single else found

    def escape(self, start: int, *, in_class: bool, single: list[int] | None = None) -> CharSet:
        """The set after a backslash at `start`. A single code point, even a surrogate, is added to `single`."""
        if self.at >= len(self.source):
            raise self.fail("nothing after the last backslash", start)
        char = self.source[self.at]
        self.at += 1
        if char in _CLASSES:
            return _CLASSES[char]
        if char in "pP" and self.source.startswith("{", self.at):
            found = self.property(start)
            if found is not None:
                return found if char == "p" else ~found
        code_point = self.character_escape(char, start, in_class)
        if single is not None:
            single.append(code_point)
        return CharSet.char(code_point)

    def property(self, start: int) -> CharSet | None:
        end = self.source.find("}", self.at)
        name = self.source[self.at + 1 : max(end, 0)]
        try:
            found = self.sets[name] if name in self.sets else property_set(name)
        except UnknownPropertyError:
            raise self.fail(f"unknown Unicode property {name!r}", start) from None
        self.at = end + 1
        return found

    def character_escape(self, char: str, start: int, in_class: bool) -> int:
        if char in _CONTROLS:
            return _CONTROLS[char]
        if char in _DIGITS:
            return self.decimal_escape(char, start, in_class)
        if char == "c":
            return self.control_escape(start, in_class)
        if char == "x":
            digits = self.source[self.at : self.at + 2]
            if len(digits) == 2 and _HEX.issuperset(digits):
                self.at += 2
                return int(digits, 16)
        elif char == "u":
            code_point = self.unicode_escape(start)
            if code_point is not None:
                return code_point
        elif char == "k" and (self.names or self.strict):
            return self.named_reference(start)
        if char not in _SYNTAX and self.strict:
            raise self.fail(f"invalid escape '\\{char}'", start)
        return ord(char)

    def reference(self, start: int) -> int:
        if self.references:
            return ord("?")
        raise self.fail("a back-reference is not regular", start)

    def named_reference(self, start: int) -> int:
        end = self.source.find(">", self.at)
        if not self.source.startswith("<", self.at) or self.source[self.at + 1 : max(end, 0)] not in self.names:
            raise self.fail("a reference to no group", start)
        self.at = end + 1
        return self.reference(start)

    def decimal_escape(self, char: str, start: int, in_class: bool) -> int:
        """`\\0`, a back-reference, or Annex B's legacy octal escapes."""
        more = self.at
        while self.source[more : more + 1] in _DIGITS and more < len(self.source):
            more += 1
        text = char + self.source[self.at : more]
        if text == "0":
            return 0
        if self.strict and (in_class or char == "0"):
            raise self.fail(f"invalid escape '\\{char}'", start)
        if not in_class and char != "0":
            if len(text) < 6 and int(text) <= self.groups:
                self.at = more
                return self.reference(start)
            if self.strict:
                raise self.fail(f"there is no group {text}", start)
        if char in "89":
            return ord(char)
        octal = char
        limit = 3 if char in "0123" else 2
        while len(octal) < limit and self.source[self.at : self.at + 1] in tuple("01234567"):
            octal += self.source[self.at]
            self.at += 1
        return int(octal, 8)

    def control_escape(self, start: int, in_class: bool) -> int:
        letter = self.source[self.at : self.at + 1]
        if letter and (letter in _LETTERS or (in_class and not self.strict and (letter in _DIGITS or letter == "_"))):
            self.at += 1
            return ord(letter) % 32
        if self.strict:
            raise self.fail("invalid escape '\\c'", start)
        self.at -= 1
        return ord("\\")

    def unicode_escape(self, start: int) -> int | None:
        if self.source.startswith("{", self.at):
            end = self.source.find("}", self.at)
            digits = self.source[self.at + 1 : max(end, 0)]
            if digits and _HEX.issuperset(digits) and int(digits, 16) <= 0x10FFFF:
                self.at = end + 1
                return int(digits, 16)
            if self.strict:
                raise self.fail("invalid escape '\\u{'", start)
            return None
        unit = self.code_unit(self.at)
        if unit is None:
            return None
        self.at += 4
        if 0xD800 <= unit < 0xDC00 and self.source.startswith("\\u", self.at):
            low = self.code_unit(self.at + 2)
            if low is not None and 0xDC00 <= low < 0xE000:
                self.at += 6
                return 0x10000 + (unit - 0xD800) * 0x400 + (low - 0xDC00)
        return unit

    def code_unit(self, at: int) -> int | None:
        digits = self.source[at : at + 4]
        return int(digits, 16) if len(digits) == 4 and _HEX.issuperset(digits) else None


def _capture_groups(source: str) -> tuple[int, frozenset[str]]:
    """How many capturing groups `source` has, and the names of those that have one."""
    if "\\" not in source:
        return 0, frozenset()  # only an escape asks
    count, names, in_class, at = 0, set(), False, 0
    while at < len(source):
        char = source[at]
        if char == "\\":
            at += 1
        elif in_class:
            in_class = char != "]"
        elif char == "[":
            in_class = True
        elif char == "(":
            if source.startswith("?<", at + 1) and source[at + 3 : at + 4] not in ("=", "!"):
                names.add(source[at + 3 : max(source.find(">", at), 0)])
                count += 1
            else:
                count += not source.startswith("?", at + 1)
        at += 1
    return count, frozenset(names)
