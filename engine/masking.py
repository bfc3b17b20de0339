"""Token masks for the choices of a step: the compiler's batch call, a row for everything else, and who is complete."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..plugins.protocols import MaskFiller
from ..samplers import masks as bits
from .errors import GrammarFault
from .speculation.drafts import Place

_LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class StepMasks:
    """`rows`: uint32 [choices, W] in the order asked for; None, every token is allowed everywhere.

    `faults`: whose matcher raised; their rows allow nothing.
    """

    rows: NDArray[np.uint32] | None
    faults: list[tuple[Place, GrammarFault]] = field(default_factory=list)


class Masks:
    """Fills masks.

    `vocabulary_size`: V, the width of the logits. `tokens`: how many ids the tokenizer has; logits beyond them are
    padding, and never drawn. `ends`: ids that end an output. `fill`: the compiler's batch call, for matchers of
    `native` type.
    """

    def __init__(
        self,
        vocabulary_size: int,
        tokens: int,
        ends: Sequence[int],
        *,
        fill: MaskFiller | None = None,
        native: type | tuple[type, ...] = (),
    ) -> None:
        self._free = bits.pack(range(min(tokens, vocabulary_size)), vocabulary_size)
        self._padded = tokens < vocabulary_size
        self._ends = bits.pack([id_ for id_ in ends if id_ < vocabulary_size], vocabulary_size)
        self._fill = fill
        self._native = native
        self._scratch = np.zeros((1, len(self._free)), np.uint32)

    def prepare(self, choices: Sequence[Place]) -> StepMasks:
        """Rows for the tokens that are drawn next."""
        at = [i for i, choice in enumerate(choices) if choice.matcher is not None]
        if not at and not self._padded:
            return StepMasks(None)
        result = StepMasks(np.tile(self._free, (len(choices), 1)))
        if at:
            rows = self._rows(len(at))
            faults = self._fill_rows([choices[i].matcher for i in at], rows)
            assert result.rows is not None
            result.rows[at] = rows
            result.faults = [(choices[at[k]], fault) for k, fault in faults.items()]
        return result

    @property
    def width(self) -> int:
        """W, the words of a row."""
        return len(self._free)

    @property
    def padded(self) -> bool:
        """Whether logits have padding, so that a row is needed even where every token is allowed."""
        return self._padded

    def free(self, count: int) -> NDArray[np.uint32]:
        """uint32 [count, W]: rows that allow every token, to be changed."""
        rows = np.empty((count, len(self._free)), np.uint32)
        rows[:] = self._free
        return rows

    def only_ends(self, row: NDArray[np.uint32]) -> bool:
        """Whether only an end token may follow, so that there is nothing left to ask the model."""
        return bool(bits.only(row[None], self._ends)[0])

    def _rows(self, count: int) -> NDArray[np.uint32]:
        if len(self._scratch) < count:
            self._scratch = np.zeros((count, self._scratch.shape[1]), np.uint32)
        return self._scratch[:count]

    def _fill_rows(self, matchers: Sequence[Any], rows: NDArray[np.uint32]) -> dict[int, GrammarFault]:
        failed: Exception | None = None
        if self._fill is not None and all(isinstance(matcher, self._native) for matcher in matchers):
            try:
                self._fill(matchers, rows)
                return {}
            except Exception as error:
                # The rows are filled one by one then, to find the one at fault.
                failed = error
        faults = {}
        for i, matcher in enumerate(matchers):
            try:
                matcher.fill_mask(rows[i])
            except Exception as error:
                rows[i] = 0
                faults[i] = _fault(error)
        if failed is not None and not faults:
            _LOG.warning("masks could not be filled together, only one by one", exc_info=failed)
        return faults


def _fault(error: Exception) -> GrammarFault:
    fault = GrammarFault(f"the grammar's matcher raised {type(error).__name__}: {error}")
    fault.__cause__ = error
    return fault
