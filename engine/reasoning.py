"""Thinking before the answer: free text up to an end marker, then what the grammar says.

A reasoning model first thinks, between markers as `<think>` and `</think>`, and only then answers. Its grammar is for
the answer alone. While it thinks every ordinary token is allowed, but for those that hold the end of the marker and
more: so the marker, however its bytes are split, ends with a token, and the grammar begins with the next one. No end
token comes before the answer is complete; and since a way out is known all the time, marker and answer fit the budget.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..plugins.protocols import GuidedMatcher, MaskRows, Matcher, WayOut
from ..samplers import masks as bits
from .abilities import is_foreseeing, is_forking, is_guided
from .errors import EngineError, RequestError
from .request import Reasoning
from .text import StopMatch, TextStream
from .tokenizer import TextTokenizer


def is_open(prompt: str, reasoning: Reasoning) -> bool:
    """Whether thinking may follow the prompt: templates close it at once where it is switched off."""
    closed, opened = prompt.rfind(reasoning.end), prompt.rfind(reasoning.start) if reasoning.start else -1
    return closed < 0 or closed < opened or bool(prompt[closed + len(reasoning.end) :].strip())


class Marker:
    """A marker and the masks before it; one for each engine and marker, safe for threads."""

    def __init__(self, text: str, tokenizer: TextTokenizer, vocabulary_size: int) -> None:
        """Raises RequestError if the vocabulary cannot spell it."""
        self.text = text
        self.data = text.encode()
        # A special token has no bytes, but it is the marker nevertheless.
        self.ids = frozenset(id_ for id_ in tokenizer.special_ids if tokenizer.name(id_) == text)
        self._size = vocabulary_size
        self._tokens = [tokenizer.bytes_of(id_) for id_ in range(min(tokenizer.size, vocabulary_size))]
        ends = frozenset(tokenizer.eos_ids) | tokenizer.special_ids
        plain = [id_ for id_, data in enumerate(self._tokens) if data and id_ not in ends]
        self._free = bits.pack([*plain, *self.ids], vocabulary_size)
        self._holding = [id_ for id_ in plain if self.data[-1:] in self._tokens[id_]]
        self._masks: dict[bytes, NDArray[np.uint32]] = {}
        self._spelled = {}
        for matched in range(len(self.data)):
            self._spelled[matched] = self._spell(self.data[matched:], tokenizer)

    def bytes_of(self, token: int) -> bytes:
        """A token's bytes; b"" for special ones and what is no token."""
        return self._tokens[token] if 0 <= token < len(self._tokens) else b""

    def matched(self, tail: bytes) -> int:
        """How many bytes of the marker the text ends with."""
        return next(n for n in range(min(len(tail), len(self.data) - 1), -1, -1) if tail.endswith(self.data[:n]))

    def rest(self, matched: int) -> tuple[int, ...]:
        """Tokens of what is left of the marker."""
        return tuple(self.ids)[:1] if self.ids and not matched else self._spelled[matched]

    def mask(self, matched: int) -> NDArray[np.uint32]:
        """uint32 [W]: what may come where `matched` bytes of the marker came last."""
        before = self.data[:matched]
        known = self._masks.get(before)
        if known is None:
            crossing = [id_ for id_ in self._holding if 0 <= (before + self._tokens[id_]).find(self.data)
                        < len(before) + len(self._tokens[id_]) - len(self.data)]  # fmt: skip
            known = self._masks[before] = self._free & ~bits.pack(crossing, self._size)
        return known

    def _spell(self, data: bytes, tokenizer: TextTokenizer) -> tuple[int, ...]:
        found = tokenizer.encode(data.decode("utf-8", "replace"), special=False)
        if b"".join(map(tokenizer.bytes_of, found)) == data:
            return tuple(found)
        single = {token: id_ for id_, token in reversed(list(enumerate(self._tokens))) if len(token) == 1}
        if not all(data[i : i + 1] in single for i in range(len(data))):
            raise RequestError(f"the vocabulary cannot spell the marker {self.text!r}", param="reasoning")
        return tuple(single[data[i : i + 1]] for i in range(len(data)))


class Markers:
    """The markers that requests have used."""

    def __init__(self, tokenizer: TextTokenizer, vocabulary_size: int) -> None:
        self._tokenizer = tokenizer
        self._size = vocabulary_size
        self.free = bits.pack(range(min(tokenizer.size, vocabulary_size)), vocabulary_size)
        """uint32 [W]: every token."""
        self._known: dict[str, Marker] = {}
        self._lock = threading.Lock()

    def get(self, text: str) -> Marker:
        """The marker of this text. Raises RequestError if it cannot be spelled."""
        with self._lock:
            if text not in self._known:
                if len(self._known) >= 64:  # requests choose them
                    self._known.clear()
                self._known[text] = Marker(text, self._tokenizer, self._size)
            return self._known[text]


