"""From a batch of raw logits to one token per row: edit, mask, shape, draw; a fault stays in its row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from . import masks as bits
from .choice import SeededSampler
from .logprobs import RowLogprobs, logprobs
from .protocols import ChoiceView, Logits, LogitsProcessor, MaskRows, Phase, Sampler
from .transforms import default_processors

_PHASES: tuple[Phase, ...] = ("edit", "shape")
_TRUSTED: frozenset[type] = frozenset({SeededSampler, *map(type, default_processors())})


class EmptyMaskError(Exception):
    """Nothing is left to choose from: the grammar allows no token, or the transforms removed every allowed one."""


class BadLogitsError(Exception):
    """Logits hold NaN or +inf."""


class BadChoiceError(Exception):
    """A sampler returned something that is not one allowed token per row."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a row has no token. `culprit` names the processor or sampler; None: the model or the grammar."""

    culprit: str | None
    error: Exception


@dataclass(slots=True)
class Outcome:
    """`tokens` int64 [B], -1 where `faults` holds the row; `logprobs` by row, for those that asked, and for these also
    `raw`, the model's logits, float32 [V].
    """

    tokens: NDArray[np.int64]
    logprobs: dict[int, RowLogprobs] = field(default_factory=dict)
    raw: dict[int, Logits] = field(default_factory=dict)
    faults: dict[int, Fault] = field(default_factory=dict)


