"""One step of the engine: admit, mask, compute, sample, commit, emit. Nothing here knows of threads."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ..samplers import EmptyMaskError, Fault, RowLogprobs, SamplerChain, logprobs
from .choice import ActiveRequest, Choice
from .cores import INTERPRETER, Cores
from .errors import EngineError, GrammarFault, ModelFault, PluginFault, RequestFault
from .explain import mask_effect, token_note
from .matching import Drawn, Matching, Taken
from .request import Event, Failed, Finished, FinishReason, TextDelta, TokenLogprob, TopLogprob, Usage
from .scheduler import BatchScheduler, ChoiceTooBig, Work
from .speculation.drafts import Drawing
from .speculation.speculator import Speculator
from .stats import Counters
from .text import StopMatch
from .tokenizer import TextTokenizer

_LOG = logging.getLogger(__name__)
LITTLE = 0.002
"""Seconds that masks are waited for before the model runs: beside it they take a core from the model's own threads."""


class StepModel(Protocol):
    """The runtime's model, as the loop sees it."""

    def step(
        self, sequence_ids: Sequence[int], tokens: Sequence[Sequence[int]], counts: Sequence[int] | None = None, /
    ) -> NDArray[np.float32]:
        """Compute chunks of tokens, one per sequence; float32 [sum(counts), V]: the logits after the last `counts[i]`
        tokens of chunk i, in order. None: after the last one of each.
        """
        ...


