"""Jump-forward: text that a grammar forces becomes tokens without a model step for each of them.

The tokens are those that the tokenizer itself would make of the text, seen after the tokens before it. The last ones
are kept back where the vocabulary has a longer token that begins with them: what comes next may change the split there,
so the model decides (as in llguidance's account of "fast-forward tokens").
"""

from __future__ import annotations

from collections.abc import Callable

from ..plugins.protocols import GuidedMatcher
from .abilities import is_guided
from .choice import Choice
from .tokenizer import TextTokenizer

CONTEXT = 4
"""Tokens before the forced text that the tokenizer is shown with it."""
REMEMBERED = 4096


class Jumps:
    """Finds the tokens of forced text. Several threads may ask."""

    def __init__(self, tokenizer: TextTokenizer, continued: Callable[[bytes], bool]) -> None:
        """`continued`: whether some token begins with the bytes and goes on."""
        self._tokenizer = tokenizer
        self._continued = continued
        self._known: dict[tuple[bytes, bytes], tuple[int, ...]] = {}

    def applies(self, choice: Choice) -> bool:
        """False for requests for logprobs or grammar alignment, since only a step for each token gives these."""
        return not (choice.params.logprobs or choice.params.grammar_aligned)

    def take(self, choice: Choice, token: int) -> tuple[int, ...]:
        """The tokens that the choice's grammar forces after `token`, which its matcher has taken, for it to accept;
        none where there is a choice.

        The choice's way out is the one after them.
        """
        matcher = choice.matcher
        if not self.applies(choice) or not is_guided(matcher) or choice.way is None:
            return ()
        forced = matcher.forced()
        if not forced:
            return ()
        before = b"".join(map(self._tokenizer.bytes_of, [*choice.output[1 - CONTEXT :], token]))
        tokens = self._known.get((before, forced))
        if tokens is None:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            tokens = self._known[before, forced] = self._split(before, forced)
        if not tokens or (getattr(matcher, "canonical", False) and not _takes(matcher, tokens)):
            return ()
        data = b"".join(map(self._tokenizer.bytes_of, tokens))
        if not choice.way.data.startswith(data):
            return ()
        way = choice.way.after(len(data))
        if not way.fits(choice.left - 1 - len(tokens)):
            return ()  # the tokenizer spends more tokens than the budget has
        choice.way = way
        return tokens

    def _split(self, before: bytes, forced: bytes) -> tuple[int, ...]:
        try:
            text = (before + forced).decode("utf-8")
        except UnicodeDecodeError:  # cut within a character
            return ()
        ids = self._tokenizer.encode(text, special=False)
        pieces = [self._tokenizer.bytes_of(id_) for id_ in ids]
        if b"".join(pieces) != before + forced:
            return ()
        position, start = 0, 0
        while position < len(before):
            position += len(pieces[start])
            start += 1
        if position != len(before):
            return ()  # the tokenizer would not have split here, so the model may not go on as it would
        end = len(ids)
        tail = b""
        for i in range(len(ids) - 1, start - 1, -1):
            tail = pieces[i] + tail
            if self._continued(tail):
                end = i
        return tuple(ids[start:end])


def _takes(matcher: GuidedMatcher, tokens: tuple[int, ...]) -> bool:
    """Whether a matcher that takes only what the tokenizer would give takes these: seen after a few tokens alone, they
    may be others than after the whole text.
    """
    for taken, token in enumerate(tokens):
        if not matcher.accept(token):
            matcher.rollback(taken)
            return False
    matcher.rollback(len(tokens))
    return True
