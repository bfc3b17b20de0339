"""How much work one question may cost.

Case distinctions multiply, and no count of a schema's nodes tells by how much. So work is counted while it is done, in
steps of about a microsecond: the same schema is compiled or refused alike on every machine and under every load.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..courtesy import COURTESY
from ..errors import BudgetError

MAX_STEPS: Final = 800_000
PAUSED_AFTER: Final = 1_000


class Effort:
    """Steps left for the question at hand: compiling a schema, or one transition of its automaton.

    `pause` is called now and then: whoever asks the question may let others work meanwhile.
    """

    __slots__ = ("_left", "_paused", "pause")

    def __init__(self) -> None:
        self._left = self._paused = MAX_STEPS
        self.pause: Callable[[], None] | None = None

    def renew(self) -> None:
        """A new question begins."""
        self._left = self._paused = MAX_STEPS

    def spend(self, steps: int) -> None:
        """Counts work that is about to be done. Raises BudgetError once it is too much."""
        self._left -= steps
        if self._left < 0:
            raise BudgetError(
                "the parts of the schema combine in too many ways",
                remedy="simplify anyOf, oneOf, not and if beside each other, or enumerations of objects and arrays",
            )
        if self._paused - self._left > PAUSED_AFTER:
            self._rest()

    def pass_time(self, steps: int) -> None:
        """Counts work that something else limits: it makes pauses only."""
        self._paused += steps
        if self._paused - self._left > PAUSED_AFTER:
            self._rest()

    def _rest(self) -> None:
        self._paused = self._left
        if self.pause is not None:
            self.pause()
        else:
            COURTESY.pause()
