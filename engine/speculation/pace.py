"""How many tokens are worth guessing, from what steps have cost and how often guesses have been right.

A step of R rows takes c(R) seconds and yields T tokens; a guess adds a row and, if it is right with probability p, p
tokens. Guesses are taken in the order of p, as many as make T / c(R) highest: none where the machine is busy with the
rows that there are, or where guesses fail.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping

from ..choice import Choice

WIDEST = 64
"""Rows of the widest step that gets drafts: beyond, each row costs as much as the one before."""
_EASE = 0.1  # a row's cost beside a step's, until it was measured: little, so that it will be
_RECENT = 0.2  # weight of the last measurement
_FADE = 0.95  # of what a choice's guesses have shown, at each of them
_FORGET = 0.99  # of it, at each step without a guess: so a text that changes is tried again
_WORTH = 1.1  # how much faster a step must be expected to be for the first guess: estimates are rough
_TRUST = 1.0  # how many guesses the expectation counts for


class Costs:
    """Seconds of a step by its rows, as measured lately."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._seconds: dict[int, float] = {}

    def measured(self, rows: int, seconds: float) -> None:
        """A step of `rows` rows took so long."""
        if rows > WIDEST:
            return
        before = self._seconds.get(rows)
        if before is None:
            self._rows.insert(bisect_left(self._rows, rows), rows)
            self._seconds[rows] = seconds
        else:
            # Another program's turn on the machine is no cost of ours: one slow step counts for little.
            self._seconds[rows] = before + _RECENT * (min(seconds, 2 * before) - before)

    def of(self, rows: int) -> float:
        """An estimate: between measured numbers of rows linear, beyond them by the last slope."""
        known, at = self._rows, bisect_left(self._rows, rows)
        if not known:
            return 1 + _EASE * rows
        if len(known) == 1:
            [only] = known
            return self._seconds[only] * (1 + _EASE * rows) / (1 + _EASE * only)
        low = known[min(max(at - 1, 0), len(known) - 2)]
        high = known[known.index(low) + 1]
        slope = max(0.0, (self._seconds[high] - self._seconds[low]) / (high - low))
        return max(self._seconds[low] + slope * (rows - low), 1e-9)


class Pace:
    """Decides on the lengths of drafts. `expected`: how often a guess is right, before any was tried."""

    def __init__(self, expected: float = 0.6) -> None:
        self._expected = expected
        self._costs = Costs()
        self._guess_seconds = 0.0
        self._shown: dict[Choice, tuple[float, float]] = {}

    def lengths(self, offers: Mapping[Choice, int], tokens: int, room: int) -> dict[Choice, int]:
        """How many tokens to guess for each choice, of as many as are offered; those with none are left out.

        `tokens`: how many the step draws without drafts. Rows that are computed anyway, of prompts and of text that is
        forced, come at their cost in any step and do not count. `room`: rows that it may have besides.
        """
        chances = []
        for choice, most in offers.items():
            chance = self.chance(choice)
            chances += [(chance**depth, choice) for depth in range(1, most + 1)]
        chances.sort(key=lambda pair: -pair[0])
        best, taken, yielded, spent = _WORTH * tokens / self._costs.of(tokens), 0, float(tokens), 0.0
        for count, (chance, _) in enumerate(chances[: min(room, WIDEST - tokens)], 1):
            yielded += chance
            spent += self._guess_seconds
            rate = yielded / (self._costs.of(tokens + count) + spent)
            if rate > best:
                best, taken = rate, count
        lengths: dict[Choice, int] = {}
        for _, choice in chances[:taken]:
            lengths[choice] = lengths.get(choice, 0) + 1
        return lengths

    def rested(self, choices: Iterable[Choice]) -> None:
        """These had no guess in this step."""
        for choice in choices:
            if choice in self._shown:
                right, tried = self._shown[choice]
                self._shown[choice] = right * _FORGET, tried * _FORGET

    def chance(self, choice: Choice) -> float:
        """That the choice's next guess is right."""
        right, tried = self._shown.get(choice, (0.0, 0.0))
        return (right + self._expected * _TRUST) / (tried + _TRUST)

    def stepped(self, rows: int, seconds: float) -> None:
        """A step has taken so long, drawing among it."""
        self._costs.measured(rows, seconds)

    def guessed(self, tokens: int, seconds: float) -> None:
        """Guessing so many tokens, at least one, has taken so long."""
        each = seconds / tokens
        self._guess_seconds += (each - self._guess_seconds) * (_RECENT if self._guess_seconds else 1.0)

    def shown(self, choice: Choice, guessed: int, agreed: int) -> None:
        """Of a draft of `guessed` tokens `agreed` were right; what comes after a wrong one was not tried."""
        right, tried = self._shown.get(choice, (0.0, 0.0))
        self._shown[choice] = right * _FADE + agreed, tried * _FADE + agreed + (agreed < guessed)

    def release(self, choice: Choice) -> None:
        """The choice is over."""
        self._shown.pop(choice, None)