class Loop:
    """The engine's state and its step, used by one thread. `ended` is called with the id of a request that is over."""

    def __init__(
        self,
        model: StepModel,
        tokenizer: TextTokenizer,
        scheduler: BatchScheduler,
        chain: SamplerChain,
        matching: Matching,
        speculator: Speculator | None = None,
        ended: Callable[[str], None] = lambda request_id: None,
    ) -> None:
        self._model = model
        self._cores = Cores(model)
        self._tokenizer = tokenizer
        self._scheduler = scheduler
        self._chain = chain
        self._matching = matching
        self._speculator = speculator
        self._ends = frozenset(tokenizer.eos_ids)
        self._ended = ended
        self._requests: dict[str, ActiveRequest] = {}
        self.counters = Counters()

    @property
    def idle(self) -> bool:
        """True if no request is unfinished."""
        return not self._requests

    def add(self, active: ActiveRequest) -> None:
        """A request enters the line."""
        self._requests[active.request.id] = active
        self.counters.requests += 1
        for choice in active.choices:
            fault = self._chain.start(choice)
            if fault is not None:
                self._fail(active, _as_error(fault))
                return
            if choice.matcher is not None:
                self._matching.begin(choice)
            self._scheduler.add(choice)

    def cancel(self, request_id: str) -> None:
        """End what is left of a request; one that is unknown or done is ignored."""
        active = self._requests.get(request_id)
        if active is not None:
            for choice in active.choices:
                if not choice.done:
                    self._finish(choice, "cancelled")

    def close(self) -> None:
        """End the threads of matchers, and forget what drafts were made from."""
        self._cores.close()
        self._matching.close()
        if self._speculator is not None:
            self._speculator.close()

    def fail_all(self, error: Exception) -> None:
        """Every request fails with `error`, and the cache is emptied."""
        self._scheduler.clear()
        for active in list(self._requests.values()):
            self._fail(active, error)

    def step(self) -> bool:
        """Do one step; False if there was nothing to do. Whatever goes wrong in it ends requests, not the loop."""
        self._catch_up()
        try:
            works: Sequence[Work] = self._scheduler.plan()
        except ChoiceTooBig as error:
            self._fail(error.choice.owner, error)
            return True
        if self._scheduler.moved and self._tell_moved():
            return True
        if not works:
            return self._matching.rest()
        # Put back and computed again while its matcher was at work: nothing is drawn for it until that is done.
        works = [replace(work, samples=False) if self._matching.is_taking(work.choice) else work for work in works]
        self._matching.wait_masks([work.choice for work in works if work.samples], seconds=LITTLE)
        if self._speculator is not None:
            works = self._speculator.draft(works, self._scheduler, self.counters, ready=self._matching.is_masked)
        drawings = drawings_of(works)
        ahead = self._matching.ahead([place for each in drawings if each.draft for place in each.draft.places])
        self._cores.begin()
        begun, cpu = time.perf_counter(), time.thread_time()
        try:
            with INTERPRETER.wanted():
                logits = self._compute(works)
        except Exception as error:
            self._model_failed(error)
            return True
        finally:
            computed, cpu = time.perf_counter(), time.thread_time() - cpu
            self._cores.end(computed - begun, cpu)
        self._matching.stepped(computed - begun)
        self._scheduler.computed(works)
        self._count(works)
        choices = [drawing.choice for drawing in drawings]
        self._matching.wait_masks(choices, ahead)
        rows = self._matching.rows(choices, ahead)
        for choice, fault in rows.faults:
            self._fail(choice.owner, fault)
        for i in rows.late:
            self._matching.keep(choices[i], logits[drawings[i].logits])
        late = set(rows.late)
        self._sample([drawing for i, drawing in enumerate(drawings) if i not in late], logits, rows.masks)
        self._scheduler.forget_drafts(drawings)
        self._count_seconds(computed - begun, time.perf_counter() - computed)
        if self._speculator is not None:
            self._speculator.learn(works, drawings, self.counters)
        return True

    def _catch_up(self) -> None:
        """Go on with choices whose matchers were late."""
        started = time.perf_counter()
        for choice, drawn, taken in self._matching.taken():
            self._settle(choice, drawn, taken)
        resumed = self._matching.resumed()
        if resumed:
            choices = [choice for choice, _ in resumed]
            rows = self._matching.rows(choices)
            for choice, fault in rows.faults:
                self._fail(choice.owner, fault)
            drawings = [Drawing(choice, None, logits=i, mask=i, ahead=0) for i, choice in enumerate(choices)]
            self._sample(drawings, np.stack([logits for _, logits in resumed]), rows.masks)
        self._count_seconds(0.0, time.perf_counter() - started)

    def _count_seconds(self, model: float, rest: float) -> None:
        waited, self._matching.waited_seconds = self._matching.waited_seconds, 0.0
        self.counters.model_seconds += model
        self.counters.mask_seconds += waited
        self.counters.sample_seconds += max(0.0, rest - waited)
        self.counters.late_matches = self._matching.late

    def _tell_moved(self) -> bool:
        """Tell plugins who was put back or came back; True if a request failed by that, so that a new plan is due."""
        moved, self._scheduler.moved = self._scheduler.moved, []
        faults = [(choice, fault) for choice, back in moved if (fault := self._chain.move(choice, back=back))]
        for choice, fault in faults:
            self._fail(choice.owner, _as_error(fault))
        return bool(faults)

    def _compute(self, works: Sequence[Work]) -> NDArray[np.float32]:
        sequences, chunks = [work.sequence for work in works], [work.chunk for work in works]
        if all(work.draft is None for work in works):
            return self._model.step(sequences, chunks)
        return self._model.step(sequences, chunks, [work.logits for work in works])

    def _count(self, works: Sequence[Work]) -> None:
        counters = self.counters
        counters.steps += 1
        for work in works:
            generated = 1 if work.samples and work.choice.output else 0
            counters.decoded_tokens += generated
            counters.prefilled_tokens += len(work.tokens) - generated

    def _sample(
        self, drawings: Sequence[Drawing], logits: NDArray[np.float32], masks: NDArray[np.uint32] | None
    ) -> None:
        """Draw and commit, in rounds: a round draws one token for each choice that the logits still speak of."""
        left = [drawing for drawing in drawings if not drawing.choice.done]
        while left:
            self._draw(left, logits, masks)
            for drawing in left:
                # A matcher that takes long: its token comes in a later step, or while others are drawn in this one.
                drawing.over = self._matching.is_taking(drawing.choice) or not drawing.goes_on
            left = [drawing for drawing in left if not drawing.over]
            for drawing in left:
                self._scheduler.settle(drawing)

    def _draw(
        self, drawings: Sequence[Drawing], logits: NDArray[np.float32], masks: NDArray[np.uint32] | None
    ) -> None:
        choices = [drawing.choice for drawing in drawings]
        at = [drawing.rows for drawing in drawings]
        rows = [row for row, _ in at]
        # The array is ours: it is copied only where some of its rows are not drawn from.
        whole = len(rows) == len(logits) and logits.flags.writeable
        effects = {
            i: mask_effect(logits[row], None if masks is None or choices[i].matcher is None else masks[mask])
            for i, (row, mask) in enumerate(at)
            if choices[i].owner.request.explain
        }
        outcome = self._chain.run(
            logits if whole else logits[rows], choices, masks if masks is None else masks[[row for _, row in at]]
        )
        for i, choice in enumerate(choices):
            if choice.done:  # another choice of its request failed just now
                continue
            fault = outcome.faults.get(i)
            if fault is not None:
                self._fail(choice.owner, _as_error(fault))
                continue
            drawn = Drawn(int(outcome.tokens[i]), outcome.logprobs.get(i), outcome.raw.get(i), effects.get(i))
            if drawn.token in self._ends and (choice.matcher is not None or not choice.params.ignore_eos):
                # Under a grammar the mask has the end token only where the text is complete.
                choice.sampled += 1
                self._finish(choice, "stop")
            elif choice.matcher is not None:
                self._matching.take(choice, drawn)
            else:
                self._settle(choice, drawn, Taken([drawn.token], complete=False, accepting=False))
        for choice, drawn, taken in self._matching.taken(choices):
            self._settle(choice, drawn, taken)

    def _settle(self, choice: Choice, drawn: Drawn, taken: Taken | GrammarFault) -> None:
        """What was drawn is part of the output now, with what it forces."""
        if choice.done:
            return
        if isinstance(taken, GrammarFault):
            self._fail(choice.owner, taken)
            return
        try:
            if not taken.tokens:
                self._finish(choice, "stop")
            elif drawn.logprob is not None:
                choice.held_logprobs.append(self._describe(taken.tokens[0], _logprob(choice, drawn, taken)))
            for i, token in enumerate(taken.tokens):
                self.counters.forced_tokens += i > 0
                if drawn.effect is not None:
                    note = token_note(token, self._spell(token), i, drawn.token, drawn.effect, taken.pointers)
                    choice.held_notes.append(note)
                end = taken if i == len(taken.tokens) - 1 else None
                if not self._append(choice, token, end):  # a stop string may cut what is forced
                    break
        except Exception as error:
            self._fail(choice.owner, error if isinstance(error, EngineError) else _unexpected(error))

    def _append(self, choice: Choice, token: int, end: Taken | None) -> bool:
        """The token is part of the output; False if it is the last. `end`: what is known of the text after it."""
        choice.sampled += 1
        choice.output.append(token)
        choice.held_ids.append(token)
        text = choice.text.push(self._tokenizer.bytes_of(token), token)
        if isinstance(text, StopMatch):
            self._finish(choice, "stop", text=text.text, stop=text.stop)
        elif end is not None and end.complete:
            self._finish(choice, "stop", text=text + choice.text.flush())
        elif choice.left <= 0:
            choice.forced_close = end is not None and end.accepting
            self._finish(choice, "stop" if choice.forced_close else "length", text=text + choice.text.flush())
        elif text or choice.text.thought:
            self._emit(choice, text)
        return not choice.done

    def _finish(self, choice: Choice, reason: FinishReason, *, text: str = "", stop: str | None = None) -> None:
        """End a choice. Its events may raise RequestFault, which the caller turns into the request's failure."""
        if not text and stop is None:
            text = choice.text.flush()
        self._leave(choice, keep=True, aborted=reason == "cancelled")
        owner = choice.owner
        self.counters.forced_closes += choice.forced_close
        try:
            if text or choice.held_ids or choice.text.thought:
                self._emit(choice, text)
            usage = Usage(len(choice.prompt), choice.sampled, choice.cached, choice.text.thought_tokens)
            owner.emit(Finished(choice.index, reason, usage, stop, choice.forced_close))
        except RequestFault as error:
            self._fail(owner, error)
        if owner.done and self._requests.pop(owner.request.id, None) is not None:
            owner.end()
            self._ended(owner.request.id)

    def _emit(self, choice: Choice, text: str) -> None:
        event: Event = TextDelta(
            choice.index, text, tuple(choice.held_logprobs), tuple(choice.held_ids),
            choice.text.take_thought(), tuple(choice.held_notes),
        )  # fmt: skip
        choice.held_logprobs.clear()
        choice.held_ids.clear()
        choice.held_notes.clear()
        choice.owner.emit(event)

    def _fail(self, active: ActiveRequest, error: Exception) -> None:
        """End a request with an error. Other requests do not notice."""
        if self._requests.pop(active.request.id, None) is None:
            return
        self._ended(active.request.id)
        self.counters.failed += 1
        _LOG.info("request %s failed: %s", active.request.id, error)
        for choice in active.choices:
            if not choice.done:
                self._leave(choice, keep=False, aborted=True)
        try:
            active.emit(Failed(error))
        except RequestFault as fault:
            _LOG.warning("request %s could not be told of its failure: %s", active.request.id, fault)
        active.end()

    def _leave(self, choice: Choice, *, keep: bool, aborted: bool) -> None:
        choice.done = True
        self._matching.end(choice)
        self._scheduler.drop(choice, keep=keep, aborted=aborted)
        if self._speculator is not None:
            self._speculator.release(choice)
        fault = self._chain.end(choice, aborted=aborted)
        if fault is not None:
            _LOG.warning("%s", _as_error(fault))

    def _model_failed(self, error: Exception) -> None:
        """The cache is in doubt now: whatever is in it goes, with the requests that are in the batch."""
        _LOG.error("the model's step failed", exc_info=error)
        if isinstance(error, ModelFault):
            fault = error
        else:
            fault = ModelFault(f"the model's step failed: {type(error).__name__}: {error}")
            fault.__cause__ = error
        owners = {choice.owner.request.id: choice.owner for choice in self._scheduler.running}
        self._scheduler.clear()
        for owner in owners.values():
            self._fail(owner, fault)

    def _describe(self, token: int, logprob: RowLogprobs) -> TokenLogprob:
        top = tuple(TopLogprob(id_, *self._spell(id_), value) for id_, value in logprob.top)
        return TokenLogprob(token, *self._spell(token), logprob.chosen, top)

    def _spell(self, token: int) -> tuple[str, bytes]:
        data = self._tokenizer.bytes_of(token)
        return (data.decode("utf-8", "replace"), data) if data else (self._tokenizer.name(token), data)


