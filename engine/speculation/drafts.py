"""A draft: tokens that a choice's output may go on with, and the drawing along it."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from ...plugins.protocols import Matcher
from ..abilities import is_forking
from ..choice import Choice


@dataclass(slots=True)
class Ahead:
    """A place along a draft, for its mask. `matcher`: a fork that has taken the draft's tokens up to there.

    `sound`: False if its mask could not be had; the draft ends before it then.
    """

    matcher: Matcher | None
    sound: bool = True


Place = Choice | Ahead
"""Where a token is drawn next: at a choice's end, or along its draft."""


@dataclass(frozen=True, slots=True)
class Draft:
    """`tokens`, at least one, and the place after each."""

    tokens: Sequence[int]
    places: Sequence[Ahead]

    def first(self, count: int) -> Draft:
        """The draft's first tokens."""
        return Draft(self.tokens[:count], self.places[:count])


def can_follow(choice: Choice) -> bool:
    """Whether a draft's places can have masks: a matcher must fork for that."""
    return choice.matcher is None or is_forking(choice.matcher)


def follow(matcher: Matcher | None, tokens: Sequence[int], ends: Container[int]) -> Draft | None:
    """A draft of `tokens` up to the first that ends the output or that the matcher, where there is one, refuses."""
    places: list[Ahead] = []
    at = matcher
    for token in tokens:
        if token in ends:
            break
        at = after(at, token)
        if at is None and matcher is not None:
            break
        places.append(Ahead(at))
    return Draft(tokens[: len(places)], places) if places else None


def after(matcher: Matcher | None, token: int) -> Matcher | None:
    """A fork that has taken `token`; None where there is no matcher, or it does not take the token."""
    if not is_forking(matcher):
        return None
    try:
        fork: Matcher = matcher.fork()
        return fork if fork.accept(token) else None
    except Exception:  # a fault of a matcher is told when the output itself comes to it
        return None


class Drawing:
    """The drawing of one choice's next tokens in a step: one, and more while they agree with its draft.

    `logits` and `mask`: its first row of the step's logits and masks; `ahead`: the row of masks for its draft's first
    place. Of logits and of these, the rows along the draft follow. `told`: how many of the draft's tokens the scheduler
    knows to be right. `over`: nothing more is drawn in this step, whatever the output becomes in it.
    """

    __slots__ = ("_start", "ahead", "choice", "draft", "logits", "mask", "over", "told")

    def __init__(self, choice: Choice, draft: Draft | None, *, logits: int, mask: int, ahead: int) -> None:
        self.choice = choice
        self.draft = draft
        self.logits = logits
        self.mask = mask
        self.ahead = ahead
        self.told = 0
        self.over = False
        self._start = len(choice.output)

    @property
    def agreed(self) -> int:
        """How many of the draft's tokens the output has taken, from the left."""
        if self.draft is None:
            return 0
        pairs = zip(self.draft.tokens, self.choice.output[self._start :], strict=False)
        return next((i for i, (a, b) in enumerate(pairs) if a != b), min(self.drawn, len(self.draft.tokens)))

    @property
    def drawn(self) -> int:
        """Tokens that the output has got since the drawing began, forced ones among them."""
        return len(self.choice.output) - self._start

    @property
    def rows(self) -> tuple[int, int]:
        """The rows of logits and masks for the token that is drawn next."""
        drawn = self.drawn
        return self.logits + drawn, self.ahead + drawn - 1 if drawn else self.mask

    def settled(self) -> list[int]:
        """Tokens of the draft that have turned out right since this was last asked, and whose successor is known."""
        if self.draft is None:
            return []
        right = self.agreed if self.goes_on else min(self.agreed, max(self.drawn - 1, 0))
        tokens = list(self.draft.tokens[self.told : right])
        self.told = max(self.told, right)
        return tokens

    @property
    def goes_on(self) -> bool:
        """Whether the model has said what follows the output as it is now."""
        if self.over or self.choice.done or self.draft is None or not 0 < self.drawn <= len(self.draft.tokens):
            return False
        return self.agreed == self.drawn and self.draft.places[self.drawn - 1].sound