@dataclass(frozen=True, slots=True)
class _Place:
    """While thinking. `tail`: the last bytes; `count`: tokens so far; `forced`: what is left of the marker to take."""

    tail: bytes = b""
    count: int = 0
    forced: tuple[int, ...] | None = None


class ReasoningMatcher:
    """Thinking, then the `answer`'s matcher; None: then anything, so that thinking alone is bounded."""

    def __init__(self, marker: Marker, answer: Matcher | None, budget: int | None, free: NDArray[np.uint32]) -> None:
        """`free`: uint32 [W], the mask where everything is allowed."""
        self._marker, self._answer, self._budget, self._free = marker, answer, budget, free
        self._place: _Place | None = self._bounded(_Place())
        self._history: list[_Place | None] = []

    @property
    def thinking(self) -> bool:
        """Whether the marker is still to come."""
        return self._place is not None

    def fill_mask(self, row: MaskRows) -> None:
        """Writes what may come next."""
        if self._place is None:
            if self._answer is None:
                row[:] = self._free
            else:
                self._answer.fill_mask(row)
        elif self._place.forced is not None:
            row[:] = bits.pack(self._place.forced[:1], self._marker._size)
        else:
            row[:] = self._marker.mask(self._marker.matched(self._place.tail))

    def accept(self, token: int) -> bool:
        """Moves on by a token."""
        place = self._place
        if place is None:
            if self._answer is not None and not self._answer.accept(token):
                return False
        elif place.forced is not None:
            if token != place.forced[0]:
                return False
            self._place = None if len(place.forced) == 1 else _Place(place.tail, place.count, place.forced[1:])
        elif token in self._marker.ids:
            self._place = None
        else:
            data, end = self._marker.bytes_of(token), self._marker.data
            text = place.tail + data
            at = text.find(end)
            if not data or 0 <= at < len(text) - len(end):
                return False
            self._place = None if at >= 0 else self._bounded(_Place(text[-len(end) :], place.count + 1))
        self._history.append(place)
        return True

    def rollback(self, count: int = 1) -> None:
        """Takes back the last tokens."""
        for _ in range(count):
            place = self._history.pop()
            if place is None and self._answer is not None:
                if not is_guided(self._answer):
                    raise EngineError("the grammar's matcher cannot take tokens back")
                self._answer.rollback(1)
            self._place = place

    def is_accepting(self) -> bool:
        """Whether the answer may end here."""
        return self._place is None and self._answer is not None and self._answer.is_accepting()

    def fork(self) -> Any:
        """An independent matcher at the same place. Raises EngineError where the answer's matcher knows no forks."""
        answer: Matcher | None = None
        if self._answer is not None:
            if not is_forking(self._answer):
                raise EngineError("the grammar's matcher cannot be copied")
            answer = self._answer.fork()
        fork = type(self)(self._marker, answer, self._budget, self._free)
        fork._place, fork._history = self._place, self._history.copy()
        return fork

    def pointer(self) -> str | None:
        """Of the schema's part that is in force; None while thinking, or where the answer's matcher has none."""
        pointer = getattr(self._answer, "pointer", None)
        return None if self.thinking or pointer is None else pointer()

    def _bounded(self, place: _Place) -> _Place:
        if self._budget is None or place.count < self._budget:
            return place
        return _Place(place.tail, place.count, self._marker.rest(self._marker.matched(place.tail)))


class GuidedReasoningMatcher(ReasoningMatcher):
    """One whose answer's matcher knows its ways out."""

    @property
    def _guided(self) -> GuidedMatcher:
        assert is_guided(self._answer)
        return self._answer

    def forced(self) -> bytes:
        """The bytes that must come; none while thinking."""
        return b"" if self.thinking else self._guided.forced()

    def way_out(self) -> WayOut:
        """The marker and a shortest answer."""
        answer = self._guided.way_out()
        if self._place is None:
            return answer
        rest = self._place.forced
        if rest is None:
            rest = self._marker.rest(self._marker.matched(self._place.tail))
        return _ThinkingWay(self._marker, tuple(rest), answer)

    def way_home(self, way: Any, count: int) -> WayOut | None:
        """A way of at most `count` tokens, None if none is known."""
        if self._place is not None:
            found = self.way_out()
            return found if found.fits(count) else None
        return self._guided.way_home(way.answer if isinstance(way, _ThinkingWay) else way, count)

    def at_once(self, token: int, way: Any, *, forced: bool) -> AbstractContextManager[bool]:
        """Whether taking a token is quick: while thinking goes on, and where the answer's matcher says so."""
        if self._place is not None:
            thinks = self._place.forced is None and token not in self._marker.ids
            return nullcontext(thinks and self._marker.data not in self._place.tail + self._marker.bytes_of(token))
        if not is_foreseeing(self._answer) or isinstance(way, _ThinkingWay):
            return nullcontext(False)
        return self._answer.at_once(token, way, forced=forced)