def _logprob(choice: Choice, drawn: Drawn, taken: Taken) -> RowLogprobs:
    """Of the token that was taken, which another may have led to."""
    assert drawn.logprob is not None
    if taken.tokens[0] == drawn.token or drawn.raw is None:
        return drawn.logprob
    return logprobs(drawn.raw, taken.tokens[0], choice.params.top_logprobs)


def drawings_of(works: Sequence[Work]) -> list[Drawing]:
    """The drawings of a step, with the rows of its logits and masks: masks of all choices, then those along drafts."""
    sampling = [work for work in works if work.samples]
    mask, ahead, logits = 0, len(sampling), 0
    drawings = []
    for work in works:
        if work.samples:
            drawings.append(Drawing(work.choice, work.draft, logits=logits, mask=mask, ahead=ahead))
            mask, ahead = mask + 1, ahead + work.logits - 1
        logits += work.logits
    return drawings


def _as_error(fault: Fault) -> EngineError:
    detail = str(fault.error) or type(fault.error).__name__
    error: EngineError
    if fault.culprit is not None:
        error = PluginFault(f"the plugin {fault.culprit!r} failed: {detail}", plugin=fault.culprit)
    elif isinstance(fault.error, EmptyMaskError):
        error = GrammarFault(detail)
    else:
        error = RequestFault(detail)
    error.__cause__ = fault.error
    return error


def _unexpected(error: Exception) -> RequestFault:
    fault = RequestFault(f"the request failed in the engine: {type(error).__name__}: {error}")
    fault.__cause__ = error
    return fault
