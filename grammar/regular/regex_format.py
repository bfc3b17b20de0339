"""Format `regex`: the texts that are ECMA-262 patterns with the `u` flag, as far as they are regular.

A hand-written automaton, since the syntax is flat but for groups, which are a stack of fixed depth. These are refused
although they may be valid: groups nested deeper, back-references to a group that begins later or is beyond the ninth,
more than one named group, names other than of ASCII letters, digits and `_ $`, references to names longer than 32
characters, modifiers `(?i:...)`, `\\u{...}` and surrogate pairs, Unicode properties other than the general categories
and a few more, and ranges that begin with a rare character outside ASCII. Everything accepted is valid.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from .charset import ALL, DIGIT, CharSet
from .dfa import INFINITE, LazyDfa, interned
from .language import Language
from .words import words_dfa

_DEPTH = 10
_REFERRED = 9  # captures that back-references may name
_LONGEST_NAME = 32
_NAME = CharSet.chars("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_$")
_LETTER = CharSet.of((0x41, 0x5A), (0x61, 0x7A))
_HEX = DIGIT | CharSet.chars("abcdefABCDEF")
_SYNTAX = CharSet.chars("^$\\.*+?()[]{}|/")
_PLAIN = ~(_SYNTAX - CharSet.chars("/"))
# Outside ASCII, the characters that ranges in use begin with; others begin none.
_RANGE_STARTS = CharSet.of((0, 0x7F), (0xC0, 0xD6), (0xD8, 0xF6), (0xF8, 0xFF)) | CharSet.chars(
    "\u0080\u00a0\u00a1\u0100\u0391\u03b1\u0370\u0400\u0410\u0430\u0401\u0451\u0590\u05d0\u0600\u0621\u0900\u0e00\u0e01"
    "\u3040\u3041\u30a0\u30a1\u3400\u4e00\uac00\U00010000\U0001f300\U0001f600"
)
_BEGINS = {code_point: CharSet.char(code_point) for code_point in _RANGE_STARTS}
_SETS, _CONTROLS = CharSet.chars("dDwWsS"), {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11}
_PROPERTIES = (  # noqa: SIM905
    "L Letter Lu Uppercase_Letter Ll Lowercase_Letter Lt Lm Lo M Mark Mn Mc Me N Number Nd Decimal_Number Nl No "
    "P Punctuation Pc Pd Ps Pe Pi Pf Po S Symbol Sm Sc Sk So Z Separator Zs Zl Zp C Other Cc Cf Co Cn "
    "Alphabetic ASCII Any Emoji ID_Start ID_Continue Lowercase Uppercase White_Space"
).split()
_SCRIPTS = (
    "Arabic", "Bengali", "Cyrillic", "Devanagari", "Greek", "Han", "Hangul", "Hebrew", "Hiragana", "Katakana", "Latin",
    "Tamil", "Thai",
)
_PROPERTY_TEXTS = [
    *(f"{{{name}}}" for name in _PROPERTIES),
    *(f"{{{key}={name}}}" for name in _SCRIPTS for key in ("Script", "sc", "Script_Extensions", "scx")),
    *(f"{{{key}={name}}}" for name in _PROPERTIES[:46] for key in ("General_Category", "gc")),
]


_AHEAD = {
    "start": 0, "atom": 0, "done": 0, "zero": 0, "escape": 1, "control": 1, "class": 1, "class-open": 1,
    "class-dash": 1,
}


def _one(char: str) -> CharSet:
    return CharSet.char(ord(char))


class _State(NamedTuple):
    """Where a text stands.

    `groups` has, for each open group, whether a quantifier may follow it. `mode` is what is being read, `number` what
    of its value matters, `low` the lower bound of an open range in a class (-1: none; -2: a range cannot begin here),
    `captures` how many groups began that a number refers to, `name` the name of the named group ("": one too long to
    be referred to).
    """

    groups: tuple[bool, ...] = ()
    mode: str = "start"
    number: int = 0
    low: int = -1
    captures: int = 0
    name: str | None = None


class RegexTextDfa(LazyDfa[_State]):
    """The texts of format `regex`. A mode names the grammar's rule: see `_moves`."""

    def __init__(self) -> None:
        super().__init__(("regex text",), "a regular expression", _State())
        self._properties = words_dfa(_PROPERTY_TEXTS)

    def _accepts(self, state: _State) -> bool:
        return not state.groups and state.mode in ("start", "atom", "done", "done lazy", "zero ")

    def _at_least(self, state: _State) -> int:
        """Closes what is open in the shortest way: exact."""
        head, _, where = state.mode.partition(" ")
        if where == "class-dash":
            ahead = _ahead_of_bound(head, state)
        elif head.startswith("hex"):
            ahead = int(head[-1]) if _hex_reaches(head, state, 0) else INFINITE
        elif head == "property":
            ahead = self._properties.shortest(state.number)
        elif head == "name":
            ahead = len(state.name or "") + 2 - state.number
        elif head == "group":
            ahead = 2 if where else 1
        elif head == "braces":
            ahead = 1 if where else 2
        elif head == "bound":
            digits, most = 0, state.low
            while 0 <= most < state.number:
                digits, most = digits + 1, most * 10 + 9
            ahead = digits + 1
        else:
            ahead = _AHEAD[head]
        return min(ahead + where.startswith("class") + len(state.groups), INFINITE)

    def _distance(self, start: int) -> int:
        found = self._distances[start] = self._at_least(self._states[start])
        return found

    def _moves(self, state: _State) -> Iterable[tuple[CharSet, _State]]:
        mode = state.mode.partition(" ")[0]
        if mode in ("start", "atom", "done"):
            return self._term(state)
        if mode in ("braces", "bound"):
            return self._braces(state)
        if mode == "group":
            return self._group(state)
        if mode.startswith("class"):
            return self._class(state)
        return self._escape(state)

    def _term(self, state: _State) -> Iterator[tuple[CharSet, _State]]:
        """At the start of an alternative or after a term; after an atom a quantifier may come."""
        atom = state._replace(mode="atom", number=0)
        done = state._replace(mode="done", number=0)
        yield _PLAIN | _one("."), atom
        yield CharSet.chars("^$"), done
        yield _one("|"), state._replace(mode="start", number=0)
        yield _one("\\"), state._replace(mode="escape", number=0)
        yield _one("["), state._replace(mode="class-open", number=0)
        if len(state.groups) < _DEPTH:
            yield _one("("), state._replace(mode="group", number=0)
        if state.groups:
            *outer, repeatable = state.groups
            yield _one(")"), state._replace(groups=tuple(outer), mode="atom" if repeatable else "done", number=0)
        if state.mode == "atom":
            yield CharSet.chars("*+?"), state._replace(mode="done lazy")
            yield _one("{"), state._replace(mode="braces")
        elif state.mode == "done lazy":
            yield _one("?"), done

    def _braces(self, state: _State) -> Iterator[tuple[CharSet, _State]]:
        """`{n`, then `{n,m`: `number` is n and, in the bound, `low` is m so far (-1: no digit yet)."""
        closed = state._replace(mode="done lazy", number=0, low=-1)
        if state.mode == "bound":
            for digit in range(10):
                more = max(state.low, 0) * 10 + digit
                yield _one(str(digit)), state._replace(low=min(more, state.number))
            if state.low < 0 or state.low >= state.number:
                yield _one("}"), closed
            return
        for digit in range(10):
            if state.number < 10_000:
                yield _one(str(digit)), state._replace(mode="braces digits", number=state.number * 10 + digit)
        if state.mode == "braces digits":
            yield _one("}"), closed
            yield _one(","), state._replace(mode="bound", low=-1)

    def _group(self, state: _State) -> Iterator[tuple[CharSet, _State]]:
        """After `(`: a capture, or `?` and what kind."""
        plain = state._replace(groups=(*state.groups, True), mode="start", number=0)
        capture = plain._replace(captures=min(state.captures + 1, _REFERRED))
        kind = state.mode.partition(" ")[2]
        if kind == "":
            # A group may hold nothing, or begin with any term: everything else is as at its start.
            yield _one("?"), state._replace(mode="group ?")
            yield from self._term(capture)
        elif kind == "?":
            yield _one(":"), plain
            yield CharSet.chars("=!"), state._replace(groups=(*state.groups, False), mode="start")
            yield _one("<"), state._replace(mode="group ?<")
        else:
            if kind == "?<":
                yield CharSet.chars("=!"), state._replace(groups=(*state.groups, False), mode="start")
            if kind == "?<" and state.name is None:
                for char in _NAME:
                    yield CharSet.char(char), state._replace(mode="group ?<name", name=chr(char))
            elif kind == "?<name":
                yield _one(">"), capture
                if not state.name or len(state.name) == _LONGEST_NAME:
                    yield _NAME | DIGIT, state._replace(name="")
                else:
                    for char in _NAME | DIGIT:
                        yield CharSet.char(char), state._replace(name=state.name + chr(char))

    def _class(self, state: _State) -> Iterator[tuple[CharSet, _State]]:
        """In `[...]`. "class-open" has a caret to come; "class-dash" is after the dash of a range from `low`."""
        inside = state._replace(mode="class", low=-1)
        if state.mode == "class-dash":
            yield _one("]"), state._replace(mode="atom", low=-1)
            if state.low >= 0:
                yield CharSet.of((state.low, 0x10FFFF)) - CharSet.chars("\\]"), inside
                yield _one("\\"), state._replace(mode="escape class-dash")
            return
        if state.mode == "class-open":
            yield _one("^"), inside
        elif state.low != -1:
            yield _one("-"), state._replace(mode="class-dash")
        yield _one("]"), state._replace(mode="atom", low=-1)
        yield _one("\\"), state._replace(mode="escape class", low=-1)
        others = ALL - CharSet.chars("\\]") - (_one("^") if state.mode == "class-open" else CharSet.of())
        if state.low != -1:
            others = others - _one("-")
        yield from _by_bound(others, state)

    def _escape(self, state: _State) -> Iterator[tuple[CharSet, _State]]:
        """After a backslash. The second word of the mode is where the escape stands; the rest is what has been read."""
        head, _, where = state.mode.partition(" ")
        if head == "escape":
            in_class = where.startswith("class")
            for char, code_point in _CONTROLS.items():
                yield from self._escaped(_one(char), code_point, state, where)
            for code_point in _SYNTAX | (_one("-") if in_class else CharSet.of()):
                yield from self._escaped(CharSet.char(code_point), code_point, state, where)
            yield _one("0"), state._replace(mode=f"zero {where}")
            if not in_class and state.captures:
                # Like a zero: a whole escape unless a digit follows.
                yield CharSet.of((0x31, 0x30 + state.captures)), state._replace(mode="zero ")
            if not in_class and state.name:
                yield _one("k"), state._replace(mode="name ", number=0)
            if in_class:
                yield from self._escaped(_one("b"), 8, state, where)
            else:
                yield CharSet.chars("bB"), state._replace(mode="done", low=-1)
            if where != "class-dash":
                yield _SETS, self._after_set(state, where)
                if self._properties.start is not None:
                    yield CharSet.chars("pP"), state._replace(mode=f"property {where}", number=self._properties.start)
            yield _one("c"), state._replace(mode=f"control {where}")
            yield _one("x"), state._replace(mode=f"hex2 {where}", number=0)
            yield _one("u"), state._replace(mode=f"hex4 {where}", number=0)
        elif head == "property":
            for chars, number in self._properties.step(state.number):
                if self._properties.accepting(number):
                    yield chars, self._after_set(state, where)
                else:
                    yield chars, state._replace(number=number)
        elif head == "name":
            rest = f"<{state.name}>"[state.number :]
            yield _one(rest[0]), state._replace(number=state.number + 1) if rest[1:] else state._replace(
                mode="atom", number=0
            )
        elif head == "control":
            for code_point in _LETTER:
                yield from self._escaped(CharSet.char(code_point), code_point % 32, state, where)
        elif head == "zero":
            # A zero is a whole escape unless a digit follows.
            after = self._after_escape(0, state, where)
            if after is not None:
                for chars, target in self._moves(after):
                    if chars - DIGIT:
                        yield chars - DIGIT, target
        else:
            left = int(head[-1]) - 1
            for code_point in _HEX:
                value = state.number * 16 + int(chr(code_point), 16)
                if left:
                    yield CharSet.char(code_point), state._replace(mode=f"{head[:-1]}{left} {where}", number=value)
                elif not 0xD800 <= value <= 0xDFFF:
                    yield from self._escaped(CharSet.char(code_point), value, state, where)

    def _escaped(self, chars: CharSet, code_point: int, state: _State, where: str) -> Iterator[tuple[CharSet, _State]]:
        after = self._after_escape(code_point, state, where)
        if after is not None:
            yield chars, after

    def _after_escape(self, code_point: int, state: _State, where: str) -> _State | None:
        """The state after an escape that stands for one character; None where it would end a range below its start."""
        if where == "class":
            return state._replace(mode="class", number=0, low=code_point)
        if where == "class-dash":
            return state._replace(mode="class", number=0, low=-1) if code_point >= state.low else None
        return state._replace(mode="atom", number=0)

    def _after_set(self, state: _State, where: str) -> _State:
        return state._replace(mode="class" if where else "atom", number=0, low=-2 if where else -1)


