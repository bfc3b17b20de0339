"""Forms that readers spell in several ways, as nodes."""

from __future__ import annotations

from collections.abc import Sequence as SequenceOf

from ..regular import words
from ..regular.composed import Composer
from .ir import Choice, Node, Regex, Repeat, Sequence, Token


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