class SamplerChain:
    """An ordered chain of processors and a sampler, over batches of changing rows.

    The transforms and the sampler that were written with it change the batch in place. Any other works on a copy of its
    rows, so that what it leaves behind when it raises is thrown away, and its answers are checked.
    """

    def __init__(self, processors: Sequence[LogitsProcessor], sampler: Sampler) -> None:
        ordered = sorted(processors, key=lambda p: (_PHASES.index(p.phase), p.order, p.name))
        self.processors: tuple[LogitsProcessor, ...] = tuple(ordered)
        self.sampler = sampler
        self._active: dict[ChoiceView, int] = {}

    def start(self, row: ChoiceView) -> Fault | None:
        """A choice begins: ask each processor once whether it wants the row. A Fault if one raises."""
        active = 0
        for i, processor in enumerate(self.processors):
            if row.params.greedy and processor.argmax_invariant:
                continue
            try:
                wanted = processor.wants(row)
            except Exception as error:
                return Fault(processor.name, error)
            active |= bool(wanted) << i
        self._active[row] = active
        return None

    def move(self, row: ChoiceView, *, back: bool) -> Fault | None:
        """The choice lost its place in the batch, or came `back`."""
        return self._tell(row, lambda part: part.resume(row) if back else part.preempt(row))

    def rollback(self, row: ChoiceView, length: int) -> Fault | None:
        """The choice's output was cut back to `length` tokens."""
        return self._tell(row, lambda part: part.rollback(row, length))

    def end(self, row: ChoiceView, *, aborted: bool = False) -> Fault | None:
        """A choice is over, however it ended."""
        fault = self._tell(row, lambda part: part.release(row, aborted=aborted))
        self._active.pop(row, None)
        return fault

    def _tell(self, row: ChoiceView, what: Callable[[LogitsProcessor | Sampler], None]) -> Fault | None:
        """Tell everybody who takes part in the row; the first error is returned."""
        active = self._active.get(row)
        if active is None:
            return None
        parts: list[LogitsProcessor | Sampler] = [part for i, part in enumerate(self.processors) if active >> i & 1]
        fault = None
        for part in [*parts, self.sampler]:
            try:
                what(part)
            except Exception as error:
                fault = fault or Fault(part.name, error)
        return fault

    def run(self, logits: Logits, rows: Sequence[ChoiceView], masks: MaskRows | None) -> Outcome:
        """One token per row.

        `logits`: float32 [B, V], raw, overwritten. `masks`: uint32 [B, W], or None where every token of every row is
        allowed. Nothing a processor or sampler does can select a token that its mask forbids.
        """
        outcome = Outcome(np.full(len(rows), -1, np.int64))
        outcome.raw = {i: logits[i].copy() for i, row in enumerate(rows) if row.params.logprobs}
        for i in np.flatnonzero(~np.isfinite(logits.max(axis=1))).tolist():
            _fail(outcome, logits, i, Fault(None, BadLogitsError("the model's logits hold NaN or infinity")))
        active = [self._active[row] for row in rows]
        self._phase("edit", logits, rows, active, outcome)
        if masks is not None:
            bits.apply(logits, masks)
            for i in np.flatnonzero(bits.empty(masks)).tolist():
                _fail(outcome, logits, i, Fault(None, EmptyMaskError("the grammar allows no token here")))
        if self._phase("shape", logits, rows, active, outcome) and masks is not None:
            bits.apply(logits, masks)
        self._draw(logits, rows, active, outcome)
        for i, row in enumerate(rows):
            if i in outcome.raw and i not in outcome.faults:
                outcome.logprobs[i] = logprobs(outcome.raw[i], int(outcome.tokens[i]), row.params.top_logprobs)
        return outcome

    def _phase(
        self, phase: Phase, logits: Logits, rows: Sequence[ChoiceView], active: Sequence[int], outcome: Outcome
    ) -> bool:
        """Run the processors of one phase; True if one ran that is not trusted."""
        union = 0
        for bit in active:
            union |= bit
        foreign = False
        for k, processor in enumerate(self.processors):
            if processor.phase != phase or not union >> k & 1:
                continue
            at = [i for i, bit in enumerate(active) if bit >> k & 1 and i not in outcome.faults]
            if not at:
                continue
            trusted = type(processor) in _TRUSTED
            if trusted and len(at) == len(rows):
                processor.apply(logits, rows)
                continue
            group = [rows[i] for i in at]
            if trusted:
                part = logits[at]
                processor.apply(part, group)
                logits[at] = part
                continue
            foreign = True
            self._apply_foreign(processor, logits, rows, at, outcome)
        return foreign

    def _apply_foreign(
        self, processor: LogitsProcessor, logits: Logits, rows: Sequence[ChoiceView], at: list[int], outcome: Outcome
    ) -> None:
        """A plugin's transform, on copies; when a group fails, once more row by row to find the one at fault."""
        groups = [at] if len(at) == 1 else [at, *([i] for i in at)]
        for group in groups:
            part = logits[group]
            try:
                processor.apply(part, [rows[i] for i in group])
                if np.isnan(part).any() or np.isposinf(part).any():
                    raise BadLogitsError("it left NaN or +inf in the logits")
            except Exception as error:
                if len(group) == 1:
                    outcome.faults[group[0]] = Fault(processor.name, error)
                continue
            logits[group] = part
            if group is at:
                return

    def _draw(self, logits: Logits, rows: Sequence[ChoiceView], active: Sequence[int], outcome: Outcome) -> None:
        for i in np.flatnonzero(np.isneginf(logits.max(axis=1))).tolist():
            foreign = [p for k, p in enumerate(self.processors) if active[i] >> k & 1 and type(p) not in _TRUSTED]
            blamed = foreign[-1].name if foreign else None
            _fail(outcome, logits, i, Fault(blamed, EmptyMaskError("no allowed token is left to choose from")))
        at = [i for i in range(len(rows)) if i not in outcome.faults]
        if not at:
            return
        whole = len(at) == len(rows)
        try:
            tokens = self._choose(logits if whole else logits[at], [rows[i] for i in at])
        except Exception as first:
            if len(at) == 1 or type(self.sampler) in _TRUSTED:
                outcome.faults.update({i: Fault(self.sampler.name, first) for i in at})
                return
            self._choose_one_by_one(logits, rows, at, outcome)
            return
        outcome.tokens[at] = tokens

    def _choose_one_by_one(self, logits: Logits, rows: Sequence[ChoiceView], at: list[int], outcome: Outcome) -> None:
        for i in at:
            try:
                outcome.tokens[i] = self._choose(logits[[i]], [rows[i]])[0]
            except Exception as error:
                outcome.faults[i] = Fault(self.sampler.name, error)

    def _choose(self, logits: Logits, rows: Sequence[ChoiceView]) -> NDArray[np.int64]:
        """The sampler's answer, checked."""
        if type(self.sampler) in _TRUSTED:
            return self.sampler.choose(logits, rows)
        forbidden = np.isneginf(logits)
        choose = cast("Callable[[Logits, Sequence[ChoiceView]], Any]", self.sampler.choose)
        tokens = np.asarray(choose(logits.copy(), rows))
        if tokens.shape != (len(rows),) or not np.issubdtype(tokens.dtype, np.integer):
            raise BadChoiceError(f"it returned {tokens.dtype} {list(tokens.shape)}, not one token id per row")
        tokens = tokens.astype(np.int64)
        inside = (tokens >= 0) & (tokens < logits.shape[1])
        safe = np.where(inside, tokens, 0)
        if not (inside & ~forbidden[np.arange(len(rows)), safe]).all():
            raise BadChoiceError("it returned a token that is not allowed")
        return tokens


def _fail(outcome: Outcome, logits: Logits, i: int, fault: Fault) -> None:
    """Record the row's first fault and make the row harmless, since whole-batch arithmetic goes on over it."""
    outcome.faults.setdefault(i, fault)
    logits[i] = 0.0
