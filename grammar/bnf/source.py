"""What the readers share: places in the text, errors in words, escapes, character classes, regexes."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final

from ..errors import BudgetError, GrammarTextError, PatternError
from ..regular import CharSet, whole_pattern
from .dialects import foreign, with_early_brackets
from .ir import Chars, Choice, Node, Place, Regex, Repeat, Sequence, Text, Written
from .lalr import Handlers, Parser, Token, TooMuch, Unexpected

MAX_TEXT: Final = 1_000_000
MAX_REPEAT: Final = 1_000_000
_PLAIN_ESCAPES: Final = {
    "n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f", "a": "\a", "v": "\v", "0": "\0", "e": "\x1b",
    '"': '"', "'": "'", "\\": "\\", "/": "/",
}  # fmt: skip
_CODE: Final = re.compile(r"x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|u\{([0-9A-Fa-f]{1,6})\}")
_BOUNDS: Final = re.compile(r"[{~]\s*+(\d*+)\s*+(,|\.\.|)\s*+(\d*+)\s*+\}?")
_MARKS: Final[Mapping[str, tuple[int, int | None]]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
_DOT_ALL: Final = re.compile(r"\(\?[a-z]*s")
_DOTS: Final = re.compile(r"\\.|\[\^?\]?(?:\\.|[^\]\\])*+\]?|\.", re.DOTALL)
"""The parts of a pattern in which a dot is no dot, and dots."""
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_FOREIGN: Final = tuple(
    (syntaxes.split(), re.compile(pattern), what, remedy)
    for syntaxes, pattern, what, remedy in (
        ("gbnf ebnf", r"\(\s*+=", "a look-ahead assertion stands at the end of a rule", "leave it out"),
        ("gbnf ebnf", r"(?<=\()(?:\?[=!<]|[=!])", "look-ahead assertions, as (= ...), are not supported",
         "leave it out: what comes after a rule is known from where it is called"),
        ("gbnf ebnf lark", r"'[^'\n]*'", "texts in single quotes are not known here", 'write "..."'),
        ("gbnf ebnf grammarbnf", r"(?<=:\])\]", "classes by name, as [[:alpha:]], are not supported",
         "write the ranges, as [A-Za-z]"),
        ("gbnf ebnf grammarbnf", r"(?<=\])\]", "classes in classes, as [a[bc]], are not supported",
         r"list the characters of both, or write \] for the character"),
        ("gbnf ebnf", "//", "// begins no comment here", "comments begin with #"),
        ("lark", r"::|%if\b", "rules with parameters, as name::..., are not supported", "write the rules out"),
        ("lark", r"\{(?=\s*[\w\"/(])", "templates, as name{...}, are not supported", "write the rules out"),
    )
)  # fmt: skip
"""What other dialects have and these do not: (syntaxes, how it looks, what it is, remedy)."""


class Source(Written):
    """A grammar text, in one of the syntaxes."""

    def __init__(self, text: str, syntax: str) -> None:
        if len(text) > MAX_TEXT:
            raise BudgetError(f"a grammar text of {len(text)} characters exceeds the limit of {MAX_TEXT}")
        super().__init__(text)
        self.syntax = syntax
        self.classes: dict[str, Chars] = {}
        """What the classes read so far mean."""

    def place(self, offset: int) -> Place:
        """The line and column of a character."""
        return Place(self, offset)

    def error(self, message: str, at: int | Place, remedy: str | None = None) -> GrammarTextError:
        """An error at an offset or place, to be raised."""
        place = at if isinstance(at, Place) else Place(self, at)
        return GrammarTextError(message, line=place.line, column=place.column, remedy=remedy)


class Nested(Source):
    """A grammar text within another one: its places are places there."""

    def __init__(self, text: str, outer: Place, syntax: str) -> None:
        super().__init__(text, syntax)
        self._outer = outer

    @cached_property
    def lines(self) -> list[int]:
        """The offsets where lines begin, with lines before for those of the text around."""
        before = 1 - self._outer.column
        return [before] * self._outer.line + [match.end() for match in re.finditer("\n", self.text)]


def parse(parser: Parser, source: Source, text: str, names: Mapping[str, str], handlers: Handlers) -> None:
    """Reads `text` (`source.text`, perhaps with parts blanked out). `names`: what terminals are called in messages.

    Raises GrammarTextError with the place and what was expected there.
    """
    try:
        parser.parse(text, handlers)
    except TooMuch as error:
        place = source.place(error.at)
        raise BudgetError(
            f"line {place.line}, column {place.column}: the grammar {error.what}",
            remedy="give inner parts rules of their own",
        ) from None
    except Unexpected as error:
        listed = sorted({names.get(name) or parser.literal(name) for name in error.expected if names.get(name) != ""})
        expected = f"; expected {' or '.join(listed)}" if listed else ""
        if error.ended:
            raise source.error(f"the grammar ends too early{expected}", len(source.text)) from None
        for syntaxes, pattern, what, remedy in _FOREIGN:
            if source.syntax in syntaxes and pattern.match(text, error.at):
                raise source.error(what, error.at, remedy) from None
        found = source.text[error.at]
        if not error.found and found in "\"'[/":
            raise source.error(f"what {found} opens is not closed, or does not belong here", error.at) from None
        shown = _shown(error.found.strip() or "a line end") if error.found else _shown(found)
        raise source.error(f"unexpected {shown}{expected}", error.at) from None


def _shown(text: str) -> str:
    return repr(text if len(text) <= 30 else text[:30] + "...")


def unescape(source: Source, body: str, offset: int, more: str = "") -> str:
    """The text that the inside of a literal spells. `more`: characters that may be escaped besides quotes and `\\`."""
    if "\\" in body:
        out: list[str] = []
        at = 0
        while (found := body.find("\\", at)) >= 0:
            text, end = escape(source, body, found + 1, offset, more)
            out += (body[at:found], text)
            at = end
        body = "".join((*out, body[at:]))
    return body if body.isascii() else _well_formed(source, body, offset)


def escape(source: Source, body: str, at: int, offset: int, more: str = "") -> tuple[str, int]:
    """What the escape that goes on at `body[at]`, after its backslash, stands for, and where it ends."""
    char = body[at : at + 1]
    if char in _PLAIN_ESCAPES:
        return _PLAIN_ESCAPES[char], at + 1
    if char and char in more:
        return char, at + 1
    match = _CODE.match(body, at)
    if match is None:
        raise source.error(f"unknown escape \\{char}", offset + at - 1, "write a backslash as \\\\")
    code = int(match[match.lastindex or 0], 16)
    if code > 0x10FFFF:
        raise source.error(f"\\{match[0]} is no code point", offset + at - 1)
    return chr(code), match.end()


def _well_formed(source: Source, text: str, offset: int) -> str:
    """Surrogate pairs, as JSON escapes them, are one character; lone ones are none."""
    if _SURROGATE.search(text):
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        if "\ufffd" in text:
            raise source.error("a lone surrogate is no character", offset)
    return text


def character_class(source: Source, written: Token, *, any_if_empty: bool) -> Chars:
    """One of the characters that `[...]` or `[^...]` means. `any_if_empty`: whether `[^]` is any character."""
    found = source.classes.get(written)
    if found is None:
        found = source.classes[written] = Chars(_character_class(source, written, written.start_pos, any_if_empty))
    return found


def _character_class(source: Source, written: str, offset: int, any_if_empty: bool) -> CharSet:
    body = written[1:-1]
    negated = body.startswith("^")
    at, end = int(negated), len(body)
    if at == end and not (negated and any_if_empty):
        raise source.error("a character class without characters", offset, r"write ] in a class as \]")
    ranges = []
    while at < end:
        low, at = _class_character(source, body, at, offset + 1) if body[at] == "\\" else (ord(body[at]), at + 1)
        high = low
        if at + 1 < end and body[at] == "-":
            high, at = _class_character(source, body, at + 1, offset + 1)
            if high < low:
                raise source.error(f"the range {chr(low)}-{chr(high)} is the wrong way round", offset)
        ranges.append((low, high))
    found = CharSet.of(*ranges)
    if negated:
        found = ~found
    if not found:
        raise source.error("a character class without characters", offset)
    return found


def _class_character(source: Source, body: str, at: int, offset: int) -> tuple[int, int]:
    if body[at] != "\\":
        return ord(body[at]), at + 1
    if body[at + 1 : at + 2] in ("d", "w", "s", "D", "W", "S"):
        raise source.error(f"\\{body[at + 1]} is not known in a character class", offset + at, "write the ranges")
    text, at = escape(source, body, at + 1, offset, "^$.*+?()[]{}|-")
    return ord(text), at


def regex(source: Source, pattern: str, flags: str, at: int | Place) -> Regex:
    """A regular expression that matches as a whole. `flags`: any of i (case), s (the dot takes line ends), u.

    The syntax is ECMA-262's, with `(?P<name>` and flags in front, `(?i)`, as Rust and Python have them, and in Lark
    their dot, any character but a line feed. What these and others have besides is refused (`dialects`).
    """
    front = re.match(r"\(\?([isu]+)\)", pattern)
    if front is not None:
        pattern, flags = pattern[front.end() :], flags + front[1]
    unknown = set(flags) - set("isu")
    if unknown:
        raise source.error(f"the flag {min(unknown)!r} of a regular expression is not supported", at)
    pattern = pattern.replace("(?P<", "(?<")
    if source.syntax == "lark":
        pattern = with_early_brackets(pattern)
    strange = foreign(pattern)
    if strange is not None:
        message = f"{strange.written} in the pattern {pattern!r} is not known in ECMA-262, or is something else there"
        raise source.error(message, at, strange.remedy)
    if source.syntax == "lark" and "s" not in flags and not _DOT_ALL.search(pattern):
        pattern = _DOTS.sub(lambda part: r"[^\n]" if part[0] == "." else part[0], pattern)
    active = "".join(flag for flag in "is" if flag in flags)
    written = f"(?{active}:{pattern})" if active else pattern
    try:
        return Regex(whole_pattern(written), written)
    except PatternError as error:
        raise source.error(str(error), at) from None


def regex_literal(source: Source, token: Token) -> Regex:
    """A regular expression as a lexer found it: `/pattern/flags`."""
    end = token.rindex("/")
    return regex(source, token[1:end].replace("\\/", "/"), token[end + 1 :], token.start_pos)


def quoted(text: str) -> str:
    """A pattern that matches `text` and nothing else."""
    return re.sub(r"[\^$.*+?()\[\]{}|/\\-]", r"\\\g<0>", text)


def sequence(source: Source, items: list[Any]) -> Node:
    """One node for nodes and quantifiers, each of which means the node before it; texts side by side are joined."""
    flat: list[Node] = []
    texts: list[Text] = []
    for item in repeated(source, items):
        for part in item.items if type(item) is Sequence else (item,):
            if type(part) is not Text:
                if texts:
                    flat.append(_joined(texts))
                    texts = []
                flat.append(part)
            elif part.text:
                texts.append(part)
    if texts:
        flat.append(_joined(texts))
    return flat[0] if len(flat) == 1 else Sequence(tuple(flat)) if flat else Text("")


def _joined(texts: list[Text]) -> Text:
    return texts[0] if len(texts) == 1 else Text("".join([part.text for part in texts]))


def repeated(source: Source, items: list[Any]) -> list[Node]:
    """The nodes of a list of nodes and quantifiers, each of which means the node before it."""
    nodes: list[Node] = []
    for item in items:
        if type(item) is Token:
            nodes[-1] = Repeat(nodes[-1], *(_MARKS.get(item) or bounds(source, item)))
        else:
            nodes.append(item)
    return nodes


def choice(alternatives: list[Node]) -> Node:
    """One node for alternatives; those of an alternative that is a choice are its own."""
    flat: list[Node] = []
    for item in alternatives:
        if type(item) is Choice and item.alternatives:
            flat += item.alternatives
        else:
            flat.append(item)
    return flat[0] if len(flat) == 1 else Choice(tuple(flat))


def bounds(source: Source, written: Token) -> tuple[int, int | None]:
    """The bounds that `{n}`, `{n,}`, `{,m}`, `{n,m}`, or Lark's `~n` or `~n..m`, gives."""
    match = _BOUNDS.fullmatch(written)
    if match is None or not (match[1] or match[3]):
        raise source.error(f"a repetition without numbers, {written}", written.start_pos)
    low = int(match[1] or 0)
    high = low if not match[2] else int(match[3]) if match[3] else None
    if high is not None and high < low:
        raise source.error(f"the repetition {written} has its bounds the wrong way round", written.start_pos)
    if max(low, high or 0) > MAX_REPEAT:
        raise source.error(f"the repetition {written} exceeds {MAX_REPEAT}", written.start_pos)
    return low, high
