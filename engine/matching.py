"""What a constrained choice's matcher has to do, done by threads of its own: a slow one keeps only its request waiting.

A token that was drawn is *taken*: the matcher accepts it, a way home is found, forced text is split into tokens. Then
the *mask* of the next token is filled. Both mostly take microseconds, and the engine waits for them a little; a choice
whose matcher takes longer sits out the steps until it is ready, and the others go on.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial

import numpy as np
from numpy.typing import NDArray

from ..plugins.protocols import Matcher
from ..samplers import RowLogprobs
from .abilities import is_foreseeing, is_forking
from .choice import Choice
from .cores import INTERPRETER
from .errors import GrammarFault
from .explain import MaskEffect, Pointers
from .guide import advance, advance_by
from .jumps import Jumps
from .masking import Masks
from .speculation.drafts import Ahead, Draft, follow
from .workers import DONE, Job, Workers

LEAST_PATIENCE = 0.005
MOST_PATIENCE = 0.05
"""Seconds. Between them, half of what a step of the model takes is waited for matchers before a step."""


@dataclass(slots=True)
class Taken:
    """`tokens`: the one that was drawn, or the one that leads home in its stead; after it those that are forced.
    None at all: the text ends before the one that was drawn.

    `complete`: nothing but an end token may follow. `accepting`: the text may end there. `pointers`: where each token
    stands in the schema, for requests that ask to explain.
    """

    tokens: list[int]
    complete: bool
    accepting: bool
    pointers: list[str | None] = field(default_factory=list)


@dataclass(slots=True)
class Drawn:
    """What was drawn for a choice whose matcher is taking it. `raw`: the logits behind `logprob`. `effect`: of the
    mask, for requests that ask to explain.
    """

    token: int
    logprob: RowLogprobs | None
    raw: NDArray[np.float32] | None
    effect: MaskEffect | None = None


class Course:
    """A constrained choice's matcher at work.

    `row`: uint32 [W], the mask of the next token once `masked`. `taking`: a token is being taken, so that `row` and the
    output are of before it. `kept`: logits that wait for the mask, float32 [V]. `fault`: why there is no mask.
    `lock` is held by whoever uses the matcher; `place`: how many tokens were given to it to take. `following`: what
    follows a guess from it.
    """

    __slots__ = (
        "choice", "drawn", "fault", "following", "job", "kept", "lock", "masked", "place", "row", "taken", "taking",
    )  # fmt: skip

    def __init__(self, choice: Choice, width: int) -> None:
        self.choice = choice
        self.row = np.zeros(width, np.uint32)
        self.masked = False
        self.taking = False
        self.taken: Taken | None = None
        self.drawn: Drawn | None = None
        self.kept: NDArray[np.float32] | None = None
        self.fault: GrammarFault | None = None
        self.job: Job | None = None
        self.following: Job = DONE
        self.lock = threading.Lock()
        self.place = 0


class AheadMask:
    """The mask of a place along a draft, in the making; `row` is uint32 [W] once it is had, None where it cannot be."""

    __slots__ = ("job", "place", "row")

    def __init__(self, place: Ahead) -> None:
        self.place = place
        self.row: NDArray[np.uint32] | None = None
        self.job: Job | None = None

    @property
    def done(self) -> bool:
        """Whether its matcher is no longer at work."""
        return self.job is None or self.job.done


class Followed:
    """A guess in the making: `draft` is what its matcher takes of it, None if that is nothing."""

    __slots__ = ("draft",)

    def __init__(self) -> None:
        self.draft: Draft | None = None


@dataclass(slots=True)
class Rows:
    """`masks`: uint32 [choices and places, W]; None: every token is allowed everywhere.

    `faults`: whose matcher raised; `late`: numbers of the choices whose masks are not there. The rows of both are free.
    """

    masks: NDArray[np.uint32] | None
    faults: list[tuple[Choice, GrammarFault]] = field(default_factory=list)
    late: list[int] = field(default_factory=list)


class Matching:
    """Sees to the matchers of the constrained choices. Used by the engine's thread."""

    def __init__(self, masks: Masks, jumps: Jumps | None) -> None:
        self._masks = masks
        self._jumps = jumps
        self._workers = Workers("slipcast-matching")
        self._courses: dict[Choice, Course] = {}
        self._taking: dict[Course, None] = {}
        self._kept: dict[Course, None] = {}
        self._patience = LEAST_PATIENCE
        self.waited_seconds = 0.0
        self.late = 0
        """How often a choice was not ready in time."""

    def begin(self, choice: Choice) -> None:
        """A constrained choice enters the engine: its first mask is begun."""
        course = self._courses[choice] = Course(choice, self._masks.width)
        self._ask(course)

    def end(self, choice: Choice) -> None:
        """The choice is over. What its matcher is doing is done in vain."""
        course = self._courses.pop(choice, None)
        if course is not None:
            self._taking.pop(course, None)
            self._kept.pop(course, None)

    def close(self) -> None:
        """End the threads."""
        self._workers.close()

    def stepped(self, seconds: float) -> None:
        """The model's last step took so long."""
        self._patience = min(max(seconds / 2, LEAST_PATIENCE), MOST_PATIENCE)

    @property
    def seconds(self) -> float:
        """CPU time that the threads have spent on matchers."""
        return self._workers.seconds

    # ---- taking tokens

    def take(self, choice: Choice, drawn: Drawn) -> None:
        """The token was drawn: its matcher takes it, and then makes the next mask."""
        course = self._courses[choice]
        course.drawn, course.taken, course.kept = drawn, None, None
        course.taking, course.masked = True, False
        course.place += 1
        self._taking[course] = None
        self._kept.pop(course, None)
        if not self._take_at_once(course, drawn.token):
            course.job = self._workers.put(partial(self._take, course, drawn.token))

    def is_taking(self, choice: Choice) -> bool:
        """Whether a drawn token is not part of the output yet; until then nothing is drawn for the choice."""
        course = self._courses.get(choice)
        return course is not None and course.taking

    def taken(self, choices: Iterable[Choice] | None = None) -> list[tuple[Choice, Drawn, Taken | GrammarFault]]:
        """What has been taken since this was last asked: of these choices, after a little wait, or of all."""
        if choices is not None:
            self._wait(course for choice in choices if (course := self._courses.get(choice)) and course.taking)
        found: list[tuple[Choice, Drawn, Taken | GrammarFault]] = []
        for course in [course for course in self._taking if course.job is not None and course.job.done]:
            del self._taking[course]
            course.taking = False
            outcome = course.taken or course.fault
            assert course.drawn is not None and outcome is not None
            found.append((course.choice, course.drawn, outcome))
            if course.taken is not None and not course.taken.complete and not course.masked:
                self._ask(course)
        return found

    # ---- drafts

    def follow(self, guesses: Mapping[Choice, Sequence[int]], ends: Container[int]) -> dict[Choice, Draft]:
        """Drafts of guessed tokens, up to those that end an output or that grammars refuse. A choice whose matcher
        takes long for it has none, and is not asked for another until that is done.
        """
        drafts: dict[Choice, Draft] = {}
        asked: list[tuple[Choice, Followed, Job]] = []
        for choice, tokens in guesses.items():
            course = self._courses.get(choice)
            if course is None:
                draft = follow(None, tokens, ends)
                if draft is not None:
                    drafts[choice] = draft
            elif course.following.done:
                followed = Followed()
                course.following = self._workers.put(partial(_follow, course, followed, tokens, ends))
                asked.append((choice, followed, course.following))
        self._wait((), [job for _, _, job in asked])
        return drafts | {choice: each.draft for choice, each, job in asked if job.done and each.draft is not None}

    def look(self, wanted: Sequence[tuple[Choice, Matcher, int]]) -> list[AheadMask]:
        """The place and mask after one more token, for matchers of choices or forks of these; waits a little."""
        masks = [AheadMask(Ahead(None)) for _ in wanted]
        for mask, (choice, matcher, token) in zip(masks, wanted, strict=True):
            mask.job = self._workers.put(partial(_look, self._courses[choice], mask, matcher, token, self._masks.width))
        self._wait((), [mask.job for mask in masks if mask.job is not None])
        return masks

    def row(self, choice: Choice) -> NDArray[np.uint32]:
        """uint32 [W]: the mask of the choice's next token, which `is_masked`."""
        course = self._courses.get(choice)
        return self._masks.free(1)[0] if course is None else course.row.copy()

    # ---- masks

    def ahead(self, places: Sequence[Ahead]) -> list[AheadMask]:
        """Masks along drafts are begun."""
        masks = [AheadMask(place) for place in places]
        for mask in masks:
            if mask.place.matcher is not None:
                mask.job = self._workers.put(partial(_fill_ahead, mask, self._masks.width))
        return masks

    def is_masked(self, choice: Choice) -> bool:
        """Whether the mask of the choice's next token is there; True where it needs none."""
        course = self._courses.get(choice)
        return course is None or (course.job is not None and course.job.done and not course.taking)

    def wait_masks(
        self, choices: Iterable[Choice], ahead: Sequence[AheadMask] = (), *, seconds: float | None = None
    ) -> None:
        """Wait a little for the masks of these choices and places."""
        courses = [course for choice in choices if (course := self._courses.get(choice)) and not course.taking]
        self._wait(courses, [mask.job for mask in ahead if mask.job is not None], seconds)

    def rows(self, choices: Sequence[Choice], ahead: Sequence[AheadMask] = ()) -> Rows:
        """The masks of choices, and after them those along drafts."""
        courses = [self._courses.get(choice) for choice in choices]
        if not self._masks.padded and not any(courses):  # then nothing along drafts is constrained either
            return Rows(None)
        result = Rows(self._masks.free(len(choices) + len(ahead)))
        assert result.masks is not None
        for i, course in enumerate(courses):
            if course is None:
                continue
            if not self.is_masked(course.choice):
                result.late.append(i)
            elif course.fault is not None:
                result.faults.append((course.choice, course.fault))
            else:
                result.masks[i] = course.row
        for i, mask in enumerate(ahead, len(choices)):
            if mask.place.matcher is None:
                continue
            if mask.row is None:
                mask.place.sound = False  # it is met again when the output has come so far, if it does
            else:
                result.masks[i] = mask.row
        return result

    def keep(self, choice: Choice, logits: NDArray[np.float32]) -> None:
        """The choice's mask is late: what the model said waits for it."""
        self.late += 1
        course = self._courses[choice]
        course.kept = logits.copy()
        self._kept[course] = None

    def resumed(self) -> list[tuple[Choice, NDArray[np.float32]]]:
        """Choices whose masks have come late, with what the model had said."""
        found = []
        for course in [course for course in self._kept if self.is_masked(course.choice)]:
            del self._kept[course]
            assert course.kept is not None
            found.append((course.choice, course.kept))
            course.kept = None
        return found

    def rest(self) -> bool:
        """Nothing else is to be done: wait a little for what matchers are doing; False if that is nothing."""
        busy = [*self._taking, *self._kept]
        self._wait(busy, seconds=LEAST_PATIENCE)
        return bool(busy)

    def _ask(self, course: Course) -> None:
        course.job = self._workers.put(partial(_fill, course, course.place))

    def _take_at_once(self, course: Course, drawn: int) -> bool:
        """Take the token and fill the mask here, where that takes less than to have it done; whether it was done."""
        choice = course.choice
        if course.job is None or not course.job.done or choice.way is None or not is_foreseeing(choice.matcher):
            return False
        if choice.owner.request.explain or len(choice.way.data) >= choice.left:
            return False  # where it stands in the schema, or whether fewer tokens spell the way, takes longer to tell
        forced = self._jumps is not None and self._jumps.applies(choice)
        with choice.matcher.at_once(drawn, choice.way, forced=forced) as known:
            if known:
                self._take(course, drawn)
                if course.taken is not None and not course.taken.complete and not course.masked:
                    _fill(course, course.place)
                course.job = DONE
        return known

    # ---- by the workers, or at once

    def _take(self, course: Course, drawn: int) -> None:
        with course.lock:
            course.masked = False  # again: a mask was perhaps in the making when the token was drawn under a draft's
            try:
                course.taken = self._taken(course, drawn)
            except GrammarFault as error:
                course.fault = error
            except Exception as error:
                course.fault = _fault(error)

    def _taken(self, course: Course, drawn: int) -> Taken:
        choice = course.choice
        assert choice.matcher is not None
        pointers = Pointers(choice)
        pointers.note()
        token = advance(choice, drawn)
        if token is None:
            return Taken([], complete=True, accepting=True)
        tokens = [token]
        if self._ends_with(course):
            return Taken(tokens, complete=True, accepting=True, pointers=pointers.told)
        if self._jumps is not None and not course.masked:
            for forced in self._jumps.take(choice, token):
                pointers.note()
                advance_by(choice, forced)
                tokens.append(forced)
            if len(tokens) > 1 and self._ends_with(course):
                return Taken(tokens, complete=True, accepting=True, pointers=pointers.told)
        return Taken(tokens, complete=False, accepting=choice.matcher.is_accepting(), pointers=pointers.told)

    def _ends_with(self, course: Course) -> bool:
        """Whether only an end token may follow; where the text may end, the mask is filled with that."""
        matcher = course.choice.matcher
        assert matcher is not None
        if not matcher.is_accepting():
            return False
        matcher.fill_mask(course.row)
        course.masked = True
        return self._masks.only_ends(course.row)

    def _wait(self, courses: Iterable[Course], jobs: Iterable[Job] = (), seconds: float | None = None) -> None:
        waited = [course.job for course in courses if course.job is not None and not course.job.done]
        waited += [job for job in jobs if not job.done]
        if waited:
            started = time.perf_counter()
            with INTERPRETER.wanted():
                self._workers.wait(waited, self._patience if seconds is None else seconds)
            self.waited_seconds += time.perf_counter() - started


