"""Tokens taken as such in a grammar, spelled in bytes that no UTF-8 text holds: 0xFF and the id in three bytes."""

from __future__ import annotations

from .analysis import TOKEN_BYTE


def spelled(token: int) -> bytes:
    """The bytes that stand for a token."""
    return bytes((TOKEN_BYTE,)) + token.to_bytes(3, "big")


def spelled_token(ids: frozenset[int], negated: bool) -> bytes:
    """The bytes of one of these tokens, or of one that is none of them."""
    if not negated:
        return spelled(min(ids))
    token = 0
    while token in ids:
        token += 1
    return spelled(token)
