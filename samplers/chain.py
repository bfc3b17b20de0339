"""From a batch of raw logits to one token per row: edit, mask, shape, draw; a fault stays in its row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from . import masks as bits
from .choice import SeededSampler, invert
from .guard import Guard, QuarantineError
from .logprobs import RowLogprobs, logprobs
from .narrow import Narrowed
from .protocols import ChoiceView, Logits, LogitsProcessor, MaskRows, Phase, Sampler
from .quick import EMPTY, LEFT, QuickDraw, is_quick, quick_rows
from .shipped import default_processors
from .transforms import Cut, Temperature, heat

_PHASES: tuple[Phase, ...] = ("edit", "shape")
_TRUSTED: frozenset[type] = frozenset({SeededSampler, *map(type, default_processors())})
_NO_TOKEN = "the grammar allows no token here"
Part = LogitsProcessor | Sampler


class EmptyMaskError(Exception):
    """Nothing is left to choose from: the grammar allows no token, or the transforms removed every allowed one."""


class BadLogitsError(Exception):
    """Logits hold NaN or +inf."""


class BadAnswerError(Exception):
    """A processor or sampler returned something that its protocol does not allow."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Why a row has no token. `culprit` names the plugin; None: the model or the grammar."""

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


def guards_of_foreign_parts() -> Callable[[Part], Guard | None]:
    """A guard for each part that is not the engine's own, named by the part, without a time limit."""
    guards: dict[int, tuple[Part, Guard]] = {}

    def guard_of(part: Part) -> Guard | None:
        if type(part) in _TRUSTED:
            return None
        return guards.setdefault(id(part), (part, Guard(part.name)))[1]

    return guard_of


