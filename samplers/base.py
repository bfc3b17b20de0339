"""Bases for processors and samplers: the members that most of them leave as they are."""

from __future__ import annotations

from .protocols import ChoiceView, Phase


class BaseFollower:
    """Keeps nothing for a choice, so nothing is to be done when something becomes of it."""

    def rollback(self, row: ChoiceView, length: int, /) -> None:
        """Nothing is kept."""

    def preempt(self, row: ChoiceView, /) -> None:
        """Nothing is kept."""

    def resume(self, row: ChoiceView, /) -> None:
        """Nothing is kept."""

    def release(self, row: ChoiceView, /, *, aborted: bool) -> None:
        """Nothing is kept."""


class BaseProcessor(BaseFollower):
    """A logits processor that wants every row. What is left to say: `name`, and `apply`; and mostly `wants`.

    It runs on the raw logits, after the shipped ones there, and may change which logit is the highest.
    """

    phase: Phase = "edit"
    order: int = 1000
    argmax_invariant: bool = False

    def wants(self, row: ChoiceView, /) -> bool:
        """Every row."""
        return True


class BaseSampler(BaseFollower):
    """A sampler that keeps nothing. What is left to say: `name`, and `choose`."""
