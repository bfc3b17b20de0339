"""Forms that readers spell in several ways, as nodes."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

from ..regular import ALL, CharSet, Language, star, words
from ..regular.composed import Composer
from .ir import Both, Chars, Choice, Node, Place, Regex, Repeat, Sequence, Token

MAX_CHARACTERS = (1 << 31) - 1
_BARE_IN_JSON = Language(star(ALL - CharSet.of((0, 0x1F)) - CharSet.chars('"\\')))


def substrings(chunks: SequenceOf[str]) -> Node:
    """Any run of neighbouring chunks joined, the empty one included; a chunk is taken whole or not at all.

    Raises BudgetError beyond 1,000 chunks.
    """
    composer = Composer("a list of chunks")
    return Regex(composer.language(composer.run(composer.leaf(words([chunk])) for chunk in chunks)))


def dispatch_on_tokens(pairs: SequenceOf[tuple[Token, Node]], excludes: Token, *, loop: bool) -> Node:
    """Free tokens in which a trigger token starts a rule; then free tokens again, or the end if not `loop`."""
    ids = excludes.ids.union(*(token.ids for token, _ in pairs))
    names = excludes.names.union(*(token.names for token, _ in pairs))
    free = Repeat(Token(ids, names, negated=True))
    segment = Choice(tuple(Sequence(pair) for pair in pairs))
    if not pairs:
        return free
    if loop:
        return Sequence((free, Repeat(Sequence((segment, free)))))
    return Sequence((free, Repeat(segment, 0, 1)))


def bounded(node: Node, most: int, place: Place) -> Node:
    """The texts of `node`, which is regular, of at most so many characters."""
    return Both((node, Repeat(Chars(ALL), 0, most)), place)


def bare_in_json(node: Node, place: Place) -> Node:
    """The texts of `node`, which is regular, that stand in a JSON string without escapes."""
    return Both((node, Regex(_BARE_IN_JSON)), place)