def _ahead_of_bound(head: str, state: _State) -> int:
    """The least rest of an escape that ends a range, not below its start."""
    if head == "escape":
        longest = ((0x7D, 1), (0xFF, 3), (0xFFFF, 5))  # a syntax character, two or four hexadecimal digits
        return next((length for last, length in longest if state.low <= last), INFINITE)
    if head == "control":
        return 1 if state.low <= 26 else INFINITE
    if head == "zero":
        return 0 if state.low == 0 else INFINITE
    return int(head[-1]) if _hex_reaches(head, state, state.low) else INFINITE


def _hex_reaches(head: str, state: _State, bound: int) -> bool:
    """Whether the digits to come can make a code point of at least `bound` that is no surrogate."""
    width = 1 << 4 * int(head[-1])
    first, last = state.number * width, (state.number + 1) * width - 1
    if 0xD800 <= last <= 0xDFFF:
        last = min(last, 0xD7FF)
    return last >= max(first, bound)


def _by_bound(chars: CharSet, state: _State) -> Iterator[tuple[CharSet, _State]]:
    """A character of a class that may begin a range leads to a state of its own."""
    groups, captures, name = state.groups, state.captures, state.name
    for code_point in chars & _RANGE_STARTS:
        yield _BEGINS[code_point], _State(groups, "class", 0, code_point, captures, name)
    yield chars - _RANGE_STARTS, state._replace(mode="class", low=-2)


def regex_text() -> Language:
    """Format `regex`, as the module says."""
    return Language(interned(("regex text",), RegexTextDfa))
