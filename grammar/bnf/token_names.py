"""Tokens as grammar texts name them: `<|name|>`, `<[5]>`, `<[1-3,7]>`, `<[^5]>`, `<[*]>`, `!<...>`."""

from __future__ import annotations

import re
from typing import Final

from .ir import Place, Token
from .source import Source

_IDS: Final = re.compile(r"<\[(\^?)([0-9]+(?:-[0-9]+)?(?:,[0-9]+(?:-[0-9]+)?)*)\]>")
_MAX_ID: Final = 1 << 20


def token(source: Source, written: str, place: Place) -> Token:
    """The token, or set of tokens, that `written` names. Raises GrammarTextError."""
    negated = written.startswith("!")
    name = written.removeprefix("!").replace(" ", "")
    if not name.startswith("<["):
        return Token(names=frozenset({name}), negated=negated, place=place)
    if name == "<[*]>":
        if negated:
            raise source.error("!<[*]> is no token at all", place)
        return Token(negated=True, place=place)
    match = _IDS.fullmatch(name)
    if match is None:
        raise source.error(f"malformed token ids {written!r}", place, "as <[5]> or <[1-3,7]>")
    ids: set[int] = set()
    for part in match[2].split(","):
        low, _, high = part.partition("-")
        first, last = int(low), int(high or low)
        if last > _MAX_ID or first > last:
            raise source.error(f"malformed token ids {part!r}", place)
        ids.update(range(first, last + 1))
    return Token(frozenset(ids), negated=negated != (match[1] == "^"), place=place)