def _fill(course: Course, place: int) -> None:
    """The mask of the next token; `place`: of the course, as it was when this was asked."""
    with course.lock:
        if course.place != place:  # a token is being taken already: it was drawn under the mask of a draft
            return
        try:
            assert course.choice.matcher is not None
            course.choice.matcher.fill_mask(course.row)
            course.masked = True
        except Exception as error:
            course.fault = _fault(error)


def _fill_ahead(mask: AheadMask, width: int) -> None:
    row = np.zeros(width, np.uint32)
    # A fault is told when the output itself comes to it.
    with suppress(Exception):
        assert mask.place.matcher is not None
        mask.place.matcher.fill_mask(row)
        mask.row = row


def _follow(course: Course, followed: Followed, tokens: Sequence[int], ends: Container[int]) -> None:
    fork = _fork(course, course.choice.matcher)
    if fork is not None:
        followed.draft = follow(fork, tokens, ends)


def _look(course: Course, mask: AheadMask, matcher: Matcher, token: int, width: int) -> None:
    fork = _fork(course, matcher)
    with suppress(Exception):
        if fork is not None and fork.accept(token):
            mask.place.matcher = fork
            _fill_ahead(mask, width)


def _fork(course: Course, matcher: Matcher | None) -> Matcher | None:
    """None where it cannot be copied."""
    with course.lock, suppress(Exception):
        if is_forking(matcher):
            fork: Matcher = matcher.fork()
            return fork
    return None


def _fault(error: Exception) -> GrammarFault:
    fault = GrammarFault(f"the grammar's matcher raised {type(error).__name__}: {error}")
    fault.__cause__ = error
    return fault