@dataclass(frozen=True, slots=True)
class _ThinkingWay:
    """What is left of the marker, and then the way that `answer` is."""

    marker: Marker
    rest: tuple[int, ...]
    answer: WayOut

    @property
    def data(self) -> bytes:
        return b"".join(map(self.marker.bytes_of, self.rest)) + self.answer.data

    @property
    def tokens(self) -> Sequence[int] | None:
        tokens = self.answer.tokens
        return None if tokens is None else (*self.rest, *tokens)

    def fits(self, count: int) -> bool:
        return self.answer.fits(count - len(self.rest))

    def after(self, start: int) -> Any:
        """Only at token boundaries; nothing is forced while thinking, so nobody asks for others."""
        rest = self.rest
        while rest and start >= len(self.marker.bytes_of(rest[0])):
            start -= len(self.marker.bytes_of(rest[0]))
            rest = rest[1:]
        return _ThinkingWay(self.marker, rest, self.answer) if rest else self.answer.after(start)

    def step(self) -> tuple[int, Any]:
        left = self.rest[1:]
        return self.rest[0], _ThinkingWay(self.marker, left, self.answer) if left else self.answer


def reasoning_matcher(
    marker: Marker, answer: Matcher | None, budget: int | None, free: NDArray[np.uint32]
) -> ReasoningMatcher:
    """The matcher of an output that begins with thinking."""
    kind = GuidedReasoningMatcher if is_guided(answer) else ReasoningMatcher
    return kind(marker, answer, budget, free)


class ReasoningStream(TextStream):
    """The text of a choice that thinks first: `thought` gathers the thinking, what is pushed out is the answer.

    Both begin without the blank lines that models put around markers.
    """

    def __init__(self, reasoning: Reasoning, marker_ids: frozenset[int], stops: Sequence[str] = ()) -> None:
        """`marker_ids`: special tokens that are the end marker; they have no bytes."""
        super().__init__(stops)
        self._start, self._end = reasoning.start, reasoning.end
        self._ids = marker_ids
        self._thinking = True
        self._held = ""  # may become the end marker
        self._lead: str | None = ""  # may become the start marker; None: that is behind
        self._blank = True  # nothing but line breaks came yet, of the thinking or of the answer

    def push(self, data: bytes, token: int = -1) -> str | StopMatch:
        """The answer's text that is safe to give out after a token."""
        if not self._thinking:
            return self._answer(self._decoder.decode(data))
        self.thought_tokens += 1
        if token in self._ids:
            self._end_thinking(self._held)
            return ""
        held = self._held + self._decoder.decode(data)
        at = held.find(self._end)
        if at >= 0:
            self._end_thinking(held[:at])
            return self._answer(held[at + len(self._end) :])
        keep = min(len(held), len(self._end) - 1)
        while not self._end.startswith(held[len(held) - keep :]):
            keep -= 1
        self._held = held[len(held) - keep :]
        self._think(held[: len(held) - keep])
        return ""

    def flush(self) -> str:
        """The rest of the answer, at the end of the output."""
        if self._thinking:
            self._end_thinking(self._held)
        return super().flush()

    def _think(self, text: str) -> None:
        if self._lead is not None:
            lead = (self._lead + text).lstrip()
            if len(lead) < len(self._start) and self._start.startswith(lead):
                self._lead = lead
                return
            self._lead, text = None, lead.removeprefix(self._start)
        self.thought += self._without_blank(text)

    def _end_thinking(self, text: str) -> None:
        self._think(text)
        if self._lead is not None:  # it was not the start marker
            self.thought += self._lead
        self._thinking, self._held, self._blank = False, "", True

    def _answer(self, text: str) -> str | StopMatch:
        return self._finder.push(self._without_blank(text))

    def _without_blank(self, text: str) -> str:
        if self._blank:
            text = text.lstrip("\n")
            self._blank = not text
        return text