class SamplerChain:
    """An ordered chain of processors and a sampler, over batches of changing rows.

    The transforms and the sampler that were written with it change the batch in place. Any other works on a copy of its
    rows, so that what it leaves behind when it raises, or hangs, is thrown away, and its answers are checked.
    `guard_of`: the guard of the plugin that a part comes from, None for the engine's own. `quick`: a kernel for rows
    that ask for common options only.
    """

    def __init__(
        self,
        processors: Sequence[LogitsProcessor],
        sampler: Sampler,
        guard_of: Callable[[Part], Guard | None] | None = None,
        quick: QuickDraw | None = None,
    ) -> None:
        guard_of = guard_of or guards_of_foreign_parts()
        ordered = sorted(processors, key=lambda p: (_PHASES.index(p.phase), p.order, p.name))
        self.processors: tuple[LogitsProcessor, ...] = tuple(ordered)
        self.sampler = sampler
        self._guards = [guard_of(processor) for processor in ordered]
        self._sampler_guard = guard_of(sampler)
        self._plain = type(sampler) is SeededSampler
        self._quick = quick if self._plain else None
        self._quick_kinds: dict[int, bool] = {}
        self._active: dict[ChoiceView, int] = {}

    # ------------------------------------------------------------------------------------------ a choice's life

    def start(self, row: ChoiceView) -> Fault | None:
        """A choice begins: ask each processor once whether it wants the row. A Fault if one raises, or if the request
        names a plugin that is quarantined.
        """
        active = 0
        for i, (processor, guard) in enumerate(zip(self.processors, self._guards, strict=True)):
            if row.params.greedy and processor.argmax_invariant:
                continue
            if guard is None:
                active |= processor.wants(row) << i
                continue
            if guard.quarantined is not None:
                if guard.plugin in row.plugins:
                    return Fault(guard.plugin, QuarantineError(f"it is quarantined: {guard.quarantined}"))
                continue
            try:
                active |= bool(guard.call(processor.wants, row)) << i
            except Exception as error:
                return self._fault(guard, error)
        self._active[row] = active
        return None

    def move(self, row: ChoiceView, *, back: bool) -> Fault | None:
        """The choice lost its place in the batch, or came `back`."""
        return self._tell(row, "resume" if back else "preempt")

    def rollback(self, row: ChoiceView, length: int) -> Fault | None:
        """The choice's output was cut back to `length` tokens."""
        return self._tell(row, "rollback", length)

    def end(self, row: ChoiceView, *, aborted: bool = False) -> Fault | None:
        """A choice is over, however it ended."""
        fault = self._tell(row, "release", aborted=aborted)
        active = self._active.pop(row, 0)
        if not aborted and fault is None:
            for i, guard in enumerate(self._guards):
                if guard is not None and active >> i & 1:
                    guard.served()
            if self._sampler_guard is not None:
                self._sampler_guard.served()
        return fault

    def _tell(self, row: ChoiceView, what: str, *arguments: Any, **more: Any) -> Fault | None:
        """Tell everybody who takes part in the row; the first fault is returned."""
        active = self._active.get(row)
        if active is None:
            return None
        parts: list[tuple[Part, Guard | None]] = [
            (part, guard)
            for i, (part, guard) in enumerate(zip(self.processors, self._guards, strict=True))
            if active >> i & 1
        ]
        fault = None
        for part, guard in [*parts, (self.sampler, self._sampler_guard)]:
            telling = getattr(part, what)
            if guard is None:
                telling(row, *arguments, **more)
            elif guard.quarantined is None:
                try:
                    guard.call(telling, row, *arguments, **more)
                except Exception as error:
                    fault = fault or self._fault(guard, error)
        return fault

    def _fault(self, guard: Guard, error: Exception) -> Fault:
        guard.failed(error)
        return Fault(guard.plugin, error)

    # --------------------------------------------------------------------------------------------------- a step

    def run(self, logits: Logits, rows: Sequence[ChoiceView], masks: MaskRows | None) -> Outcome:
        """One token per row.

        `logits`: float32 [B, V], raw, overwritten. `masks`: uint32 [B, W], or None where every token of every row is
        allowed. Nothing a processor or sampler does can select a token that its mask forbids.
        """
        outcome = Outcome(np.full(len(rows), -1, np.int64))
        outcome.raw = {i: logits[i].copy() for i, row in enumerate(rows) if row.params.logprobs}
        for i in np.flatnonzero(~np.isfinite(logits.max(axis=1))).tolist():
            self._fail(outcome, logits, i, Fault(None, BadLogitsError("the model's logits hold NaN or infinity")))
        active = [self._active[row] for row in rows]
        self._edit(logits, rows, active, outcome)
        quick = self._draw_quick(logits, rows, masks, active, outcome)
        if len(quick) < len(rows):
            self._draw_stepwise(logits, rows, masks, active, quick, outcome)
        for i, row in enumerate(rows):
            if i in outcome.raw and i not in outcome.faults:
                outcome.logprobs[i] = logprobs(outcome.raw[i], int(outcome.tokens[i]), row.params.top_logprobs)
        return outcome

    def _draw_quick(
        self,
        logits: Logits,
        rows: Sequence[ChoiceView],
        masks: MaskRows | None,
        active: Sequence[int],
        outcome: Outcome,
    ) -> set[int]:
        """Draw for the rows that the kernel can do; those that are done."""
        if self._quick is None or not self._quick.fits(logits.shape[1]) or not logits.flags.c_contiguous:
            return set()
        known = self._quick_kinds
        for bit in set(active) - known.keys():
            known[bit] = is_quick(self.processors, bit)
        at = [i for i, bit in enumerate(active) if known[bit] and i not in outcome.faults]
        if not at:
            return set()
        tokens = self._quick(logits, masks, quick_rows(at, rows))
        done = set()
        for i, token in zip(at, tokens.tolist(), strict=True):
            if token == EMPTY:
                grammars = masks is not None and not masks[i].any()
                fault = Fault(None, EmptyMaskError(_NO_TOKEN)) if grammars else self._emptied(active[i])
                self._fail(outcome, logits, i, fault)
            elif token != LEFT:
                outcome.tokens[i] = token
            if token != LEFT:
                done.add(i)
        return done

    def _draw_stepwise(
        self,
        logits: Logits,
        rows: Sequence[ChoiceView],
        masks: MaskRows | None,
        active: Sequence[int],
        done: set[int],
        outcome: Outcome,
    ) -> None:
        """Mask, shape and draw, one transform after another, the rows that are not `done`."""
        if masks is not None:
            bits.apply(logits, masks)
            for i in np.flatnonzero(bits.empty(masks)).tolist():
                if i not in done:
                    self._fail(outcome, logits, i, Fault(None, EmptyMaskError(_NO_TOKEN)))
        if masks is not None or any(guard is not None for guard in self._guards):
            for i in np.flatnonzero(np.isneginf(logits.max(axis=1))).tolist():
                if i not in done:
                    self._fail(outcome, logits, i, self._emptied(active[i]))
        left = [0 if i in done else bit for i, bit in enumerate(active)]
        narrowed = self._shape(logits, rows, masks, left, outcome)
        self._draw(logits, rows, narrowed, done, outcome)

    def _edit(self, logits: Logits, rows: Sequence[ChoiceView], active: Sequence[int], outcome: Outcome) -> None:
        for k, at in self._asked("edit", rows, active, outcome):
            if self._guards[k] is not None:
                self._apply_foreign(k, logits, rows, at, None, outcome)
            elif len(at) == len(rows):
                self.processors[k].apply(logits, rows)
            else:
                part = logits[at]
                self.processors[k].apply(part, [rows[i] for i in at])
                logits[at] = part

    def _shape(
        self,
        logits: Logits,
        rows: Sequence[ChoiceView],
        masks: MaskRows | None,
        active: Sequence[int],
        outcome: Outcome,
    ) -> list[Narrowed]:
        narrowed = [Narrowed(x) for x in logits]
        for k, at in self._asked("shape", rows, active, outcome):
            processor = self.processors[k]
            if self._guards[k] is not None:
                for i in at:
                    narrowed[i].spread()
                self._apply_foreign(k, logits, rows, at, masks, outcome)
            elif isinstance(processor, Cut):
                for i in at:
                    narrowed[i].cut(processor, rows[i])
            elif isinstance(processor, Temperature):
                for i in at:
                    narrowed[i].heat = heat(rows[i])
            else:
                for i in at:
                    narrowed[i].spread()
                    processor.apply(logits[i : i + 1], [rows[i]])
        return narrowed

    def _asked(
        self, phase: Phase, rows: Sequence[ChoiceView], active: Sequence[int], outcome: Outcome
    ) -> list[tuple[int, list[int]]]:
        """The processors of a phase that some row wants, in order, with the rows; what is empty costs nothing."""
        union = 0
        for bit in active:
            union |= bit
        return [
            (k, at)
            for k, processor in enumerate(self.processors)
            if union >> k & 1
            and processor.phase == phase
            and (at := [i for i, bit in enumerate(active) if bit >> k & 1 and i not in outcome.faults])
        ]

    def _apply_foreign(
        self,
        k: int,
        logits: Logits,
        rows: Sequence[ChoiceView],
        at: list[int],
        masks: MaskRows | None,
        outcome: Outcome,
    ) -> None:
        """A plugin's transform, on copies; when a group fails, once more row by row to find the one at fault."""
        guard = self._guards[k]
        assert guard is not None
        at = [i for i in at if i not in outcome.faults]
        for group in [at] if len(at) == 1 else [at, *([i] for i in at)]:
            try:
                part = self._transformed(self.processors[k], guard, logits[group], [rows[i] for i in group])
                if masks is not None:
                    bits.apply(part, masks[group])
                if np.isneginf(part.max(axis=1)).any():
                    raise EmptyMaskError("it left no allowed token to choose from")
            except QuarantineError as error:
                for i in group:
                    if guard.plugin in rows[i].plugins:
                        self._fail(outcome, logits, i, Fault(guard.plugin, error))
            except Exception as error:
                if len(group) == 1:
                    self._fail(outcome, logits, group[0], self._fault(guard, error))
                continue
            else:
                logits[group] = part
            if group is at:
                return

    def _transformed(
        self, processor: LogitsProcessor, guard: Guard, part: Logits, rows: Sequence[ChoiceView]
    ) -> Logits:
        apply = cast("Callable[[Logits, Sequence[ChoiceView]], Any]", processor.apply)
        answer = guard.call(apply, part, rows)
        if answer is not None:
            kind = f"{answer.dtype} {list(answer.shape)}" if isinstance(answer, np.ndarray) else type(answer).__name__
            raise BadAnswerError(f"{processor.name}.apply returned {kind}: it must change the logits in place")
        peaks = part.max(axis=1)
        if np.isnan(peaks).any() or np.isposinf(peaks).any():
            raise BadLogitsError(f"{processor.name} left NaN or +inf in the logits")
        return part

    def _emptied(self, active: int) -> Fault:
        """Who is to blame for a row without an allowed token: the last plugin that edited it, if any did."""
        for k in reversed(range(len(self.processors))):
            guard = self._guards[k]
            if guard is not None and active >> k & 1 and self.processors[k].phase == "edit":
                return self._fault(guard, EmptyMaskError("no allowed token is left to choose from"))
        return Fault(None, EmptyMaskError("no allowed token is left to choose from"))

    # --------------------------------------------------------------------------------------------------- the draw

    def _draw(
        self,
        logits: Logits,
        rows: Sequence[ChoiceView],
        narrowed: Sequence[Narrowed],
        done: set[int],
        outcome: Outcome,
    ) -> None:
        at = [i for i in range(len(rows)) if i not in outcome.faults and i not in done]
        if self._plain:
            self._draw_plain(logits, rows, narrowed, at, outcome)
            return
        for i in at:
            narrowed[i].spread()
        if self._sampler_guard is None:
            outcome.tokens[at] = self.sampler.choose(logits[at], [rows[i] for i in at])
            return
        for group in [at] if len(at) == 1 else [at, *([i] for i in at)]:
            if not group:
                return
            try:
                outcome.tokens[group] = self._choose(self._sampler_guard, logits[group], [rows[i] for i in group])
            except Exception as error:
                if len(group) == 1:
                    self._fail(outcome, logits, group[0], self._fault(self._sampler_guard, error))
                continue
            if group is at:
                return

    def _draw_plain(
        self,
        logits: Logits,
        rows: Sequence[ChoiceView],
        narrowed: Sequence[Narrowed],
        at: Sequence[int],
        outcome: Outcome,
    ) -> None:
        """The seeded draw, from what the cuts left."""
        greedy = [i for i in at if rows[i].params.greedy]
        whole = [i for i in at if narrowed[i].ids is None and not rows[i].params.greedy]
        if greedy:
            outcome.tokens[greedy] = (logits if len(greedy) == len(rows) else logits[greedy]).argmax(axis=1)
        if whole:
            part = logits if len(whole) == len(rows) else logits[whole]
            outcome.tokens[whole] = invert(part, [rows[i] for i in whole], [narrowed[i].heat for i in whole])
        for i in at:
            if narrowed[i].ids is not None:
                outcome.tokens[i] = narrowed[i].draw(rows[i])

    def _choose(self, guard: Guard, logits: Logits, rows: Sequence[ChoiceView]) -> NDArray[np.int64]:
        """A plugin's answer, checked."""
        forbidden = np.isneginf(logits)
        choose = cast("Callable[[Logits, Sequence[ChoiceView]], Any]", self.sampler.choose)
        tokens = np.asarray(guard.call(choose, logits, rows))
        if tokens.shape != (len(rows),) or not np.issubdtype(tokens.dtype, np.integer):
            raise BadAnswerError(f"it returned {tokens.dtype} {list(tokens.shape)}, not one token id per row")
        tokens = tokens.astype(np.int64)
        inside = (tokens >= 0) & (tokens < logits.shape[1])
        safe = np.where(inside, tokens, 0)
        if not (inside & ~forbidden[np.arange(len(rows)), safe]).all():
            raise BadAnswerError("it returned a token that is not allowed")
        return tokens

    def _fail(self, outcome: Outcome, logits: Logits, i: int, fault: Fault) -> None:
        """Record the row's first fault and make the row harmless, since whole-batch arithmetic goes on over it."""
        outcome.faults.setdefault(i, fault)
        logits[i] = 0.0
