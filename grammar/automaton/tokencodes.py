"""Tokens taken as such in a grammar, spelled in bytes that no UTF-8 text holds: 0xFF, then the id, 7 bits a byte."""

from __future__ import annotations

from typing import Final, NamedTuple

from .codes import TOKEN_BYTE

MARK: Final = bytes((TOKEN_BYTE,))
LENGTH: Final = 4


class TokenEdges(NamedTuple):
    """The tokens that a row takes as such.

    row       the row that reads their ids, after TOKEN_BYTE
    ids       some that are taken
    excluded  all others but these are taken as well; None: no others
    """

    row: int
    ids: frozenset[int]
    excluded: frozenset[int] | None


def spelled(token: int) -> bytes:
    """The bytes that stand for a token."""
    return bytes((TOKEN_BYTE, token >> 14, token >> 7 & 0x7F, token & 0x7F))


def token_of(data: bytes) -> int:
    """The token that `data` begins with."""
    return data[1] << 14 | data[2] << 7 | data[3]


def spelled_any(ids: frozenset[int], negated: bool) -> bytes:
    """The bytes of one of these tokens, or of one that is none of them."""
    if not negated:
        return spelled(min(ids))
    token = 0
    while token in ids:
        token += 1
    return spelled(token)


def shown(data: bytes) -> str:
    """Text with tokens in it as a reader may see it: `<[5]>` stands for the token 5."""
    first, *parts = data.split(MARK)
    return first.decode() + "".join(f"<[{token_of(MARK + part)}]>{part[3:].decode()}" for part in parts)
