"""The layout of Lark texts: what is not grammar is blanked out, character by character, so that offsets stay.

Comments go, inline JSON becomes a short placeholder, and a line end counts only where an item may end: not inside
brackets, not before a `|`.
"""

from __future__ import annotations

import json
import re
from typing import Any, Final

from .source import Nested, Source

_PIECE: Final = re.compile(
    r"""
    (?P<string>"(?:\\.|[^"\\\n])*+"?)
    | (?P<comment>(?://|\#)[^\n]*)
    | (?P<regex>/(?:\\.|[^/\\\n])++/?)
    | (?P<inline>%(?:json|regex|llguidance|grammar_options|lark)\b)
    | (?P<special><[^<>\s]+>)
    | (?P<bracket>[()\[\]])
    | (?P<line>\n)
    """,
    re.VERBOSE,
)
_BRACES: Final = re.compile(r'"(?:\\.|[^"\\\n])*+"?|(?://|\#)[^\n]*|/(?:\\.|[^/\\\n])++/?|[{}]|[^\s{}"/\#]')
_DECODER: Final = json.JSONDecoder()
_LINE_ENDS: Final = re.compile(r"\n[ \t\r\n]*+(\|?)")


class Layout:
    """`text` to be parsed, as long as the source, and the inline JSON values by number."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._out: list[str] = []
        self.values: list[Any] = []
        self.text = self._blanked()

    def _blanked(self) -> str:
        text = self._source.text
        depth = 0
        at = 0
        while True:
            match = _PIECE.search(text, at)
            if match is None:
                self._out.append(text[at:])
                return _LINE_ENDS.sub(_continued, "".join(self._out))
            self._out.append(text[at : match.start()])
            at = match.end()
            match match.lastgroup:
                case "comment":
                    self._out.append(" " * (at - match.start()))
                case "inline":
                    at = self._inline(match[0], match.start(), at)
                case "bracket":
                    depth = max(0, depth + (1 if match[0] in "([" else -1))
                    self._out.append(match[0])
                case "line":
                    self._out.append(" " if depth else "\n")
                case _:
                    self._out.append(match[0])

    def _inline(self, word: str, start: int, at: int) -> int:
        """Reads the JSON after `%json`; where it ends."""
        text = self._source.text
        while text[at : at + 1].isspace():
            at += 1
        if word == "%lark":
            return self._nested(start, at)
        try:
            value, end = _DECODER.raw_decode(text, at)
        except ValueError as error:
            offset = getattr(error, "pos", at)
            raise self._source.error(f"{word}: {getattr(error, 'msg', error)}", offset) from None
        except RecursionError:
            raise self._source.error(f"{word}: the JSON nests too deep", at) from None
        placeholder = f"{word}@{len(self.values)}"
        if end - start < len(placeholder):  # "%json 1": no schema is as short, but true
            raise self._source.error(f"{word} takes a JSON object", at)
        self.values.append(value)
        self._out.append(placeholder.ljust(end - start))
        return end

    def _nested(self, start: int, at: int) -> int:
        """Sets the grammar in braces at `at` aside, to be read on its own; where it ends."""
        text = self._source.text
        depth = 0
        for match in _BRACES.finditer(text, at):
            if match[0] not in "{}":
                if depth:
                    continue
                break
            depth += 1 if match[0] == "{" else -1
            if not depth:
                inner = Nested(text[at + 1 : match.start()], self._source.place(at + 1), "lark")
                placeholder = f"%lark@{len(self.values)}"
                self.values.append(inner)
                self._out.append(placeholder.ljust(match.end() - start))
                return match.end()
            if depth < 0:
                break
        raise self._source.error("%lark takes a grammar in braces", at, "write %lark { start: ... }")


def _continued(found: re.Match[str]) -> str:
    """Line ends before a `|` are no ends."""
    return "|".rjust(len(found[0])) if found[1] else found[0]
